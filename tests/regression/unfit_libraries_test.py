#!/usr/bin/env python3
"""Compilers and libraries that cannot be used are refused when CMake configures, with the package that is missing; not later by the compiler,
and not silently. What it does without is said.

The second tier has all of them (30 times that CMake configures), the first one of each kind: a serial HDF5, a PETSc of another MPI, a library, a
package and a module that are missing.
"""

import glob
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import ENVIRONMENT, FULL_TIER, ROOT, ProgramTest  # noqa: E402 (the folder is put on the path first)

LIBRARY = """
Name: {name}
Description: made up
Version: 3.99
Cflags: -I{folder} {more}
Libs: -L{folder} -l{name}
"""

# Included by CMake before anything is looked for: libraries with a name in HIDDEN are not found.
HIDES = """
function(find_library result)
  if("${ARGN}" MATCHES "${HIDDEN}")
    set(${result} ${result}-NOTFOUND PARENT_SCOPE)
  else()
    _find_library(${result} ${ARGN})
  endif()
endfunction()
"""

seldom = unittest.skipUnless(FULL_TIER, "./test.sh full runs it")


class Configure(ProgramTest):
    def of_pkg_config(self, *words):
        return subprocess.run(["pkg-config", *words], capture_output=True, text=True, check=True).stdout.strip()

    def hide(self, library):
        """Sets what pkg-config finds: the modules of this machine but those of this library."""
        os.makedirs(self.path("modules"))
        known = self.of_pkg_config("--variable", "pc_path", "pkg-config")
        for place in [*os.environ.get("PKG_CONFIG_PATH", "").split(":"), *known.split(":")]:
            for module in glob.glob(os.path.join(place, "*.pc")) if place else ():
                name = os.path.basename(module)
                if not name.lower().startswith(library.lower()) and not os.path.lexists(self.path("modules/" + name)):
                    os.symlink(module, self.path("modules/" + name))

    def make_up(self, library, more=""):
        """The same, and a module of that library whose headers are in a folder of this test."""
        self.hide(library)
        os.mkdir(self.path("headers"))
        self.write(f"modules/{library}.pc", LIBRARY.format(name=library, folder=self.path("headers"), more=more))

    def make_library(self, name, soname, *needed):
        """An empty shared library, headers/NAME, that needs those."""
        words = ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{soname},--no-as-needed", "-o", self.path("headers/" + name), "-x", "c", os.devnull]
        subprocess.run([*words, "-x", "none", *(self.path("headers/" + one) for one in needed)], check=True)

    def make_compiler(self, name, *words):
        """g++ as a script, in which "$@" stands for its arguments."""
        self.write(name, "#!/bin/sh\n" + "\n".join(words) + "\n")
        os.chmod(self.path(name), 0o755)
        return "-DCMAKE_CXX_COMPILER=" + self.path(name)

    def configure(self, *options, build="build"):
        """All calls are in one folder, as the compiler is looked at only once there."""
        modules = {"PKG_CONFIG_LIBDIR": self.path("modules"), "PKG_CONFIG_PATH": ""} if os.path.exists(self.path("modules")) else {}
        return subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", self.path(build), "-DBUILD_TESTING=OFF", *options],
                              capture_output=True, text=True, check=False, env={**ENVIRONMENT, **modules})

    def assert_not_configured(self, *words, options=(), build="build"):
        """CMake stops with one message that has the words."""
        done = self.configure(*options, build=build)
        self.assertNotEqual(done.returncode, 0, done)
        said = " ".join(done.stderr.split())
        self.assertEqual(said.count("CMake Error"), 1, said)
        for word in words:
            self.assertIn(word, said)

    def assert_configured(self, *options):
        """Returns what CMake said, and the options of the compiler for a source of the kernels."""
        done = self.configure(*options)
        self.assertEqual(done.returncode, 0, done)
        with open(self.path("build/compile_commands.json"), encoding="utf-8") as stream:
            return done.stdout, next(one["command"] for one in json.load(stream) if one["file"].endswith("kernels/vector_math.cpp"))

    def test_stops_at_a_serial_hdf5(self):
        self.make_up("hdf5")
        self.assert_not_configured("HDF5", "is serial, or its headers are missing", "libhdf5-openmpi-dev")
        self.write("headers/H5pubconf.h", "#define H5_HAVE_ZLIB_H 1\n")
        self.assert_not_configured("HDF5", "is serial, or its headers are missing", "libhdf5-openmpi-dev")

    @seldom
    def test_stops_at_a_petsc_of_another_kind(self):
        self.make_up("PETSc")
        for macros, fault in (("PETSC_USE_COMPLEX 1", "has complex numbers"),
                              ("PETSC_USE_REAL_DOUBLE 1\n#define PETSC_USE_64BIT_INDICES 1", "has 64-bit indices"),
                              ("PETSC_USE_REAL_SINGLE 1", "has single precision"), ("PETSC_HAVE_MPIUNI 1", "was built without MPI")):
            self.write("headers/petscconf.h", f"#define {macros}\n")
            self.assert_not_configured("PETSc", fault, "libpetsc-real-dev")

    def test_stops_at_a_petsc_of_another_mpi(self):
        real = self.of_pkg_config("--cflags-only-I", "PETSc")
        self.make_up("PETSc", real)
        name = next(name for folder in real.split() if os.path.exists(name := os.path.join(folder[2:], "petscconf.h")))
        with open(name, encoding="utf-8") as stream:
            macros = stream.read()
        self.assertRegex(macros, "PETSC_HAVE_(OMPI_MAJOR_VERSION|OPENMPI)")
        macros = re.sub(r"#define PETSC_(HAVE|PKG)_(OMPI|OPENMPI).*", "", macros)
        self.write("headers/petscconf.h", macros + "\n#define PETSC_HAVE_MPICH 1\n#define PETSC_HAVE_MPICH_NUMVERSION 40002300\n")
        self.assert_not_configured("PETSc", "was built with another MPI", "one of the MPI that CMake finds")

    @seldom
    def test_stops_at_libraries_of_another_mpi(self):
        self.make_up("hdf5")
        self.write("headers/H5pubconf.h", "#define H5_HAVE_PARALLEL 1\n")
        self.make_library("libmpi.so", "libmpi.so.12")
        self.make_library("libhdf5.so", "libhdf5.so.103", "libmpi.so")
        self.assert_not_configured("libhdf5.so was built with MPICH, but CMake finds another MPI", "libhdf5-openmpi-dev")
        os.rename(self.path("modules"), self.path("none"))
        self.make_library("libmpich.so", "libmpich.so.12")
        self.make_library("libscalapack.so", "libscalapack.so.2", "libmpich.so")
        self.assert_not_configured("libscalapack.so was built with MPICH", "libscalapack-openmpi-dev",
                                   options=["-DFLUXFORMER_SCALAPACK=" + self.path("headers/libscalapack.so")], build="other")

    def test_names_the_package_of_what_is_missing(self):
        self.write("hides.cmake", HIDES)
        options = ["-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=" + self.path("hides.cmake"),
                   *("-UFLUXFORMER_" + found for found in ("SCALAPACK", "OPENBLAS", "XSMM_LIBRARY"))]  # by the call before
        libraries = (("hdf5_hl", "HDF5's high-level library", "libhdf5-openmpi-dev", "hdf5+mpi+hl"),
                     ("scalapack", "needs ScaLAPACK,", "libscalapack-openmpi-dev", "netlib-scalapack", "FLUXFORMER_SCALAPACK"),
                     ("openblas", "needs OpenBLAS,", "libopenblas-serial-dev", "openblas threads=none", "FLUXFORMER_BLAS"),
                     ("xsmm", "needs libxsmm 1.17,", "libxsmm-dev", "libxsmm@1.17", "FLUXFORMER_XSMM=OFF"))
        for hidden, *words in libraries if FULL_TIER else libraries[1:2]:
            self.assert_not_configured(*words, options=[*options, "-DHIDDEN=" + hidden])
        packages = (("nanoflann", "needs nanoflann 1.4,", "libnanoflann-dev", "nanoflann@1.4:"),
                    ("Boost", "needs Boost 1.74,", "libboost-program-options-dev", "boost@1.74:"))
        for package, *words in packages if FULL_TIER else packages[:1]:
            self.assert_not_configured(*words, options=[f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON", "-DHIDDEN=none"])
        self.assertIn("small ones as others (FLUXFORMER_XSMM is OFF)", self.assert_configured(
            "-DFLUXFORMER_XSMM=OFF", "-DHIDDEN=xsmm", "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_nanoflann=OFF")[0])

    def test_names_the_package_of_a_missing_module(self):
        modules = (("petsc", "needs PETSc 3.18 or newer,", "petsc-dev", "petsc@3.18:"),
                   ("slepc", "needs SLEPc 3.18 or newer,", "slepc-dev", "slepc@3.18:"),
                   ("hdf5", "needs HDF5 1.10 or newer,", "libhdf5-openmpi-dev", "hdf5+mpi+hl"))
        for library, *words in modules if FULL_TIER else modules[:1]:
            self.hide(library)
            self.assert_not_configured(*words, "PKG_CONFIG_PATH", build=library)
            os.rename(self.path("modules"), self.path("modules of others than " + library))

    @seldom
    def test_takes_the_scalapack_that_is_named(self):
        self.assertIn("cannot be linked", " ".join(self.configure("-DFLUXFORMER_SCALAPACK=" + self.path("none.so")).stderr.split()))
        self.assertIn("cannot be linked", " ".join(self.configure("-DFLUXFORMER_SCALAPACK=-lz").stderr.split()))
        self.assert_configured("-UFLUXFORMER_SCALAPACK")
        with open(self.path("build/CMakeCache.txt"), encoding="utf-8") as stream:
            real = re.search("^FLUXFORMER_SCALAPACK:.*?=(.*)$", stream.read(), re.M)
        os.symlink(real[1], self.path("libown.so"))
        for named, linked in ((self.path("libown.so"), self.path("libown.so")), (f"-L{self.folder} -lown", f"-L{self.folder} -lown"),
                              ("-lm;" + self.path("libown.so"), "-lm " + self.path("libown.so"))):
            self.assert_configured("-DFLUXFORMER_SCALAPACK=" + named)
            with open(self.path("build/build.ninja"), encoding="utf-8") as stream:
                self.assertIn(f" {linked} ", " ".join(stream.read().split()))

    @seldom
    def test_stops_at_old_compilers(self):
        for build, said, macros in (("gnu", "g++ 11.2", "-U__GNUC__ -D__GNUC__=11"),
                                    ("clang", "clang++ 15.0", "-D__clang__ -D__clang_major__=15 -D__clang_minor__=0 -D__clang_patchlevel__=0")):
            compiler = self.make_compiler(build + "++", 'for word; do shift; [ "$word" = -fcolor-diagnostics ] || set -- "$@" "$word"; done',
                                          f'exec g++ {macros} "$@"')
            self.assert_not_configured(said, "or newer", "CMAKE_CXX_COMPILER", options=[compiler], build=build)

    def test_says_for_which_instructions_it_compiles(self):
        said, options = self.assert_configured("-DFLUXFORMER_NATIVE=OFF")
        if os.uname().machine == "x86_64":
            self.assertIn("instructions: -march=x86-64-v2;", said)
            self.assertIn(" -march=x86-64-v2 ", options)
        said, options = self.assert_configured("-DFLUXFORMER_NATIVE=ON", "-DCMAKE_CXX_FLAGS=-mtune=generic -march=x86-64-v3")
        self.assertIn("instructions: -march=x86-64-v3;", said)
        self.assertEqual(options.count("-march="), 1, options)

    @seldom
    def test_goes_without_march_native_where_the_compiler_has_none(self):
        compiler = self.make_compiler("c++", 'case " $* " in *" -march=native "* | *" -mcpu=native "*) exit 1 ;; esac', 'exec g++ "$@"')
        said, options = self.assert_configured(compiler)
        self.assertIn("instructions: the compiler's baseline (it knows no -march=native);", said)
        self.assertNotIn("-march=", options)


if __name__ == "__main__":
    unittest.main()
