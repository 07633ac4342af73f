#!/usr/bin/env python3
"""Clusters among the tokens of `evolve`: what is stored beside an oracle in NumPy that knows all pairs, on any ranks; N_2 never rises in time or
with depth; restarts, figures, and what is refused."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from program import SEVERAL_RANKS, ProgramTest, ranks_of_case, together  # noqa: E402
from python_package import call  # noqa: E402

COUNTS = ("components_low", "components_high", "compact_share", "zero_tokens")
SUMS = ("number_2", "number_1", "energy")
# Attention alone over tokens on the sphere, one head with scaled identities: without depth, and layer by layer.
ALONE = ("--clusters.measure=true", "--mesh.tokens_y=1", "--equation.rho=0", "--depth.norm=sphere", "--attention.heads=1", "--model.initial=identity",
         "--model.ffn=1", "--inflow.samples=1")
FLOW = (*ALONE, "--mesh.layers=1", "--equation.c=0", "--depth.scheme=upwind", "--inflow.source=none", "--evolve.method=rk")
RANDOM = "--start.state=sphere"
LAYERS = (*ALONE, RANDOM, "--mesh.layers=12", "--depth.order=parallel", "--evolve.time=12", "--output.every=0")


def distances(x):
    """|x_i - x_j|, to round-off also where they are small."""
    return np.array([np.linalg.norm(x - one, axis=1) for one in x])


def components(x, angle):
    """Components of the graph of angles, by a search from token to token."""
    near = 2 * np.arcsin(np.minimum(1, distances(x) / 2)) <= angle
    left, found = np.ones(len(x), dtype=bool), 0
    while left.any():
        reached = np.zeros(len(x), dtype=bool)
        reached[left.argmax()] = True
        while (further := near[reached].any(axis=0)).sum() > reached.sum():
            reached = further
        left &= ~reached
        found += 1
    return found


def sums_of(x, beta):
    """N_2, N_1 and the energy of unit vectors."""
    z = np.exp(-beta * distances(x)**2 / 2).sum(axis=1)
    return len(x)**2 / z.sum(), np.exp(-np.log(z / len(x)).mean()), z.sum() / (2 * beta * len(x)**2)


class EvolveClusters(ProgramTest):
    def evolved(self, *arguments, ranks=1, output="out.h5"):
        """Measures, states and the kernel of a run."""
        self.evolve(*arguments, f"--output.file={output}", "--output.overwrite=true", ranks=ranks)
        with self.open(output) as file:
            group = file["analysis/evolve"]
            return {name: group[name][...] for name in (*COUNTS, *SUMS)} | dict(group.attrs) | {"u": file["field/u"][...], "time": file["time"][...]}

    def assert_measured(self, found):
        """The measures are those of the stored states; returns how many counts are exact."""
        beta, delta = found["beta"], found["delta"]
        self.assertEqual(found["number_2"].shape, (*found["u"].shape[:2], found["u"].shape[3]))
        exact = 0
        for place in np.ndindex(found["number_2"].shape):
            u = found["u"][place[0], place[1], :, place[2]]
            length = np.linalg.norm(u, axis=1)
            self.assertEqual(found["zero_tokens"][place], (length == 0).sum())
            if not length.any():
                for name in (*SUMS, *COUNTS[:3]):
                    self.assertTrue(np.isnan(found[name][place]), name)
                continue
            x = u[length > 0] / length[length > 0, None]
            for name, value in zip(SUMS, sums_of(x, beta)):
                # beta times roundings of cosines
                np.testing.assert_allclose(found[name][place], value, rtol=1e-12, err_msg=name)
            count = components(x, delta)
            self.assertLessEqual(found["components_low"][place], count)
            self.assertGreaterEqual(found["components_high"][place], count)
            exact += found["components_low"][place] == found["components_high"][place]
        return exact

    def on_ranks(self, *arguments):
        """The run on one rank, after a comparison with others: counts to the last digit, sums up to their order."""
        runs = {}
        together([lambda n=ranks: runs.update({n: self.evolved(*arguments, ranks=n, output=f"out{n}.h5")}) for ranks in (1, *SEVERAL_RANKS)])
        for ranks in SEVERAL_RANKS:
            for name in COUNTS:
                np.testing.assert_array_equal(runs[ranks][name], runs[1][name], err_msg=name)
            for name in SUMS:
                np.testing.assert_allclose(runs[ranks][name], runs[1][name], rtol=1e-12, err_msg=name)
        return runs[1]

    def test_of_any_model_are_those_of_an_oracle_on_any_ranks(self):
        """A Transformer on a lattice whose deeper cells are 0 at first."""
        found = self.on_ranks("--clusters.measure=true")
        self.assertAlmostEqual(found["beta"], np.sqrt(8), delta=1e-15)
        self.assertAlmostEqual(found["delta"], 0.3 / 8**0.25, delta=1e-15)
        self.assertTrue((found["zero_tokens"][0] == 6).all())
        self.assertTrue((found["zero_tokens"][1, 1:] == 6).all())  # at Courant number 1 the front is one cell in one step
        self.assertEqual(found["zero_tokens"][-1].max(), 0)
        self.assertGreater(self.assert_measured(found), 0)

    def test_of_the_flow_on_the_sphere_and_the_number_never_rises(self):
        flow = (*FLOW, RANDOM, "--mesh.tokens_x=60", "--model.width=3", "--model.beta=9", "--evolve.time=9", "--output.every=0.5")
        # Equal steps; error-controlled ones differ by what the ranks sum.
        found = self.on_ranks(*flow, "--evolve.dt=0.05")
        self.assertEqual(found["beta"], 9)
        self.assertAlmostEqual(found["delta"], 0.1, delta=1e-15)
        self.assertGreater(self.assert_measured(found), 0)
        number = self.evolved(*flow, "--evolve.tolerance=1e-12")["number_2"][:, 0, 0]
        # Steps have errors of 1e-12, of which there are some hundred between two stored times.
        self.assertLess(np.diff(number).max(), 1e-9)
        self.assertLess(number[-1], 0.7 * number[0])

    def test_of_layers_on_the_sphere_and_the_number_never_rises_with_depth(self):
        runs = {}
        layers = [(*LAYERS, "--mesh.tokens_x=40", "--model.width=4", "--inflow.source=noise", "--evolve.method=euler", "--evolve.cfl=1", more)
                  for more in ("--equation.alpha=0.1", "--equation.alpha=1", "--equation.alpha=10", "--depth.residual=false")]
        together([lambda k=k, one=one: runs.update({k: self.evolved(*one, "--model.beta=5", ranks=1 + k % 3, output=f"out{k}.h5")})
                  for k, one in enumerate(layers)])
        for k, found in runs.items():
            self.assert_measured(found)
            number = found["number_2"][-1, :, 0]
            # Roundings of n^2 exponentials, beta times some units of 1e-16 each.
            self.assertLessEqual((number[1:] / number[:-1] - 1).max(), 2e-14, layers[k])
            self.assertLess(number[-1], number[0] - 0.01, layers[k])

    def test_seven_groups_are_seven(self):
        groups = (*FLOW, "--start.state=clustered_sphere", "--mesh.tokens_x=1000", "--model.width=32", "--start.scale=0.003", "--evolve.time=1e-3",
                  "--evolve.dt=1e-3")
        for ranks, delta in ((1, 0.05), (2, 0.1), (3, 0.2)):
            found = self.evolved(*groups, f"--clusters.delta={delta}", ranks=ranks)
            for name in ("components_low", "components_high"):
                self.assertEqual(found[name][0, 0, 0], 7, delta)
            self.assertEqual(components(found["u"][0, 0, :, 0], delta), 7)
            self.assertAlmostEqual(found["compact_share"][0, 0, 0], 1, delta=1e-14)

    def test_a_cloud_is_not_counted(self):
        found = self.evolved(*FLOW, RANDOM, "--mesh.tokens_x=100", "--model.width=3", "--evolve.time=0.01", "--evolve.dt=0.01", "--clusters.leaders=5")
        for name in COUNTS[:2]:
            self.assertTrue(np.isnan(found[name]).all(), name)
        self.assertEqual(found["compact_share"].max(), 0)
        self.assertTrue((found["number_2"] > 1).all())

    def test_nothing_is_stored_unless_asked_for(self):
        self.evolve()
        self.assertEqual([name for name in (*COUNTS, *SUMS) if name in self.open("out.h5")["analysis/evolve"]], [])

    def test_go_on_where_a_run_was_stopped(self):
        run = ("evolve", "small.ini", "--quiet", "--clusters.measure=true", "--checkpoint.every=1", "--checkpoint.restart=auto", "--output.overwrite=true")
        whole = self.evolved("--clusters.measure=true", "--checkpoint.every=1", output="whole.h5")
        for time in (2, 4):
            end = self.run_program(*run, f"--evolve.time={time}")
            self.assertEqual(end.code, 0, end)
        self.assertIn("continuing from", end.err)
        again = self.open("out.h5")
        self.assertEqual(again["time"][...].tolist(), whole["time"].tolist())
        for name in (*COUNTS, *SUMS):
            self.assertEqual(again[f"analysis/evolve/{name}"][...].tobytes(), whole[name].tobytes(), name)
        end = self.run_program(*run, "--evolve.time=5", "--clusters.delta=0.5")  # other counts than before
        self.assert_refused(end, "clusters.delta")

    def test_figure_and_page(self):
        for arguments in (("--clusters.measure=true",), (*FLOW, RANDOM, "--mesh.tokens_x=20", "--model.width=3", "--evolve.time=1", "--evolve.dt=0.1"),
                          ("--clusters.measure=true", "--output.fields=none", "--output.every=0")):
            self.evolve(*arguments, "--output.overwrite=true")
            end = call("plot", self.path("out.h5"), "--output", self.path("figures"))
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertIn("clusters.png", end.stdout)
        end = call("view", self.path("out.h5"), "--output", self.path("page.html"))
        self.assertEqual(end.returncode, 0, end.stderr)

    def test_what_cannot_be_is_refused(self):
        for number, (part, *arguments) in enumerate((
                ("clusters.delta", "--clusters.delta=2.1"), ("clusters.delta", "--clusters.delta=1e-9"), ("clusters.beta", "--clusters.beta=-1"),
                ("clusters.leaders", "--clusters.leaders=0"), ("clusters.beta: needs clusters.measure", "--clusters.measure=false", "--clusters.beta=2"),
                ("all stored times (output.every)", "--inflow.samples=200", "--evolve.time=2e9"),  # 130 TB, a step is 1
                ("start.groups", "--start.groups=3"), ("start.groups", "--start.state=clustered_sphere", "--start.groups=0"))):
            for ranks in ranks_of_case(number):
                given = {argument.split("=")[0] for argument in arguments}
                settings = [one for one in ("--clusters.measure=true",) if one.split("=")[0] not in given]
                self.assert_refused(self.run_program("evolve", "small.ini", *settings, *arguments, ranks=ranks), part)
        self.assertFalse(os.path.exists(self.path("out.h5")))


if __name__ == "__main__":
    unittest.main()
