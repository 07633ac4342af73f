"""Templates: the special words around a text, or around the two texts of a pair, and the segment of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fluxformer.tokenisers.entry import Entry

KINDS = ("TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence")


class Part(NamedTuple):
    """A part of a template: special words, or the first (0) or second (1) text."""

    segment: int
    text: int | None = None
    specials: tuple[int, ...] = ()


class Template(NamedTuple):
    """The parts of a text and of a pair; () if there is no form for pairs."""

    single: tuple[Part, ...]
    pair: tuple[Part, ...]

    def parts(self, pair: bool, specials: bool) -> list[Part]:
        """The parts of a text or pair, with or without special words."""
        return [part for part in (self.pair if pair else self.single) if specials or part.text is not None]


PLAIN = Template((Part(0, 0),), (Part(0, 0), Part(1, 1)))


def template_of(entry: Entry | None, numbers: Mapping[str, int]) -> Template:
    """The template that the entry post_processor of a tokenizer.json describes.

    Parameters
    ----------
    entry : Entry or None
        None: no special words.
    numbers : mapping
        Word -> number, with the added ones.

    Raises
    ------
    RunError
        If it is not read here, or names a special word by another number than the vocabulary.
    """
    if entry is None:
        return PLAIN
    kind = entry.kind(KINDS)
    if kind == "ByteLevel":
        entry.known("type", "add_prefix_space", "trim_offsets", "use_regex")  # which change places in the text only
        return PLAIN
    if kind == "Sequence":
        entry.known("type", "processors")
        found = [one for one in (template_of(part, numbers) for part in entry.parts("processors")) if one != PLAIN]
        if len(found) > 1:
            raise entry.refuse("several of them add special words: not read here", "processors")
        return found[0] if found else PLAIN
    if kind == "TemplateProcessing":
        return _written(entry, numbers)
    entry.known("type", "sep", "cls", "trim_offsets", "add_prefix_space")
    first, last = (Part(0, specials=(_number(entry, name, numbers),)) for name in ("cls", "sep"))
    single = (first, Part(0, 0), last)
    if kind == "RobertaProcessing":
        return Template(single, (*single, last, Part(0, 1), last))
    return Template(single, (*single, Part(1, 1), last._replace(segment=1)))


def _checked(entry: Entry, word: Any, number: Any, numbers: Mapping[str, int]) -> int:
    """The number of a special word, which must be that of the vocabulary."""
    if not isinstance(word, str) or type(number) is not int:
        raise entry.refuse("must hold words and their numbers")
    if numbers.get(word) != number:
        raise entry.refuse(f"{word!r} has the number {number}, but in the vocabulary {numbers.get(word, 'none')}")
    return number


def _number(entry: Entry, name: str, numbers: Mapping[str, int]) -> int:
    """The number of an entry [word, number]."""
    pair = entry.items(name)
    if len(pair) != 2:
        raise entry.refuse("must be a word and its number", name)
    return _checked(entry, pair[0], pair[1], numbers)


def _written(entry: Entry, numbers: Mapping[str, int]) -> Template:
    """The template of the type TemplateProcessing."""
    entry.known("type", "single", "pair", "special_tokens")
    specials: dict[str, tuple[int, ...]] = {}
    table = entry.part("special_tokens") or Entry(entry.path, f"{entry.place}.special_tokens", {})
    names = list(entry.get("special_tokens") or {})
    for name in names:
        one = table.part(name)
        ids, words = (one.items("ids"), one.items("tokens")) if one else ([], [])
        if not ids or len(ids) != len(words):
            raise table.refuse("must have as many ids as tokens", name)
        specials[name] = tuple(_checked(table, word, number, numbers) for word, number in zip(words, ids))

    def part(one: Entry) -> Part:
        special, text = one.part("SpecialToken"), one.part("Sequence")
        inner = special or text
        if inner is None or special and text:
            raise one.refuse("must be a SpecialToken or a Sequence")
        inner.known("id", "type_id")
        name, segment = inner.text("id"), inner.whole("type_id")
        if special:
            if name not in specials:
                raise inner.refuse("is not in special_tokens", "id")
            return Part(segment, specials=specials[name])
        if name not in ("A", "B"):
            raise inner.refuse("must be A or B", "id")
        return Part(segment, "AB".index(name))

    single, pair = (tuple(part(one) for one in entry.parts(name)) for name in ("single", "pair"))
    _complete(entry, "single", single, [0])
    if pair:
        _complete(entry, "pair", pair, [0, 1])
    return Template(single, pair)


def _complete(entry: Entry, name: str, parts: Sequence[Part], texts: list[int]) -> None:
    """RunError unless the parts hold each text once."""
    if sorted(part.text for part in parts if part.text is not None) != texts:
        raise entry.refuse(f"must hold {' and '.join('AB'[one] for one in texts)} once", name)
