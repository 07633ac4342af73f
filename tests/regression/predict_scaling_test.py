#!/usr/bin/env python3
"""The prediction recovers given rates, matches sums of messages and work done by hand, and names the limiting term."""

import csv
import dataclasses
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import ROOT, ProgramTest  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import start, write_checkpoint  # noqa: E402

from fluxformer.scaling.model import Case, Machine  # noqa: E402

A, B, E = 2e-11, 5e-11, 4e-6  # seconds per flop, per channel of a pair, per cell
ALPHA, BETA, SUM_ALPHA, SUM_BETA = 2e-6, 1e10, 3e-6, 5e9
WIDTH, FFN, HEADS = 16, 64, 2


def case(cells=4, tokens=64, samples=2, passes=1.0, summed=24, workload="evolve"):
    return Case(workload, cells, tokens, samples, WIDTH, FFN, HEADS, passes, 8, summed)


def work(cells, tokens, samples, of):
    """Seconds for a pass through this many cells, for rows of a line of `of` tokens."""
    rows = tokens * samples
    return cells * (rows * (8 * WIDTH**2 + 4 * WIDTH * FFN) * A + rows * of * WIDTH * B + E)


MACHINE = Machine([A, B, E], (ALPHA, BETA), (SUM_ALPHA, SUM_BETA))


class ModelTest(unittest.TestCase):
    def test_one_rank_only_works(self):
        self.assertAlmostEqual(MACHINE.seconds(case(passes=3.0), (1, 1, 1)) / (3 * work(4, 64, 2, 64)), 1, places=12)

    def test_load_imbalance_waits_for_the_largest_share(self):
        parts = MACHINE.step(case(cells=5), (2, 1, 1))
        self.assertAlmostEqual(parts["imbalance"], work(3, 64, 2, 64) - work(2.5, 64, 2, 64), places=15)
        self.assertAlmostEqual(parts["sum"], SUM_ALPHA + 24 / SUM_BETA, places=15)
        self.assertEqual(parts["ghosts"], 0)  # two cells of work hide a slab

    def test_a_message_that_work_does_not_hide_is_waited_for(self):
        small = case(cells=2, tokens=1, samples=1)
        slab = ALPHA + 8 * WIDTH / BETA
        # One cell each: no other cell to work on while the slab is in flight.
        self.assertAlmostEqual(MACHINE.step(small, (2, 1, 1))["ghosts"], slab, places=15)
        line = case(cells=1, tokens=4, samples=1)
        block = 1 * 1 * WIDTH * B  # a row of attention's kernel against one token
        message = ALPHA + 8 * (2 * WIDTH + HEADS) / BETA
        self.assertGreater(message, block)
        self.assertAlmostEqual(MACHINE.step(line, (1, 4, 1))["ring"], 3 * (message - block), places=15)
        self.assertEqual(MACHINE.limit(line, (1, 4, 1)), "ring")  # 3 x 2.03 us against a sum's 2 x 3 us
        self.assertEqual(MACHINE.limit(line, (1, 2, 1)), "sum")  # 2.05 us against 3 us

    def test_sums_are_trees(self):
        parts = MACHINE.step(case(summed=8000), (4, 2, 2))
        self.assertAlmostEqual(parts["sum"], 4 * (SUM_ALPHA + 8000 / SUM_BETA), places=15)

    def test_stages_of_a_training_wait_for_each_other(self):
        train = case(cells=8, samples=16, passes=3.0, summed=8000, workload="train")
        one = MACHINE.step(dataclasses.replace(train, micro_batches=1), (1, 1, 1))
        self.assertEqual((one["bubble"], one["pipeline"], one["ghosts"]), (0, 0, 0))
        # Sixteen micro-batches of a sample, each with the fixed costs of two cells; four stages.
        parts = MACHINE.step(train, (4, 1, 1))
        busy = 3 * (work(2, 64, 16, 64) + 15 * 2 * E)
        self.assertAlmostEqual(parts["bubble"], 3 / 16 * busy, places=15)
        slab = ALPHA + 8 * 64 * WIDTH / BETA
        self.assertAlmostEqual(parts["pipeline"], 2 * 3 * slab, places=15)  # work on a micro-batch hides the others
        self.assertEqual((parts["ghosts"], parts["sum"]), (0, 0))
        self.assertAlmostEqual(sum(parts.values()), busy * (16 + 3) / 16 + 6 * slab, places=12)
        # Five samples in two parts are computed as six; a stage's gradient is summed over its two groups.
        uneven = MACHINE.step(dataclasses.replace(train, samples=10, micro_batches=2), (2, 1, 2))
        self.assertAlmostEqual(uneven["sum"], SUM_ALPHA + 4000 / SUM_BETA, places=15)
        self.assertAlmostEqual(uneven["bubble"], 3 / 2 * (work(4, 64, 6, 64) + 4 * E), places=15)

    def test_micro_batches_share_an_update_of_the_weights(self):
        update = 7e-5
        machine = Machine([A, B, E, update], (ALPHA, BETA), (SUM_ALPHA, SUM_BETA))
        train = case(cells=8, samples=16, passes=3.0, summed=8000, workload="train")
        more = {name: seconds - MACHINE.step(train, (4, 1, 1))[name] for name, seconds in machine.step(train, (4, 1, 1)).items()}
        self.assertAlmostEqual(sum(more.values()), 2 * update, places=15)  # of two cells, without a bubble
        self.assertEqual(machine.step(case(), (1, 1, 1)), MACHINE.step(case(), (1, 1, 1)))  # evolve has none

    def test_the_best_grid_is_the_fastest_and_needs_a_place_for_each_rank(self):
        many = case(cells=6, tokens=8)
        fastest = min((MACHINE.seconds(many, (d, 12 // d, 1)), d) for d in (2, 3, 6))[1]
        self.assertEqual(MACHINE.best_grid(many, 12), (fastest, 12 // fastest, 1))
        self.assertIsNone(MACHINE.best_grid(many, 49))
        self.assertEqual(MACHINE.best_grid(case(cells=6, tokens=8, workload="train"), 2), (1, 1, 2))

    def test_a_training_sends_one_more_message_and_chunks_send_each(self):
        line = case(cells=1, tokens=4, samples=1)
        more = MACHINE.step(dataclasses.replace(line, workload="train"), (1, 4, 1))["ring"] - MACHINE.step(line, (1, 4, 1))["ring"]
        self.assertAlmostEqual(more, ALPHA + 8 * (2 * WIDTH + HEADS) / BETA, places=15)
        # 6 x 512 tokens x 16 x 8 bytes = 384 KiB a sample: two fit in 768 KiB, so five samples make three chunks.
        many = case(cells=1, tokens=1024, samples=5, workload="train")
        bytes_sent = 512 * 5 * (2 * WIDTH + HEADS) * 8
        forward = MACHINE.step(dataclasses.replace(many, workload="evolve"), (1, 2, 1))["ring"]
        self.assertAlmostEqual(MACHINE.step(many, (1, 2, 1))["ring"] - forward, 3 * ALPHA + bytes_sent / BETA, places=12)


class ScriptTest(ProgramTest):
    def measured(self, name, cells, tokens, samples, ranks=1, factor=1.0, workload="evolve"):
        """A file of `scaling` with the times of the rates above, on ranks over depth."""
        flops = cells * tokens * samples * (8 * WIDTH**2 + 4 * WIDTH * FFN + 4 * tokens * WIDTH)
        seconds = factor * work(math.ceil(cells / ranks), tokens, samples, tokens)
        with h5py.File(self.path(name), "w") as file:
            file.attrs.update({"schema_version": 1, "experiment": "scaling", "status": "done", "ranks": ranks})
            scaling = file.create_group("scaling")
            scaling.attrs.update({"workload": workload, "precision": "double", "nodes": 1, "ranks_depth": ranks, "ranks_token": 1,
                                  "groups": 1, "study": "made up", "mode": "strong", "over": "depth", "layers": cells, "cells": cells, "tokens": tokens, "samples": samples, "width": WIDTH, "ffn": FFN,
                                  "heads": HEADS, "parameters": 100, "flops": float(flops)})
            scaling["step_seconds"], scaling["flop_rate"], scaling["memory"] = [seconds] * 3, [flops / seconds] * 3, [1e6] * 3
            for phase in ("compute", "ghosts", "ring", "reduction", "output"):
                scaling[phase + "/seconds"] = np.full((3, 3), seconds if phase in ("compute", "output") else 0.0)
                scaling[phase].attrs.update({"messages": 0.0, "bytes": 0.0})
            if ranks > 1:
                sizes = 8.0 ** np.arange(1, 8)
                file["message_bytes"] = sizes
                scaling["machine/message_seconds"] = ALPHA + sizes / BETA
                scaling["machine/sum_seconds"] = np.log2(ranks) * (SUM_ALPHA + sizes / SUM_BETA)
        return name

    def predict(self, *words):
        done = start("predict", *words, "--output", "figures", cwd=self.folder)
        return done.returncode, done.stdout, done.stderr

    def fit(self):
        sizes = [(4, 16, 1), (4, 64, 8), (8, 256, 1), (2, 1024, 2), (16, 4, 1)]
        return [self.measured(f"f{k}.h5", *size) for k, size in enumerate(sizes)] + [self.measured("two.h5", 8, 64, 2, ranks=4)]

    def test_rates_are_found_and_tell_the_time_of_other_sizes(self):
        good, bad = self.measured("good.h5", 12, 128, 4), self.measured("bad.h5", 12, 128, 4, factor=2.0)
        checkpoint = write_checkpoint(self.path("f0.checkpoint.h5"))
        code, out, err = self.predict(checkpoint, *self.fit(), "--check", good, bad, "--tokens", 64, 4096, "--ranks", 1, 4, 512)
        self.assertEqual((code, err), (0, "passed over 1 checkpoint\n"))
        # 1 / A and 4 / B in units of 1e9; ALPHA, BETA
        for words in ("state 50 Gflop/s", "kernel 80 Gflop/s", "4 us for each cell", "messages 2 us",
                      "10 GB/s", "log2 P x (3 us + size / 5 GB/s)", "worst of those that were not fitted: 50.0 %"):
            self.assertIn(words, out)
        with open(self.path("figures/prediction.csv")) as stream:
            rows = list(csv.DictReader(stream))
        self.assertEqual([(row["tokens"], row["ranks"]) for row in rows],
                         [(tokens, ranks) for tokens in ("64", "4096") for ranks in ("1", "4", "512")][:2] +
                         [("4096", ranks) for ranks in ("1", "4", "512")])  # 4 cells of 64 tokens have no place for 512
        self.assertAlmostEqual(float(rows[0]["step_s"]) / work(4, 64, 1, 64), 1, places=6)
        four = rows[1]  # a cell each: the slab of a cell is waited for
        expected = work(1, 64, 1, 64) + ALPHA + 8 * 64 * WIDTH / BETA + 2 * (SUM_ALPHA + 24 / SUM_BETA)
        self.assertAlmostEqual(float(four["step_s"]) / expected, 1, places=6)
        self.assertAlmostEqual(float(four["efficiency"]) * 4 * expected / work(4, 64, 1, 64), 1, places=6)
        for ending in (".png", ".pdf"):
            self.assertGreater(os.path.getsize(self.path("figures/prediction" + ending)), 1000)

    def test_stages_that_are_predicted_get_the_micro_batches_of_the_program(self):
        """Not those of the runs that were fitted, which had none."""
        sizes = [(4, 16, 1), (4, 64, 8), (8, 256, 1), (2, 1024, 2), (16, 4, 1)]
        runs = [self.measured(f"t{k}.h5", *size, workload="train") for k, size in enumerate(sizes)]
        runs.append(self.measured("two.h5", 8, 64, 2, ranks=4, workload="train"))
        with h5py.File(self.path(runs[0]), "r+") as file:
            file["scaling"].attrs["parameters"] = 10**9  # only stages divide their sum
        code, _, err = self.predict(*runs, "--tokens", 64, "--cells", 8, "--samples", 16, "--ranks", 8)
        self.assertEqual(code, 0, err)
        with open(self.path("figures/prediction.csv")) as stream:
            row = next(csv.DictReader(stream))
        grid = tuple(int(row[name]) for name in ("ranks_depth", "ranks_token", "groups"))
        self.assertEqual(grid, (8, 1, 1))
        asked = case(cells=8, samples=16, summed=8 * 10**9, workload="train")
        self.assertAlmostEqual(float(row["step_s"]) / MACHINE.seconds(asked, grid), 1, places=6)

    def test_runs_that_disagree_are_noted(self):
        runs = self.fit()
        _, out, _ = self.predict(*runs, "--tokens", 64)
        self.assertNotIn("note:", out)
        _, out, _ = self.predict(*runs, self.measured("slow.h5", 4, 64, 8, factor=3.0), "--tokens", 64)
        self.assertIn("note: runs that were fitted are more than 25 % off", out)

    def test_another_network_can_be_given(self):
        code, out, err = self.predict(*self.fit(), "--latency", 1e-3, "--bandwidth", 1e8, "--tokens", 64)
        self.assertEqual(code, 0, err)
        self.assertIn("messages 1e+03 us + size / 0.1 GB/s; sums log2 P x (1.5e+03 us + size / 0.05 GB/s)", out)

    def test_what_does_not_belong_together_is_refused(self):
        alone = self.measured("alone.h5", 4, 16, 1)
        code, _, err = self.predict(alone)
        self.assertEqual((code, "on two ranks" in err), (2, True), err)
        code, _, err = self.predict(*self.fit(), "--check", self.measured("other.h5", 4, 16, 1, workload="train"))
        self.assertEqual((code, "train double" in err), (2, True), err)
        for words in (("--tokens", 0), ("--ranks", 0), ("--tokens", 1, "--ranks", 10000)):
            code, _, err = self.predict(*self.fit(), *words)
            self.assertEqual((code == 0, "Traceback" in err), (False, False), err)
        code, _, err = self.predict("missing.h5")
        self.assertEqual((code, "no such file" in err), (2, True), err)


if __name__ == "__main__":
    unittest.main()
