"""Reads the files of published tokenisers: tokenizer.json, vocab.txt, or vocab.json and merges.txt.

The last two say less than a tokenizer.json: what it would hold for BERT, GPT-2 and RoBERTa is written out here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fluxformer.hdf5_file import RunError
from fluxformer.text import once
from fluxformer.tokenisers.added_words import added_word_of
from fluxformer.tokenisers.decoders import decoder_of
from fluxformer.tokenisers.entry import Entry
from fluxformer.tokenisers.merges import Merges
from fluxformer.tokenisers.normalisers import normaliser_of
from fluxformer.tokenisers.splits import Splitting
from fluxformer.tokenisers.templates import template_of
from fluxformer.tokenisers.tokeniser import Model, Tokeniser
from fluxformer.tokenisers.word_pieces import WordPieces
from fluxformer.words import read_lines, read_text, read_words, tokenizer_words

PARTS = ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model")
KINDS = ("WordPiece", "BPE")
OF_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OF_GPT2 = ("<|endoftext|>",)
OF_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def read_tokeniser(paths: Sequence[str], cased: bool = False) -> Tokeniser:
    """Reads a tokeniser.

    Parameters
    ----------
    paths : sequence of str
        tokenizer.json; or vocab.txt, that of BERT, a word per line; or vocab.json and merges.txt, those of GPT-2 or RoBERTa.
    cased : bool
        True: vocab.txt keeps capitals and accents.

    Raises
    ------
    RunError
        If a file cannot be read, or asks for what is not computed here: it names that.
    """
    paths = [paths] if isinstance(paths, str) else list(paths)
    vocabularies = [path for path in paths if path.lower().endswith(".json")]
    others = [path for path in paths if path not in vocabularies]
    for path in others:
        if path.lower().endswith(".model"):
            raise RunError(f"{path}: a file of SentencePiece, which is not read; the tokenizer.json of the model is")
    if (len(vocabularies), len(others)) not in ((1, 0), (0, 1), (1, 1)):
        raise RunError(f"{', '.join(paths) or 'no file'}: a tokeniser is tokenizer.json, or vocab.txt, or vocab.json and merges.txt")
    if cased and vocabularies:
        raise RunError(f"{paths[0]}: only a vocab.txt needs to be told that it has capital letters (cased)")
    if not vocabularies:
        return _of_vocabulary(paths[0], cased)
    return _of_merges(vocabularies[0], others[0]) if others else _of_json(paths[0])


def _of_json(path: str) -> Tokeniser:
    """The tokeniser of a tokenizer.json."""
    try:
        found = json.loads(read_text(path), object_pairs_hook=once)
    except (ValueError, RecursionError) as failure:
        raise RunError(f"{path}: not the file of a tokeniser: {failure}") from None
    entry = Entry(path, "", found)
    if not isinstance(found.get("model"), dict):
        raise RunError(f"{path}: not the file of a tokeniser: it has no object model; a vocabulary (word: number) needs its merges.txt behind it")
    _kind(Entry(path, "model", found["model"]))  # of other kinds the words may be no object
    words = tokenizer_words(path, found)
    if len(numbers := {word: number for number, word in enumerate(words)}) < len(words):
        word = next(word for number, word in enumerate(words) if numbers[word] != number)
        raise RunError(f"{path}: {word!r} has the numbers {words.index(word)} and {numbers[word]}, in model.vocab and in added_tokens")
    ignored = [name for name in ("truncation", "padding") if entry.has(name)]
    return _built(entry, words, [f"{path}: {' and '.join(ignored)} of the file {'is' if len(ignored) == 1 else 'are'} ignored"] if ignored else [])


def _of_vocabulary(path: str, cased: bool) -> Tokeniser:
    """The tokeniser of BERT, from its words."""
    words = read_words(path)
    numbers = {word: number for number, word in enumerate(words)}
    if missing := [word for word in ("[UNK]", "[CLS]", "[SEP]") if word not in numbers]:
        raise RunError(f"{path}: has no {', '.join(missing)}: not the vocabulary of a BERT")
    capitals = sum(word != word.lower() for word in words if word not in OF_BERT)
    notes = [f"{path}: {capitals} of {len(words)} words have capital letters and are in no text, which becomes lower-case: is it a vocabulary with "
             "capitals (--cased)?"] if not cased and 100 * capitals > len(words) else []
    return _built(Entry(path, "", {
        "added_tokens": _specials(OF_BERT, numbers), "normalizer": {"type": "BertNormalizer", "lowercase": not cased},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", numbers["[CLS]"]], "sep": ["[SEP]", numbers["[SEP]"]]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]"}}), words, notes)


def _of_merges(vocabulary: str, merges: str) -> Tokeniser:
    """The tokeniser of GPT-2, or of RoBERTa if its special words are there."""
    words = read_words(vocabulary)
    numbers = {word: number for number, word in enumerate(words)}
    pairs = [line for line in read_lines(merges) if line and not line.startswith("#version")]
    roberta = all(word in numbers for word in OF_ROBERTA)
    around = {"type": "RobertaProcessing", "cls": ["<s>", numbers.get("<s>")], "sep": ["</s>", numbers.get("</s>")]}
    notes = [f"{vocabulary}: read as words of {'RoBERTa' if roberta else 'GPT-2'}: these two files do not say how texts are split, nor which words "
             "are special; a tokenizer.json does"]
    return _built(Entry(merges, "", {
        "added_tokens": _specials(OF_ROBERTA if roberta else OF_GPT2, numbers), "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": around if roberta else None, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "merges": pairs}}), words, notes)


def _specials(usual: Sequence[str], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """The usual special words that a vocabulary has, as entries of added_tokens. <mask> takes the blank in front of it along."""
    return [{"id": numbers[word], "content": word, "special": True, "normalized": False, "lstrip": word == "<mask>"} for word in usual if word in numbers]


def _built(entry: Entry, words: Sequence[str], notes: Sequence[str]) -> Tokeniser:
    """The tokeniser that all entries of a tokenizer.json describe, with the words in the order of their numbers."""
    entry.known(*PARTS)
    entry.must_be("version", "1.0")
    numbers = {word: number for number, word in enumerate(words)}
    added = [added_word_of(one) for one in entry.parts("added_tokens")]
    splitting = Splitting(entry.part("pre_tokenizer"))
    part = entry.part("model") or entry
    model, unknown = _model(part, numbers, splitting)
    contents = frozenset(word.text for word in added)
    return Tokeniser(words, added, normaliser_of(entry.part("normalizer")), splitting, model, template_of(entry.part("post_processor"), numbers),
                     lambda: decoder_of(entry.part("decoder"), contents), unknown, notes)


def _kind(entry: Entry) -> str:
    """The type of a model, which old files do not say."""
    return entry.kind(KINDS) if entry.has("type") else "BPE" if entry.has("merges") else "WordPiece"


def _model(entry: Entry, numbers: Mapping[str, int], splitting: Splitting) -> tuple[Model, int | None]:
    """The model that makes words of pieces, and the number of its unknown word."""
    kind, unknown = _kind(entry), None
    if entry.has("unk_token"):
        unknown = numbers.get(entry.text("unk_token"))
        if unknown is None:
            raise entry.refuse("is not in the vocabulary", "unk_token")
    if kind == "WordPiece":
        entry.known("type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word")
        if unknown is None:
            raise entry.refuse("is missing", "unk_token")
        if splitting.byte_level:
            raise entry.refuse("words of WordPiece are not of bytes, as ByteLevel of pre_tokenizer would have them", "type")
        return WordPieces(numbers, unknown, entry.text("continuing_subword_prefix", "##"), entry.whole("max_input_chars_per_word", 100)), unknown
    entry.known("type", "vocab", "merges", "unk_token", "dropout", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                "ignore_merges")
    entry.must_be("dropout", 0, 0.0)
    entry.must_be("continuing_subword_prefix", "")
    entry.must_be("end_of_word_suffix", "")
    merges = [_pair(entry, place, one) for place, one in enumerate(entry.items("merges"))]
    try:
        return Merges(numbers, merges, byte_level=splitting.byte_level, unknown=unknown, fuse=entry.flag("fuse_unk", False),
                      fallback=entry.flag("byte_fallback", False), whole_first=entry.flag("ignore_merges", False)), unknown
    except RunError as failure:
        raise RunError(f"{entry.path}: {failure}") from None


def _pair(entry: Entry, place: int, merge: Any) -> tuple[str, str]:
    """The two words of a merge, "a b" or ["a", "b"]."""
    words = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(words, list) or len(words) != 2 or not all(isinstance(word, str) and word for word in words):
        raise entry.refuse(f"merge {place} is no pair of words: {json.dumps(merge, ensure_ascii=False)[:60]}", "")
    return words[0], words[1]
