"""The tensors of a published checkpoint under the names of its architecture, each used once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fluxformer.state_dict import listed, plain_name, read_tensors
from fluxformer.tensors import Tensor, Unfit, sizes

AVERAGED = "n_averaged"  # torch.optim.swa_utils.AveragedModel counts in it
MODEL = re.compile(r"(?:model\.)*")  # what may precede any name
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def _models(name: str) -> int:
    """How often model. precedes a name."""
    found = MODEL.match(plain_name(name))
    return found.group().count(".") if found else 0


class Checkpoint:
    """Hands out tensors whose shape is that of config.json, and keeps track of unused ones.

    Parameters
    ----------
    path : str
        The file, or the index of several.
    key : str
        The part of the file that is the state dict; "": all of it.
    prefix : str
        Name of the trunk, which may precede a name (bert), or several such names (a|b). Wrappers (module.) and model. may precede it. If it is
        model itself, the trunk has the names with the most of them.
    ignored : str
        Pattern of the names, without prefix, that hold nothing to compute with.
    renamed : sequence of (str, str)
        Patterns of names, without prefix, that newer versions use, and what replaces them.

    Raises
    ------
    RunError
        If the file cannot be read.
    Unfit
        If two of its names mean the same tensor.
    """

    def __init__(self, path: str, key: str, prefix: str, ignored: str, renamed: Sequence[tuple[str, str]] = ()) -> None:
        self.path = path
        self._published: dict[str, str] = {}  # name here: name in the file
        self._tensors: dict[str, Tensor] = {}
        self._trunk: set[str] = set()  # names that had the prefix
        found = read_tensors(path, key)
        of_trunk = re.compile(rf"(?:{prefix})\.")
        depths = {name: _models(name) for name in found}
        wholes = {name: plain_name(name)[len("model.") * depth:] for name, depth in depths.items()}
        named = any(map(of_trunk.match, wholes.values())) or not of_trunk.match("model.")
        deepest = 0 if named else max(depths.values(), default=0)
        for name, tensor in found.items():
            whole = wholes[name]
            here = of_trunk.sub("", whole, count=1) if of_trunk.match(whole) else whole
            for old, new in OLD_NAMES.items():
                here = re.sub(rf"{re.escape(old)}$", new, here)
            for newer, older in renamed:
                here = re.sub(rf"^(?:{newer})", older, here)
            if re.fullmatch(ignored, here) or here == AVERAGED:
                continue
            if of_trunk.match(whole) or 0 < deepest == depths[name]:
                self._trunk.add(here)
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

    def has_prefix(self) -> bool:
        """True if a name told the trunk by its prefix."""
        return bool(self._trunk)

    def drop_heads(self) -> list[str]:
        """Leaves out what is beside the trunk, used or not; returns its names in the file. Nothing if no name tells the trunk by a prefix."""
        names = sorted(set(self._tensors) - self._trunk) if self._trunk else []
        for name in names:
            del self._tensors[name]
        self._left -= set(names)
        return [self._published[name] for name in names]

    def drop_left_beside_trunk(self) -> list[str]:
        """Leaves out the unused tensors beside the trunk; returns their names in the file."""
        names = sorted(self._left - self._trunk) if self._trunk else []
        self._left -= set(names)
        return [self._published[name] for name in names]

    def refuse_left(self, known: Iterable[str]) -> None:
        """Unfit if tensors were not used."""
        if self._left:
            raise Unfit(f"{self.path}: no place for {listed(self._published[name] for name in self._left)}; a model file takes the tensors of "
                        f"{', '.join(known)}, of as many layers as config.json says")
