"""The time of a step of `evolve` or `train` as a formula in sizes and ranks, with rates fitted to measurements.

A step passes through the layers several times (evolve: evaluations of du/dt; train: forward, and backward as two). On
depth x token x group ranks a pass takes, with the rows = samples x tokens and the cells of the largest rank,

    work     cells x (rows (8 d^2 + 4 d f) a  +  rows n d b  +  e)
    ring     token - 1 times for each cell, keys, values and a number per head of all rows of a rank, in as many messages
             as attention makes chunks of its samples; they travel while its kernel (b alone) works on a block: only the
             excess counts. train: one more message in the backward pass, not overlapped
    ghosts   evolve: one cell's slab to the next rank in depth, sent while the other cells are computed: only the excess counts

and a step one sum: of three numbers over all ranks (evolve), or of the gradient of a stage's cells over the ranks that share it (train;
assumed not to overlap). A training on several ranks over depth cuts a group's samples into m micro-batches (each costs a cell its e):

    bubble   (depth - 1) / m of the work: the stages wait for the first and the last micro-batches
    pipeline 2 (depth - 1) messages of a micro-batch's state on the way up and down, and 2 m times what one takes longer than a
             third of the work on it
A message of s bytes takes alpha + s / beta, a sum of s bytes over P ranks log2(P) (alpha_sum + s / beta_sum): a tree.
A training also updates the weights of its cells once a step, f for each cell, however many micro-batches there are.
a: seconds per flop of the products with weights, with the passes over the state (LayerNorm, activation, updates), which at
one width are proportional to them; b: per channel of a pair of tokens; e and f: per cell. They are fitted by non-negative least
squares of relative residuals.
Tokens are a line: a lattice is cut into rectangles, which may be less even. Neglected: diffusion over tokens and over depth,
whose messages are a few rows of tokens, or one more slab.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

WORK = ("rows", "attention", "cells", "update")
WORDS = {"rows": "products and passes over the state", "attention": "attention's kernel",
         "cells": "fixed cost of a cell, which token ranks do not share",
         "update": "update of a cell's weights", "ring": "keys and values around the ring",
         "ghosts": "slabs to the next rank", "sum": "sum over ranks", "imbalance": "load imbalance",
         "bubble": "stages that wait for the first and the last micro-batches", "pipeline": "states and adjoints between stages"}

Grid = tuple[int, int, int]    # ranks over depth, tokens, samples
Wire = tuple[float, float]     # latency [s] and bandwidth [B/s]


@dataclasses.dataclass(frozen=True)
class Case:
    """The sizes of a problem.

    Attributes
    ----------
    workload : str
        Workload: evolve or train.
    passes : float
        Passes through the layers in a step.
    number : int
        Bytes of a travelling number.
    summed : int
        Bytes that are summed over the ranks in a step.
    micro_batches : int
        Micro-batches of a training; 0: as many as the program takes.
    """

    workload: str
    cells: int
    tokens: int
    samples: int
    width: int
    ffn: int
    heads: int
    passes: float
    number: int
    summed: int
    micro_batches: int = 0

    @property
    def pass_flops(self) -> float:
        """Floating-point operations of one pass through the layers."""
        rows = self.tokens * self.samples
        return self.cells * rows * (8 * self.width**2 + 4 * self.width * self.ffn + 4 * self.tokens * self.width)


def micro_batches_of(case: Case, grid: Grid) -> int:
    """The number of parts into which a group cuts its samples."""
    if case.workload == "evolve":
        return 1
    depth, _, group = grid
    return case.micro_batches or (1 if depth == 1 else min(math.ceil(case.samples / group), 4 * depth))


def work_of(case: Case, cells: float, tokens: float, samples: float, parts: int = 1) -> np.ndarray:
    """The factors of a, b, e, f in a step of a rank with this many cells, tokens and samples, the latter in parts."""
    rows = samples * tokens
    once = [rows * (8 * case.width**2 + 4 * case.width * case.ffn), rows * case.tokens * case.width, parts]
    updates = cells if case.workload == "train" else 0
    return np.array([*(case.passes * cells * factor for factor in once), updates], dtype=float)


def chunks_of(case: Case, tokens: int, samples: int) -> int:
    """The number of chunks that attention makes of this many samples: as many at a time as fit into the L2 cache."""
    cache = 768 * 1024
    fit = min(max(cache // (6 * tokens * case.width * case.number), 1), samples)
    most = math.ceil(samples / math.ceil(samples / fit))
    return math.ceil(samples / most)


def largest_share(case: Case, grid: Grid) -> Grid:
    """Cells, tokens and samples of the largest rank of depth x token x group."""
    depth, token, group = grid
    parts = micro_batches_of(case, grid)
    samples = parts * math.ceil(math.ceil(case.samples / group) / parts)  # the last ones are filled up
    return math.ceil(case.cells / depth), math.ceil(case.tokens / token), samples


def fit_line(sizes: np.ndarray, seconds: np.ndarray) -> Wire:
    """Fits (latency, bandwidth) of seconds = latency + size / bandwidth, by relative residuals; sizes in bytes."""
    matrix = np.column_stack([np.ones_like(seconds), sizes]) / seconds[:, None]
    latency, per_byte = nnls(matrix, np.ones_like(seconds))[0]
    return latency, 1 / per_byte if per_byte > 0 else math.inf


class Machine:
    """The times of the parts of a step on a machine.

    Attributes
    ----------
    rates : ndarray, shape (4,)
        Rates: a [s/flop], b [s per channel of a pair of tokens], e [s per cell], f [s per cell]; 0 where they are left out.
    message, sum_over_ranks : tuple of float
        Latency [s] and bandwidth [B/s] of a message, and of one doubling of the ranks in a sum.
    """

    def __init__(self, rates: ArrayLike, message: Wire, sum_over_ranks: Wire) -> None:
        self.rates = np.zeros(len(WORK))
        self.rates[:len(np.asarray(rates))] = rates
        self.message, self.sum_over_ranks = message, sum_over_ranks

    @staticmethod
    def fitted(runs: Iterable[tuple[Case, Grid, float]], message: Wire, sum_over_ranks: Wire) -> Machine:
        """Rates fitted to runs: case, grid, seconds of the work of a step on the slowest rank."""
        rows = [work_of(case, *largest_share(case, grid), micro_batches_of(case, grid)) / seconds for case, grid, seconds in runs]
        scale = np.max(rows, axis=0)  # columns of very different units
        scale[scale == 0] = 1  # evolve updates no weights
        return Machine(nnls(np.array(rows) / scale, np.ones(len(rows)))[0] / scale, message, sum_over_ranks)

    def message_seconds(self, size: float) -> float:
        """Seconds of a message of this many bytes."""
        return self.message[0] + size / self.message[1]

    def sum_seconds(self, size: float, ranks: int) -> float:
        """Seconds of a sum of this many bytes over the ranks."""
        return math.log2(ranks) * (self.sum_over_ranks[0] + size / self.sum_over_ranks[1]) if ranks > 1 else 0.0

    def step(self, case: Case, grid: Grid) -> dict[str, float]:
        """Seconds of the terms of a step, by name; their sum is its time."""
        depth, token, group = grid
        cells, tokens, samples = largest_share(case, grid)
        micro = micro_batches_of(case, grid)
        mean = work_of(case, case.cells / depth, case.tokens / token, case.samples / group, micro) * self.rates
        most = work_of(case, cells, tokens, samples, micro) * self.rates
        parts: dict[str, float] = dict(zip(WORK, mean))
        parts["imbalance"] = most.sum() - mean.sum()
        kernel = most[WORK.index("attention")] / (case.passes * cells * token)  # while one block is processed
        chunks = micro * chunks_of(case, tokens, samples // micro)
        message = chunks * self.message_seconds(tokens * samples * (2 * case.width + case.heads) * case.number / chunks)
        parts["ring"] = case.passes * cells * (token - 1) * max(0.0, message - kernel)
        if case.workload == "train" and token > 1:
            parts["ring"] += cells * message
        inner = most.sum() / case.passes * (cells - 1) / cells  # all cells except the one that waits
        slab = self.message_seconds(8 * tokens * samples * case.width / micro)
        stages = depth if case.workload == "train" else 1
        parts["ghosts"] = case.passes * max(0.0, slab - inner) if depth > stages else 0.0
        passing = most.sum() - most[WORK.index("update")]
        parts["bubble"] = (stages - 1) / micro * passing
        parts["pipeline"] = 2 * (stages - 1) * slab + 2 * micro * max(0.0, slab - passing / (3 * micro)) if stages > 1 else 0.0
        parts["sum"] = self.sum_seconds(case.summed / stages, depth // stages * token * group)
        return parts

    def seconds(self, case: Case, grid: Grid) -> float:
        """Seconds of a step."""
        return sum(self.step(case, grid).values())

    def best_grid(self, case: Case, ranks: int) -> Grid | None:
        """The fastest grid of this many ranks (in a tie, the one with the fewest ranks over tokens); None if there are more
        ranks than parts."""
        def pairs(number: int) -> list[tuple[int, int]]:
            return [(part, number // part) for part in range(1, number + 1) if number % part == 0]

        grids = [(depth, token, group) for depth, others in pairs(ranks) for token, group in pairs(others)
                 if depth <= case.cells and token <= case.tokens and group <= (case.samples if case.workload == "train" else 1)]
        return min(grids, key=lambda grid: (float(f"{self.seconds(case, grid):.6g}"), grid[1])) if grids else None

    def efficiency(self, case: Case, grid: Grid) -> float:
        """Efficiency T(1) / (P T(P))."""
        return self.seconds(case, (1, 1, 1)) / (math.prod(grid) * self.seconds(case, grid))

    def losses(self, case: Case, grid: Grid) -> dict[str, float]:
        """Seconds of each term beyond a P-th of one rank's step, by name: the parallel overhead. Their sum is
        T(P) - T(1) / P."""
        alone, ranks = self.step(case, (1, 1, 1)), math.prod(grid)
        return {name: seconds - alone[name] / ranks for name, seconds in self.step(case, grid).items()}

    def limit(self, case: Case, grid: Grid) -> str | None:
        """The term with the largest overhead; None if all are below a hundredth of the step."""
        lost = self.losses(case, grid)
        name = max(lost, key=lambda one: lost[one])
        return name if lost[name] > 1e-2 * self.seconds(case, grid) else None


@dataclasses.dataclass(frozen=True)
class Compared:
    """A run with its prediction; `used`: it took part in the fit, `measured` and `predicted`: seconds of a step."""

    run: str
    used: bool
    case: Case
    grid: Grid
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted / self.measured - 1


@dataclasses.dataclass(frozen=True)
class Predicted:
    """A case on its best grid for a number of ranks."""

    case: Case
    grid: Grid
    machine: Machine

    @property
    def ranks(self) -> int:
        """Number of ranks of the whole grid."""
        return math.prod(self.grid)

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return self.machine.seconds(self.case, self.grid)

    @property
    def efficiency(self) -> float:
        """Efficiency T(1) / (P T(P))."""
        return self.machine.efficiency(self.case, self.grid)

    @property
    def limit(self) -> str:
        """The term that loses most, in words."""
        name = self.machine.limit(self.case, self.grid)
        return WORDS[name] if name else "nothing loses 1 %"

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of the terms of a step, by name."""
        return self.machine.step(self.case, self.grid)

    @property
    def losses(self) -> dict[str, float]:
        """Seconds of each term beyond a P-th of one rank's step, by name."""
        return self.machine.losses(self.case, self.grid)
