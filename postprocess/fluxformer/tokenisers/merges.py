"""Byte-pair encoding: a piece of a text as letters, of which neighbours are merged by rank until no pair of neighbours has one.

The letters are bytes (GPT-2 and what follows it), each of which is written as a letter of its own, or characters, of which those without a
word become bytes (Llama 2).
"""

from __future__ import annotations

import functools
import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from fluxformer.hdf5_file import RunError
from fluxformer.tokenisers.word_pieces import REMEMBERED

# Bytes that are visible letters of Latin-1 stand for themselves, the other 68 for letters from U+0100 on: the blank is Ġ, the line feed Ċ.
VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
LETTERS = {**{byte: chr(byte) for byte in VISIBLE}, **{byte: chr(0x100 + place) for place, byte in enumerate(sorted({*range(256)} - {*VISIBLE}))}}
BYTES = {letter: byte for byte, letter in LETTERS.items()}
BLANK = "\u2581"  # what stands for a blank in the words of Llama 2


def as_letters(text: str) -> str:
    """The bytes of a text in UTF-8, a letter for each."""
    return text.encode("utf-8").decode("latin-1").translate(LETTERS)


def as_bytes(letters: str) -> bytes | None:
    """The bytes that letters stand for; None if one of them stands for no byte."""
    try:
        return bytes(BYTES[letter] for letter in letters)
    except KeyError:
        return None


def byte_word(byte: int) -> str:
    """The word of a byte in a vocabulary of characters: <0xE2>."""
    return f"<0x{byte:02X}>"


class Merges:
    """A model of merged pairs.

    Parameters
    ----------
    numbers : mapping
        Word -> number.
    merges : sequence of (str, str)
        Pairs of words, the first of which has the lowest rank. Both words and the two in one are in the vocabulary.
    byte_level : bool
        True: pieces are bytes.
    unknown : int or None
        Number of the word that stands for a character without a word; None: such a character is refused.
    fuse : bool
        True: one such word for several of these characters one behind the other.
    fallback : bool
        True: they become the words of their bytes instead, if these are there.
    whole_first : bool
        True: a piece that is a word stays, whatever the merges make of it.

    Raises
    ------
    RunError
        If a word of a merge is not in the vocabulary; it says which.
    """

    def __init__(self, numbers: Mapping[str, int], merges: Sequence[tuple[str, str]], *, byte_level: bool = False, unknown: int | None = None,
                 fuse: bool = False, fallback: bool = False, whole_first: bool = False) -> None:
        self._numbers, self._byte_level, self._unknown, self._fuse, self._whole_first = numbers, byte_level, unknown, fuse, whole_first
        fallbacks = [numbers.get(byte_word(byte)) for byte in range(256)]
        self._fallbacks = fallbacks if fallback else [None] * 256
        self._pairs: dict[tuple[int, int], tuple[int, int]] = {}  # pair of numbers: rank, number of both in one
        for rank, (left, right) in enumerate(merges):
            for word in (left, right, left + right):
                if word not in numbers:
                    raise RunError(f"merge {rank} ({left} {right}): {word!r} is not in the vocabulary")
            self._pairs[numbers[left], numbers[right]] = rank, numbers[left + right]
        self._remembered = functools.lru_cache(REMEMBERED)(self._merged)
        # A pair without a merge across it is a place to cut. Where no merge has a blank behind another letter, words can be remembered.
        self.words: Callable[[str], Iterable[int]] = self._remembered
        if not byte_level and not whole_first and BLANK in numbers and not any(re.search(f"[^{BLANK}]{BLANK}", left + right) for left, right in merges):
            self.words = self._by_words

    def _by_words(self, piece: str) -> list[int]:
        """The numbers of the words of a piece that may be cut in front of blanks."""
        return [number for part in re.findall(f"{BLANK}+[^{BLANK}]*|[^{BLANK}]+", piece) for number in self._remembered(part)]

    def _merged(self, piece: str) -> tuple[int, ...]:
        """The numbers of the words of a piece."""
        letters = as_letters(piece) if self._byte_level else piece
        if self._whole_first and letters in self._numbers:
            return (self._numbers[letters],)
        return tuple(self._merge(self._single(letters)))

    def _single(self, letters: str) -> list[int]:
        """The numbers of single letters."""
        found: list[int] = []
        before_unknown = False
        for letter in letters:
            number = self._numbers.get(letter)
            if number is not None:
                found.append(number)
                before_unknown = False
                continue
            several = [self._fallbacks[byte] for byte in letter.encode("utf-8")]
            if None not in several:
                found += [one for one in several if one is not None]
                before_unknown = False
                continue
            if self._unknown is None:
                what = f"byte 0x{BYTES[letter]:02X}" if self._byte_level else f"character {letter!r} (U+{ord(letter):04X})"
                raise RunError(f"the tokeniser has no word for the {what}, and none that stands for unknown ones")
            if not (before_unknown and self._fuse):
                found.append(self._unknown)
            before_unknown = True
        return found

    def _merge(self, numbers: list[int]) -> list[int]:
        """Merges neighbours: the pair of lowest rank, of equal ones the first, until none has a rank.

        A heap holds the pairs, of which some may be gone by the time they are taken out. A word that was merged into the one before it is -1.
        """
        pairs, end = self._pairs, len(numbers)
        following, before = list(range(1, end + 1)), list(range(-1, end - 1))
        heap = [(*pairs[pair], place, *pair) for place, pair in enumerate(zip(numbers, numbers[1:])) if pair in pairs]
        heap = [(rank, place, merged, left, right) for rank, merged, place, left, right in heap]
        heapq.heapify(heap)
        while heap:
            _, place, merged, left, right = heapq.heappop(heap)
            other = following[place]
            if numbers[place] != left or other == end or numbers[other] != right:
                continue
            numbers[place], numbers[other] = merged, -1
            after = following[place] = following[other]
            if after < end:
                before[after] = place
                if (pair := (merged, numbers[after])) in pairs:
                    rank, both = pairs[pair]
                    heapq.heappush(heap, (rank, place, both, *pair))
            if (place := before[place]) >= 0 and (pair := (numbers[place], merged)) in pairs:
                rank, both = pairs[pair]
                heapq.heappush(heap, (rank, place, both, *pair))
        return [number for number in numbers if number >= 0]
