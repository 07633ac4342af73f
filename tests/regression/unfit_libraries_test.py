#!/usr/bin/env python3
"""Libraries that were built in another way are refused when CMake configures, with the package that is missing; not later by the compiler,
and not silently.
"""

import glob
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import ENVIRONMENT, ROOT, ProgramTest, together  # noqa: E402 (the folder is put on the path first)

LIBRARY = """
Name: {name}
Description: made up
Version: {version}
Cflags: -I{folder}
Libs: -L{folder} -l{name}
"""


class Configure(ProgramTest):
    def modules(self, folder, without):
        """A folder of pkg-config with all modules of this machine but those that begin with a word in lower case."""
        os.makedirs(self.path(folder))
        known = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], capture_output=True, text=True, check=True).stdout
        for place in [*os.environ.get("PKG_CONFIG_PATH", "").split(":"), *known.strip().split(":")]:
            for module in glob.glob(os.path.join(place, "*.pc")) if place else ():
                name = os.path.basename(module)
                if not name.lower().startswith(without) and not os.path.lexists(self.path(f"{folder}/{name}")):
                    os.symlink(module, self.path(f"{folder}/{name}"))

    def assert_not_configured(self, library, header, macros, *words):
        """With this library, whose header holds these macros, CMake stops with a message that has the words."""
        name = "_".join((library, *macros)).replace(" ", "_")
        folder = self.path(name + "_made_up")
        self.modules(name, library.lower())
        os.mkdir(folder)
        if header:
            self.write(f"{folder}/{header}", "".join(f"#define {macro}\n" for macro in macros))
        self.write(f"{name}/{library}.pc", LIBRARY.format(name=library, version="3.18.5", folder=folder))
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", self.path(name + "_build"), "-DBUILD_TESTING=OFF"],
                              env={**ENVIRONMENT, "PKG_CONFIG_LIBDIR": self.path(name), "PKG_CONFIG_PATH": ""}, capture_output=True, text=True,
                              check=False)
        self.assertNotEqual(done.returncode, 0, done)
        said = " ".join(done.stderr.split())
        self.assertEqual(said.count("CMake Error"), 1, said)
        for word in words:
            self.assertIn(word, said)

    def test_stops_at_a_serial_hdf5_and_at_another_petsc(self):
        petsc, real = ("PETSc", "petscconf.h"), "libpetsc-real-dev"
        together([lambda case=case: self.assert_not_configured(*case) for case in (
            ("hdf5", "H5pubconf.h", ("H5_HAVE_ZLIB_H 1",), "HDF5", "is serial", "libhdf5-openmpi-dev"),
            ("hdf5", "", (), "HDF5", "is serial", "libhdf5-openmpi-dev"),  # no headers there
            (*petsc, ("PETSC_USE_COMPLEX 1",), "complex numbers", real),
            (*petsc, ("PETSC_USE_REAL_DOUBLE 1", "PETSC_USE_64BIT_INDICES 1"), "64-bit indices", real),
            (*petsc, ("PETSC_USE_REAL_SINGLE 1",), "single precision", real),
            (*petsc, ("PETSC_HAVE_MPIUNI 1",), "built without MPI", real))])


if __name__ == "__main__":
    unittest.main()
