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

from program import ENVIRONMENT, ROOT, ProgramTest  # noqa: E402 (the folder is put on the path first)

LIBRARY = """
Name: {name}
Description: made up
Version: 3.18.5
Cflags: -I{folder}
Libs: -L{folder} -l{name}
"""


class Configure(ProgramTest):
    def make_up(self, library):
        """Sets what pkg-config finds: the modules of this machine, but of this library only one whose headers are in a folder of this test."""
        known = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], capture_output=True, text=True, check=True).stdout
        os.mkdir(self.path("modules"))
        for place in [*os.environ.get("PKG_CONFIG_PATH", "").split(":"), *known.strip().split(":")]:
            for module in glob.glob(os.path.join(place, "*.pc")) if place else ():
                name = os.path.basename(module)
                if not name.lower().startswith(library.lower()) and not os.path.lexists(self.path("modules/" + name)):
                    os.symlink(module, self.path("modules/" + name))
        os.mkdir(self.path("headers"))
        self.write(f"modules/{library}.pc", LIBRARY.format(name=library, folder=self.path("headers")))

    def assert_not_configured(self, *words):
        """CMake stops with one message that has the words. All calls are in one folder, as the compiler is looked at only once there."""
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", self.path("build"), "-DBUILD_TESTING=OFF"], capture_output=True, text=True,
                              check=False, env={**ENVIRONMENT, "PKG_CONFIG_LIBDIR": self.path("modules"), "PKG_CONFIG_PATH": ""})
        self.assertNotEqual(done.returncode, 0, done)
        said = " ".join(done.stderr.split())
        self.assertEqual(said.count("CMake Error"), 1, said)
        for word in words:
            self.assertIn(word, said)

    def test_stops_at_a_serial_hdf5(self):
        self.make_up("hdf5")
        self.assert_not_configured("HDF5", "is serial, or its headers are missing", "libhdf5-openmpi-dev")
        self.write("headers/H5pubconf.h", "#define H5_HAVE_ZLIB_H 1\n")
        self.assert_not_configured("HDF5", "is serial, or its headers are missing", "libhdf5-openmpi-dev")

    def test_stops_at_a_petsc_of_another_kind(self):
        self.make_up("PETSc")
        for macros, fault in (("PETSC_USE_COMPLEX 1", "has complex numbers"),
                              ("PETSC_USE_REAL_DOUBLE 1\n#define PETSC_USE_64BIT_INDICES 1", "has 64-bit indices"),
                              ("PETSC_USE_REAL_SINGLE 1", "has single precision"), ("PETSC_HAVE_MPIUNI 1", "was built without MPI")):
            self.write("headers/petscconf.h", f"#define {macros}\n")
            self.assert_not_configured("PETSc", fault, "libpetsc-real-dev")


if __name__ == "__main__":
    unittest.main()
