"""The schema of study files is made from the settings, and every key of it reaches somebody."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from smelt.budgets.plan import Assumptions
from smelt.budgets.plan import Settings as PlanSettings
from smelt.budgets.search import GEOMETRY
from smelt.corpus import summary
from smelt.corpus.contexts import heldout, shard, tokenizer
from smelt.corpus.documents import documents
from smelt.corpus.sources import fetch
from smelt.evaluation.settings import EvaluationSettings
from smelt.model.settings import ModelSettings
from smelt.scaling.endpoints import simulate
from smelt.scaling.fitting.point_fit import SOLVERS
from smelt.scaling.fitting.resampling import RESAMPLES
from smelt.scaling.settings import CONVENTIONS
from smelt.scaling.settings import Settings as ScalingSettings
from smelt.setting import setting, settings_of
from smelt.study.schema import FILE, object_schema, study_schema, text
from smelt.study.sections import training
from smelt.surfaces.catalogue import SURFACES
from smelt.training.settings import TrainingSettings

SCHEMA = study_schema()

# Section of the study, settings that are read from it, and those of their fields that come from elsewhere.
SETTINGS = [
    ("training", TrainingSettings, {"seed"}),
    ("scaling", ScalingSettings, {"study", "reference", "sparsity_values"}),
    ("simulation", simulate.Settings, {"s_convention", "surfaces"}),
    ("evaluation", EvaluationSettings, set()),
    ("cost_estimate", Assumptions, set()),
    ("cost_estimate", PlanSettings, {"attention_keys", "runs", "text_megabytes", "branch_jobs"}),
    ("corpus", fetch.Settings, set()),
    ("corpus", documents.Settings, set()),
    ("corpus", tokenizer.Settings, set()),
    ("corpus", shard.Settings, set()),
    ("corpus", heldout.Settings, {"split"}),
    ("corpus", summary.Settings, {"attention_keys"}),
]
SHARED = {"context", "shard_contexts", "heldout_share", "decay_share"}  # of the corpus, which the plan reads too


def test_the_file_for_editors_is_current():
    assert FILE.read_text(encoding="utf-8") == text(), "run: python docs/make_study.py"
    assert yaml.safe_load(text()) == SCHEMA


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def section(name: str) -> dict[str, Any]:
    """The keys of a section."""
    return SCHEMA["properties"][name]["properties"]


@pytest.mark.parametrize(
    ("name", "settings", "elsewhere"), SETTINGS, ids=[f"{cls.__module__}-{name}" for name, cls, _ in SETTINGS]
)
def test_every_setting_of_a_stage_is_a_key_or_comes_from_elsewhere(name, settings, elsewhere):
    fields = {field.name for field in dataclasses.fields(settings)}
    keys = fields - elsewhere - (SHARED if name == "cost_estimate" else set())
    assert elsewhere <= fields
    assert keys == settings_of(settings).keys()
    assert keys <= section(name).keys()


def test_the_choices_of_a_fit_are_those_that_it_knows():
    known = {"surface": SURFACES, "solver": SOLVERS, "resample": RESAMPLES, "s_convention": CONVENTIONS}
    for key, names in known.items():
        assert set(section("scaling")[key]["enum"]) == set(names)


def test_the_plan_reads_the_corpus_by_its_defaults():
    fields = {field.name: field.default for field in dataclasses.fields(PlanSettings) if field.name in SHARED}
    assert fields == {name: section("corpus")[name]["default"] for name in SHARED}


def test_sizes_are_those_of_a_network():
    needed = {field.name for field in dataclasses.fields(ModelSettings) if field.default is dataclasses.MISSING}
    scale = section("grid")["scales"]["additionalProperties"]
    assert needed - {"vocabulary", "experts"} == set(scale["required"]) == set(scale["properties"])
    pinned = section("grid")["geometry"]["additionalProperties"]
    assert set(pinned["required"]) == needed - {"vocabulary", "layers"}
    assert set(pinned["properties"]) == {*GEOMETRY, "note"}


@pytest.mark.parametrize("name", ["cells", "runs"])
def test_an_override_takes_the_keys_of_training_and_no_default(name):
    override = SCHEMA["properties"][name]["additionalProperties"]
    assert override["properties"].keys() == section("training").keys() - {"jobs"}
    assert "required" not in override
    for key, child in override["properties"].items():
        assert child == {word: value for word, value in section("training")[key].items() if word != "default"}


def test_what_the_study_alone_reads_of_training():
    names = {field.name for cls in (training.RunKeys, training.Jobs) for field in dataclasses.fields(cls)}
    assert section("training").keys() - settings_of(TrainingSettings).keys() == names


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    weight: float | None = setting("Weight of the part.", None, unit="kg", exclusive_minimum=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    count: int = setting("Number of parts.", 3, minimum=1, multiple_of=2)
    name: str = setting("Name of the whole.", pattern="^a", reserved=("abc",))
    kind: str = setting("Kind of the whole.", "round", choices=("round", "flat"))
    parts: dict[str, Part] = setting("Parts by name.", {}, names=("^[a-z]+$", "lower case"), min_properties=1)
    sizes: tuple[float, ...] = setting("Sizes.", (1.0,), unique_items=True, each={"maximum": 2})
    ends: tuple[int, int] | float = setting("Ends, or a share.", 0.5, maximum=1, each={"minimum": 0})
    solved: int = setting("What the study works out.", optional=True)
    unsaid: int = 0


def test_a_field_becomes_a_key():
    weight = {"description": "Weight of the part.", "unit": "kg", "type": "number", "exclusiveMinimum": 0}
    part = {"type": "object", "additionalProperties": False, "properties": {"weight": weight}}
    pair = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
    assert object_schema([Example]) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {
            "count": {
                "description": "Number of parts.",
                "type": "integer",
                "minimum": 1,
                "multipleOf": 2,
                "default": 3,
            },
            "name": {
                "description": "Name of the whole.",
                "type": "string",
                "pattern": "^a",
                "not": {"enum": ["abc"]},
            },
            "kind": {"description": "Kind of the whole.", "enum": ["round", "flat"], "default": "round"},
            "parts": {
                "description": "Parts by name.",
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": "^[a-z]+$", "description": "lower case"},
                "additionalProperties": part,
                "default": {},
            },
            "sizes": {
                "description": "Sizes.",
                "type": "array",
                "items": {"type": "number", "maximum": 2},
                "uniqueItems": True,
                "default": [1.0],
            },
            "ends": {
                "description": "Ends, or a share.",
                "oneOf": [pair, {"type": "number", "maximum": 1}],
                "default": 0.5,
            },
            "solved": {"description": "What the study works out.", "type": "integer"},
        },
    }


def test_objects_share_no_default():
    first, second = Example(name="a", solved=1), Example(name="a", solved=1)
    assert first.parts == second.parts == {}
    assert first.parts is not second.parts


def keys_of(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that a study file may hold, with its schema."""
    if not isinstance(node, dict):
        return
    for name, child in node.get("properties", {}).items():
        yield ".".join([*path, name]), child
        yield from keys_of(child, (*path, name))
    yield from keys_of(node.get("additionalProperties"), (*path, "*"))


def test_every_key_says_what_it_means():
    keys = dict(keys_of(SCHEMA))
    assert {"grid.scales.*.heads", "grid.tolerance.kv", "training.steps", "runs.*.gradient_clip"} <= keys.keys()
    assert [key for key, child in keys.items() if len(child.get("description", "")) < 10] == []
    assert [key for key, child in keys.items() if not child["description"].endswith(".")] == []


def test_no_key_is_accepted_unseen():
    """Each object either names its keys and refuses others, or says what any key holds."""

    def open_objects(node: Any, path: str) -> Iterator[str]:
        if isinstance(node, dict):
            if node.get("type") == "object" and "additionalProperties" not in node:
                yield path
            for name, child in node.items():
                yield from open_objects(child, f"{path}.{name}")

    assert [path for path in open_objects(SCHEMA, "") if "learning_rate" not in path and "oneOf" not in path] == []
