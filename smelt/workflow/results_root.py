"""Which study a results root belongs to: one root holds the results of one study."""

import os
from pathlib import Path

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.study.base import Study
from smelt.study.load import CONFIG, is_study

RECORD = "study"  # file in a results root: the path of the study that it belongs to


def check_root(study: Study) -> None:
    """Raise UserError where the study's results root is no folder, or belongs to another study.

    It belongs to another where a study of config/ has this name, or where it holds another's results.
    """
    _check_folder(Path(study.root))
    shipped = CONFIG / f"{study.name}.yaml"
    if shipped.is_file() and is_study(shipped) and study.path.resolve() != shipped.resolve():
        raise UserError(
            f"{study.path}: name: {study.name} is that of config/{shipped.name}, whose results go to {study.root}/; "
            "give it another name"
        )
    other = _recorded(study)
    if other not in ("", _identity(study)) and (CONFIG.parent / other).exists():
        raise UserError(
            f"{study.root}/ holds the results of {other}, and {study.path} has the same name; "
            "give it another `name:`, or move those results away"
        )


def claim_root(study: Study) -> None:
    """Record in its results root which study it holds, after `check_root`."""
    check_root(study)
    if _recorded(study) != _identity(study):
        with replacing(Path(study.root, RECORD)) as temporary:
            temporary.write_text(_identity(study) + "\n", encoding="utf-8")


def _check_folder(root: Path) -> None:
    """Raise UserError where the results root, or a folder above it, cannot be one."""
    for folder in (*reversed(root.parents), root):
        if folder.is_symlink() and not folder.exists():
            raise UserError(
                f"{folder} is a link to {folder.readlink()}, which does not exist; make that folder, or delete the link"
            )
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is no folder, and the results of the study go there; move it away")


def _recorded(study: Study) -> str:
    record = Path(study.root, RECORD)
    return record.read_text(encoding="utf-8").strip() if record.exists() else ""


def _identity(study: Study) -> str:
    """Where the study's file is, from the workflow's folder where it lies inside."""
    path = study.path.resolve()
    return path.relative_to(CONFIG.parent).as_posix() if path.is_relative_to(CONFIG.parent) else os.fspath(path)
