"""Texts and vocabularies that do not fit each other: vocabularies of pieces of words, and texts whose words are mostly unknown."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from fluxformer.hdf5_file import RunError

UNKNOWN = ("<unk>", "[UNK]")
HALF = 0.5  # share of unknown words above which a text does not fit
INSIDE = re.compile(r"##\w.*|\w.*@@", re.DOTALL)  # pieces beside which whole words stand as they are
# What carries the mark of a tokeniser, and how many words of a vocabulary may: words of Maltese begin with Ġ, headings with ##.
MARKS: dict[str, tuple[Callable[[str], object], float]] = {
    "Ġ": (lambda word: word.startswith("Ġ"), 0.02), "▁": (lambda word: word.startswith("▁"), 0.0),
    "</w>": (lambda word: word.endswith("</w>"), 0.0), "##": (lambda word: word.startswith("##") and INSIDE.fullmatch(word), 0.02)}
TOKENISER = ("give --tokenizer the files of its tokeniser (tokenizer.json, vocab.txt, or vocab.json merges.txt), or what another tokeniser made of the "
             "text as an .npz or to write_token_file")


def refuse_marked_pieces(path: str, words: Sequence[str]) -> None:
    """RunError if the words of the vocabulary `path` carry the mark of a blank, or of the inside of a word: then words between spaces would
    become other pieces than the tokeniser makes of them."""
    for mark, (carries, share) in MARKS.items():
        pieces = [word for word in words if carries(word)]
        if len(pieces) > share * len(words):
            raise RunError(f"{path}: {len(pieces)} of its {len(words)} words have the mark {mark} of a tokeniser ({pieces[0]}): it has pieces of words, and "
                           f"words between spaces would become other pieces; {TOKENISER}")


def about_unknown(path: str, words: Sequence[str], total: int, unknown: Counter[str]) -> str:
    """What to say of the unknown words of a text.

    Parameters
    ----------
    path : str
        The text, for messages.
    words : sequence of str
        The vocabulary.
    total : int
        Number of words of the text.
    unknown : Counter
        How often each word occurs that is not in the vocabulary.

    Returns
    -------
    str
        A sentence with their share, the most frequent ones and what may be the reason; a warning if they are more than half, or if the
        vocabulary has pieces of words; "" if there are none.

    Raises
    ------
    RunError
        If they are more than half and the vocabulary has pieces of words.
    """
    missing = unknown.total()
    if not missing:
        return ""
    most = ", ".join(f"{word!r} ({count})" for word, count in unknown.most_common(5))
    said = (f"{path}: {missing} of {total} words ({100 * missing / total:.3g} %) are not in the vocabulary and become unknown, most often {most}"
            f"{''.join(f'; {one}' for one in _guesses(words, unknown))}")
    piece = next(filter(INSIDE.fullmatch, words), None)
    if piece is not None:
        said += (f"; the vocabulary has pieces of words ({piece}), into which its tokeniser cuts words: {TOKENISER}")
    if missing > HALF * total and piece is not None:
        raise RunError(said)
    return f"warning: {said}" if missing > HALF * total or piece is not None else said


def _guesses(words: Sequence[str], unknown: Counter[str]) -> list[str]:
    """Why most of the unknown words are not in the vocabulary."""
    small = {word.lower() for word in words}
    found = []
    if _most(unknown, lambda word: word.lower() in small):
        capitals = any(word != word.lower() for word in words if not _special(word))
        found.append("most are there in other letters, small or capital" if capitals else "the vocabulary is lower-case: write the text in small letters")
    signs = string.punctuation + "«»„“”‘’‚…–—¿¡"
    if _most(unknown, lambda word: word != word.strip(signs) and word.strip(signs).lower() in small):
        found.append("punctuation hangs on most of them: put a space before it")
    return found


def _most(unknown: Counter[str], holds: Callable[[str], bool]) -> bool:
    """True if `holds` is true of more than half of the unknown words."""
    return sum(count for word, count in unknown.items() if holds(word)) > HALF * unknown.total()


def _special(word: str) -> bool:
    """True for words like [CLS] and <s>, which stand for no word of a text."""
    return re.fullmatch(r"\[\w+\]|<\S+>", word) is not None


def unknown_note(place: str, ids: np.ndarray, lengths: np.ndarray | None, words: Sequence[str]) -> str:
    """A warning if more than half of the words of samples are the unknown one; else "".

    Parameters
    ----------
    place : str
        What stands in front of "ids" in the warning.
    ids : array of whole numbers
        Samples [sample, token].
    lengths : array of whole numbers, or None
        Number of real tokens, [sample] (default: all).
    words : sequence of str
        The vocabulary; words like [CLS] do not count.
    """
    unknown = [number for number, word in enumerate(words) if word in UNKNOWN]
    special = [number for number, word in enumerate(words) if _special(word) and word not in UNKNOWN]
    real = np.full(ids.shape, True) if lengths is None else np.arange(ids.shape[1]) < lengths[:, None]
    counted, missing = int((real & ~np.isin(ids, special)).sum()), int((real & np.isin(ids, unknown)).sum())
    if missing <= HALF * counted:
        return ""
    return f"{place}ids: {missing} of {counted} words are the unknown one: do the words and the tokeniser belong together?"
