#!/usr/bin/env python3
"""Tokenisers of published models: words, segments and texts are those of the published library, number by number, bytes come back as they
were, and what is not computed is refused by its name.

tests/support/tokenisers_reference.json has small tokenisers of ten kinds and what the library (tokenizers 0.23.2) makes of awkward sentences.
Another implementation, that of JavaScript, makes a final sigma of the last sigma of a word and has other blocks of Chinese characters; the
rules here are those of the library. Characters that Unicode 14 does not have (Python 3.11) are left as they are: newer tables may call them marks,
letters or numbers. The sentences hold none.
"""

import copy
import json
import os
import random
import re
import sys
import unicodedata
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import h5py  # noqa: E402 (its folder is put on the path first)

from python_package import FolderTest, call  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.tokenisers import read_tokeniser  # noqa: E402
from fluxformer.tokenisers.merges import BYTES, LETTERS, Merges  # noqa: E402
from fluxformer.tokenisers.normalisers import BertNormaliser  # noqa: E402
from fluxformer.tokenisers.splits import GPT2, NEWER, PATTERNS, bert_split, by_shape  # noqa: E402
from fluxformer.tokenisers.word_pieces import WordPieces  # noqa: E402
from fluxformer.tokens import write_token_file  # noqa: E402

with open(os.path.join(ROOT, "tests", "support", "tokenisers_reference.json"), encoding="utf-8") as stream:
    TABLE = json.load(stream)
SENTENCES, KINDS = TABLE["sentences"], TABLE["tokenisers"]
BYTE_LEVEL = [name for name, one in KINDS.items() if "ByteLevel" in json.dumps(one["file"]["pre_tokenizer"])]
SEQUENCE = {"type": "Sequence"}
# Those that stand in a text file as they are, each on a line.
LINES = [sentence for sentence in SENTENCES if sentence and not set("\n\r\t") & set(sentence) and not sentence.startswith("\ufeff")]


def bytes_of(kind, text):
    """The bytes of a text behind the normaliser of a kind, which has none or NFC."""
    return len((unicodedata.normalize("NFC", text) if KINDS[kind]["file"]["normalizer"] else text).encode("utf-8"))


class TokeniserTest(FolderTest):
    def write(self, name, content):
        with open(self.path(name), "wb") as stream:
            stream.write(content if isinstance(content, bytes) else content.encode("utf-8"))
        return self.path(name)

    def saved(self, file, name="tokenizer.json"):
        return self.write(name, json.dumps(file))

    def tokeniser(self, kind, **changes):
        return read_tokeniser([self.saved({**KINDS[kind]["file"], **changes})])


class RecordedTable(TokeniserTest):
    def test_there_are_enough_sentences_and_kinds(self):
        self.assertGreaterEqual(len(SENTENCES), 63)
        self.assertGreaterEqual(len(KINDS), 9)
        self.assertEqual(len(BYTE_LEVEL), 7)

    def test_words_are_those_of_the_published_library(self):
        for kind, one in KINDS.items():
            tokeniser, recorded = self.tokeniser(kind), one["recorded"]
            for sentence, plain, (front, back) in zip(SENTENCES, recorded["plain"], recorded["around"], strict=True):
                with self.subTest(kind=kind, sentence=ascii(sentence)):
                    self.assertEqual(tokeniser.encode(sentence, specials=False).ids, plain)
                    self.assertEqual(tokeniser.encode(sentence).ids, [*front, *plain, *back])

    def test_pairs_and_their_segments_are(self):
        for kind, one in KINDS.items():
            tokeniser = self.tokeniser(kind)
            for (first, second), (ids, segments) in zip(TABLE["pairs"], one["recorded"]["pairs"], strict=True):
                found = tokeniser.encode(SENTENCES[first], SENTENCES[second])
                with self.subTest(kind=kind, pair=(first, second)):
                    self.assertEqual((found.ids, found.segments), (ids, segments))

    def test_texts_that_come_back_are(self):
        # The library makes small letters of an added word that is found in small letters, and no character of one whose letters could be bytes.
        ours = {("bert-uncased", "Fluxformer fluxformer FLUXFORMER xFluxformer Fluxformers Flux-former"):
                "Fluxformer Fluxformer Fluxformer xfluxformer fluxformers flux - former",
                ("modernbert", "Caf\u00e9 na\u00efve r\u00e9sum\u00e9 \u00c5ngstr\u00f6m"): "Caf\u00e9 na\u00efve r\u00e9sum\u00e9 \u00c5ngstr\u00f6m",
                ("modernbert", "Cafe\u0301 nai\u0308ve A\u030angstro\u0308m"): "Caf\u00e9 na\u00efve \u00c5ngstr\u00f6m"}
        for kind, one in KINDS.items():
            tokeniser, recorded = self.tokeniser(kind), one["recorded"]
            for sentence, plain, text in zip(SENTENCES, recorded["plain"], recorded["text"], strict=True):
                with self.subTest(kind=kind, sentence=ascii(sentence)):
                    self.assertEqual(tokeniser.decode(plain), ours.get((kind, sentence), sentence if text is None else text))

    def test_bytes_come_back_as_they_were(self):
        for kind in BYTE_LEVEL:
            tokeniser = self.tokeniser(kind)
            edges = tokeniser.encode("").ids
            for sentence in SENTENCES:
                found = tokeniser.encode(sentence, specials=False)
                with self.subTest(kind=kind, sentence=ascii(sentence)):
                    if KINDS[kind]["file"]["normalizer"] is None and kind != "roberta":  # which puts blanks in front
                        taken = re.sub(r"\s*<mask>", "<mask>", sentence) if "<mask>" in tokeniser.words else sentence
                        self.assertEqual(tokeniser.decode(found.ids, specials=True).encode(), taken.encode())
                    self.assertEqual((len(found.sizes), sum(found.sizes)), (len(found.ids), bytes_of(kind, sentence)))
                    # Specials stand around the text and have no bytes; its words keep theirs.
                    whole = tokeniser.encode(sentence)
                    self.assertIn((whole.ids, whole.sizes), [(edges[:front] + found.ids + edges[front:], [0] * front + found.sizes + [0] * (len(edges) - front))
                                                             for front in range(len(edges) + 1)])
        self.assertEqual(self.tokeniser("llama2").encode("a").sizes, [])


class Rules(TokeniserTest):
    def test_bytes_are_letters(self):
        self.assertEqual((len(LETTERS), len(BYTES), sum(ord(letter) == byte for byte, letter in LETTERS.items())), (256, 256, 188))
        self.assertEqual([LETTERS[ord(one)] for one in " \n!~"], ["\u0120", "\u010a", "!", "~"])
        self.assertEqual(LETTERS[0xAD], "\u0143")  # the last one: the soft hyphen is not seen

    def test_words_of_bytes_that_are_no_text_are_marked_one_by_one(self):
        tokeniser = self.tokeniser("llama2")
        for content, text in ((b"\xe2\x82\xac", "\u20ac"), (b"\xe2\x82", "\ufffd\ufffd"), (b"\xff", "\ufffd")):
            self.assertEqual(tokeniser.decode(tokeniser.words.index(f"<0x{byte:02X}>") for byte in content), text)
        tokeniser = self.tokeniser("gpt2")
        self.assertEqual(tokeniser.decode(tokeniser.words.index(LETTERS[byte]) for byte in b"\xe2\x82a"), "\ufffda")

    def test_the_pair_of_lowest_rank_is_merged_first_and_of_equal_ones_the_first(self):
        def slowly(letters, merges):
            words = list(letters)
            while ranked := [(merges.index(pair), place) for place, pair in enumerate(zip(words, words[1:])) if pair in merges]:
                place = min(ranked)[1]
                words[place:place + 2] = ["".join(words[place:place + 2])]
            return words

        draw = random.Random(11)
        for blanks in (False, True):
            for _ in range(60):
                words, merges = list("ab\u2581" if blanks else "abc"), []
                for _ in range(draw.randrange(1, 25)):
                    pair = (draw.choice(words), draw.choice(words))
                    if len("".join(pair)) < 9 and "".join(pair) not in words and (draw.random() < 0.1 or "\u2581" not in pair[1]):
                        merges.append(pair)
                        words.append("".join(pair))
                model = Merges({word: number for number, word in enumerate(words)}, merges)
                for _ in range(30):
                    text = "".join(draw.choice(words[:3]) for _ in range(draw.randrange(1, 40)))
                    self.assertEqual([words[number] for number in model.words(text)], slowly(text, merges), (text, merges))

    def test_characters_without_a_word_become_bytes_or_unknown(self):
        numbers = {word: number for number, word in enumerate(["<unk>", "a", *(f"<0x{byte:02X}>" for byte in range(256))])}
        model = Merges(numbers, [], unknown=0, fuse=True, fallback=True)
        self.assertEqual(list(model.words("a\u20ac\n")), [1, *(2 + byte for byte in b"\xe2\x82\xac\n")])
        few = {"<unk>": 0, "a": 1}
        self.assertEqual(list(Merges(few, [], unknown=0, fuse=True, fallback=True).words("xya\u20ac")), [0, 1, 0])
        self.assertEqual(list(Merges(few, [], unknown=0).words("xya")), [0, 0, 1])
        with self.assertRaisesRegex(fluxformer.RunError, r"no word for the character 'x' \(U\+0078\)"):
            Merges(few, []).words("ax")
        with self.assertRaisesRegex(fluxformer.RunError, "no word for the byte 0x0A"):
            Merges(few, [], byte_level=True).words("\n")

    def test_white_space_letters_and_contractions_are_those_of_the_patterns(self):
        gpt2, llama, qwen = (by_shape(PATTERNS[pattern]) for pattern in (GPT2, NEWER % "{1,3}", NEWER % ""))
        for split, text, pieces in (
                (gpt2, "I'll  I'LL", ["I", "'ll", " ", " I", "'", "LL"]), (llama, "I'll  I'LL", ["I", "'ll", " ", " I", "'LL"]),
                (qwen, "it'\u017fx'S", ["it", "'\u017f", "x", "'S"]), (gpt2, "\x1c.", ["\x1c."]), (gpt2, "it'\u017f", ["it", "'", "\u017f"]),
                (llama, "12345", ["123", "45"]), (qwen, "123", ["1", "2", "3"]), (gpt2, " 12\u0663\u00bd\u2167 x", [" 12\u0663\u00bd\u2167", " x"]),
                (llama, "a \n\n  b", ["a", " \n\n", " ", " b"]), (gpt2, "a \n\n  b", ["a", " \n\n ", " b"]),
                (llama, "!a\n!!\r\nb", ["!a", "\n", "!!\r\n", "b"]), (llama, "\u00a0b", ["\u00a0b"]), (gpt2, "a  ", ["a", "  "]),
                (gpt2, "a\u0085\u2028\u3000b\x1cc", ["a", "\u0085\u2028", "\u3000", "b", "\x1c", "c"])):
            with self.subTest(text):
                self.assertEqual(split(text), pieces)
        # Each piece is split by itself: no blank is left for the number.
        self.assertEqual(self.tokeniser("smollm")._splitting.cut("a  12"), ["a", "  ", "1", "2"])

    def test_the_normaliser_of_bert_has_its_order(self):
        uncased = BertNormaliser(clean=True, chinese=True, strip=True, lower=True)
        cased = BertNormaliser(clean=True, chinese=True, strip=False, lower=False)
        accents = BertNormaliser(clean=True, chinese=False, strip=False, lower=True)
        for normalise, text, expected in (
                (uncased, "\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c3"), (uncased, "\u0130", "i"), (accents, "\u0130\u00c9", "i\u0307\u00e9"),
                (cased, "a\u000bb\u000cc\u0085d\u200be\u00adf\ufeffg\0h\ufffdi\ue000j", "abcdefghij"),
                (cased, "a\tb\nc\rd\u00a0e\u3000f", "a b c d e f"), (cased, "x\u4e00y\U0002b81f", "x \u4e00 y \U0002b81f "),
                (cased, "\U0002b820\U0002b91f", "\U0002b820\U0002b91f"), (cased, "\U0002b920", " \U0002b920 "),
                (cased, "\u0378", "\u0378"),  # unassigned
                (uncased, "\u0903\u093e", "\u0903\u093e"),  # Mc
                (uncased, "\u1e69\u0338", "s"), (uncased, "\uac00", "\u1100\u1161")):
            with self.subTest(ascii(text)):
                self.assertEqual(normalise(text), expected)

    def test_pieces_of_bert_are_the_longest_words(self):
        self.assertEqual(bert_split()("it's $5+x\u00a0\u2014(\u00bfy?)"),
                         ["it", "'", "s", "$", "5", "+", "x", "\u2014", "(", "\u00bf", "y", "?", ")"])
        model = WordPieces({"?": 0, "ab": 1, "a": 2, "##b": 3, "##bc": 4, "b": 5}, 0, "##", 100)
        for piece, words in (("abb", (1, 3)), ("abc", (0,)), ("abbc", (1, 4)), ("ba", (0,)), ("a" + "b" * 99, (1, *[3] * 98)),
                             ("a" + "b" * 100, (0,))):
            self.assertEqual(model.words(piece), words, piece)

    def test_added_words_are_found_first_the_longest_with_their_blanks(self):
        file = copy.deepcopy(KINDS["gpt2"]["file"])
        count = len(file["model"]["vocab"]) + 1
        for content, how in (("<a>", {"lstrip": True}), ("<a><b>", {"rstrip": True}), ("word", {"single_word": True})):
            file["added_tokens"].append({"id": count, "content": content, "normalized": False, "special": True, **how})
            count += 1
        tokeniser = read_tokeniser([self.saved(file)])
        for text, parts in (("x \u00a0<a> y", [("x", None), (" \u00a0<a>", "<a>"), (" y", None)]),
                            ("<a><b> \n <a>", [("<a><b> \n ", "<a><b>"), ("<a>", "<a>")]),
                            ("word words sword (word) word1_word", [("word", "word"), (" words sword (", None), ("word", "word"), (") word1_word", None)])):
            self.assertEqual([(part, word and word.text) for part, word in tokeniser._raw.cut(text)], parts)
        self.assertEqual([word.text for word in tokeniser.encode("word <a>").found], ["word", "<a>"])

    def test_the_longer_text_of_a_pair_is_cut_first(self):
        tokeniser = self.tokeniser("bert-uncased")
        words = [tokeniser.encode(text, specials=False).ids for text in ("the the the the the", "a a", "a a a a a a a a")]
        self.assertEqual([len(one) for one in words], [5, 2, 8])
        cls, sep = 2, 3
        self.assertEqual(tokeniser.encode("the the the the the", "a a", length=9).ids, [cls, *words[0][:4], sep, *words[1], sep])
        self.assertEqual(tokeniser.encode("the the the the the", "a a a a a a a a", length=10).ids, [cls, *words[0][:3], sep, *words[2][:4], sep])
        self.assertEqual(tokeniser.encode("the the the the the", length=4).ids, [cls, *words[0][:2], sep])
        with self.assertRaisesRegex(fluxformer.RunError, "a length of 2 leaves no token"):
            tokeniser.encode("the", length=2)

    def test_patterns_of_other_models_need_python3_regex(self):
        split = {"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated", "invert": False}
        last = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
        with mock.patch.dict(sys.modules, {"regex": None}), self.assertRaisesRegex(fluxformer.RunError, "others need the package python3-regex"):
            self.tokeniser("gpt2", pre_tokenizer={**SEQUENCE, "pretokenizers": [split, last]})
        with mock.patch.dict(sys.modules, {"regex": re}):
            for changes, pieces in (({}, ["ab", " 1 ", "c"]), ({"behavior": "Removed", "invert": True}, ["ab", "c"])):
                tokeniser = self.tokeniser("gpt2", pre_tokenizer={**SEQUENCE, "pretokenizers": [{**split, **changes}, last]})
                self.assertEqual(tokeniser._splitting.cut("ab 1 c"), pieces)
            with self.assertRaisesRegex(fluxformer.RunError, "no pattern that python3-regex reads"):
                self.tokeniser("gpt2", pre_tokenizer={**split, "pattern": {"Regex": "["}})


class Refused(TokeniserTest):
    def test_what_is_not_computed_is_named(self):
        def model(kind, **changes):
            return {"model": {**KINDS[kind]["file"]["model"], **changes}}

        def added(**changes):
            first, *rest = KINDS["gpt2"]["file"]["added_tokens"]
            return {"added_tokens": [{**first, **changes}, *rest]}

        pre, byte_level = KINDS["qwen2"]["file"]["pre_tokenizer"], KINDS["gpt2"]["file"]["pre_tokenizer"]
        split = pre["pretokenizers"][0]
        template = KINDS["llama3"]["file"]["post_processor"]["processors"][1]
        begin = template["special_tokens"]["<|begin_of_text|>"]
        vocabulary = KINDS["gpt2"]["file"]["model"]["vocab"]
        gap = {word: number + (number > 5) for word, number in vocabulary.items()}
        cases = [
            ("gpt2", model("gpt2", type="Unigram"), 'model.type = "Unigram": not read here; there are WordPiece, BPE'),
            ("gpt2", {"model": {"type": "Unigram", "vocab": [["a", -1.0]]}}, "Unigram"), ("gpt2", model("gpt2", type="WordLevel"), "WordLevel"),
            ("gpt2", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}}, 'normalizer.type = "Precompiled"'),
            ("gpt2", {"normalizer": {**SEQUENCE, "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]}}, 'normalizer.normalizers[1].type = "Nmt"'),
            ("gpt2", {"normalizer": {"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}}, "only a text"),
            ("llama2", {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"}}, 'pre_tokenizer.type = "Metaspace"'),
            ("gpt2", {"pre_tokenizer": {"type": "Whitespace"}}, '"Whitespace"'),
            ("gpt2", model("gpt2", end_of_word_suffix="</w>"), 'model.end_of_word_suffix = "</w>"'),
            ("gpt2", model("gpt2", dropout=0.1), "model.dropout = 0.1: not read"),
            ("gpt2", model("gpt2", continuing_subword_prefix="##"), "continuing_subword_prefix"),
            ("gpt2", model("gpt2", unk_token="?!"), 'model.unk_token = "?!": is not in the vocabulary'),
            ("gpt2", model("gpt2", fuse_unk=1), "fuse_unk = 1: must be true or false"),
            ("gpt2", model("gpt2", other=3), "model.other = 3: an entry that is not known here"),
            ("gpt2", {"extra": {}}, "extra = {}: an entry that is not known"), ("gpt2", {"version": "2.0"}, 'version = "2.0"'),
            ("gpt2", model("gpt2", merges=["a b c"]), 'merge 0 is no pair of words: "a b c"'),
            ("gpt2", model("gpt2", merges=["t \u0401"]), "merge 0 (t \u0401): '\u0401' is not in the vocabulary"),
            ("gpt2", model("gpt2", vocab=gap), "where 6 is expected"), ("gpt2", model("gpt2", vocab={}), "where 0 is expected"),
            ("gpt2", {"pre_tokenizer": {**SEQUENCE, "pretokenizers": [byte_level, {"type": "Digits"}]}},
             'pretokenizers[1].type = "Digits": stands behind ByteLevel'),
            ("gpt2", {"pre_tokenizer": {**split, "behavior": "MergedWithNext"}}, '"MergedWithNext": pieces must be the matches'),
            ("gpt2", {"pre_tokenizer": {**split, "pattern": {"String": " "}}}, "pre_tokenizer.pattern"),
            ("gpt2", {"pre_tokenizer": {**byte_level, "new": True}}, "pre_tokenizer.new = true"),
            ("gpt2", added(id=len(vocabulary) + 1), f"'<|endoftext|>' has {len(vocabulary) + 1} where {len(vocabulary)}"),
            ("gpt2", added(content=""), "word 476 is empty"),
            ("gpt2", added(content="\ud800"), "word 476 is no text in Unicode"), ("gpt2", added(lstrip=1), "added_tokens[0].lstrip = 1"),
            ("bert-cased", added(id=427, content="the"), "'the' has the numbers"),
            ("gpt2", {"post_processor": {"type": "Other"}}, 'post_processor.type = "Other"'),
            ("llama3", {"post_processor": {**SEQUENCE, "processors": [template, template]}}, "several of them add special words"),
            ("llama3", {"post_processor": {**template, "special_tokens": {"<|begin_of_text|>": {**begin, "ids": [7]}}}},
             "has the number 7, but in the vocabulary"),
            ("llama3", {"post_processor": {**template, "special_tokens": {}}}, "is not in special_tokens"),
            ("llama3", {"post_processor": {**template, "single": template["single"][:1]}}, "single = "),
            ("llama3", {"post_processor": {**template, "pair": [{"Sequence": {"id": "C", "type_id": 0}}]}}, 'pair[0].Sequence.id = "C": must be A or B'),
            ("roberta", {"post_processor": {**KINDS["roberta"]["file"]["post_processor"], "cls": ["<s>", 5]}}, "'<s>' has the number 5"),
            ("bert-cased", {"pre_tokenizer": byte_level}, "words of WordPiece are not of bytes"),
            ("bert-cased", model("bert-cased", unk_token=None), "model.unk_token"), ("gpt2", {"model": []}, "it has no object model"),
            ("gpt2", {"added_tokens": {}}, "added_tokens")]
        for kind, changes, part in cases:
            with self.subTest(part), self.assertRaises(fluxformer.RunError) as refused:
                self.tokeniser(kind, **changes)
            self.assertIn(part, str(refused.exception))
            self.assertIn("tokenizer.json: ", str(refused.exception))

    def test_a_decoder_is_refused_when_it_is_needed(self):
        tokeniser = self.tokeniser("gpt2", decoder={"type": "CTC"})
        ids = tokeniser.encode("the").ids
        with self.assertRaisesRegex(fluxformer.RunError, 'decoder.type = "CTC": not read here'):
            tokeniser.decode(ids)
        self.assertEqual(self.tokeniser("gpt2", decoder=None).decode([1, 2]), '" #')
        with self.assertRaisesRegex(fluxformer.RunError, "no word 999: its last one is 476"):
            self.tokeniser("gpt2").decode([999])

    def test_files_that_are_none_are_named(self):
        vocabulary, merges = self.write("vocab.json", '{"a": 0, "b": 1}'), self.write("merges.txt", "#version: 0.2\na b\n")
        text = self.write("vocab.txt", "a\nb\n")
        for paths, part in ((["x.model"], "a file of SentencePiece"), ([vocabulary], "needs its merges.txt"),
                            ([text, merges], "a tokeniser is tokenizer.json, or"),
                            ([vocabulary, merges, text], "a tokeniser is tokenizer.json, or"), ([], "no file: a tokeniser is"),
                            ([vocabulary, merges], r"merge 0 \(a b\): 'ab' is not in the vocabulary"), ([text], r"has no \[UNK\], \[CLS\], \[SEP\]"),
                            ([self.write("odd.json", "{")], "not the file of a tokeniser"),
                            ([self.write("twice.json", '{"model": {}, "model": {}}')], "model is in it twice"),
                            ([self.write("list.json", "[]")], "is no object"), ([self.path("none.json")], "no such file"),
                            ([self.write("latin.json", b'{"model": "\xe9"}')], "not a text in UTF-8: byte 12 of line 1 is 0xE9")):
            with self.subTest(part), self.assertRaisesRegex(fluxformer.RunError, part):
                read_tokeniser(paths)
        with self.assertRaisesRegex(fluxformer.RunError, "only a vocab.txt needs to be told"):
            read_tokeniser([vocabulary, merges], cased=True)

    def test_old_files_without_a_type_and_with_a_mark_are_read(self):
        for kind in ("gpt2", "bert-cased"):
            file = copy.deepcopy(KINDS[kind]["file"])
            del file["model"]["type"]
            tokeniser = read_tokeniser([self.write("tokenizer.json", "\ufeff" + json.dumps(file))])
            self.assertEqual(tokeniser.encode(SENTENCES[4], specials=False).ids, KINDS[kind]["recorded"]["plain"][4])


class Commands(TokeniserTest):
    def setUp(self):
        super().setUp()
        self.output = self.path("tokens.h5")

    def tokens(self, text, *options, kind="gpt2", files=None):
        files = files or [self.saved(KINDS[kind]["file"])]
        return call("tokens", self.write("lines.txt", text), "--tokenizer", *files, "--output", self.output, "--overwrite", *options)

    def made(self, *arguments, **options):
        done = self.tokens(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with h5py.File(self.output, "r") as file:
            found = {}
            file.visititems(lambda name, item: found.update({name: item.asstr()[...].tolist() if h5py.check_string_dtype(item.dtype) else item[...].tolist()})
                            if isinstance(item, h5py.Dataset) else None)
        return found, done.stdout

    def text(self, *options, kind="gpt2", files=None):
        return call("text", self.output, "--tokenizer", *(files or [self.saved(KINDS[kind]["file"])]), *options)

    def test_lines_become_samples_with_their_words_specials_and_bytes(self):
        lines = [sentence for sentence in LINES if sentence.strip() and "pad" not in sentence.lower()]
        self.assertGreater(len(lines), 50)
        for kind in KINDS:
            found, said = self.made("\n".join(lines) + "\n", kind=kind)
            tokeniser = self.tokeniser(kind)
            with self.subTest(kind):
                expected = {"ids", "lengths", "words", "specials"} | ({"token_bytes"} if kind in BYTE_LEVEL else set())
                self.assertEqual(set(found), expected)
                self.assertEqual(found["words"], tokeniser.words)
                self.assertEqual(found["specials"], sorted(one["id"] for one in KINDS[kind]["file"]["added_tokens"] if one["special"]))
                for line, row, length in zip(lines, found["ids"], found["lengths"], strict=True):
                    self.assertEqual(row[:length], tokeniser.encode(line).ids)
                if kind in BYTE_LEVEL:
                    self.assertEqual([sum(row) for row in found["token_bytes"]], [bytes_of(kind, line) for line in lines])
            self.assertIn(f"{len(lines)} samples of {max(found['lengths'])} tokens", said)

    def test_texts_come_back_byte_by_byte(self):
        lines = [sentence for sentence in LINES if "<|" not in sentence]
        content = "\n".join(lines) + "\n"
        for kind in ("gpt2", "llama3"):
            self.made(content, kind=kind)
            done = self.text("--output", self.path("back.txt"), "--overwrite", kind=kind)
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", f"{self.path('back.txt')}: {len(lines)} texts\n"))
            with open(self.path("back.txt"), "rb") as stream:
                self.assertEqual(stream.read(), content.encode("utf-8"))
        self.assert_refused(self.text("--output", self.path("back.txt"), kind="llama3"), "--overwrite")

    def test_texts_of_splits_with_specials_and_as_json(self):
        self.made("the cat\na\n", "--test", self.write("more.txt", "[MASK] x\n"), kind="modernbert")
        for options, lines in (((), ["the cat", "a", " x"]), (("--split", "test"), [" x"]), (("--split", "train", "--json"), ['"the cat"', '"a"']),
                               (("--keep-specials",), ["[CLS]the cat[SEP]", "[CLS]a[SEP]", "[CLS][MASK] x[SEP]"])):
            done = self.text(*options, kind="modernbert")
            self.assertEqual((done.stdout.splitlines(), done.stderr, done.returncode), (lines, "", 0))
        self.assert_refused(self.text(kind="gpt2"), "its word ", "they do not belong together")
        numbers = self.tokeniser("gpt2").encode("a\nb").ids
        write_token_file(self.output, ids=[numbers], overwrite=True)
        self.assert_refused(self.text(), "the text of sample 0 has line ends in it: --json")
        self.assertEqual(self.text("--json").stdout, '"a\\nb"\n')
        write_token_file(self.output, ids=[[999]], overwrite=True)
        self.assert_refused(self.text(), "sample 0: the tokeniser has no word 999")
        self.assert_refused(self.text("--split", "test"), "holds no test/ids")

    def test_files_of_bert_gpt2_and_roberta_without_their_tokenizer_json(self):
        text = "The caf\u00e9 ISN'T\t[MASK] it\nx\n"
        for kind, options in (("bert-uncased", ()), ("bert-cased", ("--cased",))):
            words = self.tokeniser(kind).words[:-1]  # without Fluxformer
            by_words, _ = self.made(text, *options, files=[self.write("vocab.txt", "\n".join(words) + "\n")])
            by_file, _ = self.made(text, kind=kind)
            for name in ("ids", "segments", "lengths", "specials"):
                self.assertEqual(by_words[name], by_file[name], (kind, name))
            self.assertEqual(by_words["segments"][0][-1], 1)
        for kind, called in (("gpt2", "GPT-2"), ("roberta", "RoBERTa")):
            model = KINDS[kind]["file"]["model"]
            words = {**model["vocab"], **{one["content"]: one["id"] for one in KINDS[kind]["file"]["added_tokens"]}}
            files = [self.write("vocab.json", json.dumps(words)), self.write("merges.txt", "#version: 0.2\n" + "\n".join(model["merges"]) + "\n")]
            by_words, said = self.made(" The caf\u00e9 <mask> isn't\t it\n x\n", files=files)  # with a blank, which this file of RoBERTa adds
            self.assertIn(f"read as words of {called}", said)
            by_file, _ = self.made(" The caf\u00e9 <mask> isn't\t it\n x\n", kind=kind)
            self.assertEqual(by_words, by_file)
            self.assertEqual(self.text(files=files).returncode, 0)

    def test_vocabularies_that_hardly_fit_say_so(self):
        special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"
        _, said = self.made("the\n", files=[self.write("vocab.txt", special + "The\nthe\n")])
        self.assertIn("1 of 6 words have capital letters", said)
        found, said = self.made("the cat\n", files=[self.write("vocab.txt", special + "the\ncat\nthe\n")])
        self.assertIn("1 words are there more than once, and their last number counts", said)
        self.assertEqual(found["ids"], [[2, 6, 5, 3]])
        _, said = self.made("dog dog dog the\n", files=[self.write("vocab.txt", special + "the\n")])
        self.assertIn("warning: ", said)
        self.assertIn("3 of 4 tokens (75 %) are [UNK]", said)
        _, said = self.made("the\n", files=[self.saved({**KINDS["gpt2"]["file"], "truncation": {"max_length": 2}, "padding": {"strategy": "BatchLongest"}})])
        self.assertIn("truncation and padding of the file are ignored", said)

    def test_options(self):
        line = "the cat isn't it\n"
        found, _ = self.made(line, "--plain", kind="bert-cased")
        whole, _ = self.made(line, kind="bert-cased")
        self.assertEqual([2, *found["ids"][0], 3], whole["ids"][0])
        found, _ = self.made(line, "--length", "5", kind="bert-cased")
        self.assertEqual(found["ids"][0], [*whole["ids"][0][:4], 3])
        found, _ = self.made("a\nb\n", "--labels", self.write("labels.txt", "1\n0\n"), "--test", self.write("more.txt", "a\ta\n"), "--specials", "the",
                             kind="bert-cased")
        self.assertEqual((found["train/labels"], found["train/segments"], found["test/segments"]), ([1, 0], [[0] * 5] * 2, [[0, 0, 0, 1, 1]]))
        self.assertEqual(found["specials"], [0, 1, 2, 3, 4, found["words"].index("the")])
        self.assertEqual(self.made("a <|endoftext|> b\n")[0]["ids"][0].count(476), 1)

    def test_texts_that_make_no_samples_are_refused(self):
        with open(self.output, "w", encoding="utf-8") as stream:
            stream.write("precious")
        for text, options, kind, part in (
                ("a\n\nb\n", (), "gpt2", "line 2 has no words"), ("a\n\nb\n", ("--plain",), "bert-cased", "line 2 has no words"),
                ("a\n\u200b\n", ("--plain",), "bert-cased", "line 2 has no words"), ("a\tb\tc\n", (), "bert-cased", "line 1 has 2 tabs"),
                ("a\nb [PAD] c\n", (), "bert-cased", "line 2 holds '[PAD]': lines need no padding"), ("a\nb <pad>\n", (), "roberta", "line 2 holds '<pad>'"),
                ("x\n a <|endoftext|> b\n", ("--no-specials",), "gpt2", "line 2 holds '<|endoftext|>', which is a special word"),
                ("x\ny [MASK]\n", ("--no-specials",), "bert-cased", "line 2 holds '[MASK]'"), (b"caf\xe9\n", (), "gpt2", "byte 4 of line 1 is 0xE9"),
                (b"a\nb\n12\xff\n", (), "gpt2", "byte 3 of line 3 is 0xFF"), ("a\n", ("--length", "2"), "bert-cased", "line 1: a length of 2 leaves no token"),
                ("a\n", ("--words", "vocab.txt"), "gpt2", "--words is for words between spaces"), ("a\n", ("--first", "x"), "gpt2", "--first is for"),
                ("a\n", ("--cased",), "gpt2", "only a vocab.txt"), ("a\n", ("--labels", self.write("labels.txt", "1\n-1\n")), "gpt2", "label -1"),
                ("a\nb\n", ("--labels", self.write("mixed.txt", "1\nx\n")), "gpt2", "labels are whole numbers or names, not both")):
            with self.subTest(part=part):
                self.assert_refused(self.tokens(text, *options, kind=kind), part)
                self.assertFalse(os.path.exists(self.output + ".part"))
        with open(self.output, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "precious")
        self.assert_refused(call("tokens", self.path("lines.txt"), "--words", "x", "--plain", "--output", self.path("new.h5")), "--plain goes with --tokenizer")
        self.assertEqual(self.made("a\n\nb\n", kind="bert-cased")[0]["lengths"], [3, 2, 3])  # an empty sample has its special words
        self.assertEqual(self.made("\ufeffthe\n\ufeffthe\n", kind="bert-cased")[0]["lengths"], [3, 3])

    def test_bytes_of_tokens_are_arrays_as_segments_are(self):
        write = write_token_file
        write(self.output, ids=[[1, 2], [3]], token_bytes=[[4, 0], [1]])
        with h5py.File(self.output, "r") as file:
            self.assertEqual(file["token_bytes"][...].tolist(), [[4, 0], [1, 0]])
        for arrays, part in (({"ids": [[1, 2], [3]], "token_bytes": [[1], [1]]}, "token_bytes has other lengths"),
                             ({"ids": [[1, 2]], "token_bytes": [[1, -1]]}, "token_bytes holds -1"),
                             ({"features": [[[1.0]]], "token_bytes": [[1]]}, "token_bytes needs ids: only words have bytes")):
            with self.assertRaisesRegex(fluxformer.RunError, part):
                write(self.output, overwrite=True, **arrays)


if __name__ == "__main__":
    unittest.main()
