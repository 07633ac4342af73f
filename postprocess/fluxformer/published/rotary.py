"""Rotary positions: what config.json says of their frequencies, as numbers.

A pair j of the first r channels of a head is turned by the angle x theta_j at token x. Published models name a scheme that changes the usual
theta_j = base^(-2j/r) for lines longer than those they were trained with. The schemes end here: a model file holds theta, and m, the factor
of all cosines and sines. Formulas: https://arxiv.org/abs/2104.09864 (rotary positions), https://arxiv.org/abs/2309.00071 (yarn), and for
llama3 and dynamic those that were published with the models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluxformer.published.config import Config

import numpy as np

BASE = 10000.0
SCALING, PARAMETERS = "rope_scaling", "rope_parameters"  # the older and the newer entry
ENTRIES: dict[str, tuple[str, ...]] = {
    "default": (), "linear": ("factor",), "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")}
SCHEME = ("rope_type", "type")
SHARE = "partial_rotary_factor"  # of the channels of a head, which are turned
OF_ALL = (*SCHEME, "rope_theta", SHARE)


@dataclass(frozen=True)
class Frequencies:
    """What a scheme makes of a base.

    Attributes
    ----------
    theta : array
        Angle per token of each pair, [r/2].
    scale : float
        m.
    fixed : bool
        False if longer lines than those of max_position_embeddings have other frequencies.
    """
    theta: np.ndarray
    scale: float = 1.0
    fixed: bool = True


@dataclass(frozen=True)
class Rotary:
    """Rotary positions as a model file has them.

    Attributes
    ----------
    theta : array
        Angles per token, [tables][r/2].
    table : array
        The row of theta for each layer, [layers].
    scale : float
        m.
    layout : str
        half: pairs (j, j + r/2); interleaved: pairs (2j, 2j + 1).
    fixed : bool
        False if longer lines than those of max_position_embeddings have other frequencies.
    """
    theta: np.ndarray
    table: np.ndarray
    scale: float
    layout: str
    fixed: bool


def alike(config: Config, layers: int, turned: int, bases: Sequence[str], longest: int | None, share: float = 1.0) -> Rotary:
    """Rotary positions, of layout half, that are the same in all layers.

    Parameters
    ----------
    config : Config
    layers : int
    turned : int
        Channels of a head that are turned, r; even.
    bases : sequence of str
        Entries that are the base. All that are there must say the same.
    longest : int or None
        max_position_embeddings, if config.json says it.
    share : float
        partial_rotary_factor, if an entry says it.

    Raises
    ------
    Unfit
        For a scheme or an entry of it that the program does not have, or if entries contradict each other.
    """
    places = [config.part(name) for name in (PARAMETERS, SCALING) if config.has(name)]
    base = same_number([*((config, name) for name in bases), *((place, "rope_theta") for place in places)], BASE)
    for place in places:
        if place.number(SHARE, share) != share:
            raise place.refuse(SHARE, f"this model turns {share:g} of the channels of a head")
    found = [frequencies(place, base, turned, longest) for place in places] or [Frequencies(usual(base, turned))]
    if len(found) == 2 and not (np.array_equal(found[0].theta, found[1].theta) and
                                (found[0].scale, found[0].fixed) == (found[1].scale, found[1].fixed)):
        raise config.refuse(PARAMETERS, f"contradicts {SCALING}")
    return Rotary(found[0].theta[None], np.zeros(layers, np.int64), found[0].scale, "half", found[0].fixed)


def by_kind(config: Config, kinds: Sequence[str], turned: int, bases: Mapping[str, tuple[str, float]], longest: int | None) -> Rotary:
    """Rotary positions, of layout half, that depend on the kind of a layer.

    Parameters
    ----------
    config : Config
    kinds : sequence of str
        The kind of each layer.
    turned : int
        Channels of a head that are turned, r; even.
    bases : mapping
        For each kind the entry that is the base, and the base if neither this entry nor rope_parameters says it.
    longest : int or None
        max_position_embeddings, if config.json says it.

    Raises
    ------
    Unfit
        As `alike`; also if m depends on the kind, for which a model file has no place.
    """
    if config.has(SCALING):
        raise config.refuse(SCALING, f"each kind of layer has frequencies of its own, which {PARAMETERS} says")
    there = sorted(set(kinds))
    found = {}
    if config.has(PARAMETERS):
        places = config.part(PARAMETERS)
        places.only(bases, f"the kinds of layers are {', '.join(bases)}")
        for kind in there:
            place = places.part(kind)
            if place.number(SHARE, 1.0) != 1:
                raise place.refuse(SHARE, "this family turns all channels of a head")
            name, base = bases[kind]
            found[kind] = frequencies(place, same_number([(config, name), (place, "rope_theta")], base), turned, longest)
    else:
        found = {kind: Frequencies(usual(same_number([(config, bases[kind][0])], bases[kind][1]), turned)) for kind in there}
    if len({one.scale for one in found.values()}) > 1:
        raise config.refuse(PARAMETERS, "the factor of cosines and sines is not the same in all layers, for which a model file has no place")
    return Rotary(np.array([found[kind].theta for kind in there]), np.array([there.index(kind) for kind in kinds], np.int64),
                  found[there[0]].scale, "half", all(one.fixed for one in found.values()))


def share_of(config: Config, names: Sequence[str], channels: int, default: float) -> tuple[float, int]:
    """The share of the channels of a head that are turned, which the entries of these names, and partial_rotary_factor of rope_parameters, say,
    and their number. Unfit if they differ, or if the number is odd."""
    places = [(config, name) for name in names]
    if config.has(PARAMETERS):
        places.append((config.part(PARAMETERS), SHARE))
    share = same_number(places, default)
    turned = int(channels * share)
    if not 0 < share <= 1 or turned < 2 or turned % 2:
        name = next((name for place, name in places if place.has(name)), names[0])
        raise config.refuse(name, f"{turned} of the {channels} channels of a head would be turned; it must be an even number of them, at least 2")
    return share, turned


def same_number(places: Sequence[tuple[Config, str]], default: float) -> float:
    """The number that entries of several names say. Unfit if two of them differ, or if it is not above 0."""
    found = [(place, name, place.number(name, default)) for place, name in places if place.has(name)]
    for place, name, value in found:
        if value <= 0:
            raise place.refuse(name, "must be above 0")
        if value != found[0][2]:
            raise place.refuse(name, f"contradicts {found[0][1]} = {found[0][2]:g}")
    return found[0][2] if found else default


def usual(base: float, turned: int) -> np.ndarray:
    """theta_j = base^(-2j/r)."""
    return np.asarray(base ** (-np.arange(0, turned, 2) / turned))


def frequencies(entries: Config, base: float, turned: int, longest: int | None) -> Frequencies:
    """What the scheme that `entries` (rope_scaling or rope_parameters) name makes of a base. Unfit if the program does not have it."""
    word = scheme_of(entries)
    entries.only((*OF_ALL, *ENTRIES[word]), f"rotary positions of the kind {word} have no such entry in the program")
    theta = usual(base, turned)
    if word == "default":
        return Frequencies(theta)
    factor = above_0(entries, "factor")
    if factor < 1:
        raise entries.refuse("factor", "must be a number from 1 on")
    if word == "linear":
        return Frequencies(theta / factor)
    if word == "dynamic":
        if longest is None:
            raise entries.refuse("factor", "max_position_embeddings must be there, behind which frequencies change")
        return Frequencies(theta, fixed=False)
    if word == "llama3":
        return llama3(entries, theta, factor)
    return yarn(entries, theta, factor, base, longest)


def scheme_of(entries: Config) -> str:
    """The scheme, which the entry rope_type names, or in older files type."""
    names = [name for name in SCHEME if entries.has(name)]
    words = [entries.word(name, "") for name in names] or ["default"]
    if len(set(words)) > 1:
        raise entries.refuse("type", f"contradicts rope_type = {words[0]}")
    if not names and entries.has("factor"):
        raise entries.refuse("rope_type", "a factor without a kind")
    if words[0] not in ENTRIES:
        raise entries.refuse(names[0], f"the program has rotary positions of the kinds {', '.join(ENTRIES)}")
    return words[0]


def above_0(entries: Config, name: str, default: float = 0.0) -> float:
    """An entry that is a number above 0; `default` 0: it must be there."""
    value = entries.number(name, default)
    if value <= 0:
        raise entries.refuse(name, "must be a number above 0")
    return value


def llama3(entries: Config, theta: np.ndarray, factor: float) -> Frequencies:
    """Pairs that turn often within the lines of the first training stay, those that turn rarely are divided by the factor."""
    low, high = above_0(entries, "low_freq_factor"), above_0(entries, "high_freq_factor")
    if high <= low:
        raise entries.refuse("high_freq_factor", f"must be above low_freq_factor = {low:g}")
    turns = entries.whole("original_max_position_embeddings") * theta / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return Frequencies(theta * ((1 - kept) / factor + kept))


def yarn(entries: Config, theta: np.ndarray, factor: float, base: float, longest: int | None) -> Frequencies:
    """As llama3 with a ramp that is linear in the number of the pair; m makes scores larger."""
    name = "original_max_position_embeddings"
    if longest is None and not entries.has(name):
        raise entries.refuse(name, "must be there where max_position_embeddings is not")
    length, turned = entries.whole(name, longest), 2 * len(theta)
    fast, slow = above_0(entries, "beta_fast", 32.0), above_0(entries, "beta_slow", 1.0)
    if fast <= slow:
        raise entries.refuse("beta_fast", f"must be above beta_slow = {slow:g}")

    def pair(turns: float) -> float:
        """The pair, as a real number, that turns so often in a line of that length."""
        return turned * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base))

    if base <= 1:
        raise entries.refuse("rope_theta", "must be above 1")
    low, high = pair(fast), pair(slow)
    if entries.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, turned - 1)
    ramp = np.clip((np.arange(len(theta)) - low) / (high - low if high != low else 0.001), 0, 1)
    return Frequencies(theta * (ramp / factor + 1 - ramp), yarn_scale(entries, factor))


def yarn_scale(entries: Config, factor: float) -> float:
    """m of yarn: attention_factor, if it is there."""
    def grown(share: float) -> float:
        return 0.1 * share * math.log(factor) + 1 if factor > 1 else 1.0

    if entries.has("attention_factor"):
        return above_0(entries, "attention_factor")
    shares = entries.number("mscale", 0.0), entries.number("mscale_all_dim", 0.0)
    return grown(shares[0]) / grown(shares[1]) if all(shares) else grown(1.0)
