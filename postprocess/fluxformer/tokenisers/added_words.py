"""Added words: words that are found in a text as they stand, before anything else happens to it ([MASK], <|endoftext|>)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fluxformer.tokenisers.entry import Entry
from fluxformer.tokenisers.letters import WHITE, is_of_word
from fluxformer.tokenisers.normalisers import Normaliser

BLANKS = re.compile(f"[{WHITE}]*")


@dataclass(frozen=True)
class AddedWord:
    """A word with how it is found.

    Attributes
    ----------
    text : str
    number : int
    special : bool
        True: it stands for no word of a text (start, end, padding, ...).
    single : bool
        True: it does not count inside of a word.
    left, right : bool
        True: it takes white space in front of it, behind it along.
    normalised : bool
        True: it is found in the normalised text, as its own normalised form.
    """
    text: str
    number: int
    special: bool = True
    single: bool = False
    left: bool = False
    right: bool = False
    normalised: bool = False


def added_word_of(entry: Entry) -> AddedWord:
    """One of added_tokens of a tokenizer.json. RunError if it is not read here."""
    entry.known("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
    special = entry.flag("special", False)
    return AddedWord(entry.text("content"), entry.whole("id"), special, entry.flag("single_word", False), entry.flag("lstrip", False),
                     entry.flag("rstrip", False), entry.flag("normalized", not special))


class AddedWords:
    """Finds added words in a text: of those that begin at the first place the longest, then behind it.

    Parameters
    ----------
    words : sequence of AddedWord
    normalise : callable
        What their texts go through before they are looked for.
    """

    def __init__(self, words: Sequence[AddedWord], normalise: Normaliser) -> None:
        self._words = {text: word for word in words if (text := normalise(word.text))}
        longest_first = sorted(self._words, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def cut(self, text: str) -> list[tuple[str, AddedWord | None]]:
        """The parts of a text that is not empty: added words with the white space that they take along, and what is between them."""
        if self._pattern is None or not self._pattern.search(text):
            return [(text, None)]
        parts: list[tuple[str, AddedWord | None]] = []
        done = 0
        for match in self._pattern.finditer(text):
            word, start, end = self._words[match[0]], match.start(), match.end()
            if start < done or word.single and (start > 0 and is_of_word(text[start - 1]) or end < len(text) and is_of_word(text[end])):
                continue
            if word.left:
                start = done + len(text[done:start].rstrip(WHITE))
            if word.right and (blanks := BLANKS.match(text, end)):
                end = blanks.end()
            if done < start:
                parts.append((text[done:start], None))
            parts.append((text[start:end], word))
            done = end
        return [*parts, (text[done:], None)] if done < len(text) else parts
