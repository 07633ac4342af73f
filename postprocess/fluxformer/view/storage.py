"""What a page holds of every array: all of it, or by a stated rule a part, as text that the browser makes numbers of.

Small arrays are held whole. Where all together are too large, the largest are made equally small: the longest axis is halved again and again, of
samples, channels and draws to the first ones, of others to every 2nd, 4th, ... entry that includes the last. Axes of tokens are cut last:
half a picture or half a sentence is worth little.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fluxformer.view.panels import TOKENS, Axis, Panel, Series, Values

MOST = 7_400_000  # bytes of all numbers: as base64 and with plotly.js less than 20 MB
MOST_WEIGHTS = 1_100_000  # of them for the weights of models
FIRST = ("sample", "example", "channel", "word", "chain", "draw", "row", "column", "plane")  # axes of which the first entries are held
BYTES = 4


def kept(shape: Sequence[int], axes: Sequence[str], most: float) -> tuple[slice, ...]:
    """The part of an array that has at most `most` numbers: a slice for each axis.

    Parameters
    ----------
    shape : sequence of int
    axes : sequence of str
        Names of the axes.
    most : float
        Numbers; at least one is kept.
    """
    lengths, strides = list(shape), [1] * len(shape)
    while np.prod(lengths, dtype=float) > most and max(lengths) > 1:
        # An axis of tokens counts as shorter than any other that can still be halved.
        longest = max(range(len(lengths)), key=lambda k: (lengths[k] > 1, axes[k] not in TOKENS, lengths[k]))
        if axes[longest] in FIRST:
            lengths[longest] = -(-lengths[longest] // 2)
        else:
            strides[longest] *= 2
            lengths[longest] = -(-shape[longest] // strides[longest])
    return tuple(slice(0, lengths[k]) if axes[k] in FIRST else slice((shape[k] - 1) % strides[k], None, strides[k]) for k in range(len(shape)))


def in_words(axis: Axis, part: slice) -> str:
    """What is left out of an axis, in a few words; empty if nothing is."""
    start, _, step = part.indices(len(axis))
    held = len(range(*part.indices(len(axis))))
    if held == len(axis):
        return ""
    if step == 1:
        return f"{axis.name} {axis.values[start]:g} to {axis.values[start + held - 1]:g}, the first {held} of {len(axis)}"
    ending = {2: "nd"}.get(step, "th")
    return f"every {step}{ending} {axis.name}, {held} of {len(axis)}, with the last"


def caps(sizes: Iterable[int], most: float) -> float:
    """The size to which arrays are cut so that all together are not larger than `most`; infinite if nothing has to be cut."""
    ordered = sorted(sizes)
    left = most
    for k, size in enumerate(ordered):
        if size * (len(ordered) - k) > left:
            return left / (len(ordered) - k)
        left -= size
    return np.inf


class Block(NamedTuple):
    """An array as text: base64 of its numbers, the lowest byte first."""
    name: str
    kind: str  # f4, f8 or i4
    text: str


def kind_of(values: np.ndarray) -> str:
    """How numbers are stored: with 4 bytes each wherever these are enough, of whole numbers that fit and of reals that are neither too large nor too
    small for single precision. NaN and infinities stay what they are."""
    if values.dtype.kind in "iub":
        return "i4" if values.size == 0 or (-2**31 <= values.min() and values.max() < 2**31) else "f8"
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    limits = np.finfo(np.float32)
    return "f4" if sizes.size == 0 or (sizes.min() >= limits.tiny and sizes.max() <= limits.max) else "f8"


def as_block(name: str, values: np.ndarray) -> Block:
    """An array as text."""
    kind = kind_of(values)
    return Block(name, kind, base64.b64encode(np.ascontiguousarray(values, dtype="<" + kind).tobytes()).decode())


class Store:
    """The arrays of a page, each once, and how much of each is held."""

    def __init__(self, panels: Sequence[Panel]) -> None:
        self.blocks: list[Block] = []
        self.pictures: list[dict[str, Any]] = []  # size and pixels, from the top left
        self._stored: dict[int, int] = {}
        self._axes: dict[bytes, int] = {}
        self._held: dict[int, tuple[tuple[slice, ...], np.ndarray]] = {}
        # All panels live as long as the store: an id is that of one array.
        everything = {id(one.values): (one, panel.key.startswith("model/")) for panel in panels for one in panel.series}
        for weights, most in ((True, MOST_WEIGHTS), (False, MOST - MOST_WEIGHTS)):
            self._hold({key: one for key, (one, of_model) in everything.items() if of_model == weights}, most)

    def _hold(self, these: dict[int, Series], most: float) -> None:
        """Reads of these arrays what `most` bytes can hold. Which need 8 bytes a number is known once they are read with 4: these are then cut again, to
        parts of what was read."""
        widths = dict.fromkeys(these, BYTES)
        for _ in range(2):
            cap = caps((_size(one.values) * widths[key] for key, one in these.items()), most)
            for key, one in these.items():
                parts = kept(one.values.shape, [axis.name for axis in one.axes], cap / widths[key])
                if key not in self._held or self._held[key][0] != parts:
                    self._held[key] = parts, np.asarray(one.values[parts])
                    widths[key] = max(widths[key], int(kind_of(self._held[key][1])[1]))

    def add(self, values: np.ndarray) -> int:
        """Stores an array; returns its number."""
        self.blocks.append(as_block(f"a{len(self.blocks)}", values))
        return len(self.blocks) - 1

    def axis(self, values: np.ndarray) -> int:
        """Stores coordinates, equal ones once; returns their number."""
        key = values.dtype.str.encode() + values.tobytes()
        if key not in self._axes:
            self._axes[key] = self.add(values)
        return self._axes[key]

    def picture(self, pictures: Sequence[np.ndarray]) -> int:
        """Stores the pictures of samples, all of one size, each once; returns their number, -1 for none."""
        if not pictures:
            return -1
        tall, wide, colours = pictures[0].shape
        held = {"wide": wide, "tall": tall, "colours": colours, "pixels": [base64.b64encode(one.tobytes()).decode() for one in pictures]}
        if held not in self.pictures:
            self.pictures.append(held)
        return self.pictures.index(held)

    def series(self, series: Series) -> tuple[int, Series, list[str]]:
        """Stores the numbers of a series: their number, the series with the axes that are held, and what was left out in words."""
        parts, values = self._held[id(series.values)]
        axes = tuple(_part(axis, part) for axis, part in zip(series.axes, parts))
        if id(series.values) not in self._stored:
            self._stored[id(series.values)] = self.add(values)
        left_out = [text for axis, part in zip(series.axes, parts) if (text := in_words(axis, part))]
        return self._stored[id(series.values)], dataclasses.replace(series, axes=axes), left_out


def _size(values: Values) -> int:
    return int(np.prod(values.shape, dtype=float))


def _part(axis: Axis, part: slice) -> Axis:
    held = range(*part.indices(len(axis)))
    if len(held) == len(axis):
        return axis
    names = [line[part] for line in axis.names] if axis.by else axis.names[part]
    return dataclasses.replace(axis, values=axis.values[part], names=names, lattice=None)
