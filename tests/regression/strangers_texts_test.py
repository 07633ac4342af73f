#!/usr/bin/env python3
"""What strangers bring as texts: padding is never taken for words, vocabularies and texts that do not belong together say so, and the
order of a vocabulary is that of its numbers."""

import os
import subprocess
import sys
import unittest
import warnings
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import h5py  # noqa: E402 (its folder is put on the path first)
import numpy as np  # noqa: E402

from python_package import ENVIRONMENT, FolderTest, call  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.published.config import Config  # noqa: E402
from fluxformer.report.claims import read_claims  # noqa: E402
from fluxformer.tokens import write_token_file  # noqa: E402
from fluxformer.tokens.padding import RIGHT  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "the", "cat"]
MARK = "\ufeff"


class TextsTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.path("tokens.h5")

    def write(self, name, content):
        with open(self.path(name), "wb") as stream:
            stream.write(content if isinstance(content, bytes) else content.encode("utf-8"))
        return self.path(name)

    def stored(self, name):
        with h5py.File(self.output, "r") as file:
            if name not in file:
                return None
            return file[name].asstr()[...].tolist() if h5py.check_string_dtype(file[name].dtype) else file[name][...].tolist()

    def tokens(self, text, vocabulary, *options, name="vocab.txt"):
        return call("tokens", self.write("lines.txt", text), "--words", self.write(name, vocabulary), "--output", self.output, "--overwrite", *options)

    def made(self, *arguments, **options):
        done = self.tokens(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def written(self, **arrays):
        """Writes the file; returns what it warns of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            write_token_file(self.output, overwrite=True, **arrays)
        return [str(one.message) for one in caught]

    def assert_raises(self, part, **arrays):
        with self.assertRaisesRegex(fluxformer.RunError, part):
            write_token_file(self.output, overwrite=True, **arrays)


class Padding(TextsTest):
    IDS = [[2, 3, 0, 0], [2, 3, 2, 3]]

    def test_a_mask_becomes_lengths(self):
        mask = [[1, 1, 0, 0], [1, 1, 1, 1]]
        for kind in (list, np.array, lambda rows: np.array(rows, bool), lambda rows: np.array(rows, np.float32)):
            self.assertEqual(self.written(ids=self.IDS, attention_mask=kind(mask), words=WORDS), [])
            self.assertEqual((self.stored("ids"), self.stored("lengths")), (self.IDS, [2, 4]))
        features = np.ones((2, 4, 3))
        self.written(features=features, attention_mask=mask)
        self.assertEqual(self.stored("lengths"), [2, 4])
        self.written(ids=[[2, 3], [2, 3, 2, 3]], attention_mask=[[1, 1], [1, 1, 1, 0]])
        self.assertEqual(self.stored("lengths"), [2, 3])

    def test_the_names_of_tokenisers_are_taken_in_scripts_and_files(self):
        encoded = {"input_ids": np.array(self.IDS), "token_type_ids": np.array([[0, 1, 0, 0], [0, 0, 1, 1]]), "attention_mask": np.array([[1, 1, 0, 0], [1] * 4])}
        self.written(**encoded, words=WORDS, test=encoded)
        self.assertEqual(self.stored("train/lengths"), [2, 4])
        self.assertEqual(self.stored("test/segments"), [[0, 1, 0, 0], [0, 0, 1, 1]])
        for place in ("", "train/"):
            np.savez(self.path("encoded.npz"), words=WORDS, **{place + name: array for name, array in encoded.items()})
            done = call("tokens", self.path("encoded.npz"), "--output", self.output, "--overwrite")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual((self.stored(place + "ids"), self.stored(place + "lengths")), (self.IDS, [2, 4]))
        self.assert_raises("input_ids and ids are two names of the same", ids=self.IDS, input_ids=self.IDS)

    def test_a_mask_that_is_none_of_padding_on_the_right_is_refused(self):
        for mask, part in (([[0, 0, 1, 1], [1] * 4], r"sample 0 is left-padded: it begins with 2 tokens of padding\. Padding on the left is not read: padding "
                            "stands on the right"),
                           ([[1, 0, 1, 1], [1] * 4], "token 1 of sample 0 is masked, and real ones follow"), ([[1] * 4, [0] * 4], "sample 1 has no real token"),
                           ([[2] * 4, [1] * 4], "other numbers than 1"), ([[1] * 4], r"shape \(1, 4\), expected \(2, 4\)"), ([[1], [1] * 4], "other lengths than ids")):
            with self.subTest(part):
                self.assert_raises(part, ids=self.IDS, attention_mask=mask)
        self.assert_raises("lengths and attention_mask say the same", ids=self.IDS, attention_mask=[[1] * 4] * 2, lengths=[4, 4])

    def test_padding_that_nobody_speaks_of_is_refused(self):
        for pad in ("[PAD]", "<pad>", "<|endoftext|>", "<|pad|>", "</s>"):
            words = [pad, *WORDS[1:]]
            with self.subTest(pad):
                self.assert_raises("1 of 2 samples end with .*sample 0: 2 times.*give attention_mask or lengths", ids=np.array(self.IDS), words=words)
                self.assert_raises("1 of 2 samples end with .*sample 1: 1 times", ids=[[2, 3], [3, 0]], words=words)
                self.assert_raises(f"1 of 2 samples begin with .*Padding on the left is not read: {RIGHT[:20]}", ids=[[0, 0, 3], [2, 2, 3]], words=words)
                self.written(ids=self.IDS, lengths=[2, 4], words=words)
        # Lists of a split are padded already if all have one length, whatever the other split has.
        self.assert_raises("train/ids: 1 of 2 samples end", ids=self.IDS, words=WORDS, test={"ids": [[2, 3, 2, 3, 2]]})
        self.assert_raises("1 of 2 samples end", ids=[[2, 3, 0], [3]], words=WORDS)
        np.savez(self.path("padded.npz"), input_ids=self.IDS, words=WORDS)
        self.assert_refused(call("tokens", self.path("padded.npz"), "--output", self.path("new.h5")), "1 of 2 samples end with '[PAD]'")
        self.assertFalse(os.path.exists(self.path("new.h5")))

    def test_marks_of_an_end_are_no_padding(self):
        words = ["<|endoftext|>", "a", "b"]
        self.assertEqual(self.written(ids=[[1, 2, 0], [2, 1, 0]], words=words), [])  # each sample ends with its own
        self.assertEqual(self.written(ids=[[0, 1, 2], [1, 0, 2]], words=words), [])  # one at the beginning is that of the sample
        self.assertEqual(self.written(ids=[[1, 0, 0], [2, 1, 2]], lengths=[3, 3], words=words), [])  # they are words, it is said
        self.assertEqual(self.written(ids=[[1, 0, 2], [2, 1, 0]], words=words), [])  # they stand between texts, whose blocks may end with one
        self.assertEqual(self.written(ids=[[1, 0], [2, 1, 2]], words=words), [])  # lists of different lengths are not padded
        self.assert_raises("1 of 2 samples end with", ids=[[1, 0, 0], [2]], words=words)
        self.assertEqual(self.written(ids=[[0, 0], [1, 2]], lengths=[1, 2], words=["[PAD]", "a", "b"]), [])  # a text of nothing

    def test_numbers_without_words_are_a_warning(self):
        note, = self.written(ids=self.IDS)
        self.assertIn("1 of 2 samples end with two or more of the number 0, which count as words", note)
        note, = self.written(ids=[[2, 3, 0, 0], [2, 0, 0, 0]])  # padded to a length of the model
        self.assertIn("2 of 2 samples end with", note)
        self.assertEqual(self.written(ids=[[2, 3, 1, 0], [2, 3, 2, 3]]), [])
        np.savez(self.path("plain.npz"), ids=self.IDS)
        self.assertIn("warning: ", call("tokens", self.path("plain.npz"), "--output", self.output, "--overwrite").stdout)

    def test_padding_typed_into_lines_is_refused(self):
        for line in ("the [PAD] [PAD]", "[PAD] the"):
            self.assert_refused(self.tokens(f"the cat\n{line}\n", "\n".join(WORDS)), "line 2 begins or ends with '[PAD]': lines need no padding")


class Vocabularies(TextsTest):
    def test_marks_of_the_order_of_bytes_are_dropped(self):
        self.made(f"{MARK}the cat\n{MARK}cat\n", MARK + "\n".join(WORDS) + "\n")
        self.assertEqual((self.stored("ids"), self.stored("lengths"), self.stored("words")), ([[2, 3], [3, 0]], [2, 1], WORDS))
        self.made("the cat\r\n", MARK + "\r\n".join(WORDS) + "\r\n", "--labels", self.write("labels.txt", f"{MARK}good\r\n"))
        self.assertEqual((self.stored("words"), self.stored("label_names")), (WORDS, ["good"]))
        self.made("the cat", MARK + '{"cat": 1, "the": 0}', name="vocab.json")
        self.assertEqual(self.stored("words"), ["the", "cat"])
        self.written(ids=[[2, 3]], words=[MARK + WORDS[0], *WORDS[1:]])
        self.assertEqual(self.stored("words"), WORDS)
        with open(os.path.join(ROOT, "input", "paper", "compare", "claims.toml"), encoding="utf-8") as stream:
            self.assertGreater(len(read_claims(self.write("claims.toml", MARK + stream.read()))[1]), 1)
        self.assertTrue(Config(self.write("config.json", MARK + '{"model_type": "bert"}')).has("model_type"))

    def test_other_encodings_are_named(self):
        for kind in ("utf-16", "utf-16-be"):
            content = (MARK if kind.endswith("be") else "") + "the cat\n"
            self.assert_refused(self.tokens(content.encode(kind), "\n".join(WORDS)), "lines.txt: a text in UTF-16", "save it as UTF-8")

    def test_a_mapping_is_sorted_by_its_numbers(self):
        self.written(ids=[[2, 3]], words={"[PAD]": 0, "the": 2, "[UNK]": 1, "cat": 3})
        self.assertEqual(self.stored("words"), WORDS)
        self.written(ids=[[2, 3]], words={word: np.int64(number) for number, word in reversed([*enumerate(WORDS)])}, labels=[1], label_names={1: "good", 0: "bad"})
        self.assertEqual((self.stored("words"), self.stored("label_names")), (WORDS, ["bad", "good"]))
        column = mock.Mock(spec=["tolist"], tolist=lambda: WORDS)  # of a table
        self.written(ids=[[2, 3]], words=column)
        self.assertEqual(self.stored("words"), WORDS)
        for words, part in (({"a": 0, "b": 2}, "'b' has 2 where 1 is expected"), ({"a": 0, "b": 0}, "'b' has 0 where 1"), ({"a": "0"}, "not one of word to number"),
                            ({"a", "b"}, "of type set: expected a list"), ("ab", "of type str"), ({"a": 0}.keys(), "of type dict_keys")):
            with self.subTest(part):
                self.assert_raises(part, ids=[[0, 0]], words=words)

    def test_letters_and_accents_that_are_composed_or_not_are_the_same(self):
        said = self.made("gro\u0308\u00dfe \u00e9t\u00e9\n", "gr\u00f6\u00dfe\ne\u0301te\u0301\n")
        self.assertEqual(self.stored("ids"), [[0, 1]])
        self.assertIn("2 of 2 words are in the vocabulary in another form of Unicode", said)
        self.assertNotIn("unknown", said)
        # A vocabulary may have both.
        self.assertNotIn("Unicode", self.made("e\u0301 \u00e9\n", "\u00e9\ne\u0301\n"))
        self.assertEqual(self.stored("ids"), [[1, 0]])
        self.made("a\na\n", "a\n", "--labels", self.write("labels.txt", "\u00e9\ne\u0301\n"))
        self.assertEqual(self.stored("label_names"), ["\u00e9"])

    def test_mostly_unknown_words_are_a_warning_with_a_guess(self):
        special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"
        said = self.made("The CAT CAT\n", special + "the\ncat\n")
        self.assertIn("warning: ", said)
        self.assertIn("3 of 3 words (100 %) are not in the vocabulary and become unknown, most often 'CAT' (2), 'The' (1); the vocabulary is lower-case", said)
        said = self.made("the cat, the cat.\nthe, cat\n", special + "the\ncat\n.\n,\n")
        self.assertNotIn("warning", said)
        self.assertIn("3 of 6 words (50 %)", said)
        said = self.made("the, cat.\n", special + "the\ncat\n.\n,\n")
        self.assertIn("punctuation hangs on most of them", said)
        said = self.made("the cat\n", special + "The\nCat\n")
        self.assertIn("in other letters, small or capital", said)
        self.assertNotIn("lower-case", said)
        note, = self.written(ids=[[1, 1, 3], [1, 2, 0]], lengths=[3, 2], words=WORDS)
        self.assertIn("3 of 5 words are the unknown one", note)

    def test_pieces_of_words_need_their_tokeniser(self):
        for vocabulary, mark in (('{"the":0,"\u0120cat":1,"cat":2,"<unk>":3}', "\u0120"), ('{"\u2581the":0,"\u2581cat":1,"<unk>":2}', "\u2581"), ('{"the</w>":0,"c":1,"<unk>":2}', "</w>")):
            with self.subTest(mark):
                self.assert_refused(self.tokens("the cat", vocabulary, name="vocab.json"), f"have the mark {mark} of a tokeniser", "write_token_file")
        maltese = "\n".join(["<unk>", "\u0120unju", *(f"w{number}" for number in range(98))])
        self.made("\u0120unju w3\n", maltese)
        self.assertNotIn("pieces", self.made("## dog dog\n", "[UNK]\nthe\n##\n"))  # a heading
        self.assert_refused(self.tokens("the cat\n", "[UNK]\nthe\ncat\n##s\n"), "1 of its 4 words have the mark ## of a tokeniser (##s)", "--tokenizer")
        few = "\n".join(["[UNK]", "the", "cat", "##s", *(f"w{number}" for number in range(60))])  # a word may begin so in a text of headings
        self.assertNotIn("warning", self.made("the cat\n", few))
        said = self.made("the cats cat the\n", few)
        self.assertIn("warning: ", said)
        self.assertIn("1 of 4 words (25 %)", said)
        self.assertIn("pieces of words (##s)", said)
        self.assert_refused(self.tokens("the cats dogs\n", few), "2 of 3 words (66.7 %)", "##s", "--tokenizer")


class Example(TextsTest):
    def example(self, text, words, name="lines.txt"):
        script = os.path.join(ROOT, "docs", "examples", "own_tokens.py")
        return subprocess.run([sys.executable, script, self.write(name, text), self.write("vocab.txt", words), self.output], env=ENVIRONMENT,
                              capture_output=True, text=True, check=False)

    def test_the_tokeniser_of_the_guide_is_that_of_bert(self):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "snake", "_", "case", "\u4e2d", "\u56fd", "don", "'", "t", "a", "##a", "last"]
        text = (MARK + "Cafe\u0301 CAF\u00c9\r\nsnake_case\nDon't\n\u4e2d\u56fd\na\u0000a\u200ba\ufffda a\u00a0a\n" + "a" * 101 + " " + "a" * 3 + "\nlast").encode()
        done = self.example(text, MARK + "\n".join(words))  # no line end behind the last word
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        numbers = {word: number for number, word in enumerate(words)}
        expected = [["cafe", "cafe"], ["snake", "_", "case"], ["don", "'", "t"], ["\u4e2d", "\u56fd"], ["a", "##a", "##a", "##a", "a", "a"],
                    ["[UNK]", "a", "##a", "##a"], ["last"]]
        self.assertEqual(self.stored("words"), words)
        for ids, length, sample in zip(self.stored("ids"), self.stored("lengths"), expected, strict=True):
            self.assertEqual(ids[:length], [numbers[word] for word in ("[CLS]", *sample, "[SEP]")])

    def test_tables_have_texts_pairs_and_labels(self):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "a", ",", '"', "\U0001f600"]
        table = MARK + 'label,text,pair\r\npos,"Good, ""a"" \U0001f600",a\r\n,,\r\nneg,bad,\r\n'
        done = self.example(table, "\n".join(words), "samples.csv")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1 of 3 rows have no text and are left out", done.stdout)
        self.assertEqual(self.stored("ids"), [[2, 4, 7, 8, 6, 8, 9, 3, 6, 3], [2, 5, 3, *[0] * 7]])
        self.assertEqual(self.stored("segments"), [[0] * 8 + [1, 1], [0] * 10])
        self.assertEqual((self.stored("labels"), self.stored("label_names")), ([1, 0], ["neg", "pos"]))
        self.assertEqual(self.example("text,label\nbad,7\na,10\n", "\n".join(words), "samples.csv").returncode, 0)
        self.assertEqual(self.stored("labels"), [7, 10])

    def test_another_vocabulary_is_refused(self):
        done = self.example("a\n", "a\nb\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("vocab.txt: has no [CLS], [SEP], [UNK]", done.stderr)


if __name__ == "__main__":
    unittest.main()
