"""Small models with random weights, texts for them, and numpy's account of what such models do: for the tests of `identifiability`."""

import math
import shutil
import tempfile

import h5py
import numpy as np

from comparison import CompareTest
from numpy_model import Model
from program import TrainTest

WIDTH, FFN, HEADS, LAYERS, CELLS, CLASSES = 8, 6, 2, 2, 4, 3
TOKENS, LONGER, COUNT, SAMPLES = 9, 12, 60, 8
WORDS = ["<unk>", ".", ",", "--", "a.", "3", "größe", "…", *(f"word{number}" for number in range(8, 30))]


def texts(tokens=TOKENS, seed=5):
    """A token file's arrays. A line of more tokens has the same real ones; behind them stands a word that stands nowhere else."""
    random = np.random.default_rng(seed)
    lengths = (TOKENS - np.arange(COUNT) % 5).astype("i4")
    ids = np.full((COUNT, tokens), len(WORDS) - 1, "i4")
    # Squares of uniform numbers: low indices are frequent, <unk> most of all.
    ids[:, :TOKENS] = (len(WORDS) - 1) * random.random((COUNT, TOKENS))**2
    ids[np.arange(tokens) >= lengths[:, None]] = len(WORDS) - 1
    return {"ids": ids, "lengths": lengths, "labels": (np.arange(COUNT) % CLASSES).astype("i4"), "words": WORDS}


def features(tokens=TOKENS, inputs=5):
    """The same of tokens that are numbers. Padding, and the first token, in whose place a class token stands, are far from all others."""
    arrays = texts(tokens)
    numbers = np.full((COUNT, tokens, inputs), 100.0)
    numbers[:, :TOKENS] = np.random.default_rng(11).standard_normal((COUNT, TOKENS, inputs)) + np.arange(inputs)
    numbers[np.arange(tokens) >= arrays["lengths"][:, None]] = 100
    numbers[:, 0] = -50
    return {"features": numbers, "lengths": arrays["lengths"], "labels": arrays["labels"]}


def write_token_file(path, arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            if name == "words":
                file.create_dataset(name, data=list(values), dtype=h5py.string_dtype())
            else:
                file.create_dataset(name, data=values)


def write_model(path, seed, *, inputs=0, tokens=LONGER, classes=CLASSES, change=None, class_token=False, kappa=0.0, **attributes):
    """A model file with random weights, large enough that attention is far from uniform. Without inputs its tokens are words.
    `change` may change its arrays, given by their paths below /model."""
    random = np.random.default_rng(seed)

    def normal(*shape):
        return random.standard_normal(shape) / math.sqrt(shape[-1])

    arrays = {"embedding/position": 1.5 * normal(tokens, WIDTH)}
    arrays |= {"embedding/W": normal(WIDTH, inputs), "embedding/b": normal(WIDTH)} if inputs else {"embedding/words": 3 * normal(len(WORDS), WIDTH)}
    if class_token:
        arrays["embedding/class_token"] = 3 * normal(WIDTH)
    for number in range(1, LAYERS + 1):
        place = f"layers/{number}/"
        for letter, scale in (("Q", 1.5), ("K", 1.5), ("V", 1.0), ("O", 1.0)):
            arrays[f"{place}W_{letter}"], arrays[f"{place}b_{letter}"] = scale * normal(WIDTH, WIDTH), normal(WIDTH)
        arrays |= {f"{place}W_1": normal(FFN, WIDTH), f"{place}b_1": normal(FFN), f"{place}W_2": normal(WIDTH, FFN), f"{place}b_2": normal(WIDTH),
                   f"{place}kappa": np.full(1, kappa)}
        for which in ("norm1_", "norm2_"):
            arrays |= {f"{place}{which}gain": 1 + normal(WIDTH), f"{place}{which}bias": normal(WIDTH)}
    attributes = {"kind": "transformer", "layers": LAYERS, "knots": LAYERS, "width": WIDTH, "heads": HEADS, "ffn": FFN, "norm": "pre",
                  "activation": "gelu_tanh", "pooling": "mean", **attributes}
    if attributes["norm"] == "pre":
        arrays |= {"final_norm/gain": 1 + normal(WIDTH), "final_norm/bias": normal(WIDTH)}
    if classes:
        arrays |= {"head/W": normal(classes, WIDTH), "head/b": normal(classes)}
    if change:
        change(arrays)
    with h5py.File(path, "w") as file:
        file.attrs.update(schema_version=1, status="done")
        for name, values in arrays.items():
            file["model/" + name] = values
        file["model"].attrs.update(attributes)


def ranks_of(values):
    """Mid-ranks; numbers that differ by round-off are equal, as those of equal tokens are."""
    near = 1e-10 * abs(values).max()
    return np.array([(values < value - near).sum() + ((abs(values - value) <= near).sum() - 1) / 2 for value in values])


def spearman(x, y):
    """NaN where one of them is constant."""
    x, y = (ranks - ranks.mean() for ranks in (ranks_of(np.asarray(x)), ranks_of(np.asarray(y))))
    return x @ y / math.sqrt((x @ x) * (y @ y)) if (x @ x) * (y @ y) > 0 else math.nan


class Marched(Model):
    """A model that starts from embedded tokens and goes through its depth cells: one for each layer of a Transformer; of a PDE model
    any number of them, each with weights linear between knots at its entry (docs/model.md, sections 1 to 3)."""

    def __init__(self, path, columns=0):
        """`columns`: of the lattice on which tokens diffuse; 0: a line."""
        super().__init__(path)
        self.columns = columns
        self.layers, knots = int(self.attributes["layers"]), int(self.attributes["knots"])
        self.cells = int(self.attributes.get("cells", 0)) or self.layers
        self.heads, self.step = int(self.attributes["heads"]), self.layers / self.cells
        self.causal = self.attributes.get("causal", "off") == "on"
        for cell in range(self.cells):
            at = cell * self.step if self.attributes["kind"] == "transformer" else min(knots - 1, cell * self.step * (knots - 1) / (self.layers - 1))
            lower = int(at)
            for name in [path for path in self.arrays if path.startswith("layers/1/")]:
                low, high = (self.arrays[name.replace("/1/", f"/{min(number, knots)}/")] for number in (lower + 1, lower + 2))
                self.arrays[name.replace("layers/1/", f"cells/{cell}/")] = (1 - (at - lower)) * low + (at - lower) * high

    def diffused(self, u):
        """Sum of the differences to the neighbours, over the lattice of real tokens."""
        change = np.zeros_like(u)
        tokens = u.shape[1]
        columns = self.columns or tokens
        for token in range(tokens):
            y, x = divmod(token, columns)
            for other, there in ((token - 1, x > 0), (token + 1, x + 1 < columns), (token - columns, y > 0), (token + columns, True)):
                if there and 0 <= other < tokens:
                    change[:, token] += u[:, other] - u[:, token]
        return change

    def entry(self, layer):
        """The cell with which a layer, counted from 0, begins."""
        return layer * self.cells // self.layers

    def march(self, u):
        """(states [row, sample, token, channel], attention [cell, sample, head, query, key]) of samples without padding."""
        rows, attention, pre, lengths = [u], [], self.attributes["norm"] == "pre", np.full(len(u), u.shape[1])
        for cell in range(self.cells):
            u, place = rows[-1], f"cells/{cell}/"
            mixed, shares = self.attention(self.norm(u, place + "norm1_") if pre else u, place, lengths, 1 + cell * self.layers // self.cells)
            if self.arrays.get(place + "kappa", np.zeros(1)).any():
                mixed = mixed + self.arrays[place + "kappa"] * self.diffused(u)
            if self.attributes.get("order") != "parallel":
                u = u + self.step * mixed if pre else self.norm(u + mixed, place + "norm1_")
            changed = self.reaction(self.norm(u, place + "norm2_") if pre else u, place)
            if self.attributes.get("order") == "parallel":
                changed = changed + mixed
            rows.append(u + self.step * changed if pre else self.norm(u + changed, place + "norm2_"))
            attention.append(shares)
        return np.array(rows), np.array(attention)

    def run(self, u):
        """(states [row, token, channel], attention [cell, head, query, key], logits or None) of one sample, all tokens real."""
        rows, attention = self.march(u[None])
        logits = self.classes(rows[-1], [len(u)])
        return rows[:, 0], attention[:, 0], None if logits is None else logits[0]

    def parts(self, u, letter, number):
        """[head] of V, Q or K of layer `number`, counted from 1, at the state with which it begins: of queries and keys behind their norms
        and turned by the angles of their tokens; heads of a group have the same keys and values."""
        place = f"cells/{self.entry(number - 1)}/"
        pre = self.attributes["norm"] == "pre"
        groups = self.heads if letter == "Q" else int(self.attributes.get("groups", self.heads))
        found = np.array(np.split(self.linear(self.norm(u, place + "norm1_") if pre else u, place, "_" + letter), groups, axis=1))
        if letter in "QK":
            found = self.rotate(self.head_norm(found, self.arrays.get(f"{place}{letter.lower()}_gain"))[None], number)[0]
        return np.repeat(found, self.heads // groups, axis=0)

    def values(self, u, number):
        """[head] of (V, H) of layer `number`, counted from 1, at the state with which it begins."""
        return list(zip(self.parts(u, "V", number), np.split(self.arrays[f"cells/{self.entry(number - 1)}/W_O"].T, self.heads, axis=0)))

    def blocks(self, u):
        """[row, input token, hidden token, channel, channel']: derivatives of all states of a sample by its embedded tokens. Complex steps,
        one for each number: without the round-off of differences."""
        tokens, width = u.shape
        step = 1e-40
        moved = u + 1j * step * np.eye(tokens * width).reshape(-1, tokens, width)
        rows, _ = self.march(moved)
        return rows.imag.reshape(len(rows), tokens, width, tokens, width).swapaxes(2, 3) / step


class WrittenModels(CompareTest):
    """Each test has in models/ what `make` writes there once for the class."""

    @classmethod
    def setUpClass(cls):
        maker = TrainTest()
        maker.folder = cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        try:
            cls.make(maker)
        except Exception:
            shutil.rmtree(cls.shared, ignore_errors=True)
            raise

    @classmethod
    def make(cls, maker):
        """Writes files into the folder of `maker`: the same samples with shorter and longer lines of tokens, and models."""
        for name, tokens in (("", TOKENS), ("longer_", LONGER)):
            write_token_file(maker.path(f"{name}text.h5"), texts(tokens))
            write_token_file(maker.path(f"{name}features.h5"), features(tokens))

    def drawn_of(self, arrays, name="ids"):
        """The real tokens of the compared samples of the last run."""
        return [arrays[name][number][:arrays["lengths"][number]] for number in self.drawn]

    def identifiability(self, *arguments, file="text.h5", count=SAMPLES, ranks=1, output="out.h5", **models):
        """The arrays of a run of these models, given by the names of their files in models/."""
        names = tuple(f"--models.{name}=models/{path}" for name, path in models.items())
        source = (f"--data.file=models/{file}", "--data.set=tokens") if isinstance(file, str) else file
        found = self.compare("identifiability", *arguments, models=(*names, *source, f"--samples.count={count}", "--samples.batch=3"), ranks=ranks,
                             output=output)
        with h5py.File(self.path(output), "r") as results:
            self.drawn = results["sample"][...]
        return found

    def assert_numbers(self, found, expected, rtol=0.0, atol=0.0):
        """Compares the numbers of the only seed."""
        for name, values in expected.items():
            np.testing.assert_allclose(found[name][0], values, rtol=rtol, atol=atol, err_msg=name)
