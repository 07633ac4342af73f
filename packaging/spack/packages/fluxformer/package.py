"""Spack's recipe. Written after the documentation of Spack 0.23 and 1.1, and not yet run with either: see docs/install.md.

tests/regression/packages_test.py compares it with spack.yaml, debian-packages.txt, postprocess/pyproject.toml and the options of CMake.
"""

import os

from spack.package import *

try:  # Spack 1: no longer a part of spack.package
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Fluxformer(CMakePackage):
    """A Transformer solved as a partial differential equation over depth and tokens, with PETSc, MPI and parallel HDF5."""

    # The clone that holds this recipe. `spack develop --path <clone> fluxformer@main` builds its working tree instead.
    git = "file://" + os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))
    homepage = git

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("native", default=False, description="Vector instructions of the machine that builds, whatever Spack's target is")
    variant("blas", default="openblas", values=("openblas", "blis", "eigen"), multi=False, description="Matrix products")
    variant("xsmm", default=True, when="target=x86_64:", description="Small matrix products by kernels that libxsmm makes at run time")
    variant("tools", default=True, description="Python packages for figures and reports (fluxformer-tools)")
    variant("tests", default=False, description="Build the tests")
    variant("benchmarks", default=False, when="+tests", description="Build the benchmarks of kernels")

    conflicts("%gcc@:11", msg="g++ 12 or later is needed: __builtin_shufflevector")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("git", type="build")
    depends_on("openmpi@4.1:5")  # other MPIs: docs/guide/cluster.md
    depends_on("petsc@3.18:3.22 +mpi+double~complex~int64")
    depends_on("slepc@3.18:3.22")
    depends_on("netlib-scalapack")
    depends_on("hdf5@1.10:1.14 +mpi+hl")
    depends_on("eigen@3.4:3")
    depends_on("boost@1.74: +program_options")
    depends_on("openblas threads=none", when="blas=openblas")
    depends_on("blis threads=none", when="blas=blis")
    depends_on("lapack", when="blas=blis")
    depends_on("lapack", when="blas=eigen")
    depends_on("libxsmm@1.17", when="+xsmm")  # 2 has other functions
    depends_on("zlib-api")
    depends_on("libarchive")
    depends_on("libpng")
    depends_on("nanoflann@1.4:1")
    depends_on("nlohmann-json@3.11:3")
    depends_on("googletest@1.12: +gmock", when="+tests")
    depends_on("benchmark@1.7:", when="+benchmarks")

    with when("+tools"):
        depends_on("python@3.11:", type=("build", "run"))
        depends_on("py-h5py", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-matplotlib", type="run")
        depends_on("py-scipy", type="run")
        depends_on("py-xarray", type="run")
        depends_on("py-jinja2", type="run")
        depends_on("py-plotly", type="run")

    def cmake_args(self):
        arguments = [
            self.define_from_variant("FLUXFORMER_NATIVE", "native"),
            self.define_from_variant("FLUXFORMER_BLAS", "blas"),
            self.define("FLUXFORMER_UNITY", True),
            self.define("FLUXFORMER_XSMM", self.spec.satisfies("+xsmm")),
            self.define_from_variant("BUILD_TESTING", "tests"),
            self.define("FLUXFORMER_BENCHMARKS", self.spec.satisfies("+benchmarks")),
        ]
        if self.spec.satisfies("+tools"):
            arguments.append(self.define("FLUXFORMER_PYTHON", self.spec["python"].command.path))
        return arguments

    def setup_run_environment(self, env):
        if self.spec.satisfies("+tools"):  # for `import fluxformer`; fluxformer-tools finds it by itself
            env.prepend_path("PYTHONPATH", self.prefix.share.fluxformer.postprocess)
