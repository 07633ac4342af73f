"""The tables of a page that `fluxformer report` wrote, as text, and reports without figures, which take most of the time."""

import contextlib
from collections import namedtuple
from html.parser import HTMLParser
from unittest import mock

Cell = namedtuple("Cell", "text links")           # lines of text with \n between them; targets of links
Table = namedtuple("Table", "kind section data rows")  # its class; the headings above it; rows of cells
BREAKS = {"br", "p", "li"}


class PageReader(HTMLParser):
    """Reads all tables; `ids` are the targets that links may have, with the text of list entries."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.ids = [], {}
        self._headings, self._heading = {"h2": "", "h3": ""}, None
        self._text, self._links, self._entry = None, [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        if tag in self._headings:
            self._heading = tag
            self._headings[tag] = ""
            if tag == "h2":
                self._headings["h3"] = ""
        elif tag == "table":
            self.tables.append(Table(facts.get("class", ""), self._headings["h2"], self._headings["h3"], []))
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("td", "th"):
            self._text, self._links = "", []
        elif tag == "a" and self._text is not None:
            self._links.append(facts["href"])
        elif tag in BREAKS and self._text is not None:
            self._text += "\n"
        if "id" in facts:
            self._entry = facts["id"]
            self.ids[self._entry] = ""

    def handle_data(self, data):
        if self._heading:
            self._headings[self._heading] += data
        if self._text is not None:
            self._text += data
        if self._entry:
            self.ids[self._entry] += data

    def handle_endtag(self, tag):
        if tag == self._heading:
            self._heading = None
        elif tag in ("td", "th"):
            self.tables[-1].rows[-1].append(Cell(self._text.strip(), self._links))
            self._text = None
        elif tag == "li":
            self._entry = None


def without_figures():
    """A context in which the report draws nothing."""
    from fluxformer.report import chapter
    return mock.patch.object(chapter, "SECTIONS", [one._replace(draw=lambda _: [], table=None) for one in chapter.SECTIONS])


@contextlib.contextmanager
def without_rendering():
    """A context in which the report makes its figures, but neither writes them out nor lays them out, which takes most of its time: for what stands
    beside them. report_test.py has them written."""
    from fluxformer.report import page, paper
    with mock.patch.object(page, "as_svg", lambda _: "<svg></svg>"), mock.patch.object(paper, "add_page", lambda _, drawing: paper.plt.close(drawing.figure)):
        yield
