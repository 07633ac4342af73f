"""Generated texts, in the report: prompts and continuations, each word in the colour of its probability, and how likely words are by their place."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fluxformer.io import Run
from fluxformer.report.data import Comparison, Study, number
from fluxformer.report.sections import Section
from fluxformer.report.style import HEAT, Drawing, canvas, legend, over, panel, style_of
from fluxformer.style import INK, SOFT

LETTERS = 118  # of a line of text
SIZE = 7.5  # points of a letter
LINE = 0.17  # inches of a line
SHOWN, LINES = 5, 6  # texts, and lines of each
LEAST = -8.0  # log p of the darkest colour


def _words(run: Run) -> list[str]:
    """The words by their numbers; empty if the model does not know them."""
    if "words" not in run.coordinates:
        return []
    return [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in run.coordinate("words")]


def _shown(word: str) -> str:
    """A word as it can be drawn on one line; words of bytes are printed as they are stored."""
    return "".join(letter if letter.isprintable() and letter != "$" else "·" for letter in word) or "·"


def _placed(words: list[str]) -> tuple[list[tuple[int, int]], int]:
    """(line, letter) at which each word begins, and the number of lines."""
    places, line, at = [], 0, 0
    for word in words:
        if at > 0 and at + len(word) > LETTERS:
            line, at = line + 1, 0
        places.append((line, at))
        at += len(word) + 1
    return places, line + 1


def _texts(comparison: Comparison, model: str) -> list[tuple[list[str], np.ndarray, int]]:
    """(words, log p, words of the prompt) of the first texts of the first seed."""
    run = comparison.runs[0]
    names, lengths = _words(run), run.coordinate("lengths")
    log_p, prompts = comparison.numbers(model, "log_probability")[0], comparison.numbers(model, "prompt_length")[0]
    texts = []
    for ids, length, row, prompt in list(zip(run.coordinate("ids"), lengths, log_p, prompts))[:SHOWN]:
        words = [_shown(names[word]) if word < len(names) else str(word) for word in ids[:length]]
        texts.append((words, row, int(prompt)))
    return texts


def _write(axes: Axes, texts: list[tuple[list[str], np.ndarray, int]]) -> None:
    top = 0
    for words, log_p, prompt in texts:
        places, lines = _placed(words)
        for place, (word, (line, at)) in enumerate(zip(words, places)):
            if line >= LINES:
                break
            shade = np.clip(1 - log_p[place] / LEAST, 0, 1) if np.isfinite(log_p[place]) else None
            if shade is not None:
                axes.add_patch(Rectangle((at, top + line + 0.08), len(word), 0.84, color=HEAT(shade), alpha=0.45, lw=0))
            axes.text(at, top + line + 0.5, word, family="monospace", fontsize=SIZE, va="center", color=SOFT if place < prompt else INK,
                      fontweight="normal" if place < prompt else "bold")
        top += min(lines, LINES) + 1
    axes.set(xlim=(0, LETTERS), ylim=(top, 0))
    axes.axis("off")


def _by_place(comparison: Comparison, model: str, axes: Axes) -> None:
    """Mean -log p by the place of a word behind the end of its prompt; before it, of the prompt's words."""
    log_p, prompts = comparison.numbers(model, "log_probability"), comparison.numbers(model, "prompt_length")
    places = np.arange(log_p.shape[-1]) - prompts[..., None]
    there = np.isfinite(log_p)
    wanted = np.unique(places[there])
    means = np.array([[-one[(place == at) & known].mean() if ((place == at) & known).any() else np.nan for at in wanted]
                      for one, place, known in zip(log_p, places, there)])
    over(axes, wanted + 1, means, style_of(model), style_of(model).label, markers=len(wanted) < 40)
    axes.axvline(0.5, color=SOFT, lw=0.8)


def draw(study: Study) -> list[Drawing]:
    """Draws the texts and what they were worth to the model; none if none were generated."""
    comparison = study.of("generate")
    if comparison is None:
        return []
    texts = [text for model in comparison.models for text in _texts(comparison, model)]
    lines = sum(min(_placed(words)[1], LINES) + 1 for words, *_ in texts)
    figure = canvas(0.6 + LINE * lines + 2.4)
    upper, lower = figure.subplots(2, 1, height_ratios=(LINE * lines, 2.2))
    _write(upper, texts)
    for model in comparison.models:
        _by_place(comparison, model, lower)
    panel(lower, "How likely the words are to the model", "place behind the prompt (0 and less: in it)", "mean of −log p  [nat]")
    legend(figure, lower)
    said = "; ".join(f"{style_of(model).label}: perplexity {number(comparison.numbers(model, 'perplexity').mean())} of the continuations, "
                     f"{number(comparison.numbers(model, 'prompt_perplexity').mean())} of the prompts" for model in comparison.models)
    return [Drawing("generate", "Texts that the model continued",
                    f"Prompts in grey, what the model wrote in bold. The brighter a word, the likelier it is to the model (p = 1 bright, {np.exp(LEAST):.0e} "
                    f"dark; without colour: no target). Below, the mean over all texts by place. {said}. The perplexity of what a model writes itself says how "
                    "sure it is, not how good the text: with a low temperature it falls without limit.", figure, comparison.runs)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: perplexities, and what a word costs."""
    def mean(model: str, name: str) -> str:
        return number(float(np.nanmean(comparison.numbers(model, name))))

    return comparison.table({"perplexity of continuations": lambda model: mean(model, "perplexity"),
                             "of prompts": lambda model: mean(model, "prompt_perplexity"),
                             "token marches a text": lambda model: mean(model, "token_marches"),
                             "seconds": lambda model: mean(model, "seconds")})


SECTIONS = (Section(21, "texts", "Texts that models continue", "generate", draw, table),)
