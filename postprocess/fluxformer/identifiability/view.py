"""What `fluxformer view` shows at first of identifiability: raw and effective attention with the words, what tokens contribute, which are found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fluxformer.io import Run
from fluxformer.view.panels import Panel, together

MAPS = (("raw weights", "map_raw"), ("effective weights", "map_effective"), ("others with the same output", "map_alternative"))
FOUND = (("the state itself", "rate_identity_cosine"), ("a linear map", "rate_linear_cosine"), ("a map with a hidden layer", "rate_mlp_cosine"),
         ("control, shuffled", "rate_shuffled"))
FREE = (("linear", "nullity_linear"), ("sums of rows kept", "nullity_simplex"), ("by another query", "nullity_reachable"))
WORDS = "Point at a row, or move to it by the arrow keys: it is laid out below as words, or as the picture, that its tokens come from."


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """Maps of the first sample, then curves by depth and layer."""
    def named(*parts: tuple[str, str]) -> list[tuple[str, Panel | None]]:
        return [(label, everything.get(f"analysis/identifiability/{name}")) for label, name in parts]

    found = together("Attention of one head on the first sample: its weights, and others that do as well", named(*MAPS), what=WORDS)
    contributions, blanked = (everything.get(f"analysis/identifiability/{name}") for name in ("contribution_map", "blanked_change"))
    found += [dataclasses.replace(contributions, what=WORDS, alone=True)] if contributions else []
    found += [blanked] if blanked else []
    found += together("Tokens that are found from their hidden states", named(*FOUND), across="depth", label="share found")
    found += together("Dimensions in which a row of weights may change without a change of the output", named(*FREE), across="length", label="dimensions")
    own = everything.get("analysis/identifiability/own_share")
    return found + ([own] if own else [])
