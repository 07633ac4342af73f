"""Small made-up files of five families with given traits (input/paper/traits.toml), with the names that the program writes.

Ends with status 77 as claim_sample.py says.
"""

import os

import comparison_sample as sample
from claim_sample import ClaimTest  # before what else it may not find
from hessian_sample import HessianFile
from python_package import ROOT

import numpy as np

from fluxformer.report.data import open_run, studies
from fluxformer.report.together import Together
from fluxformer.report.traits import read_traits

TRAITS = os.path.join(ROOT, "input", "paper", "traits.toml")
MODELS = ("transformer", "independent", "normed")
NAMES = ("attention entropy", "information lost", "gradient disparity", "accuracy under noise", "largest eigenvalue", "token identity",
         "test accuracy")
LENGTHS, HEADS, LEVELS = (3, 9), 2, (0.5, 1.0)
DIGITS, MNIST = sample.ROOT["settings"], sample.ROOT["settings"].replace("digits", "mnist")


def numbers(seeds, models=MODELS, seed=0):
    """Traits without any structure, {trait: {model: [seed]}}, in ranges that they may have."""
    random = np.random.default_rng(seed)
    return {name: {model: 0.5 + 0.01 * random.standard_normal(seeds) for model in models} for name in NAMES}


def _add_entropy(out, model, values):
    """Adds an entropy that at whole length is as given; at other lengths, and of a head that is not there, it differs."""
    entropy = np.full((len(values), len(LENGTHS), sample.LAYERS, HEADS), np.nan)
    entropy[:, 0, :, 0], entropy[:, 1, :, 0] = 9.0, values[:, None] + np.linspace(-1, 1, sample.LAYERS)
    out.exact(model, "entropy", entropy)
    for place, axis in enumerate(("seed", "length", "layer", "head")):
        out.group()[f"{model}/entropy"].dims[place].attach_scale(out.file[axis])


def write_traits(folder, traits, seeds=None, settings=DIGITS, without=()):
    """A file for each experiment, but for those `without`; `traits` as of `numbers`, on these seeds (1, 2, ...). The paths."""
    models = list(next(iter(traits.values())))
    seeds = list(seeds or range(1, 1 + len(next(iter(traits.values()))[models[0]])))
    paths = {name: os.path.join(folder, name + ".h5") for name in ("identifiability", "bottleneck", "gradient_flow", "perturbation", "hessian")
             if name not in without}
    of = lambda name, model: np.asarray(traits[name][model], dtype=float)  # noqa: E731
    for experiment, path in paths.items():
        make = HessianFile(path, "spectrum", seeds=seeds, settings=settings) if experiment == "hessian" else \
            sample.ComparisonFile(path, experiment, seeds=seeds, settings=settings)
        with make as out:
            at_end = lambda model, first, last: first + (last - first)[:, None] * out.depth(model) / sample.LAYERS  # noqa: E731
            out.depths(models)
            out.describe(samples=200, classes=10)
            for axis, values in (("length", LENGTHS), ("layer", range(1, sample.LAYERS + 1)), ("head", range(HEADS)), ("noise_level", LEVELS)):
                out.axis(axis, list(values))
            for model in models:
                if experiment == "identifiability":
                    _add_entropy(out, model, of("attention entropy", model))
                    out.exact(model, "rate_linear_cosine", at_end(model, 1.0, of("token identity", model)))
                elif experiment == "bottleneck":
                    out.exact(model, "input_kde", at_end(model, 5.0, 5.0 - of("information lost", model)))
                elif experiment == "gradient_flow":
                    out.exact(model, "disparity", of("gradient disparity", model))
                elif experiment == "perturbation":
                    clean = of("test accuracy", model)
                    noisy = (of("accuracy under noise", model) - 0.25 * clean) / 0.75  # the same at both levels
                    out.exact(model, "accuracy", clean)
                    out.exact(model, "noise_accuracy", np.stack([noisy, noisy], axis=1))
                else:
                    out.exact(model, "largest_eigenvalue", of("largest eigenvalue", model)[:, None] * [1.0, 0.3])
    return list(paths.values())


class TraitsTest(ClaimTest):
    def write(self, name, traits, **how):
        """Files in a folder of their own."""
        os.makedirs(self.path(name), exist_ok=True)
        return write_traits(self.path(name), traits, **how)

    def together(self, *paths, traits=TRAITS):
        """All at once, of these files."""
        runs = [open_run(path) for path in paths]
        for run in runs:
            self.addCleanup(run.close)
        return Together(read_traits(traits), studies(runs))
