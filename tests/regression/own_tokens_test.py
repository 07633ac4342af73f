#!/usr/bin/env python3
"""`fluxformer tokens` and fluxformer.tokens: texts, arrays and images of one's own become the token file that docs/reference/output-format.md
describes, and what does not hold together is refused by name."""

import os
import resource
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from published_case import ROOT, Case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import ENVIRONMENT, FolderTest, call, start  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.tokens import patches, write_token_file  # noqa: E402

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "flux", "form", "er", "gr\u00f6\u00dfe", ".", "a"]


class TokensTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.path("tokens.h5")
        self.write("vocab.txt", "\n".join(VOCABULARY) + "\n")

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(text)
        return self.path(name)

    def contents(self):
        found = {}

        def keep(name, item):
            if isinstance(item, h5py.Dataset):
                found[name] = item.asstr()[...].tolist() if h5py.check_string_dtype(item.dtype) else item[...]

        with h5py.File(self.output, "r") as file:
            file.visititems(keep)
        return found

    def made(self, name, *options):
        done = call("tokens", self.path(name), "--output", self.output, "--overwrite", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.contents(), done.stdout

    def made_of_text(self, name, *options):
        return self.made(name, "--words", self.path("vocab.txt"), *options)

    def same(self, found, **expected):
        self.assertEqual(sorted(found), sorted(name.replace("__", "/") for name in expected))
        for name, array in expected.items():
            stored = found[name.replace("__", "/")]
            self.assertEqual(stored if isinstance(stored, list) else stored.tolist(), array, name)


class Texts(TokensTest):
    def test_lines_become_padded_numbers(self):
        self.write("lines.txt", "flux a\nform\n a  .\tgröße other\n")
        found, said = self.made_of_text("lines.txt")
        self.same(found, ids=[[4, 9, 0, 0], [5, 0, 0, 0], [9, 8, 7, 1]], lengths=[2, 1, 4], words=VOCABULARY)
        self.assertIn("1 of 7 words (14.3 %) are not in the vocabulary and become unknown, most often 'other' (1)", said)
        self.assertIn("3 samples of 4 tokens, 10 words", said)
        found, _ = self.made_of_text("lines.txt", "--first", "[CLS]", "--last", "[SEP]", "--length", "4")
        self.same(found, ids=[[2, 4, 9, 3], [2, 5, 3, 0], [2, 9, 8, 3]], lengths=[4, 3, 4], words=VOCABULARY)

    def test_padding_is_the_word_for_it(self):
        self.write("vocab.json", '{"a": 0, "<pad>": 2, "<unk>": 1}')
        self.write("lines.txt", "a\na b")
        found, _ = self.made("lines.txt", "--words", self.path("vocab.json"))
        self.same(found, ids=[[0, 2], [0, 1]], lengths=[1, 2], words=["a", "<unk>", "<pad>"])

    def test_labels_are_numbers_or_names_and_tests_are_their_own(self):
        self.write("lines.txt", "flux\nform\na\n")
        self.write("more.txt", "a a\n")
        self.write("numbers.txt", "1\n0\n4\n")
        found, _ = self.made_of_text("lines.txt", "--labels", self.path("numbers.txt"))
        self.assertEqual(found["labels"].tolist(), [1, 0, 4])
        self.write("names.txt", "good\nbad\nugly\n")
        self.write("other.txt", "ugly\n")
        found, said = self.made_of_text("lines.txt", "--labels", self.path("names.txt"), "--test", self.path("more.txt"), "--test-labels", self.path("other.txt"))
        self.same(found, train__ids=[[4, 0], [5, 0], [9, 0]], train__lengths=[1, 1, 1], train__labels=[1, 0, 2], test__ids=[[9, 9]],
                  test__lengths=[2], test__labels=[2], words=VOCABULARY, label_names=["bad", "good", "ugly"])
        self.assertIn("train 3 samples, test 1 samples of 2 tokens", said)

    def test_texts_that_make_no_samples_are_refused(self):
        words = ("--words", self.path("vocab.txt"))
        self.write("lines.txt", "flux\nform\n")
        self.write("bare.txt", "flux\n")
        self.write("gap.txt", "flux\n \nform\n")
        self.write("empty.txt", "")
        with open(self.path("latin.txt"), "wb") as stream:
            stream.write(b"gr\xf6\xdfe\n")
        self.write("one.txt", "0\n")
        self.write("hole.txt", "0\n\n")
        cases = [("lines.txt", (), "--words"), ("gap.txt", words, "line 2 has no words"), ("empty.txt", words, "line 1 has no words"),
                 ("latin.txt", words, "latin.txt: not a text in UTF-8: byte 3 of line 1 is 0xF6"), ("none.txt", words, "no such file"),
                 ("lines.txt", ("--words", self.path("bare.txt")), "'form' (line 2) is not in the vocabulary, which has no <unk> or [UNK]"),
                 ("lines.txt", (*words, "--first", "<s>"), "'<s>' is not in the vocabulary"), ("lines.txt", (*words, "--length", "0"), "--length 0"),
                 ("lines.txt", (*words, "--length", "2", "--first", "[CLS]", "--last", "[SEP]"), "--length 2: too short"),
                 ("lines.txt", (*words, "--labels", self.path("one.txt")), "one.txt: 1 labels for 2 samples"),
                 ("lines.txt", (*words, "--labels", self.path("hole.txt")), "hole.txt, line 2 is empty"),
                 ("lines.txt", (*words, "--test-labels", self.path("one.txt")), "--test-labels goes with"),
                 ("lines.txt", (*words, "--labels", self.path("one.txt"), "--test-labels", self.path("one.txt")), "--test-labels goes with")]
        for name, options, part in cases:
            with self.subTest(part):
                self.assert_refused(call("tokens", self.path(name), "--output", self.output, *options), part)
                self.assertFalse(os.path.exists(self.output) or os.path.exists(self.output + ".part"))


class Arrays(TokensTest):
    def test_arrays_of_a_tokeniser_are_stored_as_they_are(self):
        np.savez(self.path("plain.npz"), ids=[[3, 1], [0, 2]], lengths=[1, 2], segments=[[0, 1], [0, 0]], labels=[1, 0], words=["a", "b", "c", "d"],
                 label_names=["no", "yes"])
        found, _ = self.made("plain.npz")
        self.same(found, ids=[[3, 1], [0, 2]], lengths=[1, 2], segments=[[0, 1], [0, 0]], labels=[1, 0], words=["a", "b", "c", "d"], label_names=["no", "yes"])
        self.assertEqual({array.dtype for array in found.values() if isinstance(array, np.ndarray)}, {np.dtype("i4")})
        np.savez(self.path("split.npz"), **{"train/ids": [[3, 1]], "test/ids": [[2, 2], [9, 0]], "test/lengths": [2, 1], "test/labels": [1, 1]})
        found, _ = self.made_of_text("split.npz")
        self.same(found, train__ids=[[3, 1]], test__ids=[[2, 2], [9, 0]], test__lengths=[2, 1], test__labels=[1, 1], words=VOCABULARY)
        alone = {f"{part}/{name}": values for part in ("train", "test") for name, values in
                 (("ids", [[3, 1], [0, 2]]), ("lengths", [1, 2]), ("segments", [[0, 1], [0, 0]]), ("labels", [1, 0]))}
        np.savez_compressed(self.path("all.npz"), **alone, words=np.array(["a", "b", "gr\u00f6\u00dfe", "d"]), label_names=np.array([b"no", b"yes"]))
        found, _ = self.made("all.npz")
        self.same(found, **{name.replace("/", "__"): values for name, values in alone.items()}, words=["a", "b", "gr\u00f6\u00dfe", "d"], label_names=["no", "yes"])
        np.savez(self.path("train.npz"), **{"train/ids": [[3, 1]]})
        found, _ = self.made("train.npz")
        self.same(found, train__ids=[[3, 1]])
        for kind in ("i1", "u1", ">i2", "u2", "<i4", ">u4", "i8", ">u8"):
            np.savez(self.path("kind.npz"), ids=np.array([[3, 100], [0, 2]], kind))
            found, _ = self.made("kind.npz")
            self.same(found, ids=[[3, 100], [0, 2]])
        for kind, stored in ((np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64)):
            features = np.random.RandomState(3).standard_normal((2, 3, 4)).astype(kind)
            np.savez(self.path("features.npz"), features=features, lengths=[3, 2])
            found, _ = self.made("features.npz")
            self.assertEqual(found["features"].dtype, stored)
            np.testing.assert_array_equal(found["features"], features)

    def test_lists_of_any_length_are_padded(self):
        write_token_file(self.output, ids=[[5, 6, 7], [8], np.array([9, 4])], segments=[[0, 0, 1], [0], [0, 1]], labels=[0, 2, 1])
        self.same(self.contents(), ids=[[5, 6, 7], [8, 0, 0], [9, 4, 0]], lengths=[3, 1, 2], segments=[[0, 0, 1], [0, 0, 0], [0, 1, 0]], labels=[0, 2, 1])
        write_token_file(self.output, ids=[[5, 6], [8, 1]], test={"ids": np.array([[1, 2]])}, overwrite=True)
        self.same(self.contents(), train__ids=[[5, 6], [8, 1]], test__ids=[[1, 2]])
        write_token_file(self.output, ids=[[5, 6], [8, 1]], test={"ids": [[1, 2, 3]]}, overwrite=True)
        self.same(self.contents(), train__ids=[[5, 6, 0], [8, 1, 0]], train__lengths=[2, 2], test__ids=[[1, 2, 3]])

    def test_images_become_the_patches_of_a_vit(self):
        for name, front in (("vit", 1), ("deit", 2)):
            case = Case(name)
            np.testing.assert_array_equal(patches(case["images"], (3, 2), front), case.patches())
        np.testing.assert_array_equal(patches(case["images"], (3, 2)), case.patches()[:, 1:])
        self.assertEqual(patches(np.ones((1, 3, 7, 9), np.float32), 2).shape, (1, 1 + 3 * 4, 12))
        for shape, patch in (((1, 6, 4), 2), ((1, 3, 6, 4), 5), ((1, 3, 6, 4), 0), ((0, 3, 6, 4), 2)):
            with self.assertRaisesRegex(fluxformer.RunError, "have no patches"):
                patches(np.ones(shape), patch)

    def test_arrays_that_do_not_hold_together_are_refused(self):
        ids, features = np.array([[3, 1], [0, 2]]), np.ones((2, 3, 4))
        cases = [({}, "ids and features: exactly one"), ({"ids": ids, "features": features}, "exactly one"),
                 ({"ids": ids.astype(float)}, "ids holds float64, not whole numbers"), ({"ids": ids > 0}, "ids holds bool"),
                 ({"ids": ids[0]}, r"ids has shape \(2,\)"), ({"ids": ids[:0]}, r"ids has shape \(0, 2\)"), ({"ids": ids[:, :0]}, r"ids has shape \(2, 0\)"),
                 ({"ids": ids - 1}, r"ids holds -1 \(sample 1, token 0\): must be 0 to"), ({"ids": ids + 2**31}, r"ids holds 2147483651 \(sample 0, token 0\)"),
                 ({"ids": ids, "lengths": [1, 3]}, r"lengths holds 3 \(sample 1\): must be 1 to 2"), ({"ids": ids, "lengths": [0, 1]}, "lengths holds 0"),
                 ({"ids": ids, "lengths": [1]}, r"lengths has shape \(1,\), expected \(2,\)"), ({"ids": ids, "segments": [[0, 0]]}, "segments has shape"),
                 ({"ids": ids, "segments": -ids}, "segments holds -3"), ({"ids": ids, "labels": [0, -1]}, "labels holds -1"),
                 ({"ids": ids, "labels": [0.5, 1]}, "labels holds float64"), ({"features": features, "segments": ids}, "segments needs ids"),
                 ({"features": features[0]}, "features holds float64 of shape"), ({"features": features.astype(int)}, "features holds int64"),
                 ({"features": features * np.nan}, "features holds numbers that are not finite"), ({"ids": ids, "words": ["a", "b", "c"]}, "ids holds 3, but there are 3 words"),
                 ({"ids": ids, "labels": [0, 1], "label_names": ["a"]}, "labels holds 1, but there are 1 label_names"), ({"features": features, "words": ["a"]}, "words need ids"),
                 ({"ids": ids, "words": ["a", "", "b", "c"]}, "words 1 is empty")]
        in_memory = [({"ids": ids, "test": {"ids": ids[:, :1]}}, "test/ids has other tokens than train/ids"), ({"ids": ids, "test": {"features": features}}, "has other tokens"),
                     ({"ids": ids, "test": {"words": ["a"]}}, "test/words is not one of ids"), ({"ids": [[1, 2], [3]], "lengths": [2, 1]}, "lengths follows from lists"),
                     ({"ids": [[1, 2], [3]], "segments": [[0], [0, 0]]}, "segments has other lengths"), ({"ids": [[1, 2], []]}, r"lengths holds 0 \(sample 1\)"),
                     ({"ids": [[1, 2], [0.5]]}, "ids does not hold whole numbers"), ({"ids": [1, 2]}, "ids is not a list of samples"),
                     ({"ids": ids, "words": ["a", "b\0", "c", "d"]}, "words 1 holds a zero byte")]
        for arrays, part in [*cases, *in_memory]:
            with self.subTest(part):
                with self.assertRaisesRegex(fluxformer.RunError, part):
                    write_token_file(self.output, **arrays)
                self.assertFalse(os.path.exists(self.output) or os.path.exists(self.output + ".part"))
        for arrays, part in cases:
            np.savez(self.path("odd.npz"), **arrays)
            with self.subTest(part, npz=True):
                done = call("tokens", self.path("odd.npz"), "--output", self.output)
                self.assert_refused(done)
                self.assertRegex(done.stderr, part)
        np.savez(self.path("odd.npz"), ids=ids, masks=ids)
        self.assert_refused(call("tokens", self.path("odd.npz"), "--output", self.output), "masks: not the names of arrays")
        np.savez(self.path("odd.npz"), **{"ids": ids, "train/ids": ids})
        self.assert_refused(call("tokens", self.path("odd.npz"), "--output", self.output), "ids: not the names of arrays")
        np.savez(self.path("odd.npz"), ids=ids, words=np.array([b"a", b"\xff", b"c", b"d"]))
        self.assert_refused(call("tokens", self.path("odd.npz"), "--output", self.output), "words is not in UTF-8")
        np.savez(self.path("odd.npz"), ids=ids, words=ids)
        self.assert_refused(call("tokens", self.path("odd.npz"), "--output", self.output), "words holds int64")
        self.assert_refused(call("tokens", self.path("odd.npz"), "--output", self.output, "--length", "3"), "--length is for texts")

    def test_an_earlier_file_and_a_full_disk_are_safe(self):
        np.savez(self.path("plain.npz"), ids=np.ones((100, 100), int))
        self.write("tokens.h5", "precious")
        self.assert_refused(call("tokens", self.path("plain.npz"), "--output", self.output), "--overwrite")
        self.assert_refused(call("tokens", self.path("plain.npz"), "--output", self.path("plain.npz"), "--overwrite"), "is the file that is read")
        full = start("tokens", self.path("plain.npz"), "--output", self.output, "--overwrite",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
        self.assertEqual((full.returncode, len(full.stderr.splitlines())), (1, 1), full.stderr)
        self.assertIn("cannot be written", full.stderr)
        with open(self.output, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "precious")
        self.assertFalse(os.path.exists(self.output + ".part"))


class Example(TokensTest):
    def test_the_tokeniser_of_the_guide_writes_a_token_file(self):
        words = [{"er": "##er"}.get(word, word.replace("ö", "o")) for word in VOCABULARY]  # words of that tokeniser have no accents
        self.write("vocab.txt", "\n".join(words) + "\n")
        self.write("lines.txt", "Former flux.\tGröße a\nabc former\n")
        script = os.path.join(ROOT, "docs", "examples", "own_tokens.py")
        done = subprocess.run([sys.executable, script, self.path("lines.txt"), self.path("vocab.txt"), self.output], env=ENVIRONMENT, capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.same(self.contents(), ids=[[2, 5, 6, 4, 8, 3, 7, 9, 3], [2, 1, 5, 6, 3, 0, 0, 0, 0]], lengths=[9, 5],
                  segments=[[0, 0, 0, 0, 0, 0, 1, 1, 1], [0] * 9], words=words)


if __name__ == "__main__":
    unittest.main()
