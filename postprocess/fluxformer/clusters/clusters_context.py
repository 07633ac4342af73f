"""Tokens of one cosine in long contexts: what a layer makes of them, and how long they take to gather, over beta / log n."""

from __future__ import annotations

import numpy as np

from fluxformer.clusters.shared import CURVES, GROUP
from fluxformer.report.data import Comparison, Study
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import INK, SOFT

EXPERIMENT = "clusters_context"


def _count(tokens: float) -> str:
    """A number of tokens: "64", "10⁶"."""
    power = int(round(np.log10(tokens)))
    return f"10{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}" if tokens >= 1000 and tokens == 10.0**power else f"{tokens:g}"


def draw(study: Study) -> list[Drawing]:
    """Draws the cosine behind a layer over c and rho, and over c for each number of tokens beside the times; none without a file of
    `clusters_context`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    contexts, scalings, cosines = (comparison.axis(name) for name in ("context", "scaling", "cosine"))
    bare, of_tokens, times = (comparison.numbers(GROUP, name)[0] for name in ("bare_layer_cosine", "bare_layer_cosine_tokens", "gathering_time"))
    along, most, middle = np.argsort(scalings), int(contexts.argmax()), len(cosines) // 2
    figure = canvas(3.8)
    left, centre, right = figure.subplots(1, 3)
    if len(scalings) > 1 and len(cosines) > 1:
        order = np.argsort(cosines)
        shown = left.pcolormesh(scalings[along], cosines[order], bare[most][along][:, order].T, cmap="cividis", vmin=0, vmax=1, shading="nearest")
        figure.colorbar(shown, ax=left, label="cosine behind the layer")
        rho = np.linspace(cosines.min(), cosines.max(), 200)
        line = 1 / (1 - rho)
        left.plot(line[line <= scalings.max()], rho[line <= scalings.max()], color="white", lw=1.6)
    panel(left, f"A layer, n = {_count(contexts[most])}", "c = β / log n", "cosine ρ in front of it")
    for k in range(len(contexts)):
        colour = CURVES[k % len(CURVES)]
        centre.plot(scalings[along], bare[k][along, middle], color=colour, lw=1.4, label=f"n = {_count(contexts[k])}")
        if np.isfinite(of_tokens[k]).any():
            centre.plot(scalings[along], of_tokens[k][along, middle], color=colour, marker="o", ms=4, ls="", label=f"layer, n = {_count(contexts[k])}")
        right.plot(scalings[along], times[k][along, middle], color=colour, lw=1.4)
    for axes in (centre, right):
        axes.axvline(1 / (1 - cosines[middle]), color=SOFT, ls=":", lw=1.2)
    centre.axhline(cosines[middle], color=INK, lw=0.8)
    panel(centre, f"A layer, ρ = {cosines[middle]:g}", "c = β / log n", "cosine behind the layer")
    right.set_yscale("log")
    panel(right, f"Time to cosine {comparison.facts()['until']:g}", "c = β / log n", "time")
    legend(figure, centre, right)
    return [Drawing("clusters-context", "Does attention cluster tokens in long contexts?",
                    "Tokens that all have the same cosine ρ with each other, behind one layer of attention without residual connection (left, centre) and "
                    "in time (right). White and dotted: c = 1/(1 − ρ), where tokens with ρ > 0 cease to hear each other in long contexts. Lines: closed "
                    "forms; dots: the program's layer.", figure, comparison.runs)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: for each number of tokens the cosine behind a layer at the c nearest to critical, and times."""
    contexts, scalings, cosines = (comparison.axis(name) for name in ("context", "scaling", "cosine"))
    bare, times = (comparison.numbers(GROUP, name)[0] for name in ("bare_layer_cosine", "gathering_time"))
    middle = len(cosines) // 2
    rows: list[tuple[str, ...]] = [("tokens", "c", f"cosine behind a layer, from {cosines[middle]:g}", "time")]
    for k, tokens in enumerate(contexts):
        for c in sorted({int(abs(scalings - factor / (1 - cosines[middle])).argmin()) for factor in (0.5, 1, 1.5)}, key=lambda at: scalings[at]):
            rows.append((_count(tokens), f"{scalings[c]:g}", f"{bare[k, c, middle]:.6f}", f"{times[k, c, middle]:.6g}"))
    return rows


SECTIONS = (Section(22, "clusters-context", "Does attention cluster tokens in long contexts?", EXPERIMENT, draw, table),)
