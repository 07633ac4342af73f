"""What `fluxformer view` shows at first of refinement and removal in depth: goals on finer cells, and what single cells or layers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluxformer.io import Run
from fluxformer.view.panels import Panel
from fluxformer.view.variables import chosen

FIRST = {"refinement": ("goal_value", "accuracy", "indicator", "state_distance", "indicator_by_sample", "goal_value_by_sample"),
         "removal": ("accuracy", "loss", "score", "order")}


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """The measures of FIRST that are there."""
    return chosen(runs, everything, FIRST)
