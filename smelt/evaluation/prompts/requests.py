"""What is asked of every model: all contexts and continuations of a study's tasks, in tokens, made once.

Reads the tokenizer and the tasks' files of items; writes one row for each context with the continuations that are
scored after it. Rows stand by task, number of shots, evaluation seed and item. Needs no torch.
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from smelt.artifacts import KEY, field, replacing, table
from smelt.errors import UserError, command
from smelt.evaluation.columns import ITEM_FIELDS
from smelt.evaluation.prompts import prompts
from smelt.evaluation.prompts.demonstrations import SAMPLERS, Shown, demonstrations, repeated, shown_before
from smelt.evaluation.prompts.encoder import Encoder, read_encoder
from smelt.evaluation.tasks.items import Item, read_items, subset
from smelt.evaluation.tasks.registry import Task, shots_taken
from smelt.job import Job, read_job
from smelt.spec import canonical_json, digest

MODULE = "smelt.evaluation.prompts.requests"
GROUP = 2000  # rows in memory, and in a row group of the file
LARGEST = 2**31 - 1  # of a seed: what its column holds

REQUESTS = pa.schema(
    [
        field("tree", pa.string(), "digest of context and continuations: rows that share it are scored once"),
        *ITEM_FIELDS,
        field("option", pa.int32(), "of a schema, which of the item's contexts this is; else 0"),
        field("gold", pa.int32(), "index of the right continuation, of a schema of the right context"),
        field("context", pa.list_(pa.int32()), "tokens of the context, BOS first"),
        field("continuations", pa.list_(pa.list_(pa.int32())), "tokens of each continuation"),
        field("characters", pa.list_(pa.int32()), "length of each continuation without its leading space"),
        field("bytes", pa.list_(pa.int32()), "the same in bytes of UTF-8"),
        field(
            "demonstrations",
            pa.list_(pa.int32()),
            "rows of the demonstrations that the prompt holds uncut, oldest first",
        ),
        field("truncated", pa.int32(), "tokens cut from the context behind BOS, for want of room"),
        field("dropped", pa.int32(), "oldest demonstrations left out whole, for want of room"),
        field("differing", pa.bool_(), "whether a query and its continuation have other tokens as one text"),
    ]
)

# What is said of a task's prompts where it is true of any, in the order of the messages.
NOTES = {
    "fewer": "prompts with fewer demonstrations than asked for, as the pool holds no more",
    "repeated": "prompts with a demonstration that asks the same as the item",
    "truncated": "contexts cut to fit",
    "dropped": "contexts without their oldest demonstrations, to fit",
    "differing": "contexts whose continuation has other tokens as one text with its query",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Tasks, the files that hold their items, and how prompts are made."""

    tasks: tuple[Task, ...]
    files: tuple[str, ...]  # names as the tasks give them, in the order of the paths
    preset_items: int  # of each task; 0 = all
    shots: tuple[int, ...]  # empty = each task's own
    seeds: tuple[int, ...]  # of the demonstrations
    sampler: str
    truncation: str
    context: int  # tokens that the model can be fed

    def __post_init__(self) -> None:
        for name, wanted, holds in (
            ("tasks", "at least one task", bool(self.tasks)),
            ("files", "no file twice", len(set(self.files)) == len(self.files)),
            ("preset_items", "a whole number, 0 for all items", self.preset_items >= 0),
            ("shots", "different whole numbers from 0", _distinct(self.shots)),
            ("seeds", "different whole numbers from 0, at least one", bool(self.seeds) and _distinct(self.seeds)),
            ("seeds", f"none above {LARGEST}", max(self.seeds, default=0) <= LARGEST),
            ("sampler", f"one of {', '.join(SAMPLERS)}", self.sampler in SAMPLERS),
            ("truncation", f"one of {', '.join(prompts.TRUNCATIONS)}", self.truncation in prompts.TRUNCATIONS),
            ("context", "at least 2 tokens", self.context >= 2),
        ):
            if not holds:
                raise UserError(f"requests: {name} is {getattr(self, name)!r}, expected {wanted}")


def shots_of(task: Task, settings: Settings) -> list[int]:
    """Numbers of demonstrations that the task is asked with: its own, or those of the settings that it allows."""
    return shots_taken(task, settings.shots)


def task_rows(
    encoder: Encoder, task: Task, items: Sequence[Item], fixed: Sequence[Item], settings: Settings
) -> Iterator[dict[str, Any]]:
    """Rows of REQUESTS for one task; `items` is its full file, `fixed` that of its fixed demonstrations, if any.

    Prints what should be known of the prompts. Raises UserError that names the row.
    """
    wanted = subset(items, settings.preset_items)
    source = fixed if task.demonstrations else items
    for shots in shots_of(task, settings):
        drawn = shots > 0 and not task.demonstrations
        notes: Counter[str] = Counter()
        total = 0
        for seed in settings.seeds if drawn else (None,):
            for item, shown in zip(wanted, _shown(task, items, fixed, wanted, shots, seed, settings), strict=True):
                notes["fewer"] += len(shown) < shots
                notes["repeated"] += repeated(source, item, shown)
                labels = {"task": task.name, "shots": shots, "seed": seed}
                for row in _rows(encoder, task, item, shown, source, settings):
                    notes.update(key for key in ("truncated", "dropped", "differing") if row[key])
                    total += 1
                    yield labels | row
        for key, text in NOTES.items():
            if notes[key]:
                print(f"{task.name} with {shots} shots, {total} contexts: {notes[key]} {text}", file=sys.stderr)


def _shown(
    task: Task,
    items: Sequence[Item],
    fixed: Sequence[Item],
    wanted: Sequence[Item],
    shots: int,
    seed: int | None,
    settings: Settings,
) -> list[Shown]:
    if task.demonstrations:
        return [shown_before(item, fixed, shots) for item in wanted]
    return demonstrations(task, items, shots, seed or 0, settings.sampler, wanted)


def _rows(
    encoder: Encoder, task: Task, item: Item, shown: Shown, source: Sequence[Item], settings: Settings
) -> Iterator[dict[str, Any]]:
    before = [source[row] for row in shown]
    texts = [prompts.bare(text) for text in prompts.continuations(item, encoder.prefix_space)]
    for tree in prompts.trees(encoder, task, item, before, settings.context, settings.truncation):
        tokens = [tree.context.tolist(), [answer.tolist() for answer in tree.continuations]]
        yield {
            "tree": digest(canonical_json(tokens))[:32],
            "item": item.index,
            "item_id": item.id,
            "category": item.category,
            "option": tree.option,
            "gold": item.gold,
            "context": tree.context,
            "continuations": tree.continuations,
            "characters": [len(text) for text in texts],
            "bytes": [len(text.encode()) for text in texts],
            "demonstrations": shown[len(shown) - tree.whole :],
            "truncated": tree.truncated,
            "dropped": tree.dropped,
            "differing": tree.differing,
        }


def all_rows(encoder: Encoder, settings: Settings, paths: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """Rows of all tasks, one task's items in memory at a time; `paths` gives each file's place. Raises UserError."""
    for task in settings.tasks:
        # The digest is that of the items, not of the file of demonstrations beside them.
        fixed = dataclasses.replace(task, sha256="", file=task.demonstrations)
        before = read_items(_path(task, task.demonstrations, paths), fixed) if task.demonstrations else []
        path = _path(task, task.file, paths)
        items = read_items(path, task)
        try:
            yield from task_rows(encoder, task, items, before, settings)
        except UserError as error:
            raise UserError(f"{path}, {error}") from None
        encoder.known.clear()


def _check_shots(settings: Settings) -> None:
    """Raise UserError where no task takes any of the numbers of demonstrations, and so nothing would be asked."""
    if not any(shots_of(task, settings) for task in settings.tasks):
        most = max(max(task.shots, task.sweep_shots) for task in settings.tasks)
        raise UserError(
            f"requests: shots is {list(settings.shots)}, but no task takes more than {most}; name a smaller number, or"
            " none for each task's own"
        )


def _origin(job: Job[Settings]) -> dict[str, Any]:
    """The file's provenance. Raises UserError where an input cannot be opened."""
    try:
        return job.origin
    except OSError as error:
        raise UserError(
            f"{error.filename}: cannot be read ({error.strerror}); mend the file or its permissions"
        ) from None


def _path(task: Task, file: str, paths: Mapping[str, Path]) -> Path:
    if file not in paths:
        raise UserError(f"requests: {task.name} needs {file}, which is none of `files`; name it and give its path")
    return paths[file]


def _distinct(numbers: Sequence[int]) -> bool:
    return len(set(numbers)) == len(numbers) and all(type(number) is int and number >= 0 for number in numbers)


def write(rows: Iterator[dict[str, Any]], path: Path, origin: Mapping[str, Any]) -> int:
    """Write the rows as they come, `GROUP` in memory at a time; their number."""
    total = 0
    schema = REQUESTS.with_metadata({KEY: canonical_json(origin)})
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        while group := list(islice(rows, GROUP)):
            writer.write_table(table(group, REQUESTS).cast(schema), row_group_size=GROUP)
            total += len(group)
    return total


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["tokenizer", "items*"], ["out"])
    settings, items = job.settings, job.paths("items")
    if len(settings.files) != len(items):
        raise UserError(f"requests: {len(settings.files)} names in `files`, {len(items)} paths; give as many")
    paths = dict(zip(settings.files, items, strict=True))
    _check_shots(settings)
    origin = _origin(job)
    total = write(all_rows(read_encoder(job.path("tokenizer")), settings, paths), job.path("out"), origin)
    print(f"requests: {total} contexts of {len(settings.tasks)} tasks", file=sys.stderr)


if __name__ == "__main__":
    command(main)
