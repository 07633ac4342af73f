"""Which states make a model answer as it does, in the report: what accounts of an effect are worth against running again, where the effects lie, and
steering."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import MaxNLocator

from fluxformer.identifiability.measures import Rows, cell
from fluxformer.io import plain
from fluxformer.report.data import Comparison, Study, Style, number
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, plt, style_of
from fluxformer.statistics import Effect
from fluxformer.style import ACCENT, INK, SOFT
from fluxformer.text import one_line

EXPERIMENT = "interventions"
SITES = {"face": "residual stream", "attention": "attention adds", "ffn": "network adds", "head": "outputs of heads", "query": "queries", "key": "keys",
         "value": "values"}
ACCOUNTS = {
    "first": Style("first order", "#2563eb", "o", "-"), "softmax": Style("soft-max computed again", "#0f9d78", "s", "-"),
    "second": Style("second order", "#8e44ad", "D", "-"), "integrated": Style("integrated gradients", "#b7791f", "^", "-"),
    "null": Style("null: the adjoint of another pair", "#9ca3af", "v", ":"), "size": Style("size of the change alone", "#d1d5db", "P", ":"),
    "reverse": Style("opposite patch, run again", INK, "X", "--"),
}
BARS = tuple(name for name in ACCOUNTS if name != "integrated")
TRUSTED, UNTRUSTED, RANDOM = Style("first order", "#2563eb", "o", ""), Style("not to be trusted", ACCENT, "o", ""), "random vector of equal norm"
SIGNED, GREY = plt.get_cmap("RdBu_r").with_extremes(bad="#e5e7eb"), plt.get_cmap("gray")
MOST_POINTS = 6000   # of a scatter
MOST_WORDS = 24      # words that can be read along an axis
MOST_COLOURED = 0.99  # of the effects of a map, that have colours of their own
MOST_NUMBERS = 12    # heads or cells of a map whose numbers are written
MOST_PAIRS = 12      # of a table, for each model
LETTERS = 10         # of a word


def _listed(comparison: Comparison, name: str) -> list[str]:
    """The lines of an attribute of the experiment."""
    return str(comparison.facts().get(name, "")).splitlines()


def _known(values: np.ndarray | None) -> bool:
    return values is not None and bool(np.isfinite(values).any())


def _measured(comparison: Comparison, name: str) -> list[str]:
    """The models with numbers of this measure."""
    return [model for model in comparison.having(name) if _known(comparison.measure(model, name))]


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean over seeds, and how far its interval of 95 % reaches to either side: 0 from one seed."""
    effect = Effect(values)
    low, high = effect.interval()
    return effect.mean, *((effect.mean - low, high - effect.mean) if math.isfinite(low) else (0.0, 0.0))


def _scale(values: np.ndarray, share: float = 1.0) -> float:
    """The size that this share of the known numbers does not exceed, 1 if there is none but 0."""
    return (float(np.nanquantile(np.abs(values), share)) if _known(values) else 0.0) or 1.0


# (a) What accounts are worth.

def _agreement(comparison: Comparison, model: str, site: str, account: str, measure: str = "spearman") -> np.ndarray | None:
    """How well an account of a site agrees with exact effects, one number for each seed; None where it was not taken."""
    values, sites, accounts = comparison.measure(model, f"agreement_{measure}"), _listed(comparison, "site_names"), _listed(comparison, "account_names")
    if values is None or site not in sites or account not in accounts:
        return None
    found = values[:, sites.index(site), accounts.index(account)]
    return found if _known(found) else None


def _sites(comparison: Comparison, model: str) -> list[str]:
    """The sites of a model whose accounts were compared with exact effects."""
    return [site for site in _listed(comparison, "site_names")
            if any(_agreement(comparison, model, site, account) is not None for account in ACCOUNTS)]


def _groups(axes: Axes, comparison: Comparison, model: str, sites: list[str]) -> None:
    """A group of bars for each site, with their numbers."""
    thick, lowest = 0.16, 0.0
    there = {site: [name for name in BARS if _agreement(comparison, model, site, name) is not None] for site in sites}
    for name in BARS:  # the order of the legend
        for place, site in enumerate(sites):
            found, style = _agreement(comparison, model, site, name), ACCOUNTS[name]
            if found is None:
                continue
            mean, below, above = _interval(found)
            along = place + thick * (there[site].index(name) - (len(there[site]) - 1) / 2)
            axes.bar(along, mean, width=0.9 * thick, color=style.colour, label=style.label)
            if below + above > 0:
                axes.errorbar(along, mean, yerr=[[below], [above]], color=SOFT, capsize=2, lw=1)
            axes.text(along, max(mean + above, 0) + 0.02, f"{mean:.2f}".replace("-", "−"), ha="center", fontsize=7.5)
            lowest = min(lowest, mean - below)
    axes.set_xticks(range(len(sites)), [SITES.get(site, site) for site in sites])
    axes.tick_params(axis="x", length=0)
    axes.axhline(0, color=SOFT, lw=0.8)
    axes.set(xlim=(-0.55, len(sites) - 0.45), ylim=(max(1.08 * lowest, -1.05), 1.15))
    panel(axes, style_of(model).label, "", "Spearman")


def _bars(comparison: Comparison) -> list[Drawing]:
    models = [model for model in _measured(comparison, "agreement_spearman") if _sites(comparison, model)]
    if not models:
        return []
    every = [site for site in _listed(comparison, "site_names") if any(site in _sites(comparison, model) for model in models)]
    figure = canvas(0.6 + 2.5 * len(models))
    panels = figure.subplots(len(models), 1, squeeze=False)[:, 0]
    for axes, model in zip(panels, models):
        _groups(axes, comparison, model, every)
    legend(figure, *panels)
    return [Drawing("interventions-accounts", "Do cheap accounts put effects in the right order?",
                    "Rank correlation with the exact effect, for which the model is run again, over tokens; means over pairs, depths and heads. Bars are "
                    "means over seeds, lines on them intervals of 95 %. First order is worth something where it stands above its null, the same changes "
                    "with the adjoint of another pair, and above the size of the change, which is compared with sizes of effects. The opposite patch "
                    "is another question: how far two exact answers agree.", figure, comparison.runs)]


class _Cloud(NamedTuple):
    """Exact effects and those by first order, and which of these are not to be trusted."""
    exact: np.ndarray
    first: np.ndarray
    doubtful: np.ndarray


def _cloud(comparison: Comparison, model: str, site: str) -> _Cloud | None:
    """The effects at all places of a site that were run again, of all pairs and seeds; of many the largest and others evenly."""
    exact, first, doubtful = (comparison.measure(model, f"{site}_{account}") for account in ("exact", "first", "untrusted"))
    if exact is None or first is None or not (there := np.isfinite(exact) & np.isfinite(first)).any():
        return None
    cloud = _Cloud(exact[there], first[there], np.zeros(there.sum(), bool) if doubtful is None else doubtful[there] == 1)
    if len(cloud.exact) <= MOST_POINTS:
        return cloud
    order = np.argsort(-np.abs(cloud.exact), kind="stable")
    most = MOST_POINTS // 4
    kept = np.concatenate([order[:most], order[np.linspace(most, len(order) - 1, 3 * most).astype(int)]])
    return _Cloud(*(one[kept] for one in cloud))


def _dots(axes: Axes, cloud: _Cloud, title: str, spearman: np.ndarray | None, named: bool) -> None:
    """First order against exact effects; `named`: the vertical axis is named here."""
    limit = 1.06 * _scale(cloud.exact)
    axes.plot([-limit, limit], [-limit, limit], color=SOFT, lw=0.9, label="as running again says")
    for style, these in ((TRUSTED, ~cloud.doubtful), (UNTRUSTED, cloud.doubtful)):
        if these.any():
            axes.plot(cloud.exact[these], np.clip(cloud.first[these], -limit, limit), style.marker, ls="", ms=3.2, mew=0, alpha=0.4, color=style.colour,
                      rasterized=True, label=style.label)
    said = [] if spearman is None else [f"Spearman {float(np.nanmean(spearman)):.2f}".replace("-", "−")]
    if cloud.doubtful.any():
        said.append(f"{100 * cloud.doubtful.mean():.0f} % not to be trusted")
    axes.text(0.03, 0.97, "\n".join(said), transform=axes.transAxes, va="top", fontsize=9, color=INK)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
    panel(axes, title, "exact effect", "effect by first order" if named else "")


def _scatter(comparison: Comparison) -> list[Drawing]:
    shown = [(model, site, cloud) for model in comparison.models for site in ("face", "head") if (cloud := _cloud(comparison, model, site)) is not None]
    if not shown:
        return []
    wide = min(len(shown), 4)
    figure = canvas(0.5 + (3.0 if wide > 2 else 4.0) * -(-len(shown) // wide))
    panels = figure.subplots(-(-len(shown) // wide), wide, squeeze=False).ravel()
    for k, (axes, (model, site, cloud)) in enumerate(zip(panels, shown)):
        _dots(axes, cloud, f"{style_of(model).label}\n{SITES[site]}", _agreement(comparison, model, site, "first"), named=k % wide == 0)
    for axes in panels[len(shown):]:
        axes.set_axis_off()
    legend(figure, *panels[:len(shown)])
    return [Drawing("interventions-first-order", "First order beside running again",
                    "Each dot is one place at which one token's state is replaced, of all pairs and seeds. On the line first order is exact; what is beyond "
                    "the frame stands at its edge. Red: second order is so large beside first order that the series says nothing at a change of this size.",
                    figure, comparison.runs)]


# (b) Where the effects are.

def _vocabulary(comparison: Comparison) -> list[str]:
    """The words of a text model by their numbers; empty where words have no names."""
    return [one_line(str(plain(word))) for word in comparison.axis("words")] if "words" in comparison.axes else []


def _words(comparison: Comparison, features: np.ndarray, length: int) -> list[str]:
    """The words of a sample, whose first feature is their number; empty for what is no text."""
    vocabulary, numbers = _vocabulary(comparison), features[:length, 0]
    if not vocabulary or not np.isfinite(numbers).all() or ((numbers < 0) | (numbers >= len(vocabulary)) | (numbers != np.floor(numbers))).any():
        return []
    words = [vocabulary[int(one)] for one in numbers]
    return [word if len(word) <= LETTERS else word[:LETTERS - 1] + "…" for word in words]


def _picture(comparison: Comparison, tokens: np.ndarray) -> np.ndarray | None:
    """The picture that patches, rows or pixels make; None for what is no image."""
    facts = comparison.facts()
    columns, rows = int(facts.get("tokens_x", 0)), int(facts.get("tokens_y", 0))
    count, features = tokens.shape
    width = math.isqrt(features)
    if rows > 1 and rows * columns == count and width * width == features:
        return tokens.reshape(rows, columns, width, width).transpose(0, 2, 1, 3).reshape(rows * width, columns * width)
    return tokens if count == features > 1 else None  # rows of pixels


class _First:
    """The first pair of a model, of the first seed: effects [face, token] of replacing a token's state, and what the two samples are."""

    def __init__(self, comparison: Comparison, model: str) -> None:
        self.model = model
        exact, first = (comparison.numbers(model, f"face_{account}")[0, 0] for account in ("exact", "first"))
        tokens = exact.shape[1]
        lengths = comparison.measure(model, "pair_length")
        self.length = tokens if lengths is None or not np.isfinite(lengths[0, 0]) else min(int(lengths[0, 0]), tokens)
        self.exact, self.first = exact[:, :self.length], first[:, :self.length]
        self.words: list[str] = []
        self.pictures: list[np.ndarray] = []
        samples = [comparison.measure(model, f"{name}_features") for name in ("clean", "donor")]
        if samples[0] is None or samples[1] is None:
            return
        clean, donor = (one[0, 0] for one in samples if one is not None)
        if words := _words(comparison, clean, self.length):
            given = _words(comparison, donor, self.length)
            self.words = [own if own == put else f"{own} ← {put}" for own, put in zip(words, given or words)]
        elif not _vocabulary(comparison):
            self.pictures = [picture for one in (clean, donor) if (picture := _picture(comparison, one)) is not None]


def _answers(comparison: Comparison, model: str, pair: int = 0) -> tuple[str, str]:
    """The answers to clean and donor of a pair of the first seed: words, or classes."""
    vocabulary, token = _vocabulary(comparison), comparison.measure(model, "pair_token")
    named = bool(vocabulary) and token is not None and token[0, pair] >= 0
    found = []
    for name in ("pair_a", "pair_b"):
        values = comparison.measure(model, name)
        one = math.nan if values is None else float(values[0, pair])
        found.append("?" if not math.isfinite(one) else vocabulary[int(one)] if named and 0 <= one < len(vocabulary) else f"{one:.0f}")
    return found[0], found[1]


def _map(axes: Axes, comparison: Comparison, one: _First, values: np.ndarray, title: str, limit: float) -> None:
    """Effects by token and depth: the embedded input at the bottom."""
    axes.pcolormesh(np.arange(one.length + 1) - 0.5, np.arange(len(values) + 1) - 0.5, np.ma.masked_invalid(values), cmap=SIGNED, vmin=-limit, vmax=limit,
                    rasterized=True)
    columns, rows = int(comparison.facts().get("tokens_x", 0)), int(comparison.facts().get("tokens_y", 0))
    if one.words:
        changed = ["←" in word for word in one.words]
        shown = [k for k in range(one.length) if one.length <= MOST_WORDS or changed[k]]
        axes.set_xticks(shown, [one.words[k] for k in shown], rotation=90, fontsize=8 if len(shown) <= MOST_WORDS else 6, parse_math=False)
        for label, k in zip(axes.get_xticklabels(), shown):
            label.set_color(ACCENT if changed[k] else INK)
    elif rows > 1 and rows * columns == one.length:
        for row in range(1, rows):
            axes.axvline(row * columns - 0.5, color=SOFT, lw=0.6)
        axes.set_xticks([(row + 0.5) * columns - 0.5 for row in range(rows)], [f"{1 + row}" for row in range(rows)])
    axes.tick_params(length=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel(axes, title, "" if one.words else "row of patches, each from left to right" if rows > 1 else "token", "face")
    axes.grid(False)


def _height(one: _First, seen: bool) -> float:
    """Inches of the row of a model; `seen`: with pictures."""
    letters = max(map(len, one.words), default=0)
    return 0.6 + min(max(2.4 if seen else 1.6, 0.14 * len(one.exact)), 4.0) + 0.065 * letters


def _colours(figure: Figure, axes: list[Axes], limit: float) -> None:
    """The bar of colours of a row of maps."""
    image = plt.cm.ScalarMappable(plt.Normalize(-limit, limit), SIGNED)
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=18, extend="both")
    bar.set_label("change of the goal")
    bar.outline.set_visible(False)


def _pictures(figure: Figure, comparison: Comparison, one: _First, places: list[SubplotSpec]) -> None:
    """Clean and donor with the answers to them."""
    for place, picture, name, answer in zip(places, one.pictures, ("clean", "donor"), _answers(comparison, one.model)):
        axes = figure.add_subplot(place)
        axes.imshow(picture, cmap=GREY, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_title(f"{name}: {answer}", loc="center", fontsize=9.5, parse_math=False)


def _maps(comparison: Comparison) -> list[Drawing]:
    """Exact effects of the first pair beside first order, a row for each model."""
    shown = [_First(comparison, model) for model in _measured(comparison, "face_exact") if comparison.measure(model, "face_first") is not None]
    shown = [one for one in shown if _known(one.exact)]
    if not shown:
        return []
    seen = any(one.pictures for one in shown)
    heights = [_height(one, seen) for one in shown]
    figure = canvas(sum(heights))
    ratios = (0.36, 1, 1) if seen else (1, 1)
    # Two rows for each model: the pictures stand one above the other.
    grid = figure.add_gridspec(2 * len(shown), len(ratios), width_ratios=ratios, height_ratios=[high for high in heights for _ in range(2)])
    for k, one in enumerate(shown):
        _pictures(figure, comparison, one, [grid[2 * k + row, 0] for row in range(2)])
        left, right = (figure.add_subplot(grid[2 * k:2 * k + 2, column]) for column in (len(ratios) - 2, len(ratios) - 1))
        limit = _scale(one.exact, share=MOST_COLOURED)
        _map(left, comparison, one, one.exact, f"{style_of(one.model).label}: exact", limit)
        _map(right, comparison, one, one.first, "by first order", limit)
        right.set(ylabel="", yticklabels=[])
        _colours(figure, [left, right], limit)
    return [Drawing("interventions-map", "Where a state decides, and where first order says it does",
                    f"First pair of samples of seed {comparison.seeds[0]}: at one face (0: the embedded input) the state of one token of clean is replaced. "
                    "Red: the goal rises, blue: it falls, grey: not run again. Both maps of a row have the same colours; the largest effects are "
                    "as dark as they get." + (" Words: clean ← donor where they differ." if any(one.words for one in shown) else ""),
                    figure, comparison.runs)]


def _summed(comparison: Comparison, model: str, account: str) -> np.ndarray | None:
    """Effects of heads, [cell, head], summed over the tokens at which the model was run again; mean over pairs, of the first seed."""
    exact, values = comparison.measure(model, "head_exact"), comparison.measure(model, f"head_{account}")
    if exact is None or values is None or not _known(exact[0]):
        return None
    there = np.isfinite(exact[0]) & np.isfinite(values[0])
    sums = np.where(there, values[0], 0).sum(axis=-1)
    known = there.any(axis=-1)
    pairs = known.sum(axis=0)
    return np.where(pairs > 0, np.where(known, sums, 0).sum(axis=0) / np.maximum(pairs, 1), np.nan)


def _head_map(axes: Axes, comparison: Comparison, model: str, values: np.ndarray, title: str, limit: float) -> None:
    """Summed effects by head and cell, the first cell at the bottom."""
    cells, heads = values.shape
    axes.pcolormesh(np.arange(heads + 1) + 0.5, np.arange(cells + 1) + 0.5, np.ma.masked_invalid(values), cmap=SIGNED, vmin=-limit, vmax=limit,
                    edgecolors="white", lw=1)
    if max(cells, heads) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                axes.text(column + 1, row + 1, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8,
                          color="white" if abs(value) > 0.6 * limit else INK)
    axes.tick_params(length=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel(axes, title, "head", "layer" if model == "transformer" else "cell")
    axes.grid(False)


def _heads(comparison: Comparison) -> list[Drawing]:
    """Effects of heads, a row for each model: run again, and by first order."""
    shown = [(model, exact) for model in comparison.having("head_exact") if (exact := _summed(comparison, model, "exact")) is not None]
    if not shown:
        return []
    heights = [0.7 + min(max(1.6, 0.26 * len(exact)), 4.0) for _, exact in shown]
    figure = canvas(sum(heights))
    panels = figure.subplots(len(shown), 2, squeeze=False, height_ratios=heights)
    for (left, right), (model, exact) in zip(panels, shown):
        limit, first = _scale(exact), _summed(comparison, model, "first")
        _head_map(left, comparison, model, exact, f"{style_of(model).label}: exact", limit)
        if first is None:
            right.set_axis_off()
        else:
            _head_map(right, comparison, model, first, "by first order", limit)
            right.set_ylabel("")
        _colours(figure, [left, right], limit)
    return [Drawing("interventions-heads", "Which heads decide?",
                    f"The output of one head at one token of clean is replaced; effects are summed over tokens, mean over pairs, of seed "
                    f"{comparison.seeds[0]}: heads of other seeds are others. Red: the goal rises, blue: it falls.", figure, comparison.runs)]


# (c) Steering.

def _tangent(comparison: Comparison, model: str, doses: np.ndarray, axes: Axes) -> None:
    """The slope at dose 0 by the adjoint, through the goal there."""
    slope, goal = comparison.measure(model, "steering_slope"), comparison.numbers(model, "steering_goal").mean(axis=0)
    if slope is None or not _known(slope) or not doses[0] <= 0 <= doses[-1]:
        return
    ends = np.array([doses[0], doses[-1]])
    axes.plot(ends, float(np.interp(0, doses, goal)) + float(np.nanmean(slope)) * ends, ls=":", lw=1.6, color=style_of(model).colour,
              label=f"{style_of(model).label}, slope at 0 by the adjoint", scaley=False)


def _steering(comparison: Comparison) -> list[Drawing]:
    models = _measured(comparison, "steering_goal")
    if not models or "dose" not in comparison.axes:
        return []
    order = np.argsort(comparison.axis("dose"), kind="stable")
    doses = comparison.axis("dose")[order]
    figure = canvas(4.4)
    left, right = figure.subplots(1, 2)
    for axes, name in ((left, "steering_goal"), (right, "steering_reached")):
        for model in models:
            style = style_of(model)
            for measure, line, words, alpha in ((name, "-", style.label, 1.0), (f"{name}_random", "--", f"{style.label}, {RANDOM}", 0.55)):
                values = comparison.measure(model, measure)
                if values is not None and _known(values):
                    over(axes, doses, values[:, order], style._replace(line=line), words, alpha=alpha)
    for model in models:
        _tangent(comparison, model, doses, left)
    for axes in (left, right):
        axes.axvline(0, color=SOFT, lw=0.8)
    right.set_ylim(-0.02, 1.02)
    right.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    panel(left, "Dose and response", "dose", "logit wanted − own")
    panel(right, "Samples that get the wanted class", "dose", "of samples of other classes")
    legend(figure, left, right)
    return [Drawing("interventions-steering", "Can a model be steered to another class?",
                    "At the middle face the difference of two class means, times the dose, is added to all tokens: from the own class of a sample to each "
                    "of the others. Lines are means over seeds, bands one standard deviation; dashed: a random vector of the same norm; dotted: what first "
                    "order promises.", figure, comparison.runs)]


def draw(study: Study) -> list[Drawing]:
    """Draws how well accounts agree with exact effects; none without a file of `interventions`."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else _bars(comparison) + _scatter(comparison)


def draw_places(study: Study) -> list[Drawing]:
    """Draws where effects lie; none where nothing was run again."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else _maps(comparison) + _heads(comparison)


def draw_steering(study: Study) -> list[Drawing]:
    """Draws answers to steering; none where no sample was steered."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else _steering(comparison)


# Tables.

def table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: agreement with exact effects by model, site and account."""
    measures = {"spearman": "Spearman", "pearson": "Pearson", "relative_error": "relative error", "top_share": "of the 10 largest"}
    rows: Rows = [("model", "site", "account", *measures.values())]
    for model in _measured(comparison, "agreement_spearman"):
        for site in _sites(comparison, model):
            for account in _listed(comparison, "account_names"):
                found = [cell(_agreement(comparison, model, site, account, measure)) for measure in measures]
                if set(found) != {"–"}:
                    label = ACCOUNTS[account].label if account in ACCOUNTS else account
                    rows.append((style_of(model).label, SITES.get(site, site), label, *found))
    return rows


def table_places(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: the pairs of the first seed."""
    rows: Rows = [("model", "pair", "clean", "donor", "answers", "tokens", "goal of clean", "goal of donor", "pairs of tokens, Spearman")]
    for model in comparison.having("pair_clean"):
        whole = [comparison.numbers(model, name)[0] if name in comparison.measures[model] else None
                 for name in ("pair_clean", "pair_donor", "pair_length", "value_clean", "value_donor", "pairs_spearman")]
        for pair in range(min(len(comparison.numbers(model, "pair_clean")[0]), MOST_PAIRS)):
            rows.append((style_of(model).label, f"{pair + 1}", *(["–" if one is None else number(one[pair]) for one in whole[:2]]),
                         " ← ".join(_answers(comparison, model, pair)), *("–" if one is None else number(one[pair]) for one in whole[2:])))
    return rows


def table_steering(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: answers to steering by model and dose."""
    columns = {"steering_goal": "logit wanted − own", "steering_goal_random": "the same, random vector", "steering_reached": "got the wanted class",
               "steering_reached_random": "the same, random vector"}
    rows: Rows = [("model", "dose", *columns.values(), "slope at 0")]
    for model in _measured(comparison, "steering_goal"):
        for k, dose in enumerate(comparison.axis("dose")):
            found = [None if (values := comparison.measure(model, name)) is None else values[:, k] for name in columns]
            rows.append((style_of(model).label, number(dose), *map(cell, found), cell(comparison.measure(model, "steering_slope")) if dose == 0 else "–"))
    return rows


CONTROLS = (("at:account=0", "first order"), ("at:account=4", "the adjoint of another pair"))
SECTIONS = (Section(25, "interventions", "What are accounts of an effect worth?", EXPERIMENT, draw, table, controls=CONTROLS),
            Section(26, "interventions-places", "Which states decide?", EXPERIMENT, draw_places, table_places),
            Section(27, "interventions-steering", "Steering", EXPERIMENT, draw_steering, table_steering))
