#!/usr/bin/env python3
"""What strangers bring as Python: settings of matplotlib in their shell and home, newer numpy, broken libraries. Figures come all the same, and
what a library lacks is never said to be a fault of their file."""

import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (its folder is put on the path first)
import numpy as np  # noqa: E402

from comparison_sample import write_attention  # noqa: E402
from python_package import ENVIRONMENT, POSTPROCESS, FolderTest, assert_picture, call, start  # noqa: E402
from training_sample import write_training  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.hdf5_file import open_file, reading  # noqa: E402
from fluxformer.report.reductions import REDUCTIONS  # noqa: E402


class Strangers(FolderTest):
    def setUp(self):
        super().setUp()
        write_training(self.path("train.h5"), epochs=2)

    def lay(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(content)

    def draws(self, **environment):
        done = start("plot", self.path("train.h5"), "--output", self.path("drawn"), env={**ENVIRONMENT, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first = done.stdout.splitlines()[0]
        assert_picture(self, first.removesuffix(".png"))

    def not_blamed(self, done, *words):
        """One line that names the library's fault and no file."""
        self.assert_refused(done, *words)
        self.assertNotIn("train.h5", done.stderr)
        self.assertNotIn("does not hold", done.stderr)

    def test_the_back_end_of_a_shell_does_not_matter(self):
        write_attention(self.path("attention.h5"))
        self.draws(MPLBACKEND="module://matplotlib_inline.backend_inline")
        done = start("report", self.path("attention.h5"), "--output", self.path("page"), env={**ENVIRONMENT, "MPLBACKEND": "inline"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_tex_in_a_settings_file_does_not_matter(self):
        self.lay("home/matplotlibrc", "text.usetex: True\nbackend: TkAgg\n")
        self.draws(MATPLOTLIBRC=self.path("home"))

    def test_areas_need_no_function_that_numpy_renamed(self):
        values, places = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]]), np.array([0.0, 1.0, 4.0])
        names = [name for name in ("trapz", "trapezoid") if hasattr(np, name)]
        kept = {name: getattr(np, name) for name in names}
        for name in names:
            delattr(np, name)
        try:
            areas = REDUCTIONS["area"].of(values, places)
        finally:
            for name, function in kept.items():
                setattr(np, name, function)
        np.testing.assert_allclose(areas, [(0.5 + 6) / 4, 2], rtol=1e-15)

    def test_what_a_library_lacks_is_no_fault_of_the_file(self):
        def lacking(_):
            return np.no_such_function

        def of_a_class(_):
            return np.ndarray.no_such_function

        def renamed(_):
            return np.zeros(3, colour="red")

        def broken(_):
            raise ImportError("cannot import name 'x' from 'matplotlib'", name="matplotlib")

        def absent(_):
            raise ModuleNotFoundError("No module named 'scipy'", name="scipy")

        for fault, words in ((lacking, ("no_such_function", f"numpy {np.__version__}", "not of a file")), (of_a_class, ("no_such_function", "not of a file")),
                             (renamed, ("'colour'", "not of a file")),
                             (broken, ("cannot import name 'x'", "not of a file")), (absent, ("scipy is missing", "python3-scipy"))):
            with self.subTest(fault.__name__), mock.patch("fluxformer.plot.main", fault):
                self.not_blamed(call("plot", self.path("train.h5")), *words)
        with mock.patch("fluxformer.plot.main", lambda _: None.size):
            done = call("plot", self.path("train.h5"))
        self.assert_refused(done, "can be of the file, of the Python libraries or of this program", "'NoneType' object has no attribute 'size'")

    def test_readers_tell_both_apart(self):
        with self.assertRaises(AttributeError), reading("a.h5"):
            np.no_such_function
        with self.assertRaises(ImportError), reading("a.h5"):
            raise ImportError("libhdf5.so is missing")
        with mock.patch("h5py.File", side_effect=ImportError("libhdf5.so is missing")), self.assertRaises(ImportError):
            open_file(self.path("train.h5"))
        with h5py.File(self.path("odd.h5"), "w") as file:
            file.create_group("numbers")
        with h5py.File(self.path("odd.h5"), "r") as file, self.assertRaisesRegex(fluxformer.RunError, "damaged, or not what the program writes"), reading("odd.h5"):
            file["numbers"].size

    def test_libraries_that_cannot_be_loaded_are_named(self):
        for name, content, word in (("h5py.py", "raise ImportError('libhdf5.so.200: cannot open shared object file')\n", "libhdf5.so.200"),
                                    ("matplotlib/__init__.py", "raise ValueError('Key backend: unknown')\n", "Key backend: unknown"),
                                    ("matplotlib/__init__.py", "import numpy\nnumpy.no_such_function\n", "no_such_function")):
            with self.subTest(word):
                self.lay(f"broken/{name}", content)
                done = start("plot", self.path("train.h5"), env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join((self.path("broken"), POSTPROCESS))})
                self.not_blamed(done, word, "not of a file")
                os.remove(self.path(f"broken/{name}"))


if __name__ == "__main__":
    unittest.main()
