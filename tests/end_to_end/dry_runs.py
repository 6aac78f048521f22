"""Dry runs by a process that has imported Snakemake: it forks for each of them, since imports are half their time.

The process has not imported smelt, so that a dry run reads the package of the clone that it is called in. It ends
with the tests, when its standard input is closed.
"""

import functools
import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path


def dry_run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Call Snakemake in a folder, as `python -m snakemake ARGUMENTS` would."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
        call = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        server.stdin.write(json.dumps(call | {"output": output.name, "errors": errors.name}) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(list(arguments), status, output.read(), errors.read())


@functools.cache
def _server() -> "subprocess.Popen[str]":
    """One for each process that runs tests."""
    return subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _serve() -> None:
    import pandas  # noqa: F401 - imported by the workflow
    import pyarrow.parquet  # noqa: F401
    import snakemake.cli  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        call = json.loads(line)
        if (child := os.fork()) == 0:
            _become(call["folder"], call["environment"], call["output"], call["errors"])
            os._exit(_status(call["arguments"]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(folder: str, environment: Mapping[str, str], output: str, errors: str) -> None:
    """Take a folder, from which modules are imported, an environment, and files for all that is printed."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    with open(output, "w") as file, open(errors, "w") as error_file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(error_file.fileno(), sys.stderr.fileno())


def _status(arguments: Sequence[str]) -> int:
    from snakemake.cli import main

    try:
        main(list(arguments))
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    _serve()
