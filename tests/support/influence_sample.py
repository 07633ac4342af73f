"""Small made-up files of `influence`, with the names and axes that the program writes (docs/reference/output-format.md)."""

import numpy as np

import comparison_sample as sample

MODELS = ("transformer", "independent")
SCORES = ("self_influence", "loss", "gradient_norm", "mean_influence")
CURVATURES = ("identity", "diagonal", "classes", "truncated_10", "truncated_30", "kfac", "ekfac")
DAMPINGS = (0.1, 0.01)
TRAIN, TEST, AGAIN, REMOVED = 60, 5, 20, (1, 10, 30)
WRONG, FOUND = 10, {"self_influence": 8, "loss": 5, "gradient_norm": 6, "mean_influence": 2}  # of WRONG, that are among the first WRONG samples
EARLY = 0.7  # precision of the loss after the first epoch
SLOPE = 0.4  # of changes by first order
SIDE = 3     # an image has SIDE x SIDE patches of 2 x 2 pixels


def write_influence(path, claimed=True, models=MODELS, wrong=True, retrained=True, features=False, **how):
    """Scores of which self-influence finds most wrong labels, and PDE models that fit fewer of them; or (claimed = False) all scores find as many,
    and models fit as many. `wrong`: wrong labels were planted; `retrained`: the last linear layer was trained again."""
    with sample.ComparisonFile(path, "influence", **how) as out:
        out.depths(models)
        for name, values in (("train_sample", np.arange(TRAIN)), ("test_sample", 3 * np.arange(TEST)), ("damping", DAMPINGS),
                             ("score", np.arange(len(SCORES))), ("curvature", np.arange(len(CURVATURES))), ("retrained_sample", np.arange(AGAIN)),
                             ("removed", REMOVED), ("suspect", 1 + np.arange(4)), ("copied_epoch", (1, 5)), ("token", np.arange(SIDE**2)),
                             ("feature", np.arange(4))):
            out.axis(name, values)
        out.describe_models(models)
        out.describe(solver="gram", score_names="\n".join(SCORES), curvature_names="\n".join(CURVATURES), tokens_x=SIDE, tokens_y=SIDE)
        for model in models:
            _write_samples(out, model, claimed, wrong)
            if retrained:
                _write_retrained(out, model)
            if features:
                out.along(("suspect",), model, "suspect_sample", np.argsort(-score_of(8 if claimed else 5))[:4], exact=True)
                out.along(("suspect", "token", "feature"), model, "suspect_features", np.arange(4 * 4 * SIDE**2).reshape(4, SIDE**2, 4), exact=True)


def score_of(found):
    """Numbers of the training samples, of which the first WRONG have a wrong label; `found` of these are among the WRONG largest."""
    right = np.linspace(0.1, 0.5, TRAIN)
    right[:found], right[found:WRONG] = np.linspace(3, 2, found), np.linspace(0.05, 0.01, WRONG - found)
    right[WRONG:2 * WRONG - found] = np.linspace(1.5, 1, WRONG - found)
    return right


def _write_samples(out, model, claimed, wrong):
    found = FOUND if claimed else dict.fromkeys(FOUND, 5)
    planted = np.arange(TRAIN) < (WRONG if wrong else 0)
    for name, values in (("train_index", 7 * np.arange(TRAIN)), ("label", np.arange(TRAIN) % 10), ("wrong", planted),
                         ("right_label", (np.arange(TRAIN) + planted) % 10), ("correct", 0 * planted + 1)):
        out.along(("train_sample",), model, name, values, exact=True)
    for name in ("loss", "gradient_norm"):
        out.along(("train_sample",), model, name, score_of(found[name]))
    for name in ("self_influence", "mean_influence"):  # at the second damping none is found
        out.along(("damping", "train_sample"), model, name, [score_of(found[name]), score_of(0)])
    if wrong:
        out.along(("score",), model, "precision", [found[name] / WRONG for name in FOUND])
        out.along(("damping",), model, "self_influence_precision", (found["self_influence"] / WRONG, 0))
        out.along(("copied_epoch",), model, "epoch_loss_precision", (EARLY, 0.6))
    out.along(("damping", "curvature"), model, "damped_spearman", np.tile(np.where(np.arange(len(CURVATURES)) < 2, 0.3, np.nan), (2, 1)))
    fitted = 0.95 if model == "transformer" or not claimed else 0.8
    for name, value in (("planted", planted.sum()), ("random_precision", planted.mean()), ("fitted_wrong", fitted if wrong else np.nan),
                        ("fitted_right", 0.99), ("objective_gradient_norm", 0.02), ("negative_share", 0.3)):
        out.along((), model, name, value, exact=name in ("planted", "random_precision"))


def _write_retrained(out, model):
    rng = np.random.default_rng(len(model))
    true = rng.standard_normal((TEST, AGAIN)) ** 3
    for name, values in (("retrained", true), ("change_first", SLOPE * true), ("change_newton", true * 0.95)):
        out.along(("test_sample", "retrained_sample"), model, name, values, exact=True)
    for name, (spearman, error) in {"first": (0.96, 0.77), "newton": (0.99, 0.2)}.items():
        for what, value in (("spearman", spearman), ("pearson", spearman), ("relative_error", error)):
            out.along((), model, f"{name}_{what}", value)
        out.along(("removed",), model, f"set_{name}_relative_error", (error, error + 0.02, error + 0.05))
    out.along(("curvature",), model, "curvature_spearman", (0.1, 0.15, 0.55, -0.05, 0.2, 0.35, 0.3))
    out.along(("curvature",), model, "curvature_relative_error", (0.94, 7.0, 0.53, 0.79, 0.59, 1.6, 1.8))
