"""Runs the program over settings: `fluxformer.sweep`."""

from __future__ import annotations

import concurrent.futures
import hashlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fluxformer.dataset import dataset
from fluxformer.io import Run, RunError
from fluxformer.part_file import writing
from fluxformer.solver.program import keys, nearest, of_python, value_text
from fluxformer.solver.running import ProgramError, Starter, kill

if TYPE_CHECKING:
    import xarray

RECORD = "sweep.json"
Point = tuple[object, ...]


class Sweep(Mapping[Point, str]):
    """The runs of a sweep: the values of its keys, as a tuple in their order, and the file of each run.

    Attributes
    ----------
    over : dict
        The keys and their values.
    """

    def __init__(self, over: dict[str, list[Any]], files: dict[Point, str]) -> None:
        self.over, self._files = over, files

    def __getitem__(self, point: Point | object) -> str:
        return self._files[point if isinstance(point, tuple) and point in self._files else (point,)]

    def __iter__(self) -> Iterator[Point]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return "\n".join(f"{', '.join(f'{key} = {value}' for key, value in zip(self.over, point))}: {file}" for point, file in self.items())

    def collect(self, measure: Callable[[xarray.Dataset], Any]) -> xarray.DataArray:
        """A number or an array of each run, as one array whose first axes are the keys of the sweep.

            sweep.collect(lambda data: data["history/norm"][-1].mean())

        `measure` gets each file as `fluxformer.open` returns it. ValueError if its results are not of one shape.
        """
        import numpy as np
        import xarray

        found = []
        for file in self._files.values():
            with dataset(file, "", False) as data:
                found.append(xarray.DataArray(measure(data)).load())
        if len({one.shape for one in found}) > 1:
            raise ValueError(f"the results have different shapes: {', '.join(map(str, dict.fromkeys(one.shape for one in found)))}")
        shape = tuple(len(values) for values in self.over.values())
        numbers = np.stack([one.values for one in found]).reshape(shape + found[0].shape)
        coordinates = {key: [value if isinstance(value, (bool, int, float, str)) else value_text(value) for value in values]
                       for key, values in self.over.items()}
        rest = {name: one for name, one in found[0].coords.items() if all(name in other.coords and one.equals(other.coords[name]) for other in found)}
        return xarray.DataArray(numbers, {**rest, **coordinates}, [*self.over, *found[0].dims], name=found[0].name)


def sweep(experiment: str, deck: str | os.PathLike[str] | None = None, over: Mapping[str, Sequence[object]] | None = None, *,
          folder: str | os.PathLike[str], settings: Mapping[str, object] | None = None, ranks: int | None = None, at_once: int = 1,
          progress: bool = True, launcher: str | None = None, variables: Mapping[str, str] | None = None) -> Sweep:
    """Runs an experiment for all combinations of values of some keys. Called again it runs what is not finished.

        runs = fluxformer.sweep("evolve", "input/evolve/evolve.ini", {"mesh.layers": [12, 24], "evolve.cfl": [0.5, 1]}, folder="out/layers")
        runs.collect(lambda data: data["history/norm"][-1])

    Parameters
    ----------
    experiment, deck, settings, ranks, progress, launcher, variables
        As of `fluxformer.run`.
    over : mapping
        Keys and the values of each.
    folder : path-like
        Where the files are written, one a run, with sweep.json, which tells what they are. More values may be added later; another
        experiment, deck or other settings need another folder.
    at_once : int
        Runs at a time.

    Returns
    -------
    Sweep

    Raises
    ------
    ProgramError
        With the message of the first run that failed, when all others have been tried.
    RunError
        If the folder holds another sweep.
    KeyboardInterrupt
        After Ctrl-C, when the runs under way have written their checkpoints; the next call continues them.
    """
    if over is not None and not isinstance(over, Mapping):
        raise RunError(f'sweep: over = {over!r}: keys and lists of values, such as {{"mesh.layers": [12, 24]}}')
    if not isinstance(at_once, int) or at_once < 1:
        raise RunError(f"sweep: at_once = {at_once!r}: a whole number from 1 on")
    known = keys(experiment)
    values = {key: _values(key, some) for key, some in (over or {}).items()}
    fixed = dict(settings or {})
    _require_plan(values, fixed, known)
    folder = os.path.abspath(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as reason:
        raise RunError(f"{folder}: {reason.strerror}") from None
    _record(os.path.join(folder, RECORD), experiment, deck, fixed)
    starter = Starter(ranks, launcher, variables or {}, progress and at_once == 1, at_once)
    files = {point: os.path.join(folder, _name(values, point)) for point in itertools.product(*values.values())}
    todo = [point for point, file in files.items() if not _finished(file)]
    failures: dict[Point, ProgramError] = {}

    def run_one(place: int, point: Point) -> None:
        file = files[point]
        if progress:
            print(f"run {len(files) - len(todo) + place + 1} of {len(files)}: {os.path.basename(file)}", file=sys.stderr, flush=True)
        own: dict[str, object] = {**fixed, **dict(zip(values, point))}
        if "checkpoint.restart" in known:
            own["checkpoint.restart"] = "auto"
        own["output.overwrite"] = True  # of a run that was stopped
        try:
            starter.run(experiment, deck, own, file)
        except ProgramError as failure:
            failures[point] = failure

    _all(run_one, todo, at_once, starter)
    if failures:
        first = next(point for point in todo if point in failures)
        failure = failures[first]
        raise ProgramError(f"{os.path.basename(files[first])}: {failure}" + (f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""),
                           failure.code, failure.output, failure.command)
    return Sweep(values, files)


def _all(run_one: Callable[[int, Point], None], points: list[Point], at_once: int, starter: Starter) -> None:
    """Runs all points, some at a time."""
    if at_once == 1:  # in this thread, which Ctrl-C reaches
        for place, point in enumerate(points):
            run_one(place, point)
        return
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        tasks = [pool.submit(run_one, place, point) for place, point in enumerate(points)]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            starter.stop()
            try:
                concurrent.futures.wait([task for task in tasks if not task.cancelled()])
            except KeyboardInterrupt:
                for process in [*starter.under_way]:
                    kill(process)
                raise KeyboardInterrupt("the runs were killed") from None
            raise


def _values(key: str, some: object) -> list[Any]:
    if isinstance(some, str) or not isinstance(some, Iterable):
        raise RunError(f"sweep: {key} = {some!r}: a list of values, such as [{some!r}]")
    return [_plain(one) for one in some]


def _require_plan(values: Mapping[str, list[object]], fixed: Mapping[str, object], known: Collection[str]) -> None:
    for key in (*values, *fixed):
        if key not in known:
            raise RunError(f"sweep: {key}: unknown key{nearest(key, known)}")
    for key, some in values.items():
        if not some:
            raise RunError(f"sweep: {key} has no values")
        if len({value_text(one) for one in some}) < len(some) or len({*some}) < len(some):
            raise RunError(f"sweep: a value of {key} is there twice")
    for key in ("output.file", "output.overwrite", "checkpoint.restart"):
        if key in values or key in fixed:
            raise RunError(f"sweep: {key} is set by the sweep itself")
    if both := sorted({*values} & {*fixed}):
        raise RunError(f"sweep: {', '.join(both)} is in over and in settings")


def _record(path: str, experiment: str, deck: str | os.PathLike[str] | None, fixed: Mapping[str, object]) -> None:
    """Writes what the folder is for; RunError if it is for something else."""
    text = None
    if deck is not None and not os.fspath(deck).endswith(".h5"):
        try:
            with open(deck, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError as failure:
            raise RunError(f"{os.fspath(deck)}: {failure.strerror}") from None
    elif deck is not None:
        with Run(deck, unfinished=True) as earlier:
            text = earlier.attributes["settings"]
    plan = {"experiment": experiment, "deck": text, "settings": {key: value_text(value) for key, value in fixed.items()}}
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as file:
                there = json.load(file)
        except (OSError, ValueError) as failure:
            raise RunError(f"{path}: cannot be read ({failure})") from None
        if there != plan:
            differ = ", ".join(name for name in plan if not isinstance(there, dict) or there.get(name) != plan[name])
            raise RunError(f"{os.path.dirname(path)}: holds a sweep with another {differ}; choose another folder")
        return
    with writing(path) as part:
        part.write(json.dumps(plan, indent=1).encode())


def _plain(value: object) -> Any:
    """A value that can be a key of a dictionary and a coordinate: numbers of numpy become Python's, lists tuples."""
    value = of_python(value)
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
        return value
    return tuple(_plain(one) for one in value)


def _name(values: Mapping[str, list[object]], point: Point) -> str:
    """Name of the file of a point: its keys and values. Where a value has letters that names of files should not have, its digest makes the name
    unlike those of other values."""
    words = []
    for key, value in zip(values, point):
        text = value_text(value)
        plain = re.sub(r"[^-+.,@A-Za-z0-9]", "_", text)
        words.append(f"{key}={plain}" + (f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}" if plain != text else ""))
    return ("_".join(words) or "run") + ".h5"


def _finished(file: str) -> bool:
    try:
        Run(file).close()
        return True
    except RunError:
        return False
