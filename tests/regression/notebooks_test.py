#!/usr/bin/env python3
"""The notebooks of docs/notebooks, executed as in Jupyter with smaller settings: no cell fails, and what they show is what the files hold.

They are stored without outputs."""

import base64
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

try:
    import ipykernel  # noqa: F401
    import nbformat
    import xarray  # noqa: F401
    from nbclient import NotebookClient
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

import numpy as np  # noqa: E402
from program import BINARY, ROOT, TIMEOUT, ProgramTest  # noqa: E402
from published_case import Case, save  # noqa: E402
from python_package import ENVIRONMENT  # noqa: E402

NOTEBOOKS = os.path.join(ROOT, "docs", "notebooks")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "the", "front", "moves", "through", "layers", *(f"w{number}" for number in range(11, 29))]
TOKENISER = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": number, "content": WORDS[number], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                     for number in range(5)],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                                                {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                       "pair": [], "special_tokens": {word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]} for word in ("[CLS]", "[SEP]")}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
              "vocab": {word: number for number, word in enumerate(WORDS)}},
}


class NotebookTest(ProgramTest):
    """A copy of the notebooks beside links to what they use, so that they write into the folder of the test."""

    def setUp(self):
        super().setUp()
        for name in ("input", "postprocess"):
            os.symlink(os.path.join(ROOT, name), self.path(name))
        shutil.copytree(NOTEBOOKS, self.path("docs/notebooks"))

    def executed(self, name, parameters):
        """The notebook after a run, with these lines behind the cell tagged "parameters"."""
        path = self.path(f"docs/notebooks/{name}.ipynb")
        notebook = nbformat.read(path, 4)
        cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
        self.assertEqual(len(cells), 1)
        cells[0].source += "\n" + parameters
        environment = {**{key: value for key, value in ENVIRONMENT.items() if key != "PYTHONPATH"}, "FLUXFORMER_BIN": BINARY,
                       "IPYTHONDIR": self.path("ipython"), "JUPYTER_RUNTIME_DIR": self.path("jupyter"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": os.path.dirname(path)}}).execute(env=environment)
        return notebook

    def printed(self, notebook):
        return "".join(one["text"] for cell in notebook.cells for one in cell.get("outputs", []) if one["output_type"] == "stream" and one["name"] == "stdout")

    def assert_figures(self, notebook, number):
        """As many pictures, none of which is empty."""
        pictures = [one["data"]["image/png"] for cell in notebook.cells for one in cell.get("outputs", []) if "image/png" in one.get("data", {})]
        self.assertEqual(len(pictures), number)
        for picture in pictures:
            self.assertTrue(base64.b64decode(picture).startswith(b"\x89PNG"))
            self.assertGreater(len(picture), 5000)


class Notebooks(NotebookTest):
    def test_are_stored_without_outputs(self):
        paths = glob.glob(os.path.join(NOTEBOOKS, "*.ipynb"))
        self.assertEqual(len(paths), 3)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                for cell in json.load(file)["cells"]:
                    self.assertEqual((cell.get("outputs", []), cell.get("execution_count")), ([], None), path)

    def test_begin_with_the_same_cell_which_finds_their_source_or_says_where_to_write_it(self):
        notebooks = [nbformat.read(path, 4) for path in glob.glob(os.path.join(NOTEBOOKS, "*.ipynb"))]
        firsts = {next(cell.source for cell in notebook.cells if cell.cell_type == "code") for notebook in notebooks}
        self.assertEqual(len(firsts), 1)
        first = f"{firsts.pop()}\nprint(root, fluxformer.__file__)"
        environment = {**{key: value for key, value in ENVIRONMENT.items() if key != "PYTHONPATH"}, "FLUXFORMER_BIN": BINARY}

        def said(folder, source):
            return subprocess.run([sys.executable, "-P", "-c", source], cwd=folder, env=environment, capture_output=True, text=True, check=False)

        found = f"{os.path.realpath(self.folder)} {os.path.realpath(self.folder)}/postprocess/fluxformer/__init__.py\n"
        for folder in (self.folder, self.path("docs/notebooks")):
            self.assertEqual(said(folder, first).stdout, found)
        with tempfile.TemporaryDirectory() as elsewhere:
            refused = said(elsewhere, first).stderr.splitlines()[-1]
            self.assertIn(f"this notebook runs in {os.path.realpath(elsewhere)}: write root = Path('its folder') in this cell", refused)
            self.assertEqual(said(elsewhere, first.replace("root = Path.cwd()", f"root = Path({os.path.realpath(self.folder)!r})")).stdout, found)

    def test_the_front(self):
        notebook = self.executed("front", 'settings = {"mesh.layers": 3, "evolve.time": 6}')
        self.assert_figures(notebook, 4)
        self.assertIn("2 evolve.clf: unknown key", self.printed(notebook))
        # As the text says: euler at Courant number 1 arrives at layer k at t = k, ssp later.
        np.testing.assert_allclose(self.open("out/notebooks/front/euler.h5")["analysis/evolve/arrival_time"], [1, 2, 3], atol=1e-12)  # sums of steps of 1
        self.assertTrue((self.open("out/notebooks/front/evolve.h5")["analysis/evolve/arrival_time"][...] > [1, 2, 3]).all())
        self.assertEqual(len(glob.glob(self.path("out/notebooks/front/sweep-mesh.layers=3-evolve.time=6/*.h5"))), 6)  # of other settings another folder
        self.assertIn(self.path("out/notebooks/front/evolve.html"), self.printed(notebook))
        self.assertTrue(os.path.exists(self.path("out/notebooks/front/evolve.html")))

    def test_the_transformer_and_its_twin(self):
        notebook = self.executed("twin", 'training = {"train.samples": 400, "train.test_samples": 100, "train.epochs": 2}; samples = 20')
        self.assert_figures(notebook, 3)
        for name, file in (("Transformer", "Transformer"), ("PDE model", "PDE")):
            training = self.open(f"out/notebooks/twin/{file}.h5")["training"]
            self.assertIn(f"{name}: {training.attrs['trained_parameters']} parameters, {100 * training['test_accuracy'][-1]:.1f} % of the test images",
                          self.printed(notebook))
        logits = self.open("out/notebooks/twin/solved.h5")["prediction/class_logits"][...]
        self.assertIn(f"in the eight images: {logits.argmax(1)}", self.printed(notebook))

    def test_the_published_bert(self):
        os.makedirs(self.path("hub"))
        save(self.path("hub"), *Case("bert").published("BertForMaskedLM"))
        self.write("hub/tokenizer.json", json.dumps(TOKENISER))
        notebook = self.executed("bert", f'folder = {self.path("hub")!r}; sentences = ["The front moves [MASK] layers .", "[MASK] front ."]')
        self.assert_figures(notebook, 3)
        with self.open("out/notebooks/bert/evolve.h5") as file:
            logits = file["prediction/word_logits"][4, 0]
            self.assertEqual(file["attention/weights"].shape[:3], (2, 2, 3))
        p = np.exp(logits - logits.max())
        best = np.argsort(-p)[:5]
        told = ", ".join(f"{WORDS[k]} {100 * p[k] / p.sum():.0f} %" for k in best)
        self.assertIn(f"The front moves [MASK] layers . -> {told}", self.printed(notebook))
        self.assertIn("[MASK] front . -> ", self.printed(notebook))


if __name__ == "__main__":
    unittest.main()
