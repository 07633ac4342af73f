#!/usr/bin/env python3
"""A published model, imported, and its tokens, in a token file: `evolve` at Courant number 1 gives PyTorch's hidden states of every layer,
PyTorch's attention, and its logits of classes and of words, on any number of ranks."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from program import ProgramTest, together  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402
from published_models_test import TOLERANCE, real_rows  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

from fluxformer.tokens import patches, write_token_file  # noqa: E402

RANKS = (1, 2, 3, 4, 6)
# The logits are those of the head that a class has.
CASES = (("bert", "BertForSequenceClassification", "classes"), ("bert", "BertForMaskedLM", "words"), ("bert_untied", "BertForMaskedLM", "words"),
         ("distilbert", "DistilBertForMaskedLM", "words"), ("distilbert", "DistilBertForSequenceClassification", "classes"),
         ("gpt2", "GPT2LMHeadModel", "words"), ("gpt2", "GPT2ForSequenceClassification", "classes"), ("vit", "ViTForImageClassification", "classes"))


class PublishedRuns(ProgramTest):
    def run_case(self, name, kind, head):
        """Hidden states, attention and logits of a case on each number of ranks."""
        case = Case(name)
        end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path("model.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        if "ids" in case:
            write_token_file(self.path("tokens.h5"), ids=case["ids"], lengths=case["lengths"], segments=case["segments"] if "segments" in case else None,
                             overwrite=True)
        else:
            write_token_file(self.path("tokens.h5"), features=patches(case["images"], tuple(case.config["patch_size"])), overwrite=True)

        def run(ranks):
            # Each step of Courant number 1 is a layer; two of them settle the model of two.
            end = self.run_program("evolve", "--model.file=model.h5", "--data.set=tokens", "--data.file=tokens.h5", f"--inflow.samples={len(case.lengths)}",
                                   "--start.state=inflow", "--evolve.method=euler", "--evolve.cfl=1", "--evolve.time=2", "--output.attention=true", "--output.logits=true", "--quiet",
                                   "--output.overwrite=true", f"--output.file=out{ranks}.h5", ranks=ranks)
            self.assertEqual(end.code, 0, end)

        together([lambda ranks=ranks: run(ranks) for ranks in RANKS])
        for ranks in RANKS:
            out = self.open(f"out{ranks}.h5")
            logits = out["prediction/class_logits"][...] if head == "classes" else out["prediction/word_logits"][...].swapaxes(0, 1)
            yield ranks, case, {"hidden": out["field/u"][-1].swapaxes(1, 2), "attention": out["attention/weights"][...], head: logits}

    def test_the_program_computes_what_pytorch_computes(self):
        for name, kind, head in CASES:
            for ranks, case, found in self.run_case(name, kind, head):
                for output, wanted in (("hidden", case["hidden"][1:]), ("attention", case["attention"]), (head, case[head])):
                    with self.subTest(kind, ranks=ranks, output=output):
                        self.assertEqual(found[output].shape, wanted.shape)
                        got, wanted = (real_rows(output, one, case) for one in (found[output], wanted))
                        self.assertLess(np.abs(got - wanted).max(), TOLERANCE * np.abs(wanted).max())

    def test_logits_of_a_model_without_a_head_are_refused(self):
        end = call("import", *save(self.folder, *Case("gpt2").published("GPT2Model")), "--output", self.path("model.h5"))
        self.assertEqual(end.returncode, 0, end.stderr)
        end = self.run_program("evolve", "--model.file=model.h5", "--output.logits=true", "--output.file=out.h5", "--inflow.source=noise")
        self.assertEqual(end.code, 2, end)
        self.assertIn("output.logits: the model has no head", end.err)


if __name__ == "__main__":
    unittest.main()
