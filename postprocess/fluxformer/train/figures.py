"""The figure of one or several trainings."""

import os

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from fluxformer.evolve.figures import no_data, panel
from fluxformer.style import ACCENT, INK, SOFT, decades, plain_numbers, save, sheet
from fluxformer.io import RunError

BLUE = "#2563eb"
FILES = (ACCENT, BLUE, "#0f9d78", "#9333ea", "#b45309", "#475569")  # colour of each file
SPLITS = (("train", "training", ACCENT, "-", ""), ("validation", "validation", BLUE, "--", "s"), ("test", "test", INK, "-", "o"))
SMOOTHED = 60  # number of means that show the curve over steps
MOST_POINTS = 6000  # of a line: more steps than pixels are thinned out
MOST_MARKERS = 30  # on a line: with more epochs the markers are omitted


class Training:
    """The data of one run for all panels. Abscissa of all panels: completed epochs of training."""

    def __init__(self, run):
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
    def _optional(run, axis):
        try:
            return run.coordinate(axis)
        except RunError:
            return np.zeros(0)

    def _steps_per_epoch(self):
        samples, batch = self.facts.get("samples", 0), self.run.settings.get("train.batch", 0)
        if batch and samples >= batch:
            return samples // batch
        return max(1, round(len(self.step) / max(1, len(self.epoch))))

    def steps(self, name):
        """One number per step, or None."""
        return self.run.training(name) if name in self.run.trainings else None

    def epochs(self, name):
        """One number per epoch, or None if there is none yet or the split has no samples (NaN)."""
        values = self.run.training(name) if name in self.run.trainings else np.zeros(0)
        return values if np.isfinite(values).any() else None

    def smoothed(self, values):
        """Means over `window` consecutive steps, and their positions."""
        count = len(values) // self.window * self.window
        mean = lambda numbers: numbers[:count].reshape(-1, self.window).mean(axis=1)  # noqa: E731
        return mean(self.done), mean(values)

    def end(self):
        return (self.step[-1] + 1) / self.per_epoch


def _thin(count):
    return slice(None, None, max(1, count // MOST_POINTS))


def _panel(axes, title, ylabel, trainings):
    end = max(training.end() for training in trainings)
    axes.set_xlim(0, 1.01 * end)
    if end >= 5 and len(axes.lines):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_axisbelow(True)
    panel(axes, title, ylabel, "epochs done")


def _logarithmic(axes, columns):
    """A logarithmic axis if the values span more than a decade."""
    span = decades(np.concatenate(columns))
    if span > 1:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < 3 else (1,)))
        axes.yaxis.set_major_formatter(plain_numbers)
        axes.yaxis.set_minor_formatter(NullFormatter())


def _of_steps(axes, training, name, colour, label, light=True, width=1.8):
    values = training.steps(name)
    keep = _thin(len(values))
    if light and training.window > 1:
        axes.plot(training.done[keep], values[keep], color=colour, lw=0.6, alpha=0.28, rasterized=True, zorder=1.5)
        place, values = training.smoothed(values)
    else:
        place, values = training.done[keep], values[keep]
    axes.plot(place, values, color=colour, lw=width, label=label)


def _of_epochs(axes, training, split, what, colour, style, marker, label, scale=1.0):
    """A mean over an epoch is drawn at its middle, a measure after an epoch at its end."""
    values = training.epochs(f"{split}_{what}")
    if values is None:
        return False
    place = training.epoch[:len(values)] - (0.5 if split == "train" else 0)
    few = len(values) <= MOST_MARKERS
    axes.plot(place, scale * values, style, color=colour, lw=1.8, marker=(marker or "o") if few else "", ms=4, label=label)
    return True


def _loss(axes, trainings):
    for colour, training in zip(FILES, trainings):
        alone = len(trainings) == 1
        _of_steps(axes, training, "loss", colour, "training" if alone else training.name, light=alone or len(trainings) < 4)
        for split, label, own, style, marker in SPLITS[1:]:
            if alone:
                _of_epochs(axes, training, split, "loss", own, style, marker, label)
        if not alone:
            _of_epochs(axes, training, _measured(training), "loss", colour, "--", "o", None)
    _logarithmic(axes, [training.steps("loss") for training in trainings])
    _panel(axes, "Loss", "cross entropy  [nat]", trainings)
    axes.legend(loc="best")


def _measured(training):
    """The split used to compare files."""
    return next((split for split in ("test", "validation") if training.epochs(f"{split}_accuracy") is not None), "train")


def _accuracy(axes, trainings):
    drawn = False
    for colour, training in zip(FILES, trainings):
        if len(trainings) == 1:
            for split, label, own, style, marker in SPLITS:
                drawn |= _of_epochs(axes, training, split, "accuracy", own, style, marker, label, 100)
        else:
            split = _measured(training)
            drawn |= _of_epochs(axes, training, split, "accuracy", colour, "--", "o", f"{training.name}: {split}", 100)
    for baseline in sorted({t.facts["baseline_accuracy"] for t in trainings if "baseline_accuracy" in t.facts}):
        drawn = True
        axes.axhline(100 * baseline, color=SOFT, ls=":", lw=1.6, label=f"naive Bayes, {100 * baseline:.1f} %")
    if drawn:
        axes.legend(loc="lower right")
    else:
        no_data(axes, "no epoch is complete yet")
    _panel(axes, "Accuracy", "classified correctly  [%]", trainings)


def _rates(axes, trainings):
    for k, (colour, training) in enumerate(zip(FILES, trainings)):  # the same schedule twice shows both colours
        _of_steps(axes, training, "learning_rate", colour, training.name, light=False, width=1.8 + 2 * (len(trainings) - 1 - k))
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(plain_numbers)
    _panel(axes, "Learning rate", "learning rate", trainings)


def _gradients(axes, trainings):
    for colour, training in zip(FILES, trainings):
        _of_steps(axes, training, "gradient_norm", colour, training.name, light=len(trainings) < 4)
    _logarithmic(axes, [training.steps("gradient_norm") for training in trainings])
    _panel(axes, "Gradient", "Euclidean norm, before clipping", trainings)


def _result(training):
    split = _measured(training)
    accuracy = training.epochs(f"{split}_accuracy")
    if accuracy is None:
        return f"{training.end():.2f} epochs done"
    name = {"train": "training", "test": "test", "validation": "validation"}[split]
    epochs = f"{len(accuracy)} epoch" + "s" * (len(accuracy) > 1)
    return f"{name} accuracy {100 * accuracy[-1]:.1f} % after {epochs}"


def _scale(training):
    """Samples, parameters and speed, as far as known."""
    words = []
    if "samples" in training.facts:
        words.append(f"{training.facts['samples']:,} samples")
    if "trained_parameters" in training.facts:
        words.append(f"{training.facts['trained_parameters']:,} parameters")
    speed = training.steps("samples_per_second")
    if speed is not None and np.isfinite(speed).any():
        words.append(f"{np.nanmedian(speed):,.0f} samples/s")
    return ", ".join(words)


def figure(runs, folder):
    """Loss, accuracy, learning rate and gradient of one run or of several; returns the path written."""
    trainings = [Training(run) for run in runs]
    if len(trainings) > len(FILES):
        raise RunError(f"{len(trainings)} files in one figure cannot be told apart; at most {len(FILES)}")
    first = trainings[0]
    if len(trainings) == 1:
        state = "Training goes on: " if first.run.running else "Training: "
        heading, explanation = state + _result(first), _scale(first)
        if first.window > 1:
            explanation += f".  Light: each step; dark: means over {first.window} steps. Training accuracy: mean over each epoch."
        name = first.name + "_training"
    else:
        heading = "Trainings compared: " + "; ".join(f"{t.name} {_result(t).split(' accuracy ')[-1]}" for t in trainings[:3])
        explanation = "Solid: training (means over steps; light: each step). Dashed: after each epoch, on samples not trained on."
        name = "trainings_compared"
    page = sheet(12.6, 7.6, heading, explanation, len(runs))
    page.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    for axes, draw in zip(page.subplots(2, 2).ravel(), (_loss, _accuracy, _rates, _gradients)):
        draw(axes, trainings)
    return save(page, list(runs), folder, name)
