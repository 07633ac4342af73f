"""Where the program is, and what it says of itself: experiments and keys (`--describe=json`), how it was built (`--version`)."""

from __future__ import annotations

import difflib
import functools
import html
import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fluxformer.io import RunError

VARIABLE = "FLUXFORMER_BIN"  # as in jobscripts/machine.sh


def program() -> str:
    """Path of the program: that in FLUXFORMER_BIN; else the one beside this package, in a source folder (build/bin) or an installed tree
    (bin); else the first `fluxformer` on PATH. RunError if there is none."""
    if named := os.environ.get(VARIABLE):
        if found := shutil.which(named):
            return os.path.abspath(found)
        raise RunError(f"{VARIABLE} = {named}: no program there")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    above = os.path.dirname(os.path.dirname(package))  # the source folder, or share/fluxformer of an installed tree
    for place in (os.path.join(above, "build", "bin", "fluxformer"), os.path.join(above, "..", "..", "bin", "fluxformer")):
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return os.path.normpath(place)
    if found := shutil.which("fluxformer"):
        return found
    raise RunError(f"the program fluxformer is not found: not beside this package, not on PATH. Build it (./run.sh), or set {VARIABLE} to its path")


def _said(*arguments: str) -> str:
    """What the program prints for arguments that need no MPI."""
    path = program()
    try:
        ended = subprocess.run([path, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as failure:
        raise RunError(f"{path}: {failure.strerror}") from None
    if ended.returncode != 0:
        raise RunError(f"{path} {' '.join(arguments)}: {ended.stderr.strip() or f'exit code {ended.returncode}'}")
    return ended.stdout


@functools.cache
def _described(path: str, changed: int) -> dict[str, dict[str, Any]]:
    del path, changed  # another program, or one that was built anew, is asked again
    return {one["name"]: one for one in json.loads(_said("--describe=json"))["experiments"]}


def described() -> dict[str, dict[str, Any]]:
    """What `--describe=json` says of each experiment, by its name."""
    path = program()
    return _described(path, os.stat(path).st_mtime_ns)


def build_info() -> dict[str, str]:
    """How the program was built: git_revision, git_dirty, compiler, petsc, slepc, mpi and more; RunError if there is no program."""
    return {"program": program(), **dict(line.split(" = ", 1) for line in _said("--version").splitlines() if " = " in line)}


@dataclass(frozen=True)
class Key:
    """A key of an experiment.

    Attributes
    ----------
    name : str
        "mesh.layers".
    type : str
        flag, whole number, number, word, or a list of one of the last three.
    default : bool, int, float, str or list
    sentence : str
        What it is.
    unit : str
        "" for pure numbers and words.
    allowed : str
        Choices or range; "" if there are none.
    when : str
        When it counts; "" if always.
    """

    name: str
    type: str
    default: Any
    sentence: str
    unit: str = ""
    allowed: str = ""
    when: str = ""

    @staticmethod
    def of(entry: Mapping[str, Any]) -> Key:
        """The key from its entry in `--describe=json`."""
        low, high = entry.get("minimum", entry.get("above")), entry.get("maximum")
        ends = [f"{'>' if 'above' in entry else '>='} {low:g}"] if low is not None else []
        ends += [f"<= {high:g}"] if high is not None else []
        return Key(entry["name"], entry["type"], entry["default"], entry["sentence"], entry.get("unit", ""),
                   ", ".join(entry.get("choices", ends)), entry.get("when", ""))

    def __str__(self) -> str:
        facts = "; ".join(filter(None, (self.type, self.allowed, self.unit, self.when and f"when {self.when}")))
        return f"{self.name} = {value_text(self.default)}\n" + textwrap.indent(textwrap.fill(f"{self.sentence} ({facts})", 100), "    ")


def of_python(value: Any) -> Any:
    """A single number of numpy or xarray as one of Python, anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def value_text(value: object) -> str:
    """A setting as decks and the command line write it: true and false, lists with commas. RunError for what is no setting."""
    value = of_python(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return ",".join(map(value_text, value))
    raise RunError(f"{value!r}: a setting is a flag, a number, a text, or a list of numbers or texts")


class Keys(Mapping[str, Key]):
    """Keys by their names. `keys["mesh.layers"]` is one, `keys.mesh` those of a section; printed, and as a table in a notebook."""

    def __init__(self, experiment: str, keys: Mapping[str, Key]) -> None:
        self._experiment, self._keys = experiment, keys

    def __getitem__(self, name: str) -> Key:
        if name in self._keys:
            return self._keys[name]
        raise KeyError(f"{self._experiment} has no key {name}{nearest(name, self._keys)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __getattr__(self, section: str) -> Keys:
        found = {} if section.startswith("_") else {name: key for name, key in self._keys.items() if name.startswith(section + ".")}
        if not found:
            raise AttributeError(f"{self._experiment} has no section {section}{nearest(section, {name.partition('.')[0] for name in self._keys})}")
        return Keys(self._experiment, found)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name.partition(".")[0] for name in self._keys)})

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._keys)

    def __repr__(self) -> str:
        return "\n".join(map(str, self._keys.values()))

    def _repr_html_(self) -> str:
        rows = ([key.name, value_text(key.default), key.unit, key.allowed or key.type, key.sentence + (f" (when {key.when})" if key.when else "")]
                for key in self._keys.values())
        return table(["key", "default", "unit", "allowed", "meaning"], rows)


class Experiments(Mapping[str, str]):
    """The experiments: name and one sentence each; printed, and as a table in a notebook."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> str:
        if name in self._entries:
            return self._entries[name]["sentence"]
        raise KeyError(f"{name}: no such experiment{nearest(name, self._entries)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._entries)

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {sentence}" for name, sentence in self.items())

    def _repr_html_(self) -> str:
        return table(["family", "experiment", ""], ([one["family"], name, one["sentence"]] for name, one in self._entries.items()))


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """A table of HTML with texts to the left."""
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:left">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"
    return "<table>" + line(heads, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def nearest(name: str, names: Iterable[str]) -> str:
    """"; did you mean ...?" for a name that is not there; "" if none is near."""
    found = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {found[0]}?" if found else ""


def experiments() -> Experiments:
    """The experiments that the program has, by family. RunError if there is no program."""
    return Experiments(described())


def keys(experiment: str) -> Keys:
    """The keys of an experiment, as `fluxformer EXPERIMENT --help` shows them. RunError for an unknown experiment."""
    entries = described()
    if experiment not in entries:
        raise RunError(f"{experiment}: no such experiment (fluxformer.experiments() lists them){nearest(experiment, entries)}")
    return Keys(experiment, {one["name"]: Key.of(one) for one in entries[experiment]["keys"]})
