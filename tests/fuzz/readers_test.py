#!/usr/bin/env python3
"""No mutated file crashes, hangs, or fills the memory of the program's readers: they accept it or refuse it with exit code 2.

The seeds are written by make_corpus.py. FLUXFORMER_FUZZ names the harness, FLUXFORMER_FUZZ_SECONDS how long it runs,
FLUXFORMER_FUZZ_FINDINGS a folder to keep the inputs of findings in.
"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
HARNESS, PROGRAM = os.environ["FLUXFORMER_FUZZ"], os.environ["FLUXFORMER_BINARY"]
SECONDS = os.environ.get("FLUXFORMER_FUZZ_SECONDS", "60")
FINDINGS = os.environ.get("FLUXFORMER_FUZZ_FINDINGS", "findings")


class FuzzTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.corpus = os.path.join(cls.folder.name, "corpus")
        subprocess.run([sys.executable, os.path.join(HERE, "make_corpus.py"), PROGRAM, cls.corpus], check=True,
                       stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fuzz(self, reader, *arguments, findings=None):
        """Exit code, output, and the inputs of findings."""
        findings = findings or tempfile.mkdtemp(dir=self.folder.name)
        end = subprocess.run([HARNESS, "--reader=" + reader, "--corpus=" + self.corpus, "--findings=" + findings, *arguments],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1000, check=False)
        return end.returncode, end.stdout, sorted(os.path.join(findings, name) for name in os.listdir(findings)
                                                  if "." not in name)


class Readers(FuzzTest):
    def test_mutated_files_are_accepted_or_refused(self):
        code, text, _ = self.fuzz("all", "--seconds=" + SECONDS, findings=FINDINGS)
        print(text)
        self.assertEqual(code, 0, text)


class Harness(FuzzTest):
    """The harness itself: it finds what it looks for, and says how to repeat it."""

    def test_misbehaving_readers_are_found_out(self):
        for reader, words in (("crash", ("signal 11", "SEGV")), ("leave", ("exit status 0",)), ("hang", ("hangs",)),
                              ("devour", ("more than 2 GB",)), ("throw", ("std::out_of_range: another exception",)),
                              ("fail", ("exit code 1: not the file's fault",))):
            hang = 10 if reader == "hang" else 900  # s; a busy machine may take minutes to give 2 GB
            with self.subTest(reader):
                code, text, inputs = self.fuzz(reader, "--runs=5000", f"--hang={hang}")
                self.assertEqual(code, 1, text)
                self.assertTrue(any(word in text for word in words), text)
                self.assertEqual(len(inputs), 1, text)
                with open(inputs[0], "rb") as stream:
                    self.assertTrue(stream.read(1).isupper(), inputs)

    def test_a_run_is_repeated_by_its_seed(self):
        texts = [self.fuzz("throw", "--runs=5000", f"--seed={seed}")[1].splitlines()[1:3] for seed in (3, 3, 4)]
        inputs = [text[1].split(",")[0] for text in texts]
        self.assertEqual(inputs[0], inputs[1])
        self.assertNotEqual(inputs[0], inputs[2])

    def test_sound_files_keep_their_checksums(self):
        for reader, folder in (("gzip", "gzip"), ("zip", "zip"), ("tar", "tar"), ("png", "png"), ("model", "model"),
                               ("checkpoint", "checkpoint")):
            folder = os.path.join(self.corpus, folder)
            files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
            end = subprocess.run([HARNESS, "--reader=" + reader, "--repair=1", *files], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.DEVNULL, timeout=1000, check=False)
            changed = [line for line in end.stdout.splitlines() if line.endswith("changed by the repair")]
            with self.subTest(reader):
                self.assertEqual((end.returncode, changed), (0, []), end.stdout)


if __name__ == "__main__":
    unittest.main()
