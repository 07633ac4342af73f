"""Models of next words in the report, beside n-grams that only count words: what a model adds to counting."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fluxformer.io import Run
from fluxformer.report.data import Study, mean_and_spread, number
from fluxformer.report.sections import Rows
from fluxformer.report.style import Drawing, canvas, legend, over, panel
from fluxformer.statistics import Effect
from fluxformer.style import SOFT
from fluxformer.text import one_line
from fluxformer.train.kinds import Kind, kinds

SMOOTHINGS = {"Kneser-Ney": "kneser_ney_perplexity", "Witten-Bell": "witten_bell_perplexity"}
# Settings that decide which words are guessed, and from what n-grams are counted.
SAME_WORDS = ("train.contexts", "train.samples", "train.test_samples", "data.length", "data.vocabulary", "data.least_count", "data.headers", "data.quotes",
              "data.footers", "data.file", "data.classes")
NAMED = {"train.contexts": "contexts = {}", "data.length": "{} tokens", "data.headers": "headers = {}", "data.quotes": "quotes = {}"}  # in titles
UNSAID = {"train.contexts": "text"}  # of files that are older than the key
FEWEST = 3  # seeds from which on models and counting are compared


class Task(NamedTuple):
    """Trainings on the same words."""
    name: str  # what tells it apart from others of the study; empty for the only one
    runs: list[Run]
    models: list[Kind]  # the same runs by architecture

    @property
    def orders(self) -> np.ndarray:
        """The n of the n-grams that all runs have counted."""
        return min((run.coordinate("ngram_order") for run in self.runs), key=len).astype(int)

    def counted(self, name: str) -> np.ndarray:
        """A measure of the n-grams, [seed, order]: with other samples for validation there are other counts."""
        return np.array([run.training(name)[:len(self.orders)] for run in self.runs])

    @property
    def bits(self) -> np.ndarray:
        """Bits per byte of a loss of 1 nat, by seed; NaN where the bytes of words are not known."""
        return np.array([last(run, "test_bits_per_byte") / last(run, "test_loss") for run in self.runs])

    @property
    def best(self) -> tuple[str, int]:
        """The n-grams with the lowest mean perplexity: their smoothing and the place of their order."""
        return min(((smoothing, place) for smoothing in SMOOTHINGS for place in range(len(self.orders))), key=lambda one: self.mean(*one))

    def mean(self, smoothing: str, place: int) -> float:
        """The mean perplexity of n-grams; infinite where it is not known."""
        value = float(self.counted(SMOOTHINGS[smoothing])[:, place].mean())
        return value if np.isfinite(value) else np.inf

    def called(self, smoothing: str, place: int) -> str:
        """The name of n-grams."""
        return f"{smoothing} {self.orders[place]}-gram"


def last(run: Run, name: str) -> float:
    """A measure after the last epoch; NaN if there is none."""
    values = run.training(name) if name in run.trainings else np.zeros(0)
    return float(values[-1]) if len(values) else np.nan


def tasks(study: Study) -> list[Task]:
    """The trainings on next words, by the words that they guess."""
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in study.trainings:
        if "kneser_ney_perplexity" in run.trainings and np.isfinite(last(run, "test_loss")):
            found.setdefault(tuple(str(run.settings.get(key, UNSAID.get(key, ""))) for key in SAME_WORDS), []).append(run)
    differ = [place for place in range(len(SAME_WORDS)) if len({key[place] for key in found}) > 1]
    every = kinds(study.trainings)  # of the whole study, so that a kind looks the same in all figures
    return [Task(one_line(", ".join(NAMED.get(SAME_WORDS[k], SAME_WORDS[k] + " = {}").format(key[k]) for k in differ)), runs,
                 [kind._replace(runs=own) for kind in every if (own := [run for run in kind.runs if run in runs])]) for key, runs in found.items()]


def beside(runs: list[Run], smoothing: str, place: int) -> int:
    """Whether the perplexity of models lies below that of n-grams on the same words (-1), above it (1), or cannot be distinguished from it (0):
    by the 95 % t interval of their ratio over seeds."""
    effect = Effect(np.array([last(run, "test_loss") - np.log(run.training(SMOOTHINGS[smoothing])[place]) for run in runs]))
    low, high = effect.interval() if effect.count >= FEWEST else (-np.inf, np.inf)
    return int(low > 0) - int(high < 0)


def judgement(task: Task) -> str:
    """Whether models have learnt more than counting tells, a sentence for each kind."""
    words = {-1: "below", 0: "cannot be distinguished from", 1: "above"}
    said = []
    for _, style, runs in task.models:
        text = f"{style.label}: perplexity {number(float(np.mean([last(run, 'test_perplexity') for run in runs])))}, "
        bigram = beside(runs, "Kneser-Ney", 1)
        text += f"{words[bigram]} the Kneser-Ney bigram ({number(task.mean('Kneser-Ney', 1))})"
        text += ": it has learnt nothing that counting does not give; " if bigram > 0 else ", "
        text += f"{words[beside(runs, *task.best)]} the best that counting gives ({number(task.mean(*task.best))}, {task.called(*task.best)})"
        said.append(text + (f"; fewer than {FEWEST} seeds have no interval." if len(runs) < FEWEST else "."))
    return " ".join(said) + " Above and below mean that the whole 95 % t interval of the ratio of perplexities over seeds lies there."


def _drawing(task: Task, place: int) -> Drawing:
    figure = canvas(3.4 + 0.4 * max(0, len(task.models) - 2))  # the legend may have a line for each
    left, middle, right = figure.subplots(1, 3)
    longest = 1
    for _, style, runs in task.models:
        courses = [run.training("test_loss") for run in runs]
        least = min(map(len, courses))
        over(left, np.arange(1, least + 1), np.exp([course[:least] for course in courses]), style, style.label)
        longest = max(longest, least)
        for axes, name, scale in ((middle, "test_perplexity", 1), (right, "test_accuracy", 100)):
            axes.axhline(scale * np.mean([last(run, name) for run in runs]), color=style.colour, ls=style.line, lw=1.8, label=style.label)
    for (smoothing, name), line, marker in zip(SMOOTHINGS.items(), ("-", "--"), ("o", "s")):
        values = task.counted(name).mean(axis=0)
        middle.plot(task.orders[np.isfinite(values)], values[np.isfinite(values)], line, color=SOFT, marker=marker, ms=4.5, label=f"n-grams, {smoothing}")
    right.plot(task.orders, 100 * task.counted("ngram_accuracy").mean(axis=0), "-", color=SOFT, marker="o", ms=4.5)
    left.axhline(task.mean(*task.best), color=SOFT, ls=":", lw=1.6, label="best n-gram")
    left.set_xlim(0.7, longest + 0.3)
    for axes in (left, middle):
        axes.set_yscale("log")
    right.set_ylim(0, None)
    panel(left, "On test words", "epochs done", "perplexity")
    panel(middle, "Models and counting", "n of n-grams", "perplexity")
    panel(right, "Models and counting", "n of n-grams", "guessed right  [%]")
    for axes in (middle, right):
        axes.set_xticks(task.orders)
    legend(figure, left, middle)
    title = "Next words" + (f", {task.name}" if task.name else "")
    return Drawing(f"next-words{place or ''}", title, judgement(task), figure, task.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws models of next words beside n-grams, a figure for each set of words; none if there are no such models."""
    return [_drawing(task, place) for place, task in enumerate(tasks(study))]


def table(study: Study) -> Rows:
    """Loss, accuracy, perplexity and bits per byte of each kind of model and of each n-gram, the first row of headings."""
    rows: Rows = []
    for task in tasks(study):
        before = f"{task.name}: " if task.name else ""
        known = np.isfinite(task.bits).any()

        def row(name: str, loss: np.ndarray, accuracy: np.ndarray, bits: np.ndarray) -> tuple[str, ...]:
            return (before + name, *map(mean_and_spread, (loss, 100 * accuracy, np.exp(loss))), mean_and_spread(bits * loss) if known else "–")

        for _, style, runs in task.models:
            loss, accuracy = (np.array([last(run, name) for run in runs]) for name in ("test_loss", "test_accuracy"))
            rows.append(row(style.label, loss, accuracy, np.array([bits for run, bits in zip(task.runs, task.bits) if run in runs])))
        for smoothing, name in SMOOTHINGS.items():
            for place, order in enumerate(task.orders):
                rows.append(row(f"{smoothing} {order}-gram", np.log(task.counted(name)[:, place]), task.counted("ngram_accuracy")[:, place], task.bits))
    return [("test words", "loss  [nat]", "guessed right  [%]", "perplexity", "bits per byte"), *rows] if rows else []
