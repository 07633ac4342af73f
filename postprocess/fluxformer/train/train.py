"""Trainings in the report: accuracy and losses over epochs."""

from __future__ import annotations

import numpy as np

from fluxformer.io import Run
from fluxformer.report.data import Study
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel
from fluxformer.train import next_words
from fluxformer.train.kinds import kinds


def course(runs: list[Run], name: str) -> np.ndarray | None:
    """A measure over epochs, [seed, epoch]; None where it is not known."""
    columns = [run.training(name) for run in runs if name in run.trainings]
    if len(columns) < len(runs) or not columns:
        return None
    least = min(len(column) for column in columns)
    values = np.array([column[:least] for column in columns])
    return values if least and np.isfinite(values).any() else None


COURSES = (("test_accuracy", "On test samples", "classified correctly  [%]", 100), ("train_loss", "While training", "loss  [nat]", 1),
           ("test_loss", "On test samples", "cross entropy  [nat]", 1))


def _trainings(study: Study) -> Drawing:
    made = kinds(study.trainings)
    figure = canvas(3.4)
    panels = figure.subplots(1, len(COURSES))
    for axes, (name, title, unit, scale) in zip(panels, COURSES):
        longest = 1
        for _, style, runs in made:
            if (values := course(runs, name)) is not None:
                epochs = np.arange(1, values.shape[1] + 1)
                longest = max(longest, len(epochs))
                over(axes, epochs - (0.5 if name.startswith("train") else 0), scale * values, style, style.label)
        axes.set_xlim(0, longest + 0.3)
        panel(axes, title, "epochs done", unit)
    panels[1].set_ylim(0, None)
    panels[2].set_ylim(0, None)
    legend(figure, *panels)
    return Drawing("training", "How the models learn",
                   "Means over seeds with one standard deviation; the training loss is a mean over the steps of an epoch, before each step. "
                   "That of a distilled model is its cross entropy alone.", figure, study.trainings)


def draw(study: Study) -> list[Drawing]:
    """Draws the figure of the trainings; none if there are none."""
    return [_trainings(study)] if study.trainings else []


SECTIONS = (Section(1, "models", "The models and their training", "train", draw),
            Section(1, "next-words", "Next words, and what counting gives", "train", next_words.draw, rows=next_words.table))
