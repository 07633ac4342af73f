"""Normalisers: what happens to a text before it is cut into pieces."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal

from fluxformer.tokenisers.entry import Entry
from fluxformer.tokenisers.letters import WHITE, LetterTable, is_chinese

Normaliser = Callable[[str], str]
FORMS: dict[str, Literal["NFC", "NFD", "NFKC", "NFKD"]] = {"NFC": "NFC", "NFD": "NFD", "NFKC": "NFKC", "NFKD": "NFKD"}
KINDS = ("BertNormalizer", *FORMS, "Lowercase", "Prepend", "Replace", "Sequence")


def unchanged(text: str) -> str:
    """The normaliser that does nothing."""
    return text


def lower_case(letter: str) -> str:
    """A letter in lower case, whatever its neighbours: the last sigma of a word is the same as any."""
    return letter.lower()


class BertNormaliser:
    """BERT's: control characters are dropped, white space becomes blanks, Chinese characters get blanks around them, accents are dropped,
    letters are made small, in this order.

    Parameters
    ----------
    clean : bool
        Drop U+0000, U+FFFD and the categories Cc, Cf, Co (unassigned characters stay); white space becomes blanks.
    chinese : bool
        Blanks around Chinese characters.
    strip : bool
        Decompose (NFD) and drop nonspacing marks (Mn).
    lower : bool
        Make letters small, one by one.
    """

    def __init__(self, *, clean: bool, chinese: bool, strip: bool, lower: bool) -> None:
        def first(letter: str) -> str:
            if clean:
                if letter in "\0\ufffd" or letter not in "\t\n\r" and unicodedata.category(letter) in ("Cc", "Cf", "Co"):
                    return ""
                if letter in WHITE:
                    return " "
            return f" {letter} " if chinese and is_chinese(letter) else letter

        def second(letter: str) -> str:
            if strip and unicodedata.category(letter) == "Mn":
                return ""
            return lower_case(letter) if lower else letter

        self._strip, self._more = strip, strip or lower
        self._first, self._second = LetterTable(first), LetterTable(second)

    def __call__(self, text: str) -> str:
        text = text.translate(self._first)
        if self._strip:
            text = unicodedata.normalize("NFD", text)
        return text.translate(self._second) if self._more else text


def normaliser_of(entry: Entry | None) -> Normaliser:
    """The normaliser that an entry of a tokenizer.json describes; the one that does nothing for None. RunError if it is not read here."""
    if entry is None:
        return unchanged
    kind = entry.kind(KINDS)
    if kind in FORMS:
        entry.known("type")
        return lambda text: unicodedata.normalize(FORMS[kind], text)
    if kind == "BertNormalizer":
        entry.known("type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
        lower = entry.flag("lowercase", True)
        return BertNormaliser(clean=entry.flag("clean_text", True), chinese=entry.flag("handle_chinese_chars", True),
                              strip=entry.flag("strip_accents", lower), lower=lower)
    if kind == "Lowercase":
        entry.known("type")
        table = LetterTable(lower_case)
        return lambda text: text.translate(table)
    if kind == "Prepend":
        entry.known("type", "prepend")
        front = entry.text("prepend")
        return lambda text: front + text if text else text
    if kind == "Replace":
        return replacement_of(entry)
    entry.known("type", "normalizers")
    steps = [normaliser_of(one) for one in entry.parts("normalizers")]

    def in_turn(text: str) -> str:
        for step in steps:
            text = step(text)
        return text
    return in_turn


def replacement_of(entry: Entry) -> Normaliser:
    """What an entry of the type Replace does, in normalisers and decoders: one text for another. RunError if its pattern is no plain text."""
    entry.known("type", "pattern", "content")
    pattern, content = entry.part("pattern"), entry.text("content")
    if pattern is None or not pattern.has("String") or not pattern.text("String"):
        raise entry.refuse("only a text ({\"String\": ...}) is replaced here", "pattern")
    old = pattern.text("String")
    return lambda text: text.replace(old, content)
