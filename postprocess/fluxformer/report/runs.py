"""The tables of the report: the models that were compared, and the runs behind every number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fluxformer.io import Run, Value
from fluxformer.report.data import COUPLINGS, MODELS, Study, data_of, group_of, mean_and_spread
from fluxformer.report.origins import duration, wall_time
from fluxformer.text import seed_list
from fluxformer.train.kinds import Kind, kinds

TRAINING = "Training of these models, wall time of all seeds together"


def _last(run: Run, name: str) -> float:
    values = run.training(name) if name in run.trainings else np.empty(0)
    return float(values[-1]) if len(values) else np.nan


def model_rows(study: Study) -> list[tuple[Value, ...]]:
    """Rows of the table of models, the first of them headings: sizes, training state, accuracy and cost of
    each kind of model."""
    rows: list[tuple[Value, ...]] = [("model", "training state", "numbers in the model", "of them trained", "sets of weights", "norm",
                                      "test accuracy  [%]", "training  [s]")]
    trained = kinds(study.trainings)
    for name, style in MODELS.items():
        described = (comparison.facts(name) for comparison in study.comparisons.values())
        facts: dict[str, Value] = next((found for found in described if "parameters" in found), {})
        own = [kind for kind in trained if kind.model == name]
        # Facts are those of the architecture that was compared: of several, the one whose files the comparison read.
        compared = set(str(facts.get("files", "")).splitlines())
        its = own if len(own) == 1 else [kind for kind in own if compared & {str(run.settings.get("output.file")) for run in kind.runs}]
        if facts and not its:
            rows.append(_model_row(Kind(name, style, []), facts))
        rows += [_model_row(kind, facts if kind in its else {}) for kind in own]
    return rows


def _model_row(kind: Kind, facts: dict[str, Value]) -> tuple[Value, ...]:
    """The row of one kind of model, with what comparisons say of it."""
    name, style, runs = kind
    # Every model holds kappa, alpha and rho too, which the training of a Transformer leaves as they are.
    trained_numbers = runs[0].training_attributes.get("trained_parameters") if runs else None
    norm = facts.get("norm") or (runs[0].settings.get("depth.norm", "–") if runs else "–")
    return (style.label, _state(name, facts, runs), _count(facts.get("parameters")), _count(trained_numbers), facts.get("knots", "–"), norm,
            mean_and_spread([100 * _last(run, "test_accuracy") for run in runs]), mean_and_spread([wall_time(run) for run in runs]))


def _state(name: str, facts: dict[str, Value], runs: list[Run]) -> str:
    """How the models came by their weights, in a few words."""
    seeds = [line.split(";")[0] for line in str(facts.get("trained", "")).splitlines()]
    epochs = {run.settings.get("train.epochs") for run in runs}
    if len(epochs) == 1 and None not in epochs:
        return f"trained, {epochs.pop()} epochs, {len(runs)} seed{'s' * (len(runs) > 1)}" + (", distilled" if name == "distilled" else "")
    if len(seeds) > 1 and all(one.startswith("trained, seed ") for one in seeds):
        return f"trained, {len(seeds)} seeds"
    return "; ".join(dict.fromkeys(seeds)) or COUPLINGS.get(name, "trained")


def _count(value: int | None) -> str:
    return f"{int(value):,}".replace(",", " ") if value is not None else "–"


def _places_text(places: list[int]) -> str:
    """Numbers of runs in their list, in words: "run 3", "runs 3 to 5, 8"."""
    starts = [one for one in places if one - 1 not in places]
    ends = [one for one in places if one + 1 not in places]
    parts = [f"{start}" if start == end else f"{start}, {end}" if end == start + 1 else f"{start} to {end}" for start, end in zip(starts, ends)]
    return f"run{'s' * (len(places) > 1)} {', '.join(parts)}"


class Training(NamedTuple):
    """What the trainings of one kind of model cost."""
    model: str
    places: list[int]  # in the list of all runs, from 1; none if these trainings are not among them
    cost: str          # wall time of all together

    @property
    def text(self) -> str:
        """The cost in words."""
        return f"{MODELS[self.model].label} " + (f"{self.cost} ({_places_text(self.places)})" if self.places else "not among the files")


def trainings_behind(study: Study, runs: list[Run]) -> list[Training]:
    """Trainings of the models that the comparisons of a study read; a model may have seen the samples as
    other tokens (an MLP)."""
    known = [run for run in runs if run.attributes["experiment"] == "train" and data_of(run)[0] == study.data[0]]
    found = []
    for model in MODELS:
        facts = [comparison.facts(model) for comparison in study.comparisons.values()]
        files = {line for one in facts if str(one.get("trained", "")).startswith("trained") for line in str(one.get("files", "")).splitlines()}
        if files:
            these = [run for run in known if run.settings.get("output.file") in files]
            found.append(Training(model, [runs.index(run) + 1 for run in these], duration(sum(wall_time(run) for run in these))))
    return found


def run_rows(runs: list[Run]) -> list[tuple[Value, ...]]:
    """Rows of the table of runs, the first of them headings: one row per file."""
    rows: list[tuple[Value, ...]] = [("file", "experiment", "revision", "seeds", "ranks", "wall time [s]", "of it for all seeds [s]", "command")]
    for run in runs:
        rows.append((run.path, run.attributes["experiment"], run.revision, seed_list(run.seeds), run.attributes.get("ranks", "–"),
                     f"{wall_time(run):.1f}" if run.timing else "–", _by_model(run), run.attributes.get("command_line", "–")))
    return rows


def _by_model(run: Run) -> str:
    """Seconds that each model took in a comparison, as text."""
    group = group_of(run)
    costs = [(MODELS[name].label, run.analysis(f"{group}/{name}", "seconds").sum()) for name in MODELS
             if "seconds" in run.analyses(f"{group}/{name}")]
    return "; ".join(f"{label} {seconds:.1f}" for label, seconds in costs) or "–"
