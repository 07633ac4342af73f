"""Tokenisers of published models, in Python's standard library: texts as numbers of words, and back.

    from fluxformer.tokenisers import read_tokeniser
    tokeniser = read_tokeniser(["tokenizer.json"])        # or ["vocab.txt"], or ["vocab.json", "merges.txt"]
    numbers = tokeniser.encode("a text").ids
    text = tokeniser.decode(numbers)

A text goes through added words ([MASK], <|endoftext|>), normalisers, splits into pieces, a model that makes words of each piece (WordPiece,
merges of pairs), and a template that puts special words around.
"""

from fluxformer.tokenisers.reading import read_tokeniser
from fluxformer.tokenisers.tokeniser import Encoding, Tokeniser

__all__ = ["Encoding", "Tokeniser", "read_tokeniser"]
