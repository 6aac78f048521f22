"""A study file with former keys: one line that names the new ones."""

import re

import pytest

from smelt.errors import UserError
from smelt.study.renamed import RENAMED, check_keys
from smelt.study.schema import study_schema

SCHEMA = study_schema()
FORMER = [(section, old, new) for section, keys in RENAMED.items() for old, new in keys.items()]


@pytest.mark.parametrize(("section", "old", "new"), FORMER, ids=lambda value: value.split(":")[0])
def test_a_former_key_names_the_new_one(read, section, old, new):
    place = f"{section}/{old}" if section else old
    with pytest.raises(UserError, match=re.escape(f"renamed keys: {place.replace('/', '.')} (write {new})")):
        read({place: {} if not section else 1})


@pytest.mark.parametrize("section", ["cells/H16-S85", "runs/smelt-H16-S85"])
def test_overrides_too(read, section):
    with pytest.raises(UserError, match=re.escape(f"{section.replace('/', '.')}.clip (write gradient_clip)")):
        read({f"{section}/clip": 0.5})


def test_all_of_a_file_are_named_at_once(read):
    with pytest.raises(UserError, match=r"watch \(write monitoring\), training\.clip .*, scaling\.draws "):
        read({"scaling/draws": 3, "training/clip": 1, "watch": {}})


def test_new_keys_are_known_and_former_ones_are_not():
    properties = SCHEMA["properties"]
    for section, old, new in FORMER:
        known = properties if not section else properties[section].get("properties", {})
        assert old not in known
        assert new.split(":")[0] in known


@pytest.mark.parametrize("config", [None, [], {"training": None, "cells": 3}])
def test_what_is_no_mapping_is_left_to_the_schema(config):
    check_keys(config)
