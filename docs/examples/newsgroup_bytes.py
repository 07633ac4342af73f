#!/usr/bin/env python3
"""20 Newsgroups as bytes, a token file for input/train/20news_bytes.ini.

    PYTHONPATH=postprocess /usr/bin/python3 docs/examples/newsgroup_bytes.py 20news-bydate.tar.gz TOKENS.h5 [BYTES]

The posts of a split, whole, are joined by newlines in a random order and cut into lines of BYTES (256) and one more bytes, the last of which is the
first of the next line: it is guessed at the end of the one and seen at the beginning of the other. Bytes behind the last whole line are left out.
"""

import sys
import tarfile

import numpy as np

from fluxformer.tokens import write_token_file


def lines_of(posts, length):
    """Lines [line, byte] of a list of posts."""
    order = np.random.default_rng(0).permutation(len(posts))
    text = np.frombuffer(b"\n".join(posts[k] for k in order), np.uint8).astype("i4")
    return np.stack([text[first:first + length + 1] for first in range(0, len(text) - length, length)])


def main(archive, output, length=256):
    posts = {"train": [], "test": []}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                posts["train" if "-train/" in member.name else "test"].append(tar.extractfile(member).read())
    train, test = (lines_of(posts[split], int(length)) for split in ("train", "test"))
    write_token_file(output, ids=train, token_bytes=np.ones_like(train), words=[f"byte-{byte}" for byte in range(256)],
                     test={"ids": test, "token_bytes": np.ones_like(test)})
    print(f"{output}: {len(train)} lines for training, {len(test)} for testing")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
