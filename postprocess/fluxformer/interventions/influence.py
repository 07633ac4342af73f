"""Which training samples made a model answer as it does, in the report: scores that find wrong labels, the suspects, and what influence is worth
against training again."""

from __future__ import annotations

import math
import os

import h5py
import numpy as np
from matplotlib.axes import Axes

from fluxformer.hdf5_file import RunError, open_file
from fluxformer.identifiability.measures import Rows, cell
from fluxformer.io import plain
from fluxformer.report.data import Comparison, Study, Style, number
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, name_row, over, panel, plt, style_of, tips
from fluxformer.statistics import Effect
from fluxformer.style import ACCENT, INK, SOFT
from fluxformer.text import one_line

EXPERIMENT = "influence"
GREY = plt.get_cmap("gray")
SCORES = {
    "self_influence": Style("self-influence", "#2563eb", "o", "-"), "loss": Style("loss", INK, "s", "--"),
    "gradient_norm": Style("norm of the gradient", "#0f9d78", "D", "-."), "mean_influence": Style("mean influence on test samples", "#8e44ad", "^", "-"),
    "early_loss": Style("loss early in training", "#b7791f", "v", ":"),
}
CURVATURES = {"exact": "Hessian", "identity": "identity", "diagonal": "diagonal", "classes": "a block for each class", "kfac": "K-FAC",
              "ekfac": "K-FAC, corrected eigenvalues"}
FIRST, NEWTON = Style("first order", "#2563eb", "o", "-"), Style("one Newton step", ACCENT, "s", "-")
MOST_POINTS = 6000   # of a scatter
MOST_SUSPECTS = 12   # pictures side by side
MOST_LINES = 8       # texts of a model
LETTERS = 100        # of a text
LARGEST_ERROR = 2.0  # relative errors beyond are cut, and written


def _listed(comparison: Comparison, model: str, name: str) -> list[str]:
    """The lines of an attribute of the model or of all models."""
    return str(comparison.facts(model).get(name) or comparison.facts().get(name, "")).splitlines()


def _label_of(curvature: str) -> str:
    """A curvature in words; "truncated_30": the 30 largest eigenvalues."""
    name, _, count = curvature.partition("_")
    return f"{count} largest eigenvalues" if name == "truncated" and count else CURVATURES.get(curvature, curvature.replace("_", " "))


def _known(values: np.ndarray | None) -> bool:
    return values is not None and bool(np.isfinite(values).any())


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean over seeds, and how far its interval of 95 % reaches to either side: 0 from one seed."""
    effect = Effect(values)
    low, high = effect.interval()
    return effect.mean, *((effect.mean - low, high - effect.mean) if math.isfinite(low) else (0.0, 0.0))


# (a) Wrong labels.

def _precision(score: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """The share of wrong labels among the first 1, 2, ... samples of the largest score; of equal scores the earlier sample first."""
    order = np.argsort(-score, kind="stable")
    return np.cumsum(wrong[order]) / (1 + np.arange(len(order)))


def _score(comparison: Comparison, model: str, name: str) -> np.ndarray | None:
    """A score of the training samples, [seed, train_sample]; where it depends on the damping, by the first one, as the precision of the file."""
    values = comparison.measure(model, name)
    if values is None or not _known(values):
        return None
    return values if values.ndim == 2 else values[:, 0]


def _with_wrong_labels(comparison: Comparison) -> list[str]:
    return [model for model in comparison.having("precision") if _known(comparison.measure(model, "precision"))
            and np.nanmax(comparison.numbers(model, "random_precision")) > 0]


def _precision_of(comparison: Comparison, model: str, score: str) -> np.ndarray | None:
    """The precision of a score, one number for each seed; None where it was not ranked. `early_loss`: that of the first epoch that was measured."""
    if score == "early_loss":
        early = comparison.measure(model, "epoch_loss_precision")
        return None if early is None else early[:, 0]
    precision, names = comparison.measure(model, "precision"), _listed(comparison, model, "score_names")
    return None if precision is None or score not in names else precision[:, names.index(score)]


def _found(comparison: Comparison, models: list[str], axes: Axes) -> None:
    """Precision of each score as a mark for each model, with interval and seeds, beside the share at random."""
    scores = [name for name in SCORES if any(_known(_precision_of(comparison, model, name)) for model in models)]
    shares = np.concatenate([comparison.numbers(model, "random_precision").ravel() for model in models])
    axes.axvline(float(np.nanmean(shares)), color=SOFT, ls=":", lw=1.4, label="random order")
    for k, model in enumerate(models):
        style, means, places, texts = style_of(model), [], [], []
        for row, score in enumerate(scores):
            precision = _precision_of(comparison, model, score)
            if precision is None or not _known(precision):
                continue
            mean, below, above = _interval(precision)
            place = len(scores) - 1 - row + 0.22 * ((len(models) - 1) / 2 - k)
            axes.plot(precision, np.full(len(precision), place), "o", color=style.colour, ms=3.5, alpha=0.4, mew=0)
            axes.errorbar(mean, place, xerr=[[below], [above]], color=style.colour, capsize=3, lw=1.5)
            means.append(mean)
            places.append(place)
            texts.append(f"{style.label}, {SCORES[score].label}: {number(mean)}")
        line, = axes.plot(means, places, style.marker, ls="", color=style.colour, ms=7, mec="white", label=style.label)
        tips(axes, line, texts)
    axes.set_yticks(range(len(scores)), [SCORES[one].label for one in reversed(scores)])
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.6, len(scores) - 0.4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    panel(axes, "Wrong labels found", "of the first k, k as many as planted", "")
    axes.grid(True, axis="x")


def _courses(comparison: Comparison, model: str, axes: Axes, first: bool) -> None:
    """Precision against the number of samples that are looked at; `first`: the axis is named here."""
    wrong = comparison.numbers(model, "wrong")
    planted = int(wrong.sum(axis=1).mean().round())
    last = min(wrong.shape[1], max(2 * planted, 2))
    for name, style in SCORES.items():
        if (values := _score(comparison, model, name)) is not None:
            curve = np.array([_precision(score, one)[:last] for score, one in zip(values, wrong)])
            over(axes, 1 + np.arange(last), curve, style, style.label, markers=False)
    axes.axhline(float(wrong.mean()), color=SOFT, ls=":", lw=1.4, label="random order")
    axes.axvline(planted, color=SOFT, lw=0.8)
    axes.annotate("planted", (planted, 0), xycoords=("data", "axes fraction"), xytext=(3, 4), textcoords="offset points", fontsize=9, color=SOFT)
    axes.set(xlim=(0, last), ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    panel(axes, style_of(model).label, "samples looked at", "wrong among them" if first else "")


def _labels(comparison: Comparison) -> list[Drawing]:
    models = _with_wrong_labels(comparison)
    if not models:
        return []
    drawn = models[:2]
    figure = canvas(4.4)
    panels = figure.subplots(1, 1 + len(drawn), squeeze=False, width_ratios=(1.15, *[1] * len(drawn)))[0]
    _found(comparison, models, panels[0])
    for axes, model in zip(panels[1:], drawn):
        _courses(comparison, model, axes, first=model == drawn[0])
    legend(figure, *panels)
    return [Drawing("influence-labels", "Which score finds wrong labels?",
                    "Training samples with planted wrong labels, ranked by each score, the largest first. Left: share of wrong labels among the first k; "
                    "marks are means, bars intervals of 95 % over seeds, dots the seeds. Other panels: the same by the number of samples looked at; "
                    "bands are one standard deviation. A score that costs more than the loss has to find more than the loss.",
                    figure, comparison.runs)]


def _by_damping(comparison: Comparison) -> list[Drawing]:
    """What scores find, and what cheap curvatures give, by damping; for whole models with several dampings."""
    if "damping" not in comparison.axes or len(damping := comparison.axis("damping")) < 2 or not (damping > 0).all():
        return []
    order = np.argsort(damping, kind="stable")
    finding = [model for model in comparison.having("self_influence_precision") if _known(comparison.measure(model, "self_influence_precision"))]
    cheap = [model for model in comparison.having("damped_spearman") if _known(comparison.measure(model, "damped_spearman"))]
    if not finding and not cheap:
        return []
    figure = canvas(3.8)
    panels = figure.subplots(1, bool(finding) + bool(cheap), squeeze=False)[0]
    for model in finding:
        style = style_of(model)
        over(panels[0], damping[order], comparison.numbers(model, "self_influence_precision")[:, order], style, f"{style.label}, self-influence")
        if (loss := _precision_of(comparison, model, "loss")) is not None:
            over(panels[0], damping[[order[0], order[-1]]], np.repeat(loss[:, None], 2, axis=1), style._replace(line=":"), f"{style.label}, loss",
                 markers=False, alpha=0.8)
    for model in cheap:
        style, names = style_of(model), _listed(comparison, model, "curvature_names")
        for curvature, line in zip(names, ("-", "--", "-.", ":")):
            values = comparison.numbers(model, "damped_spearman")[:, order, names.index(curvature)]
            if _known(values):
                over(panels[-1], damping[order], values, style._replace(line=line), f"{style.label}, {_label_of(curvature)}")
    for axes in panels:
        axes.set_xscale("log")
    if finding:
        panels[0].set_ylim(0, 1.02)
        panels[0].yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        panel(panels[0], "Wrong labels found", "damping over the largest eigenvalue", "of the first k, k as many as planted")
    if cheap:
        panels[-1].set_ylim(min(0.0, panels[-1].get_ylim()[0]), 1.02)
        panel(panels[-1], "Cheap curvatures", "damping over the largest eigenvalue", "Spearman with exact influence")
    legend(figure, *panels)
    return [Drawing("influence-damping", "How much depends on the damping?",
                    "Whole models. With much damping influence is a product of gradients, with little the directions of small curvature decide. What "
                    "changes along these lines is not said by the data alone. Lines are means over seeds, bands one standard deviation.",
                    figure, comparison.runs)]


# (b) Suspects.

def _suspects(comparison: Comparison, model: str) -> np.ndarray:
    """Places of the training samples of the first seed, the largest self-influence first."""
    score = _score(comparison, model, "self_influence")
    assert score is not None
    return np.argsort(-np.nan_to_num(score[0], nan=-np.inf), kind="stable")


def _tokens_of(comparison: Comparison, model: str, places: np.ndarray) -> list[np.ndarray] | None:
    """The numbers of the tokens of suspects, [token, feature], if the file holds them for the first of these."""
    features, stored = comparison.measure(model, "suspect_features"), comparison.measure(model, "suspect_sample")
    if features is None or stored is None:
        return None
    held = {int(place): k for k, place in enumerate(stored[0])}
    if int(places[0]) not in held:
        return None
    found = []
    for place in map(int, places):
        if place not in held:
            break
        found.append(features[0, held[place]])
    return found


def _picture(comparison: Comparison, tokens: np.ndarray) -> np.ndarray | None:
    """The picture that patches, rows or pixels make; None for what is no image."""
    facts = comparison.facts()
    columns, rows = int(facts.get("tokens_x", 0)), int(facts.get("tokens_y", 0))
    count, features = tokens.shape
    width = math.isqrt(features)
    if rows > 1 and rows * columns == count and width * width == features:
        return tokens.reshape(rows, columns, width, width).transpose(0, 2, 1, 3).reshape(rows * width, columns * width)
    if count == features and count > 1:  # rows of pixels
        return tokens
    side = math.isqrt(tokens.size)
    return tokens.reshape(side, side) if count == 1 and side * side == tokens.size else None


def _texts(comparison: Comparison, model: str, places: np.ndarray) -> list[str]:
    """The first words of suspects: those that the file holds, or those of the token file of the run if it is still there."""
    settings, path = comparison.runs[0].settings, str(comparison.runs[0].settings.get("data.file", ""))
    lines, stored = _listed(comparison, model, "suspect_words"), comparison.measure(model, "suspect_sample")
    if lines and stored is not None and len(lines) >= stored.shape[1]:
        held = {int(place): line for place, line in zip(stored[0], lines)}
        return [_cut(held[int(place)]) for place in places if int(place) in held]
    if settings.get("data.set") != "tokens" or not os.path.isfile(path):
        return []
    try:
        with open_file(path) as file:
            split = file["train"] if "train" in file else file
            if "words" not in file or not isinstance(ids := split.get("ids"), h5py.Dataset):
                return []
            rows = [ids[int(comparison.numbers(model, "train_index")[0, place])][:LETTERS // 2] for place in places]
            return [_cut(" ".join(str(plain(file["words"][int(one)])) for one in row)) for row in rows]
    except (RunError, OSError, KeyError, IndexError, ValueError):
        return []  # another file of that name


def _cut(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LETTERS else text[:LETTERS - 1] + "…"


def _title(comparison: Comparison, model: str, place: int) -> tuple[str, str]:
    """The label of a training sample of the first seed, the right one behind it if it is known, and its colour."""
    label, wrong, right = (comparison.measure(model, name) for name in ("label", "wrong", "right_label"))
    planted = wrong is not None and wrong[0, place] == 1
    text = "?" if label is None else f"{label[0, place]:.0f}"
    if planted and right is not None and np.isfinite(right[0, place]):
        text += f" for {right[0, place]:.0f}"
    return text, ACCENT if planted else INK


def _strip(comparison: Comparison, shown: dict[str, list[np.ndarray]]) -> Drawing:
    """A row of pictures for each model."""
    wide = max(map(len, shown.values()))
    figure = canvas(0.35 + 1.25 * len(shown))
    panels = figure.subplots(len(shown), wide, squeeze=False)
    for line, (model, pictures) in zip(panels, shown.items()):
        places = _suspects(comparison, model)
        for axes in line:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        for axes, place, picture in zip(line, places, pictures):
            axes.imshow(picture, cmap=GREY, interpolation="nearest")
            text, colour = _title(comparison, model, place)
            axes.set_title(text, loc="center", fontsize=10, color=colour)
            if colour == ACCENT:
                axes.spines[:].set_visible(True)
                axes.spines[:].set_color(ACCENT)
                axes.spines[:].set_linewidth(2)
        name_row(line[0], model)
    return _of_suspects(comparison, figure, "From left to right: the largest first. Above each picture its label in the training")


def _lines(comparison: Comparison, shown: dict[str, list[str]]) -> Drawing:
    """A few lines of text for each model."""
    figure = canvas(sum(0.45 + 0.24 * len(texts) for texts in shown.values()))
    rows = figure.subplots(len(shown), 1, squeeze=False, height_ratios=[len(texts) for texts in shown.values()])[:, 0]
    for axes, (model, texts) in zip(rows, shown.items()):
        axes.set_axis_off()
        axes.set_title(style_of(model).label, fontsize=10.5, color=style_of(model).colour)
        axes.set_ylim(len(texts), 0)
        for k, (place, text) in enumerate(zip(_suspects(comparison, model), texts)):
            label, colour = _title(comparison, model, place)
            axes.text(0, k + 0.5, label, color=colour, va="center", fontweight="bold", fontsize=9)
            axes.text(0.08, k + 0.5, text, color=colour, va="center", fontsize=9, parse_math=False)
    return _of_suspects(comparison, figure, "From top to bottom: the largest first. In front of each text its label in the training")


def _heights(comparison: Comparison, models: list[str]) -> Drawing:
    """Self-influence of the suspects as bars, where nothing is known of the samples but their labels."""
    figure = canvas(0.3 + 2.3 * len(models))
    for axes, model in zip(figure.subplots(len(models), 1, squeeze=False)[:, 0], models):
        places = _suspects(comparison, model)[:3 * MOST_SUSPECTS]
        score = _score(comparison, model, "self_influence")
        assert score is not None
        titles = [_title(comparison, model, place) for place in places]
        axes.bar(range(len(places)), score[0, places], color=[ACCENT if colour == ACCENT else "#9ca3af" for _, colour in titles])
        axes.set_xticks(range(len(places)), [text for text, _ in titles], fontsize=8)
        axes.tick_params(length=0)
        axes.set_xlim(-0.6, len(places) - 0.4)
        panel(axes, style_of(model).label, "label in the training" if model == models[-1] else "", "self-influence")
    return _of_suspects(comparison, figure, "From left to right: the largest first. Below each bar its label in the training")


def _of_suspects(comparison: Comparison, figure: plt.Figure, how: str) -> Drawing:
    return Drawing("influence-suspects", "Suspects: the training samples with the largest self-influence",
                   f"Samples that no other one explains, of the training of seed {comparison.seeds[0]}. {how}; red: a planted wrong label. A suspect "
                   "that is not red may be a hard sample, or a wrong label of the data set itself.", figure, comparison.runs)


def _of_models(comparison: Comparison) -> list[Drawing]:
    models = [model for model in comparison.having("self_influence") if _score(comparison, model, "self_influence") is not None]
    pictures: dict[str, list[np.ndarray]] = {}
    for model in models:
        tokens = _tokens_of(comparison, model, _suspects(comparison, model)[:MOST_SUSPECTS]) or []
        if these := [picture for one in tokens if (picture := _picture(comparison, one)) is not None]:
            pictures[model] = these
    if pictures:
        return [_strip(comparison, pictures)]
    texts: dict[str, list[str]] = {}
    for model in models:
        if lines := _texts(comparison, model, _suspects(comparison, model)[:MOST_LINES]):
            texts[model] = lines
    return [_lines(comparison, texts)] if texts else [_heights(comparison, models)] if models else []


# (c) Against training again.

def _dots(axes: Axes, comparison: Comparison, model: str, name: str, style: Style, limit: float) -> None:
    """Changes of test losses by an account against those by training again, of all seeds."""
    true, account = (comparison.numbers(model, one).ravel() for one in ("retrained", f"change_{name}"))
    there = np.isfinite(true) & np.isfinite(account)
    true, account = true[there], account[there]
    if len(true) > MOST_POINTS:  # the largest of them, and others evenly
        order = np.argsort(-np.abs(true), kind="stable")
        kept = np.concatenate([order[:MOST_POINTS // 4], order[np.linspace(MOST_POINTS // 4, len(order) - 1, 3 * MOST_POINTS // 4).astype(int)]])
        true, account = true[kept], account[kept]
    axes.plot([-limit, limit], [-limit, limit], color=SOFT, lw=0.9, label="as training again says")
    axes.plot(true, np.clip(account, -limit, limit), style.marker, ls="", ms=3.2, mew=0, alpha=0.4, color=style.colour, rasterized=True)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
    numbers = [f"{words} {number(float(np.nanmean(values)))}" for words, key in (("Spearman", "spearman"), ("relative error", "relative_error"))
               if (values := comparison.measure(model, f"{name}_{key}")) is not None and _known(values)]
    axes.text(0.03, 0.97, "\n".join(numbers), transform=axes.transAxes, va="top", fontsize=9, color=INK)
    panel(axes, style.label, "change of the test loss, trained again", "change by the account")


def _retrained(comparison: Comparison) -> list[Drawing]:
    models = [model for model in comparison.having("retrained") if _known(comparison.measure(model, "retrained"))]
    if not models:
        return []
    accounts = [(name, style) for name, style in (("first", FIRST), ("newton", NEWTON))
                if any(_known(comparison.measure(model, f"change_{name}")) for model in models)]
    figure = canvas(0.3 + 3.9 * len(models))
    panels = figure.subplots(len(models), max(len(accounts), 1), squeeze=False)
    for line, model in zip(panels, models):
        true = comparison.numbers(model, "retrained")
        limit = 1.06 * float(np.nanmax(np.abs(true))) or 1.0
        for axes, (name, style) in zip(line, accounts):
            if _known(comparison.measure(model, f"change_{name}")):
                _dots(axes, comparison, model, name, style, limit)
            else:
                axes.set_axis_off()
        name_row(line[0], model, away=58)
    legend(figure, *panels.ravel())
    return [Drawing("influence-retrained", "One sample left out: what the accounts say, and what training again says",
                    "Each dot is a test sample and a training sample of the last linear layer; its loss changes by so much where the sample is left out. "
                    "Dots flatter than the line: the account is too small. Accounts beyond the frame stand at its edge. Newton: one step in which the "
                    "curvature of the sample is taken away, too.", figure, comparison.runs)]


def _bars(axes: Axes, comparison: Comparison, models: list[str], curvatures: list[str], name: str, title: str, limit: float) -> None:
    """A bar for each curvature and model, with its number; longer ones are cut at the limit."""
    thick = 0.8 / len(models)
    lowest = 0.0
    for k, model in enumerate(models):
        style, values = style_of(model), comparison.numbers(model, name)
        for row, curvature in enumerate(curvatures):
            names = _listed(comparison, model, "curvature_names")
            if curvature not in names or not np.isfinite(own := values[:, names.index(curvature)]).any():
                continue
            mean, below, above = _interval(own)
            place, end = len(curvatures) - 1 - row + thick * ((len(models) - 1) / 2 - k), min(mean, limit)
            axes.barh(place, end, height=0.9 * thick, color=style.colour, alpha=0.75, label=style.label)
            if mean <= limit and below + above > 0:
                axes.errorbar(mean, place, xerr=[[below], [min(above, limit - mean)]], color=INK, capsize=2, lw=1)
            reach = max(end, 0.0) if mean > limit else max(min(mean + above, limit), 0.0)
            axes.text(reach + 0.02 * limit, place, f"{mean:.2f}".replace("-", "−") + (" →" if mean > limit else ""), va="center", fontsize=8.5)
            lowest = min(lowest, mean - below)
    axes.set_yticks(range(len(curvatures)), [_label_of(one) for one in reversed(curvatures)])
    axes.set_xlim(1.05 * lowest, 1.18 * limit)
    axes.axvline(0, color=SOFT, lw=0.8)
    panel(axes, title, "", "")
    axes.grid(False, axis="y")
    axes.grid(True, axis="x")


def _sets(axes: Axes, comparison: Comparison, models: list[str]) -> None:
    """Relative errors of accounts where several samples are left out together."""
    removed = comparison.axis("removed")
    for model in models:
        style = style_of(model)
        for name, words, line in (("first", FIRST.label, "--"), ("newton", NEWTON.label, "-")):
            if _known(values := comparison.measure(model, f"set_{name}_relative_error")) and values is not None:
                over(axes, removed, values, style._replace(line=line, marker=FIRST.marker if name == "first" else NEWTON.marker),
                     words if len(models) == 1 else f"{style.label}, {words}")
    axes.set_xscale("log")
    axes.set_xticks(removed, [f"{one:.0f}" for one in removed])
    axes.minorticks_off()
    axes.set_ylim(0, None)
    panel(axes, "Several left out together", "samples left out", "relative error")


def _curvatures(comparison: Comparison) -> list[Drawing]:
    models = [model for model in comparison.having("curvature_spearman") if _known(comparison.measure(model, "curvature_spearman"))]
    if not models:
        return []
    curvatures = list(dict.fromkeys(name for model in models for name in _listed(comparison, model, "curvature_names")))
    together = [model for model in comparison.having("set_first_relative_error") if _known(comparison.measure(model, "set_first_relative_error"))]
    figure = canvas(1.2 + max(2.4, (0.26 + 0.14 * len(models)) * len(curvatures)))
    panels = figure.subplots(1, 2 + bool(together), width_ratios=(1, 1, 0.9) if together else (1, 1))
    _bars(panels[0], comparison, models, curvatures, "curvature_spearman", "Spearman with training again", 1.0)
    _bars(panels[1], comparison, models, curvatures, "curvature_relative_error", "Relative error of the influence", LARGEST_ERROR)
    panels[1].set_yticklabels([])
    if together:
        _sets(panels[2], comparison, together)
    legend(figure, *panels)
    return [Drawing("influence-curvatures", "What cheaper curvatures give",
                    "The Hessian of the last linear layer, and what others put in its place. Left: do they order the changes as training again does? "
                    "Middle: how far is their influence from that by the Hessian? 1: as wrong as to say 0. Bars are means over seeds, lines on them "
                    "intervals of 95 %; an arrow: beyond the panel."
                    + (" Right: random samples left out together, by first order (a sum) and by one Newton step." if together else ""),
                    figure, comparison.runs)]


def draw(study: Study) -> list[Drawing]:
    """Draws what finds wrong labels, and what depends on the damping; none without a file of `influence`."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else _labels(comparison) + _by_damping(comparison)


def draw_suspects(study: Study) -> list[Drawing]:
    """Draws the samples with the largest self-influence; none without a file of `influence`."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else _of_models(comparison)


def draw_retrained(study: Study) -> list[Drawing]:
    """Draws influence against training again; none where nothing was trained again."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else _retrained(comparison) + _curvatures(comparison)


# Tables.

def table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: for each model what it has fitted, and the precision of each score."""
    rows: Rows = [("model", "planted", "wrong labels fitted", "right labels fitted", *(style.label for style in SCORES.values()), "random order",
                   "gradient of the objective", "negative eigenvalues")]
    for model in comparison.models:
        of = lambda name, model=model: _shown(comparison.measure(model, name))  # noqa: E731
        found = [_shown(_precision_of(comparison, model, name)) for name in SCORES]
        row = (of("planted"), of("fitted_wrong"), of("fitted_right"), *found, of("random_precision"), of("objective_gradient_norm"), of("negative_share"))
        if set(row) != {"–"}:
            rows.append((style_of(model).label, *row))
    return rows


def table_retrained(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: for each model and account, and for each curvature, agreement with training again."""
    rows: Rows = [("model", "account", "Spearman", "Pearson", "relative error")]
    for model in comparison.having("first_spearman"):
        for name, style in (("first", FIRST), ("newton", NEWTON)):
            found = [_shown(comparison.measure(model, f"{name}_{key}")) for key in ("spearman", "pearson", "relative_error")]
            if set(found) != {"–"}:
                rows.append((style_of(model).label, style.label, *found))
        spearman, error = (comparison.measure(model, f"curvature_{key}") for key in ("spearman", "relative_error"))
        if spearman is None or error is None:
            continue
        for k, curvature in enumerate(_listed(comparison, model, "curvature_names")):
            rows.append((style_of(model).label, f"influence by: {_label_of(curvature)}", _shown(spearman[:, k]), "–", _shown(error[:, k])))
    return rows


def table_suspects(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: the training samples of the first seed with the largest self-influence."""
    rows: Rows = [("model", "place", "index in the training split", "label", "planted wrong", "self-influence", "loss", "norm of the gradient",
                   "mean influence on test samples")]
    for model in comparison.having("self_influence"):
        if (own := _score(comparison, model, "self_influence")) is None:
            continue
        columns = [_score(comparison, model, name) for name in ("loss", "gradient_norm", "mean_influence")]
        index, wrong = (comparison.measure(model, name) for name in ("train_index", "wrong"))
        for k, place in enumerate(_suspects(comparison, model)[:MOST_SUSPECTS]):
            rows.append((style_of(model).label, f"{k + 1}", "–" if index is None else f"{index[0, place]:.0f}", _title(comparison, model, place)[0],
                         "–" if wrong is None else "yes" if wrong[0, place] == 1 else "no", number(own[0, place]),
                         *("–" if one is None else number(one[0, place]) for one in columns)))
    return rows


def _shown(values: np.ndarray | None) -> str:
    return cell(values) if values is not None and _known(values) else "–"


CONTROLS = (("at:score=0", "self-influence"), ("at:score=1", "the loss"), ("at:score=2", "the norm of the gradient"),
            ("at:score=3", "the mean influence on test samples"))
SECTIONS = (Section(28, "influence", "Which score finds wrong labels?", EXPERIMENT, draw, table, controls=CONTROLS),
            Section(29, "influence-suspects", "Suspects", EXPERIMENT, draw_suspects, table_suspects),
            Section(30, "influence-retrained", "What is influence worth against training again?", EXPERIMENT, draw_retrained, table_retrained))
