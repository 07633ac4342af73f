"""Small made-up files of `identifiability`, with the names and axes that the program writes (docs/reference/output-format.md), and tests on them.

Ends with status 77 as claim_sample.py says.
"""

import os

import comparison_sample as sample
from claim_sample import ClaimTest  # before what else it may not find

import numpy as np

from fluxformer.report.data import open_run, studies
from python_package import ROOT

CLAIMS = os.path.join(ROOT, "input", "paper", "identifiability", "claims.toml")
HEADS = {"transformer": 2, "independent": 1}  # of the head axis, which has 2; the other is NaN
WIDTH = 4                                     # d_v
LENGTHS, TOKENS = (3, 6, 9), 9
EPSILONS, GROUPS = (1e-2, 1e-3, 1e-6), (0, 1, 2, 3, 4, 6, 11)
WORDS = ("the", "cat", "$sat$", "on", "averyverylongword", "\u4e00", "mat", ".", "again")
DISTANCE = 0.4  # total variation of attention and its alternative
ACCOUNTS = ("raw", "effective", "norm_based", "rollout", "contributions")
IDENTITY = ("identity_cosine", "identity_l2", "linear_cosine", "linear_l2", "linear_angle", "mlp_cosine", "mlp_l2", "mlp_angle")
FOLLOWED = IDENTITY[:4]
NOTHING = {"mlp": False, "epochs": False, "flow": False}


class IdentifiabilityFile(sample.ComparisonFile):
    """A file on identifiability, of two models with three layers."""

    def of_heads(self, model, measure, by_length, exact=False):
        """Adds a measure that is the same in each layer and in the heads that the model has."""
        values = np.broadcast_to(np.asarray(by_length, dtype=float)[:, None, None], (len(LENGTHS), sample.LAYERS, 2)).copy()
        values[:, :, HEADS[model]:] = np.nan
        self.along(("length", "layer", "head"), model, measure, values, exact)


def sizes(above, claimed):
    """A number that is above another, or not."""
    return (above, above / 4) if claimed else (above / 4, above)


def write_weights(out, model, claimed, words):
    """Counts, effective attention and maps."""
    n = np.array(LENGTHS, dtype=float)
    out.along(("length",), model, "tokens_of_length", n, exact=True)
    out.along(("length",), model, "samples_of_length", 0 * n + 40, exact=True)
    counts = {"linear": np.maximum(n - WIDTH, 0), "simplex": np.maximum(n - WIDTH - 1, 0), "reachable": 0 * n}
    if not claimed:
        counts = {"linear": 0 * n, "simplex": 0 * n, "reachable": n}
    for name, values in counts.items():
        out.of_heads(model, f"nullity_{name}", values, exact=True)
        many = np.repeat((values[:, None] + [1, 0.5, 0])[:, None, None], sample.LAYERS, axis=1).repeat(2, axis=2)
        many[:, :, HEADS[model]:] = np.nan
        out.along(("length", "layer", "head", "epsilon"), model, f"nullity_{name}_epsilon", many, exact=True)
    out.of_heads(model, "uncertain", 0 * n, exact=True)
    own, null = sizes(0.8, claimed)
    fall = np.linspace(0, 1, len(n))
    out.of_heads(model, "correlation", 1 - (1 - own) * fall if claimed else own * np.ones(len(n)) + 0.1 * fall)
    out.of_heads(model, "correlation_null", 1 - (1 - null) * fall)
    for name, value in (("row_sum", 0.9), ("row_sum_null", 0.4), ("kept_norm", 0.8), ("negative_share", 0.1), ("entropy", 1.5),
                        ("effective_entropy", 1.2), ("correlation_simplex", 0.95), ("correlation_simplex_null", 0.5),
                        ("kept_norm_simplex", 0.9), ("negative_share_simplex", 0.05)):
        out.of_heads(model, name, value + 0 * n)
    for name in ("moved_share", "moved_share_simplex"):
        out.of_heads(model, name, 0.5 * fall if claimed else 0 * n)
    frequent = sizes(0.3, claimed) if words else (np.nan, np.nan)
    for kind in ("frequent", "punctuation"):
        for name, value in zip(("raw", "effective"), frequent):
            out.of_heads(model, f"{kind}_{name}", value + 0 * n)
    for name in ("linear", "simplex"):
        out.along(("length", "layer"), model, f"excess_{name}", np.zeros((len(n), sample.LAYERS)), exact=True)
    first = np.ones((sample.LAYERS, 2))
    first[:, HEADS[model]:] = np.nan
    for name, value in (("nullity_joint", 7.0), ("alternative_distance", DISTANCE), ("alternative_error", 2e-15)):
        out.along(("layer", "head"), model, name, value * first, exact=True)
    raw = np.full((sample.LAYERS, TOKENS, TOKENS), 1 / TOKENS)
    other = raw.copy()
    other[..., 0] += DISTANCE
    other[..., 1:] -= DISTANCE / (TOKENS - 1) * np.ones(TOKENS - 1)
    effective = raw - 0.02 * np.eye(TOKENS)
    for name, values in (("raw", raw), ("effective", effective), ("alternative", other)):
        out.along(("layer", "query", "key"), model, f"map_{name}", values, exact=True)


def write_identity(out, model, claimed, mlp, epochs):
    """Rates that fall with depth to twice that of the PDE model, or rise."""
    depth = out.depth(model) / sample.LAYERS
    axes, slow = (f"{model}_depth",), 0.5 if model == "independent" else 0.8
    rates = 1 - slow * depth if claimed else 0.1 + 0.02 * depth + (0.2 if model == "transformer" else 0)
    for name in IDENTITY:
        out.along(axes, model, f"rate_{name}", rates if mlp or not name.startswith("mlp") else np.nan * rates)
    norm, shuffled = (0.12, 0.11) if claimed else (0.9, 0.8)
    out.along(axes, model, "rate_linear_norm", norm + 0 * depth)
    out.along(axes, model, "rate_shuffled", shuffled + 0 * depth)
    out.along((), model, "chance", 1 / TOKENS if claimed else 0.8)
    out.along((), model, "sample_tokens", TOKENS, exact=True)
    out.along((), model, "identical", 0.25, exact=True)
    out.along(axes, model, "smallest_distance", 0.1 * np.exp(-depth))
    for name in FOLLOWED:
        out.along(axes, model, f"rate_{name}_untrained", (0.5 if claimed else 2) * rates)
        if epochs:
            out.along(("copied_epoch", *axes), model, f"epoch_rate_{name}", [0.5 * rates, rates])


def write_attribution(out, model, claimed, flow):
    """Contributions that spread with depth, nearer tokens more; or the other way round."""
    depth = out.depth(model) / sample.LAYERS
    axes, slow = (f"{model}_depth",), 0.5 if model == "independent" else 0.7
    own = 1 - slow * depth if claimed else np.where(depth > 0, 0.2 + 0.1 * depth + (0.2 if model == "transformer" else 0), 1)
    for name, values in (("", own), ("_lower", 0.9 * own), ("_median", own), ("_upper", 1.1 * own)):
        out.along(axes, model, f"own_share{name}", values)
    out.along(axes, model, "own_largest", 1 - 0.2 * depth)
    out.along(axes, model, "half_distance", 3 * depth if claimed else np.where(depth > 0, 4 - 3 * depth, 0))
    away = np.maximum(GROUPS, 1.0) ** (-0.5 if claimed else 0.5)
    spread = (1 - own)[:, None] * away
    pairs = np.concatenate([own[:, None], spread[:, 1:]], axis=1)
    for name in ("contribution_by_pair", "contribution_by_distance"):
        out.along((*axes, "distance_group"), model, name, pairs)
    others = (1.0 + np.arange(TOKENS))[:, None] * (1 - np.eye(TOKENS))  # not symmetric: later tokens contribute more
    maps = own[:, None, None] * np.eye(TOKENS) + (1 - own)[:, None, None] * others / others.sum(axis=0)
    out.along((*axes, "input_token", "token"), model, "contribution_map", maps, exact=True)
    out.along((), model, "contribution_error", 0.0, exact=True)
    out.along(("input_token",), model, "blanked_change", np.arange(TOKENS) % 7, exact=True)  # the seventh most
    for effect in ("", "_drop"):
        for name in (*ACCOUNTS, "flow"):
            best = (name == "contributions") == claimed
            value = np.nan if name == "flow" and not flow else 0.8 if best else 0.3
            for factor in ("", "_times_moved"):
                out.along(("layer",), model, f"agreement_{name}{effect}{factor}", np.full(sample.LAYERS, value))
        out.along((), model, f"agreement_moved{effect}", 0.5)


def write_identifiability(path, claimed=True, words=(), models=tuple(HEADS), measures=("weights", "identity", "attribution"), mlp=True,
                          epochs=True, flow=True, value_width=WIDTH, **how):
    """`claimed`: whether what the source says is true of it; `words`: of a text, else it is an image of 3 x 3 patches."""
    data = "set = topics" if words else "set = digits\ntokens = patches"
    settings = sample.ROOT["settings"].replace("set = digits\ntokens = patches", data)
    with IdentifiabilityFile(path, "identifiability", **{"settings": settings, **how}) as out:
        out.depths(models)
        for name, values in (("layer", range(1, sample.LAYERS + 1)), ("head", range(2)), ("length", LENGTHS), ("epsilon", EPSILONS),
                             ("query", range(TOKENS)), ("key", range(TOKENS)), ("token", range(TOKENS)), ("input_token", range(TOKENS)),
                             ("distance_group", GROUPS), ("copied_epoch", sample.EPOCHS)):
            out.axis(name, list(values))
        grid = (TOKENS, 1) if words else (3, 3)
        out.describe(samples=40, map_head=0, tokens_x=grid[0], tokens_y=grid[1], **({"sample_words": "".join(f"{word}\n" for word in words)} if words else {}))
        out.describe_models(models)
        for model in models:
            out.exact(model, "seconds", [1.0] * len(out.seeds))
            if "weights" in measures:
                out.group()[model].attrs["value_width"] = value_width
                write_weights(out, model, claimed, words)
            if "identity" in measures:
                write_identity(out, model, claimed, mlp, epochs)
            if "attribution" in measures:
                write_attribution(out, model, claimed, flow)


class IdentifiabilityTest(ClaimTest):
    def written(self, name="made_up.h5", **how):
        """A synthetic file."""
        path = self.path(name)
        if os.path.exists(path):
            os.unlink(path)  # it may still be open
        write_identifiability(path, **how)
        return path

    def opened(self, *paths):
        """Opens files; the studies that they make."""
        runs = [open_run(path) for path in paths]
        for run in runs:
            self.addCleanup(run.close)
        return studies(runs)
