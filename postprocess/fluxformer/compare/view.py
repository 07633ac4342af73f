"""What `fluxformer view` shows at first of the comparisons of models: the measures that each is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fluxformer.io import Run
from fluxformer.view.panels import Panel, together
from fluxformer.view.variables import chosen

FIRST = {
    "attention": ("map", "mean_distance", "weight_by_distance", "entropy", "centred_heads"),
    "information_flow": ("norm", "token_variance", "dirichlet_energy", "cka", "example_norm", "drift"),
    "spectrum_of_states": ("singular_value", "effective_rank"),
}
SCORES = ("centred", "kl")
NULLS = (("", ""), ("_uniform", "null: uniform rows"), ("_permuted", "null: keys permuted"), ("_untrained", "null: untrained"),
         ("_ceiling", "two Transformers"))


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """The measures of FIRST; of attention also its scores beside null controls."""
    found = chosen(runs, everything, FIRST)
    for score in SCORES:
        parts = [(label, everything.get(f"analysis/attention/{score}{ending}")) for ending, label in NULLS]
        if parts[0][1]:
            found[1:1] = together(f"How alike attention is to the Transformer's: {parts[0][1].title}", parts)
    return [_attention_first(panel) for panel in found]


def _attention_first(panel: Panel) -> Panel:
    if not panel.key.endswith("attention/map"):
        return panel
    return dataclasses.replace(panel, what="Rows are tokens that look, columns those that are looked at. The row under the pointer is laid out below as the "
                                           "picture, or as the words, that the tokens come from.")
