"""A tokeniser: the steps between a text and the numbers of its words, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from fluxformer.hdf5_file import RunError
from fluxformer.tokenisers.added_words import AddedWord, AddedWords
from fluxformer.tokenisers.decoders import Decoder
from fluxformer.tokenisers.merges import LETTERS
from fluxformer.tokenisers.normalisers import Normaliser, unchanged
from fluxformer.tokenisers.splits import Splitting
from fluxformer.tokenisers.templates import Template


class Model(Protocol):
    """Makes words of a piece."""

    @property
    def words(self) -> Callable[[str], Iterable[int]]:
        """Piece -> numbers of its words."""


class Encoding(NamedTuple):
    """A text, or the two texts of a pair, as words.

    Attributes
    ----------
    ids : list of int
        Numbers of the words, [token].
    segments : list of int
        Segment of each, from 0, [token].
    sizes : list of int
        Bytes of the normalised text that each stands for, 0 for special words around it, [token]; empty if the tokeniser is not of bytes.
    found : list of AddedWord
        Added words that stand in the text itself.
    """
    ids: list[int]
    segments: list[int]
    sizes: list[int]
    found: list[AddedWord]


class Tokeniser:
    """Numbers of words for texts, and back.

    Parameters
    ----------
    words : sequence of str
        All words in the order of their numbers, with the added ones.
    added : sequence of AddedWord
    normalise : callable
        Text -> normalised text.
    splitting : Splitting
        How it is cut into pieces.
    model : Model
        Makes words of a piece.
    template : Template
        Special words around a text.
    decoder : callable
        Makes the decoder when it is first needed; RunError if it cannot be read.
    unknown : int or None
        Number of the word for unknown ones.
    notes : sequence of str
        What whoever uses the tokeniser should know of its files.
    """

    def __init__(self, words: Sequence[str], added: Sequence[AddedWord], normalise: Normaliser, splitting: Splitting, model: Model,
                 template: Template, decoder: Callable[[], Decoder], unknown: int | None = None, notes: Sequence[str] = ()) -> None:
        self.words, self.unknown, self.notes = list(words), unknown, list(notes)
        self.specials = sorted(word.number for word in added if word.special)
        known = set(words)
        self.byte_level = splitting.byte_level and all(letter in known for letter in LETTERS.values())
        self._raw = AddedWords([word for word in added if not word.normalised], unchanged)
        self._normalised = AddedWords([word for word in added if word.normalised], normalise)
        self._normalise, self._splitting, self._model, self._template = normalise, splitting, model, template
        self._sizes = [len(word) for word in words]
        self._make_decoder = decoder
        self._decoder: Decoder | None = None

    def encode(self, text: str, pair: str | None = None, *, specials: bool = True, length: int | None = None) -> Encoding:
        """Turns a text, or a pair of texts, into words.

        Parameters
        ----------
        text, pair : str
        specials : bool
            True: with the special words around it that the tokeniser's files say.
        length : int or None
            Most tokens, with special words: of a pair the longer text is cut first.

        Raises
        ------
        RunError
            If a character has no word, the tokeniser has no form for pairs, or `length` leaves no token beside its special words.
        """
        parts = self._template.parts(pair is not None, specials)
        if not parts:
            raise RunError("the tokeniser has no form for pairs of texts")
        bodies = [self._body(one) for one in (text, *([] if pair is None else [pair]))]
        if length is not None:
            most = length - sum(len(part.specials) for part in parts)
            if most < 1:
                raise RunError(f"a length of {length} leaves no token for a text")
            bodies = [(ids[:cut], sizes[:cut], found) for (ids, sizes, found), cut in zip(bodies, _shares([len(one[0]) for one in bodies], most))]
        ids: list[int] = []
        segments: list[int] = []
        sizes: list[int] = []
        for part in parts:
            of_text, bytes_of_text = (part.specials, [0] * len(part.specials)) if part.text is None else bodies[part.text][:2]
            ids += of_text
            segments += [part.segment] * len(of_text)
            sizes += bytes_of_text
        return Encoding(ids, segments, sizes if self.byte_level else [], [word for body in bodies for word in body[2]])

    def decode(self, ids: Iterable[int], *, specials: bool = False) -> str:
        """The text of words; without special ones unless they are asked for. RunError if there is no word of a number, or the decoder of the
        tokeniser's file is not read here."""
        if self._decoder is None:
            self._decoder = self._make_decoder()
        left_out = set() if specials else set(self.specials)
        words = []
        for number in ids:
            if not 0 <= number < len(self.words):
                raise RunError(f"the tokeniser has no word {number}: its last one is {len(self.words) - 1}")
            if number not in left_out:
                words.append(self.words[number])
        return "".join(self._decoder(words))

    def _body(self, text: str) -> tuple[list[int], list[int], list[AddedWord]]:
        """The words of a text, their bytes, and the added words in it."""
        ids: list[int] = []
        sizes: list[int] = []
        found: list[AddedWord] = []

        def add(part: str, word: AddedWord) -> None:
            ids.append(word.number)
            sizes.append(len(part.encode("utf-8")))
            found.append(word)

        for part, word in self._raw.cut(text) if text else ():
            if word is not None:
                add(part, word)
                continue
            normal = self._normalise(part)
            for inner, word in self._normalised.cut(normal) if normal else ():
                if word is not None:
                    add(inner, word)
                else:
                    self._add_pieces(inner, ids, sizes)
        return ids, sizes, found

    def _add_pieces(self, text: str, ids: list[int], sizes: list[int]) -> None:
        """Adds the words of a normalised text without added words, and their bytes."""
        words, first = self._model.words, len(ids)
        if not self._splitting.adds_blanks:
            for piece in self._splitting.cut(text):
                ids += words(piece)
            sizes += [self._sizes[number] for number in ids[first:]]
            return
        place = 0
        for piece in self._splitting.cut(text):
            found = [*words(piece)]
            blanks = int(piece.startswith(" ") and not text.startswith(" ", place))  # in front of the piece, but not in the text
            place += len(piece) - blanks
            ids += found
            sizes += [self._sizes[number] - blanks * (token == 0) for token, number in enumerate(found)]


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """How many tokens of each text are kept so that there are at most so many in all: the longer of two is cut first."""
    if len(sizes) == 1 or sum(sizes) <= most:
        return [min(size, most) for size in sizes]
    small, large = sorted(range(2), key=lambda text: sizes[text])
    kept = [0, 0]
    kept[small] = min(sizes[small], most // 2)
    kept[large] = most - kept[small]
    return kept
