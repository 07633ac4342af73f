"""The tensors of a published checkpoint under the names of its architecture, each used once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fluxformer.state_dict import listed, read_tensors
from fluxformer.tensors import Tensor, Unfit, sizes

OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class Checkpoint:
    """Hands out tensors whose shape is that of config.json, and keeps track of unused ones.

    Parameters
    ----------
    path : str
    prefix : str
        Pattern of what may precede a name (model.bert.).
    ignored : str
        Pattern of the names, without prefix, that hold nothing to compute with.

    Raises
    ------
    RunError
        If the file cannot be read.
    Unfit
        If two of its names mean the same tensor.
    """

    def __init__(self, path: str, prefix: str, ignored: str) -> None:
        self.path = path
        self._published: dict[str, str] = {}  # name here: name in the file
        self._tensors: dict[str, Tensor] = {}
        for name, tensor in read_tensors(path).items():
            here = re.sub(rf"^(?:{prefix})", "", name)
            for old, new in OLD_NAMES.items():
                here = re.sub(rf"{re.escape(old)}$", new, here)
            if re.fullmatch(ignored, here):
                continue
            if here in self._tensors:
                raise Unfit(f"{path}: {self._published[here]} and {name} are the same tensor")
            self._published[here], self._tensors[here] = name, tensor
        self._left = set(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def any(self, beginning: str) -> bool:
        """True if a name begins so."""
        return any(name.startswith(beginning) for name in self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor that must be there."""
        if name not in self._tensors:
            raise Unfit(f"{self.path}: {name} is missing; it holds {listed(self._published.values())}")
        return self._tensors[name].shape

    def take(self, name: str, *shape: int) -> Tensor:
        """Takes the tensor of this name and shape. Unfit if it is not there or has another shape."""
        found = self.shape(name)
        if found != shape:
            raise Unfit(f"{self.path}: {self._published[name]} is {sizes(found)} where config.json makes it {sizes(shape)}")
        self._left.discard(name)
        return self._tensors[name]

    def drop(self, beginning: str) -> list[str]:
        """Leaves out the unused tensors whose names begin so; returns their names in the file."""
        names = sorted(name for name in self._left if name.startswith(beginning))
        self._left -= set(names)
        return [self._published[name] for name in names]

    def refuse_left(self, known: Iterable[str]) -> None:
        """Unfit if tensors were not used."""
        if self._left:
            raise Unfit(f"{self.path}: no place for {listed(self._published[name] for name in self._left)}; a model file takes the tensors of "
                        f"{', '.join(known)}, of as many layers as config.json says")
