"""Small made-up files of the comparison experiments, with the names that the program writes (docs/reference/output-format.md)."""

import h5py
import numpy as np

MODELS = ("transformer", "independent", "distilled", "inherited")
LAYERS, HEADS, TOKENS, CLASSES, SAMPLES = 3, 2, 9, 10, 40
EPOCHS = (0, 2)
PARAMETERS = 123462  # six more than training_sample.py says were trained, as in a Transformer of four layers
LEVELS = {"noise_level": (0.5, 1.0), "feature_noise_level": (0.5, 1.0), "dropped_share": (0.2, 0.5), "attack_level": (0.05, 0.1),
          "feature_attack_level": (0.1, 0.2)}
ROOT = {
    "schema_version": 1, "status": "done", "git_revision": "0123456789abcdef", "git_dirty": "false", "seed": 1, "ranks": 2,
    "settings": "[data]\nset = digits\ntokens = patches\n[bottleneck]\nbins = 10\ncomponents = 3\nneighbours = 5\nnoise = 1\n",
}


class ComparisonFile:
    """A file being written. Values of a measure: one per seed, plus noise that differs from seed to seed."""

    def __init__(self, path, experiment, seeds=(1, 2, 3), spread=0.01, group=None, **attributes):
        self.file = h5py.File(path, "w")
        self.group_name, self.seeds, self.spread = group or experiment, seeds, spread
        self.noise = np.random.default_rng(0)
        self.file.attrs.update({**ROOT, "experiment": experiment,
                                "command_line": f"bin/fluxformer {experiment} input/compare/{experiment}.ini", **attributes})
        self.axis("seed", seeds)
        self.file["timing/measure"] = [1.0, 1.5, 2.0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def axis(self, name, values):
        self.file.create_dataset(name, data=np.asarray(values)).make_scale(name)

    def depth(self, model):
        return np.linspace(0, LAYERS, LAYERS + 1 if model == "transformer" else 2 * LAYERS + 1)

    def depths(self, models):
        for model in models:
            self.axis(f"{model}_depth", self.depth(model))

    def add(self, model, measure, values):
        """`values` of any shape, the same for every seed except for noise; their deviation over seeds is about `spread`."""
        values = np.asarray(values, dtype=float)
        scatter = self.noise.standard_normal((len(self.seeds),) + (1,) * values.ndim)
        self.exact(model, measure, values[None] * (1 + self.spread * scatter))

    def exact(self, model, measure, values):
        """`values`: the first axis is the seed."""
        self.file[f"analysis/{self.group_name}/{model}/{measure}"] = np.asarray(values, dtype=float)

    def along(self, axes, model, measure, values, exact=False):
        """A measure with its axes after the seed; the same for each seed if `exact`."""
        values = np.asarray(values, dtype=float)
        if exact:
            self.exact(model, measure, np.repeat(values[None], len(self.seeds), axis=0))
        else:
            self.add(model, measure, values)
        for place, axis in enumerate(("seed", *axes)):
            self.group()[f"{model}/{measure}"].dims[place].attach_scale(self.file[axis])

    def group(self):
        return self.file[f"analysis/{self.group_name}"]

    def samples(self):
        """The coordinate of the test samples, in the order in which they were drawn."""
        self.axis("sample", 7 * np.arange(SAMPLES) % 100)

    def by_sample(self, model, measure, values):
        """The numbers of the samples, which scatter by a tenth around the mean `values` of a measure."""
        values = np.asarray(values, dtype=float)
        scatter = self.noise.standard_normal((len(self.seeds), SAMPLES) + (1,) * values.ndim)
        scatter -= scatter.mean(axis=1, keepdims=True)
        self.exact(model, f"{measure}_by_sample", values * (1 + 0.1 * scatter))

    def outcomes(self, model, measure, shares):
        """1 for a share of the samples, 0 for the others; a sample that fails at one share fails at all smaller ones."""
        rank = np.argsort(np.argsort(self.noise.random((len(self.seeds), SAMPLES)), axis=1), axis=1)
        right = rank[..., None] < SAMPLES * np.atleast_1d(shares)
        self.exact(model, f"{measure}_by_sample", right if np.ndim(shares) else right[..., 0])

    def describe(self, model=None, **facts):
        group = self.file.require_group("/".join(filter(None, ("analysis", self.group_name, model))))
        group.attrs.update(facts)

    def describe_models(self, models):
        for model in models:
            self.describe(model, files="a.h5", trained="trained, seed 1\ntrained, seed 2", parameters=PARAMETERS, norm="pre", knots=2)


def add_distances(out, models):
    """Causal attention by distance on lines of TOKENS tokens, of which the last layer sees a third."""
    back, layer = np.arange(TOKENS), np.arange(LAYERS)[:, None]
    pairs = np.where((layer + 1 < LAYERS) | (back < TOKENS // 3), TOKENS - back, np.nan)
    for model in models:
        uniform = pairs / np.nansum(pairs, axis=1, keepdims=True)
        out.add(model, "weight_by_distance_uniform", uniform)
        out.add(model, "weight_by_distance", np.stack([uniform * np.exp(-rate * back) for rate in np.linspace(0.1, 0.5, HEADS)], axis=1))
        out.exact(model, "pairs_by_distance", np.tile(np.nan_to_num(pairs), (len(out.seeds), 1, 1)))
        out.add(model, "mean_distance_uniform", np.full(LAYERS, 2.5))
        out.add(model, "mean_distance", np.full((LAYERS, HEADS), 2.0))


def write_attention(path, score=0.99, null=0.6, models=MODELS[1:], kl=0.01, **how):
    """`score`, `null`: cosine of the models and of every null control; spread over seeds as in ComparisonFile."""
    with ComparisonFile(path, "attention", **how) as out:
        out.depths(("transformer", *models))
        for name, count in (("layer", LAYERS), ("head", HEADS), ("query", TOKENS), ("key", TOKENS)):
            out.axis(name, np.arange(count) + (name == "layer"))
        out.axis("distance", np.arange(TOKENS))
        out.describe_models(("transformer", *models))
        rows = np.full((LAYERS, TOKENS, TOKENS), 1 / TOKENS)
        out.add("transformer", "map", rows)
        ones, heads = np.ones(LAYERS), np.ones((LAYERS, HEADS))
        for model in models:
            for name, own, control in (("cosine", score, null), ("centred", score, null), ("kl", kl, 1.0)):
                out.add(model, name, own * ones)
                for kind in ("uniform", "permuted", "untrained"):
                    out.add(model, f"{name}_{kind}", control * ones)
            out.add(model, "entropy", 0.7 * heads)
            out.add(model, "entropy_transformer", 0.6 * heads)
            out.add(model, "map", rows)
        for name in ("cosine", "centred", "kl"):
            out.add("transformer", f"{name}_ceiling", 0.8 * np.ones(LAYERS))
        out.samples()
        for name, own, control in (("cosine", score, null), ("centred", score, null), ("kl", kl, 1.0)):
            for model in models:
                out.by_sample(model, name, own)
                for kind in ("uniform", "permuted", "untrained"):
                    out.by_sample(model, f"{name}_{kind}", control)
            out.by_sample("transformer", f"{name}_ceiling", 0.8)
        add_distances(out, ("transformer", *models))


def write_refinement(path, distance, **how):
    """`distance`: how far the loss of each model is from its limit."""
    with ComparisonFile(path, "refinement", **how) as out:
        out.depths(distance)
        out.axis("goal", [1])
        out.axis("multiple", [1, 2, 4])
        out.describe(goal_names="loss\n", adapt="none")
        out.describe_models(distance)
        for model, far in distance.items():
            cells = len(out.depth(model)) - 1
            out.axis(f"{model}_cell", 1 + np.arange(cells))
            out.add(model, "goal_value", [0.4 + far * np.array([0, 0.5, 0.75])])
            out.add(model, "accuracy", [0.9, 0.8, 0.7])
            out.add(model, "state_distance", [0, 0.5, 0.75])
            out.exact(model, "within_tolerance", np.full((len(out.seeds), 1), far < 0.1))
            for name, value in (("limit", [0.4 + far]), ("distance", [far]), ("gain", [1.3]), ("indicator", [np.full(cells, far / cells)])):
                out.add(model, name, value)
            for name in ("goal_value", "within_tolerance", "limit", "distance", "gain", "indicator"):
                out.group()[f"{model}/{name}"].dims[1].attach_scale(out.file["goal"])
            out.add(model, "straightness", 0.6)


def write_information_flow(path, **how):
    with ComparisonFile(path, "information_flow", **how) as out:
        out.depths(MODELS)
        out.axis("layer_end", np.arange(LAYERS + 1))
        out.describe(tokens_x=3, tokens_y=3, example_labels="7")
        out.describe_models(MODELS)
        theirs = out.depth("transformer")
        for model in MODELS:
            depth = out.depth(model)
            for name in ("norm", "token_variance", "dirichlet_energy"):
                out.add(model, name, 1 + depth)
            for name in ("correlation", "drift", "step_change"):
                out.add(model, name, np.linspace(1, 0.5, LAYERS + 1))
            out.add(model, "example_norm", 1 + np.arange(len(depth) * TOKENS).reshape(1, len(depth), TOKENS) % 5)
            if model == "transformer":
                out.add(model, "cka_ceiling", 0.9 * np.exp(-np.abs(theirs[:, None] - depth)))
            else:
                out.add(model, "cka", np.exp(-np.abs(theirs[:, None] - depth)))
                out.add(model, "cka_unrelated", 0.01 + 0 * theirs[:, None] * depth)


def write_bottleneck(path, falls=None, **how):
    """`falls`: decrease of I(X;T) from the first depth to the last, by model, in every estimator."""
    falls = falls or {"transformer": 1.0, "independent": 2.0}
    with ComparisonFile(path, "bottleneck", **how) as out:
        out.depths(falls)
        out.axis("copied_epoch", EPOCHS)
        out.describe(ceiling=np.log(500), label_entropy=np.log(CLASSES), samples=500)
        for model, fall in falls.items():
            depth = out.depth(model) / LAYERS
            for name in ("binning", "kde", "ksg", "gaussian"):
                out.add(model, f"input_{name}", 5 - fall * depth)
                out.add(model, f"label_{name}", 1 + depth)
                out.add(model, f"epoch_input_{name}", [5 - 0.1 * fall * depth, 5 - fall * depth])
                out.add(model, f"epoch_label_{name}", [1 + 0 * depth, 1 + depth])


def write_gradient_flow(path, **how):
    with ComparisonFile(path, "gradient_flow", **how) as out:
        out.depths(MODELS)
        for name, values in (("layer_end", range(LAYERS + 1)), ("layer", range(1, LAYERS + 1)), ("knot", (1, 2)), ("exponent", (1, 2)),
                             ("copied_epoch", EPOCHS)):
            out.axis(name, list(values))
        out.describe(samples=100, jacobian_samples=8)
        for model in MODELS:
            depth, factor = out.depth(model), 1 if model == "transformer" else 3
            out.add(model, "gradient_norm", factor * np.exp(-depth))
            out.add(model, "gradient_ratio", [2, 2, 2, 1])
            out.add(model, "disparity", factor * 5.0)
            out.add(model, "knot_gradient", [1.0, np.nan])
            for name in ("embedding", "final_norm", "head", "equation"):
                out.add(model, f"{name}_gradient", 0.5)
            for which, value in (("largest", 3.0), ("smallest", 0.2)):
                out.add(model, f"{which}_singular_value", value * np.ones(LAYERS))
                out.add(model, f"{which}_singular_error", 0.01 * np.ones(LAYERS))
            out.add(model, "lyapunov", [0.5, 0.1])
            out.add(model, "epoch_disparity", [2.0, 5.0])
            out.add(model, "epoch_gradient_norm", [np.exp(-depth), factor * np.exp(-depth)])
        # Later additions come last: all numbers before them keep their noise.
        out.samples()
        for model in MODELS:
            depth, factor = out.depth(model), 1 if model == "transformer" else 3
            ends = np.arange(LAYERS + 1)
            out.add(model, "gradient_size", factor * np.exp(-depth / 2))
            out.add(model, "epoch_gradient_size", [np.exp(-depth / 2), factor * np.exp(-depth / 2)])
            out.by_sample(model, "gradient_norm", factor * np.exp(-ends))
            out.by_sample(model, "gradient_size", factor * np.exp(-ends / 2))
            out.exact(model, "lyapunov_error", [[8e-4, 5e-4]] * len(out.seeds))
            out.exact(model, "lyapunov_sweeps", [11.0] * len(out.seeds))


def write_perturbation(path, **how):
    """The Transformer loses less accuracy than the others."""
    kinds = {"noise": "noise_level", "feature_noise": "feature_noise_level", "dropped": "dropped_share", "worst": "attack_level",
             "fgsm": "attack_level", "pgd": "attack_level", "feature_fgsm": "feature_attack_level", "feature_pgd": "feature_attack_level"}
    with ComparisonFile(path, "perturbation", **how) as out:
        out.depths(MODELS)
        for name, values in LEVELS.items():
            out.axis(name, values)
        for model in MODELS:
            robust = model == "transformer"
            out.add(model, "accuracy", 0.95)
            out.add(model, "growth", np.exp(out.depth(model)))
            out.add(model, "relative_singular_value", 20.0)
            out.exact(model, "seconds", [2.0] * len(out.seeds))
            for kind in kinds:
                out.add(model, f"{kind}_accuracy", [0.9, 0.8] if robust else [0.6, 0.3])
            out.add(model, "noise_sensitivity", [1.0, 1.5])
        out.samples()
        out.describe(classes=CLASSES)
        for model in MODELS:
            robust = model == "transformer"
            out.outcomes(model, "accuracy", 0.95)
            for kind in kinds:
                out.outcomes(model, f"{kind}_accuracy", [0.9, 0.8] if robust else [0.6, 0.3])


def write_ablation(path, **how):
    """Without normalisation the Transformer diverges from every seed."""
    with ComparisonFile(path, "ablation", **how) as out:
        out.axis("step", np.arange(60))
        out.axis("depth", np.arange(LAYERS + 1))
        out.describe(loss_limit=23.0, samples=100)
        for kind in ("transformer", "pde"):
            for norm in ("none", "pre"):
                for residual in ("on", "off"):
                    name = f"{kind}_{norm}" + ("_no_residual" if residual == "off" else "")
                    ends = kind == "transformer" and norm == "none" and residual == "on"
                    out.describe(name, kind=kind, norm=norm, residual=residual)
                    drift = 0.2 if residual == "on" else 0.9
                    out.add(name, "drift", drift * np.arange(LAYERS + 1) / LAYERS)
                    out.add(name, "norm", np.exp(np.arange(LAYERS + 1) * (2 if norm == "none" else 0.1)))
                    out.add(name, "step_change", [0, 1, 1, 1])
                    out.add(name, "loss", np.where(np.arange(60) < (30 if ends else 60), 2.0, np.nan))
                    out.add(name, "diverged_step", 30.0 if ends else np.nan)
                    out.add(name, "test_accuracy", 0.1 if ends else 0.8)
        out.samples()
        for name in list(out.group()):
            which = out.group()[name].attrs
            out.by_sample(name, "drift", (0.2 if which["residual"] == "on" else 0.9) * np.arange(LAYERS + 1) / LAYERS)
            out.by_sample(name, "norm", np.exp(np.arange(LAYERS + 1) * (2 if which["norm"] == "none" else 0.1)))
            out.outcomes(name, "test_accuracy", 0.1 if name == "transformer_none" else 0.8)


def write_evolve(path):
    """A time-dependent run with depth, on the same data."""
    with h5py.File(path, "w") as file:
        file.attrs.update({**ROOT, "experiment": "evolve", "command_line": "bin/fluxformer evolve input/compare/evolve.ini"})
        depth, time = np.arange(1, 4) / 1.0, np.linspace(0.5, 6, 12)
        for name, values, unit in (("depth", depth, "layer"), ("time", time, "time")):
            data = file.create_dataset(name, data=values)
            data.make_scale(name)
            data.attrs["unit"] = unit
        file["history/time"] = time
        file["history/distance"] = file["history/rate"] = np.exp(-np.maximum(time[:, None] - depth, 0))
        file["analysis/evolve/arrival_time"] = depth + 3
        file["timing/steps"] = [1.0, 1.0, 1.0]


def write_spectrum_of_states(path, **how):
    with ComparisonFile(path, "spectrum_of_states", **how) as out:
        out.depths(MODELS)
        out.axis("mode", np.arange(1, TOKENS + 1))
        out.describe_models(MODELS)
        for model in MODELS:
            depth = out.depth(model)
            out.add(model, "singular_value", 0.5 ** np.arange(TOKENS) * np.ones((len(depth), 1)))
            out.add(model, "effective_rank", 3 - 0.5 * depth)


WRITERS = {"spectrum_of_states": write_spectrum_of_states,
           "attention": write_attention, "information_flow": write_information_flow, "bottleneck": write_bottleneck,
           "gradient_flow": write_gradient_flow, "perturbation": write_perturbation, "ablation": write_ablation}
