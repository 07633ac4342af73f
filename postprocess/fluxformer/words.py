"""Vocabularies (words in the order of their numbers) and other lists of texts."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from fluxformer.hdf5_file import RunError, regular_file

LONGEST = 1_000_000_000  # bytes


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
    words = _numbered(path, _text(path)) if path.endswith(".json") else read_lines(path)
    check_words(path, words, "word", unique=False)
    places: dict[str, list[int]] = {}
    for number, word in enumerate(words):
        places.setdefault(word, []).append(number)
    twice = [f"{word!r} ({', '.join(map(str, numbers))})" for word, numbers in places.items() if len(numbers) > 1]
    if twice:
        print(f"{path}: {len(twice)} words are there more than once, and their last number counts in a text: {', '.join(twice[:5])}"
              f"{', ...' if len(twice) > 5 else ''}")
    return words


def read_lines(path: str) -> list[str]:
    """The lines of a text in UTF-8, without their ends. RunError if it cannot be read."""
    return [line.removesuffix("\r") for line in _text(path).removesuffix("\n").split("\n")]


def check_words(path: str, words: Sequence[str], what: str, unique: bool) -> None:
    """RunError if a list of words cannot be stored; `unique`: also if a word is in it twice."""
    places: dict[str, int] = {}
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word or "\0" in word:
            raise RunError(f"{path}: {what} {number} {'holds a zero byte' if word else 'is empty'}")
        if unique and word in places:
            raise RunError(f"{path}: {what} {number}, {word!r}, is {what} {places[word]} too")
        places[word] = number


def _text(path: str) -> str:
    regular_file(path)
    if os.path.getsize(path) > LONGEST:
        raise RunError(f"{path}: not a list of words: it has {os.path.getsize(path)} bytes")
    try:
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8")
    except OSError as failure:
        raise RunError(f"{path}: {failure.strerror}") from None
    except ValueError as failure:
        raise RunError(f"{path}: not a text in UTF-8 ({failure})") from None


def _numbered(path: str, text: str) -> list[str]:
    """The words of a JSON object word: number, or of a tokenizer.json."""
    try:
        found = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except (ValueError, RecursionError) as failure:
        raise RunError(f"{path}: not a vocabulary: {failure}") from None
    if not text.lstrip().startswith("{"):
        raise RunError(f"{path}: not a vocabulary: it is not an object word: number")
    pairs = _of_tokenizer(path, dict(found)) if isinstance(dict(found).get("model"), list) else found
    if not all(type(number) is int for _, number in pairs):
        raise RunError(f"{path}: not a vocabulary: it is not an object word: number")
    pairs.sort(key=lambda pair: pair[1])
    for wanted, (word, number) in enumerate(pairs):
        if number != wanted:
            raise RunError(f"{path}: the numbers of a vocabulary are 0, 1, 2, ...; {word!r} has {number} where {wanted} is expected")
    return [word for word, _ in pairs]


def _of_tokenizer(path: str, tokenizer: dict[str, Any]) -> list[tuple[str, Any]]:
    """The pairs word, number of a tokenizer.json, whose objects are lists of pairs: those of model.vocab, which is an object word: number or a
    list of [word, score], and those of added_tokens, which may be in it too."""
    def refuse(why: str) -> RunError:
        return RunError(f"{path}: not the file of a tokeniser: {why}")

    model = tokenizer["model"]
    vocabulary = dict(model).get("vocab") if all(isinstance(one, tuple) for one in model) else None
    if not isinstance(vocabulary, list) or not all(isinstance(one, (list, tuple)) and len(one) == 2 and isinstance(one[0], str)
                                                   for one in vocabulary):
        raise refuse("model.vocab is neither an object word: number nor a list of words with scores")
    pieces = bool(vocabulary) and isinstance(vocabulary[0], list)
    pairs = [(word, number) for number, (word, _) in enumerate(vocabulary)] if pieces else list(vocabulary)
    there = set(pairs)
    for one in tokenizer.get("added_tokens") or []:
        added = dict(one) if isinstance(one, list) else {}
        if type(added.get("id")) is not int or not isinstance(added.get("content"), str):
            raise refuse("an entry of added_tokens has no id and content")
        if (added["content"], added["id"]) not in there:
            there.add((added["content"], added["id"]))
            pairs.append((added["content"], added["id"]))
    return pairs
