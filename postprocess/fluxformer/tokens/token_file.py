"""Token files: samples that the program reads with data.set = tokens, checked and written."""

from __future__ import annotations

import datetime
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import RunError
from fluxformer.part_file import refuse_place, writing
from fluxformer.tokens.labels import LARGEST, label_notes, number_labels
from fluxformer.tokens.padding import mask_lengths, padding_note, refuse_padding
from fluxformer.tokens.unknown_words import unknown_note
from fluxformer.words import listed_words

import h5py
import numpy as np

PER_SAMPLE = ("ids", "features", "lengths", "attention_mask", "segments", "token_bytes", "labels")
OF_TOKENISERS = {"input_ids": "ids", "token_type_ids": "segments"}  # their name: the name here
Samples = dict[str, np.ndarray]


def patches(images: np.ndarray, patch: int | tuple[int, int], front: int = 1) -> np.ndarray:
    """Images as the tokens of a ViT: zeros in the place of class tokens, then the patches row by row.

    Parameters
    ----------
    images : array
        Images [sample, channel, row, column], normalised as the model wants them.
    patch : int or (int, int)
        Rows and columns of a patch; what is left over at the edges is cut off.
    front : int
        Class tokens of the model: 1 of a ViT, 2 of a DeiT.

    Returns
    -------
    array
        Tokens [sample, token, number]; the numbers of a patch by channel, row and column.
    """
    rows, columns = (patch, patch) if isinstance(patch, int) else patch
    images = np.asarray(images)
    if images.ndim != 4 or min(images.shape) < 1 or not (1 <= rows <= images.shape[2] and 1 <= columns <= images.shape[3]):
        raise RunError(f"images of shape {images.shape} have no patches of {rows} x {columns}: expected [sample, channel, row, column]")
    samples, channels = images.shape[:2]
    down, across = images.shape[2] // rows, images.shape[3] // columns
    cut = images[:, :, :down * rows, :across * columns].reshape(samples, channels, down, rows, across, columns)
    found = cut.transpose(0, 2, 4, 1, 3, 5).reshape(samples, down * across, channels * rows * columns)
    return np.concatenate([np.zeros((samples, front, found.shape[2]), found.dtype), found], axis=1)


def write_token_file(path: str, *, ids: Any = None, features: Any = None, lengths: Any = None, segments: Any = None, labels: Any = None,
                     attention_mask: Any = None, input_ids: Any = None, token_type_ids: Any = None,
                     words: Sequence[str] | Mapping[str, int] = (), label_names: Sequence[str] | Mapping[str, int] = (),
                     test: Mapping[str, Any] | None = None, specials: Sequence[int | str] = (), token_bytes: Any = None,
                     overwrite: bool = False) -> None:
    """Writes samples that the program reads with data.set = tokens.

    Parameters
    ----------
    path : str
        Path of the HDF5 file.
    ids : array of whole numbers, or list of lists of any length
        Numbers of words, [sample, token]. Lists are padded with 0, and `lengths` follow from them.
    features : array of numbers
        Numbers that embed each token, [sample, token, number], instead of `ids`.
    lengths : array of whole numbers
        Number of real tokens, [sample], 1 or more (default: all tokens). The others stand behind them.
    segments : as `ids`
        Segment of each word, [sample, token], from 0 (which sentence of a pair).
    labels : array of whole numbers, or list of texts
        Classes from 0, [sample] (default: the samples have no labels). Of `test` also -1: this sample has none. Texts are numbers or names, as
        for `tokens --labels`; `label_names` follow from names.
        What is odd in them (classes without training samples, test samples without labels) is a UserWarning.
    attention_mask : as `ids`
        Instead of `lengths`: 1 for real tokens, 0 for padding behind them, [sample, token].
    input_ids, token_type_ids :
        The names that tokenisers give to `ids` and `segments`: `write_token_file(path, **tokenizer(texts, padding=True))`.
    words : sequence of str, or mapping word -> number
        The vocabulary, in the order of the numbers; a mapping (`tokenizer.get_vocab()`) is sorted by them.
    label_names : as `words`
        Names of the classes, for figures.
    test : mapping
        Samples for testing, by the names above (ids, labels, ...). Without it the same samples serve both.
    specials : sequence of int or str
        Numbers (or, beside `words`, words) that stand for no word, such as start, end and padding: they are never masked.
    token_bytes : as `ids`
        Number of bytes of the text that each token stands for, [sample, token], 0 for special words around it.
    overwrite : bool
        True: a file that is there is replaced.

    Raises
    ------
    RunError
        If the samples do not hold together, or end with a word for padding without `lengths` or `attention_mask`.
    OSError
        If the file cannot be written.

    Warns
    -----
    UserWarning
        If samples seem to be padded, or more than half of their words are the unknown one.
    """
    refuse_place(path, (), overwrite)
    given = {"ids": ids, "features": features, "lengths": lengths, "segments": segments, "labels": labels, "attention_mask": attention_mask,
             "token_bytes": token_bytes, "input_ids": input_ids, "token_type_ids": token_type_ids}
    splits: dict[str, Mapping[str, Any]] = {"": given} if test is None else {"train/": given, "test/": test}
    vocabulary, names = listed_words(path, words, "words"), listed_words(path, label_names, "label_names")
    if any(_are_texts(one.get("labels")) for one in splits.values()):
        if names:
            raise RunError(f"{path}: labels are texts: label_names follow from them; leave these out, or give the labels as numbers")
        splits, names = _numbered(path, splits)
    wide = max(_longest(one.get(name)) for one in splits.values() for name in ("ids", "input_ids"))
    samples = {place: checked_samples(f"{path}: {place}", one, wide, vocabulary, place == "test/") for place, one in splits.items()}
    write_samples(path, samples, vocabulary, names, special_ids(path, specials, vocabulary))
    for note in (*notes_on(path, samples, vocabulary), *(f"{path}: {note}" for note in label_notes(samples, names))):
        warnings.warn(note, stacklevel=2)


def _are_texts(labels: Any) -> bool:
    """True for labels that are texts, each of them."""
    return labels is not None and len(labels) > 0 and all(isinstance(one, str) for one in labels)


def _numbered(path: str, splits: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The splits with the numbers of their labels, and the names of the classes."""
    given = {place: [] if one.get("labels") is None else one["labels"] for place, one in splits.items()}
    texts = [[(str(label), f"{path}: {place}labels, sample {sample}") for sample, label in enumerate(labels)] for place, labels in given.items()]
    numbers, names = number_labels(texts)
    return {place: {**one, "labels": found or None} for (place, one), found in zip(splits.items(), numbers)}, names


def special_ids(path: str, specials: Sequence[int | str], words: Sequence[str]) -> list[int]:
    """The numbers of the words that stand for none.

    Parameters
    ----------
    path : str
        The file in the message of a RunError: for a word that is not among `words`, and for what is no whole number from 0.
    specials : sequence of int or str
        Numbers; texts are words, or numbers if there are no `words`.
    words : sequence of str
        The vocabulary; empty: unknown.
    """
    numbers = {word: number for number, word in enumerate(words)}
    found = []
    for one in specials:
        if isinstance(one, str) and words:
            if one not in numbers:
                raise RunError(f"{path}: the special {one!r} is not in the vocabulary")
            found.append(numbers[one])
            continue
        try:
            found.append(int(one))
        except ValueError:
            raise RunError(f"{path}: the special {one!r} is not a number; without a vocabulary specials are numbers of words") from None
        if not 0 <= found[-1] <= LARGEST:
            raise RunError(f"{path}: the special {one} must be 0 to {LARGEST}")
    return found


def _longest(rows: Any) -> int:
    """The length of the longest of lists of samples; 0 for arrays."""
    if isinstance(rows, np.ndarray) or not isinstance(rows, Sequence):
        return 0
    return max((len(row) for row in rows if isinstance(row, (Sequence, np.ndarray))), default=0)


def _padded(what: str, rows: Any, wide: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """An array of lists of any length, at least `wide` tokens long, and their lengths if they differ from it."""
    if isinstance(rows, np.ndarray) or not isinstance(rows, Sequence):
        return np.asarray(rows), None
    if not all(isinstance(row, (Sequence, np.ndarray)) for row in rows):
        raise RunError(f"{what} is not a list of samples")
    lengths = np.array([len(row) for row in rows], np.int64)
    wide = max(wide, lengths.max(initial=0))
    if set(lengths) <= {wide}:
        return np.array([np.asarray(row) for row in rows]), None
    if not all(np.asarray(row).dtype.kind in "iu" for row in rows if len(row)):
        raise RunError(f"{what} does not hold whole numbers")
    padded = np.zeros((len(rows), wide), np.int64)
    for row, numbers in zip(padded, rows):
        row[:len(numbers)] = numbers
    return padded, lengths


def _whole(what: str, array: Any, shape: tuple[int, ...], least: int, most: int = LARGEST) -> np.ndarray:
    """An array of whole numbers, which must have this shape and range."""
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise RunError(f"{what} holds {array.dtype}, not whole numbers")
    if array.shape != shape:
        raise RunError(f"{what} has shape {array.shape}, expected {shape}")
    odd = np.flatnonzero((array < least) | (array > most))
    if odd.size:
        place = np.unravel_index(odd[0], shape)
        where = ", ".join(f"{axis} {number}" for axis, number in zip(("sample", "token"), place))
        raise RunError(f"{what} holds {array[place]} ({where}): must be {least} to {most}")
    return array.astype(np.int32)


def _labels(place: str, array: Any, shape: tuple[int, ...], test: bool) -> np.ndarray:
    """Labels; -1, "unlabelled", is for test samples only."""
    if test:
        return _whole(f"{place}labels", array, shape, -1)
    array = np.asarray(array)
    if array.dtype.kind in "iu" and array.shape == shape and -1 in array:
        raise RunError(f"{place}labels holds -1 (sample {int(np.flatnonzero(array == -1)[0])}): classes count from 0; -1 usually means "
                       "unlabelled, which only samples for testing may be; leave these samples out, or leave out labels if none has one")
    return _whole(f"{place}labels", array, shape, 0)


def checked_samples(place: str, given: Mapping[str, Any], wide: int = 0, words: Sequence[str] = (), test: bool = False) -> Samples:
    """The arrays of a split, as they are stored; lists are padded to `wide` tokens at least. Labels of a `test` split may be -1. RunError if
    they do not hold together, or end with one of the `words` for padding; it names them with `place` in front."""
    arrays = {name: array for name, array in given.items() if array is not None}
    for theirs, name in OF_TOKENISERS.items():
        if theirs in arrays:
            if name in arrays:
                raise RunError(f"{place}{theirs} and {name} are two names of the same: give one of both")
            arrays[name] = arrays.pop(theirs)
    if "lengths" in arrays and "attention_mask" in arrays:
        raise RunError(f"{place}lengths and attention_mask say the same: give one of both")
    known = "lengths" in arrays or "attention_mask" in arrays
    if unknown := sorted(set(arrays) - set(PER_SAMPLE)):
        raise RunError(f"{place}{unknown[0]} is not one of {', '.join(PER_SAMPLE)}")
    if ("ids" in arrays) == ("features" in arrays):
        raise RunError(f"{place}ids and {place.split(': ')[-1]}features: exactly one of them is needed")
    found: Samples = {}
    if "features" in arrays:
        features = np.asarray(arrays["features"])
        if features.dtype.kind != "f" or features.ndim != 3 or 0 in features.shape:
            raise RunError(f"{place}features holds {features.dtype} of shape {features.shape}, expected real numbers [sample, token, number]")
        if not np.isfinite(features).all():
            raise RunError(f"{place}features holds numbers that are not finite")
        found["features"] = features.astype(np.float32 if features.itemsize <= 4 else np.float64)
        for name, what in (("segments", "segments"), ("token_bytes", "bytes")):
            if name in arrays:
                raise RunError(f"{place}{name} needs ids: only words have {what}")
        shape = features.shape[:2]
    else:
        ids, lengths = _padded(f"{place}ids", arrays["ids"], wide)
        if ids.ndim != 2 or 0 in ids.shape:
            raise RunError(f"{place}ids has shape {ids.shape}, expected [sample, token]")
        shape = ids.shape
        found["ids"] = _whole(f"{place}ids", ids, shape, 0)
        if lengths is not None:
            if "lengths" in arrays:
                raise RunError(f"{place}lengths follows from lists of ids of different lengths: give one of both")
            arrays["lengths"] = lengths
        for name in ("segments", "token_bytes"):
            if name not in arrays:
                continue
            numbers, those = _padded(f"{place}{name}", arrays[name], wide)
            if those is not None and (lengths is None or list(those) != list(lengths)):
                raise RunError(f"{place}{name} has other lengths than ids")
            found[name] = _whole(f"{place}{name}", numbers, shape, 0)
    if "attention_mask" in arrays:
        mask, those = _padded(f"{place}attention_mask", arrays["attention_mask"], shape[1])
        if (None if those is None else list(those)) != (list(arrays["lengths"]) if "lengths" in arrays else None):
            raise RunError(f"{place}attention_mask has other lengths than ids")
        arrays["lengths"] = mask_lengths(f"{place}attention_mask", mask, shape)
    if "lengths" in arrays:
        found["lengths"] = _whole(f"{place}lengths", arrays["lengths"], shape[:1], 1, shape[1])
    if "ids" in found:
        refuse_padding(place, found["ids"], found.get("lengths"), words, known)
    if "labels" in arrays:
        found["labels"] = _labels(place, arrays["labels"], shape[:1], test)
    return found


def write_samples(path: str, splits: Mapping[str, Samples], words: Sequence[str], label_names: Sequence[str],
                  specials: Sequence[int] = ()) -> None:
    """Writes a file of splits ("", or "train/" and "test/"). RunError if their tokens differ, or their numbers have no word or name;
    OSError if it cannot be written."""
    first = next(iter(splits.values()))
    for place, split in splits.items():
        for name in ("ids", "features"):
            if (name in split) != (name in first) or name in split and split[name].shape[1:] != first[name].shape[1:]:
                raise RunError(f"{path}: {place}{name} has other tokens than train/{name}")
        for name, texts, what in (("ids", words, "words"), ("labels", label_names, "label_names")):
            if len(texts) and name in split and split[name].max() >= len(texts):
                raise RunError(f"{path}: {place}{name} holds {split[name].max()}, but there are {len(texts)} {what}")
    if len(words) and "ids" not in first:
        raise RunError(f"{path}: words need ids")
    if len(specials) and "ids" not in first:
        raise RunError(f"{path}: specials need ids: they are numbers of words")
    with writing(path) as part, h5py.File(part, "w") as file:
        file.attrs["created"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        file.attrs["command_line"] = " ".join(sys.argv)
        for place, split in splits.items():
            for name, array in split.items():
                file[place + name] = array
                part.check()
        if len(specials):
            file["specials"] = np.array(specials, np.int32)
        for name, texts in (("words", words), ("label_names", label_names)):
            if len(texts):
                file.create_dataset(name, data=list(texts), dtype=h5py.string_dtype())


def notes_on(path: str, splits: Mapping[str, Samples], words: Sequence[str]) -> list[str]:
    """Warnings on samples that hold together but are hardly what was meant: padding that counts as words, and words that are mostly unknown."""
    notes = []
    for place, split in splits.items():
        if "ids" not in split:
            continue
        where = f"{path}: {place}"
        notes += [unknown_note(where, split["ids"], split.get("lengths"), words),
                  "" if "lengths" in split or len(words) else padding_note(where, split["ids"])]
    return list(filter(None, notes))
