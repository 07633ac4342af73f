"""Spectra as `hessian_spectrum` stores them, and their densities."""

from __future__ import annotations

import numpy as np

from fluxformer.io import Run, RunError
from fluxformer.report.data import MODELS, Comparison

PARTS = {"hessian": "H", "gauss_newton": "Gauss-Newton part", "functional": "functional part"}
EXACT = "gauss_newton_exact"  # all eigenvalues of the Gauss-Newton part, instead of estimates
PARTS_OF_MODELS = {**PARTS, EXACT: "Gauss-Newton, exact"}


class Spectra:
    """The spectra of trained models in the files of a comparison.

    Parameters
    ----------
    comparison : Comparison
        Files with different seeds.

    Attributes
    ----------
    comparison : Comparison
    models : list of str
        Names of the models, in the order of MODELS.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.models = [name for name in comparison.having("loss") if name in MODELS]
        if not self.models:
            raise RunError(f"{self.run.path}: holds no Hessian of a model")

    @property
    def run(self) -> Run:
        """The first file."""
        return self.comparison.runs[0]

    def has(self, model: str, part: str, name: str) -> bool:
        """True if a part of a model's Hessian has this measure."""
        return self._named(part, name) in self.comparison.measures[model]

    @staticmethod
    def _named(part: str, name: str) -> str:
        return name if part == "hessian" else f"{part}_{name}"

    def numbers(self, model: str, part: str, name: str) -> np.ndarray:
        """The numbers of a measure; the first axis is the seed."""
        return self.comparison.numbers(model, self._named(part, name))

    def parts(self, model: str, name: str) -> list[str]:
        """The parts of a model's Hessian that have this measure."""
        return [part for part in PARTS_OF_MODELS if self.has(model, part, name)]

    def parts_with_density(self, model: str) -> list[str]:
        """The parts of a model's Hessian whose eigenvalues are sampled or all known."""
        return [part for part in PARTS_OF_MODELS if self.has(model, part, "eigenvalue" if part == EXACT else "density_node")]

    def with_density(self) -> list[str]:
        """The models that have a part with a density."""
        return [model for model in self.models if self.parts_with_density(model)]

    def quadrature(self, model: str, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of all seeds and probes and the shares of the spectrum that they stand for, which sum to 1."""
        if part != EXACT:
            nodes, weights = self.numbers(model, part, "density_node"), self.numbers(model, part, "density_weight")
            known = np.isfinite(nodes)
            return nodes[known], weights[known] / known.any(axis=-1).sum()
        values = self.numbers(model, part, "eigenvalue")
        values = values[np.isfinite(values).all(axis=-1)]
        parameters = float(self.comparison.facts(model)["parameters"])
        zeros = max(parameters - values.shape[-1], 0.0)  # beyond those of samples x classes
        nodes = np.append(values.ravel(), 0.0)
        shares = np.append(np.ones(values.size), zeros * len(values))
        return nodes, shares / shares.sum()

    def having(self, name: str) -> list[str]:
        """The models that have this measure of some part."""
        return [model for model in self.models if self.parts(model, name)]

    def block_names(self, model: str) -> list[str]:
        """The names of the blocks in the order of their axis."""
        return str(self.comparison.facts(model)["blocks"]).split("\n")

    def layer_heterogeneity(self, model: str, part: str) -> np.ndarray:
        """Mean distance between the spectra of the blocks of layers alone, without embedding and head; a
        number for each seed. Blocks that are 0 are in no pair."""
        distances = self.numbers(model, part, "block_distance")
        sizes = np.diagonal(self.numbers(model, part, "block_norm"), axis1=1, axis2=2)
        inner = np.array([" of " in name for name in self.block_names(model)])
        means = []
        for distance, size in zip(distances, sizes):
            kept = inner & (size > 0)
            pairs = distance[np.ix_(kept, kept)][np.triu_indices(int(kept.sum()), 1)]
            means.append(pairs.mean() if len(pairs) else np.nan)
        return np.array(means)

    def density(self, model: str, part: str, grid: np.ndarray, scale: float, width: float) -> np.ndarray:
        """Density of asinh(eigenvalue / scale) on `grid`, mean over probes and seeds, each eigenvalue of the `quadrature` broadened to a
        Gaussian of standard deviation `width`.
        """
        nodes, shares = self.quadrature(model, part)
        bells = np.exp(-0.5 * ((grid[:, None] - np.arcsinh(nodes / scale)) / width) ** 2) / (width * np.sqrt(2 * np.pi))
        return bells @ shares

    def sharpness(self, model: str, eigenvalue: str) -> np.ndarray | None:
        """Learning rate times an eigenvalue by epoch, shape (seeds, epochs), NaN where the rate has come to
        0; None if one of the two is not known at any epoch."""
        rate, values = (self.comparison.measure(model, name) for name in ("epoch_learning_rate", f"epoch_{eigenvalue}"))
        if rate is None or values is None:
            return None
        product = np.where(rate > 0, rate, np.nan) * (values[..., 0] if values.ndim > 2 else values)  # the largest comes first
        return product if np.isfinite(product).any() else None

    def threshold(self, model: str, eigenvalue: str) -> float | None:
        """The value from which on the product of rate and this eigenvalue makes the optimiser unstable; None
        if that is not known. An optimiser that preconditions is judged by the preconditioned eigenvalue
        alone."""
        preconditioned = self.has(model, "hessian", "epoch_preconditioned_eigenvalue")
        if preconditioned != (eigenvalue == "preconditioned_eigenvalue"):
            return None
        value = self.comparison.facts(model).get("stability_threshold")
        return None if value is None else float(value)
