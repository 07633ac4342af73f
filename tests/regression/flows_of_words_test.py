#!/usr/bin/env python3
"""information_flow, gradient_flow and spectrum_of_states of models that guess words: an imported decoder and an imported encoder, against hidden states
and logits of PyTorch."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from comparison import CompareTest  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

from fluxformer.tokens import write_token_file  # noqa: E402

# Float64 on both sides: sums of some tens of products in another order, through three layers.
TOLERANCE = 1e-12
JACOBIANS = ("--gradient.jacobian_samples=1", "--gradient.steps=6", "--gradient.exponents=2", "--gradient.sweeps=2")


class FlowsOfWords(CompareTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="fluxformer-")  # no model but those of the cases

    def imported(self, name, kind):
        """The model of a case, model.h5, and its lines as the test samples of tokens.h5; the case."""
        case = Case(name)
        end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path("model.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        lines = {"ids": case["ids"], "lengths": case["lengths"]}
        write_token_file(self.path("tokens.h5"), **lines, test=lines, overwrite=True)
        return case

    def measured(self, experiment, *more, ranks=1):
        return self.compare(experiment, *more, ranks=ranks, output=f"{experiment}_{ranks}.h5", models=(
            "--models.transformer=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--samples.count=0", "--samples.batch=2", "--output.overwrite=true"))

    def test_states_and_guessed_words_are_those_of_pytorch(self):
        for name, kind in (("qwen3", "Qwen3ForCausalLM"), ("mistral", "MistralForCausalLM"), ("gpt_neox", "GPTNeoXForCausalLM")):
            with self.subTest(kind):
                case = self.imported(name, kind)
                states, real = case["hidden"], case.real
                logits, ids = case["words"][:, :-1], case["ids"][:, 1:].astype(int)
                guessed = real[:, 1:]  # each word but the first of a line
                log_p = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
                loss = -np.take_along_axis(log_p, ids[..., None], -1)[..., 0][guessed].mean()
                right = (logits.argmax(-1) == ids)[guessed].mean()
                each = [states[:, sample, real[sample]].reshape(len(states), -1) for sample in range(len(real))]
                size = np.sqrt(np.mean(np.concatenate(each, axis=1)**2, axis=1))
                cosine = np.mean([one @ one[0] / np.linalg.norm(one, axis=1) / np.linalg.norm(one[0]) for one in each], axis=0)

                for ranks in (1, 3):
                    flow = self.measured("information_flow", "--flow.examples=1", ranks=ranks)
                    for measure, wanted in (("norm", size), ("accuracy", right)):
                        np.testing.assert_allclose(flow[f"transformer/{measure}"][0], wanted, rtol=TOLERANCE, err_msg=measure)
                    np.testing.assert_allclose(1 - flow["transformer/drift"][0], cosine, atol=TOLERANCE)
                    found = self.measured("gradient_flow", *JACOBIANS, ranks=ranks)
                    np.testing.assert_allclose(found["transformer/loss"][0], loss, rtol=TOLERANCE)
                    if ranks == 1:
                        alone, flow_alone = found, flow
                    self.assert_same_numbers(alone, found)
                    self.assert_same_numbers(flow_alone, flow)
                self.assertEqual(("transformer/head_gradient" in found), case.config.get("tie_word_embeddings") is False)

    def test_states_need_no_head_and_gradients_do(self):
        case = self.imported("qwen3", "Qwen3Model")
        found = self.measured("spectrum_of_states")
        real, modes = case.real, found["transformer/singular_value"].shape[-1]
        values = np.zeros((len(case["hidden"]), modes))
        for sample, mine in enumerate(real):
            for depth, state in enumerate(case["hidden"][:, sample, mine]):
                each = np.linalg.svd(state, compute_uv=False) / np.linalg.norm(state)
                values[depth, :len(each)] += each / len(real)
        np.testing.assert_allclose(found["transformer/singular_value"][0], values, atol=TOLERANCE)
        for experiment in ("gradient_flow", "information_flow"):
            end = self.run_program(experiment, "--models.transformer=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--output.file=no.h5", ranks=2)
            self.assert_refused(end, "model.h5", "has no classes and guesses no words, and so no loss")
            self.assertFalse(os.path.exists(self.path("no.h5")))

    def test_a_share_of_masked_words_needs_a_model_of_them(self):
        self.imported("mistral", "MistralForCausalLM")
        for experiment in ("gradient_flow", "information_flow"):
            end = self.run_program(experiment, "--models.transformer=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--samples.count=2",
                                   *(JACOBIANS if experiment == "gradient_flow" else ("--flow.examples=1",)), "--train.masked=0.3", "--output.file=no.h5")
            self.assert_refused(end, "train.masked = 0.3", "none of the models guesses masked words")


if __name__ == "__main__":
    unittest.main()
