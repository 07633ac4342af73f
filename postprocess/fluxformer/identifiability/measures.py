"""What the figures of identifiability share: means over layers and heads, colours of layers and depths, the
tokens of the first sample."""

from __future__ import annotations

import warnings

import numpy as np
from matplotlib import font_manager

from fluxformer.report.data import Comparison, Style, mean_and_spread
from fluxformer.report.style import plt
from fluxformer.text import one_line

EXPERIMENT = "identifiability"
Rows = list[tuple[str, ...]]
MOST_WORDS = 24  # words that can be read along an axis
LONGEST_WORD = 12  # letters


def mean_over(values: np.ndarray, *axes: int) -> np.ndarray:
    """The mean over some axes of the numbers that are known; NaN where none is (heads that a model does not have)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a mean of nothing
        return np.nanmean(values, axis=axes)


def by_length(comparison: Comparison, model: str, name: str) -> np.ndarray:
    """A measure of heads as mean over layers and heads, shape (seeds, lengths); a measure of layers as mean
    over layers alone."""
    values = comparison.numbers(model, name)
    return mean_over(values, *range(2, values.ndim))


def tokens_of(comparison: Comparison, model: str) -> np.ndarray:
    """Mean number of tokens of the samples of each length, shape (lengths,)."""
    return mean_over(comparison.numbers(model, "tokens_of_length"), 0)


def value_width_of(comparison: Comparison, model: str) -> int | None:
    """The width d_v of the values of a head, beyond which weights are not unique; None if no sample has more tokens."""
    width = int(comparison.facts(model)["value_width"])
    return width if tokens_of(comparison, model).max() > width else None


def cell(values: np.ndarray | None) -> str:
    """One number for each seed as text, "–" for what was not measured."""
    return "–" if values is None else mean_and_spread(values)


def shade(place: int, count: int, label: str) -> Style:
    """The colour of one of several layers, depths or epochs, from dark to light."""
    return Style(label, plt.get_cmap("viridis")(0.9 * place / max(count - 1, 1)), "os^Dv"[place % 5], "-")


def spread_out(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 .. count - 1, evenly spread, the first and the last among them."""
    return sorted({int(round(place)) for place in np.linspace(0, count - 1, min(count, most))})


def group_names(comparison: Comparison) -> list[str]:
    """The groups of distances, "4–5", as words."""
    low = [int(one) for one in comparison.axis("distance_group")]
    return [str(first) if last == first else f"{first}–{last}" for first, last in zip(low, [one - 1 for one in low[1:]])] + [f"{low[-1]}+"]


def grid_of(comparison: Comparison, tokens: int) -> tuple[int, int] | None:
    """Rows and columns of an image that is cut into that many tokens; None for what is no image, and for a
    part of an image."""
    facts = comparison.facts()
    columns, rows = int(facts["tokens_x"]), int(facts["tokens_y"])
    return (rows, columns) if rows > 1 and rows * columns == tokens else None


def words_of(comparison: Comparison) -> list[str]:
    """The words of the first sample, cut to fit along an axis; empty for images."""
    words = str(comparison.facts().get("sample_words", "")).removesuffix("\n")
    return [_shown(word) for word in words.split("\n")] if words else []


def _shown(word: str) -> str:
    """A word without letters that the font does not have, cut if it is too long."""
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    text = "".join(letter if font.get_char_index(ord(letter)) else "\N{WHITE SQUARE}" for letter in one_line(word)) or "\N{WHITE SQUARE}"
    return text if len(text) <= LONGEST_WORD else text[:LONGEST_WORD - 1] + "…"
