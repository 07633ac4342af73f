"""What `fluxformer view` shows at first of `evolve`: the front over depth and time, what each token holds, channels, attention."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from fluxformer.io import Run
from fluxformer.view.panels import LATTICE, Panel, Series

MEASURES = ("distance", "rate", "norm", "token_variance", "dirichlet_energy", "flux")
CLUSTERS = tuple(f"analysis/evolve/{name}" for name in ("number_2", "components_low", "components_high", "energy"))


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """Two pictures over depth and time, maps of the tokens, and what else was stored."""
    measured = [everything[f"history/{name}"] for name in MEASURES if f"history/{name}" in everything]
    with_numbers = [panel for panel in measured if any(np.isfinite(one.values[(slice(None),) * len(one.axes)]).any() for one in panel.series)]
    found = with_numbers[:2]
    if "field/u" in everything:
        field = everything["field/u"]
        found += _sizes(field)
        found.append(dataclasses.replace(field, title="Hidden state of one token and channel", across="time",
                                         up="depth" if field.lengths().get("depth") else ""))
        found.append(field)
    for key in (*CLUSTERS, "attention/weights", "analysis/evolve/attention_entropy", "analysis/evolve/arrival_time", "prediction/class_logits"):
        found += [everything[key]] if key in everything else []
    return found


def _sizes(field: Panel) -> list[Panel]:
    """The norm of each token's state over the channels (rms), from all channels that the file has."""
    series: list[Series] = []
    for one in field.series:
        if [axis.name for axis in one.axes][-1:] == ["channel"]:
            rows = [np.sqrt(np.mean(np.square(one.values[(slice(k, k + 1), *(slice(None),) * (len(one.axes) - 1))].astype(float)), axis=-1))
                    for k in range(len(one.axes[0]))]
            series.append(dataclasses.replace(one, axes=one.axes[:-1], values=np.concatenate(rows)))
    across = LATTICE + "token" if series and all((axis := one.axis("token")) and axis.lattice for one in series) else "token"
    return [Panel("field/u", "What each token holds: norm of u over the channels (rms)", field.unit, tuple(series), across,
                  across if across != "token" else "")] if series else []
