"""Texts from outside, in messages and figures; needs the standard library only."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text on one line, with a space for each run of what is not printable (line ends, bytes of a name that are no UTF-8)."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
