"""WordPiece: a piece of a text as the longest words of a vocabulary, from its beginning on."""

from __future__ import annotations

import functools
from collections.abc import Mapping

REMEMBERED = 1 << 18  # pieces whose words are kept


class WordPieces:
    """The model of BERT.

    Parameters
    ----------
    numbers : mapping
        Word -> number; words that go on inside of a piece begin with `inside`.
    unknown : int
        Number of the word that stands for a piece with a rest, and for one of more than `most` characters.
    inside : str
        Usually "##".
    most : int
        Usually 100.
    """

    def __init__(self, numbers: Mapping[str, int], unknown: int, inside: str, most: int) -> None:
        self._numbers, self._unknown, self._inside, self._most = numbers, unknown, inside, most
        self._longest = max(map(len, numbers), default=0)
        self.words = functools.lru_cache(REMEMBERED)(self._words)

    def _words(self, piece: str) -> tuple[int, ...]:
        """The numbers of the words of a piece."""
        if len(piece) > self._most:
            return (self._unknown,)
        found, start = [], 0
        while start < len(piece):
            inside = self._inside if start else ""
            for end in range(min(len(piece), start + self._longest), start, -1):
                number = self._numbers.get(inside + piece[start:end])
                if number is not None:
                    break
            else:
                return (self._unknown,)
            found.append(number)
            start = end
        return tuple(found)
