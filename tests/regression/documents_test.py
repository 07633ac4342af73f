#!/usr/bin/python3
"""The documents name only keys, files, links and tests that exist, and their tables are whole."""

import glob
import os
import re
import subprocess
import sys
import unittest

from described import description
from program import ROOT

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md",
             *sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def anchors(name):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", read(name), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(page):
    """A page without blocks that docs/numbers.py fills, code, addresses and names that have digits."""
    page = re.sub(r"<!-- (?:claims: [^>]*|reached|benchmarks) -->.*?<!-- end -->", "", page, flags=re.DOTALL)
    page = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", re.sub(r"^    .*$", "", page, flags=re.MULTILINE))
    return re.sub(r"arXiv \[?\d{4}\.\d{5}|\[arXiv \d{4}\.\d{5}|20 Newsgroups|(?:November|December) 2026", "", page)


class DocumentsTest(unittest.TestCase):
    def test_keys_are_those_of_help(self):
        keys = set()
        for experiment in description()["experiments"]:
            keys |= {key["name"] for key in experiment["keys"]}
        keys |= {"hessian.study", "paths.study"}  # of the former names
        self.assertLessEqual({"mesh.layers", "evolve.time", "train.rate"}, keys)
        sections = {key.split(".")[0] for key in keys}
        for name in DOCUMENTS:
            # As on a command line or quoted, alone or with a value: `mesh.layers`, `mesh.layers = 12`, --mesh.layers=12
            for key in re.findall(r"(?:--|`)([a-z_]+\.[a-z_0-9]+)(?= ?=|`)", read(name)):
                section, leaf = key.split(".")
                if section in sections and leaf not in ("sh", "sbatch", "xdmf", "ini", "h5", "safetensors"):
                    self.assertIn(key, keys, name)

    def test_links_and_paths_exist(self):
        for name in DOCUMENTS:
            folder = os.path.dirname(os.path.join(ROOT, name))
            for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", read(name)):
                if "." in link and not link.startswith("http"):  # others are formulas, A[u](x)
                    self.assertTrue(os.path.exists(os.path.join(folder, link)), f"{name}: {link}")
                if anchor and (not link or link.endswith(".md")):
                    page = os.path.normpath(os.path.join(os.path.dirname(name), link)) if link else name
                    self.assertIn(anchor, anchors(page), f"{name}: {link}")
            for path in re.findall(r"`((?:docs|input|src|tests|jobscripts|postprocess|drivers|solvers)/[\w./-]*)`", read(name)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), f"{name}: {path}")

    def test_rows_of_tables_have_a_cell_for_each_heading(self):
        for name in DOCUMENTS:
            for table in re.findall(r"(?:^\|.*\n)+", read(name) + "\n", re.MULTILINE):
                heading, *rows = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
                self.assertTrue(rows, f"{name}: a table of one line: {table}")
                for row, line in zip(rows, table.splitlines()[1:]):
                    self.assertEqual(row, heading, f"{name}: {line}")

    def test_tests_exist(self):
        named = set()
        for name in DOCUMENTS:
            named |= set(re.findall(r"`((?:mpi|unit|convergence|regression)\.[a-z_0-9]+)`", read(name)))
        self.assertTrue(named)
        for test in named:
            kind, claim = test.split(".")
            places = {"unit": f"tests/unit/{claim}", "regression": f"tests/regression/{claim}_test.py"}
            place = places.get(kind, f"tests/{kind}/{claim}.cpp")
            self.assertTrue(os.path.exists(os.path.join(ROOT, place)), test)

    def test_classes_and_functions_of_the_tour_are_in_headers(self):
        declared = ""
        for folder in ("src", "solvers", "drivers"):
            for path in glob.glob(os.path.join(ROOT, folder, "**", "*.hpp"), recursive=True):
                declared += re.sub(r"//.*", "", read(path))
        named = set(re.findall(r"`([A-Z]\w*[a-z]\w*|[a-z]+_\w+)`", read(os.path.join("docs", "tour.md"))))
        self.assertLessEqual({"EvolveProblem", "Term", "add_rhs"}, named)
        for name in named:
            pattern = rf"\b(?:enum )?(?:class|struct) {name}\b" if name[0].isupper() else rf"\b{name}\("
            self.assertTrue(re.search(pattern, declared), f"{name} is in no header")

    def test_numbers_of_results_come_from_result_files(self):
        end = subprocess.run([sys.executable, os.path.join(ROOT, "docs", "numbers.py"), "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((end.returncode, end.stdout, end.stderr), (0, "", ""))
        pages = [name for name in DOCUMENTS if os.path.dirname(name) == os.path.join("docs", "results")]
        self.assertTrue(pages)
        for name in (*pages, os.path.join("docs", "results.md"), os.path.join("docs", "performance.md")):
            self.assertEqual(re.findall(r".*\d.*", prose(read(name))), [], f"{name}: numbers that no file gives")

    def test_errors_of_the_front_page_are_below_bounds_that_their_tests_assert(self):
        rows = re.findall(r"^\| [^|]* \| (\S+) \| (\S+) \| `mpi\.(\w+)` \|$", read("README.md"), re.MULTILINE)
        self.assertEqual(len(rows), 4)
        for error, bound, name in rows:
            self.assertLess(float(error), float(bound), name)
            self.assertIn(bound, read(os.path.join("tests", "mpi", name + ".cpp")), name)

    def test_pages_of_the_guide_have_the_same_parts(self):
        for family in ("evolve", "train", "compare", "clusters", "depth", "hessian", "identifiability", "paths"):
            page = read(os.path.join("docs", "guide", family + ".md"))
            headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
            self.assertEqual(headings[:4] + headings[-2:], ["What you get", "One command", "Keys", "How to read it", "Limits", "Cost"], family)
            for part in (r"!\[[^\]]{20,}\]\(\.\./figures/", r"<!-- keys: [^>]+ -->\n\| key \|"):
                self.assertRegex(page, part, family)


if __name__ == "__main__":
    unittest.main()
