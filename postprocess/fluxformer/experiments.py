"""The experiments as the program describes them: experiments.json, which docs/describe.py writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "experiments.json"), encoding="utf-8") as _file:
    _ENTRIES = {one["name"]: one for one in json.load(_file)}


def families() -> dict[str, str]:
    """The family of each experiment, in the order of the program."""
    return {name: one["family"] for name, one in _ENTRIES.items()}


def family_of(experiment: str) -> str | None:
    """The family of an experiment, which may be a former name of several of it; None if the experiment is not known here (a program of
    one's own)."""
    if experiment in _ENTRIES:
        return _ENTRIES[experiment]["family"]
    return experiment if experiment in families().values() else None


def makes_its_data(experiment: str) -> bool:
    """True for an experiment that makes its samples itself: no folder of data can be given."""
    return experiment in _ENTRIES and "data.directory" not in _ENTRIES[experiment]["free"]


def name_today(experiment: str, settings: Mapping[str, Any]) -> str:
    """The name of an experiment: `hessian` was one with the setting hessian.study, each of whose studies is an experiment today."""
    study = settings.get(f"{experiment}.study")
    return f"{experiment}_{study}" if study else experiment


def keys_of(experiment: str, *roles: str) -> frozenset[str]:
    """The keys of an experiment with these roles: output (where, when and what is written), free (ranks, folders, limits),
    permission (what the user allows)."""
    return frozenset(key for role in roles for key in _ENTRIES[experiment][role])
