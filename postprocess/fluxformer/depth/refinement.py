"""Refinement in the report: goals of models against their number of depth cells, and the cells that make the error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of
from fluxformer.style import SOFT


def _goals(comparison: Comparison) -> list[str]:
    return str(comparison.facts()["goal_names"]).split()


def _cells(comparison: Comparison, model: str) -> np.ndarray:
    """Depth cells of a model on all meshes."""
    return comparison.axis(f"{model}_cell").max() * comparison.axis("multiple")


def _course(comparison: Comparison) -> Drawing:
    goals = _goals(comparison)
    figure = canvas(3.6)
    panels = figure.subplots(1, len(goals) + 1)
    for model in comparison.having("goal_value"):
        style, cells = style_of(model), _cells(comparison, model)
        values, limits = comparison.numbers(model, "goal_value"), comparison.numbers(model, "limit")
        for axes, k in zip(panels, range(len(goals))):
            over(axes, cells, values[:, k], style, style.label)
            known = limits[:, k][np.isfinite(limits[:, k])]
            if len(known) == len(limits):
                axes.plot([cells[-1], 2 * cells[-1]], [known.mean()] * 2, color=style.colour, ls=":", lw=1.6)
        over(panels[-1], cells, 100 * comparison.numbers(model, "accuracy"), style, style.label)
    for axes, title, unit in zip(panels, (*goals, "accuracy"), (*goals, "accuracy  [%]")):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        panel(axes, title.capitalize(), "depth cells", unit)
    legend(figure, panels[0])
    return Drawing("refinement-course", "What models give on finer depth cells",
                   "The first marker of a line is the mesh of the training. A dotted line is the limit, the solution of the equation; "
                   "it is drawn where the observed order of convergence is that of the method, for all seeds.", figure, comparison.runs)


def _indicators(comparison: Comparison) -> Drawing:
    goals = _goals(comparison)
    figure = canvas(3.2)
    panels = np.atleast_1d(figure.subplots(1, len(goals)))
    for model in comparison.having("indicator"):
        style, depth = style_of(model), comparison.depth(model)
        for axes, k in zip(panels, range(len(goals))):
            over(axes, (depth[1:] + depth[:-1]) / 2, comparison.numbers(model, "indicator")[:, k] / np.diff(depth), style, style.label)
    for axes, goal in zip(panels, goals):
        axes.axhline(0, color=SOFT, ls=":", lw=1.2)
        panel(axes, goal.capitalize(), "depth s  [layers]", "indicator / length of the cell")
    legend(figure, panels[0])
    return Drawing("refinement-indicators", "Where in depth the error is made",
                   "Contribution of each cell to the change of the goal from half its length, over its length; mean over the test samples.",
                   figure, comparison.runs)


def _adapted(comparison: Comparison) -> Drawing | None:
    """The error of the first goal; None where no cells were placed anew or no limit is known."""
    known = [model for model in comparison.having("adapted_value") if np.isfinite(comparison.numbers(model, "limit")[:, 0]).all()]
    if not known:
        return None
    goal, how = _goals(comparison)[0], str(comparison.facts()["adapt"])
    figure = canvas(3.6)
    panels = np.atleast_1d(figure.subplots(1, len(known), sharey=True))
    for axes, model in zip(panels, known):
        style, cells, limit = style_of(model), _cells(comparison, model), comparison.numbers(model, "limit")[:, :1]
        for name, label, line in (("goal_value", "cells of equal length", "--"), ("adapted_value", "placed by the indicators", "-")):
            error = np.abs(comparison.numbers(model, name)[:, 0] - limit)
            there = np.isfinite(error).all(axis=0)
            over(axes, cells[there], error[:, there], style._replace(line=line), label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:.0f}")
        panel(axes, style.label, "depth cells", f"error of the {goal}")
    legend(figure, panels[0])
    return Drawing("refinement-adapted", "Cells of equal length, and cells placed by the indicators",
                   f"Distance of the {goal} from its limit. Cells were placed by: {how}.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the refinement; none if it was not run."""
    comparison = study.of("refinement")
    if comparison is None:
        return []
    return [drawing for drawing in (_course(comparison), _indicators(comparison), _adapted(comparison)) if drawing is not None]


EQUAL_CELLS_DO = 1.3  # gain of the best cells below which they are not worth finding


def _within(comparison: Comparison, model: str) -> str:
    """Of how many seeds the first goal is as close to its limit as an equation's."""
    within = comparison.numbers(model, "within_tolerance")[:, 0]
    unknown = np.isnan(within).sum()
    return f"{np.nansum(within):.0f} of {len(within)}" + (f", {unknown} unknown" if unknown else "")


def _gain(comparison: Comparison, model: str) -> str:
    gain = comparison.numbers(model, "gain")[:, 0]
    return mean_and_spread(gain) + (": equal cells do as well" if gain.mean() < EQUAL_CELLS_DO else "")


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: the first goal of each model on its own cells and on finer ones, and how much else changes."""
    def column(name: str, *place: int, scale: float = 1.0) -> Callable[[str], str]:
        def of_model(model: str) -> str:
            values = comparison.numbers(model, name)
            for index in place:
                values = values[:, index]
            return mean_and_spread(scale * values) if np.isfinite(values).all() else "none"
        return of_model

    goal, times = _goals(comparison)[0], [f"{one:.0f} ×" for one in comparison.axis("multiple")]
    return comparison.table({
        **{f"{goal}, {one} own cells": column("goal_value", 0, place) for place, one in enumerate(times)},
        "change to the limit": column("distance", 0),
        "seeds within tolerance": lambda model: _within(comparison, model),
        "accuracy, own cells  [%]": column("accuracy", 0, scale=100),
        f"accuracy, {times[-1]}  [%]": column("accuracy", -1, scale=100),
        f"last state moves, {times[-1]}": column("state_distance", -1),
        "straightness": column("straightness"),
        "gain of best cells": lambda model: _gain(comparison, model)})


SECTIONS = (Section(7, "refinement", "Finer depth cells", "refinement", draw, table),)
