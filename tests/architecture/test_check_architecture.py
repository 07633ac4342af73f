#!/usr/bin/env python3
"""Each rule of check_architecture.py finds a planted violation, at its line, and nothing in a clean tree."""

import os
import subprocess
import sys
import tempfile
import unittest

from check_architecture import violations

CLEAN = {
    "src/base/error.hpp": '#pragma once\n\n#include <string>\n',
    "src/base/vector_arrays.hpp": "#pragma once\ninline void f(Vec v, double* a) { VecRestoreArray(v, &a); }\n",
    "src/base/handle.hpp": "#pragma once\nusing VecHandle = Handle<Vec, VecDestroy>;\n",
    "src/io/layout.hpp": '#pragma once\ninline constexpr auto field = "/field/u";\n',
    "src/mesh/mesh.hpp": '#pragma once\n\n#include "base/error.hpp"\n',
    "src/mesh/mesh.cpp": '#include "mesh/mesh.hpp"\n\n#include "base/handle.hpp"\n// VecDestroy is the handle\'s\n',
    "src/model/layer.hpp": '#pragma once\n#include "mesh/mesh.hpp"\n',
    "src/CMakeLists.txt": "fluxformer_floor(mesh DEPENDS fluxformer_base)\n",
    "solvers/march.hpp": '#pragma once\n#include "model/layer.hpp"\n',
    # The same name where it cannot clash: in another namespace, in an unnamed one, within a class, as a specialisation.
    "src/io/reader.hpp": "#pragma once\nnamespace a::b {\nclass Reader {\n  struct Part {};\n};\nclass Writer;\n}\nnamespace a {\nstruct Reader {};\n}\n",
    "src/io/reader.cpp": '#include "io/reader.hpp"\nnamespace a::b {\nnamespace {\nstruct Reader {\n};\n}\nvoid f() { struct Reader {}; }\n}\n',
    "drivers/registry.hpp": "#pragma once\nExperimentEntry spectrum_experiment();\n",
    "drivers/registry.cpp": "all{\n    spectrum_experiment(),\n};\n",
    "drivers/states/spectrum.cpp": 'ExperimentEntry spectrum_experiment() {\n  return {.name = "spectrum",\n          '
                                   '.family = "states",\n          .cites = ""};\n}\n',
    # Words that may begin the line of a comment that goes on.
    "src/io/comments.hpp": "#pragma once\n/// The largest kappa.\n/// Of all layers and channels. Often it is small.\nint a();\n",
    "src/model/layer_sums.cpp": "Eigen::Map<Eigen::RowVectorXd>(s, d) += u.colwise().sum().eval();\nEigen::VectorXd own = u.colwise().sum();\n",
    "drivers/main.cpp": '#include "solvers/march.hpp"\nHandle<Mat, MatDestroy> matrix;\n',
    "input/evolve/evolve.ini": "[mesh]\nlayers = 12\n",
    "README.md": "Run `input/evolve/evolve.ini`.\n",
}
# rule -> (file, its text, line of the violation, a word of the message)
PLANTED = {
    "an include that goes up": ("src/mesh/up.cpp", '#include "mesh/mesh.hpp"\n#include "model/layer.hpp"\n', 2, "go down"),
    "an include across one floor": ("src/training/t.cpp", '#include "solvers/march.hpp"\n', 1, "go down"),
    "an include without its floor": ("src/mesh/near.cpp", '#include "mesh.hpp"\n', 1, "<floor>"),
    "a folder that is no floor": ("src/misc/a.hpp", "#pragma once\n", 1, "floors"),
    "a link that goes up": ("src/mesh/CMakeLists.txt", "fluxformer_floor(mesh\n DEPENDS fluxformer_model)\n", 1, "link"),
    "PETSc objects destroyed by hand": ("solvers/a.cpp", "\nvoid f(Vec v) { VecDestroy(&v); }\n", 2, "handle"),
    "HDF5 objects closed by hand": ("tests/unit/io/a.cpp", "void f(long v) { H5Dclose(v); }\n", 1, "handle"),
    "an HDF5 path outside the variables": ("drivers/b.cpp", 'auto p = "/history/norm";\n', 1, "_variables"),
    "a group's name outside the variables": ("src/io/archive.cpp", '\n\nauto p = "state/" + n;\n', 3, "_variables"),
    "a coordinate's path outside the variables": ("src/io/archive.cpp", 'auto p = "/depth";\n', 1, "_variables"),
    "an array of a vector that no scope gives back": ("drivers/c.cpp", "\n\nauto e = VecGetArrayRead(v, &a);\n", 3, "ReadArray"),
    "sums written straight into mapped memory": ("src/model/layer_sums.cpp", "\nEigen::Map<Eigen::RowVectorXd>(s + 1, d) +=\n    u.colwise().sum();\n", 2, ".eval()"),
    "a handler that would unwind missing memory": ("solvers/c.cpp", "void f() try {\n} catch (...) {\n}\n", 2, "catch Error"),
    "a header without #pragma once": ("src/base/bare.hpp", "int a();\n", 1, "pragma"),
    "a comment that is half a sentence": ("src/base/half.hpp", "#pragma once\n/// Of all layers.\nint a();\n", 2, "stand alone"),
    "half a sentence behind a member": ("src/base/half.hpp", "#pragma once\nint a();\nint b;  ///< None if there is none.\n", 3, "stand alone"),
    "a folder of somebody's machine": ("docs/a.md", "\nsee /" + "home/me/notes\n", 2, "no place"),
    "a promise": ("src/base/later.cpp", "// TO" + "DO: later\n", 1, "no place"),
    "a cycle of headers": ("src/base/error.hpp", '#pragma once\n#include "base/error.hpp"\n', 1, "each other"),
    "a class of a name that is taken": ("src/mesh/token.hpp", "#pragma once\nnamespace a::b {\nclass Reader final : public Base {\n};\n}\n", 3,
                                        "a::b::Reader is defined in"),
    "an experiment named outside its places": ("src/io/archive.cpp", '\nconst char* a = "spectrum";\n', 2, "spectrum"),
    "an experiment named in a script of all": ("postprocess/page.py", 'sections = [\n    "spectrum"]\n', 2, "spectrum"),
    "an experiment that is not listed": (
        "drivers/states/other.cpp", 'ExperimentEntry other_experiment() {\n  return {.name = "other", .family = "states",};\n}\n', 1,
        "not in the list"),
    "an experiment of another family": (
        "drivers/states/spectrum.cpp", 'ExperimentEntry spectrum_experiment() {\n  return {.name = "spectrum", .family = "a",};\n}\n', 1,
        "of the family states"),
    "a listed experiment that nothing defines": (
        "drivers/registry.cpp", "all{\n    spectrum_experiment(),\n    missing_experiment(),\n};\n", 1, "no source of a family"),
    "a deck that does not exist": ("docs/b.md", "Run `input/missing.ini`.\n", 1, "does not exist"),
}


def plant(root, files):
    for path, text in files.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as stream:
            stream.write(text)


class CheckArchitecture(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        with tempfile.TemporaryDirectory() as root:
            plant(root, CLEAN)
            self.assertEqual(violations(root), [])

    def test_planted_violations_are_found(self):
        for rule, (path, text, line, word) in PLANTED.items():
            with self.subTest(rule), tempfile.TemporaryDirectory() as root:
                header = {path[:-4] + ".hpp": "#pragma once\n"} if path.startswith(("src", "solvers", "drivers")) and path.endswith(".cpp") else {}
                plant(root, {**header, **CLEAN, path: text})
                found = violations(root)
                self.assertEqual([(p, l) for p, l, _ in found], [(path, line)], found)
                self.assertIn(word, found[0][2])

    def test_a_longer_cycle_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            plant(root, {**CLEAN, "src/base/a.hpp": '#pragma once\n#include "base/b.hpp"\n',
                         "src/base/b.hpp": '#pragma once\n#include "base/a.hpp"\n'})
            self.assertIn("base/a.hpp -> base/b.hpp -> base/a.hpp", [what.split(": ")[1] for _, _, what in violations(root)])

    def test_a_source_of_no_header_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            plant(root, {**CLEAN, "src/mesh/mesh_parts.cpp": "int a;\n", "src/mesh/lattice.cpp": "int b;\n"})
            self.assertEqual([path for path, _, _ in violations(root)], ["src/mesh/lattice.cpp"])

    def test_folders_that_need_each_other_are_found(self):
        with tempfile.TemporaryDirectory() as root:
            below = {"src/model/slab/slab.hpp": '#pragma once\n#include "model/layer.hpp"\n'}
            plant(root, {**CLEAN, **below})
            self.assertEqual(violations(root), [])
            plant(root, {"src/model/layer.cpp": '#include "model/layer.hpp"\n#include "model/slab/slab.hpp"\n'})
            (_, _, what), = violations(root)
            self.assertIn("model/layer -> model/slab -> model/layer", what)

    def test_the_command_fails_on_a_violation(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_architecture.py")
        with tempfile.TemporaryDirectory() as root:
            plant(root, CLEAN)
            self.assertEqual(subprocess.run([sys.executable, script, root], capture_output=True).returncode, 0)
            plant(root, {"src/base/bare.hpp": "int a();\n"})
            bad = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
            self.assertEqual(bad.returncode, 1)
            self.assertIn("src/base/bare.hpp:1: a header begins", bad.stdout)


if __name__ == "__main__":
    unittest.main()
