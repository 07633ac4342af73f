#!/usr/bin/env python3
"""Tokens of your own: a tokeniser that Fluxformer knows nothing of writes a token file.

    PYTHONPATH=postprocess /usr/bin/python3 docs/examples/own_tokens.py SAMPLES vocab.txt TOKENS.h5

SAMPLES is a text with a sample per line, in which a tab separates the two sentences of a pair, or a table (.csv) with the column `text`
and, if there are any, `pair` (second sentences) and `label` (numbers from 0, or names). The tokeniser is that of BERT for lower-case models
(bert-base-uncased): small letters without accents; punctuation and Chinese characters by themselves; and words cut into the longest pieces
that vocab.txt has ("##" in front of all but the first). [MASK] and the like are cut as any other text. With a tokeniser of your own only
`pieces` changes, or with numbers instead of words (tokenizer.encode(line).ids) nothing but the last call is needed.
"""

import csv
import string
import sys
import unicodedata

from fluxformer.tokens import write_token_file
from fluxformer.words import read_texts, read_words

LONGEST = 100  # letters of a word; BERT takes longer ones for unknown
# Unicode blocks of Chinese characters.
CHINESE = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF),
           (0x2F800, 0x2FA1F))


def kept(letter):
    """What stands for a letter of a text before it is cut: nothing for control characters, a space for what is white, spaces around
    Chinese characters."""
    category = unicodedata.category(letter)
    if letter in "\t\n\r" or category == "Zs":
        return " "
    if letter == "\ufffd" or category[0] == "C":
        return ""
    return f" {letter} " if any(first <= ord(letter) <= last for first, last in CHINESE) else letter


def words_of(text):
    """The words of a text: small letters without accents, each sign of punctuation by itself."""
    clean = "".join(map(kept, text)).lower()
    plain = "".join(letter for letter in unicodedata.normalize("NFD", clean) if unicodedata.category(letter) != "Mn")
    return "".join(f" {letter} " if letter in string.punctuation or unicodedata.category(letter)[0] == "P" else letter for letter in plain).split()


def pieces(text, numbers):
    """The numbers of the pieces of a sentence."""
    found = []
    for word in words_of(text):
        cut, start = [], 0
        while start < len(word) <= LONGEST:
            ends = (end for end in range(len(word), start, -1) if ("##" if start else "") + word[start:end] in numbers)
            end = next(ends, None)
            if end is None:
                cut = []
                break
            cut.append(numbers[("##" if start else "") + word[start:end]])
            start = end
        found += cut or [numbers["[UNK]"]]
    return found


def read_table(path):
    """The sentences of each row of a table, and the labels (none without that column)."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, restval="", strict=True))
    if not rows or "text" not in rows[0]:
        sys.exit(f"{path}: no rows below a line of names with the column text")
    full = [row for row in rows if row["text"].strip()]
    if len(full) < len(rows):
        print(f"{path}: {len(rows) - len(full)} of {len(rows)} rows have no text and are left out")
    return [[row["text"], *([row["pair"]] if row.get("pair") else [])] for row in full], [row["label"].strip() for row in full if "label" in row]


def main(samples, vocabulary, output):
    """Writes the token file."""
    words = read_words(vocabulary)
    numbers = {word: number for number, word in enumerate(words)}
    if missing := {"[CLS]", "[SEP]", "[UNK]"} - set(numbers):
        sys.exit(f"{vocabulary}: has no {', '.join(sorted(missing))}: not the vocabulary of a BERT")
    sentences, labels = read_table(samples) if samples.endswith(".csv") else ([line.split("\t") for line in read_texts(samples)], [])
    ids, segments = [], []
    for one in sentences:
        sample, which = [numbers["[CLS]"]], [0]
        for segment, sentence in enumerate(one):
            more = [*pieces(sentence, numbers), numbers["[SEP]"]]
            sample += more
            which += [segment] * len(more)
        ids.append(sample)
        segments.append(which)
    write_token_file(output, ids=ids, segments=segments, words=words, labels=labels or None, overwrite=True)
    print(f"{output}: {len(ids)} samples of at most {max(map(len, ids))} tokens")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
