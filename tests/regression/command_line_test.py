#!/usr/bin/env python3
"""The command line: help, --validate, settings that can be rerun, and bad input refused with exit code 2 and
one message that says what to do, on any number of ranks, without losing earlier results.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)

from described import description  # noqa: E402
from program import DECK, FULL_TIER, TRAIN_DECK, ProgramTest, ranks_of_case, together  # noqa: E402


class Help(ProgramTest):
    def test_the_bare_program_lists_the_experiments_by_family_one_line_each(self):
        end = self.run_program()
        self.assertEqual((end.code, end.err), (0, ""), end)
        experiments = description()["experiments"]
        families = list(dict.fromkeys(one["family"] for one in experiments))
        # The family stands once, where it begins; names and sentences are below each other.
        rows = [(one["family"] if k == 0 else "", one["name"], one["sentence"]) for family in families
                for k, one in enumerate(one for one in experiments if one["family"] == family)]
        first, second = (max(len(row[k]) for row in rows) + 2 for k in (0, 1))
        wanted = [f"  {family:{first}}{name:{second}}{sentence}" for family, name, sentence in rows]
        lines = end.out.splitlines()
        self.assertEqual(lines[lines.index("experiments, by family:") + 1:], wanted)
        self.assertGreater(len(rows), len(families))

    def test_help_names_every_key_once_with_its_default_unit_and_choices(self):
        self.write("train.ini", TRAIN_DECK)
        for experiment, deck, parts in (
                ("evolve", "small.ini", ("equation.c = 1 ", "layers/time", "pre | post", "whole number >= 1")),
                ("train", "train.ini", ("train.optimiser = adamw ", "sgd | adam | adamw", "adjoint.method = 1fe ", "samples"))):
            end = self.run_program(experiment, "--help", ranks=2)
            self.assertEqual((end.code, end.err), (0, ""), end)
            ran = self.run_program(experiment, deck, "--quiet", f"--output.file={experiment}.h5")
            self.assertEqual(ran.code, 0, ran)
            section, keys = "", []
            for line in self.open(f"{experiment}.h5").attrs["settings"].splitlines():
                if line.startswith("["):
                    section = line[1:-1]
                elif "=" in line:
                    keys.append(f"{section}.{line.split('=')[0].strip()}")
            self.assertGreater(len(keys), 50)
            for key in keys:
                self.assertEqual(len(re.findall(rf"^  {re.escape(key)} = ", end.out, re.MULTILINE)), 1, key)
            for part in parts:
                self.assertIn(part, end.out)

    def test_validate_says_what_would_run_and_runs_nothing(self):
        before = sorted(os.listdir(self.folder))
        end = self.run_program("evolve", "small.ini", "--validate", ranks=2)
        self.assertEqual((end.code, end.err), (0, ""), end)
        for part in ("2 layers", "3 x 2 tokens", "width 8", "2 samples", "valid"):
            self.assertIn(part, end.out)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assert_refused(self.run_program("evolve", "small.ini", "--validate", "--mesh.layers=0"), "mesh.layers")

    def test_validate_prints_the_equation_of_the_scheme(self):
        """Assembled from the terms, with values, implicit parts, and the step limit."""
        shift = self.run_program("evolve", "small.ini", "--validate", "--equation.epsilon=0.25").out
        self.assertIn("du_i/dt = (c/h)(G_i(u_{i-1}; h/c) - u_i)\n        + epsilon (u_{i+1} - 2 u_i + u_{i-1})/h^2\n", shift)
        self.assertIn("G(u; h): v = u + h alpha A(N(u)), G = v + h rho R(N(v))\n", shift)
        self.assertRegex(shift, r"c = 1, h = 1, alpha = 1, rho = 1, epsilon = 0.25\n")
        self.assertRegex(shift, r"step limit: c dt/h \+ 2 epsilon dt/h\^2 <= [\d.]+; the largest stable step is [\d.]+\n")
        upwind = self.run_program("evolve", "small.ini", "--validate", "--depth.scheme=upwind", "--evolve.method=arkimex",
                                  "--equation.kappa=0.5").out
        self.assertIn("du_i/dt = (c/h)(u_{i-1} - u_i)\n        + kappa Lap u_i   [implicit]\n"
                      "        + alpha A_i(N(u_i))\n        + rho R_i(N(u_i))\n", upwind)
        self.assertIn("kappa = 0.5", upwind)
        self.assertIn("step limit: c dt/h <= 1; the largest stable step is 1\n", upwind)

    def test_version_names_the_revision_and_the_libraries(self):
        end = self.run_program("--version")
        self.assertEqual((end.code, end.err), (0, ""), end)
        for part in ("git_revision", "compiler", "petsc", "slepc", "mpi"):
            self.assertIn(part + " = ", end.out)


class Settings(ProgramTest):
    def test_an_output_file_is_a_deck_that_gives_the_same_bits(self):
        self.write("small.ini", DECK + "[petsc]\nts_max_reject = 7\n")  # forwarded settings count as given
        self.evolve("--model.seed=5", "--equation.c=0.75", "--depth.order=macaron", "--evolve.method=ssp",
                    "--evolve.cfl=0.5", ranks=2)
        self.evolve("--output.file=again.h5", deck="out.h5", ranks=2)
        self.assert_same_bits("out.h5", "again.h5")
        once, again = (self.open(name).attrs["settings"] for name in ("out.h5", "again.h5"))
        self.assertIn("ts_max_reject", once)
        self.assertEqual(once.replace("out.h5", "again.h5"), again)

    def test_its_weights_are_a_model_file_that_gives_the_same_bits(self):
        self.evolve("--model.seed=5", "--equation.alpha=0.75", "--depth.norm=post")
        self.write("bare.ini", "[mesh]\ntokens_x = 3\ntokens_y = 2\n[inflow]\nsource = noise\nsamples = 2\n"
                   "[evolve]\nmethod = euler\ncfl = 1\ntime = 4\n[output]\nevery = 1\n")
        self.evolve("--model.file=out.h5", "--output.file=again.h5", deck="bare.ini")
        self.assert_same_bits("out.h5", "again.h5")

    def test_the_file_says_how_it_was_made(self):
        self.evolve("--run.seed=11", ranks=2)
        about = self.open("out.h5").attrs
        self.assertEqual((about["status"], about["experiment"], about["seed"], about["ranks"]),
                         ("done", "evolve", 11, 2))
        self.assertEqual(about["deck"], DECK)
        self.assertIn("--run.seed=11", about["command_line"])
        for part in ("max_norm", "seed = 11", "layers = 2"):
            self.assertIn(part, about["settings"])


class Refusals(ProgramTest):
    def refuse(self, cases, ranks=(1, 2, 3, 4)):
        """Each case alone, and some on one of the rank counts in turn: (arguments, parts of the message)."""
        self.assertNotIn("unwanted.h5", os.listdir(self.folder))

        def work(arguments, parts, count):
            end = self.run_program("evolve", "small.ini", "--output.file=unwanted.h5", *arguments, ranks=count)
            with self.subTest(arguments=arguments, ranks=count):
                self.assert_refused(end, *parts)

        counts = [count for count in ranks if count > 1]
        works = []
        for number, (arguments, parts) in enumerate(cases):
            for count in (1, counts[number % len(counts)])[:len(ranks_of_case(number))]:
                works.append(lambda a=arguments, p=parts, c=count: work(a, p, c))
        together(works)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("unwanted")], [])

    def test_keys_and_values_are_named_with_what_is_allowed(self):
        self.refuse([
            (["--mesh.layrs=3"], ["mesh.layrs", "command line", "did you mean mesh.layers?"]),
            (["--mesh.layers=many"], ["mesh.layers = many", "whole number"]),
            (["--mesh.layers=2.5"], ["mesh.layers = 2.5", "whole number"]),
            (["--equation.c=fast"], ["equation.c = fast", "number"]),
            (["--equation.c=nan"], ["equation.c = nan"]),
            (["--depth.residual=maybe"], ["depth.residual = maybe"]),
            (["--mesh.layers=0"], ["mesh.layers = 0", ">= 1"]),
            (["--front.threshold=1.5"], ["front.threshold = 1.5", "1"]),
            (["--depth.norm=layer"], ["depth.norm = layer", "pre, post, sphere, none"]),
            (["--attention.heads=3"], ["attention.heads = 3", "model.width = 8"]),
            (["--start.gamma=0.3"], ["start.gamma: needs start.state = equiangular"]),
            (["--data.tokens=rows"], ["data.tokens: needs inflow.source = data"]),
            (["--petsc.no_such_option=1"], ["[petsc]", "no_such_option"]),
            (["more.ini"], ["more.ini", "one deck", "small.ini"]),
            ([""], ["an empty argument"]),
            (["--mesh.layers"], ["--mesh.layers", "--section.key=value"]),
        ])

    def test_decks_that_are_none_are_named_with_what_is_wrong(self):
        self.write("misspelt.ini", DECK + "[equation]\nkapa = 1\n")
        self.write("noise.ini", DECK + "what is this\n")
        self.write("binary.ini", bytes(range(256)))
        self.write("twice.ini", DECK + "[mesh]\nlayers = 3\n")
        together([lambda d=deck, p=parts, r=ranks: self.assert_refused(self.run_program("evolve", d, ranks=r), *p)
                  for deck, parts, ranks in [
                      ("misspelt.ini", ["misspelt.ini", "equation.kapa", "did you mean equation.kappa?"], 1),
                      ("noise.ini", ["noise.ini", "what is this", "key = value"], 2),
                      ("binary.ini", ["binary.ini"], 1),
                      ("twice.ini", ["twice.ini", "mesh.layers is given twice"], 4),
                      ("nowhere.ini", ["nowhere.ini", "no such file"], 3),
                      (".", ["cannot be read"], 2)]])
        self.assert_refused(self.run_program("evolv", "small.ini"), "evolv", "no such experiment", "did you mean evolve?")
        self.assert_refused(self.run_program("--describe=json", "evolv"), "no such experiment")
        self.assert_refused(self.run_program("--describe=xml"), "--describe=json")

    def test_steps_above_the_limit_name_the_largest_stable_one(self):
        self.refuse([
            (["--evolve.dt=1.25"], ["evolve.dt = 1.25", "c dt/h", "largest stable step is 1"]),
            (["--evolve.cfl=1.25"], ["evolve.cfl = 1.25", "the largest is 1"]),
            (["--depth.scheme=upwind", "--equation.kappa=0.5", "--evolve.dt=0.4"],
             ["evolve.dt = 0.4", "2 kappa dt", "largest stable step is 0.333"]),
            (["--equation.epsilon=0.5", "--evolve.dt=0.75"], ["2 epsilon dt/h^2", "largest stable step is 0.5"]),
            (["--depth.scheme=upwind2"], ["evolve.method = euler", "upwind2"]),
        ])

    def test_token_diffusion_too_strong_for_shift_names_the_smallest_number_of_cells(self):
        # kappa (h/c) axes <= 1/2 with h = 2/M on a grid: M >= 5.6, and a multiple of the layers.
        self.refuse([(["--equation.kappa=0.7"], ["equation.kappa", "mesh.cells must be at least 6"]),
                     (["--equation.kappa=0.7", "--mesh.cells=4"], ["mesh.cells must be at least 6"])])
        self.evolve("--equation.kappa=0.7", "--mesh.cells=6")

    def test_combinations_that_mean_nothing(self):
        self.refuse([
            (["--attention.causal=true", "--equation.kappa=0.1"], ["kappa", "causal"]),
            (["--attention.causal=true", "--attention.normalisation=sinkhorn"], ["sinkhorn", "causal"]),
            (["--attention.normalisation=linear", "--attention.kernel=l2"], ["linear", "attention.kernel = dot"]),
            (["--depth.scheme=upwind", "--run.precision=mixed_emulated"], ["run.precision = mixed_emulated", "front.threshold"]),
            (["--depth.scheme=upwind", "--depth.norm=post"], ["depth.norm"]),
            (["--mesh.cells=3"], ["mesh.cells = 3", "multiple"]),
            (["--equation.c=0"], ["equation.c"]),
            (["--evolve.tolerance=1e-3"], ["evolve.tolerance", "rk"]),
            (["--evolve.method=ssp", "--evolve.variant=rks9"], ["rks9"]),
        ])

    def test_more_ranks_than_cells_and_tokens_can_use(self):
        one_token = ["--mesh.tokens_x=1", "--mesh.tokens_y=1", "--mesh.layers=1", "--output.file=unwanted.h5"]
        together([lambda n=ranks: self.assert_refused(self.run_program("evolve", "small.ini", *one_token, ranks=n),
                                                      f"{n} ranks", "mesh.cells", "mesh.tokens_x")
                  for ranks in ((2, 3, 4) if FULL_TIER else (2, 3))])
        self.assert_refused(self.run_program("evolve", "small.ini", "--mesh.ranks_depth=3", ranks=3),
                            "mesh.ranks_depth", "3", "at most 2")


class ModelFiles(ProgramTest):
    def refuse(self, name, *parts, number=0):
        """`number`: that of the case, if it is one of a list."""
        arguments = ["evolve", "small.ini", "--output.file=unwanted.h5", f"--model.file={name}"]
        together([lambda n=ranks: self.assert_refused(self.run_program(*arguments, ranks=n), name, *parts)
                  for ranks in ranks_of_case(number)])

    def test_missing_foreign_and_damaged_ones(self):
        self.evolve()
        with open(self.path("out.h5"), "rb") as stream:
            whole = stream.read()
        self.write("cut.h5", whole[:len(whole) // 2])
        self.write("text.h5", "not HDF5\n")
        self.write("empty.h5", "")
        with h5py.File(self.path("foreign.h5"), "w") as file:
            file["numbers"] = [1.0, 2.0]
        for number, (name, parts) in enumerate((("missing.h5", ["no such file"]), ("cut.h5", []), ("text.h5", ["HDF5"]),
                            ("empty.h5", []), ("foreign.h5", ["schema_version"]))):
            with self.subTest(name):
                self.refuse(name, *parts, number=number)

    def spoil(self, change):
        """A modified copy of a valid model file."""
        if not os.path.exists(self.path("out.h5")):
            self.evolve()
        with open(self.path("out.h5"), "rb") as stream:
            self.write("spoilt.h5", stream.read())
        with h5py.File(self.path("spoilt.h5"), "r+") as file:
            change(file)

    def test_weights_that_are_not_numbers_are_named(self):
        def spoil(file):
            file["model/layers/2/W_K"][3, 1] = float("nan")

        self.spoil(spoil)
        self.refuse("spoilt.h5", "/model/layers/2/W_K")
        self.spoil(lambda file: file["model/layers/1/b_1"].write_direct(file["model/layers/1/b_1"][...] + float("inf")))
        self.refuse("spoilt.h5", "/model/layers/1/b_1", number=1)

    def test_weights_that_are_missing_or_of_another_shape_are_named(self):
        def remove(file):
            del file["model/layers/2/W_K"]

        def reshape(file):
            del file["model/layers/2/W_K"]
            file["model/layers/2/W_K"] = [[1.0]]

        for number, change in enumerate((remove, reshape)):
            self.spoil(change)
            self.refuse("spoilt.h5", "/model/layers/2/W_K", number=number)

    def test_a_deck_that_contradicts_the_file_is_refused(self):
        self.evolve("--model.ffn=10")
        self.refuse("out.h5", "model.ffn = 12", "10")
        other = ["--model.ffn=10", "--model.kappa=channel", "--model.file=out.h5", "--output.file=unwanted.h5"]
        self.assert_refused(self.run_program("evolve", "small.ini", *other), "model.kappa = channel", "scalar")


if __name__ == "__main__":
    unittest.main()
