"""Writes token files: samples of your own, as whoever made them cut them into tokens (`data.set = tokens` of a deck).

    python3 -m fluxformer tokens lines.txt --words vocab.txt --output TOKENS.h5           a sample per line, words between spaces
    python3 -m fluxformer tokens lines.txt --words vocab.txt --first '[CLS]' --last '[SEP]' --labels labels.txt --output TOKENS.h5
    python3 -m fluxformer tokens samples.npz --output TOKENS.h5                           arrays that a tokeniser wrote

A vocabulary has one word per line in the order of their numbers, or is a JSON object word: number. A word of the lines that is not in it
becomes <unk> or [UNK], which it must have then. Shorter lines are padded (with [PAD] or <pad>, else number 0), and the file says how long
each is. --labels has a class per line, a number from 0 or a name. --test and --test-labels are samples of their own for testing; without
them the same samples serve both.

An .npz holds, for numpy.savez(path, ids=..., lengths=...):
    ids        samples x tokens, whole numbers from 0     or     features    samples x tokens x numbers (patches of an image, say)
    lengths    samples: how many tokens are real; without it all are          segments    samples x tokens, from 0, beside ids
    labels     samples: classes from 0                                        words, label_names    texts
and train/ids, test/ids, ... instead, if there are samples for testing.

A tokeniser of your own (docs/examples/own_tokens.py is one) needs no file in between:

    from fluxformer.tokens import patches, write_token_file
    write_token_file("TOKENS.h5", ids=[[101, 7592, 102], [101, 102]], labels=[1, 0])     # lists of any length
    write_token_file("IMAGES.h5", features=patches(images, 16), labels=labels)           # for a ViT, as its patches are numbered

    build/bin/fluxformer evolve --model.file=MODEL.h5 --data.set=tokens --data.file=TOKENS.h5

Ends with status 2 and one message if the samples do not hold together, with status 1 if the disk is full.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluxformer.hdf5_file import RunError
from fluxformer.part_file import refuse_place
from fluxformer.state_dict import listed, read_npz
from fluxformer.tokens.token_file import PER_SAMPLE, Samples, checked_samples, write_samples
from fluxformer.words import check_words, read_lines, read_words

UNKNOWN = ("<unk>", "[UNK]")


def encode(path: str, words: Sequence[str], first: str | None = None, last: str | None = None,
           length: int | None = None) -> tuple[list[list[int]], int]:
    """Turns the lines of a text into numbers of words.

    Parameters
    ----------
    path : str
        Text with a sample per line, words between spaces.
    words : sequence of str
        The vocabulary.
    first, last : str or None
        Words to put at the beginning and the end of each sample.
    length : int or None
        Number of tokens to which samples are cut; `last` stays.

    Returns
    -------
    samples : list of list of int
    unknown : int
        Number of words that are not in the vocabulary.
    """
    numbers = {word: number for number, word in enumerate(words)}
    for word in filter(None, (first, last)):
        if word not in numbers:
            raise RunError(f"{word!r} is not in the vocabulary")
    instead = next((numbers[word] for word in UNKNOWN if word in numbers), None)
    begin, end = ([numbers[word]] if word else [] for word in (first, last))
    samples, unknown = [], 0
    for place, line in enumerate(read_lines(path), start=1):
        sample = []
        for word in line.split():
            number = numbers.get(word, instead)
            if number is None:
                raise RunError(f"{path}: {word!r} (line {place}) is not in the vocabulary, which has no {' or '.join(UNKNOWN)} either")
            unknown += word not in numbers
            sample.append(number)
        inside = sample if length is None else sample[:max(0, length - len(begin) - len(end))]
        if not (sample := [*begin, *inside, *end]):
            raise RunError(f"{path}: line {place} has no words: a sample has at least one")
        samples.append(sample)
    return samples, unknown


def read_labels(paths: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """The classes of each file, and their names if they have some."""
    lines = [[line.strip() for line in read_lines(path)] for path in paths]
    for path, words in zip(paths, lines):
        if "" in words:
            raise RunError(f"{path}: line {words.index('') + 1} is empty: a label per line")
    if all(word.isdecimal() and len(word) < 10 for words in lines for word in words):
        return [[int(word) for word in words] for words in lines], []
    names = sorted({word for words in lines for word in words})
    return [[names.index(word) for word in words] for words in lines], names


PADDING = ("[PAD]", "<pad>")
TEXTS = ("words", "label_names")


def _from_text(options: argparse.Namespace) -> tuple[dict[str, Samples], list[str], list[str]]:
    """Reads a text: splits, words and names of labels."""
    if not options.words:
        raise RunError(f"{options.input}: --words names the vocabulary of a text")
    if options.length is not None and options.length < 1 + bool(options.first) + bool(options.last):
        raise RunError(f"--length {options.length}: too short for a sample")
    if bool(options.test_labels) != bool(options.test and options.labels):
        raise RunError("--test-labels goes with --test and --labels")
    words = read_words(options.words)
    paths = [options.input, *filter(None, [options.test])]
    encoded = [encode(path, words, options.first, options.last, options.length) for path in paths]
    for path, (_, unknown) in zip(paths, encoded):
        if unknown:
            print(f"{path}: {unknown} words are not in the vocabulary and become unknown")
    wide = max(len(sample) for samples, _ in encoded for sample in samples)
    filling = next((words.index(word) for word in PADDING if word in words), 0)
    labels, names = read_labels([options.labels, *filter(None, [options.test_labels])]) if options.labels else ([], [])
    splits = {}
    for number, (place, (samples, _)) in enumerate(zip(("train/", "test/") if options.test else ("",), encoded)):
        arrays: dict[str, Any] = {"ids": np.array([sample + [filling] * (wide - len(sample)) for sample in samples]),
                                  "lengths": np.array([len(sample) for sample in samples])}
        if labels:
            if len(labels[number]) != len(samples):
                raise RunError(f"{(options.labels, options.test_labels)[number]}: {len(labels[number])} labels for {len(samples)} samples")
            arrays["labels"] = np.array(labels[number])
        splits[place] = checked_samples(f"{paths[number]}: ", arrays)
    return splits, words, names


def _from_npz(options: argparse.Namespace) -> tuple[dict[str, Samples], list[str], list[str]]:
    """Reads an .npz: splits, words and names of labels."""
    for name in ("test", "labels", "test_labels", "first", "last", "length"):
        if getattr(options, name) is not None:
            raise RunError(f"--{name.replace('_', '-')} is for texts; an .npz has its own arrays")
    arrays = read_npz(options.input)
    texts: dict[str, list[str]] = {}
    for name in TEXTS:
        array = arrays.pop(name, np.array([], str))
        if array.dtype.kind not in "US" or array.ndim != 1:
            raise RunError(f"{options.input}: {name} holds {array.dtype} of shape {array.shape}, not a list of texts")
        if array.dtype.kind == "S":
            try:
                array = np.char.decode(array, "utf-8")
            except UnicodeDecodeError as failure:
                raise RunError(f"{options.input}: {name} is not in UTF-8 ({failure})") from None
        texts[name] = [str(word) for word in array]
        check_words(options.input, texts[name], name, unique=False)
    if options.words:
        if texts["words"]:
            raise RunError(f"{options.input} has words; --words would be others")
        texts["words"] = read_words(options.words)
    places = [place for place in ("train/", "test/") if any(name.startswith(place) for name in arrays)] or [""]
    known = {place + name: (place, name) for place in places for name in PER_SAMPLE}
    if unknown := set(arrays) - set(known):
        raise RunError(f"{options.input}: {listed(unknown)}: not the names of arrays; there are {listed((*known, *TEXTS))}")
    splits: dict[str, dict[str, Any]] = {place: {} for place in places}
    for name, array in arrays.items():
        place, short = known[name]
        splits[place][short] = array
    return {place: checked_samples(f"{options.input}: {place}", one) for place, one in splits.items()}, texts["words"], texts["label_names"]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer tokens", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a text with a sample per line, or an .npz")
    parser.add_argument("--output", metavar="TOKENS.h5", required=True, help="token file to write")
    parser.add_argument("--words", metavar="FILE", help="vocabulary: a word per line, or .json")
    parser.add_argument("--labels", metavar="FILE", help="a class per line: numbers from 0, or names")
    parser.add_argument("--first", metavar="WORD", help="word in front of each sample ([CLS])")
    parser.add_argument("--last", metavar="WORD", help="word behind each sample ([SEP])")
    parser.add_argument("--length", type=int, metavar="N", help="number of tokens to which samples are cut")
    parser.add_argument("--test", metavar="FILE", help="another text, of samples for testing")
    parser.add_argument("--test-labels", metavar="FILE", help="classes of the samples for testing, as --labels")
    parser.add_argument("--overwrite", action="store_true", help="replace TOKENS.h5 if it is there")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer tokens`: writes the token file and prints what it holds."""
    options = parse(arguments)
    read = [options.input, options.words, options.labels, options.test, options.test_labels]
    refuse_place(options.output, tuple(filter(None, read)), options.overwrite)
    splits, words, names = (_from_npz if options.input.lower().endswith(".npz") else _from_text)(options)
    write_samples(options.output, splits, words, names)
    shapes = {place: split["ids" if "ids" in split else "features"].shape for place, split in splits.items()}
    said = ", ".join(f"{place.rstrip('/')} {shape[0]} samples".strip() for place, shape in shapes.items())
    print(f"{options.output}: {said} of {next(iter(shapes.values()))[1]} tokens, {len(words) or 'no list of'} words")
