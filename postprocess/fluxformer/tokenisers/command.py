"""The texts of a token file, by the tokeniser of its words.

    fluxformer text TOKENS.h5 --tokenizer tokenizer.json                      a text per line, on the standard output
    fluxformer text TOKENS.h5 --tokenizer vocab.json merges.txt --output texts.txt

Special words (start, end, padding) are left out unless --keep-specials is given. Words of bytes give a text back byte by byte, but for bytes
that are no UTF-8 (a sample that was cut inside of a character): these become U+FFFD. A text with line ends in it needs --json, which writes
each one as a string of JSON.

Ends with status 2 and one message if the file has no words, or words of another tokeniser.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import RunError, open_file, reading
from fluxformer.part_file import refuse_place, writing
from fluxformer.tokenisers.reading import read_tokeniser

import h5py
import numpy as np

TOKENIZER = "tokenizer.json; or vocab.txt of a BERT; or vocab.json and merges.txt of a GPT-2 or RoBERTa"
CASED = "capitals and accents of a text count (vocab.txt of a model with capitals)"


def samples_of(path: str, split: str | None, words: list[str]) -> Iterator[list[int]]:
    """The numbers of the words of each sample of a token file, without padding.

    Parameters
    ----------
    path : str
    split : str or None
        "train" or "test"; None: all samples.
    words : list of str
        The words of the tokeniser.

    Raises
    ------
    RunError
        If the file cannot be read, holds no words, or others than the tokeniser has.
    """
    with open_file(path) as file, reading(path):
        if "words" in file:
            theirs = file["words"].asstr()[...].tolist()
            for number, (one, other) in enumerate(zip(theirs, words)):
                if one != other:
                    raise RunError(f"{path}: its word {number} is {one!r}, that of the tokeniser {other!r}: they do not belong together")
        places = [place for place in ("", "train/", "test/") if f"{place}ids" in file and split in (None, place.rstrip("/"))]
        if not places:
            raise RunError(f"{path}: holds no {f'{split}/' if split else ''}ids: not a token file of words")
        for place in places:
            ids = file[f"{place}ids"]
            if not isinstance(ids, h5py.Dataset) or ids.ndim != 2 or ids.dtype.kind not in "iu":
                raise RunError(f"{path}: {place}ids are no whole numbers [sample, token]")
            lengths = file[f"{place}lengths"][...] if f"{place}lengths" in file else np.full(len(ids), ids.shape[1])
            if lengths.shape != (len(ids),):
                raise RunError(f"{path}: {place}lengths has shape {lengths.shape}, expected ({len(ids)},)")
            yield from (row[:length].tolist() for row, length in zip(ids[...], lengths))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer text", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="token file")
    parser.add_argument("--tokenizer", metavar="FILE", nargs="+", required=True, help=TOKENIZER)
    parser.add_argument("--cased", action="store_true", help=CASED)
    parser.add_argument("--split", choices=("train", "test"), help="samples of one split only")
    parser.add_argument("--keep-specials", action="store_true", help="special words are written, too")
    parser.add_argument("--json", action="store_true", help="each text as a string of JSON")
    parser.add_argument("--output", metavar="FILE", help="file to write (default: the standard output)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it is there")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer text`: writes the texts of a token file."""
    options = parse(arguments)
    if options.output:
        refuse_place(options.output, (options.input, *options.tokenizer), options.overwrite)
    with contextlib.redirect_stdout(sys.stdout if options.output else sys.stderr):  # what is said of the vocabulary is no text of the file
        tokeniser = read_tokeniser(options.tokenizer, options.cased)
    lines = []
    for number, sample in enumerate(samples_of(options.input, options.split, tokeniser.words)):
        try:
            text = tokeniser.decode(sample, specials=options.keep_specials)
        except RunError as failure:
            raise RunError(f"{options.input}: sample {number}: {failure}") from None
        if "\n" in text and not options.json:
            raise RunError(f"{options.input}: the text of sample {number} has line ends in it: --json writes each text as a string of JSON")
        lines.append(json.dumps(text, ensure_ascii=False) if options.json else text)
    if not options.output:
        for line in lines:
            print(line)
        return
    with writing(options.output) as part:
        part.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    print(f"{options.output}: {len(lines)} texts")
