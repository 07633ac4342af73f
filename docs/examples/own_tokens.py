#!/usr/bin/env python3
"""Tokens of your own: a tokeniser that Fluxformer knows nothing of writes a token file.

    PYTHONPATH=postprocess /usr/bin/python3 docs/examples/own_tokens.py LINES.txt vocab.txt TOKENS.h5

LINES.txt has a sample per line; a tab separates the two sentences of a pair. The tokeniser is that of BERT in a few lines: small letters,
punctuation by itself, and words cut into the longest pieces that vocab.txt has ("##" in front of all but the first). With a tokeniser
of your own only `pieces` changes, or with numbers instead of words (tokenizer.encode(line).ids) nothing but the last call is needed.
"""

import re
import sys

from fluxformer.tokens import write_token_file


def pieces(text, numbers):
    """The numbers of the pieces of a sentence."""
    found = []
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        cut, start = [], 0
        while start < len(word):
            ends = (end for end in range(len(word), start, -1) if ("##" if start else "") + word[start:end] in numbers)
            end = next(ends, None)
            if end is None:
                cut = [numbers["[UNK]"]]
                break
            cut.append(numbers[("##" if start else "") + word[start:end]])
            start = end
        found += cut
    return found


def main(lines, vocabulary, output):
    """Writes the token file."""
    with open(vocabulary, encoding="utf-8") as stream:
        words = stream.read().split("\n")[:-1]
    numbers = {word: number for number, word in enumerate(words)}
    ids, segments = [], []
    with open(lines, encoding="utf-8") as stream:
        for line in stream:
            sample, which = [numbers["[CLS]"]], [0]
            for segment, sentence in enumerate(line.rstrip("\n").split("\t")):
                more = [*pieces(sentence, numbers), numbers["[SEP]"]]
                sample += more
                which += [segment] * len(more)
            ids.append(sample)
            segments.append(which)
    write_token_file(output, ids=ids, segments=segments, words=words, overwrite=True)
    print(f"{output}: {len(ids)} samples of at most {max(map(len, ids))} tokens")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
