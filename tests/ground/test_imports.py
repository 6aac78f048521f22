"""Imports point one way: cli -> workflow -> study -> stages -> theory -> ground, and no stage imports a stage."""

import ast
from pathlib import Path

import pytest

import smelt

PACKAGE = Path(smelt.__file__).parent
MODULES = {
    ".".join(["smelt", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
STAGES = {"corpus", "training", "evaluation", "scaling", "reporting"}
# Floors from the top; a room may import its own floor only where that is the ground or the theory.
FLOORS = [
    {"cli"},
    {"workflow"},
    {"study"},
    STAGES,
    {"model", "budgets", "surfaces"},
    {
        "artifacts",
        "errors",
        "job",
        "labels",
        "locks",
        "setting",
        "shards",
        "spec",
        "statistics",
        "tables",
        "user_files",
    },
]
OPEN = FLOORS[-2:]  # floors whose rooms may know one another
MOST_FILES = 14  # of one folder, its __init__ aside


def room(module: str) -> str:
    """The package or module directly below smelt."""
    return module.split(".")[1] if "." in module else ""


def floor(name: str) -> int:
    """How far below the top a room lies."""
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def imports(path: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name in MODULES}


ARROWS = sorted({(name, other) for name, path in MODULES.items() for other in imports(path) if room(other)})


def test_every_room_has_its_floor():
    assert {room(name) for name in MODULES if room(name)} == set().union(*FLOORS)


def test_no_import_points_upwards_or_from_stage_to_stage():
    wrong = [
        f"{name} imports {other}"
        for name, other in ARROWS
        if room(name) != room(other)
        and (
            floor(room(name)) > floor(room(other))
            or (floor(room(name)) == floor(room(other)) and FLOORS[floor(room(name))] not in OPEN)
        )
    ]
    assert wrong == []


def test_theory_is_known_by_no_file_format_and_knows_no_study():
    """`model` and `surfaces` know nothing of each other; `budgets` counts what `model` plans."""
    known = {"model": set(), "surfaces": set(), "budgets": {"model"}}
    for package, theory in known.items():
        found = {room(other) for name, other in ARROWS if room(name) == package} - {package}
        assert found & set(known) <= theory, package


def test_no_circle():
    """Repeatedly take away the modules that import nothing that is left; nothing may stay."""
    left = {name: {other for one, other in ARROWS if one == name} - {name} for name in MODULES}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    assert sorted(left) == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES.values()}), ids=str)
def test_a_folder_can_be_taken_in_at_a_glance(folder):
    files = [path for path in folder.iterdir() if path.suffix == ".py" and path.name != "__init__.py"]
    assert len(files) <= MOST_FILES
