"""Writing a safetensors file one tensor after the other, so that no process need hold all of them.

The format is a JSON header behind its length, then the tensors' bytes (https://github.com/huggingface/safetensors); the
file has the bytes that the package itself writes for the same float32 tensors.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from smelt.artifacts import replacing
from smelt.training.processes import rank

ALIGNMENT = 8  # bytes of the header


def write(
    path: Path, shapes: Mapping[str, Sequence[int]], whole: Callable[[str], Tensor], metadata: tuple[str, str]
) -> None:
    """Write float32 tensors of these names and shapes, which `whole` gives one by one, and one entry of metadata.

    All processes call it, and `whole` on all of them, in the same order; the first one writes. It is on the disk before
    the file has its name.
    """
    names = sorted(shapes)
    with contextlib.ExitStack() as stack:
        file = None
        if rank() == 0:
            file = stack.enter_context(open(stack.enter_context(replacing(path)), "wb"))
            file.write(_header(names, shapes, metadata))
        for name in names:
            tensor = whole(name)
            if file is not None:
                file.write(tensor.detach().cpu().contiguous().numpy().data)
        if file is not None:
            file.flush()
            os.fsync(file.fileno())


def _header(names: Sequence[str], shapes: Mapping[str, Sequence[int]], metadata: tuple[str, str]) -> bytes:
    """One entry of metadata alone: safetensors itself writes several in the order of a randomly seeded hash."""
    table: dict[str, object] = {"__metadata__": dict([metadata])}
    end = 0
    for name in names:
        start, count = end, 4
        for size in shapes[name]:
            count *= size
        end = start + count
        table[name] = {"dtype": "F32", "shape": list(shapes[name]), "data_offsets": [start, end]}
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
