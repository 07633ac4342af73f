#!/usr/bin/env python3
"""The terms of the equation and their kernels compile for aarch64, by a cross compiler; nothing is linked or run. Headers of this machine stand
in for those of libraries, which hardly differ between 64-bit processors. Status 77 if the compiler is not installed.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import ROOT, together  # noqa: E402 (the folder is put on the path first)

COMPILER = "aarch64-linux-gnu-g++"
if shutil.which(COMPILER) is None:
    print(f"NOT RUN: {COMPILER} is missing (apt-get install g++-aarch64-linux-gnu)", file=sys.stderr)
    sys.exit(77)

# As CMake has them, but without vectors wider than the baseline's.
OPTIONS = ["-std=c++20", "-O2", "-fno-math-errno", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-DNDEBUG",
           "-DOMPI_SKIP_MPICXX", "-DFLUXFORMER_OPENBLAS", "-DEIGEN_USE_BLAS", "-DEIGEN_MAX_ALIGN_BYTES=64", "-DPETSC_HAVE_BROKEN_RECURSIVE_MACRO"]


def folders_of(*modules):
    done = subprocess.run(["pkg-config", "--cflags-only-I", *modules], capture_output=True, text=True, check=True)
    return [word.removeprefix("-I") for word in done.stdout.split()]


class Aarch64(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fluxformer-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        libraries = folders_of("PETSc", "ompi-c", "eigen3")
        # PETSc's configuration of this machine names a header of x86.
        name = next(name for place in libraries if os.path.exists(name := os.path.join(place, "petscconf.h")))
        with open(name, encoding="utf-8") as real, open(os.path.join(self.folder, "petscconf.h"), "w", encoding="utf-8") as stream:
            stream.writelines(line for line in real if "XMMINTRIN" not in line)
        self.options = [*OPTIONS, "-I" + os.path.join(ROOT, "src"), "-I" + ROOT, "-isystem", self.folder]
        self.options += [word for place in libraries for word in ("-isystem", place)]

    def compiles(self, source, *more):
        target = os.path.join(self.folder, source.replace("/", "_") + ".o")
        words = [COMPILER, *self.options, *more, "-c", os.path.join(ROOT, source), "-o", target]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{source}\n{done.stderr}")
        return target

    def test_the_kernels_and_terms_compile(self):
        sources = [os.path.relpath(name, ROOT) for name in glob.glob(os.path.join(ROOT, "src/operators/**/*.cpp"), recursive=True)]
        self.assertGreater(len([name for name in sources if "/kernels/" in name]), 3)
        together([lambda source=source: self.compiles(source) for source in sources])

    def test_sums_are_of_vectors(self):
        with open(self.compiles("src/operators/layer_norm.cpp", "-S"), encoding="utf-8") as stream:
            self.assertRegex(stream.read(), r"\bfadd\s+v\d+\.2d,")


if __name__ == "__main__":
    unittest.main()
