"""Small made-up files of `clusters_models`, with the names and axes that the program writes (docs/reference/output-format.md)."""

import numpy as np

import comparison_sample as sample

MODELS = ("transformer", "independent", "normed")
BETAS, DELTAS = (1.0, 8.0), (0.1, 0.3)
HEADS = {"transformer": 2, "independent": 1, "normed": 2}  # of the head axis, which has 2; the other is NaN
START, FALL = 12.0, 2.0                                     # N_2 at depth 0, and by how much it falls in a layer, at beta = 8 of centred tokens
RATIO = {"transformer": 1.0, "independent": 0.8, "normed": 1.001}  # of what N_2 has fallen to


def write_clusters_models(path, claimed=True, **how):
    """Tokens that cluster with depth, in the PDE model `independent` more and in `normed` as in the Transformer, or (claimed = False) do not."""
    with sample.ComparisonFile(path, "clusters_models", **how) as out:
        out.depths(MODELS)
        for name, values in (("beta", BETAS), ("token_delta", DELTAS), ("centring", (0, 1)), ("layer", 1 + np.arange(sample.LAYERS)), ("head", (0, 1))):
            out.axis(name, values)
        out.describe_models(MODELS)
        for model in MODELS:
            _write_model(out, model, claimed)


def _write_model(out, model, claimed):
    depth = out.depth(model)
    by_depth = lambda name, values: out.along((f"{model}_depth", "centring"), model, name, np.stack([values - 0.5, values], axis=1))  # noqa: E731
    # The places that claims do not ask for have other numbers.
    cube = lambda values: np.stack([np.stack([values + 3, values + 2], axis=1), np.stack([values + 1, values], axis=1)], axis=1)  # noqa: E731
    falling = START * np.where(depth > 0, RATIO[model], 1) - FALL * depth * RATIO[model]
    level = np.full(len(depth), START)
    own, nulls = (falling, level) if claimed else (level, falling)
    for name, values in (("number_2", own), ("number_2_normal", 0.8 * nulls + 0.2 * own), ("number_2_untrained", nulls), ("number_2_permuted", nulls + 1),
                         ("number_2_across", own + 4 if claimed else own)):
        out.along((f"{model}_depth", "centring", "beta"), model, name, cube(values))
    out.along(("beta",), model, "number_2_uniform", (3.0, 15.0))
    for name, values in (("components", own), ("compact_share", 0 * own + 1)):
        out.along((f"{model}_depth", "centring", "token_delta"), model, name, cube(values))
    for name, values in (("effective_rank", own / 2), ("effective_rank_normal", own / 2 + 0.5), ("effective_rank_untrained", nulls / 2),
                         ("leaders", own), ("leader_angle", 0.1 + 0 * own), ("cosine_within", 0.6 + 0 * own), ("cosine_between", 0.5 + 0 * own),
                         ("left_out", 0 * own)):
        by_depth(name, values)
    _write_scalars(out, model, claimed)


def _write_scalars(out, model, claimed):
    table = lambda value: [[value + 0.3, value + 0.2], [value + 0.1, value]]  # noqa: E731
    for name, value in (("plateau", 2.0), ("plateau_share", 0.5 if claimed else 0.2), ("plateau_share_untrained", 0.2)):
        out.along(("centring", "token_delta"), model, name, table(value))
    for name, value in (("escape", 0.3 if claimed else 0.05), ("escape_error", 0.02), ("escape_untrained", 0.05)):
        out.along(("centring", "beta"), model, name, table(value))
    layers = np.arange(sample.LAYERS)[:, None]
    change = 0.2 + 0.1 * layers * np.ones((1, 2)) if claimed else 0.2 - 0.3 * (layers == 1) * np.ones((1, 2))
    for name, values in (("log_energy", 1 + layers * np.ones((1, 2))), ("energy_change", change), ("energy_change_untrained", 0.1 + 0 * change),
                         ("energy_falls", 1.0 * (change < 0)), ("value_radius", 1 + 0 * change), ("value_scale", 0.5 + 0 * change),
                         ("value_mismatch", 0.9 + 0 * change), ("antisymmetry", 0.6 + 0 * change), ("least_eigenvalue", -0.8 + 0 * change)):
        values = np.array(values)
        values[:, HEADS[model]:] = np.nan
        out.along(("layer", "head"), model, name, values)
