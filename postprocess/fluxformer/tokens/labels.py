"""Labels of samples: numbers from 0, which stay as they are, or names; -1 is a test sample without one."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence

from fluxformer.hdf5_file import RunError
from fluxformer.words import read_texts

import numpy as np

LARGEST = 2**31 - 2  # largest whole number, as in the program
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")


def _unlabelled(word: str) -> bool:
    """True for the label -1."""
    return WHOLE.fullmatch(word) is not None and int(word) == -1


def read_labels(paths: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """Reads the classes of training samples and, from a second file, of test samples.

    Parameters
    ----------
    paths : sequence of str
        One or two texts with a label per line: whole numbers from 0, which stay as they are, or names. A test sample may have the label -1:
        it has none.

    Returns
    -------
    labels : list of list of int
        The classes, a list per file.
    names : list of str
        The names of the classes: those of the training samples in alphabetical order, then those that only test samples have; empty for
        numbers.

    Raises
    ------
    RunError
        If a label is empty, no whole number or out of range, if -1 is the label of a training sample, or numbers and names are mixed.
    """
    return number_labels([[(line, f"{path}, line {number}") for number, line in enumerate(read_texts(path), start=1)] for path in paths])


def number_labels(texts: Sequence[Sequence[tuple[str, str]]]) -> tuple[list[list[int]], list[str]]:
    """Numbers the labels of training samples and, from a second list, of test samples.

    Parameters
    ----------
    texts : sequence of sequence of (str, str)
        The label of each sample, as a line of a file for `read_labels`, and its place for messages.

    Returns and raises what `read_labels` does.
    """
    lines = [[unicodedata.normalize("NFC", label.strip()) for label, _ in split] for split in texts]
    places = [(word, place, number > 0) for number, (words, split) in enumerate(zip(lines, texts)) for word, (_, place) in zip(words, split)]
    for word, place, test in places:
        if not word:
            raise RunError(f"{place} is empty: each sample has a label")
        if _unlabelled(word) and not test:
            raise RunError(f"label -1 ({place}): classes count from 0; -1 usually means unlabelled, which only samples for testing may be; "
                           "leave these samples out, or leave all labels out if no sample has one")
    known = [(word, place) for word, place, _ in places if not _unlabelled(word)]
    numbers = [one for one in known if NUMBER.fullmatch(one[0])]
    others = [one for one in known if not NUMBER.fullmatch(one[0])]
    if numbers and others:
        raise RunError(f"labels are whole numbers or names, not both: {numbers[0][0]} ({numbers[0][1]}) is a number, {others[0][0]!r} "
                       f"({others[0][1]}) is not; name all classes, or number all from 0")
    for word, place in numbers:
        if not WHOLE.fullmatch(word) or not 0 <= int(word) <= LARGEST:
            raise RunError(f"label {word} ({place}): classes are whole numbers from 0, or names")
    if not others:
        return [[int(word) for word in words] for words in lines], []
    train, *rest = lines
    names = sorted(set(train)) + sorted({word for words in rest for word in words if not _unlabelled(word)} - set(train))
    order = {name: number for number, name in enumerate(names)}
    return [[order.get(word, -1) for word in words] for words in lines], names


def label_notes(splits: Mapping[str, Mapping[str, np.ndarray]], label_names: Sequence[str]) -> list[str]:
    """What a reader should know of the labels of checked samples: classes without training samples, and test samples without labels.

    Parameters
    ----------
    splits : mapping
        The splits "", or "train/" and "test/".
    label_names : sequence of str
        Names of the classes; empty: they have none.

    Returns
    -------
    list of str
        A sentence each.
    """
    train, test = (splits.get(place, {}).get("labels") for place in ("" if "" in splits else "train/", "test/"))
    notes = []
    if train is not None:
        classes = max(len(label_names), *(int(one.max()) + 1 for one in (train, test) if one is not None))
        used = set(map(int, train))
        if empty := classes - len(used):
            first = list(itertools.islice((number for number in range(classes) if number not in used), 10))
            named = ", ".join(repr(label_names[number]) if len(label_names) else str(number) for number in first)
            more = f" and {empty - len(first)} more" if empty > len(first) else ""
            counted = "" if len(label_names) else f"; the labels of the training samples are {min(used)} to {max(used)}, and classes count from 0"
            notes.append(f"{empty} of {classes} classes have no training samples: {named}{more}{counted}")
        if 2 * empty > classes:
            notes.append("more than half of the classes are empty: train refuses to make a classifier for them; number the classes 0, 1, 2, ...")
    if "test/" in splits and train is not None:
        without = len(next(iter(splits["test/"].values()))) if test is None else int((test < 0).sum())
        if without:
            notes.append(f"{without} test samples have no labels: they cannot have a test accuracy")
    return notes
