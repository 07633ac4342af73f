"""Vocabularies (words in the order of their numbers) and other lists of texts."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluxformer.hdf5_file import RunError, regular_file

LONGEST = 1_000_000_000  # bytes
MARK = "\ufeff"  # byte-order mark, which editors and spreadsheets of Windows write at the beginning of a text


def read_words(path: str) -> list[str]:
    """The words of a vocabulary, the first of which has number 0.

    Parameters
    ----------
    path : str
        Path of a file in UTF-8 with one word per line or, if the path ends with .json, an object word: number or a tokenizer.json, whose
        model.vocab and added_tokens count.

    Raises
    ------
    RunError
        If the file cannot be read, or if a word is empty.

    A word that is there twice is said on the standard output; published vocabularies have such, and the last one counts.
    """
    words = _numbered(path, read_text(path)) if path.endswith(".json") else read_lines(path)
    check_words(path, words, "word")
    places: dict[str, list[int]] = {}
    for number, word in enumerate(words):
        places.setdefault(word, []).append(number)
    twice = [f"{word!r} ({', '.join(map(str, numbers))})" for word, numbers in places.items() if len(numbers) > 1]
    if twice:
        print(f"{path}: {len(twice)} words are there more than once, and their last number counts in a text: {', '.join(twice[:5])}"
              f"{', ...' if len(twice) > 5 else ''}")
    return words


def tokenizer_words(path: str, tokenizer: Mapping[str, Any]) -> list[str]:
    """The words of a tokenizer.json that was read, in the order of their numbers: those of model.vocab and of added_tokens. RunError if they have
    no numbers, or these are not 0, 1, 2, ..."""
    pairs = _of_tokenizer(path, tokenizer)
    if not all(type(number) is int for _, number in pairs):
        raise RunError(f"{path}: not a vocabulary: model.vocab is not an object word: number")
    words = in_order(path, pairs)
    check_words(path, words, "word")
    return words


def read_lines(path: str) -> list[str]:
    """The lines of a text in UTF-8, without their ends and the byte-order mark. RunError if it cannot be read."""
    return [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]


def read_texts(path: str) -> list[str]:
    """As `read_lines`, of samples or labels: without byte-order marks, which several files joined to one have at the beginning of
    lines too."""
    return [line.removeprefix(MARK) for line in read_lines(path)]


def listed_words(path: str, words: Any, what: str) -> list[str]:
    """Texts in the order of their numbers.

    Parameters
    ----------
    path : str
        File for which they are, for messages.
    words : list of str, array or column of a table, or mapping
        Texts in that order, without or with a byte-order mark at their beginning; or word -> number, as a tokeniser's `get_vocab()`
        returns it in any order; or number -> word.
    what : str
        Name of the list, for messages.

    Raises
    ------
    RunError
        If they have no order, or the numbers of a mapping are not 0, 1, 2, ...
    """
    if isinstance(words, Mapping):
        pairs = [(word, number) if isinstance(word, str) else (number, word) for word, number in words.items()]
        if not all(isinstance(number, (int, np.integer)) and not isinstance(number, bool) for _, number in pairs):
            raise RunError(f"{path}: {what} is a mapping, but not one of word to number")
        words = in_order(f"{path}: {what}", pairs)
    elif hasattr(words, "tolist"):  # of numpy and pandas
        words = words.tolist()
    if isinstance(words, str) or not isinstance(words, Sequence):
        raise RunError(f"{path}: {what} is of type {type(words).__name__}: expected a list in the order of the numbers, or a mapping word: number")
    texts = [str(word) if isinstance(word, np.str_) else word for word in words]
    if texts and isinstance(texts[0], str) and texts[0] != MARK:
        texts[0] = texts[0].removeprefix(MARK)
    check_words(path, texts, what)
    return texts


def in_order(what: str, pairs: Iterable[tuple[str, int]]) -> list[str]:
    """The words of pairs (word, number), sorted by number. RunError that begins with `what` unless the numbers are 0, 1, 2, ..."""
    found = sorted(pairs, key=lambda pair: pair[1])
    for wanted, (word, number) in enumerate(found):
        if number != wanted:
            raise RunError(f"{what}: the numbers of a vocabulary are 0, 1, 2, ...; {word!r} has {number} where {wanted} is expected")
    return [word for word, _ in found]


def check_words(path: str, words: Sequence[str], what: str) -> None:
    """RunError if a list of words cannot be stored."""
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word or "\0" in word:
            reason = "is no text" if not isinstance(word, str) else "holds a zero byte" if word else "is empty"
            raise RunError(f"{path}: {what} {number} {reason}")
    try:
        "".join(words).encode("utf-8")
    except UnicodeEncodeError:  # JSON may have half of a pair of UTF-16
        number = next(number for number, word in enumerate(words) if any("\ud800" <= letter <= "\udfff" for letter in word))
        raise RunError(f"{path}: {what} {number} is no text in Unicode: {words[number]!a}") from None


def read_text(path: str) -> str:
    """A text in UTF-8 without the byte-order mark at its beginning. RunError if it cannot be read; what is not UTF-8 is named by its line."""
    regular_file(path)
    if os.path.getsize(path) > LONGEST:
        raise RunError(f"{path}: not a list of words: it has {os.path.getsize(path)} bytes")
    try:
        with open(path, "rb") as stream:
            content = stream.read()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise RunError(f"{path}: a text in UTF-16 (its byte-order mark says so), not in UTF-8: save it as UTF-8")
        return content.decode("utf-8").removeprefix(MARK)
    except OSError as failure:
        raise RunError(f"{path}: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        before, start = content[:failure.start], failure.start
        line, byte = before.count(b"\n") + 1, start - before.rfind(b"\n")
        raise RunError(f"{path}: not a text in UTF-8: byte {byte} of line {line} is 0x{content[start]:02X}") from None


def _numbered(path: str, text: str) -> list[str]:
    """The words of a JSON object word: number, or of a tokenizer.json."""
    try:
        found = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except (ValueError, RecursionError) as failure:
        raise RunError(f"{path}: not a vocabulary: {failure}") from None
    if not text.lstrip().startswith("{"):
        raise RunError(f"{path}: not a vocabulary: it is not an object word: number")
    pairs = _of_tokenizer(path, _entries(found)) if isinstance(_entries(found).get("model"), list) else found
    if not all(type(number) is int for _, number in pairs):
        raise RunError(f"{path}: not a vocabulary: it is not an object word: number")
    return in_order(path, pairs)


def _entries(value: Any) -> dict[str, Any]:
    """An object of JSON, or a list of its pairs, as a dictionary; empty for anything else."""
    if isinstance(value, dict):
        return value
    return dict(value) if isinstance(value, list) and all(isinstance(one, tuple) for one in value) else {}


def _of_tokenizer(path: str, tokenizer: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The pairs word, number of a tokenizer.json, whose objects may be lists of pairs: those of model.vocab, which is an object word: number or a
    list of [word, score], and those of added_tokens, which may be in it too."""
    def refuse(why: str) -> RunError:
        return RunError(f"{path}: not the file of a tokeniser: {why}")

    vocabulary, added_tokens = _entries(tokenizer["model"]).get("vocab"), tokenizer.get("added_tokens") or []
    vocabulary = list(vocabulary.items()) if isinstance(vocabulary, dict) else vocabulary
    if not isinstance(vocabulary, list) or not all(isinstance(one, (list, tuple)) and len(one) == 2 and isinstance(one[0], str)
                                                   for one in vocabulary):
        raise refuse("model.vocab is neither an object word: number nor a list of words with scores")
    pieces = bool(vocabulary) and isinstance(vocabulary[0], list)
    pairs = [(word, number) for number, (word, _) in enumerate(vocabulary)] if pieces else list(vocabulary)
    numbers = dict(pairs)
    for added in map(_entries, added_tokens if isinstance(added_tokens, list) else [added_tokens]):
        if type(added.get("id")) is not int or not isinstance(added.get("content"), str):
            raise refuse("an entry of added_tokens has no id and content")
        if numbers.get(added["content"]) != added["id"]:
            numbers[added["content"]] = added["id"]
            pairs.append((added["content"], added["id"]))
    return pairs
