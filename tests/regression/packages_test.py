#!/usr/bin/env python3
"""The lists of what the program needs agree: debian-packages.txt, spack.yaml, Spack's recipe, pyproject.toml, CMake; the recipe passes CMake
options that exist.

Spack itself is not needed: the recipe runs with stand-ins for the names that Spack gives it.
"""

import contextlib
import glob
import itertools
import os
import re
import sys
import tomllib
import types
import unittest

ROOT = os.environ.get("FLUXFORMER_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = os.path.join(ROOT, "packaging", "spack", "packages", "fluxformer", "package.py")

# A package of Debian and its name in Spack. Modules of Python, python3-x and py-x, map by themselves.
SPACK = {"g++": "gcc", "cmake": "cmake", "ninja-build": "ninja", "pkg-config": "pkgconf", "git": "git", "openmpi-bin": "openmpi",
         "libopenmpi-dev": "openmpi", "petsc-dev": "petsc", "slepc-dev": "slepc", "libscalapack-openmpi-dev": "netlib-scalapack",
         "libhdf5-openmpi-dev": "hdf5", "hdf5-tools": "hdf5", "libeigen3-dev": "eigen", "libboost-program-options-dev": "boost",
         "libopenblas-serial-dev": "openblas", "libxsmm-dev": "libxsmm", "zlib1g-dev": "zlib", "libarchive-dev": "libarchive",
         "libpng-dev": "libpng", "libnanoflann-dev": "nanoflann", "nlohmann-json3-dev": "nlohmann-json", "libgtest-dev": "googletest",
         "libgmock-dev": "googletest", "libbenchmark-dev": "benchmark"}
# Of group test, what is no library of the tests that are compiled.
TOOLS = {"python3-h5netcdf", "mypy", "python3-venv", "python3-pip", "python3-setuptools", "python3-wheel", "clang-format", "clang-tidy-16",
         "shellcheck", "mandoc", "doxygen", "chromium", "chromium-driver", "python3-selenium", "python3-nbclient", "python3-ipykernel",
         "slurmctld", "slurmd", "slurm-client", "munge"}
# Spack's recipes name the virtual package where there is one; CMakePackage brings the generator, the class of a compiler is c and cxx.
RECIPE_NAMES = {"pkgconf": "pkgconfig", "zlib": "zlib-api"}
RECIPE_LACKS = {"ninja"}
RECIPE_ADDS = {"c", "cxx", "blis", "lapack"}  # lapack: FLUXFORMER_BLAS other than openblas
# Libraries by the names of CMake's find_package.
CMAKE = {"Eigen3": "eigen", "Boost": "boost", "ZLIB": "zlib", "LibArchive": "libarchive", "PNG": "libpng", "nanoflann": "nanoflann",
         "nlohmann_json": "nlohmann-json", "MPI": "openmpi", "GTest": "googletest", "benchmark": "benchmark"}
# Options of CMake that are none of a package's business.
DEVELOPERS = {"FLUXFORMER_WERROR", "FLUXFORMER_SANITIZE"}


def text(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as stream:
        return stream.read()


def debian(*groups):
    """Names of these groups of debian-packages.txt: of alternatives the first."""
    found, group = [], ""
    for line in text("debian-packages.txt").splitlines():
        if line.startswith("# --- "):
            group = line[len("# --- "):].partition(":")[0]
        elif line and not line.startswith("#") and group in groups:
            found.append(line.split()[0])
    return found


def in_spack(names):
    return {SPACK.get(name) or re.sub("^python3-", "py-", name) for name in names}


def spec(words):
    """(name, version, variants) of words such as "petsc@3.18:3.22 +mpi~complex threads=none"."""
    name, version, rest = re.fullmatch(r"([\w-]+)(?:@([\w.:]+))?(.*)", words.strip()).groups()
    return name, version or "", frozenset(re.findall(r"[+~][\w-]+|\w+=[\w:]+", rest))


def environment():
    """The specs of spack.yaml, by name; the compiler has a bound of its own."""
    whole = text("spack.yaml")
    lines = re.search(r"\n  specs:\n((?:    .*\n)+)", whole).group(1).splitlines()
    found = [spec(line.partition("#")[0].strip().removeprefix("- ")) for line in lines]
    found.append(("gcc", re.search(r'\n    gcc:\n      require: "@([\d.:]+)"\n', whole).group(1), frozenset()))
    return {name: (version, variants) for name, version, variants in found}


class Recipe:
    """What the recipe declares, and the arguments it passes to CMake for a choice of variants."""

    def __init__(self):
        self.variants, self.needs, self.conditions, self.conflicts, conditions = {}, [], [], [], []

        def declare_variant(name, default, description, values=(True, False), multi=False, when=None):
            assert description and not multi and default in values, name
            self.variants[name] = (values, default)
            self.conditions += filter(None, [when])

        def depends_on(words, type=("build", "link"), when=None):
            assert set([type] if isinstance(type, str) else type) <= {"build", "link", "run", "test"}, words
            self.needs.append((spec(words), [*conditions, *filter(None, [when])]))
            self.conditions += self.needs[-1][1]

        @contextlib.contextmanager
        def when(condition):
            conditions.append(condition)
            yield
            conditions.pop()

        class CMakePackage:
            def define(self, name, value):
                value = {True: "ON", False: "OFF"}.get(value, value) if isinstance(value, bool) else value
                return f"-D{name}={value}"

            def define_from_variant(self, name, variant):
                return self.define(name, self.spec.values[variant])

        stand_ins = types.ModuleType("spack.package")
        stand_ins.__dict__.update(variant=declare_variant, depends_on=depends_on, when=when, CMakePackage=CMakePackage,
                                  version=lambda name, branch: None, license=lambda name: None,
                                  conflicts=lambda words, msg, when=None: self.conflicts.append(words))
        sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": stand_ins})
        names = {"__file__": RECIPE, "__name__": "package"}
        with open(RECIPE, encoding="utf-8") as stream:
            exec(compile(stream.read(), RECIPE, "exec"), names)
        self.package = names["Fluxformer"]

    def holds(self, condition, choice):
        """Whether a condition of variants (+x, ~x, x=value) holds; one of a variant or a value that does not exist is a fault."""
        for word in re.findall(r"[+~]\w+|[\w]+=[\w:]+", condition):
            if word[0] in "+~":
                assert self.variants[word[1:]][0] == (True, False), condition
                if choice[word[1:]] != (word[0] == "+"):
                    return False
            else:
                name, value = word.split("=")
                if name == "target":
                    assert value == "x86_64:", condition
                    value = choice["target"] and value
                else:
                    assert value in self.variants[name][0], condition
                if choice[name] != value:
                    return False
        return True

    def choices(self):
        values = [values for values, _ in self.variants.values()]
        for one in itertools.product(*values, ("x86_64:", "")):
            yield dict(zip([*self.variants, "target"], one))

    def made(self, choice):
        """The package for these variants."""
        package = self.package()
        python = types.SimpleNamespace(command=types.SimpleNamespace(path="/opt/python3"))

        class Spec(dict):
            values = choice
            satisfies = staticmethod(lambda words: self.holds(words, choice))

        package.spec = Spec(python=python) if any(needed[0] == "python" for needed in self.needed(choice)) else Spec()
        return package

    def needed(self, choice):
        return [one for one, conditions in self.needs if all(self.holds(condition, choice) for condition in conditions)]


def cmake_options():
    """The options of the project by name: the values that an option may have, or None for any."""
    whole = "\n".join(text(path) for path in
                      ["CMakeLists.txt", "src/operators/CMakeLists.txt", *glob.glob(os.path.join(ROOT, "cmake", "*.cmake"))])
    options = {name: ("ON", "OFF") for name in re.findall(r"\boption\((\w+)", whole)}
    options |= dict.fromkeys(re.findall(r"\bset\((\w+) [^)]*\bCACHE\b", whole) + re.findall(r"\bfind_(?:program|library)\((FLUXFORMER_\w+)", whole))
    for name, values in re.findall(r"set_property\(CACHE (\w+) PROPERTY STRINGS ([\w ]+)\)", whole):
        options[name] = tuple(values.split())
    return options | {"BUILD_TESTING": ("ON", "OFF")}  # include(CTest)


class Lists(unittest.TestCase):
    def test_spack_yaml_has_what_debian_has(self):
        names = set(debian("run", "test")) - TOOLS
        self.assertEqual(set(environment()), in_spack(names) | {"python"})
        self.assertLessEqual(TOOLS, set(debian("test")), "no longer in the list of Debian packages")

    def test_the_recipe_has_what_spack_yaml_has(self):
        recipe = Recipe()
        needed = {name: (version, variants) for (name, version, variants), _ in recipe.needs}
        listed = {RECIPE_NAMES.get(name, name): what for name, what in environment().items() if name not in RECIPE_LACKS | {"gcc"}}
        self.assertEqual(set(needed), set(listed) | RECIPE_ADDS)
        for name, (version, variants) in listed.items():
            with self.subTest(name):
                self.assertEqual(needed[name][0], version)
                self.assertLessEqual(needed[name][1], variants)
        # From spack.yaml @12: follows that those before are refused.
        least = int(environment()["gcc"][0].rstrip(":"))
        self.assertIn(f"%gcc@:{least - 1}", recipe.conflicts)
        self.assertEqual(environment()["libxsmm"], ("1.17", {"target=x86_64:"}))

    def test_the_python_package_has_what_both_have(self):
        project = tomllib.loads(text("postprocess", "pyproject.toml"))["project"]
        modules = {*project["dependencies"], *project["optional-dependencies"]["h5py"]}
        self.assertEqual(modules, {name.removeprefix("python3-") for name in debian("run") if name.startswith("python3-")})
        self.assertEqual(modules, {name.removeprefix("py-") for name in environment() if name.startswith("py-")})
        self.assertEqual(project["requires-python"], ">=" + environment()["python"][0].rstrip(":"))

    def test_cmake_looks_for_what_is_listed(self):
        found = dict(re.findall(r"^fluxformer_find\(\S+ \S+ (\w+)(?: ([\d.]+))?", text("cmake", "FluxformerLibraries.cmake"), re.M))
        found.pop("PkgConfig")
        listed = environment()
        for name, version in found.items():
            with self.subTest(name):
                self.assertIn(CMAKE[name], listed)
                if version:
                    self.assertEqual(listed[CMAKE[name]][0].partition(":")[0], version)
        again = dict(re.findall(r"\bfind_dependency\((\w+)(?: ([\d.]+))?", text("cmake", "FluxformerConfig.cmake")))
        self.assertEqual(again, found)
        self.assertEqual(re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", text("CMakeLists.txt")).group(1) + ":", listed["cmake"][0])


class RecipeOfSpack(unittest.TestCase):
    def test_every_option_it_passes_is_one_of_cmake(self):
        recipe, options, seen = Recipe(), cmake_options(), set()
        for choice in recipe.choices():
            for word in recipe.made(choice).cmake_args():
                name, value = re.fullmatch(r"-D(\w+)=(.*)", word).groups()
                self.assertIn(name, options, f"{choice}: CMake has no such option")
                if options[name] is not None:
                    self.assertIn(value, options[name], f"{choice}: {name}")
                seen.add((name, value))
        passed = {name for name, _ in seen}
        named = {name for name, values in options.items() if values is not None or name in DEVELOPERS}
        self.assertEqual(named - passed, DEVELOPERS, "options that the recipe should pass, or a developer's own")
        self.assertEqual({value for name, value in seen if name == "FLUXFORMER_BLAS"}, set(options["FLUXFORMER_BLAS"]))

    def test_every_variant_changes_something(self):
        recipe = Recipe()
        usual = {name: default for name, (_, default) in recipe.variants.items()} | {"target": "x86_64:", "tests": True}

        def outcome(choice):
            return recipe.made(choice).cmake_args(), recipe.needed(choice)

        for name, (values, _) in recipe.variants.items():
            with self.subTest(name):
                outcomes = [outcome(usual | {name: value}) for value in values]
                self.assertTrue(all(one != other for one, other in itertools.combinations(outcomes, 2)))

    def test_its_conditions_name_variants(self):
        recipe = Recipe()
        choice = {name: default for name, (_, default) in recipe.variants.items()} | {"target": "x86_64:"}
        self.assertTrue(recipe.conditions)
        for condition in recipe.conditions:
            recipe.holds(condition, choice)

    def test_it_builds_the_clone_that_holds_it_and_finds_the_python_package(self):
        recipe, paths = Recipe(), []
        self.assertEqual(recipe.package.git, "file://" + os.path.realpath(ROOT))

        class Folder(str):
            def __getattr__(self, name):
                return Folder(os.path.join(self, name))

        for choice in recipe.choices():
            package = recipe.made(choice)
            package.prefix = Folder("/opt")
            package.setup_run_environment(types.SimpleNamespace(prepend_path=lambda name, value: paths.append((name, str(value)))))
        self.assertEqual(set(paths), {("PYTHONPATH", "/opt/share/fluxformer/postprocess")})

    def test_the_repository_has_its_form(self):
        self.assertRegex(text("packaging", "spack", "repo.yaml"), r"(?m)^repo:\n  namespace: \w+$")
        self.assertEqual(os.listdir(os.path.join(ROOT, "packaging", "spack", "packages")), ["fluxformer"])


if __name__ == "__main__":
    unittest.main()
