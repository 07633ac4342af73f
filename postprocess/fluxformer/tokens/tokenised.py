"""Samples of a text as a published tokeniser cuts them into words."""

from __future__ import annotations

from typing import NamedTuple

from fluxformer.hdf5_file import RunError
from fluxformer.tokenisers import Tokeniser
from fluxformer.tokens.padding import is_padding
from fluxformer.tokens.unknown_words import HALF
from fluxformer.words import read_texts


class Tokenised(NamedTuple):
    """The samples of a text.

    Attributes
    ----------
    ids, segments, sizes : list of list of int
        Of each sample the numbers of its words, their segments, and the bytes that each stands for (empty if the tokeniser is not of bytes).
    notes : list of str
        What a reader should know.
    """
    ids: list[list[int]]
    segments: list[list[int]]
    sizes: list[list[int]]
    notes: list[str]


def tokenise(path: str, tokeniser: Tokeniser, *, specials: bool = True, allow_specials: bool = True, length: int | None = None) -> Tokenised:
    """Cuts the lines of a text into words: a sample per line, a tab between the two texts of a pair.

    Parameters
    ----------
    path : str
        The text, in UTF-8.
    tokeniser : Tokeniser
    specials : bool
        True: with the special words that the tokeniser puts around a sample.
    allow_specials : bool
        False: a text that holds a special word is refused.
    length : int or None
        Number of tokens to which samples are cut.

    Raises
    ------
    RunError
        If the text cannot be read, a line has no words or more than one tab, holds a word for padding, or a special word that is not allowed.
    """
    found = Tokenised([], [], [], [])
    for place, line in enumerate(read_texts(path), start=1):
        here = f"{path}: line {place}"
        texts = line.split("\t")
        if len(texts) > 2:
            raise RunError(f"{here} has {len(texts) - 1} tabs: a tab stands between the two texts of a pair")
        try:
            one = tokeniser.encode(*texts, specials=specials, length=length)
        except RunError as failure:
            raise RunError(f"{here}: {failure}") from None
        for word in one.found:
            if is_padding(word.text):
                raise RunError(f"{here} holds {word.text!r}: lines need no padding, the file says how long each sample is")
            if word.special and not allow_specials:
                raise RunError(f"{here} holds {word.text!r}, which is a special word of the tokeniser, not a text (--no-specials)")
        if not one.ids:
            raise RunError(f"{here} has no words: a sample has at least one")
        found.ids.append(one.ids)
        found.segments.append(one.segments)
        found.sizes.append(one.sizes)
    if note := _unknown(path, tokeniser, found.ids):
        found.notes.append(note)
    return found


def _unknown(path: str, tokeniser: Tokeniser, samples: list[list[int]]) -> str:
    """How many tokens are the unknown word, a warning if most are; "" for none."""
    unknown = 0 if tokeniser.unknown is None else sum(sample.count(tokeniser.unknown) for sample in samples)
    around = set(tokeniser.specials) - {tokeniser.unknown}
    total = sum(number not in around for sample in samples for number in sample)
    if tokeniser.unknown is None or unknown == 0:
        return ""
    said = f"{path}: {unknown} of {total} tokens ({100 * unknown / total:.3g} %) are {tokeniser.words[tokeniser.unknown]}, the unknown word"
    return f"warning: {said}: do text and tokeniser belong together?" if unknown > HALF * total else said
