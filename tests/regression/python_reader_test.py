#!/usr/bin/env python3
"""fluxformer.io reads finished runs, and says what to do about anything else.

Makes its own small files, so no run is needed. Status 0 if all tests pass.
"""

import os
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from python_package import FolderTest  # noqa: E402 (its folder is put on the path first)
from training_sample import write_training  # noqa: E402

from fluxformer.io import Run, RunError, training_file  # noqa: E402
from fluxformer.text import seed_list  # noqa: E402

ATTRIBUTES = {
    "schema_version": 1, "experiment": "evolve", "status": "done", "git_revision": "0123456789abcdef", "git_dirty": "yes",
    "command_line": "bin/fluxformer evolve input/evolve/evolve.ini --output.file=a.h5", "seed": 7, "ranks": 3,
    "settings": "# all of them\n[equation]\nc = 2.5\n\n[mesh]\nlayers = 12\n; why\n[output]\noverwrite = true\nfile = a=b.h5\n",
}
FIELD = np.arange(2 * 3 * 4 * 1 * 2, dtype=float).reshape(2, 3, 4, 1, 2)


def write(path, **changes):
    """A run of 3 depths and 2 times; attributes set to None are omitted."""
    with h5py.File(path, "w") as file:
        file.attrs.update({name: value for name, value in {**ATTRIBUTES, **changes}.items() if value is not None})
        for name, values in (("depth", [1.0, 2.0, 3.0]), ("time", [0.0, 0.5])):
            file.create_dataset(name, data=values).make_scale(name)
        u = file.create_dataset("field/u", data=FIELD)
        u.dims[0].attach_scale(file["time"])
        u.dims[1].attach_scale(file["depth"])
        file["history/norm"] = np.ones((5, 3))
        file["analysis/evolve/arrival_time"] = [1.0, 2.0, np.nan]


class Reader(FolderTest):
    def setUp(self):
        super().setUp()
        self.file = self.path("a.h5")

    def refusal(self, path=None):
        with self.assertRaises(RunError) as caught:
            Run(path or self.file)
        return str(caught.exception)

    def test_a_finished_run_is_read(self):
        write(self.file)
        with Run(self.file) as run:
            self.assertEqual(run.settings, {"equation.c": 2.5, "mesh.layers": 12, "output.overwrite": True,
                                            "output.file": "a=b.h5"})
            u = run.field("u")
            self.assertEqual((u.dims[:2], u.shape), (("time", "depth"), FIELD.shape))
            np.testing.assert_array_equal(u[1, 2], FIELD[1, 2])
            np.testing.assert_array_equal(u.coordinate("depth"), [1, 2, 3])
            np.testing.assert_array_equal(u.coordinate(2), [0, 1, 2, 3])
            self.assertEqual((run.fields, run.histories, run.analyses("evolve")), (["u"], ["norm"], ["arrival_time"]))
            self.assertEqual(run.history("norm").shape, (5, 3))
            self.assertTrue(np.isnan(run.analysis("evolve", "arrival_time")[2]))

    def test_a_figure_can_be_traced_to_its_run(self):
        write(self.file)
        with Run(self.file) as run:
            for part in (self.file, "deck input/evolve/evolve.ini", "revision 0123456789 + changes", "seed 7", "3 rank(s)"):
                self.assertIn(part, run.origin)

    def test_seeds_of_a_study_are_those_it_went_over(self):
        write(self.file)
        with h5py.File(self.file, "a") as file:
            file["seed"] = [12, 1, 2, 3]
        with Run(self.file) as run:
            self.assertEqual(run.seeds, [12, 1, 2, 3])
            self.assertIn(" · seeds 1 to 3, 12 · ", run.origin)
        for seeds, text in (([7], "7"), ([3, 4], "3, 4"), ([5, 3, 4, 4, 9, 10], "3 to 5, 9, 10"), ([], "not recorded")):
            self.assertEqual(seed_list(seeds), text)

    def test_what_a_run_does_not_hold_is_named_with_what_it_holds(self):
        write(self.file)
        with Run(self.file) as run, self.assertRaisesRegex(RunError, "no /history/cfl .*holds norm"):
            run.history("cfl")

    def test_the_file_is_closed_at_the_end(self):
        write(self.file)
        with Run(self.file) as run:
            u = run.field("u")
        with self.assertRaises(ValueError):
            u[0]

    def test_a_missing_file_points_to_the_unfinished_one(self):
        self.assertIn("no such file", self.refusal())
        write(self.file + ".part", status="running")
        self.assertIn("is not finished", self.refusal())

    def test_unfinished_runs_are_read_only_when_asked_for(self):
        part = self.file + ".part"
        write(part, status="running")
        self.assertIn("not finished", self.refusal(part))
        write(self.file, status="failed", message="non-finite state at t = 3")
        self.assertRegex(self.refusal(), "'failed': non-finite state at t = 3.*--unfinished")
        for path in (part, self.file):
            with Run(path, unfinished=True) as run:
                self.assertEqual(run.fields, ["u"])

    def test_the_course_of_a_training_is_read(self):
        columns = write_training(self.file, epochs=3, per_epoch=5)
        with h5py.File(self.file, "r+") as file:
            words = np.array([word.encode() for word in ("the", "naïve", "")], dtype=h5py.string_dtype(length=6))
            file["model/embedding/vocabulary"] = words
        with Run(self.file) as run:
            for name, values in columns.items():
                np.testing.assert_array_equal(run.training(name), values)
            self.assertEqual(set(run.trainings), set(columns))
            np.testing.assert_array_equal(run.coordinate("epoch"), [1, 2, 3])
            self.assertEqual((run.vocabulary, run.running, run.training_attributes["samples"]),
                             (["the", "naïve", ""], False, 165))

    def test_a_growing_history_is_read_as_far_as_its_axes_go(self):
        history = self.file[:-3] + ".history.h5"
        self.assertEqual(training_file(self.file), self.file)
        columns = write_training(history, epochs=2, per_epoch=6, status="running")
        self.assertEqual(training_file(self.file), history)
        with h5py.File(history, "r+", libver="latest") as file:
            file["step"].resize((7,))
            file.swmr_mode = True
            with Run(history) as run:
                self.assertTrue(run.running)
                self.assertEqual(run.vocabulary, [])
                np.testing.assert_array_equal(run.coordinate("step"), np.arange(7))
                np.testing.assert_array_equal(run.training("loss"), columns["loss"][:7])
                np.testing.assert_array_equal(run.training("test_loss"), columns["test_loss"])
        write_training(self.file)
        self.assertEqual(training_file(self.file), self.file)

    def test_foreign_and_damaged_files_are_refused(self):
        write(self.file, schema_version=None)
        self.assertIn("not one of Fluxformer", self.refusal())
        with open(self.file, "wb") as stream:
            stream.write(b"not HDF5")
        self.assertIn("not a readable HDF5 file", self.refusal())

    def test_other_schemas_are_refused_both_ways(self):
        write(self.file, schema_version=0)
        self.assertIn("too old", self.refusal())
        write(self.file, schema_version=99)
        self.assertRegex(self.refusal(), "newer than this reader.*0123456789abcdef")


if __name__ == "__main__":
    unittest.main()
