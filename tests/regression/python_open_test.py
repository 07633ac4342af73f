#!/usr/bin/env python3
"""fluxformer.open on every kind of file that the program writes: equal to h5py, with coordinates and units, read when indexed.

The script of the user guide is one of its cases."""

import os
import re
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

try:
    import xarray  # noqa: F401
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from comparison import ALL, CompareTest  # noqa: E402
from described import names_of  # noqa: E402
from program import ROOT, SCALING_DECK, TIMEOUT, TRAIN_DECK, together  # noqa: E402
from python_package import ENVIRONMENT  # noqa: E402

import fluxformer  # noqa: E402

COMPARISONS = names_of("compare")
MORE = {"attention": ("--attention.matching=9",), "gradient_flow": ("--gradient.jacobian_samples=2",)}


class Open(CompareTest):
    def files(self):
        """One of each kind."""
        self.write("train.ini", TRAIN_DECK)
        self.write("scaling.ini", SCALING_DECK)
        runs = [("evolve", "small.ini", "--output.file=evolve.h5", "--output.attention=true"),
                ("train", "train.ini", "--output.file=train.h5", "--output.snapshots=1"),
                ("ablation", "train.ini", "--output.file=ablation.h5", "--ablation.seeds=1"),
                ("scaling", "scaling.ini", "--output.file=scaling.h5"),
                *((name, *ALL, *MORE.get(name, ()), f"--output.file={name}.h5") for name in COMPARISONS)]

        def run(arguments):
            end = self.run_program(*arguments, "--quiet")
            self.assertEqual(end.code, 0, end)

        together([lambda arguments=arguments: run(arguments) for arguments in runs])
        return sorted(name for name in os.listdir(self.folder) if name.endswith(".h5") and ".checkpoint." not in name)

    def test_every_kind_of_file(self):
        files = self.files()
        self.assertGreaterEqual({*files}, {"evolve.h5", "train.h5", "train.epoch1.h5", "train.best.h5", "train.history.h5",
                                           "ablation.h5", "scaling.h5", *(name + ".h5" for name in COMPARISONS)})
        for name in files:
            with self.subTest(name):
                self.same_as_h5py(name)

    def same_as_h5py(self, name):
        with fluxformer.open(self.path(name)) as data, h5py.File(self.path(name)) as file:
            self.assertEqual(data.attrs["experiment"], file.attrs["experiment"])
            stored = {}
            file.visititems(lambda path, one: stored.update({path: one}) if isinstance(one, h5py.Dataset) else None)
            found = {**data.data_vars, **data.coords}
            for path, one in stored.items():
                if path not in found:  # dimensions without a coordinate
                    self.assertTrue(path.startswith("extent_"), path)
                    continue
                variable = found[path]
                dims = [axis[0].name.split("/")[-1] for axis in one.dims if len(axis)] or [path] * one.ndim
                self.assertEqual(list(variable.dims), dims, path)
                unit = one.attrs.get("unit", "")
                self.assertEqual(variable.attrs.get("units"), None if unit in ("1", "") else unit, path)
                for dim in dims:
                    if dim in stored and not dim.startswith("extent_"):
                        np.testing.assert_array_equal(variable[dim], stored[dim][...], err_msg=f"{path}: {dim}")
                self.assertTrue(path in data.dims or not variable.variable._in_memory, f"{path} was read")
                mine = one.asstr()[...] if h5py.check_string_dtype(one.dtype) else one[...]
                np.testing.assert_array_equal(variable.values, mine, err_msg=path)

    def test_a_group_has_its_names_and_the_coordinates_it_uses(self):
        self.evolve("--output.file=evolve.h5")
        with fluxformer.open(self.path("evolve.h5"), "history") as data, h5py.File(self.path("evolve.h5")) as file:
            self.assertEqual(set(data.data_vars), set(file["history"]))
            self.assertEqual(set(data.coords), {"step", "depth"})
            np.testing.assert_array_equal(data["norm"][::-1, 1].values, file["history/norm"][:, 1][::-1])  # read backwards
            self.assertEqual(float(data["rate"].sel(step=2, depth=1)), file["history/rate"][1, 0])
            self.assertEqual(data["rate"].attrs["units"], "1/time")
        with self.assertRaisesRegex(fluxformer.RunError, "no group /histroy; there are .*/history"):
            fluxformer.open(self.path("evolve.h5"), "histroy")
        with self.assertRaisesRegex(fluxformer.RunError, "no such file"):
            fluxformer.open(self.path("none.h5"))

    def test_axes_of_a_plot_have_names_and_units(self):
        self.evolve("--output.file=evolve.h5")
        with fluxformer.open(self.path("evolve.h5"), "history") as data:
            norm, = data["norm"].sel(depth=1).plot()
            for label in (norm.axes.get_xlabel(), norm.axes.get_ylabel()):
                self.assertTrue(label)
                self.assertNotIn("[", label)  # pure numbers
            norm.axes.clear()
            rate, = data["rate"].sel(step=2).plot(ax=norm.axes)
            self.assertRegex(rate.axes.get_xlabel(), r"\[layer\]$")
            self.assertRegex(rate.axes.get_ylabel(), r"\[1/time\]$")

    def test_the_script_of_the_guide_runs(self):
        with open(os.path.join(ROOT, "docs", "guide", "output.md"), encoding="utf-8") as guide:
            script, = re.findall(r"^    import fluxformer\n(?:    .*\n)+", guide.read(), re.M)
        os.mkdir(self.path("out"))
        self.evolve("--output.file=out/first.h5", deck=os.path.join(ROOT, "input", "evolve", "evolve.ini"))
        end = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
                             timeout=TIMEOUT)
        self.assertEqual((end.returncode, end.stderr), (0, ""), script)
        for said in re.findall(r"print\(.*# (\(.*\))$", script, re.M):  # what the guide says is printed
            self.assertIn(said, end.stdout)

    def test_a_training_that_goes_on(self):
        from training_sample import write_training
        write_training(self.path("a.history.h5"), epochs=2, status="running")
        with h5py.File(self.path("a.history.h5"), "r+", libver="latest") as file:
            file.swmr_mode = True
            steps = file["step"].shape[0]
            with fluxformer.open(self.path("a.history.h5"), "training") as data:
                self.assertEqual(data.sizes["step"], steps)
                np.testing.assert_array_equal(data["loss"], file["training/loss"][:steps])


if __name__ == "__main__":
    unittest.main()
