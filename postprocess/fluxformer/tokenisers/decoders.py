"""Decoders: words back to a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fluxformer.tokenisers.entry import Entry
from fluxformer.tokenisers.merges import as_bytes
from fluxformer.tokenisers.normalisers import replacement_of

Decoder = Callable[[Sequence[str]], list[str]]  # words to texts, which are joined
KINDS = ("WordPiece", "ByteLevel", "Sequence", "Replace", "ByteFallback", "Fuse", "Strip")
# What a decoder of WordPiece tidies up in each word.
TIDY = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"),
        (" 've", "'ve"), (" 're", "'re"))
BYTE_WORD = re.compile("<0x([0-9A-Fa-f]{2})>")


def decoder_of(entry: Entry | None, added: frozenset[str]) -> Decoder:
    """The decoder that the entry of a tokenizer.json describes.

    Parameters
    ----------
    entry : Entry or None
        None: words with blanks between them.
    added : frozenset of str
        Added words, which are no letters for bytes.

    Raises
    ------
    RunError
        If it is not read here.
    """
    if entry is None:
        return lambda words: [" ".join(words)]
    kind = entry.kind(KINDS)
    if kind == "Sequence":
        entry.known("type", "decoders")
        return _in_turn([decoder_of(one, added) for one in entry.parts("decoders")])
    if kind == "WordPiece":
        entry.known("type", "prefix", "cleanup")
        return word_piece_decoder(entry.text("prefix", "##"), entry.flag("cleanup", True))
    if kind == "ByteLevel":
        entry.known("type", "add_prefix_space", "trim_offsets", "use_regex")
        return byte_level_decoder(added)
    if kind == "Replace":
        replace = replacement_of(entry)
        return lambda words: [replace(word) for word in words]
    if kind == "Strip":
        entry.known("type", "content", "start", "stop")
        return _stripped(entry.text("content"), entry.whole("start"), entry.whole("stop"))
    entry.known("type")
    return _bytes_joined if kind == "ByteFallback" else lambda words: ["".join(words)]


def word_piece_decoder(inside: str, tidy: bool) -> Decoder:
    """Words of WordPiece: those that begin with `inside` go on, the others stand behind a blank."""
    def texts(words: Sequence[str]) -> list[str]:
        found = []
        for place, word in enumerate(words):
            text = word if place == 0 else word.removeprefix(inside) if word.startswith(inside) else f" {word}"
            for dirty, clean in TIDY if tidy else ():
                text = text.replace(dirty, clean)
            found.append(text)
        return found
    return texts


def byte_level_decoder(added: frozenset[str]) -> Decoder:
    """Words that are letters for bytes; a byte that is not UTF-8 becomes U+FFFD."""
    def texts(words: Sequence[str]) -> list[str]:
        found = b""
        for word in words:
            content = None if word in added else as_bytes(word)
            found += word.encode("utf-8") if content is None else content
        return [found.decode("utf-8", errors="replace")]
    return texts


def _in_turn(decoders: Sequence[Decoder]) -> Decoder:
    def texts(words: Sequence[str]) -> list[str]:
        found = list(words)
        for decoder in decoders:
            found = decoder(found)
        return found
    return texts


def _bytes_joined(words: Sequence[str]) -> list[str]:
    """Words <0xE2> become characters; U+FFFD for each where they are no UTF-8."""
    found: list[str] = []
    several = bytearray()

    def flush() -> None:
        if several:
            try:
                found.append(several.decode("utf-8"))
            except UnicodeDecodeError:
                found.append("\ufffd" * len(several))
            several.clear()

    for word in words:
        if match := BYTE_WORD.fullmatch(word):
            several.append(int(match[1], 16))
        else:
            flush()
            found.append(word)
    flush()
    return found


def _stripped(content: str, start: int, stop: int) -> Decoder:
    """Drops up to `start` characters `content` at the beginning of each text, up to `stop` at its end."""
    def strip(text: str) -> str:
        front = min(start, len(text) - len(text.lstrip(content)))
        text = text[front:]
        back = min(stop, len(text) - len(text.rstrip(content)))
        return text[:len(text) - back]
    return lambda words: [strip(word) for word in words]
