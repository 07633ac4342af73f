"""Texts and JSON from elsewhere, in messages and figures; needs the standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

NO_HOME = "~ is not replaced by a folder here; write the whole path (./~ for a name that begins with ~)"  # as base/deck.cpp says


def one_line(text: str) -> str:
    """The text on one line, with a space for each run of what is not printable (line ends, bytes of a name that are no UTF-8)."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def for_python(message: str) -> str:
    """A message with options of the command line as a caller in Python writes them: --mesh.layers=4 as settings {"mesh.layers": "4"}."""
    for option, argument in (("--unfinished", "unfinished=True"), ("allow output.overwrite", "set overwrite=True")):
        message = message.replace(option, argument)
    return re.sub(r"--(\w+\.\w+)=([\w./+-]*\w)", r'settings {"\1": "\2"}', message)


def enumerated(names: Iterable[str]) -> str:
    """Names as text: "a, b and c"."""
    *first, last = (*names,) or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int, noun: str) -> str:
    """A number of things: "1 seed", "3 seeds"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def seed_list(seeds: list[int]) -> str:
    """Seeds as text, more than two that follow each other by the first and the last: "1 to 10, 12"."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs) or "not recorded"


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON as a dictionary, for `object_pairs_hook` of `json.loads`. ValueError if a name is in it twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is in it twice")
    return found
