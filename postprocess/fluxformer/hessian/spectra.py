"""Spectra as `hessian` stores them, and their densities."""

from __future__ import annotations

import numpy as np

from fluxformer.io import Run, RunError

PARTS = {"hessian": "H", "gauss_newton": "Gauss-Newton part", "functional": "functional part"}


class Spectra:
    """The measures of one file.

    Attributes
    ----------
    run : Run
    models : list of str
        In the order of the file.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.models = [name for name in ("transformer", "independent", "distilled", "inherited") if self._has(name, "loss")]
        if not self.models:
            raise RunError(f"{run.path}: holds no Hessian of a model (no /analysis/hessian)")

    def _has(self, model: str, name: str) -> bool:
        try:
            self.run.analysis("hessian", f"{model}/{name}")
        except RunError:
            return False
        return True

    def has(self, model: str, part: str, name: str) -> bool:
        """Whether a part of a model's Hessian has this measure."""
        return self._has(model, self._named(part, name))

    @staticmethod
    def _named(part: str, name: str) -> str:
        return name if part == "hessian" else f"{part}_{name}"

    def numbers(self, model: str, part: str, name: str) -> np.ndarray:
        """A measure, seeds first."""
        return np.asarray(self.run.analysis("hessian", f"{model}/{self._named(part, name)}")[...])

    def parts(self, model: str, name: str) -> list[str]:
        """The parts that have this measure."""
        return [part for part in PARTS if self.has(model, part, name)]

    @property
    def have_density(self) -> bool:
        """Whether some model has a spectral density."""
        return any(self.parts(model, "density_node") for model in self.models)

    @property
    def with_blocks(self) -> list[str]:
        """The models whose blocks were measured."""
        return [model for model in self.models if self.parts(model, "block_norm")]

    @property
    def with_course(self) -> list[str]:
        """The models that were followed over their training."""
        return [model for model in self.models if self._has(model, "epoch_largest_eigenvalue")]

    def block_names(self, model: str) -> list[str]:
        """The blocks in the order of their axis."""
        return str(self.run.described(f"analysis/hessian/{model}")["blocks"]).split("\n")

    def density(self, model: str, part: str, grid: np.ndarray, scale: float, width: float) -> np.ndarray:
        """Density of asinh(eigenvalue / scale) on `grid`, mean over probes and seeds: the quadratures of all probes, each node
        broadened to a Gaussian of standard deviation `width`.
        """
        nodes, weights = self.numbers(model, part, "density_node"), self.numbers(model, part, "density_weight")
        probes = nodes.shape[0] * nodes.shape[1]
        known = np.isfinite(nodes)
        centres, shares = np.arcsinh(nodes[known] / scale), weights[known] / probes
        bells = np.exp(-0.5 * ((grid[:, None] - centres) / width) ** 2) / (width * np.sqrt(2 * np.pi))
        return bells @ shares
