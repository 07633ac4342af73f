"""Small made-up files of the studies of Hessians, with the names that the program writes (docs/reference/output-format.md), and tests on them.

Ends with status 77 as claim_sample.py says.
"""

import os

import comparison_sample as sample
from claim_sample import ClaimTest  # before what else it may not find

import numpy as np

from fluxformer.report.data import open_run, studies

MODELS = ("transformer", "independent", "distilled", "linear", "mlp")
BLOCKS = ("embedding", "Q of set 1", "K of set 1", "V of set 1", "head")
EPOCHS, SIGMAS = (0, 1, 2), (0.001, 0.01, 0.02, 0.05, 0.1, 1.0)
HETEROGENEITY = {"transformer": 0.4, "independent": 0.2, "distilled": 0.4, "linear": 0.3, "mlp": 0.1}
EXPONENTS = {"softmax": 5.0, "softmax_pre_norm": 0.0, "softmax_post_norm": 4.0}
THRESHOLD = 38.0
EXACT = (8.0, 4.0, 1.0, 0.5, 0.0)  # eigenvalues of the Gauss-Newton part


class HessianFile(sample.ComparisonFile):
    """A file of one study of Hessians; `former`: as the program wrote it when all of them were the experiment `hessian`."""

    def __init__(self, path, study, more="", former=False, **how):
        key = f"study = {study}\nsigmas = 1\n" if former else ""  # and the keys of the other studies
        super().__init__(path, "hessian" if former else f"hessian_{study}", group="hessian",
                         **{"settings": f"{sample.ROOT['settings']}[hessian]\n{key}{more}", **how})

    def along(self, axes, model, measure, values):
        """A measure with its axes after the seed."""
        self.add(model, measure, values)
        for place, axis in enumerate(("seed", *axes)):
            self.group()[f"{model}/{measure}"].dims[place].attach_scale(self.file[axis])


def write_spectrum(path, heterogeneity=None, followed=True, **how):
    """Two parts of each model of `heterogeneity`; `followed`: with what makes the sharpness, and the ends of blocks."""
    heterogeneity = HETEROGENEITY if heterogeneity is None else heterogeneity
    with HessianFile(path, "spectrum", **how) as out:
        out.axis("copied_epoch", EPOCHS)
        out.axis("output", np.arange(1, len(EXACT) + 1))
        out.describe(samples=64, lambda_0=0.01, broadening=0.2)
        count = len(BLOCKS)
        for model, value in heterogeneity.items():
            out.describe(model, files="a.h5", trained="trained, seed 1", parameters=sample.PARAMETERS, norm="pre", knots=2, blocks="\n".join(BLOCKS))
            out.add(model, "loss", 0.5)
            exact = "gauss_newton_exact_"
            out.add(model, exact + "eigenvalue", EXACT)
            out.add(model, exact + "trace", sum(EXACT))
            out.add(model, exact + "heterogeneity", value)
            out.add(model, exact + "block_norm", 1 + np.eye(count))
            out.add(model, exact + "block_distance", value * (1 - np.eye(count)))
            for part in ("", "gauss_newton_"):
                nodes = np.linspace(-0.5 if part == "" else 0.01, 8, 6) * np.ones((4, 1))
                out.add(model, part + "density_node", nodes)
                out.exact(model, part + "density_weight", np.full((len(out.seeds), 4, 6), 1 / 6))
                out.add(model, part + "largest_eigenvalue", [8.0, 4.0])
                if not part:
                    out.add(model, "smallest_eigenvalue", [-0.5, -0.25])
                out.add(model, part + "trace", 20.0)
                out.add(model, part + "heterogeneity", 1 - value)  # the claims are about the exact ones
                out.add(model, part + "block_norm", 1 + np.eye(count))
                out.add(model, part + "block_distance", (1 - value) * (1 - np.eye(count)))
                out.add(model, part + "block_floor", 0.01 * np.ones(count))
                if followed:
                    out.add(model, part + "block_largest_eigenvalue", 1.0 + np.arange(count))
            out.add(model, "epoch_loss", [2.0, 1.0, 0.5])
            out.add(model, "epoch_largest_eigenvalue", np.array([[20.0], [10.0], [8.0]]) * [1, 0.5])
            if followed:
                out.describe(model, stability_threshold=THRESHOLD)
                out.exact(model, "epoch_learning_rate", [[1e-3, 1e-3, 5e-4]] * len(out.seeds))
                out.add(model, "epoch_preconditioned_eigenvalue", [1e4, 2e4, 4e4])


def write_blocks(path, gaps=None, **how):
    """`gaps`: decades by which entries of V are larger than those of Q, by kind of attention."""
    gaps = {"softmax": 1.7, "linear": 0.0} if gaps is None else gaps
    with HessianFile(path, "blocks", **how) as out:
        out.axis("weight", [1, 2, 3])
        out.axis("entry_size", np.arange(-10, 0.0))
        for kind, gap in gaps.items():
            out.along(("weight",), kind, "median_entry", [-4.7, -4.7 - gap, -4.7 - gap])
            out.along(("weight", "entry_size"), kind, "entry_share", np.full((3, 10), 0.1))


def write_scaling(path, exponents=None, functional=1.0, **how):
    """Norms with these powers of sigma in all blocks, and a functional part `functional` times as large as the Gauss-Newton part."""
    with HessianFile(path, "scaling", **how) as out:
        out.axis("layer", [1])
        out.axis("weight", [1, 2, 3])
        out.axis("sigma", SIGMAS)
        for kind, power in (exponents or EXPONENTS).items():
            # Value blocks have another power, and beyond 0.1 so have all: a claim that takes wrong places is seen.
            norm = np.power(SIGMAS, np.array([2.0, power, power])[:, None]) * np.where(np.array(SIGMAS) > 0.1, 1e-3, 1)
            norm[:, 0] *= 3.0
            for part, factor in (("", 1 + functional), ("gauss_newton_", 1.0), ("functional_", functional)):
                out.along(("layer", "weight", "sigma"), kind, part + "block_norm_by_sigma", factor * norm[None])
        for part, factor in (("", 1.0), ("gauss_newton_", 1.0), ("functional_", 0.0)):
            out.along(("layer", "sigma"), "linear_mlp", part + "matrix_norm_by_sigma", factor * np.power(SIGMAS, 2.0)[None])


WRITERS = {"spectrum": write_spectrum, "blocks": write_blocks, "scaling": write_scaling}


class HessianTest(ClaimTest):
    def written(self, *names, **how):
        """A synthetic file of each of these studies."""
        paths = [self.path(name + ".h5") for name in names]
        for path, name in zip(paths, names):
            if os.path.exists(path):
                os.unlink(path)  # it may still be open
            WRITERS[name](path, **how)
        return paths

    def opened(self, *paths):
        runs = [open_run(path) for path in paths]
        for run in runs:
            self.addCleanup(run.close)
        return studies(runs)
