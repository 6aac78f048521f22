"""A study: one YAML file, found, validated, and read as a study of its kind.

A study trains a grid (smelt.study.grid), or its endpoints are supplied or simulated (smelt.study.endpoint_table).
The study knows the settings of the stages; no stage knows the study, so that an added key changes no job that does
not use it. All mistakes are UserErrors that name the key and the fix.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import UserError
from smelt.study.base import Study
from smelt.study.endpoint_table import EndpointStudy, SimulatedStudy
from smelt.study.grid import GridStudy
from smelt.study.schema import study_schema
from smelt.study.validation import completed

CONFIG = Path(__file__).parents[2] / "config"
KINDS: dict[str, type[Study]] = {"endpoints": EndpointStudy, "simulation": SimulatedStudy}  # by their key


def use_this_interpreter() -> None:
    """Let `python` in a job's command mean the interpreter of this process, also where no environment is active."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def chosen(settings: Mapping[str, Any]) -> str:
    """The study that `--config` names, `desk` by default. Raises UserError on any other setting of `--config`."""
    if unknown := sorted(set(settings) - {"study"}):
        raise UserError(
            f"--config {unknown[0]}: unknown; only study=NAME or study=PATH may be given, other settings stand in the "
            "study's file"
        )
    return str(settings.get("study", "desk"))


def find(name: str, folder: Path = CONFIG) -> Path:
    """The file of a study: a name in `folder`, or a path. Raises UserError where there is none."""
    is_path = name.endswith((".yaml", ".yml")) or "/" in name
    path = Path(name) if is_path else folder / f"{name}.yaml"
    if path.is_file() and (is_path or is_study(path)):
        return path
    wrong = f"{path} is no study (a study has a `name:`)" if path.is_file() else f"no file {path}"
    known = [file.stem for file in sorted(folder.glob("*.yaml")) if file.is_file() and is_study(file)]
    raise UserError(f"study={name}: {wrong}; give a path, or one of {', '.join(known)}")


def is_study(path: Path) -> bool:
    """Whether a file has a name as a study has; config/ holds other files too."""
    return bool(re.search(r"^name:", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE))


def read(path: Path) -> Study:
    """The study in a file, validated and complete. Raises UserError, naming the file and the key, on a mistake."""
    try:
        config = completed(path, study_schema())
        kind = next((kind for key, kind in KINDS.items() if key in config), GridStudy)
        study = kind(path, config)
        study.check()
        if "scores" in config and not Path(study.scores).is_file():
            raise UserError(f"scores: no file {study.scores}; the path is taken from the folder of the study file")
        return study
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
