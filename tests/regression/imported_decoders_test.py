#!/usr/bin/env python3
"""Imported decoders at work: fine-tuning on next words, the Hessian of their loss, greedy continuations and lines that are longer than those they
were made for, against PyTorch in double precision with the weights that were published, on any number of ranks.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_model import Model  # noqa: E402
from program import FULL_TIER, ProgramTest, together, with_attributes  # noqa: E402
from published_case import CLASSES, ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from language_model_shapes import shapes  # noqa: E402
from python_package import call  # noqa: E402

from fluxformer.tokens import write_token_file  # noqa: E402

try:
    import torch
    from make_language_gradients_reference import CASES, DECODER, imported, random_tensor
    from torch_language_models import outputs
except ImportError:  # PyTorch is not installed
    torch = None

NAMES = ["<pad>", "<unk>", *(f"word{number}" for number in range(2, 11))]
LENGTHS = [9, 6, 1, 8, 2]
NOT_TRAINED = {"window", "rotary/theta", "rotary/table"}
TRAIN = ("--model.file=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--train.objective=causal", "--train.samples=0", "--train.test_samples=0",
         "--train.validation=0", f"--train.batch={len(LENGTHS)}", "--train.warm_up=0", "--train.schedule=constant", "--train.clip=0")
HESSIAN = ("--models.transformer=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--samples.count=0", "--samples.batch=5",
           "--hessian.probes=0", "--hessian.eigenvalues=2")


def decoders():
    """name -> (class, config.json): groups, SwiGLU and RMSNorm without a window and with one; the second tier has more families."""
    found = {"llama": ("LlamaForCausalLM", {**DECODER, "model_type": "llama", "head_dim": 4, "rope_theta": 20.0}), "mistral": CASES["mistral"]}
    return {**found, "qwen3": CASES["qwen3"], "gpt_neox": CASES["gpt_neox"]} if FULL_TIER else found


class Decoder:
    """A decoder of random weights: its tensors, as they are published, and what PyTorch computes with them."""

    def __init__(self, kind, config, seed=5):
        random = np.random.RandomState(seed)
        sizes = shapes(config, 1)
        self.config = {**config, "architectures": [kind]}
        self.tensors = {name: torch.from_numpy(random_tensor(name, shape, random).astype(np.float64)).requires_grad_()
                        for name, shape in sizes.items() if name.startswith(CLASSES[kind])}
        self.others = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in sizes.items() if name not in self.tensors}
        self.ids = random.randint(0, len(NAMES), (len(LENGTHS), max(LENGTHS)))
        self.ids[self.ids[:, 0] == 0, 0] = 2  # padding stands on the right

    def logits(self, tensors, ids, lengths):
        return outputs(self.config, {**self.others, **tensors}, torch.as_tensor(ids), torch.tensor(lengths))["words"]

    def at_targets(self, tensors):
        """(logits, words) of all next words but <pad> and <unk>."""
        places = [(sample, token) for sample, length in enumerate(LENGTHS) for token in range(length - 1) if self.ids[sample, token + 1] > 1]
        sample, token = np.array(places).T
        return self.logits(tensors, self.ids, LENGTHS)[sample, token], torch.as_tensor(self.ids[sample, token + 1])

    def loss(self, tensors):
        return torch.nn.functional.cross_entropy(*self.at_targets(tensors))

    def arrays(self, tensors):
        """Tensors as the importer lays them out."""
        return {path: np.asarray(array) for path, array in imported(self.config, tensors).arrays.items() if path not in NOT_TRAINED}

    def curvatures(self):
        """Eigenvalues of the Hessian of the loss and of its Gauss-Newton part, by backward passes for each weight and each output."""
        whole, cuts = torch.cat([tensor.detach().ravel() for tensor in self.tensors.values()]).requires_grad_(), {}
        start = 0
        for name, tensor in self.tensors.items():
            cuts[name] = whole[start:start + tensor.numel()].reshape(tensor.shape)
            start += tensor.numel()
        z, words = self.at_targets(cuts)
        slope, = torch.autograd.grad(torch.nn.functional.cross_entropy(z, words), whole, create_graph=True)
        hessian = torch.stack([torch.autograd.grad(one, whole, retain_graph=True)[0] for one in slope]).numpy()
        jacobian = torch.stack([torch.autograd.grad(one, whole, retain_graph=True)[0] for one in z.ravel()]).numpy().reshape(*z.shape, -1)
        p = torch.softmax(z, dim=-1).detach().numpy()
        mean = np.einsum("tw,twj->tj", p, jacobian)
        gauss_newton = (np.einsum("tw,twj,twk->jk", p, jacobian, jacobian, optimize=True) - mean.T @ mean) / len(words)
        return {"hessian": np.linalg.eigvalsh((hessian + hessian.T) / 2), "gauss_newton": np.linalg.eigvalsh(gauss_newton)}

    def greedy(self, prompt, tokens):
        """(words, log p of all but the first) of a prompt and its continuation; the whole line is read anew for each word."""
        line = list(prompt)
        with torch.no_grad():
            while len(line) < len(prompt) + tokens:
                line.append(int(self.logits(self.tensors, [line], [len(line)])[0, -1].argmax()))
            log_p = torch.log_softmax(self.logits(self.tensors, [line], [len(line)])[0], dim=-1).numpy()
        return line, log_p[np.arange(len(line) - 1), line[1:]]


class Imported(ProgramTest):
    def import_folder(self, config, tensors):
        end = call("import", *save(self.folder, config, tensors), "--output", self.path("model.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))

    def done(self, *arguments, ranks=1):
        end = self.run_program(*arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end


@unittest.skipIf(torch is None, "PyTorch is not installed (apt-get install python3-torch)")
class Decoders(Imported):
    def decoder(self, kind, config):
        """A decoder, imported as model.h5, with its lines as tokens.h5."""
        decoder = Decoder(kind, config)
        self.import_folder(decoder.config, {key: tensor.detach().numpy() for key, tensor in decoder.tensors.items()})
        lines = {"ids": decoder.ids, "lengths": LENGTHS}
        write_token_file(self.path("tokens.h5"), **lines, test=lines, words=NAMES, overwrite=True)
        return decoder

    def optimise(self, decoder, make, steps):
        """(losses before each step and behind the last, arrays of the model) of PyTorch's optimiser."""
        tensors = {name: tensor.detach().clone().requires_grad_() for name, tensor in decoder.tensors.items()}
        optimiser, losses = make(tensors), []
        for _ in range(steps):
            optimiser.zero_grad()
            loss = decoder.loss(tensors)
            loss.backward()
            losses.append(loss.item())
            optimiser.step()
        return [*losses, decoder.loss(tensors).item()], decoder.arrays(tensors)

    def test_are_trained_on_next_words_as_by_pytorch(self):
        rate, epsilon = 1e-2, 1e-2

        def adamw(tensors):  # gains are not decayed
            groups = [{"params": [t for t in tensors.values() if (t.ndim == 2) == matrices], "weight_decay": 0.1 * matrices} for matrices in (True, False)]
            return torch.optim.AdamW(groups, lr=rate, betas=(0.8, 0.95), eps=epsilon)

        # Gradients of some hundred roundings of 1.1e-16; Adam divides them by at least epsilon.
        sgd = lambda tensors: torch.optim.SGD(tensors.values(), lr=1)  # noqa: E731
        runs = {"sgd": (sgd, 1, 1e-13, ("--train.optimiser=sgd", "--train.momentum=0", "--train.rate=1", "--train.decay=0")),
                "adamw": (adamw, 3, 3 * 1e-13 * rate / epsilon, ("--train.optimiser=adamw", f"--train.rate={rate}", f"--train.epsilon={epsilon}",
                                                                 "--train.beta1=0.8", "--train.beta2=0.95", "--train.decay=0.1"))}
        layouts = {"one": (1, ()), "three": (3, ("--mesh.ranks_token=3",)), "depth": (2, ("--mesh.ranks_depth=2",))}
        some = {("sgd", "one"), ("adamw", "one"), ("adamw", "three")}
        runs_and_layouts = [(key, layout) for key in runs for layout in layouts if FULL_TIER or (key, layout) in some]
        for name, of in decoders().items():
            decoder = self.decoder(*of)
            before = decoder.arrays(decoder.tensors)
            together([lambda k=key, m=layout: self.done("train", "--quiet", *TRAIN, f"--train.epochs={runs[k][1]}", *runs[k][3], *layouts[m][1],
                                                        f"--output.file={name}_{k}_{m}.h5", ranks=layouts[m][0]) for key, layout in runs_and_layouts])
            expected = {key: self.optimise(decoder, make, steps) for key, (make, steps, *_) in runs.items()}
            for key, layout in runs_and_layouts:
                (losses, arrays), (_, steps, tolerance, _) = expected[key], runs[key]
                file = self.open(f"{name}_{key}_{layout}.h5")
                np.testing.assert_allclose(file["training/loss"][...], losses[:steps], rtol=1e-12)
                np.testing.assert_allclose(file["training/test_loss"][-1], losses[-1], rtol=1e-12)
                for path, wanted in arrays.items():
                    found = file[f"model/{path}"][...]
                    self.assertGreater(abs(found - before[path]).max(), 1e6 * tolerance, path)
                    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance, err_msg=f"{key}, {layout}: {path}")

    def test_have_the_hessian_of_pytorch(self):
        for name, of in decoders().items():
            decoder = self.decoder(*of)
            tolerance = 1e-9
            together([lambda r=ranks, m=mesh: self.done("hessian_spectrum", "--quiet", *HESSIAN, f"--hessian.tolerance={tolerance}", *m,
                                                        f"--output.file={name}{r}.h5", ranks=r) for ranks, mesh in ((1, ()), (3, ("--mesh.ranks_token=3",)))])
            wanted, loss = decoder.curvatures(), decoder.loss(decoder.tensors).item()
            for ranks in (1, 3):
                found = self.open(f"{name}{ranks}.h5")["analysis/hessian/transformer"]
                np.testing.assert_allclose(found["loss"][...], [loss], rtol=1e-12)
                ends = (("largest_eigenvalue", wanted["hessian"][:-3:-1]), ("smallest_eigenvalue", wanted["hessian"][:2]),
                        ("gauss_newton_largest_eigenvalue", wanted["gauss_newton"][:-3:-1]))
                for end, eigenvalues in ends:
                    # An eigenvalue is wrong by its residual at most.
                    np.testing.assert_allclose(found[end][0], eigenvalues, rtol=0, atol=tolerance * abs(wanted["hessian"]).max(), err_msg=f"{end}, {ranks}")

    def test_go_on_greedily_as_in_pytorch(self):
        lengths, tokens = np.array([3, 6, 1, 5]), 12
        for name, of in decoders().items():
            decoder = self.decoder(*of)
            prompts = np.where(np.arange(6) < lengths[:, None], np.random.default_rng(3).integers(2, len(NAMES), (4, 6)), 0)
            write_token_file(self.path("prompts.h5"), ids=prompts, lengths=lengths, words=NAMES, overwrite=True)
            runs = {f"{name}_{keep}_{ranks}.h5": (ranks, f"--generate.keep={keep}") for ranks in (1, 2) for keep in ("true", "false")
                    if FULL_TIER or (ranks == 2) == (keep == "true")}
            together([lambda o=output, r=ranks, k=keep: self.done(
                "generate", "--model.file=model.h5", "--data.set=tokens", "--data.file=prompts.h5", f"--generate.tokens={tokens}",
                "--generate.temperature=0", "--generate.batch=2", k, f"--output.file={o}", ranks=r) for output, (ranks, keep) in runs.items()])
            lines = [decoder.greedy(row[:length], tokens) for row, length in zip(prompts, lengths)]
            self.assertGreater(len({word for line, _ in lines for word in line[-tokens:]}), 2, "words that differ")
            for output in runs:
                file = self.open(output)
                log_p = file["analysis/generate/transformer/log_probability"][0]
                for sample, (line, wanted) in enumerate(lines):
                    self.assertEqual(file["ids"][sample, :len(line)].tolist(), line, output)
                    # A few hundred roundings of double precision.
                    np.testing.assert_allclose(log_p[sample, 1:len(line)], wanted, rtol=0, atol=1e-12, err_msg=output)


class LongLines(Imported):
    def import_with(self, **entries):
        config, tensors = Case("llama").published("LlamaForCausalLM")
        self.import_folder({**config, "max_position_embeddings": 8, "rope_scaling": None, **entries}, tensors)

    def lines(self, name, tokens):
        write_token_file(self.path(name), ids=np.random.default_rng(7).integers(2, 29, (2, tokens)), overwrite=True)
        return "--data.set=tokens", f"--data.file={name}"

    def states(self, data):
        settings = ("--inflow.samples=2", "--start.state=inflow", "--evolve.method=euler", "--evolve.cfl=1", "--evolve.time=3", "--output.overwrite=true")
        end = self.done("evolve", "--model.file=model.h5", *data, *settings, "--quiet", "--output.file=out.h5")
        return self.open("out.h5")["field/u"][-1, -1].swapaxes(0, 1), end.err

    def test_of_dynamic_angles_are_refused_and_those_of_others_are_run_with_a_warning(self):
        said = "lines of 9 tokens, the model in model.h5 was made for lines of up to 8"
        short, long = self.lines("short.h5", 8), self.lines("long.h5", 9)
        with h5py.File(self.path("long.h5"), "r") as file:
            ids = file["ids"][...].astype(int)
        self.import_with()
        wanted, warned = self.states(short)
        self.assertNotIn("was made for", warned)
        found, warned = self.states(long)
        self.assertIn(said, warned)
        # Layers of some hundred roundings of double precision.
        hidden = Model(self.path("model.h5")).states(ids, [9, 9])[0]
        np.testing.assert_allclose(found, hidden[-1], rtol=0, atol=1e-12 * abs(hidden).max())
        continued = ("generate", "--model.file=model.h5", *short, "--generate.temperature=0", "--generate.tokens=2")
        end = self.done(*continued, "--output.file=words.h5")
        self.assertIn("generate.tokens = 2: lines of 10 tokens", end.err)

        self.import_with(rope_scaling={"rope_type": "dynamic", "factor": 2.0})
        found, warned = self.states(short)
        self.assertNotIn("was made for", warned)
        np.testing.assert_array_equal(found, wanted)
        train = ("train", "--model.file=model.h5", "--train.objective=causal", "--train.samples=0", "--train.test_samples=0", "--train.batch=2")
        with h5py.File(self.path("both.h5"), "w") as file:
            file["train/ids"], file["test/ids"] = ids, ids
        for arguments, part in ((("evolve", "--model.file=model.h5", *long), said), ((*train, "--data.set=tokens", "--data.file=both.h5"), said),
                                (continued, "generate.tokens = 2: lines of 10 tokens")):
            end = self.run_program(*arguments, "--output.file=no.h5", ranks=2 if FULL_TIER else 1)
            self.assert_refused(end, part, "beyond which its rotary positions are others")
            self.assertFalse(os.path.exists(self.path("no.h5")))


class Refusals(Imported):
    def refused(self, *arguments, parts):
        end = self.run_program(*arguments, "--output.file=no.h5", ranks=2 if FULL_TIER else 1)
        self.assert_refused(end, *parts)
        self.assertFalse(os.path.exists(self.path("no.h5")))

    def test_attention_is_not_distilled_from_or_into_what_has_other_keys_than_heads(self):
        lines = {"ids": np.random.default_rng(7).integers(2, 29, (4, 6))}
        write_token_file(self.path("tokens.h5"), **lines, test=lines, words=[f"word{number}" for number in range(29)])
        data = ("--data.set=tokens", "--data.file=tokens.h5", "--train.objective=causal", "--train.samples=0", "--train.test_samples=0", "--train.batch=4",
                "--train.validation=0", "--train.epochs=1")
        new = ("--mesh.layers=2", "--attention.heads=2", "--model.width=8", "--model.ffn=12", "--attention.causal=true")
        self.done("train", "--quiet", *data, *new, "--output.file=teacher.h5")
        message = ["distill.attention: is defined for attention with biases, a group of keys for each head", "rotary or window"]
        student = ("train", *data, *new, "--distill.teacher=teacher.h5", "--distill.attention=1", "--distill.copy=false")
        for setting in ("--attention.rotary=half", "--attention.groups=1", "--attention.window=3", "--attention.qk_norm=true", "--attention.head_width=6",
                        "--model.biases=none"):
            with self.subTest(setting):
                self.refused(*student, setting, parts=message)
        self.import_folder(*Case("llama").published("LlamaForCausalLM"))
        twin = ("train", *data, "--model.file=model.h5", "--distill.teacher=model.h5")
        self.refused(*twin, "--distill.attention=1", parts=message)
        # Its states are matched all the same: its own by 0.
        self.done(*twin, "--distill.hidden=1", "--output.file=twin.h5")
        self.assertLess(self.open("twin.h5")["training/depth_loss"][0], 1e-14)

    def test_weights_that_are_linear_in_depth_have_one_window_one_table_and_all_norms(self):
        same = "depth.weights = linear: windows and rotary angles must be the same in all layers"
        for name, kind, change, part in (("qwen2", "Qwen2ForCausalLM", {}, same), ("modernbert", "ModernBertForMaskedLM", {"window": [3] * 4}, same),
                                         ("modernbert", "ModernBertForMaskedLM", {"window": [3] * 4, "rotary/table": [0] * 4},
                                          "first_norm = off needs depth.norm = pre, weights that are constant in each layer")):
            with self.subTest(name, part=part):
                self.import_folder(*Case(name).published(kind))
                with h5py.File(self.path("model.h5"), "a") as file:
                    with_attributes("model", kind="pde")(file)
                    for path, numbers in change.items():
                        del file["model"][path]
                        file["model"][path] = np.array(numbers)
                self.refused("evolve", "--model.file=model.h5", "--inflow.source=noise", parts=["model.h5", part])
                with h5py.File(self.path("model.h5"), "a") as file:
                    with_attributes("model", kind="transformer")(file)
                lines = {"ids": np.random.default_rng(7).integers(2, 29, (4, 6))}
                write_token_file(self.path("tokens.h5"), **lines, overwrite=True)
                self.refused("attention", "--models.transformer=model.h5", "--models.inherited=2", "--data.set=tokens", "--data.file=tokens.h5",
                             "--samples.count=2", parts=["models.inherited = 2: model.h5", part])


if __name__ == "__main__":
    unittest.main()
