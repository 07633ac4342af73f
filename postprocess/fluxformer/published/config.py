"""The config.json of a published checkpoint: its entries with their types, and what the program cannot compute."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from fluxformer.hdf5_file import regular_file
from fluxformer.text import once
from fluxformer.tensors import Unfit

MOST = 1_000_000_000  # largest whole number, as in the program
LONGEST = 50_000_000  # bytes; the largest have some thousand class names
# Published names of what the program computes. gelu_fast has rounded constants, quick_gelu is another function.
ACTIVATIONS = {"gelu": "gelu_erf", "gelu_python": "gelu_erf", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
GATES = {**ACTIVATIONS, "silu": "silu", "swish": "silu"}  # of gated networks


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
        self._place = ""  # of these entries in the file

    def refuse(self, name: str, why: str) -> Unfit:
        """The exception for the entry `name`."""
        where = f"{self.path}: {self._place}{name}"
        if name not in self._values:
            return Unfit(f"{where} is missing: {why}")
        shown = json.dumps(self._values[name])
        return Unfit(f"{where} = {shown if len(shown) < 60 else shown[:57] + '...'}: {why}")

    def part(self, name: str) -> Config:
        """The entries that the entry `name`, an object, holds."""
        if not isinstance(self._values.get(name), dict):
            raise self.refuse(name, "must hold entries")
        inner = copy.copy(self)
        inner._values, inner._place = self._values[name], f"{self._place}{name}."
        return inner

    def only(self, known: Iterable[str], why: str) -> None:
        """Unfit if there is an entry of another name that is not null."""
        for name in self._values:
            if name not in known and self.has(name):
                raise self.refuse(name, why)

    def has(self, name: str) -> bool:
        """True if there is an entry of this name that is not null."""
        return self._values.get(name) is not None

    def is_null(self, name: str) -> bool:
        """True if there is an entry of this name, and it is null."""
        return name in self._values and self._values[name] is None

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

    def eps_or_0(self, name: str, default: float) -> float:
        """The eps of RMSNorm, which may be 0."""
        return 0.0 if self._values.get(name) == 0 and type(self._values[name]) is not bool else self.eps(name, default)

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

    def activation(self, name: str, default: str, known: Mapping[str, str] = ACTIVATIONS) -> str:
        """Fluxformer's word for an activation, one of `known`."""
        word = self.word(name, default)
        if word not in known:
            raise self.refuse(name, f"the program has {', '.join(known)}")
        return known[word]

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
