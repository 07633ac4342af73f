"""Runs of `fluxformer scaling` sorted into studies, and what follows from them.

A study is what may be put on one line: one problem on several numbers of ranks. Repetitions of files with the same number of
ranks are taken together. Speed-up S and efficiency E are against the smallest number of ranks m, T being the median over
repetitions of the wall time of a step:

    strong (the same problem):      S(n) = T(m) / T(n)           E(n) = S(n) m / n
    weak (grown with the ranks):    S(n) = T(m) / T(n) * n / m   E(n) = T(m) / T(n)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

import numpy as np

from fluxformer.experiments import keys_of
from fluxformer.io import Run, RunError, Value

PHASES = ("compute", "ghosts", "ring", "reduction", "pipeline")
SIZES = ("layers", "cells", "tokens", "samples", "width", "ffn", "heads")
GROWN = {"depth": ("layers", "cells"), "tokens": ("tokens",), "samples": ("samples",)}  # in weak mode, with the ranks
IDENTITY = ("study", "mode", "workload", "over", "precision")
LAYOUT = ("ranks_depth", "ranks_token", "groups", "nodes")
# How long is measured, by how many ranks, where the data lie and where the result goes does not change what is measured.
# adjoint.folder is free too, since it changes no result; but states kept there on disk are written and read in each step.
FREE = keys_of("scaling", "output", "free", "permission") - {"adjoint.folder"}
PROGRAM = ("git_revision", "git_dirty", "compiler", "blas", "mpi", "petsc")


Problem = dict[str, Value]
Differences = list[tuple[str, str]]


class Measured:
    """The numbers of one file. All that is needed is read at once: the file may be closed afterwards.

    Attributes
    ----------
    facts : dict
        The attributes of /scaling.
    step : ndarray, shape (repetitions,)
        Wall time of a step  [s].
    rate : ndarray, shape (repetitions,)
        Rate of work of one rank  [flop/s].
    peak : float
        Rate of a large product while all ranks do one, median over the ranks  [flop/s]; NaN if it was not measured.
    memory : float
        Memory of the largest rank  [B].
    seconds : dict of ndarray, shape (repetitions,)
        Time of each phase in a step, median over the ranks  [s].
    messages, bytes : float
        Number of messages that all ranks send in a step, and their bytes.
    checkpoint : ndarray, shape (repetitions,)
        Speed of writing a checkpoint, by the slowest rank  [B/s].

    Raises
    ------
    RunError
        If the run is of another experiment, or does not say what was measured.
    """

    def __init__(self, run: Run) -> None:
        if run.attributes["experiment"] != "scaling":
            raise RunError(f"{run.path}: is of the experiment {run.attributes['experiment']}, not scaling")
        self.run, self.facts, self.ranks = run, run.described("scaling"), int(run.attributes["ranks"])
        self.name = os.path.basename(run.path)
        lacking = [name for name in (*IDENTITY, *LAYOUT, *SIZES) if name not in self.facts]
        if lacking:
            raise RunError(f"{run.path}: /scaling does not say {', '.join(lacking)}")
        self.step = run.numbers("scaling", "step_seconds")
        self.rate = run.numbers("scaling", "flop_rate")
        self.memory = run.numbers("scaling", "memory")[2]
        self.peak = run.numbers("scaling", "peak_flop_rate")[1] if "peak_flop_rate" in run.names("scaling") else np.nan
        there = [phase for phase in PHASES if phase in run.names("scaling")]  # earlier files know no stages of depth
        self.seconds = {phase: run.numbers("scaling", f"{phase}/seconds")[:, 1] if phase in there else np.zeros_like(self.step)
                        for phase in PHASES}  # median over ranks
        traffic = [run.described(f"scaling/{phase}") for phase in there]
        self.messages, self.bytes = (sum(phase[what] for phase in traffic) for what in ("messages", "bytes"))
        self.checkpoint = run.described("scaling/output")["bytes"] / run.numbers("scaling", "output/seconds")[:, 2]  # slowest rank

    @property
    def problem(self) -> Problem:
        """The problem as name -> value: equal for files that may share a line. In weak mode sizes that grow
        are per rank."""
        weak_in = GROWN.get(self.facts["over"], ()) if self.facts["mode"] == "weak" else ()
        problem = {name: self.facts[name] for name in IDENTITY}
        problem |= {name: self.facts[name] / (self.ranks if name in weak_in else 1) for name in SIZES}
        return problem | {key: value for key, value in self.run.settings.items() if key not in FREE}


class Point:
    """What was measured on one number of ranks, over the repetitions of all its files.

    Attributes
    ----------
    steps : ndarray
        Wall times of a step of all repetitions  [s]; `time`: their median, from `least` to `greatest`.
    rate, peak, seconds, messages, bytes, memory, checkpoint
        Numbers of `Measured` over all files: medians; the greatest memory.
    """

    def __init__(self, files: list[Measured]) -> None:
        def pooled(what: Callable[[Measured], np.ndarray]) -> np.ndarray:
            return np.concatenate([what(file) for file in files])

        self.files, self.ranks, self.facts = files, files[0].ranks, files[0].facts
        self.steps = pooled(lambda file: file.step)
        self.time, self.least, self.greatest = np.median(self.steps), self.steps.min(), self.steps.max()
        self.rate = np.median(pooled(lambda file: file.rate))
        self.peak = np.median([file.peak for file in files])
        self.seconds = {phase: np.median(pooled(lambda file: file.seconds[phase])) for phase in PHASES}
        self.messages = np.median([file.messages for file in files])
        self.bytes = np.median([file.bytes for file in files])
        self.memory = max(file.memory for file in files)
        self.checkpoint = np.median(pooled(lambda file: file.checkpoint)) or np.nan  # 0: its size is not known

    def share(self, phase: str) -> float:
        """The share of a phase in a step's time. Both are medians over ranks and repetitions: the sum of all
        shares need not be 1."""
        return self.seconds[phase] / self.time

    @property
    def costs_most(self) -> str:
        """The phase besides compute that takes most, "" if none takes any time."""
        phase = max(PHASES[1:], key=self.share)
        return phase if self.share(phase) > 0 else ""


class Study:
    """One problem on several numbers of ranks.

    Parameters
    ----------
    files : list of Measured
    differences : list of tuple of str
        Pairs (name, value) that tell the study from others of the same name and mode.

    Attributes
    ----------
    points : list of Point
        Points by number of ranks; `base` is the first of them, `last` the last.
    weak : bool
        True if the problem grows with the ranks.
    title : str
        Name of the files that are written.
    """

    def __init__(self, files: list[Measured], differences: Differences) -> None:
        self.files = sorted(files, key=lambda file: (file.ranks, file.run.path))
        first = self.files[0].facts
        self.name, self.mode, self.workload, self.over, self.precision = (first[name] for name in IDENTITY)
        ranks = sorted({file.ranks for file in files})
        self.points = [Point([file for file in self.files if file.ranks == n]) for n in ranks]
        self.base, self.last = self.points[0], self.points[-1]
        self.weak = self.mode == "weak"
        own = ", ".join(f"{name} {value}" for name, value in differences)
        self.subject = f"{self.name} over {self.over}" + (f", {own}" if own else "")
        words = [self.name, self.mode, *(f"{name.split('.')[-1]}-{value}" for name, value in differences)]
        self.title = re.sub(r"[^\w.+-]+", "-", "_".join(words))

    def check(self, mixed: bool) -> None:
        """RunError for files whose times cannot be compared; `mixed`: the programs may differ."""
        for point in self.points:
            self._alike(point.files, lambda file: ", ".join(f"{name} {file.facts[name]}" for name in LAYOUT),
                        f"{point.ranks} ranks share the work in different ways",
                        "Give each way a scaling.study of its own")
        for name in () if mixed else PROGRAM:
            self._alike(self.files, lambda file: str(file.run.attributes.get(name, "not recorded")),
                        f"different {name}, so times do not compare",
                        "Measure them with one build on one kind of machine, or add --mixed")

    def _alike(self, files: list[Measured], what: Callable[[Measured], str], why: str, advice: str) -> None:
        found: dict[str, list[str]] = {}
        for file in files:
            found.setdefault(what(file), []).append(file.run.path)
        if len(found) > 1:
            told = "; ".join(f"{value}: {', '.join(paths)}" for value, paths in found.items())
            raise RunError(f"study {self.name} ({self.mode}): {why} ({told}). {advice}")

    def _speed_up(self, point: Point, time: float) -> float:
        return self.base.time / time * (point.ranks / self.base.ranks if self.weak else 1)

    def speed_up(self, point: Point) -> list[float]:
        """Speed-up of the median step, of the slowest and of the fastest repetition."""
        return [self._speed_up(point, time) for time in (point.time, point.greatest, point.least)]

    def efficiency(self, point: Point) -> list[float]:
        """Efficiency of the median step, of the slowest and of the fastest repetition."""
        return [speed * self.base.ranks / point.ranks for speed in self.speed_up(point)]

    def work_per_rank(self, point: Point) -> float:
        """Floating-point operations of a step, per rank."""
        return point.facts.get("flops", np.nan) / point.ranks

    @property
    def headline(self) -> str:
        """The result of the measurement, in one line."""
        what, last = f"{self.subject}: ", self.last
        if last is self.base:
            return what + f"{number(1e3 * last.time)} ms per step on {ranks_of(last)}"
        against = f" as on {self.base.ranks}" if self.base.ranks > 1 else ""
        noise = " (within the spread)" if last.least <= self.base.greatest and self.base.least <= last.greatest else ""
        if self.weak:
            grown = f"{last.ranks / self.base.ranks:g} times the problem" + f" on {ranks_of(last)}"
            return what + f"{grown} takes {number(last.time / self.base.time)} times as long{against}{noise}"
        fastest = max(self.points, key=lambda point: self.speed_up(point)[0])
        words = f"{number(self.speed_up(last)[0])} times as fast on {ranks_of(last)}{against}"
        if fastest is not last and fastest is not self.base:
            words += f", {number(self.speed_up(fastest)[0])} on {fastest.ranks}"
        return what + words + noise

    @property
    def description(self) -> str:
        """The problem, in one line."""
        problem = self.files[0].problem
        several = lambda name: f"{problem[name]:g} {name[:-1] if problem[name] == 1 else name}"  # noqa: E731
        names = [name for name in SIZES[:4] if name != "cells" or problem["cells"] != problem["layers"]]
        grown = GROWN.get(self.over, ()) if self.weak else ()
        return (f"{self.mode.capitalize()} scaling of {self.workload} steps, {self.precision} precision: "
                f"{', '.join(several(name) + ' per rank' * (name in grown) for name in names)}; "
                f"width {problem['width']:g}, ffn {problem['ffn']:g}, {several('heads')}.")

    @property
    def notes(self) -> list[str]:
        """Notes that a reader of the numbers needs."""
        lines = []
        for point in self.points:
            if len(point.files) > 1:
                names = ", ".join(file.name for file in point.files)
                lines.append(f"{ranks_of(point)}: the {len(point.steps)} repetitions of {names} taken together.")
        work = [self.work_per_rank(point) for point in self.points]
        if self.weak and max(work) > 1.02 * min(work):
            lines.append(f"The work of a rank is not the same: {number(work[0] / 1e9)} Gflop per step on {ranks_of(self.base)}, "
                         f"{number(work[-1] / 1e9)} on {self.last.ranks}; Gflop/s say how well each is used.")
        return lines


def ranks_of(point: Point) -> str:
    """The number of ranks in words."""
    return f"{point.ranks} rank" + "s" * (point.ranks > 1)


def number(value: float) -> str:
    """A number with three digits, never with a power of ten above 1."""
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.3g}" if abs(value) < 0.995 else f"{value:.2f}"


def _word(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _differences(problems: list[Problem]) -> list[Differences]:
    """The names and values that tell each of several problems from the others: one name if one is enough."""
    if len(problems) == 1:
        return [[]]
    names = list(dict.fromkeys(name for problem in problems for name in problem))
    words = {name: [_word(problem.get(name, "none")) for problem in problems] for name in names}


    def told_apart(names: list[str]) -> int:
        """The number of problems that differ in these names."""
        return len(set(zip(*(words[name] for name in names)))) if names else 1

    chosen: list[str] = next(([name] for name in names if told_apart([name]) == len(problems)), [])
    for name in () if chosen else names:
        if told_apart([*chosen, name]) > told_apart(chosen):
            chosen.append(name)
    return [[(name, words[name][k]) for name in chosen] for k in range(len(problems))]


def studies(files: Iterable[Measured], mixed: bool = False) -> list[Study]:
    """Studies of these files, by title. RunError for files of a study that do not belong together (`mixed`: see `Study.check`)."""
    groups: dict[tuple[str, str], dict[tuple[tuple[str, Value], ...], list[Measured]]] = {}
    for file in files:
        same_name = groups.setdefault((file.facts["study"], file.facts["mode"]), {})
        same_name.setdefault(tuple(sorted(file.problem.items())), []).append(file)
    result = []
    for _, alike in sorted(groups.items()):
        members = list(alike.values())
        differences = _differences([some[0].problem for some in members])
        result += sorted((Study(*pair) for pair in zip(members, differences)), key=lambda study: study.title)
    for study in result:
        study.check(mixed)
    return result
