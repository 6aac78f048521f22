"""A default stands in config/schema.yaml and in the settings of the stage that uses it: they are equal."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from smelt.budgets.lattice import Lattice
from smelt.budgets.match import Tolerance
from smelt.budgets.search import GEOMETRY
from smelt.corpus import summary
from smelt.corpus.contexts import heldout, shard, tokenizer
from smelt.corpus.documents import documents
from smelt.corpus.sources import fetch
from smelt.evaluation.settings import EvaluationSettings
from smelt.model.settings import ModelSettings
from smelt.scaling.endpoints import simulate
from smelt.scaling.settings import Settings as ScalingSettings
from smelt.study import load as studies
from smelt.training.settings import TrainingSettings

SCHEMA = yaml.safe_load((studies.CONFIG / "schema.yaml").read_text(encoding="utf-8"))
NOTHING = object()

# Section of the schema, settings that are read from it, and those of their fields that come from elsewhere.
SETTINGS = [
    ("training", TrainingSettings, {"seed"}),
    ("scaling", ScalingSettings, {"study", "reference", "sparsity_values"}),
    ("simulation", simulate.Settings, {"s_convention"}),
    ("evaluation", EvaluationSettings, set()),
    ("grid.tolerance", Tolerance, set()),
    ("corpus", fetch.Settings, set()),
    ("corpus", documents.Settings, set()),
    ("corpus", tokenizer.Settings, set()),
    ("corpus", shard.Settings, set()),
    ("corpus", heldout.Settings, set()),
    ("corpus", summary.Settings, {"attention_keys"}),
]
# Keys that no settings hold: what the study itself makes of them.
STUDY_KEYS = {
    "training": {"shared_learning_rate", "save_interval", "jobs"},
    "corpus": {"sources"},
    "scaling": {"reference", "sparsities"},
    "simulation": {"endpoints"},
    "evaluation": {"tasks", "data", "truncation", "baselines", "all_endpoints", "last_endpoint"},
}


def section(path: str) -> dict[str, Any]:
    """The keys of a section of the schema."""
    node = SCHEMA
    for name in path.split("."):
        node = node["properties"][name]
    if "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node["properties"]


def default(field: dataclasses.Field) -> Any:
    """A field's default as plain value."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if field.default is dataclasses.MISSING:
        return NOTHING
    return list(field.default) if isinstance(field.default, tuple) else field.default


@pytest.mark.parametrize(
    ("path", "settings", "elsewhere"), SETTINGS, ids=[f"{cls.__module__}-{path}" for path, cls, _ in SETTINGS]
)
def test_defaults_are_equal(path, settings, elsewhere):
    keys = section(path)
    fields = {field.name: field for field in dataclasses.fields(settings) if field.name not in elsewhere}
    assert elsewhere <= {field.name for field in dataclasses.fields(settings)}
    assert fields.keys() <= keys.keys()
    assert {name: default(field) for name, field in fields.items()} == {
        name: keys[name].get("default", NOTHING) for name in fields
    }


@pytest.mark.parametrize("path", sorted({path for path, _, _ in SETTINGS}))
def test_every_key_is_somebodys(path):
    used = {field.name for section, cls, _ in SETTINGS if section == path for field in dataclasses.fields(cls)}
    assert section(path).keys() - STUDY_KEYS.get(path, set()) <= used


def test_defaults_of_the_grid():
    keys = section("grid")
    model = {field.name: field.default for field in dataclasses.fields(ModelSettings)}
    assert keys["active_experts"]["default"] == model["active_experts"]
    assert keys["tied_embeddings"]["default"] is model["tied_embeddings"]
    for field in dataclasses.fields(Lattice):
        assert keys[field.name]["default"] == field.default
    loop = keys["architectures"]["additionalProperties"]["properties"]
    assert loop["visits"]["default"] == model["visits"]
    needed = {name for name, value in model.items() if value is dataclasses.MISSING}
    scale = keys["scales"]["additionalProperties"]
    assert needed - {"vocabulary", "experts"} == set(scale["required"]) == set(scale["properties"])
    pinned = keys["geometry"]["additionalProperties"]
    assert set(pinned["required"]) == needed - {"vocabulary", "layers"}
    assert set(pinned["properties"]) == {*GEOMETRY, "note"}


def test_the_first_seed_is_that_of_the_settings():
    (seed,) = SCHEMA["properties"]["seeds"]["default"]
    assert seed == next(field.default for field in dataclasses.fields(TrainingSettings) if field.name == "seed")


def keys_of(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that a study file may hold, with its schema."""
    if not isinstance(node, dict):
        return
    for name, child in node.get("properties", {}).items():
        yield ".".join([*path, name]), child
        yield from keys_of(child, (*path, name))
    yield from keys_of(node.get("additionalProperties"), (*path, "*"))
    for name, child in node.get("$defs", {}).items():
        yield from keys_of(child, (*path, f"${name}"))


def test_every_key_says_what_it_means():
    keys = dict(keys_of(SCHEMA))
    assert {
        "grid.scales.*.heads",
        "grid.tolerance.kv",
        "$training.steps",
        "$training_override.gradient_clip",
    } <= keys.keys()
    assert [key for key, child in keys.items() if len(child.get("description", "")) < 10] == []


def test_no_key_is_accepted_unseen():
    """Each object either names its keys and refuses others, or says what any key holds."""

    def open_objects(node: Any, path: str) -> Iterator[str]:
        if isinstance(node, dict):
            if node.get("type") == "object" and "additionalProperties" not in node:
                yield path
            for name, child in node.items():
                yield from open_objects(child, f"{path}.{name}")

    assert [path for path in open_objects(SCHEMA, "") if "learning_rate" not in path and "oneOf" not in path] == []
