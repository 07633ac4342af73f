"""What trainings made, under the names by which the comparisons know it, and which of them differ in seed only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fluxformer.io import Run, Value
from fluxformer.model_file import LAYER_MAP, march_of
from fluxformer.report.data import MODELS, Style
from fluxformer.text import one_line

# Parts of an architecture: settings, what they are if a file is older than the key, and the words for another value.
PARTS: tuple[tuple[str, Value, Callable[[Value], str]], ...] = (
    ("depth.norm_map", "layer", lambda value: "RMSNorm"),
    ("attention.rotary", "none", lambda value: "rotary positions"),
    ("model.positions", "learned", lambda value: "no learned positions"),
    ("model.gated", False, lambda value: "gated networks"),
    ("model.biases", "all", lambda value: "no biases" if value == "none" else "biases of queries, keys and values only"),
    ("attention.qk_norm", False, lambda value: "norms of queries and keys"),
    ("attention.groups", 0, lambda value: f"{value} group{'s' * (value != 1)} of keys"),
    ("attention.window", 0, lambda value: f"a window of {value} tokens"),
    ("equation.nu", 0, lambda value: "transport over tokens"),
)
ABSENT = {key: usual for key, usual, _ in PARTS}
ARCHITECTURE = ("mesh.", "equation.", "depth.", "attention.", "model.")
APART = ("mesh.ranks_", "mesh.edges", "model.seed", "model.file")  # of these sections, what seeds of one architecture may differ in
# Colours, markers and lines of further architectures of a model.
FURTHER = (("#5b21b6", "<", "-."), ("#4d7c0f", "h", "--"), ("#92400e", ">", ":"), ("#be185d", "*", "-"), ("#0e7490", "d", "-."))


class Kind(NamedTuple):
    """Trainings of one architecture: they differ in seed, not in model."""
    model: str    # the name under which the comparisons know it
    style: Style  # its label tells it apart from others
    runs: list[Run]


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


def label_of(run: Run) -> str:
    """The name of what this training made, with the parts in which it departs from a Transformer with LayerNorm and learned positions."""
    label = MODELS[kind_of(run)].label
    if run.settings.get("model.file"):  # the settings do not tell its parts
        return label + ", from a model file"
    parts = [words(value) for key, usual, words in PARTS if (value := run.settings.get(key, usual)) != usual]
    if "rotary positions" in parts and "no learned positions" in parts:  # the ones stand for the others
        parts.remove("no learned positions")
    if "RMSNorm" in parts and "LayerNorm" in label:
        parts.remove("RMSNorm")
        label = label.replace("LayerNorm", "RMSNorm")
    return label + (", " if "," in label or " with " in label else " with ") * bool(parts) + ", ".join(parts)


def kinds(trainings: list[Run]) -> list[Kind]:
    """Trainings by architecture, in the order of MODELS. Runs with one name whose models differ in anything else (width, layers) are
    kinds of their own, named by that."""
    found: list[Kind] = []
    further = 0
    for model, style in MODELS.items():
        named: dict[str, list[Run]] = {}
        for run in trainings:
            if kind_of(run) == model:
                named.setdefault(label_of(run), []).append(run)
        split = [part for label in sorted(named, key=len) for part in _split(label, named[label])]
        for place, (label, runs) in enumerate(split):
            colour, marker, line = FURTHER[further % len(FURTHER)] if place else style[1:]
            further += place > 0
            found.append(Kind(model, Style(label, colour, marker, line), runs))
    return found


def _architecture(run: Run) -> dict[str, Value]:
    """What tells the architecture of a run: its settings, or what is stored of a model that came from a file."""
    if run.settings.get("model.file"):
        return run.described("model")
    return ABSENT | {key: value for key, value in run.settings.items() if key.startswith(ARCHITECTURE) and not key.startswith(APART)}


def _split(label: str, runs: list[Run]) -> list[tuple[str, list[Run]]]:
    """Runs of one name by the parts of their architecture in which they differ. A key that some files are too old to have tells nothing
    apart unless the others differ in it."""
    of_runs = [_architecture(run) for run in runs]
    keys = sorted({key for one in of_runs for key in one})
    differ = [key for key in keys if len({one[key] for one in of_runs if key in one}) > 1]
    parts: dict[str, list[Run]] = {}
    for run, one in zip(runs, of_runs):
        name = one_line(", ".join(f"{key} = {one.get(key, 'not stored')}" for key in differ))
        parts.setdefault(label + (f" ({name})" if name else ""), []).append(run)
    return list(parts.items())
