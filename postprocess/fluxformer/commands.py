"""The commands of this package: commands.json, which the program reads, too, to pass them on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """How a command is called, `fluxformer NAME ARGUMENTS`, what it does, and the module of its `main`."""

    name: str
    arguments: str
    sentence: str
    module: str


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "commands.json"), encoding="utf-8") as _file:
    COMMANDS = {one["name"]: Command(**one) for one in json.load(_file)}


def overview() -> str:
    """One line for each command: how it is called, and what it does."""
    calls = {f"{one.name} {one.arguments}": one.sentence for one in COMMANDS.values()}
    widest = max(map(len, calls))
    return "\n".join(f"    fluxformer {call:{widest}}   {sentence}" for call, sentence in calls.items())
