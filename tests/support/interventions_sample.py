"""Small made-up files of `interventions`, with the names and axes that the program writes (docs/reference/output-format.md)."""

import numpy as np

import comparison_sample as sample

MODELS = ("transformer", "independent")
SITES = ("face", "attention", "ffn", "head", "query", "key", "value")
ACCOUNTS = ("first", "softmax", "second", "integrated", "null", "size", "reverse")
PAIRS, HEADS, SIDE, CLASSES = 2, 2, 3, 10  # an image has SIDE x SIDE patches of 2 x 2 pixels
TOKENS, LENGTH = SIDE**2, 7  # of them, that are no padding in a text
CELLS = {"transformer": 3, "independent": 6}
DOSES = (-1, 0, 1, 2)
WORDS = ("<pad>", "the", "cat", "dog", "sat", "on", "a", "mat", "hat")
CLEAN, DONOR = (1, 2, 4, 5, 6, 7, 1), (1, 3, 4, 5, 6, 8, 1)  # numbers of the words of the first pair
GAIN, OFFSET = 3.0, -2.0  # of steering by the dose
# Spearman with exact effects where claims are true: by site for the first order of a Transformer, then what is special.
FIRST = {"face": 0.4, "attention": 0.6, "ffn": 0.7, "head": 0.95, "query": 0.8, "key": 0.8, "value": 0.97}
BETTER = {"face": 0.5, "query": 0.95, "key": 0.98}


def spearman(model, site, account, claimed=True):
    """The rank correlation of an account with exact effects; NaN for one that a site does not have."""
    if account == "softmax" and site not in ("query", "key") or account in ("second", "integrated") and site != "face":
        return np.nan
    if account == "integrated":
        return np.nan  # was not asked for
    if not claimed:
        return 0.5
    values = {"null": 0.2, "size": 0.3, "reverse": 0.55, "softmax": BETTER.get(site), "second": BETTER["face"], "first": FIRST[site]}
    return values[account] + (0.1 * (1 - values[account]) + 0.15 * (site == "face") if model != "transformer" and account == "first" else 0)


def write_interventions(path, claimed=True, models=MODELS, words=False, exact=True, steering=True, features=True, sites=SITES, **how):
    """First order that orders heads and beats its null, and is better in PDE models; or (claimed = False) all accounts are alike. `words`: a text
    with a vocabulary; `exact`: the model was run again; `sites`: those that were taken."""
    with sample.ComparisonFile(path, "interventions", **how) as out:
        for name, values in (("pair", np.arange(PAIRS)), ("token", np.arange(TOKENS)), ("feature", np.arange(1 if words else 4)),
                             ("site", np.arange(len(SITES))), ("account", np.arange(len(ACCOUNTS))), ("dose", DOSES)):
            out.axis(name, values)
        for model in models:
            for name, values in (("face", np.arange(CELLS[model] + 1)), ("cell", 1 + np.arange(CELLS[model])), ("head", 1 + np.arange(HEADS)),
                                 ("group", 1 + np.arange(HEADS))):
                out.axis(f"{model}_{name}", values)
        if words:
            out.axis("word", np.arange(len(WORDS)))
            out.file["words"] = [word.encode() for word in WORDS]
        out.describe_models(models)
        out.describe(site_names="\n".join(SITES), account_names="\n".join(ACCOUNTS), goal="logits", put="donor", tokens_x=TOKENS if words else SIDE,
                     tokens_y=1 if words else SIDE)
        for model in models:
            out.describe(model, middle_face=CELLS[model] // 2)
            _write_pairs(out, model, words, features)
            for site in sites:
                _write_effects(out, model, site, LENGTH if words else TOKENS, exact)
            if exact:
                _write_agreement(out, model, claimed, sites)
            if steering:
                _write_steering(out, model)


def features_of(words, donor=False):
    """Numbers of the tokens, [pair, token, feature]: of a text the numbers of words, of which the last are padding."""
    if not words:
        return np.arange(PAIRS * TOKENS * 4).reshape(PAIRS, TOKENS, 4) + 1000 * donor
    numbers = np.zeros((PAIRS, TOKENS, 1))
    numbers[:, :LENGTH, 0] = DONOR if donor else CLEAN
    return numbers


def _write_pairs(out, model, words, features):
    for name, values in (("pair_clean", 10 + np.arange(PAIRS)), ("pair_donor", 20 + np.arange(PAIRS)), ("pair_a", (2, 3)), ("pair_b", (3, 5)),
                         ("pair_token", np.full(PAIRS, LENGTH - 1 if words else -1)), ("pair_length", np.full(PAIRS, LENGTH if words else TOKENS)),
                         ("value_clean", (4.5, 3)), ("value_donor", (-4, -2.5))):
        out.along(("pair",), model, name, values, exact=True)
    if features:
        for name in ("clean", "donor"):
            out.along(("pair", "token", "feature"), model, f"{name}_features", features_of(words, name == "donor"), exact=True)


def effect_of(model, site, length=TOKENS):
    """Exact effects, [pair, depth, part, token], NaN at padding; without the axis of the parts where a site has none."""
    shape = (PAIRS, CELLS[model] + (site == "face"), *([HEADS] if site in ("head", "query", "key", "value") else []), TOKENS)
    values = np.random.default_rng(SITES.index(site)).standard_normal(shape) ** 3
    values[..., length:] = np.nan
    return values


def _write_effects(out, model, site, length, exact):
    true = effect_of(model, site, length)
    part = {"head": "head", "query": "head", "key": "group", "value": "group"}.get(site)
    axes = ("pair", f"{model}_face" if site == "face" else f"{model}_cell", *([f"{model}_{part}"] if part else []), "token")
    accounts = {"first": 0.5 * true, "null": true[::-1], "size": np.abs(true)}
    if exact:
        accounts |= {"exact": true, "reverse": 0.8 * true}
    if site in ("query", "key"):
        accounts["softmax"] = 0.9 * true
    if site == "face":
        accounts |= {"second": 0.7 * true, "untrusted": np.where(np.isfinite(true), np.abs(true) > 1, np.nan)}
    for name, values in accounts.items():
        out.along(axes, model, f"{site}_{name}", values, exact=True)


def _write_agreement(out, model, claimed, sites):
    by_account = np.array([[spearman(model, site, account, claimed) if site in sites else np.nan for account in ACCOUNTS] for site in SITES])
    for name, values in (("spearman", by_account), ("pearson", 0.9 * by_account), ("relative_error", 1 - by_account), ("top_share", 0.8 * by_account)):
        out.along(("site", "account"), model, f"agreement_{name}", values)


def _write_steering(out, model):
    doses = np.array(DOSES)
    for name, values in (("goal", OFFSET + GAIN * np.tanh(doses)), ("goal_random", np.full(len(doses), OFFSET)), ("reached", np.clip(0.5 * doses, 0, 0.9)),
                         ("reached_random", np.full(len(doses), 0.01))):
        out.along(("dose",), model, f"steering_{name}", values)
    out.along((), model, "steering_slope", GAIN)
