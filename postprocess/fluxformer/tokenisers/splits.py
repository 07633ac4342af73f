r"""Splits of a normalised text into pieces, which a model of words sees one by one.

Patterns are matched on the *shape* of a text, an ASCII character for each (`letters.shape`): letters, numbers and white space of all scripts
then are the ASCII classes of Python's own regular expressions, which have no \p{L} and \p{N}.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

from fluxformer.tokenisers.entry import Entry
from fluxformer.tokenisers.letters import WHITE, LetterTable, is_sign, shape

Split = Callable[[str], list[str]]
KINDS = ("BertPreTokenizer", "ByteLevel", "Split", "Digits", "Sequence")
LETTER, NUMBER = "A-Za-z\u017f", "0-9"
REST = r"|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT2_SHAPE = rf"'(?:[stmd]|re|ve|ll)| ?[{LETTER}]+| ?[{NUMBER}]+| ?[^\s{LETTER}{NUMBER}]+{REST}"
NEWER = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
NEWER_SHAPE = (r"'(?:[sStTmMdD" + "\u017f" + rf"]|[rRvV][eE]|[lL][lL])|[^\r\n{LETTER}{NUMBER}]?[{LETTER}]+|[{NUMBER}]%s"
               rf"| ?[^\s{LETTER}{NUMBER}]+[\r\n]*|\s*[\r\n]+{REST}")
# Published pattern: the same for shapes. Those of GPT-2; Llama 3; Qwen 2.
PATTERNS = {GPT2: GPT2_SHAPE, NEWER % "{1,3}": NEWER_SHAPE % "{1,3}", NEWER % "": NEWER_SHAPE % ""}
SHAPES = LetterTable(shape)


def whole(text: str) -> list[str]:
    """The split that cuts nothing."""
    return [text]


def by_shape(pattern: str) -> Split:
    """The split at the matches of a pattern, which every character of a text belongs to."""
    expression = re.compile(pattern, re.ASCII)

    def cut(text: str) -> list[str]:
        if text.isascii():
            return expression.findall(text)
        return [text[match.start():match.end()] for match in expression.finditer(text.translate(SHAPES))]
    return cut


def bert_split() -> Split:
    """BERT's split: at white space, which is dropped, and around each sign of punctuation."""
    def stands(letter: str) -> str:
        return " " if letter in WHITE else f" {letter} " if is_sign(letter) else letter

    table = LetterTable(stands)
    return lambda text: [piece for piece in text.translate(table).split(" ") if piece]


def in_turn(splits: list[Split]) -> Split:
    """Several splits, each of the pieces of the one before."""
    if len(splits) == 1:
        return splits[0]

    def cut(text: str) -> list[str]:
        pieces = [text]
        for split in splits:
            pieces = [piece for one in pieces for piece in split(one)]
        return pieces
    return cut


def with_blank(split: Split) -> Split:
    """A split of the text with a blank in front, unless it begins with one."""
    return lambda text: split(text if text.startswith(" ") else " " + text)


class Splitting:
    """How a text is cut.

    Attributes
    ----------
    cut : callable
        Text -> pieces.
    byte_level : bool
        True: the model sees the bytes of the pieces.
    adds_blanks : bool
        True: pieces may begin with a blank that is not in the text.
    """

    def __init__(self, entry: Entry | None) -> None:
        """Reads the entry pre_tokenizer of a tokenizer.json; None: nothing is cut. RunError if it is not read here."""
        self.byte_level = self.adds_blanks = False
        self.cut = whole if entry is None else in_turn(self._splits(entry))

    def _splits(self, entry: Entry) -> list[Split]:
        """The splits of an entry, in their order."""
        kind = entry.kind(KINDS)
        if self.byte_level:
            raise entry.refuse("stands behind ByteLevel, where pieces are bytes already: not read here", "type")
        if kind == "Sequence":
            entry.known("type", "pretokenizers")
            return [split for one in entry.parts("pretokenizers") for split in self._splits(one)]
        if kind == "BertPreTokenizer":
            entry.known("type")
            return [bert_split()]
        if kind == "Digits":
            entry.known("type", "individual_digits")
            return [by_shape(f"[{NUMBER}]{'' if entry.flag('individual_digits', False) else '+'}|[^{NUMBER}]+")]
        if kind == "Split":
            return [self._pattern(entry)]
        entry.known("type", "add_prefix_space", "trim_offsets", "use_regex")
        self.byte_level, self.adds_blanks = True, entry.flag("add_prefix_space", True)
        split = by_shape(GPT2_SHAPE) if entry.flag("use_regex", True) else whole
        return [with_blank(split) if self.adds_blanks else split]

    @staticmethod
    def _pattern(entry: Entry) -> Split:
        """The split at a pattern: pieces are its matches, and what is between them unless the file says that it is dropped."""
        entry.known("type", "pattern", "behavior", "invert")
        pattern, behaviour, invert = entry.part("pattern"), entry.text("behavior"), entry.flag("invert", False)
        if (behaviour, invert) not in (("Isolated", False), ("Removed", True)):
            raise entry.refuse("pieces must be the matches of the pattern (Isolated, or Removed with invert)", "behavior")
        if pattern is None or not pattern.has("Regex"):
            raise entry.refuse("must be a regular expression ({\"Regex\": ...})", "pattern")
        written = pattern.text("Regex")
        if written in PATTERNS:
            return by_shape(PATTERNS[written])
        return by_regex(entry, written, gaps=behaviour == "Isolated")


def by_regex(entry: Entry, pattern: str, gaps: bool) -> Split:
    """The split at a pattern of another model, by the package regex. RunError if that is not installed, or the pattern is none of it.

    Parameters
    ----------
    entry : Entry
        Where the pattern stands, for messages.
    pattern : str
    gaps : bool
        True: what lies between two matches is a piece, too.
    """
    try:
        regex: Any = importlib.import_module("regex")
    except ImportError:
        raise entry.refuse("not a pattern of GPT-2, Llama 3 or Qwen 2; others need the package python3-regex", "pattern") from None
    try:
        expression = regex.compile(pattern)
    except regex.error as failure:
        raise entry.refuse(f"no pattern that python3-regex reads ({failure})", "pattern") from None

    def cut(text: str) -> list[str]:
        pieces, end = [], 0
        for match in expression.finditer(text):
            if gaps and end < match.start():
                pieces.append(text[end:match.start()])
            pieces.append(match[0])
            end = match.end()
        return list(filter(None, [*pieces, text[end:] if gaps else ""]))
    return cut
