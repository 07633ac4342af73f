"""What the figures of the comparison report share: their size, the look of models, hover texts, SVG for the page and PDF for print."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter
from numpy.typing import ArrayLike

from fluxformer.io import Run
from fluxformer.style import SOFT, plain_numbers, plt  # chooses a back end that needs no display
from fluxformer.report.data import MODELS, Comparison, Style, number, spread
from fluxformer.report.origins import origins

WIDTH = 10.8  # inches of every figure; at 10 points its text is as large as that of the page
PAPER = (11.69, 8.27)  # A4 landscape, inches
LEGEND = 0.32  # inches of a line of labels below the panels
LETTERS = 150  # letters that fit into a line of labels
HEAT = plt.get_cmap("viridis")

plt.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "fluxformer", "figure.max_open_warning": 0})


class Drawing(NamedTuple):
    """One figure of the report: what it shows, how to read it, and the runs it was made from."""
    name: str
    title: str
    sentence: str
    figure: Figure  # made by `canvas`
    runs: list[Run]


def canvas(height: float) -> Figure:
    """An empty figure of the width of the page; `height` in inches."""
    figure = plt.figure(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08)
    figure.height, figure.tips, figure.strip, figure.laid_out = height, {}, 0.0, False
    return figure


def style_of(model: str) -> Style:
    """The look of a model; grey if it is not one of MODELS."""
    return MODELS.get(model, Style(model.replace("_", " "), SOFT, "o", "-"))


def name_row(axes: Axes, model: str, away: float = 10) -> None:
    """Writes the name of a model to the left of its row of pictures, `away` points from the first."""
    axes.annotate(style_of(model).label.replace(", ", ",\n"), (0, 0.5), xycoords="axes fraction", xytext=(-away, 0),
                  textcoords="offset points", ha="right", va="center", fontweight="bold", color=style_of(model).colour)


def tips(axes: Axes, line: Line2D, texts: Sequence[str]) -> None:
    """Gives every marker of a line a hover text."""
    points = np.column_stack(line.get_data()).astype(float)
    kept = [text for text, point in zip(texts, points) if np.isfinite(point).all()]
    if line.get_marker() not in ("", "None", None) and len(kept) <= 200:
        gid = f"tip{len(axes.figure.tips)}"
        line.set_gid(gid)
        axes.figure.tips[gid] = kept


def over(axes: Axes, place: ArrayLike, values: ArrayLike, style: Style, label: str | None = None, texts: Sequence[str] | None = None,
         markers: bool = True, alpha: float = 1.0) -> Line2D:
    """Draws the mean over seeds as a line, one standard deviation to either side as a band.

    Parameters
    ----------
    place : array_like, shape (places,)
    values : array_like, shape (seeds, places)
    label : str, optional
        Label in the legend; without one the line is not in it.
    texts : sequence of str, optional
        Hover texts of the markers (default: the numbers).
    """
    values, place = np.atleast_2d(np.asarray(values, dtype=float)), np.asarray(place, dtype=float)
    mean, deviation = values.mean(axis=0), spread(values)
    if np.isfinite(deviation).any():
        low = mean - deviation
        if axes.get_yscale() == "log":  # a band that reaches zero has no end on such an axis
            low = np.maximum(low, values.min(axis=0) / 2)
        axes.fill_between(place, low, mean + deviation, color=style.colour, alpha=0.15 * alpha, lw=0)
    line, = axes.plot(place, mean, style.line, color=style.colour, marker=style.marker if markers else "", ms=4.5, lw=1.8,
                      alpha=alpha, mec="white", mew=0.6, label=label)
    name = label or style.label
    tips(axes, line, texts or [f"{name}: {number(m)}" + (f" ± {number(d)}" if np.isfinite(d) else "") + f" at {x:g}"
                               for x, m, d in zip(place, mean, deviation)])
    return line


def bars(axes: Axes, comparison: Comparison, name: str, models: list[str]) -> None:
    """Draws one number per seed as a bar for each model: mean, standard deviation and the seeds themselves."""
    for place, model in enumerate(models):
        values, style = comparison.numbers(model, name).ravel(), style_of(model)
        axes.plot(place + np.linspace(-0.18, 0.18, len(values)), values, "o", color=style.colour, ms=3.5, alpha=0.45, mew=0)
        deviation = float(spread(values))
        if np.isfinite(deviation):
            axes.errorbar(place, values.mean(), deviation, color=style.colour, capsize=4, lw=1.6)
        line, = axes.plot([place], [values.mean()], style.marker, color=style.colour, ms=8, mec="white", label=style.label)
        tips(axes, line, [f"{style.label}: {number(values.mean())}" + (f" ± {number(deviation)}" if np.isfinite(deviation) else "")])
    axes.set(xticks=[], xlim=(-0.6, len(models) - 0.4), ylim=(0, None))


def panel(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Sets title, axis labels, ticks and horizontal grid lines of a panel whose scale is set."""
    axes.set_title(title, fontsize=10.5)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if axes.get_yscale() == "log":
        _tick_decades(axes)
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)


def _tick_decades(axes: Axes) -> None:
    """Writes plain numbers on a logarithmic axis, as many as fit."""
    low, high = axes.get_ylim()
    decades = np.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,)))
    axes.yaxis.set_major_formatter(plain_numbers if decades < 5 else LogFormatterSciNotation())
    axes.yaxis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, *axes: Axes) -> None:
    """Draws one legend below all panels with the labels of these axes, each once."""
    handles: dict[str, Line2D] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    if not handles:
        return
    fits = max(1, int(LETTERS // (max(map(len, handles)) + 8)))
    rows = -(-len(handles) // fits)
    figure.strip = LEGEND + 0.2 * (rows - 1)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=-(-len(handles) // rows), handlelength=2.6,
                  columnspacing=1.8, borderaxespad=0.2)


def _lay_out(figure: Figure) -> None:
    """Finds the places of panels and legend, once."""
    if figure.laid_out:
        return
    strip = figure.strip / figure.height
    figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
    for one in figure.legends:
        one.set_bbox_to_anchor((0, 0, 1, strip), figure.transFigure)
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)  # with one, even "none", savefig draws everything twice
    figure.laid_out = True


def _move(figure: Figure, paper: tuple[float, float], left: float, bottom: float, height: float) -> None:
    """Puts a figure as it is onto a larger sheet of paper (inches), lower if it has to be."""
    place = lambda x, y, w, h: ((left + x * WIDTH) / paper[0], (bottom + y * height) / paper[1],  # noqa: E731
                                w * WIDTH / paper[0], h * height / paper[1])
    for axes in figure.axes:
        axes.set_position(place(*axes.get_position(original=True).bounds))
    for one in figure.legends:
        one.set_bbox_to_anchor(place(0, 0, 1, figure.strip / figure.height), figure.transFigure)
    figure.set_size_inches(*paper)


def as_svg(drawing: Drawing) -> str:
    """The figure as an <svg> element for a page: no reference to the outside, ids of its own, hover texts at the markers."""
    figure = drawing.figure
    _lay_out(figure)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg"):], flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r'(<image [^>]*?)\bid="[^"]*"', r"\1", text)  # the same for the same pixels
    for gid, texts in figure.tips.items():
        text = _with_tips(text, gid, texts)
    text = re.sub(r'\bid="', f'id="{drawing.name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{drawing.name}-", text)
    title = escape(f"{drawing.title}. {drawing.sentence}", quote=True)
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{title}">', text, count=1)


def _with_tips(text: str, gid: str, texts: Sequence[str]) -> str:
    """Gives the n-th marker of the line `gid` the n-th text."""
    start = text.find(f'<g id="{gid}">')
    head, tail = text[:start], text[start:]
    place, parts = 0, []
    for one in texts:
        found = re.compile(r"<use ([^>]*)/>").search(tail, place)
        if start < 0 or not found:
            break
        parts += [tail[place:found.start()], f"<use {found[1]}><title>{escape(one)}</title></use>"]
        place = found.end()
    return head + "".join(parts) + tail[place:]


def write(drawing: Drawing, path: str) -> str:
    """Writes the figure alone as path.png and path.pdf, with its sources at the foot; returns the first path."""
    figure = drawing.figure
    _lay_out(figure)
    sources = [part for line in origins(drawing.runs) for part in textwrap.wrap(line, 190)]
    foot = 0.16 + 0.13 * len(sources)
    paper = (WIDTH, figure.height + foot)
    _move(figure, paper, 0, foot, figure.height)
    figure.text(0.1 / paper[0], 0.08 / paper[1], "\n".join(sources), fontsize=7, color=SOFT, va="bottom", parse_math=False)
    figure.savefig(path + ".png", dpi=150)
    figure.savefig(path + ".pdf", metadata={"CreationDate": None})
    plt.close(figure)
    return path + ".png"


def add_page(pdf: PdfPages, drawing: Drawing) -> None:
    """Adds a page with the figure alone, its title, how to read it, and where it comes from."""
    figure = drawing.figure
    _lay_out(figure)
    sources = [part for line in origins(drawing.runs) for part in textwrap.wrap(line, 230)]
    top = 0.4
    title = textwrap.fill(drawing.title, 88)
    figure.text(0.45 / PAPER[0], 1 - top / PAPER[1], title, fontsize=14, fontweight="bold", va="top")
    top += 0.24 * title.count("\n")
    sentence = textwrap.fill(drawing.sentence, 150)
    figure.text(0.45 / PAPER[0], 1 - (top + 0.3) / PAPER[1], sentence, fontsize=9.5, color=SOFT, va="top", linespacing=1.3)
    top += 0.5 + 0.19 * (1 + sentence.count("\n"))
    foot = 0.3 + 0.13 * len(sources)
    figure.text(0.45 / PAPER[0], 0.25 / PAPER[1], "\n".join(sources), fontsize=7, color=SOFT, va="bottom", parse_math=False)
    height = min(figure.height, PAPER[1] - top - foot)
    _move(figure, PAPER, 0.4, PAPER[1] - top - height, height)
    pdf.savefig(figure)
    plt.close(figure)
