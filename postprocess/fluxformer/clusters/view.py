"""The first panels of `fluxformer view` for clusters: rates over the degree; tokens by angle and time, and numbers of clusters; order
over noise; cosines behind a layer over beta / log n; numbers of clusters by depth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fluxformer.io import Run
from fluxformer.view.panels import Panel
from fluxformer.view.variables import chosen

FIRST = {"clusters_growth": ("rate", "rate_theory", "layer_growth", "fastest_degree"),
         "clusters_circle": ("density", "number_2", "number", "moment", "energy", "compact_share"),
         "clusters_sphere": ("number_2", "number", "components_low", "components_high", "degree_power", "energy"),
         "clusters_noise": ("order_up", "order_down", "order_up_theory", "order_down_theory", "branch_ratio", "number_2_up", "number_2_down"),
         "clusters_context": ("bare_layer_cosine", "layer_cosine", "gathering_time", "acting_keys"),
         "clusters_models": ("number_2", "number_2_normal", "number_2_across", "effective_rank", "energy_change", "value_mismatch")}
DRAWN = {"rate": ("degree", ""), "rate_theory": ("degree", ""), "layer_growth": ("degree", ""), "density": ("time", "angle"), "moment": ("time", ""),
         "bare_layer_cosine": ("scaling", "cosine"), "layer_cosine": ("scaling", "cosine"), "gathering_time": ("scaling", "")}


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """The measures of FIRST that are there; density as a picture."""
    return [dataclasses.replace(panel, across=DRAWN[name][0], up=DRAWN[name][1]) if (name := panel.key.split("/")[-1]) in DRAWN else panel
            for panel in chosen(runs, everything, FIRST)]
