"""The only reader of Fluxformer's output files (docs/reference/output-format.md).

    with Run("out/evolve.h5") as run:
        run.attributes["git_revision"], run.settings["equation.c"]
        u = run.field("u")                # lazy: u.dims, u.shape, u[-1] reads the last output time
        rate = run.history("rate")        # numpy array [step, depth]
        tau = run.analysis("evolve", "arrival_time")

    with Run(training_file("out/train.h5")) as run:       # its history file while the training goes on
        run.training("loss"), run.coordinate("step"), run.running, run.vocabulary

Files are only read. An unreadable file raises a RunError whose message says what to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from types import EllipsisType, TracebackType
from typing import Any

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import RunError, open_file, reading
from fluxformer.text import one_line, seed_list

import h5py
import numpy as np

__all__ = ["Array", "Attributes", "Run", "RunError", "plain", "training_file", "unit_of", "without_checkpoints"]

Value = Any  # what an attribute or a setting holds: str, int, float, bool, or a list of one of them
Index = int | slice | EllipsisType | np.ndarray | tuple[int | slice | EllipsisType | np.ndarray, ...]

OLDEST_SCHEMA, NEWEST_SCHEMA = 1, 1


HISTORY = ".history.h5"


def training_file(output: str | os.PathLike[str]) -> str:
    """Path of the output of a training, or of its history file as long as the output does not exist."""
    output = os.fspath(output)
    history = (output[:-3] if output.endswith(".h5") else output) + HISTORY
    return history if not os.path.isfile(output) and os.path.isfile(history) else output


def without_checkpoints(paths: Iterable[str]) -> list[str]:
    """The paths without those of checkpoints, in their order; says on the standard error how many were passed over. What cannot be read is left
    to the caller. RunError if all are checkpoints."""
    given = list(paths)
    kept = [path for path in given if not _of_checkpoint(path)]
    if given and not kept:
        raise RunError(f"{given[0]}: {CHECKPOINT}" if len(given) == 1 else f"only checkpoints, not results: {', '.join(given)}")
    if passed := len(given) - len(kept):
        print(f"passed over {passed} checkpoint{'s' * (passed > 1)}", file=sys.stderr)
    return kept


CHECKPOINT = "a checkpoint, from which its run goes on, not a result"


def _is_checkpoint(file: h5py.File) -> bool:
    """Whether the file holds what the next step of a run depends on, and no record of the run."""
    return "schema_version" in file.attrs and "experiment" not in file.attrs and "state" in file


def _of_checkpoint(path: str) -> bool:
    """Whether there is a checkpoint at the path; False for what cannot be read."""
    try:
        with open_file(path, growing=path.endswith(HISTORY)) as file, reading(path):
            return _is_checkpoint(file)
    except RunError:
        return False


def plain(value: object) -> Value:
    """An HDF5 attribute as str, int, float or list."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray) and value.size == 1:
        return plain(value.reshape(-1)[0])
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def unit_of(stored: h5py.Dataset) -> str:
    """The unit of a dataset, "" for a pure number."""
    unit = plain(stored.attrs.get("unit", ""))
    return "" if unit == "1" else unit


def _typed(word: str) -> bool | int | float | str:
    """A word of a deck as bool, int, float or str."""
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return word


def parse_settings(deck: str) -> dict[str, Value]:
    """INI text as {"section.key": value}."""
    section, settings = "", {}
    for line in deck.splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip() + "."
        elif "=" in line and line[0] not in "#;":
            key, word = line.split("=", 1)
            settings[section + key.strip()] = _typed(word.strip())
    return settings


class Array:
    """A dataset; its numbers are read when they are indexed.

    Attributes
    ----------
    dims : tuple of str
        Names of its axes, "" for axes without a name.
    shape : tuple of int

    Raises
    ------
    RunError
        If an axis is missing or shorter than the data along it.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
            raise RunError(f"{dataset.file.filename}: {dataset.name} holds no numbers")
        self._dataset, self._path, self._name = dataset, dataset.file.filename, dataset.name
        self.shape: tuple[int, ...] = dataset.shape
        try:
            self.dims: tuple[str, ...] = tuple(axis[0].name.split("/")[-1] if len(axis) else "" for axis in dataset.dims)
            lengths = [len(axis[0]) if len(axis) else size for axis, size in zip(dataset.dims, dataset.shape)]
        except (OSError, RuntimeError, TypeError, AttributeError):
            raise RunError(f"{self._path}: an axis of {self._name} is missing") from None
        if any(size > length for size, length in zip(dataset.shape, lengths)) and not self._path.endswith(HISTORY):
            raise RunError(f"{self._path}: {self._name} has shape {dataset.shape}, its axes {tuple(lengths)}")

    def __getitem__(self, index: Index) -> np.ndarray:
        """The numbers at an index that h5py understands."""
        if not self._dataset:  # h5py's own exception for that depends on its version
            raise ValueError(f"{self._path} is closed")
        with reading(self._path, self._name, (OSError, RuntimeError)):  # others are the caller's, such as a wrong index
            return self._dataset[index]

    def coordinate(self, axis: int | str) -> np.ndarray:
        """The values along axis number `axis` (or the one of that name); 0, 1, 2, ... if the file has none."""
        number = self.dims.index(axis) if isinstance(axis, str) else axis
        with reading(self._path, f"an axis of {self._name}"):
            scales = self._dataset.dims[number]
            return scales[0][...] if len(scales) else np.arange(self.shape[number])


TEXTS = ("experiment", "status", "message", "created", "git_revision", "command_line", "deck", "settings")


class Attributes(dict[str, Value]):
    """The attributes of the file `path`; it is an error of the file if one is missing or not of its type."""

    def __init__(self, path: str, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self.path = path
        for name in TEXTS:
            if name in self and not isinstance(self[name], str):
                raise RunError(f"{path}: attribute {name} is {self[name]!r}, not a text")

    def __missing__(self, name: str) -> Value:
        raise RunError(f"{self.path}: attribute {name} is missing")


class Run:
    """One output file, open for reading. A context manager; fields are read when indexed, everything else on access.

    The history file of a training may still be growing; the contents are those at the time of opening.

    Parameters
    ----------
    path : path-like
    unfinished : bool
        True: also accept a file whose run failed, was interrupted or is still running (name.h5.part).

    Attributes
    ----------
    attributes : Attributes
        Attributes of the file.
    settings : dict
        Every key of the run: "section.key": value.
    running : bool
        True if the run went on when the file was opened.
    seeds : list of int
        Seeds behind the numbers: the seeds that the experiment went over, or the seed of the run; empty if the file names none.
    file : h5py.File

    Raises
    ------
    RunError
        If the file is missing, unreadable, not of Fluxformer, of another schema, or unfinished.
    """

    def __init__(self, path: str | os.PathLike[str], unfinished: bool = False) -> None:
        self.path = os.fspath(path)
        self.file = self._open(unfinished)
        try:
            with reading(self.path):
                values = {name: plain(value) for name, value in self.file.attrs.items()}
            self.attributes = Attributes(self.path, values)
            self._check(unfinished)
            self.settings = parse_settings(self.attributes.get("settings", ""))
            with reading(self.path, "/seed"):
                self.seeds = [int(seed) for seed in (self.file["seed"][...] if "seed" in self.file else np.atleast_1d(self.attributes.get("seed", [])))]
            # The writer of a history extends the axes last, so every column has at least that many rows.
            with reading(self.path, "/step or /epoch"):
                self._rows: dict[str, int] = {name: int(self.file[name].size) for name in ("step", "epoch") if name in self.file}
        except BaseException:
            self.close()
            raise

    def _open(self, unfinished: bool) -> h5py.File:
        part = self.path + ".part"
        if not os.path.exists(self.path) and os.path.isfile(part):
            raise RunError(f"{self.path}: no such file; the run that writes it is not finished ({part} is there)")
        if self.path.endswith(".part") and os.path.isfile(self.path) and not unfinished:
            raise RunError(f"{self.path}: the run that writes it is not finished, or was killed "
                           "(--unfinished reads it all the same)")
        return open_file(self.path, growing=self.path.endswith(HISTORY))

    def _check(self, unfinished: bool) -> None:
        version, status = self.attributes.get("schema_version"), self.attributes.get("status")
        with reading(self.path):
            checkpoint = _is_checkpoint(self.file)
        if checkpoint:
            raise RunError(f"{self.path}: {CHECKPOINT}")
        if version is None or "experiment" not in self.attributes:
            raise RunError(f"{self.path}: an HDF5 file, but not one of Fluxformer (no schema_version, experiment)")
        if not isinstance(version, int):
            raise RunError(f"{self.path}: attribute schema_version is {version!r}, not a whole number")
        if version < OLDEST_SCHEMA:
            raise RunError(f"{self.path}: schema {version} is too old for this reader ({OLDEST_SCHEMA} to "
                           f"{NEWEST_SCHEMA}): run it again, fluxformer {self.attributes['experiment']} {self.path}")
        if version > NEWEST_SCHEMA:
            raise RunError(f"{self.path}: schema {version} is newer than this reader ({NEWEST_SCHEMA}): "
                           "use the postprocess/ of the revision that wrote it "
                           f"({self.attributes.get('git_revision', 'not recorded')})")
        self.running = status == "running"
        if status != "done" and not unfinished and not self.path.endswith(HISTORY):
            why = self.attributes.get("message")
            raise RunError(f"{self.path}: its run did not end normally (status '{status}'{': ' + why if why else ''}); "
                           "it holds what there was up to then (--unfinished reads it all the same)")

    def close(self) -> None:
        """Closes the file; what was read stays."""
        if self.file:
            self.file.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def names(self, group: str) -> list[str]:
        """Names of what the group holds, sorted; none if there is no such group."""
        with reading(self.path, f"/{group}"):
            return sorted(self.file[group]) if group in self.file else []

    def _array(self, group: str, name: str) -> Array:
        path = f"{group}/{name}"
        if path not in self.file:
            there = ", ".join(self.names(group)) or "nothing"
            raise RunError(f"{self.path}: no /{path} (/{group} holds {there})")
        with reading(self.path, f"/{path}"):
            return Array(self.file[path])

    @property
    def fields(self) -> list[str]:
        """Names of the fields in /field."""
        return self.names("field")

    @property
    def histories(self) -> list[str]:
        """Names of the histories in /history."""
        return self.names("history")

    def analyses(self, kind: str) -> list[str]:
        """Names of the measures in /analysis/<kind>."""
        return self.names(f"analysis/{kind}")

    def field(self, name: str) -> Array:
        """The field /field/<name>, [time, depth, token, sample, channel]; its numbers are read when they are indexed."""
        return self._array("field", name)

    def history(self, name: str) -> np.ndarray:
        """The history /history/<name> as a numpy array: [step] or [step, depth]."""
        return self._array("history", name)[...]

    def analysis(self, kind: str, name: str) -> np.ndarray:
        """The measure /analysis/<kind>/<name> as a numpy array."""
        return self._array(f"analysis/{kind}", name)[...]

    def dimensions(self, kind: str, name: str) -> tuple[str, ...]:
        """Names of the axes of /analysis/<kind>/<name>."""
        return self._array(f"analysis/{kind}", name).dims

    def described(self, group: str) -> dict[str, Value]:
        """The attributes of a group (say "analysis/attention/independent"); empty if there is none."""
        with reading(self.path, f"/{group}"):
            return {name: plain(value) for name, value in self.file[group].attrs.items()} if group in self.file else {}

    @property
    def timing(self) -> dict[str, float]:
        """Wall time of each phase, maximum over the ranks  [s]."""
        with reading(self.path, "/timing"):
            return {name: float(self.file["timing"][name][2]) for name in self.names("timing")}

    def numbers(self, group: str, name: str) -> np.ndarray:
        """The numbers of /<group>/<name> as a numpy array, for groups that one family of experiments writes."""
        return self._array(group, name)[...]

    @property
    def trainings(self) -> list[str]:
        """Names of the measures in /training."""
        return self.names("training")

    def training(self, name: str) -> np.ndarray:
        """The measure /training/<name> as a numpy array: [step] or [epoch]."""
        array = self._array("training", name)
        return array[:self._rows.get(array.dims[0], array.shape[0])]

    @property
    def training_attributes(self) -> dict[str, Value]:
        """The attributes of /training: samples, trained_parameters, ...; empty if there is no such group."""
        return self.described("training")

    @property
    def vocabulary(self) -> list[str]:
        """The words of a text model, in the order of their vectors; empty if it has none."""
        path = "model/embedding/vocabulary"
        with reading(self.path, f"/{path}"):
            return [plain(word) for word in self.file[path][...]] if path in self.file else []

    @property
    def coordinates(self) -> list[str]:
        """Names of the coordinate variables in the root group."""
        with reading(self.path):
            return [name for name in self.file if isinstance(self.file[name], h5py.Dataset)]

    def coordinate(self, name: str) -> np.ndarray:
        """A coordinate variable of the root group (depth, token_x, time, ...) as a numpy array."""
        if name not in self.file:
            raise RunError(f"{self.path}: no coordinate /{name}")
        with reading(self.path, f"/{name}"):
            return self.file[name][:self._rows[name]] if name in self._rows else self.file[name][...]

    def unit(self, name: str) -> str:
        """The unit of a coordinate of the root group; "" for a pure number or a coordinate that is not there."""
        with reading(self.path, f"/{name}"):
            return unit_of(self.file[name]) if name in self.file else ""

    @property
    def deck_name(self) -> str:
        """The deck (or earlier result) that the run was started with; "defaults" if there was none."""
        for word in self.attributes.get("command_line", "").split()[2:]:
            if not word.startswith("-"):
                return word
        return "defaults"

    @property
    def revision(self) -> str:
        """Revision of the program that wrote the file, and whether it had changes that were not committed."""
        dirty = self.attributes.get("git_dirty") in (1, True, "1", "true", "yes")
        return str(self.attributes.get("git_revision", "not recorded"))[:10] + (" + changes" if dirty else "")

    @property
    def origin(self) -> str:
        """One line that identifies the run behind a figure."""
        get = self.attributes.get
        return one_line(f"{self.path} · {get('experiment')} · deck {self.deck_name} · revision {self.revision} · "
                        f"seed{'s' * (len(self.seeds) > 1)} {seed_list(self.seeds)} · {get('ranks')} rank(s)")
