#!/usr/bin/env python3
"""The counts of `scaling` match the formulas on up to 4 ranks (16 in the second tier); its phases add up to a step's time; sizes grow as requested."""

import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from held_back import HeldBackTest  # noqa: E402
from program import FULL_TIER, ROOT, TRAIN_DECK, ProgramTest, together  # noqa: E402

LAYERS, TOKENS, SAMPLES, WIDTH, FFN, HEADS = 16, 24, 2, 8, 12, 2
SLAB = TOKENS * SAMPLES * WIDTH
FIELD = LAYERS * TOKENS * SAMPLES * (8 * WIDTH**2 + 4 * WIDTH * FFN + 4 * TOKENS * WIDTH)  # flops of one evaluation
SHORT = """
[scaling]
warm_up = 1
steps = 2
repetitions = 3
machine = false
"""
EVOLVE = SHORT + f"""
[mesh]
layers = {LAYERS}
tokens_x = {TOKENS}
[attention]
heads = {HEADS}
[model]
width = {WIDTH}
ffn = {FFN}
[inflow]
source = noise
samples = {SAMPLES}
[evolve]
method = euler
cfl = 1
"""
TRAIN = SHORT + "workload = train\nover = samples\n" + TRAIN_DECK
PHASES = ("compute", "ghosts", "ring", "reduction", "pipeline")


class ScalingRuns(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("evolve.ini", EVOLVE)
        self.write("train.ini", TRAIN)

    def scaling(self, deck, *arguments, ranks=1, output=None):
        """/scaling of a run that must succeed."""
        output = output or f"{deck}{ranks}.h5"
        end = self.run_program("scaling", deck, "--quiet", f"--output.file={output}", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith(output) and name != output], "a checkpoint is left")
        return self.open(output)["scaling"]

    def assert_sent(self, scaling, phase, messages, size):
        self.assertEqual((scaling[phase].attrs["messages"], scaling[phase].attrs["bytes"]), (messages, size), phase)

    def over_depth(self, ranks):
        found = self.scaling("evolve.ini", ranks=ranks)
        self.assertEqual(found.attrs["ranks_depth"], ranks)
        # One evaluation per step; one slab crosses each boundary between ranks.
        self.assert_sent(found, "ghosts", ranks - 1, 8 * SLAB * (ranks - 1))
        self.assert_sent(found, "ring", 0, 0)
        # Largest |u|, largest change, whether everything is finite: three numbers per rank.
        self.assert_sent(found, "reduction", ranks * (ranks > 1), 24 * ranks * (ranks > 1))
        self.assertEqual(found.attrs["flops"], FIELD)

    def over_tokens(self, ranks):
        found = self.scaling("evolve.ini", "--scaling.over=tokens", ranks=ranks, output=f"tokens{ranks}.h5")
        self.assertEqual(found.attrs["ranks_token"], ranks)
        # In each cell all keys, values and one number per head are sent to every other rank.
        self.assert_sent(found, "ring", LAYERS * ranks * (ranks - 1),
                         8 * LAYERS * (ranks - 1) * TOKENS * SAMPLES * (2 * WIDTH + HEADS))
        self.assert_sent(found, "ghosts", 0, 0)
        self.assertEqual(found.attrs["flops"], FIELD)

    def over_samples(self, ranks):
        found = self.scaling("train.ini", ranks=ranks)
        self.assertEqual((found.attrs["groups"], found.attrs["samples"]), (ranks, 16))
        # The gradient in three pieces (head and layers, coefficients, embedding: none fills a bucket), three losses, and an
        # integer success flag.
        several = ranks * (ranks > 1)
        self.assert_sent(found, "reduction", 5 * several, (8 * (found.attrs["parameters"] + 3) + 4) * several)
        # A forward pass and twice that backwards, through both layers; all groups have the same number of slots.
        rows = 28 * ranks * -(-16 // ranks)
        self.assertEqual(found.attrs["flops"], 3 * 2 * rows * (8 * 8**2 + 4 * 8 * 12 + 4 * 28 * 8))

    def through_stages(self, stages, tokens, groups, micro_batches):
        """Of a training whose stages hold six layers of width 8."""
        ranks = stages * tokens * groups
        found = self.scaling("train.ini", "--mesh.layers=6", f"--mesh.ranks_depth={stages}", f"--mesh.ranks_token={tokens}",
                             f"--train.micro_batches={micro_batches}", ranks=ranks,
                             output=f"stages{stages}{tokens}{groups}{micro_batches}.h5")
        self.assertEqual([found.attrs[name] for name in ("ranks_depth", "ranks_token", "groups")], [stages, tokens, groups])
        # Each micro-batch crosses each border between stages up and down, as the part of the tokens that a rank has.
        size = -(-(-(-16 // groups)) // micro_batches)
        links = 2 * (stages - 1) * micro_batches * groups
        self.assert_sent(found, "pipeline", links * tokens, 8 * links * 28 * 8 * size)
        # All slots are computed, fillers too; the ring and flops do not depend on the stages.
        rows = 28 * size * micro_batches * groups
        self.assertEqual(found.attrs["flops"], 3 * 6 * rows * (8 * 8**2 + 4 * 8 * 12 + 4 * 28 * 8))


class ScalingTest(ScalingRuns):
    def test_messages_of_stages_are_those_of_the_formula(self):
        together([lambda grid=grid: self.through_stages(*grid)
                  for grid in ((2, 1, 1, 8), (3, 1, 1, 4), (2, 2, 1, 3), (2, 1, 2, 3),
                               *(((2, 1, 1, 1), (3, 2, 1, 5), (2, 2, 2, 3), (6, 1, 1, 4), (1, 1, 2, 4)) if FULL_TIER else ()))])

    def test_messages_bytes_and_flops_are_those_of_the_formulas(self):
        together([lambda n=n, over=over: over(n) for n in ((1, 2, 3, 8) if FULL_TIER else (1, 2, 3))
                  for over in (self.over_depth, self.over_tokens, self.over_samples)])

    @unittest.skipUnless(FULL_TIER, "half a minute; ./test.sh full runs it")
    def test_sixteen_ranks_count_and_solve_the_same(self):
        self.over_depth(16)
        self.over_tokens(16)
        self.over_samples(16)
        for ranks, grid in ((1, ()), (16, ("--mesh.ranks_depth=4", "--mesh.ranks_token=4"))):
            self.evolve("--mesh.layers=4", "--mesh.tokens_y=3", *grid, f"--output.file=u{ranks}.h5", ranks=ranks)
        one, other = (self.open(f"u{n}.h5")["field/u"][...] for n in (1, 16))
        # Sums over keys in a different order: round-off of 9 terms, over 8 layers with growth below
        # 10.
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-13 * np.abs(one).max() * 10)

    def test_halos_are_counted_where_tokens_diffuse(self):
        found = self.scaling("evolve.ini", "--scaling.over=tokens", "--equation.kappa=0.1", "--mesh.cells=32", ranks=3)
        # On a line of three ranks two edges send one token both ways, for each of 32 cells.
        self.assert_sent(found, "ghosts", 4 * 32, 8 * 4 * 32 * SAMPLES * WIDTH)

    def test_each_evaluation_of_a_step_counts(self):
        found = self.scaling("evolve.ini", "--evolve.method=rk", "--evolve.cfl=0.5", ranks=2)  # classical: four
        self.assertEqual(found.attrs["flops"], 4 * FIELD)
        self.assert_sent(found, "ghosts", 4, 4 * 8 * SLAB)

    def test_texts_of_other_lengths_are_other_work(self):
        found = self.scaling("train.ini", "--data.set=topics", "--data.tokens=patches", output="texts.h5")
        work = found["flop_rate"][...] * found["step_seconds"][...]
        self.assertGreater(np.ptp(work), 1e-3 * work.mean())
        self.assertAlmostEqual(found.attrs["flops"] / np.median(work), 1, places=12)

    def test_a_model_that_is_read_decides_the_sizes_and_the_output_repeats_it(self):
        self.evolve("--mesh.layers=3", "--output.file=model.h5")
        model = ("--scaling.steps=1", "--model.file=model.h5", "--inflow.source=noise", "--mesh.tokens_x=5")
        self.write("short.ini", SHORT)
        self.scaling("short.ini", *model, output="read.h5")
        found = self.scaling("read.h5", output="again.h5")
        self.assertEqual((found.attrs["layers"], found.attrs["width"], found.attrs["tokens"]), (3, 8, 5))

    def test_checkpoints_of_another_run_stay(self):
        for name in ("kept.checkpoint.h5", "kept.checkpoint.previous.h5"):
            self.write(name, "precious")
        self.assert_refused(self.run_program("scaling", "evolve.ini", "--output.file=kept.h5"), "kept.checkpoint.h5 is of a run that has not finished")
        self.assertEqual(self.checksum("kept.checkpoint.h5"), self.checksum("kept.checkpoint.previous.h5"))

    def test_phases_share_the_time_of_a_step(self):
        found = self.scaling("evolve.ini", ranks=2)
        step = found["step_seconds"][...]
        self.assertEqual(step.shape, (3,))
        least, middle, greatest = (sum(found[phase]["seconds"][:, k] for phase in PHASES) for k in range(3))
        # The slowest rank's phases add up to the step; sums of minima are below, sums of maxima above
        # any rank's.
        self.assertTrue(np.all(least <= step) and np.all(step <= greatest * (1 + 1e-12)), (least, step, greatest))
        self.assertTrue(np.all(least <= middle) and np.all(middle <= greatest))
        self.assertGreater(found["compute/seconds"][0, 0], 0)
        np.testing.assert_allclose(found["flop_rate"][...], found.attrs["flops"] / step / 2, rtol=1e-12)
        self.assertTrue(np.all(found["output/seconds"][:, 0] > 0))
        self.assertGreater(found["output"].attrs["bytes"], 8 * LAYERS * SLAB)  # u and its metadata
        self.assertGreater(found["memory"][0], 1e6)

    def test_the_machine_is_measured(self):
        found = self.scaling("evolve.ini", "--scaling.machine=true", "--scaling.repetitions=1", ranks=2)
        self.assertTrue(np.all(found["peak_flop_rate"][...] > 1e6))
        messages, sums = found["machine/message_seconds"][...], found["machine/sum_seconds"][...]
        self.assertTrue(np.all(messages > 0) and np.all(sums > 0))
        self.assertGreater(messages[-1], messages[0])  # 2 MiB against 8 bytes
        alone = self.scaling("evolve.ini", "--scaling.machine=true", "--scaling.repetitions=1")
        self.assertTrue(np.all(np.isnan(alone["machine/sum_seconds"][...])))

    def test_a_weak_study_grows_what_the_ranks_share(self):
        weak = "--scaling.mode=weak"
        depth = self.scaling("evolve.ini", weak, "--mesh.layers=3", "--mesh.cells=6", ranks=3, output="depth.h5").attrs
        self.assertEqual((depth["layers"], depth["cells"], depth["tokens"]), (9, 18, TOKENS))
        tokens = self.scaling("evolve.ini", weak, "--scaling.over=tokens", "--mesh.tokens_y=2", ranks=2, output="line.h5").attrs
        self.assertEqual((tokens["layers"], tokens["tokens"]), (LAYERS, 4 * TOKENS))
        one = self.scaling("evolve.ini", weak, "--scaling.over=tokens", "--mesh.tokens_x=0", ranks=2, output="one.h5").attrs
        self.assertEqual(one["tokens"], 2)
        samples = self.scaling("train.ini", weak, ranks=2).attrs
        self.assertEqual((samples["samples"], samples["groups"], samples["layers"]), (32, 2, 2))

    def test_an_output_file_repeats_the_study(self):
        self.scaling("evolve.ini", "--scaling.mode=weak", ranks=2, output="first.h5")
        again = self.scaling("first.h5", ranks=3, output="again.h5")
        self.assertEqual(again.attrs["layers"], 3 * LAYERS)

    def test_a_study_that_is_stopped_writes_nothing(self):
        end = self.run_program("scaling", "evolve.ini", "--output.file=out.h5", "--scaling.repetitions=100000", "--run.time_limit=1e-6", ranks=2)
        self.assert_refused(end, "run.time_limit", "nothing was written", code=4)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out.") and not name.endswith(".part")], [])

    def test_the_decks_run_and_the_table_of_sizes_fits_them(self):
        small = ("--scaling.repetitions=1", "--scaling.machine=false", "--model.width=16")
        cells = {"evolve": 48, "streaming": 48, "attention": 1, "train": 6, "output": 512, "pipeline": 6, "particles": 1}
        decks = {os.path.basename(path)[:-4]: path for path in glob.glob(os.path.join(ROOT, "input", "scaling", "*.ini"))}
        self.assertEqual(sorted(decks), sorted(cells))

        def runs(name):
            less = {"attention": ["--mesh.tokens_x=64"], "particles": ["--mesh.tokens_x=64"], "train": [], "pipeline": []}.get(name, ["--inflow.samples=2"])
            found = self.scaling(decks[name], *small, *less, ranks=2, output=f"{name}.h5")
            self.assertEqual((found.attrs["study"], found.attrs["cells"]), (name, cells[name]))

        def sized(number, row):
            for ranks in (2, 3) if FULL_TIER else (2 + number % 2,):
                end = self.run_program("scaling", decks["evolve"], "--validate", *row.split(), ranks=ranks)
                self.assertEqual(end.code, 0, end)

        with open(os.path.join(ROOT, "input", "scaling", "sizes.txt")) as table:
            rows = [row for row in table if not row.startswith("#")]
        self.assertEqual(len(rows), 7)
        together([lambda name=name: runs(name) for name in decks] + [lambda n=number, row=row: sized(n, row) for number, row in enumerate(rows)])

    def test_what_cannot_be_shared_is_refused(self):
        def refused(deck, *arguments, parts, ranks=2):
            self.assert_refused(self.run_program("scaling", deck, *arguments, ranks=ranks), *parts)

        refused("evolve.ini", "--scaling.over=samples", parts=["scaling.over = samples"])
        refused("train.ini", "--scaling.over=depth", parts=["mesh.ranks_depth = 3", "every stage needs a depth cell"], ranks=3)
        refused("train.ini", "--scaling.over=tokens", "--scaling.mode=weak", parts=["fixed by the data"])
        refused("evolve.ini", "--train.batch=4", parts=["train.batch: needs scaling.workload = train"])
        refused("evolve.ini", "--mesh.layers=1", parts=["mesh.ranks_depth"])
        refused("evolve.ini", "--evolve.stop=steady", parts=["evolve.stop"])
        refused("evolve.ini", "--evolve.time=3", parts=["raise evolve.time"], ranks=1)
        self.scaling("evolve.ini", output="there.h5")
        refused("evolve.ini", "--output.file=there.h5", parts=["there.h5", "output.overwrite"], ranks=1)


class Restart(ScalingRuns, HeldBackTest):
    def test_a_study_that_is_stopped_goes_on_with_the_repetitions_that_are_left(self):
        run = ("scaling", "evolve.ini", "--output.file=out.h5", "--scaling.repetitions=3", "--scaling.machine=false", "--checkpoint.every=1e-6")
        ended = self.killed_at(("rename", "out.checkpoint.previous.h5", 2), *run)  # before it makes room for the second checkpoint
        self.assertNotEqual(ended.code, 0)
        with h5py.File(self.path("out.checkpoint.h5")) as file:
            self.assertEqual(file["state/repetitions"].size, 20)  # one repetition of one rank: 6 phases x 3 numbers, and 2
        other = self.run_program(*run, "--checkpoint.restart=auto", ranks=2)
        self.assert_refused(other, "the timing by steps of", "on 2 rank(s)", "is no longer what")
        end = self.run_program(*run, "--checkpoint.restart=auto")
        self.assertEqual(end.code, 0, end)
        self.assertEqual(self.open("out.h5")["scaling/step_seconds"].shape, (3,))

    def test_times_of_other_steps_or_ranks_do_not_mix_with_those_of_a_study_that_was_timed_to_its_end(self):
        run = ("scaling", "evolve.ini", "--output.file=out.h5", "--output.overwrite=true", "--scaling.machine=false", "--checkpoint.every=1e-6")
        end = self.run_program(*run, "--scaling.repetitions=4")
        self.assertEqual(end.code, 0, end)
        # In the second case as many numbers as four repetitions of one rank.
        for ranks, more in ((1, ("--scaling.repetitions=4", "--scaling.steps=1")), (2, ("--scaling.repetitions=2",))):
            end = self.run_program(*run, "--quiet", "--checkpoint.restart=auto", *more, ranks=ranks)
            self.assertEqual(end.code, 2, end)
            self.assertIn("is no longer what", end.messages[-1])


if __name__ == "__main__":
    unittest.main()
