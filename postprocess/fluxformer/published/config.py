"""The config.json of a published checkpoint: its entries with their types, and what the program cannot compute."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from fluxformer.hdf5_file import regular_file
from fluxformer.text import once
from fluxformer.tensors import Unfit

MOST = 1_000_000_000  # largest whole number, as in the program
LONGEST = 50_000_000  # bytes; the largest have some thousand class names
# Published names of what the program computes. gelu_fast has rounded constants, quick_gelu is another function.
ACTIVATIONS = {"gelu": "gelu_erf", "gelu_python": "gelu_erf", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


class Config:
    """What config.json, or another file of entries, says. An entry of another type or outside its range raises Unfit, which names it.

    Attributes
    ----------
    path : str
    """

    def __init__(self, path: str, usual: str = "config.json") -> None:
        regular_file(path)
        self.path = path
        if os.path.getsize(path) > LONGEST:
            raise Unfit(f"{path}: not a {usual}: it has {os.path.getsize(path)} bytes")
        try:
            with open(path, "rb") as stream:
                values = json.loads(stream.read().decode("utf-8-sig"), object_pairs_hook=once)  # without a byte-order mark
            if not isinstance(values, dict):
                raise ValueError("it begins with no {")
        except (ValueError, RecursionError) as failure:
            raise Unfit(f"{path}: not a {usual}: {failure}") from None
        self._values: dict[str, Any] = values

    def refuse(self, name: str, why: str) -> Unfit:
        """The exception for the entry `name`."""
        shown = json.dumps(self._values[name]) if name in self._values else "not there"
        shown = shown if len(shown) < 60 else shown[:57] + "..."
        return Unfit(f"{self.path}: {name} = {shown}: {why}" if name in self._values else f"{self.path}: {name} is missing: {why}")

    def has(self, name: str) -> bool:
        """True if there is an entry of this name that is not null."""
        return self._values.get(name) is not None

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """An entry that is a whole number from `least` on; `default` None: it must be there."""
        if default is not None and not self.has(name):
            return default
        value = self._values.get(name)
        if type(value) is not int or not least <= value <= MOST:
            raise self.refuse(name, f"must be a whole number from {least} to {MOST}")
        return value

    def pair(self, name: str) -> tuple[int, int]:
        """An entry that is height and width: two whole numbers, or one for both."""
        value = self._values.get(name)
        if type(value) is int:
            value = [value, value]
        if not isinstance(value, list) or len(value) != 2 or not all(type(one) is int and 1 <= one <= MOST for one in value):
            raise self.refuse(name, "must be one or two whole numbers from 1 on")
        return value[0], value[1]

    def eps(self, name: str, default: float) -> float:
        """The eps of LayerNorm."""
        value = self._values[name] if self.has(name) else default
        if type(value) not in (int, float) or not 0 < value < 1:
            raise self.refuse(name, "must be a number above 0 and below 1")
        return float(value)

    def number(self, name: str, default: float) -> float:
        """An entry that is a finite real number."""
        value = self._values[name] if self.has(name) else default
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self.refuse(name, "must be a number")
        return float(value)

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """An entry that is a list of so many finite real numbers, or one for all."""
        value = self._values.get(name)
        if type(value) in (int, float):
            value = [value] * count
        if not isinstance(value, list) or len(value) != count or not all(type(one) in (int, float) and math.isfinite(one) for one in value):
            raise self.refuse(name, f"must be a number for each of {count} channels")
        return tuple(float(one) for one in value)

    def word(self, name: str, default: str) -> str:
        """An entry that is a text."""
        value = self._values[name] if self.has(name) else default
        if not isinstance(value, str):
            raise self.refuse(name, "must be a text")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """An entry that is true or false."""
        value = self._values[name] if self.has(name) else default
        if not isinstance(value, bool):
            raise self.refuse(name, "must be true or false")
        return value

    def activation(self, name: str, default: str) -> str:
        """Fluxformer's word for an activation."""
        word = self.word(name, default)
        if word not in ACTIVATIONS:
            raise self.refuse(name, f"the program has {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[word]

    def classes(self) -> int | None:
        """The number of classes, if the file says it."""
        if self.has("id2label"):
            if not isinstance(self._values["id2label"], dict):
                raise self.refuse("id2label", "must hold a name for each class")
            return len(self._values["id2label"])
        return self.whole("num_labels") if self.has("num_labels") else None

    def names(self, name: str) -> list[str]:
        """An entry that is a list of texts; empty if it is not there."""
        value = self._values[name] if self.has(name) else []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.refuse(name, "must be a list of texts")
        return value

    def must_be(self, name: str, wanted: object, why: str) -> None:
        """Unfit unless the entry is `wanted`, null or not there."""
        value = self._values.get(name)
        if value is not None and (value != wanted or type(value) is not type(wanted)):
            raise self.refuse(name, why)

    def must_be_empty(self, name: str, why: str) -> None:
        """Unfit unless the entry is {}, [], false, null or not there."""
        if self._values.get(name):
            raise self.refuse(name, why)
