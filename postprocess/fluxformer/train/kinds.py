"""What trainings made, under the names by which the comparisons know it."""

from __future__ import annotations

from fluxformer.io import Run
from fluxformer.model_file import LAYER_MAP, march_of
from fluxformer.report.data import MODELS


def kind_of(run: Run) -> str:
    """The name under which the comparisons know what this training made."""
    if run.settings.get("model.kind", "transformer") == "transformer":
        if run.settings.get("equation.alpha") == 0:
            return "mlp"
        return "linear" if run.settings.get("attention.normalisation") == "linear" else "transformer"
    if run.settings.get("distill.teacher"):
        return "distilled"
    if "," in str(run.settings.get("train.cells", "")) or march_of(run.settings) != LAYER_MAP:  # of several numbers of cells
        return "converged"
    return "independent" if run.settings.get("depth.norm") == "none" else "normed"


def by_kind(trainings: list[Run]) -> dict[str, list[Run]]:
    """Trainings of each kind, cut to as many epochs as all of a kind have."""
    kinds = {name: [run for run in trainings if kind_of(run) == name] for name in MODELS}
    return {name: runs for name, runs in kinds.items() if runs}
