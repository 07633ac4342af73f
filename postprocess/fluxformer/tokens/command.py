"""Writes token files: samples of your own, as whoever made them cut them into tokens (`data.set = tokens` of a deck).

    fluxformer tokens lines.txt --words vocab.txt --output TOKENS.h5           a sample per line, words between spaces
    fluxformer tokens lines.txt --words vocab.txt --first '[CLS]' --last '[SEP]' --labels labels.txt --output TOKENS.h5
    fluxformer tokens lines.txt --tokenizer tokenizer.json --output TOKENS.h5  the words of a published tokeniser
    fluxformer tokens lines.txt --tokenizer vocab.txt [--cased] --output TOKENS.h5               of a BERT without its tokenizer.json
    fluxformer tokens lines.txt --tokenizer vocab.json merges.txt --output TOKENS.h5             of a GPT-2 or RoBERTa without it
    fluxformer tokens samples.npz --output TOKENS.h5                           arrays that a tokeniser wrote

--tokenizer cuts texts as the published library does: WordPiece (BERT), byte-level merges (GPT-2, RoBERTa, Llama 3, Qwen 2, SmolLM, Pythia,
ModernBERT), merges of characters and bytes (Llama 2). What it does not compute is refused by name. A tab separates the two texts of a pair.
Special words are put around each sample as the file says, --plain leaves them out; where a text holds one itself ([MASK], <|endoftext|>), it
counts as that word, and --no-specials refuses such texts. Beside the ids the file then holds words, specials, segments of pairs, and
token_bytes, the bytes of the text that each token stands for (of byte-level tokenisers). `fluxformer text` makes texts of it again.

A vocabulary has one word per line in the order of their numbers, or is a JSON object word: number. A word of the lines that is not in it
becomes <unk> or [UNK], which it must have then; more than half is a warning. Vocabularies of pieces of words (with the marks Ġ, ▁, </w> or ##)
are refused: they need --tokenizer.

Shorter lines are padded (with [PAD] or <pad>, else number 0), and the file says how long each is. --labels has a class per line: numbers
from 0, or names. --test and --test-labels are samples of their own for testing, the label -1 being that of a sample without one; without
--test the same samples serve both. --specials lists words that are never masked, such as start, end and padding (numbers, if there is no
vocabulary); words in [] or <> need not be listed.

An .npz holds, for numpy.savez(path, ids=..., lengths=...):
    ids        samples x tokens, whole numbers from 0     or     features    samples x tokens x numbers (patches of an image, say)
    lengths    samples: how many tokens are real; without it all are          segments    samples x tokens, from 0, beside ids
    attention_mask    samples x tokens, instead of lengths: 1 for real tokens, 0 for padding behind them
    token_bytes    samples x tokens: bytes of each token, beside ids
    labels     samples: classes from 0 (test/labels: -1 for none)             words, label_names    texts
and train/ids, test/ids, ... instead, if there are samples for testing. input_ids and token_type_ids are other names of ids and segments.
Padding stands on the right; samples that end with [PAD] or the like without lengths or attention_mask are refused.

A tokeniser of your own (docs/examples/own_tokens.py is one) needs no file in between:

    from fluxformer.tokens import patches, write_token_file
    write_token_file("TOKENS.h5", ids=[[101, 7592, 102], [101, 102]], labels=[1, 0])     # lists of any length
    write_token_file("IMAGES.h5", features=patches(images, 16), labels=labels)           # for a ViT, as its patches are numbered

    build/bin/fluxformer evolve --model.file=MODEL.h5 --data.set=tokens --data.file=TOKENS.h5

Ends with status 2 and one message if the samples do not hold together, with status 1 if the disk is full.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fluxformer.hdf5_file import RunError
from fluxformer.part_file import refuse_place
from fluxformer.state_dict import listed, read_npz
from fluxformer.tokenisers import read_tokeniser
from fluxformer.tokenisers.command import CASED, TOKENIZER
from fluxformer.tokens.labels import label_notes, read_labels
from fluxformer.tokens.padding import is_padding
from fluxformer.tokens.token_file import OF_TOKENISERS, PER_SAMPLE, Samples, checked_samples, notes_on, special_ids, write_samples
from fluxformer.tokens.tokenised import tokenise
from fluxformer.tokens.unknown_words import UNKNOWN, about_unknown, refuse_marked_pieces
from fluxformer.words import listed_words, read_texts, read_words


class Encoded(NamedTuple):
    """The samples of a text, as numbers of words."""

    samples: list[list[int]]
    total: int  # words of the text
    unknown: Counter[str]  # how often each word occurs that is not in the vocabulary
    composed: int  # words that are in the vocabulary in another Unicode form


def encode(path: str, words: Sequence[str], first: str | None = None, last: str | None = None,
           length: int | None = None) -> Encoded:
    """Turns the lines of a text into numbers of words. A word that is not in the vocabulary as it is written counts as the word of the
    vocabulary that has the same composed form (Unicode NFC: ö, not o and two dots).

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
    Encoded

    Raises
    ------
    RunError
        If the text cannot be read, a line has no words or begins or ends with padding, or a word has no number.
    """
    numbers = {word: number for number, word in enumerate(words)}
    composed = {unicodedata.normalize("NFC", word): number for word, number in reversed(numbers.items())}
    for word in filter(None, (first, last)):
        if word not in numbers:
            raise RunError(f"{word!r} is not in the vocabulary")
    instead = next((numbers[word] for word in UNKNOWN if word in numbers), None)
    begin, end = ([numbers[word]] if word else [] for word in (first, last))
    samples: list[list[int]] = []
    total, others, unknown = 0, 0, Counter[str]()
    for place, line in enumerate(read_texts(path), start=1):
        sample, among = [], line.split()
        if pad := next(filter(is_padding, (*among[:1], *among[-1:])), None):
            raise RunError(f"{path}: line {place} begins or ends with {pad!r}: lines need no padding, the file says how long each sample is")
        total += len(among)
        for word in among:
            number = numbers.get(word)
            if number is None and (number := composed.get(unicodedata.normalize("NFC", word))) is not None:
                others += 1
            if number is None:
                unknown[word] += 1
                number = instead
            if number is None:
                raise RunError(f"{path}: {word!r} (line {place}) is not in the vocabulary, which has no {' or '.join(UNKNOWN)} either")
            sample.append(number)
        inside = sample if length is None else sample[:max(0, length - len(begin) - len(end))]
        if not (sample := [*begin, *inside, *end]):
            raise RunError(f"{path}: line {place} has no words: a sample has at least one")
        samples.append(sample)
    return Encoded(samples, total, unknown, others)


PADDING = ("[PAD]", "<pad>")
TEXTS = ("words", "label_names")
Rows = dict[str, list[list[int]]]  # ids, segments, ... of the samples of a text


def _by_words(options: argparse.Namespace, paths: Sequence[str]) -> tuple[list[Rows], list[str], list[int]]:
    """Texts with words between spaces: their samples, the vocabulary, and no special words."""
    if options.length is not None and options.length < 1 + bool(options.first) + bool(options.last):
        raise RunError(f"--length {options.length}: too short for a sample")
    words = read_words(options.words)
    refuse_marked_pieces(options.words, words)
    encoded = [encode(path, words, options.first, options.last, options.length) for path in paths]
    for path, text in zip(paths, encoded):
        if said := about_unknown(path, words, text.total, text.unknown):
            print(said)
        if text.composed:
            print(f"{path}: {text.composed} of {text.total} words are in the vocabulary in another form of Unicode (letters and accents composed or not), and "
                  "count as those")
    return [{"ids": text.samples} for text in encoded], words, []


def _by_tokeniser(options: argparse.Namespace, paths: Sequence[str]) -> tuple[list[Rows], list[str], list[int]]:
    """Texts for a tokeniser: their samples, its vocabulary, and its special words."""
    for name in ("words", "first", "last"):
        if getattr(options, name) is not None:
            raise RunError(f"--{name} is for words between spaces; --tokenizer has its own")
    tokeniser = read_tokeniser(options.tokenizer, options.cased)
    encoded = [tokenise(path, tokeniser, specials=not options.plain, allow_specials=not options.no_specials, length=options.length) for path in paths]
    for note in (*tokeniser.notes, *(note for text in encoded for note in text.notes)):
        print(note)
    pairs = any(segment for text in encoded for sample in text.segments for segment in sample)
    rows = [{"ids": text.ids, **({"segments": text.segments} if pairs else {}), **({"token_bytes": text.sizes} if tokeniser.byte_level else {})}
            for text in encoded]
    return rows, tokeniser.words, tokeniser.specials


def _from_text(options: argparse.Namespace) -> tuple[dict[str, Samples], list[str], list[str], list[int]]:
    """Reads a text: splits, words, names of labels, numbers of special words."""
    if not options.words and not options.tokenizer:
        raise RunError(f"{options.input}: --words names the vocabulary of a text, --tokenizer the files of its tokeniser")
    if options.test_labels and not (options.test and options.labels):
        raise RunError("--test-labels goes with --test and --labels")
    paths = [options.input, *filter(None, [options.test])]
    texts, words, specials = (_by_tokeniser if options.tokenizer else _by_words)(options, paths)
    wide = max(len(sample) for text in texts for sample in text["ids"])
    filling = next((words.index(word) for word in PADDING if word in words), 0)
    labels, names = read_labels([options.labels, *filter(None, [options.test_labels])]) if options.labels else ([], [])
    splits = {}
    for number, (place, text) in enumerate(zip(("train/", "test/") if options.test else ("",), texts)):
        arrays: dict[str, Any] = {name: np.array([sample + [filling if name == "ids" else 0] * (wide - len(sample)) for sample in samples])
                                  for name, samples in text.items()}
        arrays["lengths"] = np.array([len(sample) for sample in text["ids"]])
        if number < len(labels):
            if len(labels[number]) != len(text["ids"]):
                raise RunError(f"{(options.labels, options.test_labels)[number]}: {len(labels[number])} labels for {len(text['ids'])} samples")
            arrays["labels"] = np.array(labels[number])
        splits[place] = checked_samples(f"{paths[number]}: ", arrays, test=place == "test/")
    return splits, words, names, specials


def _from_npz(options: argparse.Namespace) -> tuple[dict[str, Samples], list[str], list[str], list[int]]:
    """Reads an .npz: splits, words, names of labels, and no special words."""
    for name in ("test", "labels", "test_labels", "first", "last", "length", "tokenizer"):
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
        texts[name] = listed_words(options.input, array, name)
    if options.words:
        if texts["words"]:
            raise RunError(f"{options.input} has words; --words would be others")
        texts["words"] = read_words(options.words)
    places = [place for place in ("train/", "test/") if any(name.startswith(place) for name in arrays)] or [""]
    known = {place + name: (place, name) for place in places for name in (*PER_SAMPLE, *OF_TOKENISERS)}
    if unknown := set(arrays) - set(known):
        raise RunError(f"{options.input}: {listed(unknown)}: not the names of arrays; there are {listed((*known, *TEXTS))}")
    splits: dict[str, dict[str, Any]] = {place: {} for place in places}
    for name, array in arrays.items():
        place, short = known[name]
        splits[place][short] = array
    samples = {place: checked_samples(f"{options.input}: {place}", one, words=texts["words"], test=place == "test/") for place, one in splits.items()}
    for note in notes_on(options.input, samples, texts["words"]):
        print(f"warning: {note}")
    return samples, texts["words"], texts["label_names"], []


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer tokens", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a text with a sample per line, or an .npz")
    parser.add_argument("--output", metavar="TOKENS.h5", required=True, help="token file to write")
    parser.add_argument("--words", metavar="FILE", help="vocabulary: a word per line, or .json")
    parser.add_argument("--tokenizer", metavar="FILE", nargs="+", help=TOKENIZER)
    parser.add_argument("--cased", action="store_true", help=CASED)
    parser.add_argument("--plain", action="store_true", help="no special words around a sample, as --tokenizer would put them")
    parser.add_argument("--no-specials", action="store_true", help="refuse a text that holds a special word of --tokenizer")
    parser.add_argument("--labels", metavar="FILE", help="a class per line: numbers from 0, or names")
    parser.add_argument("--first", metavar="WORD", help="word in front of each sample ([CLS])")
    parser.add_argument("--last", metavar="WORD", help="word behind each sample ([SEP])")
    parser.add_argument("--length", type=int, metavar="N", help="number of tokens to which samples are cut")
    parser.add_argument("--test", metavar="FILE", help="another text, of samples for testing")
    parser.add_argument("--test-labels", metavar="FILE", help="classes of the samples for testing, as --labels")
    parser.add_argument("--specials", nargs="+", metavar="WORD", default=[], help="words that are never masked; numbers without a vocabulary")
    parser.add_argument("--overwrite", action="store_true", help="replace TOKENS.h5 if it is there")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer tokens`: writes the token file and prints what it holds."""
    options = parse(arguments)
    for name in ("cased", "plain", "no_specials"):
        if getattr(options, name) and not options.tokenizer:
            raise RunError(f"--{name.replace('_', '-')} goes with --tokenizer")
    read = [options.input, options.words, *(options.tokenizer or ()), options.labels, options.test, options.test_labels]
    refuse_place(options.output, tuple(filter(None, read)), options.overwrite)
    splits, words, names, specials = (_from_npz if options.input.lower().endswith(".npz") else _from_text)(options)
    write_samples(options.output, splits, words, names, list(dict.fromkeys([*specials, *special_ids(options.input, options.specials, words)])))
    for note in label_notes(splits, names):
        print(f"{options.output}: {note}")
    shapes = {place: split["ids" if "ids" in split else "features"].shape for place, split in splits.items()}
    said = ", ".join(f"{place.rstrip('/')} {shape[0]} samples".strip() for place, shape in shapes.items())
    print(f"{options.output}: {said} of {next(iter(shapes.values()))[1]} tokens, {len(words) or 'no list of'} words")
