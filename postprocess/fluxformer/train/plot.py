"""Figure of a training: loss, accuracy, learning rate, gradient. Several files are drawn in one figure, to compare them.

<name>_training (several files: trainings_compared). While the training goes on, its history file is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from fluxformer.io import Run, RunError, training_file
from fluxformer.style import ACCENT, INK, SMOOTHED, SOFT, decades, means, no_data, panel, plain_numbers, save, sheet

OPTIONS = ()

BLUE = "#2563eb"
FILES = (ACCENT, BLUE, "#0f9d78", "#9333ea", "#b45309", "#475569")  # colour of each file
SPLITS = (("train", "training", ACCENT, "-", ""), ("validation", "validation", BLUE, "--", "s"), ("test", "test", INK, "-", "o"))
MOST_POINTS = 6000  # points of a line: more steps than pixels are thinned out
MOST_MARKERS = 30  # on a line: with more epochs the markers are omitted


class Training:
    """The data of one run for all panels. The abscissa of all panels is the number of completed epochs of training.

    Attributes
    ----------
    step, epoch : ndarray
        The axes of the measures; `done`: epochs completed before each step.
    facts : dict
        What the file says of the training: samples, trained_parameters, ...
    name : str
        Name of the file.
    per_epoch : int
        Number of steps of an epoch.
    window : int
        Number of steps that are averaged where a course over steps is smoothed.

    Raises
    ------
    RunError
        If the run is no training, or has not made a step yet.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        if "loss" not in run.trainings:
            raise RunError(f"{run.path}: holds no training (no /training/loss)")
        self.step, self.epoch = run.coordinate("step"), self._optional(run, "epoch")
        if not len(self.step):
            raise RunError(f"{run.path}: the training has not made a step yet (or its history was not flushed)")
        self.facts = run.training_attributes
        self.name = os.path.basename(run.path).removesuffix(".h5").removesuffix(".history")
        self.per_epoch = self._steps_per_epoch()
        self.done = self.step / self.per_epoch  # a step reports values from before it
        self.window = max(1, len(self.step) // SMOOTHED)

    @staticmethod
    def _optional(run: Run, axis: str) -> np.ndarray:
        try:
            return run.coordinate(axis)
        except RunError:
            return np.zeros(0)

    def _steps_per_epoch(self) -> int:
        samples, batch = self.facts.get("samples", 0), self.run.settings.get("train.batch", 0)
        if batch and samples >= batch:
            return samples // batch
        return max(1, round(len(self.step) / max(1, len(self.epoch))))

    def steps(self, name: str) -> np.ndarray | None:
        """A measure with one number per step; None if there is none."""
        return self.run.training(name) if name in self.run.trainings else None

    def epochs(self, name: str) -> np.ndarray | None:
        """A measure with one number per epoch; None if there is none yet or the split has no samples (NaN)."""
        values = self.run.training(name) if name in self.run.trainings else np.zeros(0)
        return values if np.isfinite(values).any() else None

    def smoothed(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the means over `window` consecutive steps, and these means."""
        return means(self.done, self.window), means(values, self.window)

    @property
    def end(self) -> float:
        """Number of epochs completed by the last step."""
        return (self.step[-1] + 1) / self.per_epoch


def _thin(count: int) -> slice:
    return slice(None, None, max(1, count // MOST_POINTS))


def _panel(axes: Axes, title: str, ylabel: str, trainings: list[Training]) -> None:
    end = max(training.end for training in trainings)
    axes.set_xlim(0, 1.01 * end)
    if end >= 5 and len(axes.lines):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_axisbelow(True)
    panel(axes, title, ylabel, "epochs done")


def _logarithmic(axes: Axes, trainings: list[Training], name: str) -> None:
    """Makes the axis logarithmic if the values of all steps span more than a decade."""
    span = decades(np.concatenate([values for training in trainings if (values := training.steps(name)) is not None]))
    if span > 1:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < 3 else (1,)))
        axes.yaxis.set_major_formatter(plain_numbers)
        axes.yaxis.set_minor_formatter(NullFormatter())


def _of_steps(axes: Axes, training: Training, name: str, colour: str, label: str, light: bool = True, width: float = 1.8) -> None:
    """Draws a course over steps; `light`: each step as a thin line behind the means over several."""
    values = training.run.training(name)
    keep = _thin(len(values))
    if light and training.window > 1:
        axes.plot(training.done[keep], values[keep], color=colour, lw=0.6, alpha=0.28, rasterized=True, zorder=1.5)
        place, values = training.smoothed(values)
    else:
        place, values = training.done[keep], values[keep]
    axes.plot(place, values, color=colour, lw=width, label=label)


def _of_epochs(axes: Axes, training: Training, split: str, what: str, colour: str, style: str, marker: str, label: str | None,
               scale: float = 1.0) -> bool:
    """Draws a course over epochs: a mean over an epoch at its middle, a measure after an epoch at its end.
    Returns whether there is one."""
    values = training.epochs(f"{split}_{what}")
    if values is None:
        return False
    place = training.epoch[:len(values)] - (0.5 if split == "train" else 0)
    few = len(values) <= MOST_MARKERS
    axes.plot(place, scale * values, style, color=colour, lw=1.8, marker=(marker or "o") if few else "", ms=4, label=label)
    return True


def _loss(axes: Axes, trainings: list[Training]) -> None:
    for colour, training in zip(FILES, trainings):
        alone = len(trainings) == 1
        _of_steps(axes, training, "loss", colour, "training" if alone else training.name, light=alone or len(trainings) < 4)
        for split, label, own, style, marker in SPLITS[1:]:
            if alone:
                _of_epochs(axes, training, split, "loss", own, style, marker, label)
        if not alone:
            _of_epochs(axes, training, measured(training), "loss", colour, "--", "o", None)
    counted = {found for training in trainings for found in _perplexities(training)}
    for perplexity, name, line in sorted(counted):
        axes.axhline(np.log(perplexity), color=SOFT, ls=line, lw=1.6, label=f"{name}: perplexity {perplexity:.4g}")
    _logarithmic(axes, trainings, "loss")
    _panel(axes, "Loss", "cross entropy  [nat]", trainings)
    if counted:
        low, high = np.exp(axes.get_ylim())
        right = axes.secondary_yaxis("right", functions=(np.exp, lambda perplexity: np.log(np.maximum(perplexity, 1e-300))))  # it asks at 0
        right.set_ylabel("perplexity")
        right.yaxis.set_major_locator(FixedLocator([tick for decade in range(9) for tick in np.array([1, 2, 5]) * 10.0**decade if low <= tick <= high]))
        right.yaxis.set_major_formatter(plain_numbers)
        right.yaxis.set_minor_locator(NullLocator())
    axes.legend(loc="best", fontsize="small" if counted else None)


def _perplexities(training: Training) -> list[tuple[float, str, str]]:
    """Perplexities of next words by counting, with a name and a line: the best, and the Kneser-Ney bigram. Empty for what guesses no next words."""
    every = {name: values for name in ("Kneser-Ney", "Witten-Bell") if (values := training.steps(name.lower().replace("-", "_") + "_perplexity")) is not None}
    if not every:
        return []
    best, order, name = min((*_best_count(values, min), name) for name, values in every.items())
    bigram = float(every["Kneser-Ney"][1])
    more = [(bigram, "Kneser-Ney bigram", "-.")] if np.isfinite(bigram) and (order, name) != (2, "Kneser-Ney") else []
    return [(float(best), f"best n-gram ({name}, {order})", ":"), *more]


def _best_count(values: np.ndarray, best: Callable[[np.ndarray], float]) -> tuple[float, int]:
    """The best of numbers by order of n-grams, and its order."""
    return best(values), 1 + list(values).index(best(values))


def measured(training: Training) -> str:
    """The split by which files are compared."""
    return next((split for split in ("test", "validation") if training.epochs(f"{split}_accuracy") is not None), "train")


def _accuracy(axes: Axes, trainings: list[Training]) -> None:
    drawn = False
    for colour, training in zip(FILES, trainings):
        if len(trainings) == 1:
            for split, label, own, style, marker in SPLITS:
                drawn |= _of_epochs(axes, training, split, "accuracy", own, style, marker, label, 100)
        else:
            split = measured(training)
            values = training.epochs(f"{split}_accuracy")
            label = f"{training.name}: {split}" + (f", {100 * values[-1]:.1f} %" if values is not None else "")
            drawn |= _of_epochs(axes, training, split, "accuracy", colour, "--", "o", label, 100)
    for baseline in sorted({t.facts["baseline_accuracy"] for t in trainings if "baseline_accuracy" in t.facts}):
        drawn = True
        axes.axhline(100 * baseline, color=SOFT, ls=":", lw=1.6, label=f"naive Bayes, {100 * baseline:.1f} %")
    for share, order in sorted({_best_count(values, max) for training in trainings
                                if (values := training.steps("ngram_accuracy")) is not None}):
        drawn = True
        axes.axhline(100 * share, color=SOFT, ls=":", lw=1.6, label=f"{order}-gram, {100 * share:.1f} %")
    if drawn:
        axes.legend(loc="lower right")
    else:
        no_data(axes, "no epoch is complete yet")
    _panel(axes, "Accuracy", "classified correctly  [%]", trainings)


def _rates(axes: Axes, trainings: list[Training]) -> None:
    for k, (colour, training) in enumerate(zip(FILES, trainings)):  # the same schedule twice shows both colours
        _of_steps(axes, training, "learning_rate", colour, training.name, light=False, width=1.8 + 2 * (len(trainings) - 1 - k))
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(plain_numbers)
    _panel(axes, "Learning rate", "learning rate", trainings)


def _gradients(axes: Axes, trainings: list[Training]) -> None:
    for colour, training in zip(FILES, trainings):
        _of_steps(axes, training, "gradient_norm", colour, training.name, light=len(trainings) < 4)
    _logarithmic(axes, trainings, "gradient_norm")
    _panel(axes, "Gradient", "Euclidean norm, before clipping", trainings)


def _result(training: Training) -> str:
    split = measured(training)
    accuracy = training.epochs(f"{split}_accuracy")
    if accuracy is None:
        return f"{training.end:.2f} epochs done"
    name = {"train": "training", "test": "test", "validation": "validation"}[split]
    epochs = f"{len(accuracy)} epoch" + "s" * (len(accuracy) > 1)
    return f"{name} accuracy {100 * accuracy[-1]:.1f} % after {epochs}"


def _of_next_words(training: Training) -> str:
    """Perplexity and bits per byte, as far as known; empty for what guesses no next words."""
    split = measured(training)
    perplexity, bits = training.epochs(f"{split}_perplexity"), training.epochs(f"{split}_bits_per_byte")
    if training.steps("ngram_accuracy") is None or perplexity is None:
        return ""
    return f", perplexity {perplexity[-1]:.4g}" + (f", {bits[-1]:.4g} bits per byte" if bits is not None else "")


def _best(trainings: list[Training]) -> str:
    """The training with the best last accuracy, in words; empty where they cannot be compared."""
    splits = {measured(training) for training in trainings}
    last = {training: values[-1] for training in trainings
            if (values := training.epochs(f"{measured(training)}_accuracy")) is not None}
    if len(splits) > 1 or len(last) < len(trainings):
        return ""
    best = max(last, key=lambda training: last[training])
    return f": {best.name} is ahead, {_result(best)}"


def _scale(training: Training) -> str:
    """Samples, parameters and speed, as far as known."""
    words = []
    if "samples" in training.facts:
        words.append(f"{training.facts['samples']:,} samples")
    if training.facts.get("test_split") == "none":
        words.append("no test split (the test samples are these)")
    if "trained_parameters" in training.facts:
        words.append(f"{training.facts['trained_parameters']:,} parameters")
    speed = training.steps("samples_per_second")
    if speed is not None and np.isfinite(speed).any():
        words.append(f"{np.nanmedian(speed):,.0f} samples/s")
    return ", ".join(words)


def figure(runs: Sequence[Run], folder: str) -> str:
    """Draws loss, accuracy, learning rate and gradient of one run or of several; returns the path written.

    RunError if a run is not a training, or if there are more runs than can be told apart."""
    trainings = [Training(run) for run in runs]
    if len(trainings) > len(FILES):
        raise RunError(f"{len(trainings)} files in one figure cannot be told apart; at most {len(FILES)}")
    first = trainings[0]
    if len(trainings) == 1:
        state = "Training goes on: " if first.run.running else "Training: "
        heading, explanation = state + _result(first) + _of_next_words(first), _scale(first)
        if first.window > 1:
            explanation += f".  Light: each step; dark: means over {first.window} steps. Training accuracy: mean over each epoch."
        name = first.name + "_training"
    else:
        heading = "Trainings compared" + _best(trainings)
        explanation = "Solid: training (means over steps; light: each step). Dashed: after each epoch, on samples not trained on."
        name = "trainings_compared"
    page = sheet(12.6, 7.6, heading, explanation, len(runs))
    page.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    for axes, draw in zip(page.subplots(2, 2).ravel(), (_loss, _accuracy, _rates, _gradients)):
        draw(axes, trainings)
    return save(page, list(runs), folder, name)


def plot(paths: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """Draws one figure of all trainings; yields its path."""
    with contextlib.ExitStack() as stack:
        yield figure([stack.enter_context(Run(training_file(path), unfinished=options.unfinished)) for path in paths], folder)
