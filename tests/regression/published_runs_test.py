#!/usr/bin/env python3
"""A published model, imported, and its tokens, in a token file: `evolve` at Courant number 1 gives PyTorch's hidden states of every layer,
PyTorch's attention, and its logits of classes and of words, on any number of ranks."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import FULL_TIER, ProgramTest, together  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402
from published_models_test import TOLERANCE, real_rows  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

from fluxformer.tokens import patches, write_token_file  # noqa: E402

# Three ranks share the tokens unevenly. The second tier has more ranks.
RANKS = (1, 2, 3, 4, 6) if FULL_TIER else (1, 3)
# The logits are those of the head that a class has.
CASES = (("bert", "BertForSequenceClassification", "classes"), ("bert", "BertForMaskedLM", "words"), ("bert_untied", "BertForMaskedLM", "words"),
         ("distilbert", "DistilBertForMaskedLM", "words"), ("distilbert", "DistilBertForSequenceClassification", "classes"),
         ("gpt2", "GPT2LMHeadModel", "words"), ("gpt2", "GPT2ForSequenceClassification", "classes"), ("vit", "ViTForImageClassification", "classes"),
         ("deit", "DeiTForImageClassificationWithTeacher", "classes"))
# Families whose sums are those of the ones above, under other names: the first tier runs them on two ranks.
RENAMED = (("roberta", "RobertaForMaskedLM", "words"), ("roberta", "RobertaForSequenceClassification", "classes"),
           ("electra", "ElectraForSequenceClassification", "classes"), ("opt", "OPTForCausalLM", "words"))
# Decoders and encoders with rotary positions: the first tier runs them on three ranks, which share their 11 tokens unevenly.
LANGUAGE_MODELS = (("llama", "LlamaForCausalLM", "words"), ("llama_biased", "LlamaForSequenceClassification", "classes"),
                   ("mistral", "MistralForCausalLM", "words"), ("qwen2", "Qwen2ForCausalLM", "words"), ("qwen3", "Qwen3ForSequenceClassification", "classes"),
                   ("gpt_neox", "GPTNeoXForCausalLM", "words"), ("gpt_neox_sequential", "GPTNeoXForSequenceClassification", "classes"),
                   ("gptj", "GPTJForCausalLM", "words"), ("modernbert", "ModernBertForMaskedLM", "words"),
                   ("modernbert_biased", "ModernBertForSequenceClassification", "classes"))


class PublishedRuns(ProgramTest):
    def run_case(self, name, kind, head, on_ranks):
        """Hidden states, attention and logits of a case on each of these numbers of ranks."""
        case = Case(name)
        end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path("model.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        if "ids" in case:
            write_token_file(self.path("tokens.h5"), ids=case["ids"], lengths=case["lengths"], segments=case["segments"] if "segments" in case else None,
                             overwrite=True)
        else:
            tokens = patches(case["images"], tuple(case.config["patch_size"]), case.front)
            write_token_file(self.path("tokens.h5"), features=tokens, overwrite=True)

        def run(ranks):
            # Each step of Courant number 1 is a layer; as many of them as there are layers settle the model.
            end = self.run_program("evolve", "--model.file=model.h5", "--data.set=tokens", "--data.file=tokens.h5", f"--inflow.samples={len(case.lengths)}",
                                   "--start.state=inflow", "--evolve.method=euler", "--evolve.cfl=1", f"--evolve.time={len(case['attention'])}",
                                   "--output.attention=true", "--output.logits=true", "--quiet",
                                   "--output.overwrite=true", f"--output.file=out{ranks}.h5", ranks=ranks)
            self.assertEqual(end.code, 0, end)

        together([lambda ranks=ranks: run(ranks) for ranks in on_ranks])
        for ranks in on_ranks:
            out = self.open(f"out{ranks}.h5")
            logits = out["prediction/class_logits"][...] if head == "classes" else out["prediction/word_logits"][...].swapaxes(0, 1)
            yield ranks, case, {"hidden": out["field/u"][-1].swapaxes(1, 2), "attention": out["attention/weights"][...], head: logits}

    def test_the_program_computes_what_pytorch_computes(self):
        for name, kind, head in (*CASES, *RENAMED, *LANGUAGE_MODELS):
            on_ranks = RANKS if FULL_TIER or (name, kind, head) in CASES else (2,) if (name, kind, head) in RENAMED else (3,)
            for ranks, case, found in self.run_case(name, kind, head, on_ranks):
                for output, wanted in (("hidden", case["hidden"][1:]), ("attention", case["attention"]), (head, case[head])):
                    with self.subTest(kind, ranks=ranks, output=output):
                        self.assertEqual(found[output].shape, wanted.shape)
                        got, wanted = (real_rows(output, one, case) for one in (found[output], wanted))
                        self.assertLess(np.abs(got - wanted).max(), TOLERANCE * np.abs(wanted).max())

    def imported(self, name, kind):
        end = call("import", *save(self.folder, *Case(name).published(kind)), "--output", self.path("model.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))

    def refused_tokens(self, command, *parts, ranks=2 if FULL_TIER else 1, **arrays):
        write_token_file(self.path("tokens.h5"), overwrite=True, **arrays)
        end = self.run_program(*command, "--data.set=tokens", "--data.file=tokens.h5", "--output.file=out.h5", ranks=ranks)
        self.assert_refused(end, "tokens.h5", *parts)
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_the_pad_word_of_roberta_is_no_real_token(self):
        self.imported("roberta", "RobertaForSequenceClassification")
        case = Case("roberta")
        ids, lengths, labels = case["ids"].astype(int), case["lengths"], [0, 1, 2]
        inside = ids.copy()
        inside[1, 3] = 1
        evolve, train = ["evolve", "--model.file=model.h5"], ["train", "--model.file=model.h5", "--train.epochs=1", "--train.batch=3"]
        message = ["sample 1 has the pad word 1", "as token 3"]
        self.refused_tokens([*evolve, "--inflow.samples=3"], *message, ids=inside, lengths=lengths, ranks=2)
        self.refused_tokens(evolve, "sample 1 has the pad word 1", "as token 6", ids=ids)  # padding without lengths
        split = {"ids": ids, "lengths": lengths, "labels": labels}
        self.refused_tokens(train, *message, **split, test={**split, "ids": inside})
        compare = ["identifiability", "--models.transformer=model.h5", "--samples.count=3"]
        self.refused_tokens(compare, *message, **split, test={**split, "ids": inside})
        # Models that are trained from it say so, too.
        write_token_file(self.path("tokens.h5"), **split, test=split, overwrite=True)
        end = self.run_program(*train, "--data.set=tokens", "--data.file=tokens.h5", "--output.file=trained.h5")
        self.assertEqual(end.code, 0, end)
        self.refused_tokens(["evolve", "--model.file=trained.h5"], "the pad word 1", ids=inside, lengths=lengths)

    def test_class_tokens_and_pad_words_fit_their_model(self):
        self.imported("deit", "DeiTForImageClassificationWithTeacher")
        features = np.ones((2, 6, 18))
        self.refused_tokens(["evolve", "--model.file=model.h5"], "sample 1 has 1 real token(s)", "2 class tokens", features=features, lengths=[6, 1])
        end = self.run_program("evolve", "--model.file=model.h5", "--output.logits=true", "--inflow.source=noise", "--output.file=out.h5", ranks=1)
        self.assert_refused(end, "the classifier reads 2 class tokens", "a sample has 1 token(s)")
        for name, kind, place, value, message in (
                ("deit", "DeiTModel", "embedding/class_token", np.ones((8, 12)), "8 class tokens need as many positions, and there are 6"),
                ("deit", "DeiTForImageClassificationWithTeacher", "head/W", np.ones((4, 12)), "head/W"),
                ("bert", "BertForSequenceClassification", "pooling", "front", "pooling = front needs class tokens"),
                ("roberta", "RobertaModel", "pad_word", 29, "pad_word = 29: the model has 29 words"),
                ("roberta", "RobertaModel", "pad_word", -2, "must be at least 0")):
            self.imported(name, kind)
            with h5py.File(self.path("model.h5"), "a") as file:
                if "/" in place:
                    del file["model"][place]
                    file["model"][place] = value
                else:
                    file["model"].attrs[place] = value
            end = self.run_program("evolve", "--model.file=model.h5", "--inflow.source=noise", "--output.file=out.h5", ranks=1)
            self.assert_refused(end, "model.h5", message)

    def test_a_window_that_is_given_is_that_of_every_layer(self):
        self.imported("qwen2", "Qwen2ForCausalLM")  # a window of 3 from the second layer on
        for window, layer, there in ((0, 2, 3), (3, 1, 0)):
            end = self.run_program("evolve", "--model.file=model.h5", f"--attention.window={window}", "--output.file=out.h5", ranks=2)
            self.assert_refused(end, f"attention.window = {window}: layer {layer} of the model in model.h5 has {there}")

    def test_logits_of_a_model_without_a_head_are_refused(self):
        end = call("import", *save(self.folder, *Case("gpt2").published("GPT2Model")), "--output", self.path("model.h5"))
        self.assertEqual(end.returncode, 0, end.stderr)
        end = self.run_program("evolve", "--model.file=model.h5", "--output.logits=true", "--output.file=out.h5", "--inflow.source=noise")
        self.assertEqual(end.code, 2, end)
        self.assertIn("output.logits: the model has no head", end.err)


if __name__ == "__main__":
    unittest.main()
