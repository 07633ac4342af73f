"""Texts with a sample per line as numbers of words."""

from __future__ import annotations

from collections.abc import Sequence

from fluxformer.hdf5_file import RunError
from fluxformer.words import read_lines

UNKNOWN = ("<unk>", "[UNK]")


def encode(path: str, words: Sequence[str], first: str | None = None, last: str | None = None,
           length: int | None = None) -> tuple[list[list[int]], int]:
    """The lines of a text as numbers of words.

    Parameters
    ----------
    path : str
        A sample per line, words between spaces.
    words : sequence of str
        The vocabulary.
    first, last : str or None
        Words to put at the beginning and the end of each sample.
    length : int or None
        Samples are cut to so many tokens; `last` stays.

    Returns
    -------
    samples : list of list of int
    unknown : int
        How many words are not in the vocabulary.
    """
    numbers = {word: number for number, word in enumerate(words)}
    for word in filter(None, (first, last)):
        if word not in numbers:
            raise RunError(f"{word!r} is not in the vocabulary")
    instead = next((numbers[word] for word in UNKNOWN if word in numbers), None)
    begin, end = ([numbers[word]] if word else [] for word in (first, last))
    samples, unknown = [], 0
    for place, line in enumerate(read_lines(path), start=1):
        sample = []
        for word in line.split():
            number = numbers.get(word, instead)
            if number is None:
                raise RunError(f"{path}: {word!r} (line {place}) is not in the vocabulary, which has no {' or '.join(UNKNOWN)} either")
            unknown += word not in numbers
            sample.append(number)
        inside = sample if length is None else sample[:max(0, length - len(begin) - len(end))]
        if not (sample := [*begin, *inside, *end]):
            raise RunError(f"{path}: line {place} has no words: a sample has at least one")
        samples.append(sample)
    return samples, unknown


def read_labels(paths: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """The classes of each file, and their names if they have some."""
    lines = [[line.strip() for line in read_lines(path)] for path in paths]
    for path, words in zip(paths, lines):
        if "" in words:
            raise RunError(f"{path}: line {words.index('') + 1} is empty: a label per line")
    if all(word.isdecimal() and len(word) < 10 for words in lines for word in words):
        return [[int(word) for word in words] for words in lines], []
    names = sorted({word for words in lines for word in words})
    return [[names.index(word) for word in words] for words in lines], names
