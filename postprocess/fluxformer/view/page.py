"""Writes the page: plotly.js, a script of its own, the panels, the arrays, and settings and provenance of every file, all in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fluxformer.io import Run, Value
from fluxformer.part_file import writing
from fluxformer.view.panels import LATTICE, PAIRS, TOKENS, Axis, Panel, finished, joined, name_of
from fluxformer.view.storage import Store
from fluxformer.view.variables import names_of

_TEMPLATES = Environment(loader=PackageLoader("fluxformer.view"), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
SHORT = 400  # letters of a fact in a table
WHOLE = 1e15  # larger reals are no counts
TOLD = ("experiment", "status", "message", "created", "git_revision", "git_dirty", "command_line", "seed", "ranks", "compiler", "petsc", "slepc", "hdf5",
        "mpi", "blas", "host", "cites")


def write(path: str, runs: Sequence[Run], first: Sequence[Panel], others: Sequence[Panel]) -> None:
    """Writes the page.

    Parameters
    ----------
    path : str
    runs : sequence of Run
        The files, open.
    first : sequence of Panel
        What is shown at first.
    others : sequence of Panel
        What a menu offers; numbers that stand alone become a table.
    """
    panels = [*first, *(panel for panel in others if not panel.is_number())]
    store = Store(panels)
    described = [_described(finished(joined(panel)), store, len(runs)) for panel in panels]
    called = names_of(runs)
    page = _TEMPLATES.get_template("page.html").render(
        title=" · ".join(dict.fromkeys(called.values())), experiments=", ".join(dict.fromkeys(str(run.attributes["experiment"]) for run in runs)),
        origins=[run.origin for run in runs], plotly=Markup(get_plotlyjs()),
        contents=Markup(_in_script({"panels": described, "first": len(first), "pairs": PAIRS, "tokens": TOKENS, "prefix": LATTICE,
                                    "pictures": store.pictures})),
        blocks=store.blocks, numbers=[_row(finished(panel)) for panel in others if panel.is_number()],
        files=[(called[run.path], _facts(run), sorted(run.settings.items())) for run in runs])
    with writing(path) as stream:
        stream.write(page.encode())


def _in_script(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _described(panel: Panel, store: Store, files: int) -> dict[str, Any]:
    series, left_out = [], {}  # type: ignore[var-annotated]
    for one in panel.series:
        number, held, gone = store.series(one)
        look = one.look
        series.append({"label": one.label, "array": number, "axes": [_axis(axis, store) for axis in held.axes],
                       **({"colour": look.colour, "dash": look.dash, "symbol": look.symbol, "light": look.light} if look else {})})
        for text in gone:
            left_out.setdefault(text, []).append(one.label)
    notes = [text + (f" ({', '.join(labels)})" if len(labels) < len(panel.series) else "") for text, labels in left_out.items()]
    held_by = {one.file for one in panel.series} - {""}
    only = f"Only in {held_by.pop()}." if files > 1 and len(held_by) == 1 else ""
    return {"key": panel.key, "title": panel.title, "unit": panel.unit, "what": " ".join(filter(None, (panel.what, only))),
            "across": panel.across, "up": panel.up,
            "logarithmic": panel.logarithmic,
            "label": panel.label or panel.key.split("/")[-1].replace("_", " "), "alone": panel.alone, "series": series, "leftOut": notes}


def _axis(axis: Axis, store: Store) -> dict[str, Any]:
    return {"name": axis.name, "unit": axis.unit, "values": store.axis(axis.values), "names": axis.names, "by": axis.by, "exact": axis.exact,
            "lattice": axis.lattice, "pictures": store.picture(axis.pictures), "what": axis.what}


def _row(panel: Panel) -> tuple[str, str, list[tuple[str, str]]]:
    """Title, place in the file and, for each series, the numbers of a variable without axes but that of seeds."""
    return panel.title + (f"  [{panel.unit}]" if panel.unit else ""), panel.key, [(one.label, _numbers(one.values[(slice(None),) * len(one.axes)]))
                                                                                    for one in panel.series]


def _numbers(values: np.ndarray) -> str:
    return ", ".join(_number(value).replace("-", "−").replace("inf", "∞").replace("nan", "NaN") for value in np.ravel(values).tolist())


def _number(value: float) -> str:
    """Whole numbers in full, as far as a real can hold them; others with six digits."""
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < WHOLE)
    return f"{int(value)}" if whole else f"{value:.6g}"


def _facts(run: Run) -> list[tuple[str, str]]:
    """What the file says of the run and of the models that it measured."""
    rows = [(name, _short(run.attributes[name])) for name in TOLD if name in run.attributes]
    for kind in run.names("analysis"):
        for model in ("", *run.analyses(kind)):
            group = f"analysis/{kind}" + f"/{model}" * bool(model)
            rows += [(f"{name_of(model) or kind}: {name}", _short(value)) for name, value in run.described(group).items() if name not in ("unit", "long_name")]
    rows += [(f"training: {name}", _short(value)) for name, value in run.training_attributes.items()]
    rows += [(f"model: {name}", _short(value)) for name, value in run.described("model").items()]
    return rows


def _short(value: Value) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= SHORT else text[:SHORT] + " …"
