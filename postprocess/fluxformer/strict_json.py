"""JSON from elsewhere, in which no name may stand for two things."""

from __future__ import annotations

from typing import Any


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook` of `json.loads`. ValueError if a name is in it twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is in it twice")
    return found
