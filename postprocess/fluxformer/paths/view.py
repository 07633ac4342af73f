"""What `fluxformer view` shows at first of attention paths: accuracy and errors over the width, order parameters, scores of heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fluxformer.io import Run
from fluxformer.view.panels import Panel
from fluxformer.view.variables import chosen

FIRST = dict.fromkeys(("paths_theory", "paths_sample", "paths_prune"),
                      ("accuracy", "order", "bias_error", "variance_error", "head_score", "ablated_accuracy", "good_weight"))
ACROSS = {**dict.fromkeys(("accuracy", "bias_error", "variance_error", "good_weight", "head_score"), "width"), "ablated_accuracy": "removed"}


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """The measures of FIRST that are there, as curves over the width; order parameters as the matrix of all pairs of paths."""
    found = chosen(runs, everything, FIRST)
    return [dataclasses.replace(panel, across=ACROSS[name]) if (name := panel.key.split("/")[-1]) in ACROSS else panel for panel in found]
