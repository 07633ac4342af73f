#!/usr/bin/env python3
"""`generate` as seen by a user: the words of a model in numpy that draws with the same random numbers, the same on any ranks and whether
earlier words are kept or not, their probabilities those of reading the text again; what cannot be continued is refused.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_model import Model  # noqa: E402
from program import SEVERAL_RANKS, TrainTest, together  # noqa: E402
from python_package import call  # noqa: E402

WORDS = ["[PAD]", "[UNK]", *"abcdef", "[CLS]", "[SEP]"]
CAUSAL = ("--data.tokens=patches", "--data.set=tokens", "--data.file=tokens.h5", "--train.objective=causal", "--attention.causal=true",
          "--train.samples=0", "--train.test_samples=0", "--train.epochs=1", "--train.validation=0")
PROMPTS = ("--data.set=tokens", "--data.file=prompts.h5")
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4")
LOW = 0xFFFFFFFF


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al. 2011) of four words and a key of two."""
    for turn in range(10):
        one, two = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        k = [(key[0] + turn * 0x9E3779B9) & LOW, (key[1] + turn * 0xBB67AE85) & LOW]
        counter = [two >> 32 ^ counter[1] ^ k[0], two & LOW, one >> 32 ^ counter[3] ^ k[1], one & LOW]
    return counter


def uniform(seed, sample, position):
    """The random number of a word: uniform(position) of the item `sample` of the stream ("generate", seed), as src/base/random.hpp has it."""
    family = 0xCBF29CE484222325  # FNV-1a
    for letter in b"generate":
        family = (family ^ letter) * 0x100000001B3 & (2**64 - 1)
    key = philox([seed, 0, family & LOW, family >> 32], [0x666C7578, 0x66616D69])[:2]
    words = philox([position, 0, sample + 1, 0], key)
    return ((words[0] | words[1] << 32) >> 12) * 2.0**-52 + 2.0**-53


class Generating(TrainTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        texts = {"ids": random.integers(1, 8, (40, 16)), "lengths": random.integers(8, 17, 40)}
        self.put("tokens.h5", **{f"{split}/{name}": values for split in ("train", "test") for name, values in texts.items()})
        self.lengths = np.array([3, 6, 1, 3, 5])
        self.prompts = np.where(np.arange(6) < self.lengths[:, None], random.integers(1, 8, (5, 6)), 0)
        self.put("prompts.h5", ids=self.prompts, lengths=self.lengths)
        self.once("model.h5", lambda: self.train(*CAUSAL, "--output.file=model.h5"))

    def put(self, name, **arrays):
        with h5py.File(self.path(name), "w") as file:
            for array, values in arrays.items():
                file[array] = values
            file.create_dataset("words", data=WORDS, dtype=h5py.string_dtype())

    def generate(self, *settings, ranks=1, output="out.h5", model="model.h5"):
        end = self.run_program("generate", f"--model.file={model}", *PROMPTS, "--generate.tokens=10", f"--output.file={output}", *settings, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        file = self.open(output)
        group, = file["analysis/generate"].values()
        of_seed = {name: group[name][0] for name in ("log_probability", "prompt_length", "token_marches", "perplexity", "prompt_perplexity")}
        return {"ids": file["ids"][...], "lengths": file["lengths"][...], "said": end.err + end.out, **of_seed}

    def by_numpy(self, model, choose, tokens=10, segments=None):
        """(ids, log p) of the texts whose next word is choose(logits, sample, position), which is of the segment of the last word of the prompt."""
        ids, log_p = np.zeros((5, 6 + tokens), int), np.full((5, 6 + tokens), np.nan)
        for sample, length in enumerate(self.lengths):
            text = list(self.prompts[sample, :length])
            for position in range(1, length + tokens):
                kinds = None if segments is None else segments[sample, np.minimum(np.arange(position), length - 1)][None]
                states, _ = model.states(np.array([text[:position]]), [position], kinds)
                z = model.words(states[-1])[0, -1]
                if position == len(text):
                    text.append(choose(z, sample, position))
                if position >= length or text[position] > 1:
                    log_p[sample, position] = z[text[position]] - z.max() - np.log(np.exp(z - z.max()).sum())
            ids[sample, :len(text)] = text
        return ids, log_p


class Words(Generating):
    def test_are_those_of_numpy(self):
        def drawn(temperature, top_k, seed):
            def choose(z, sample, position):
                kept = np.sort(np.argsort(-z, kind="stable")[:top_k or len(z)])
                shares = np.cumsum(np.exp((z[kept] - z.max()) / temperature))
                return kept[np.argmax(shares > uniform(seed, sample, position) * shares[-1])]
            return choose

        greedy = lambda z, *_: z.argmax()  # noqa: E731
        self.train(*CAUSAL, "--output.file=own.h5", "--train.word_matrix=own", "--model.width=12", "--mesh.layers=3")
        for name in ("model.h5", "own.h5"):
            model = Model(self.path(name))
            cases = ((("--generate.temperature=0",), greedy), (("--generate.top_k=1", "--run.seed=4"), greedy), ((), drawn(1, 0, 1)),
                     (("--generate.temperature=0.3", "--generate.top_k=5", "--run.seed=7"), drawn(0.3, 5, 7)))
            for number, (settings, choose) in enumerate(cases):
                found = self.generate(*settings, model=name, output=f"{number}_{name}")
                ids, log_p = self.by_numpy(model, choose)
                np.testing.assert_array_equal(found["ids"], ids, err_msg=f"{name} {settings}")
                # Double precision on both sides, and a few hundred roundings.
                np.testing.assert_allclose(found["log_probability"], log_p, rtol=0, atol=1e-12)
                np.testing.assert_array_equal(found["lengths"], self.lengths + 10)
                np.testing.assert_array_equal(found["prompt_length"], self.lengths)
                new = np.arange(16) >= self.lengths[:, None]
                self.assertAlmostEqual(found["perplexity"], np.exp(-np.nanmean(log_p[new])), delta=1e-10)
                self.assertAlmostEqual(found["prompt_perplexity"], np.exp(-np.nanmean(log_p[~new])), delta=1e-10)

    def test_are_of_the_segment_of_the_last_word_of_the_prompt(self):
        random = np.random.default_rng(7)
        texts = {"ids": random.integers(1, 8, (40, 16)), "segments": random.integers(0, 2, (40, 16))}
        self.put("tokens.h5", **{f"{split}/{name}": values for split in ("train", "test") for name, values in texts.items()})
        segments = random.integers(0, 2, self.prompts.shape)
        self.put("prompts.h5", ids=self.prompts, lengths=self.lengths, segments=segments)
        self.train(*CAUSAL, "--output.file=segments.h5")
        last = segments[np.arange(5), self.lengths - 1]
        self.assertEqual(set(last), {0, 1})
        found = self.generate("--generate.temperature=0", model="segments.h5")
        ids, log_p = self.by_numpy(Model(self.path("segments.h5")), lambda z, *_: z.argmax(), segments=segments)
        np.testing.assert_array_equal(found["ids"], ids)
        np.testing.assert_allclose(found["log_probability"], log_p, rtol=0, atol=1e-12)

    def test_are_the_same_on_any_ranks_and_in_any_batches(self):
        one = self.generate("--generate.batch=2")
        for ranks in SEVERAL_RANKS:
            other = self.generate("--generate.batch=2", ranks=ranks, output=f"{ranks}.h5")
            for name in ("ids", "lengths", "log_probability", "token_marches", "perplexity"):
                self.assertEqual(one[name].tobytes(), other[name].tobytes(), f"{ranks} ranks: {name}")
        for batch in (1, 3, 8):
            other = self.generate(f"--generate.batch={batch}", output=f"batch{batch}.h5")
            np.testing.assert_array_equal(one["ids"], other["ids"])
            np.testing.assert_allclose(one["log_probability"], other["log_probability"], rtol=0, atol=1e-13)

    def test_do_not_depend_on_what_is_kept(self):
        self.train(*CAUSAL, *PDE, "--output.file=pde.h5")
        for model in ("model.h5", "pde.h5"):
            kept, again = self.generate(model=model, output="kept_" + model), self.generate("--generate.keep=false", model=model, output="again_" + model)
            np.testing.assert_array_equal(kept["ids"], again["ids"])
            np.testing.assert_allclose(kept["log_probability"], again["log_probability"], rtol=0, atol=1e-13)
            self.assertLess(kept["token_marches"].sum(), again["token_marches"].sum())
            single = [self.generate("--run.precision=single", f"--generate.keep={keep}", model=model, output=f"single_{keep}_{model}")
                      for keep in ("true", "false")]
            for found in single:
                np.testing.assert_array_equal(found["ids"], kept["ids"])
                # Attention, reaction and logits of some ten roundings of 6e-8, of numbers of order one: not those of double precision.
                np.testing.assert_allclose(found["log_probability"], kept["log_probability"], rtol=0, atol=5e-6)
                self.assertGreater(np.nanmax(abs(found["log_probability"] - kept["log_probability"])), 1e-9)

    def test_of_64_behind_64_take_127_token_marches_if_earlier_ones_are_kept(self):
        # Without positions lines may be longer than those of the training.
        self.train(*CAUSAL, "--model.positions=none", "--output.file=free.h5")
        self.put("prompts.h5", ids=np.random.default_rng(2).integers(2, 8, (2, 64)))
        kept, again = (self.generate("--generate.tokens=64", *more, model="free.h5", output=f"{name}.h5")
                       for name, more in (("kept", ()), ("again", ("--generate.keep=false",))))
        self.assertEqual(kept["token_marches"].tolist(), [127, 127])
        self.assertEqual(again["token_marches"].tolist(), [6112, 6112])
        np.testing.assert_array_equal(kept["ids"], again["ids"])
        np.testing.assert_allclose(kept["log_probability"], again["log_probability"], rtol=0, atol=1e-13)


class Texts(Generating):
    def test_have_the_loss_of_reading_them_again(self):
        for ranks in (1, *SEVERAL_RANKS):
            found = self.generate("--generate.batch=2", ranks=ranks, output=f"{ranks}.h5")
            targets = (found["ids"] > 1) & (np.arange(16) > 0) & (np.arange(16) < found["lengths"][:, None])
            end = self.run_program("refinement", "--models.transformer=model.h5", "--data.set=tokens", f"--data.file={ranks}.h5", "--samples.count=5",
                                   "--refinement.goals=loss", "--refinement.cells=1,2", f"--output.file=again{ranks}.h5", ranks=ranks)
            self.assertEqual(end.code, 0, end)
            loss = self.open(f"again{ranks}.h5")["analysis/refinement/transformer/goal_value"][0, 0, 0]
            self.assertAlmostEqual(-found["log_probability"][targets].sum(), loss * targets.sum(), delta=1e-12 * targets.sum())

    def test_end_behind_the_word_that_ends_them(self):
        free = self.generate(output="free.h5")
        ended = self.generate("--generate.stop=c")
        for sample, (text, log_p, length, prompt) in enumerate(zip(free["ids"], free["log_probability"], free["lengths"], self.lengths)):
            places = [place for place in range(prompt, length) if text[place] == WORDS.index("c")]
            end = places[0] + 1 if places else length
            self.assertEqual(ended["lengths"][sample], end)
            np.testing.assert_array_equal(ended["ids"][sample], np.where(np.arange(16) < end, text, 0))
            np.testing.assert_allclose(ended["log_probability"][sample, :end], log_p[:end], rtol=0, atol=1e-13)
        self.assertTrue((ended["lengths"] < free["lengths"]).any())
        # The last word is not marched, nor anything for a text that has ended before others of its batch.
        np.testing.assert_array_equal(ended["token_marches"], ended["lengths"] - 1)
        self.assertIn("a text ends behind word 4 (c)", ended["said"])
        self.assertEqual(self.open("out.h5")["analysis/generate"].attrs["stop"], 4)
        self.assertEqual(self.open("free.h5")["analysis/generate"].attrs["stop"], -1)

    def test_are_read_by_the_tokeniser_and_drawn(self):
        found = self.generate()
        self.write("vocab.txt", "\n".join(WORDS) + "\n")
        done = call("text", self.path("out.h5"), "--tokenizer", self.path("vocab.txt"), "--keep-specials")
        self.assertEqual(done.returncode, 0, done.stderr)
        texts = [" ".join(WORDS[word] for word in row[:length]) for row, length in zip(found["ids"], found["lengths"])]
        self.assertEqual(done.stdout.splitlines(), texts)
        done = call("plot", self.path("out.h5"), "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("drawn"))), ["generate.pdf", "generate.png"])
        done = call("report", self.path("out.h5"), "--output", self.path("page"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_stopped_run_ends_with_the_same_bits(self):
        self.generate("--generate.batch=1", output="whole.h5")
        arguments = ("generate", "--model.file=model.h5", *PROMPTS, "--generate.tokens=10", "--generate.batch=1", "--output.file=out.h5")
        end = self.run_program(*arguments, "--run.time_limit=1e-6")
        self.assertEqual(end.code, 4, end)
        self.assert_refused(self.run_program(*arguments, "--checkpoint.restart=auto", "--generate.temperature=2"), "generate.temperature")
        self.generate("--generate.batch=1", "--checkpoint.restart=auto", ranks=2)
        whole, other = (self.arrays(self.open(name)) for name in ("whole.h5", "out.h5"))
        for name in ("ids", "lengths", "analysis/generate/transformer/log_probability", "analysis/generate/transformer/token_marches"):
            self.assertEqual(whole[name].tobytes(), other[name].tobytes(), name)


class Refusals(Generating):
    def refused(self, *settings, parts):
        end = self.run_program("generate", "--model.file=model.h5", *PROMPTS, "--generate.tokens=10", "--output.file=no.h5", *settings)
        self.assert_refused(end, *parts)
        self.assertFalse(os.path.exists(self.path("no.h5")))

    def test_what_cannot_be_continued_is_refused(self):
        self.train("--train.epochs=1", "--output.file=classes.h5")
        self.train(*CAUSAL, "--train.objective=masked", "--attention.causal=false", "--output.file=masked.h5")
        self.train(*CAUSAL, "--train.objective=masked", "--output.file=causal_masked.h5")
        with h5py.File(self.path("features.h5"), "w") as file:
            file["features"] = np.ones((2, 3, 4))
        cases = ((("--generate.tokens=11",), ("generate.tokens = 11", "behind a prompt of 6 words", "positions for 16")),
                 (("--model.file=",), ("model.file", "no file given")),
                 (("--model.file=none.h5",), ("model.file = none.h5",)),
                 (("--model.file=classes.h5",), ("classes.h5", "word")),
                 (("--model.file=masked.h5",), ("masked.h5",)),
                 (("--model.file=causal_masked.h5",), ("causal_masked.h5",)),
                 (("--output.file=model.h5", "--output.overwrite=true"), ("output.file",)),
                 (("--data.set=digits", "--data.file="), ("not words",)),
                 (("--data.file=features.h5",), ("features.h5", "not words")),
                 (("--data.file=none.h5",), ("data.file = none.h5",)),
                 (("--generate.prompts=6",), ("generate.prompts = 6", "5 samples")),
                 (("--generate.top_k=11",), ("generate.top_k = 11", "10 words")),
                 (("--generate.stop=g",), ("generate.stop = g",)),
                 (("--generate.temperature=-1",), ("generate.temperature", ">= 0")),
                 (("--mesh.ranks_token=2",), ("mesh.ranks_token",)))
        together([lambda s=settings, p=parts: self.refused(*s, parts=p) for settings, parts in cases])


if __name__ == "__main__":
    unittest.main()
