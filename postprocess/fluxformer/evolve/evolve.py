"""Runs in time, in the report: how a sample reaches its steady state."""

from __future__ import annotations

import numpy as np

from fluxformer.evolve.figures import Evolution, draw_front, front_maps
from fluxformer.report.data import Study
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas


def draw(study: Study) -> list[Drawing]:
    """Draws the front of each run in time that has depth."""
    drawings = []
    for k, run in enumerate(study.evolutions):
        evolution = Evolution(run)
        if len(evolution.depth) < 2 or not (maps := front_maps(evolution)):
            continue
        figure = canvas(4.2)
        draw_front(figure, evolution, maps)
        speed = evolution.front_speed()
        pace = f" On average it passes {speed:.2f} layers per unit of time." if np.isfinite(speed) else ""
        drawings.append(Drawing(f"evolve-{k}", "How a sample reaches its steady state",
                                "The input enters at depth 0 and is carried through the layers. Dots: the front τ(s), after which the state at "
                                f"depth s stays within {100 * evolution.threshold:g} % of its steady state.{pace} Dashed: transport alone.",
                                figure, [run]))
    return drawings


SECTIONS = (Section(2, "evolve", "In time", "evolve", draw),)
