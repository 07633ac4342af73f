#!/usr/bin/env python3
"""Examples are tests: every deck of input/ runs at a small size, the numbers stated in its comments hold, and other programs can open the file.
Figures of evolve: plot_evolve_test.py.
"""

import configparser
import glob
import io
import os
import re
import subprocess
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import ROOT, ProgramTest, ranks_of_case, together  # noqa: E402
from python_package import call  # noqa: E402
from described import names_of  # noqa: E402

# "evolve/particles": the deck of that name for the experiment of its folder. Families with their own tests are not
# included.
DECKS = {f"{experiment}/{os.path.basename(path)[:-4]}": path for experiment in ("evolve", "train")
         for path in glob.glob(os.path.join(ROOT, "input", experiment, "*.ini"))}
EXPERIMENT = {name: name.split("/")[0] for name in DECKS}
# Data sets that need files, and similar built-in ones.
BUILT_IN = {"mnist": ("--data.set=digits",), "omniglot": ("--data.set=digits", "--data.alphabets=0"),
            "20news": ("--data.set=topics", "--data.vocabulary=500", "--data.length=32"),
            "stripped": ("--data.headers=true", "--data.quotes=true", "--data.footers=true")}
# Decks that a PDE model's deck stands beside.
TWINS = [f"train/{data}" for data in ("20news", "20news_causal", "20news_masked", "20news_stripped", "digits", "mnist", "omniglot")]
# Those whose PDE model has a deck that trains it on meshes drawn anew for each step.
CONVERGED = [f"train/{data}" for data in ("20news_masked", "digits", "mnist")]
# Decks that start from the model of another deck.
START = {"train/20news_tuned": "train/20news_masked"}
# Experiments of decks that do not have the name of theirs, which may begin with that of the family.
OTHERS = {"clusters/formation": "clusters_circle", "clusters/metastability": "clusters_circle", "hessian/digits": "hessian_spectrum",
          "hessian/hessian": "hessian_spectrum", "hessian/adamw": "train", "hessian/sgd": "train", "interventions/influence_model": "influence",
          "paths/one_shot_train": "paths_train"}
FAMILIES = {"hessian/growth_": "hessian_scaling", "identifiability/": "identifiability", "interventions/": "interventions",
            "paths/pruning": "pruning", "paths/markov": "paths_theory",
            "paths/one_shot": "paths_theory", "paths/surrogate": "paths_theory", "scaling/": "scaling", "compare/": "train"}
# Of decks whose models or data sets are not here: keys and their values are refused before.
NOT_HERE = re.compile(r"no file given|no such file|is not a folder|needs distill\.teacher")
SMALL = ("--mesh.layers=3", "--inflow.samples=2", "--model.width=16", "--model.ffn=32", "--evolve.time=9")


def experiment_of(path):
    """The experiment of a deck of a family."""
    folders = os.path.relpath(path, os.path.join(ROOT, "input"))[:-4].split(os.sep)
    family, stem = folders[1 if folders[0] == "paper" else 0], folders[-1]
    name = f"{family}/{stem}"
    if name in OTHERS:
        return OTHERS[name]
    for experiment in (f"{family}_{stem}", stem) if family != "scaling" else ():
        if experiment in names_of():
            return experiment
    return next(experiment for begin, experiment in FAMILIES.items() if name.startswith(begin))


def mnist_folder():
    """The folder with the real images: FLUXFORMER_DATA; None if unset."""
    for folder in filter(None, (os.environ.get("FLUXFORMER_DATA"),)):
        for path in (folder, os.path.join(folder, "mnist")):
            if glob.glob(os.path.join(path, "t10k-images-idx3-ubyte*")):
                return os.path.abspath(path)
    return None


def built_in(name):
    """Settings that replace data files by built-in data, or by the small file of bytes (DeckTest.write_bytes)."""
    if name.endswith("_bytes"):
        return ["--data.file=bytes.h5"]
    return [setting for data, settings in BUILT_IN.items() if data in name for setting in settings]


class DeckTest(ProgramTest):
    # Small width and length: a few steps of each.
    SMALL_TRAINING = ("--train.samples=64", "--train.test_samples=16", "--train.epochs=1", "--train.batch=16", "--model.width=8",
                      "--model.ffn=12", "--attention.heads=2")

    def write_bytes(self):
        """Posts, and the file of their bytes. Returns the posts for training."""
        posts = [f"From: {k}\n\nA post \xe9 on space, the {k}th of them, and no more than that.\n".encode("latin-1") for k in range(40)]
        with tarfile.open(self.path("posts.tar.gz"), "w:gz") as tar:
            for k, text in enumerate(posts):
                member = tarfile.TarInfo(f"20news-bydate-{'train' if k % 4 else 'test'}/sci.space/{k}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
        end = subprocess.run([sys.executable, os.path.join(ROOT, "docs", "examples", "newsgroup_bytes.py"), self.path("posts.tar.gz"), self.path("bytes.h5"),
                              "32"], env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "postprocess")}, capture_output=True, text=True, check=False)
        self.assertEqual(end.returncode, 0, end.stderr)
        return [text for k, text in enumerate(posts) if k % 4]

    def train_deck(self, name, *settings, output="out.h5", ranks=1):
        end = self.run_program("train", DECKS[name], "--quiet", f"--output.file={output}", *built_in(name), *settings, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.open(output)

    def train_starts(self):
        """Trains the models that decks start from, small, into the files that they name; and writes the file of bytes."""
        self.write_bytes()
        os.makedirs(self.path("out"), exist_ok=True)
        for first in set(START.values()):
            self.train_deck(first, *self.SMALL_TRAINING, output=f"out/{first.replace('/', '_')}.h5")

    def run_deck(self, name, *arguments, ranks=1):
        """Runs it into out.h5; returns the file."""
        self.evolve("--output.file=out.h5", "--output.overwrite=true", *arguments, deck=DECKS[name], ranks=ranks)
        return self.open("out.h5")

    def assert_draws(self, figures):
        """`fluxformer plot` makes each of them as PNG and PDF, without a display."""
        done = call("plot", self.path("out.h5"), "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = sorted(os.listdir(self.path("drawn")))
        self.assertEqual(drawn, sorted(f"{figure}.{kind}" for figure in figures for kind in ("png", "pdf")))
        for name in drawn:
            with open(self.path("drawn/" + name), "rb") as stream:
                content = stream.read()
            self.assertTrue(content.startswith(b"\x89PNG" if name.endswith("png") else b"%PDF"), name)
            self.assertGreater(len(content), 5000, name)


def read_deck(path):
    deck = configparser.ConfigParser(inline_comment_prefixes="#")
    deck.read(path)
    return deck


def epochs_of(path):
    """The value of each key named epochs in a deck, as numbers."""
    return [int(epoch) for keys in read_deck(path).values() for epoch in keys.get("epochs", "").split(",") if epoch]


class Comparisons(unittest.TestCase):
    def test_no_experiment_reads_a_copy_that_some_training_does_not_write(self):
        # Those that read copies (output.snapshots) read them of all models that they compare.
        folders = [os.path.join(ROOT, "input", folder) for folder in ("compare", "paper/compare/mnist", "paper/compare/20news")]
        for folder in folders:
            written = min(max(epochs_of(path)) for model in ("transformer", "pde", "normed", "distilled", "converged", "linear", "mlp")
                          for path in glob.glob(os.path.join(folder, model + ".ini")))
            for experiment in ("bottleneck", "gradient_flow", "hessian_spectrum", "identifiability"):
                read = epochs_of(os.path.join(folder, experiment + ".ini"))
                self.assertTrue(read, experiment)
                self.assertLessEqual(max(read), written, f"{folder}/{experiment}.ini")


class AllDecks(DeckTest):
    def test_are_known_here(self):
        """A new deck needs its own test below."""
        self.assertEqual(sorted(DECKS), sorted(["evolve/diffusion", "evolve/evolve", "evolve/mnist", "evolve/particles",
                                                "train/topics", "train/20news_causal_modern", "train/20news_causal_transport", "train/20news_bytes", *TWINS, *(twin + "_pde" for twin in TWINS),
                                                *(name + "_converged" for name in CONVERGED), *START]))

    def test_are_valid_and_the_file_they_name_lies_in_out(self):
        self.train_starts()

        def validate(name):
            end = self.run_program(EXPERIMENT[name], DECKS[name], "--validate", *built_in(name), *(self.SMALL_TRAINING[:2] if "bytes" in name else ()))
            self.assertEqual((end.code, end.err), (0, ""), end)
            with open(DECKS[name], encoding="utf-8") as deck:
                experiment, stem = name.split("/")
                self.assertRegex(deck.read(), rf"file = out/({experiment}_)?{stem}\.h5")

        together([lambda n=name: validate(n) for name in DECKS])

    def test_of_all_families_are_valid_but_for_models_and_data_that_are_not_here(self):
        decks = [path for path in glob.glob(os.path.join(ROOT, "input", "**", "*.ini"), recursive=True) if path not in DECKS.values()]
        self.assertGreater(len(decks), 80)

        def validate(path):
            end = self.run_program(experiment_of(path), path, "--validate")
            if end.code != 0:
                self.assertEqual(end.code, 2, (path, end))
                self.assertRegex(end.err, NOT_HERE, path)

        together([lambda path=path: validate(path) for path in decks])


class Evolve(DeckTest):
    def test_the_front_crosses_the_layers_one_after_the_other(self):
        file = self.run_deck("evolve/evolve", *SMALL, ranks=2)
        self.assertEqual(file["field/u"].shape, (6, 3, 49, 2, 16))  # t = 0, 2, 4, 6, 8 and the end
        np.testing.assert_allclose(file["time"][...], [0, 2, 4, 6, 8, 9], rtol=1e-12)
        arrival = file["analysis/evolve/arrival_time"][...]
        # The front moves at one layer per unit of time; the last 5 % arrive later.
        self.assertTrue((np.diff(arrival) > 0).all(), arrival)
        self.assertTrue((arrival > file["depth"][...]).all(), arrival)
        distance = file["history/distance"][...]
        self.assertLess(distance[-1].max(), 0.05)
        self.assertGreater(distance[0].min(), 0.5)
        entropy = file["analysis/evolve/attention_entropy"][...]
        self.assertEqual(entropy.shape, (3, 4))
        self.assertTrue(((entropy > 0) & (entropy <= 1)).all(), entropy)

    def test_euler_with_courant_number_1_is_the_transformer_layer_by_layer(self):
        file = self.run_deck("evolve/evolve", *SMALL, "--evolve.method=euler", "--evolve.cfl=1", "--output.every=1")
        # Row i is steady from step i on, as the deck says; u* is stored in single precision.
        distance = file["history/distance"][...]
        for row in range(3):
            self.assertLess(distance[row:, row].max(), 1e-6)
        self.assertGreater(distance[0, 1], 0.5)

    def test_stores_attention_whose_rows_sum_to_one_when_asked(self):
        file = self.run_deck("evolve/evolve", *SMALL, "--output.attention=true", "--evolve.time=1", ranks=3)
        weights = file["attention/weights"][...]
        self.assertEqual(weights.shape, (3, 2, 4, 49, 49))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-13)

    def test_xarray_opens_fields_and_history(self):
        try:
            import xarray
            import h5netcdf  # noqa: F401 (the engine)
        except ImportError as missing:
            print(f"NOT CHECKED: {self.id()}: {missing}; apt-get install python3-xarray python3-h5netcdf",
                  file=sys.stderr)
            self.skipTest("xarray or h5netcdf is missing")
        self.run_deck("evolve/evolve", *SMALL).close()
        with xarray.open_dataset(self.path("out.h5"), engine="h5netcdf", group="/field") as field:
            self.assertEqual(field.u.dims, ("time", "depth", "token", "sample", "channel"))
            self.assertEqual(field.u.shape, (6, 3, 49, 2, 16))
            self.assertEqual(field.u.attrs["long_name"], "hidden state")
        with xarray.open_dataset(self.path("out.h5"), engine="h5netcdf", group="/history") as history:
            self.assertEqual(history.norm.dims, ("step", "depth"))
            self.assertEqual(history.norm.shape, (18, 3))
        with xarray.open_dataset(self.path("out.h5"), engine="h5netcdf") as root:
            np.testing.assert_array_equal(root.depth, [1, 2, 3])
            self.assertEqual(root.depth.attrs["unit"], "layer")


class EvolveMnist(DeckTest):
    def test_runs_on_the_real_images(self):
        folder = mnist_folder()
        if folder is None:
            print(f"NOT CHECKED: {self.id()}: no MNIST files; set FLUXFORMER_DATA to their folder", file=sys.stderr)
            self.skipTest("no MNIST files")
        file = self.run_deck("evolve/mnist", *SMALL, f"--data.directory={folder}", ranks=2)
        distance = file["history/distance"][...]
        for row in range(3):  # Courant number 1; u* is stored in single precision
            self.assertLess(distance[row:, row].max(), 1e-6)
        np.testing.assert_array_equal(file["sample"][...], [0, 1])


class Train(DeckTest):
    def test_decks_run_small_and_twins_differ_in_what_makes_a_pde_only(self):
        names = [name for name in sorted(DECKS) if EXPERIMENT[name] == "train"]
        self.train_starts()
        together([lambda n=name, r=ranks_of_case(number): self.train_deck(n, *self.SMALL_TRAINING, output=n[6:] + ".h5", ranks=min(2, r[-1]))
                  for number, name in enumerate(names)])
        for name in names:
            file = self.open(name[6:] + ".h5")
            self.assertEqual(file["step"].shape, (3,), name)
            self.assertTrue(np.isfinite(file["training/loss"][...]).all(), name)
            settings = file.attrs["settings"]
            self.assertEqual("kind = pde" in settings, name.endswith(("_pde", "_converged", "_transport")))
            self.assertEqual(file["training/penalty"][0] > 0, "smoothness = 0\n" not in settings, name)
            next_words = "causal" in name or "bytes" in name
            words = "masked" in name or next_words
            self.assertEqual("masked" in name, "unigram_accuracy" in file["training"].attrs, name)
            self.assertEqual(next_words, "ngram_accuracy" in file["training"], name)
            # The arrays of the model that it starts from, and a new head.
            groups = set(file["model"]) - {"embedding", "layers", "equation", "final_norm", "rotary"}
            heads = set() if name.endswith("_modern") else {"word_head" if words else "head"}  # the word table alone, without a bias
            self.assertEqual(groups, heads, name)
        for name in TWINS:
            one, other = (set(self.open(n[6:] + ".h5").attrs["settings"].splitlines()) for n in (name, name + "_pde"))
            differ = {line.split(" = ")[0] for line in one ^ other}
            self.assertLessEqual(differ, {"kind", "cells", "kappa", "knots", "smoothness", "file"}, name)
        for name in CONVERGED:
            one, other = (set(self.open(n + ".h5").attrs["settings"].splitlines()) for n in (name[6:] + "_pde", name[6:] + "_converged"))
            self.assertEqual({line.split(" = ")[0] for line in one ^ other}, {"cells", "file"}, name)

    def test_converged_decks_evaluate_on_cells_that_they_train_on_and_not_on_the_coarsest(self):
        for name in CONVERGED:
            deck = read_deck(DECKS[name + "_converged"])
            drawn = sorted(int(cells) for cells in deck["train"]["cells"].split(","))
            self.assertIn(int(deck["mesh"]["cells"]), drawn[1:], name)

    def test_the_digits_are_learnt(self):
        # The deck itself takes 1776 steps of batch 32; these are 354 of batch 8, on a tenth of the samples.
        for name in ("train/digits", "train/digits_pde"):
            file = self.train_deck(name, "--train.samples=1000", "--train.test_samples=400", "--train.epochs=3", "--train.batch=8",
                                   output=name[6:] + ".h5")
            self.assertGreater(file["training/test_accuracy"][-1], 0.4, name)  # chance: 0.1

    def test_real_files_where_they_are(self):
        folder = os.environ.get("FLUXFORMER_DATA")
        checked = 0
        for name, data in (("train/mnist", "mnist"), ("train/omniglot", "omniglot"), ("train/20news", "20news"),
                           ("train/20news_masked", "20news"), ("train/20news_masked_pde", "20news"),
                           ("train/mnist_converged", "mnist"), ("train/20news_masked_converged", "20news")):
            place = os.path.join(folder or "", data)
            if not folder or not os.path.isdir(place):
                continue
            end = self.run_program("train", DECKS[name], "--validate", f"--data.directory={os.path.abspath(place)}")
            self.assertEqual((end.code, end.err), (0, ""), end)
            self.assertIn(data, end.out)
            checked += 1
        if checked < 7:
            print(f"NOT CHECKED: {self.id()}: {7 - checked} of 7 decks; set FLUXFORMER_DATA to their folder", file=sys.stderr)


class Bytes(DeckTest):
    def test_lines_of_bytes_are_those_of_the_posts_and_cost_bits(self):
        posts = self.write_bytes()
        with h5py.File(self.path("bytes.h5")) as file:
            lines = file["train/ids"][...]
        np.testing.assert_array_equal(lines[1:, 0], lines[:-1, -1])
        text = bytes(np.concatenate([lines[0], *lines[1:, 1:]]).astype("u1"))
        self.assertGreater(len(text) + 32, sum(map(len, posts)) + len(posts) - 1)  # less than a line is left out
        while len(text) > max(map(len, posts)):
            post = next(one for one in posts if text.startswith(one + b"\n"))
            posts.remove(post)
            text = text[len(post) + 1:]
        self.assertTrue(any((one + b"\n").startswith(text) for one in posts), text)
        file = self.train_deck("train/20news_bytes", *self.SMALL_TRAINING)
        perplexity, bits = file["training/test_perplexity"][...], file["training/test_bits_per_byte"][...]
        np.testing.assert_allclose(bits, np.log2(perplexity), rtol=1e-6)  # a byte is a word; perplexities in single precision


class Modern(DeckTest):
    def test_the_deck_has_the_parts_that_it_names_and_as_many_parameters_as_the_other(self):
        small = ("--train.samples=16", "--train.test_samples=4", "--train.epochs=1", "--train.batch=16", "--data.length=128")
        sizes = {}
        for name, modern in (("20news_causal", False), ("20news_causal_modern", True)):
            model = self.train_deck(f"train/{name}", *small, output=f"{name}.h5")["model"]
            for part, there in (("layers/1/W_G", modern), ("layers/1/b_Q", not modern), ("embedding/position", not modern), ("rotary/theta", modern)):
                self.assertEqual(part in model, there, (name, part))
            arrays = []
            model.visititems(lambda path, item: arrays.append(item.size) if getattr(item, "dtype", None) == float and "rotary" not in path else None)
            sizes[name] = sum(arrays)
            if not modern:  # of the 8000 words of the decks, each has a bias in the head
                sizes[name] += 8000 - model["word_head/b"].size
        self.assertLess(abs(sizes["20news_causal_modern"] - sizes["20news_causal"]), 1e-3 * sizes["20news_causal"])


class Generate(DeckTest):
    def test_the_deck_continues_posts_with_the_model_that_it_names(self):
        deck = os.path.join(ROOT, "input", "generate", "generate.ini")
        os.makedirs(self.path("out"))
        first = "train/20news_causal"
        self.assertEqual(read_deck(deck)["model"]["file"], f"out/{first.replace('/', '_')}.h5")
        self.train_deck(first, *self.SMALL_TRAINING, output=f"out/{first.replace('/', '_')}.h5")
        posts = [setting for setting in BUILT_IN["20news"] if "length" not in setting]
        end = self.run_program("generate", deck, "--quiet", *posts, "--generate.tokens=12", "--output.file=out.h5", ranks=2)
        self.assertEqual(end.code, 0, end)
        file = self.open("out.h5")
        self.assertEqual(file["ids"].shape, (16, 28))
        self.assertTrue((file["lengths"][...] <= 28).all())
        log_p = file["analysis/generate/transformer/log_probability"][0]
        self.assertTrue((log_p[:, 16:28] < 0).any(axis=1).all())
        self.assertEqual(end.out.count(" | "), 4, end)  # texts that it shows
        self.assert_draws(["generate"])


class Ablation(DeckTest):
    def test_the_transformer_without_normalisation_diverges_and_the_others_of_the_deck_do_not(self):
        """The first epoch of the deck, from one seed."""
        deck = os.path.join(ROOT, "input", "compare", "ablation.ini")
        end = self.run_program("ablation", deck, "--quiet", "--output.file=out.h5", "--train.epochs=1",
                               "--train.test_samples=40", "--ablation.seeds=1", ranks=2)
        self.assertEqual(end.code, 0, end)
        group = self.open("out.h5")["analysis/ablation"]
        self.assertEqual(len(group), 12)
        diverged = [name for name in group if group[name].attrs["diverged"]]
        self.assertEqual(diverged, ["transformer_none"])
        # By how much is chance: the norm of a run that diverges follows its round-off (6 to 21 times that of `pre`, by precision and seed).
        norm = {name: group[name]["norm"][0][-1] for name in group}
        self.assertEqual(max(norm, key=norm.get), "transformer_none", norm)


class Particles(DeckTest):
    def gamma(self, *arguments, ranks=1):
        """Inner products of all pairs at the end, t = 2."""
        file = self.run_deck("evolve/particles", *arguments, ranks=ranks)
        self.assertAlmostEqual(file["time"][-1], 2, places=12)
        u = file["field/u"][-1, 0, :, 0, :]
        return (u @ u.T)[np.triu_indices(len(u), 1)]

    def test_cluster_as_the_deck_says(self):
        for beta, ranks, expected in ((1, 1, 0.8451426453), (3, 2, 0.3014563886), (0, 3, 0.8993257342)):
            with self.subTest(beta=beta):
                np.testing.assert_allclose(self.gamma(f"--model.beta={beta}", ranks=ranks), expected, atol=1e-9)

    def test_the_numbers_stand_in_the_deck(self):
        with open(DECKS["evolve/particles"], encoding="utf-8") as deck:
            text = deck.read()
        for number in ("0.8451426453", "0.3014563886"):
            self.assertIn(number, text)


class Diffusion(DeckTest):
    def test_the_cosine_mode_decays_as_the_deck_says(self):
        file = self.run_deck("evolve/diffusion", ranks=2)
        columns, rows, mode, kappa = 16, 12, 3, 0.5
        x, y = np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
        start = (np.cos(np.pi * mode * x / columns) * np.cos(np.pi * mode * y / rows)).ravel()
        u = file["field/u"][:, 0, :, 0, :]
        np.testing.assert_allclose(u[0], np.stack([start, start], axis=1), atol=1e-14)
        # The mode is an eigenvector of the stencil. A third-order method errs by at most z^4/24 a step, z = rate dt.
        rate = 4 * kappa * sum(np.sin(np.pi * mode / (2 * n)) ** 2 for n in (columns, rows))
        step = file["history/step_size"][0]
        time = file["time"][...]
        expected = np.exp(-rate * time)[:, None, None] * u[:1]
        error = np.abs(u - expected).max(axis=(1, 2)) / np.abs(expected).max(axis=(1, 2))
        self.assertTrue((error <= time / step * (rate * step) ** 4 / 24 + 1e-13).all(), error)
        self.assertLess(np.abs(u.mean(axis=1)).max(), 1e-15)
        energy = file["history/dirichlet_energy"][:, 0]
        self.assertTrue((np.diff(energy) < 0).all())


if __name__ == "__main__":
    unittest.main()
