#!/usr/bin/env python3
"""Project rules that a compiler cannot check.

    check_architecture.py ROOT

Prints one line per violation (file:line: what to do) and ends with status 1 if there is any. Reads the files below
ROOT, writes nothing, needs the standard library only. tests/architecture/test_check_architecture.py plants a violation
of each rule and checks that it is found.
"""

import os
import re
import sys

from project_files import project_files

# An #include may only go to a lower number or stay in its folder.
FLOORS = {"base": 0, "mesh": 1, "io": 2, "operators": 3, "data": 3, "model": 4, "training": 5, "solvers": 5,
          "analysis": 6, "drivers": 7}
GENERATED_HEADERS = {"git_revision.hpp"}  # written by CMake into the build folder
ROOT_GROUPS = "field|history|attention|training|model|state|timing|analysis"
COORDINATES = "depth|token|token_x|token_y|time|sample|channel|layer"

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
LINK = re.compile(r"fluxformer_floor\(\s*(\w+)\s[^)]*?\bDEPENDS\s+([^)]*)\)")
DESTROY = re.compile(r"\b(?:[A-Z]\w*Destroy|H5[A-Z]+close)\b")
HANDLE = re.compile(r"\bHandle<\w+, \w+>")
ARRAY = re.compile(r"\bVec(?:Get|Restore)Array\w*")
MAPPED_SUM = re.compile(r"(?:\bMap<[^;=]*>|\brow_major)\([^;=]*\)(?:\.noalias\(\))?\s*[+-]?=[^;=]*\b(?:col|row)wise\(\)\s*\.(?:sum|mean|norm|squaredNorm)\(\);")
HANDLER_OF_ALL = re.compile(r"\bcatch \((?:\.\.\.|const std::(?:exception|bad_alloc)& ?\w*)\)")
# The end of the program; a callback of libarchive and the readers, which one rank runs by itself; the process that checks files.
CATCHES_ALL = ("drivers/command_line.cpp", "src/data/files/packed_file.cpp", "src/data/tokens/token_file.cpp", "src/io/archive_reader.cpp",
               "src/io/hdf5/checker.cpp")
HDF5_PATH = re.compile(rf'"/?(?:{ROOT_GROUPS})/|"/(?:{ROOT_GROUPS}|{COORDINATES})"')
# Folders of a particular machine. Written so that the pattern does not match itself.
FOREIGN = re.compile(r"(?<![\w.$}~*/-])/(?:home|root|Users|work|workspace|scratch|farm)/\w|\bissues? ?#\d"
                     r"|\b(?:TO" r"DO|FIX" r"ME)\b")
# The first words of the commonest fragments in comments that doxygen reads.
FRAGMENT = re.compile(r"///<?\s*(Of|What|Those|Its|As|None|Nothing|That|Which)\b")
COMMENT = re.compile(r"^\s*///")
NAMED_FILE = re.compile(r"(?<![\w/.-])((?:input|postprocess|jobscripts)/[\w/.-]*\.(?:ini|py|sh|sbatch))\b")


def floor_of(path):
    """The floor a path belongs to, "" for a file directly in src/, None outside the floors."""
    parts = path.split("/")
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else ""
    return parts[0] if parts[0] in ("solvers", "drivers") and len(parts) > 1 else None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments(text):
    """C++ comments blanked, line numbers and string literals kept."""
    pattern = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.S)
    return pattern.sub(lambda m: m.group(1) or re.sub(r"[^\n]", " ", m.group(0)), text)


def check_floors(path, text):
    """Includes only point to lower floors, and name their floor."""
    here = floor_of(path)
    if here is None:
        return
    if here not in FLOORS:
        yield 1, f"folder '{here}' is not on the list of floors"
        return
    for match in INCLUDE.finditer(text):
        there = match.group(1).split("/")[0]
        if there in GENERATED_HEADERS:
            continue
        if there not in FLOORS or "/" not in match.group(1):
            yield line_of(text, match.start()), f'write "<floor>/<header>", not "{match.group(1)}"'
        elif there != here and FLOORS[there] >= FLOORS[here]:
            yield (line_of(text, match.start()),
                   f"{here} ({FLOORS[here]}) may not include {there} ({FLOORS[there]}): includes only go down")


def check_links(path, text):
    """Libraries only link to lower floors."""
    if os.path.basename(path) != "CMakeLists.txt":
        return
    for match in LINK.finditer(text):
        here = match.group(1)
        for there in re.findall(r"\bfluxformer_(\w+)", match.group(2)):
            if here in FLOORS and there in FLOORS and FLOORS[there] >= FLOORS[here]:
                yield line_of(text, match.start()), f"{here} may not link to {there}: links only go down"


def check_handles(path, text):
    """Only a handle's destructor releases PETSc and HDF5 objects."""
    if re.fullmatch(r"src/(base|io/hdf5)/\w*handles?\.hpp", path):
        return
    code = HANDLE.sub(lambda owner: " " * len(owner.group(0)), without_comments(text))
    for match in DESTROY.finditer(code):
        yield line_of(code, match.start()), f"{match.group(0)} belongs into a handle header"


def check_arrays(path, text):
    """Arrays of PETSc vectors are accessed through scoped objects."""
    if path == "src/base/vector_arrays.hpp":
        return
    code = without_comments(text)
    for match in ARRAY.finditer(code):
        yield line_of(code, match.start()), f"{match.group(0)}: use ReadArray, WriteArray or ZeroedArray of base/vector_arrays.hpp"


def check_mapped_sums(path, text):
    """Eigen adds in an order that depends on where the sums lie: in its own memory (`.eval()`), or by a loop, they have the same bits in every run."""
    code = without_comments(text)
    for match in MAPPED_SUM.finditer(code):
        yield line_of(code, match.start()), "sums in mapped memory depend on its address: .eval() before they are copied there"


def check_handlers(path, text):
    """Missing memory ends the program where it is thrown; a handler would unwind to itself, through destructors that wait for other ranks."""
    if floor_of(path) is None or path in CATCHES_ALL:
        return
    code = without_comments(text)
    for match in HANDLER_OF_ALL.finditer(code):
        yield line_of(code, match.start()), f"{match.group(0)} would catch std::bad_alloc, which ends the program where it is thrown: catch Error, or std::runtime_error and std::logic_error"


def check_hdf5_paths(path, text):
    """Paths of the output file are spelled out only where their variables are defined."""
    if floor_of(path) is None or re.search(r"_(variables|record)\.[ch]pp$|^src/(io/layout|model/model_file)\.[ch]pp$", path):
        return
    code = re.sub(r"^\s*#\s*include[^\n]*", "", without_comments(text), flags=re.M)
    for match in HDF5_PATH.finditer(code):
        yield line_of(code, match.start()), "paths of the output file are spelled in src/io/layout, model_file, <family>_variables and <family>_record only"


def check_pragma(path, text):
    if path.endswith(".hpp") and not re.search(r"^#pragma once$", text, re.M):
        yield 1, "a header begins with #pragma once"


def check_comments(path, text):
    """A comment of the reference stands alone: none begins like half of a sentence."""
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        goes_on = COMMENT.match(before) and COMMENT.match(line)
        if not goes_on and (match := FRAGMENT.search(line)):
            yield number, f"'{match.group(1)} ...' does not stand alone: a sentence, or a noun phrase that names the thing"
        before = line


def check_foreign_words(path, text):
    """No references to anything outside the project, and no promises."""
    for match in FOREIGN.finditer(text):
        yield line_of(text, match.start()), f"'{match.group(0)}' has no place in the project"


def check_cycles(texts):
    """No header includes itself indirectly."""
    graph = {}
    for path, text in texts.items():
        if floor_of(path) is not None and path.endswith(".hpp"):
            graph[path.removeprefix("src/")] = [match.group(1) for match in INCLUDE.finditer(text)]
    for cycle in cycles(graph):
        path = cycle[0] if cycle[0].startswith(("solvers/", "drivers/")) else "src/" + cycle[0]
        yield path, 1, "headers include each other: " + " -> ".join(cycle)


def unit_of(path):
    """A header and the sources that implement it are one unit, named after the header: path without src/ and suffix."""
    return path.removeprefix("src/").rsplit(".", 1)[0]


def check_source_names(texts):
    """A source is named after the header it implements: x.cpp, or x_part.cpp, for x.hpp in the same folder. That of an
    experiment needs no header: the registry declares its entry."""
    headers = {unit_of(path) for path in texts if path.endswith(".hpp")}
    for path in texts:
        if floor_of(path) is None or not path.endswith(".cpp") or os.path.basename(path) == "main.cpp":
            continue
        if ENTRY.search(texts[path]):
            continue
        words = unit_of(path).split("_")
        if not any("_".join(words[:k]) in headers for k in range(1, len(words) + 1)):
            yield path, 1, "implements no header of this folder: name it <header>.cpp or <header>_<part>.cpp"


def check_folder_cycles(texts):
    """No circular dependencies between folders of a floor. Files directly in a floor count individually."""
    headers = {unit_of(path) for path in texts if path.endswith(".hpp")}

    def node(path):
        folder, stem = os.path.split(unit_of(path))
        if folder in FLOORS:  # of the floor itself: the header it belongs to
            words = stem.split("_")
            stems = (f"{folder}/" + "_".join(words[:k]) for k in range(len(words), 0, -1))
            return next((one for one in stems if one in headers), unit_of(path))
        return folder

    graph, where = {}, {}
    for path, text in texts.items():
        if floor_of(path) is None or not path.endswith(CPP):
            continue
        here = node(path)
        for match in INCLUDE.finditer(text):
            there = node(match.group(1))
            if there != here and there.split("/")[0] == here.split("/")[0]:
                graph.setdefault(here, set()).add(there)
                where.setdefault((here, there), (path, line_of(text, match.start())))
    for cycle in cycles(graph):
        path, line = where[cycle[0], cycle[1]]
        if any(one not in headers for one in cycle):  # at least one folder: files of one folder may depend on each other
            yield path, line, "folders need each other: " + " -> ".join(cycle)


def cycles(graph):
    """Cycles of a graph, as lists that end where they begin; one for each node that closes one first."""
    done, trail = set(), []

    def visit(node):
        if node in trail:
            return trail[trail.index(node):] + [node]
        if node in done:
            return None
        trail.append(node)
        found = next((cycle for cycle in map(visit, sorted(graph.get(node, ()))) if cycle), None)
        trail.pop()
        done.add(node)
        return found

    for node in sorted(graph):
        if cycle := visit(node):
            yield cycle


NAMESPACE = re.compile(r"\bnamespace\s+([\w:]*)\s*\{|\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+(?:::\w+)*)(?:<[^;{]*?>)?\s*(?:final\s*)?(?::[^;{]*)?\{|[{}]")


def definitions(text):
    """(qualified name, line) of the classes that a file defines at namespace scope, except in unnamed namespaces."""
    code = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', without_comments(text))
    code = re.sub(r"template\s*<>", "specialisation", code)
    scopes = []  # names of the open braces; None: neither namespace nor class
    for match in NAMESPACE.finditer(code):
        if match.group(0) == "}":
            if scopes:
                scopes.pop()
        elif match.group(0) == "{":
            scopes.append(None)
        elif match.group(2) is None:
            scopes.append(match.group(1) or "")
        else:
            special = re.search(r"specialisation\s*$", code[:match.start()])
            if all(scopes) and not special and not re.search(rf"{match.group(2)}\s*<", match.group(0)):
                yield "::".join([*scopes, match.group(2)]), line_of(code, match.start())
            scopes.append(None)


def check_one_definition(texts):
    """No two classes of the program share a name: the linker would confuse them."""
    seen = {}
    for path in sorted(texts):
        if floor_of(path) is None or not path.endswith(CPP):
            continue
        for name, line in definitions(texts[path]):
            if name in seen and seen[name] != path:
                yield path, line, f"{name} is defined in {seen[name]} too"
            seen.setdefault(name, path)


# Also words of the model, the data, the solvers or a study: as quoted words they do not refer to the experiment.
COMMON_WORDS = {"evolve", "train", "attention", "scaling", "influence"}
# A source of drivers/<family>/ defines the entry of an experiment; the registry lists it.
ENTRY = re.compile(r"^ExperimentEntry (\w+)_experiment\(\) \{", re.M)
LISTED = re.compile(r"\b(\w+)_experiment\(\),")


def check_experiment_names(texts):
    """An experiment is named only in its own places: its folder in drivers, its decks, figures, tests, documents, and
    a line in both files of the registry. It has the name of the function that makes its entry, and its folder is its
    family."""
    listed = LISTED.findall(texts.get("drivers/registry.cpp", ""))
    defined = []
    for path, text in texts.items():
        if not path.startswith("drivers/") or not path.endswith(".cpp"):
            continue
        for match in ENTRY.finditer(text):
            name, family = match.group(1), path.split("/")[1]
            defined.append((name, family))
            if name not in listed:
                yield path, line_of(text, match.start()), f"{name}_experiment() is not in the list of drivers/registry.cpp"
            if not re.search(rf'\.name = "{name}",\s*\.family = "{family}",', text[match.start():]):
                yield path, line_of(text, match.start()), f"the entry is that of the experiment {name} of the family {family}"
    for name in sorted(set(listed) - {name for name, _ in defined}):
        yield "drivers/registry.cpp", 1, f"no source of a family defines {name}_experiment()"
    for name, family in defined:
        quoted = "" if name in COMMON_WORDS else rf'"{name}"|'
        named = re.compile(rf"{quoted}\b{name}_experiment\b|\b(?:declare|describe|make)_{name}\b|/analysis/{name}\b")
        for path, text in texts.items():
            own = (path.startswith((f"drivers/{family}/", "input/", "tests/", "docs/", "src/analysis/", f"postprocess/fluxformer/{family}/"))
                   or path.endswith((".md", ".ini")) or path in ("drivers/registry.cpp", "drivers/registry.hpp", "postprocess/fluxformer/experiments.json"))
            if own:
                continue
            for match in named.finditer(text):
                yield path, line_of(text, match.start()), f"names the experiment {name}: only its own places and the registry do"


def check_named_files(texts, files):
    """Every deck and script that a document or script names exists."""
    for path, text in texts.items():
        if path.endswith((".md", ".sh", ".sbatch", ".ini")):
            for match in NAMED_FILE.finditer(text):
                if match.group(1) not in files:
                    yield path, line_of(text, match.start()), f"{match.group(1)} does not exist"


CPP = (".hpp", ".cpp")
TEXT = CPP + (".py", ".sh", ".sbatch", ".cmake", "CMakeLists.txt", ".md", ".ini", ".yaml", ".json", ".cff", ".txt")
# (rule, files it reads)
RULES = [(check_floors, CPP), (check_links, ("CMakeLists.txt",)), (check_handles, CPP), (check_arrays, CPP), (check_mapped_sums, CPP),
         (check_handlers, CPP), (check_hdf5_paths, CPP), (check_pragma, CPP), (check_comments, CPP), (check_foreign_words, TEXT)]


def violations(root):
    files = project_files(root)
    texts = {}
    for path in files:
        if path.endswith(TEXT) or path.startswith(".ci/"):
            with open(os.path.join(root, path), encoding="utf-8") as stream:
                texts[path] = stream.read()
    found = []
    for path, text in texts.items():
        for rule, endings in RULES:
            if path.endswith(endings):
                found += [(path, line, what) for line, what in rule(path, text)]
    for rule in (check_cycles, check_source_names, check_folder_cycles, check_one_definition, check_experiment_names):
        found += rule(texts)
    found += check_named_files(texts, set(files))
    return sorted(found)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = violations(sys.argv[1])
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    print(f"{len(found)} violation(s) of the architecture")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
