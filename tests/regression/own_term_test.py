#!/usr/bin/python3
"""The example out of tree builds on an installed Fluxformer, runs on two ranks, and solves its equation."""

import json
import os
import subprocess
import unittest

import h5py
import numpy as np

import program

BUILD = os.path.dirname(os.path.dirname(program.BINARY))
EXAMPLE = os.path.join(program.ROOT, "docs", "examples", "own_term")

# One depth cell without transport, where identity weights of value 0 make attention and reaction vanish: du/dt is the drift.
DRIFT_ALONE = ["--mesh.layers=1", "--mesh.tokens_x=7", "--mesh.tokens_y=1", "--model.width=4", "--attention.heads=1",
               "--equation.c=0", "--depth.scheme=upwind", "--depth.norm=none", "--model.initial=identity",
               "--model.value=0", "--inflow.source=none", "--start.state=noise", "--evolve.method=euler"]


def call(*arguments):
    """What must succeed."""
    ended = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        raise AssertionError(f"{' '.join(arguments)}\n{ended.stdout}\n{ended.stderr}")
    return ended.stdout


class OwnTermTest(program.ProgramTest):
    def test_an_experiment_from_outside(self):
        prefix, build = self.path("installed"), self.path("build")
        call("cmake", "--install", BUILD, "--prefix", prefix)
        call("cmake", "-G", "Ninja", "-S", EXAMPLE, "-B", build, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}",
             "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        # Only installed headers, not those of the source tree.
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            self.assertNotIn(os.path.join(program.ROOT, "src"), file.read())
        call("cmake", "--build", build)
        self.binary = os.path.join(build, "own_term")
        with self.subTest("it is listed among the others"):
            listed = call(self.binary)
            self.assertIn("evolve with states that drift along the tokens", listed)
            self.assertIn("perturbation", listed)
            described = json.loads(call(self.binary, "--describe=json", "drift"))
            self.assertIn("drift.speed", [key["name"] for key in described["experiments"][0]["keys"]])
        with self.subTest("its deck, and what it adds to evolve"):
            deck = os.path.join(EXAMPLE, "drift.ini")
            with open(deck, encoding="utf-8") as text:
                self.write("still.ini", text.read().replace("[drift]\nspeed", "# "))
            self.own("drift", deck, "--output.file=drift.h5")
            self.own("drift", deck, "--output.file=still.h5", "--drift.speed=0")
            self.own("evolve", "still.ini", "--output.file=evolve.h5")
            drift, still, evolve = (self.states(name) for name in ("drift.h5", "still.h5", "evolve.h5"))
            np.testing.assert_array_equal(still, evolve)
            self.assertGreater(np.abs(drift[-1] - still[-1]).max(), 0.1)
            # The reference of the front is the steady state of all terms, which the march through depth would miss.
            with h5py.File(self.path("drift.h5")) as file:
                self.assertTrue(np.isfinite(file["analysis/evolve/arrival_time"][...]).all())
                self.assertLess(file["history/distance"][-1].max(), 1e-3)
        with self.subTest("continued and repeated"):
            short = ("drift", deck, "--drift.speed=0.25", "--evolve.stop=time", "--evolve.time=4")
            self.own(*short, "--output.file=whole.h5")
            self.own(*short, "--output.file=parts.h5", "--run.time_limit=1e-6", "--front.threshold=0", code=4)
            self.own(*short, "--output.file=parts.h5", "--checkpoint.restart=auto", "--front.threshold=0")
            self.own("drift", "whole.h5", "--output.file=again.h5")
            for name in ("parts.h5", "again.h5"):
                np.testing.assert_array_equal(self.states(name)[-1], self.states("whole.h5")[-1])
            end = self.own(*short, "--output.file=parts.h5", "--output.overwrite=true", "--checkpoint.restart=auto",
                           "--front.threshold=0", "--drift.speed=0.3", code=2)
            self.assertIn("drift.speed", end)
        with self.subTest("drift alone moves each state one token further while v dt = 1"):
            self.own("drift", *DRIFT_ALONE, "--drift.speed=0.5", "--evolve.dt=2", "--evolve.time=6", "--output.file=alone.h5")
            first, *_, last = self.states("alone.h5")  # [cell][token][sample][channel]
            moved = np.concatenate([np.repeat(first[:, :1], 3, axis=1), first[:, :-3]], axis=1)
            # Three steps of three roundings each, of numbers below 4 in size.
            np.testing.assert_allclose(last, moved, rtol=0, atol=3 * 3 * 4 * np.finfo(float).eps)
            self.assertGreater(np.abs(last - first).max(), 0.1)
        with self.subTest("what it refuses"):
            end = self.own("drift", "--drift.speed=-1", code=2)
            self.assertIn("drift.speed", end)
            end = self.own("drift", "--drift.speed=3", "--evolve.dt=2", code=2)
            self.assertIn("v dt", end)

    def own(self, *arguments, ranks=2, code=0):
        ended = subprocess.run([program.MPIEXEC, "-n", str(ranks), self.binary, *arguments], cwd=self.folder,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, env=program.ENVIRONMENT,
                               timeout=program.TIMEOUT)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stderr

    def states(self, name):
        with h5py.File(self.path(name)) as file:
            return file["field/u"][...]


if __name__ == "__main__":
    unittest.main()
