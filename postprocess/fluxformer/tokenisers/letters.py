"""Classes of Unicode characters as tokenisers mean them, and tables that replace characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

# The Unicode property White_Space. Python's own notion of space has U+001C to U+001F, too.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
# Blocks of Chinese characters as the published library has them: U+2B820 to U+2B91F are not among them.
CHINESE = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
           (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F))
ASCII_SIGNS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
JOINERS = "\u200c\u200d"


def is_chinese(letter: str) -> bool:
    """True for Chinese characters."""
    code = ord(letter)
    return any(first <= code <= last for first, last in CHINESE)


def is_sign(letter: str) -> bool:
    """True for ASCII punctuation (with $ + < = > ^ ` | ~) and the Unicode categories P."""
    return letter in ASCII_SIGNS or unicodedata.category(letter)[0] == "P"


def is_of_word(letter: str) -> bool:
    r"""True for the characters that \w of the published library matches: letters, marks, digits, connectors, joiners."""
    category = unicodedata.category(letter)
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or letter in JOINERS


def shape(letter: str) -> str:
    """An ASCII character of the same class: itself, or one for letters, numbers, white space and what remains. The long s stays, for some
    patterns take it for an s."""
    if letter.isascii() or letter == "\u017f":
        return letter
    if letter in WHITE:
        return "\v"
    return {"L": "A", "N": "0"}.get(unicodedata.category(letter)[0], "!")


class LetterTable(dict[int, str]):
    """A table for `str.translate` that asks a function what stands for a character, once for each.

    Parameters
    ----------
    stands : callable
        Character -> text.
    """

    def __init__(self, stands: Callable[[str], str]) -> None:
        super().__init__()
        self._stands = stands

    def __missing__(self, code: int) -> str:
        found = self[code] = self._stands(chr(code))
        return found
