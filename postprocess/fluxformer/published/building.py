"""What the architectures share: how tensors of a checkpoint become the arrays of a model file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.published.rotary import Rotary
from fluxformer.tensors import Tensor, Unfit

import numpy as np

MOST_PADDING = 1024  # rows of a word table behind its last word; tables are padded to multiples of 8, 64 or 128, also for 8 devices

# The linear maps of a layer that have a bias, by the attribute biases.
BIASED = {"all": "QKVO12G", "qkv": "QKV", "attention": "QKVO", "reaction": "12G", "none": ""}
NO_WEIGHTS = ("rotary/theta", "rotary/table", "window")


@dataclass(frozen=True)
class MaskedWords:
    """Names of a head that guesses masked words.

    Attributes
    ----------
    dense, norm, matrix : str
        Its linear map, its LayerNorm and the tensor that is the matrix of the words.
    biases : tuple of str
        Names of one bias, of which one or both are there.
    """
    dense: str
    norm: str
    matrix: str
    biases: tuple[str, ...]


@dataclass(frozen=True)
class NextWords:
    """Names of a head that guesses the next word.

    Attributes
    ----------
    matrix, bias : str
        The tensors; no bias: "".
    tied : bool
        The matrix is the word table, if config.json does not say it.
    """
    matrix: str
    bias: str = ""
    tied: bool = False


@dataclass
class Model:
    """A model file that grows.

    Attributes
    ----------
    attributes : dict
        Attributes of /model.
    arrays : dict
        Arrays by their path below /model.
    notes : list of str
        Notes on what is left out, and why.
    channels : int
        Channels of the images; 0 for models of words.
    """
    attributes: dict[str, str | int | float]
    arrays: dict[str, Tensor | np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    channels: int = 0

    @property
    def width(self) -> int:
        """Number of channels."""
        return int(self.attributes["width"])

    @property
    def head_width(self) -> int:
        """Channels of a head."""
        return int(self.attributes.get("head_width", self.width // int(self.attributes["heads"])))

    @property
    def queries(self) -> int:
        """Channels of the queries of all heads."""
        return int(self.attributes["heads"]) * self.head_width

    @property
    def keys(self) -> int:
        """Channels of the keys, or of the values, of all groups."""
        return int(self.attributes.get("groups", self.attributes["heads"])) * self.head_width

    @property
    def weights(self) -> int:
        """Number of weights: all numbers but frequencies and windows."""
        return sum(array.size for name, array in self.arrays.items() if name not in NO_WEIGHTS)

    @property
    def guesses_words(self) -> bool:
        """True if there is a head of words."""
        return "word_head" in self.attributes or any(name.startswith("word_head/") for name in self.arrays)

    @property
    def words(self) -> int:
        """Number of word vectors; 0 for models of images."""
        return self.arrays["embedding/words"].shape[0] if "embedding/words" in self.arrays else 0

    def shape(self, letter: str) -> tuple[int, int]:
        """Rows and columns of a linear map of a layer: Q, K, V, O, 1, 2, and G of a gated network."""
        width, ffn = self.width, int(self.attributes["ffn"])
        return {"Q": (self.queries, width), "K": (self.keys, width), "V": (self.keys, width), "O": (width, self.queries), "2": (width, ffn)}.get(
            letter, (ffn, width))

    def biased(self, which: str) -> None:
        """Says which linear maps of a layer have biases, a key of BIASED."""
        if which != "all":
            self.attributes["biases"] = which

    def has_bias(self, letter: str) -> bool:
        """True if this linear map of a layer has a bias."""
        return letter in BIASED[str(self.attributes.get("biases", "all"))]

    def linear(self, tensors: Checkpoint, name: str, weight: str, bias: str, rows: int, columns: int) -> None:
        """Adds an nn.Linear `name` as the arrays `weight` (rows x columns) and `bias`; without one if `bias` is ""."""
        self.arrays[weight] = tensors.take(f"{name}.weight", rows, columns)
        if bias:
            self.arrays[bias] = tensors.take(f"{name}.bias", rows)

    def norm(self, tensors: Checkpoint, name: str, place: str) -> None:
        """Adds a norm `name` as the arrays `place`gain and, for an nn.LayerNorm with one, `place`bias."""
        self.arrays[f"{place}gain"] = tensors.take(f"{name}.weight", self.width)
        if self.attributes.get("norm_map") != "rms" and self.attributes.get("biases") != "none":
            self.arrays[f"{place}bias"] = tensors.take(f"{name}.bias", self.width)

    def rotate(self, rotary: Rotary) -> None:
        """Adds rotary positions."""
        if not rotary.fixed:
            self.attributes["beyond_longest"] = "refused"  # longer lines have other frequencies
        self.attributes["rotary_layout"] = rotary.layout
        if rotary.scale != 1:
            self.attributes["rotary_scale"] = rotary.scale
        self.arrays["rotary/theta"], self.arrays["rotary/table"] = rotary.theta, rotary.table

    def windows(self, windows: Sequence[int]) -> None:
        """Adds the window of each layer, unless there is none (0) in all."""
        if any(windows):
            self.arrays["window"] = np.array(windows, np.int64)

    def positions(self, tensors: Checkpoint, name: str, rows: int, first: int = 0) -> None:
        """Adds the learned positions `name`, a table of so many rows, of which token 0 has row `first`."""
        table = tensors.take(name, rows, self.width)
        self.arrays["embedding/position"] = table.rows(first, rows) if first else table
        self.attributes["tokens"] = rows - first

    def encoder_layer(self, tensors: Checkpoint, number: int, place: str, linears: Mapping[str, str], norms: Mapping[str, str]) -> None:
        """Adds layer `number`, counted from 1, whose names begin with `place`, from its linear maps (Q, K, V,
        O, 1, 2, G) and norms."""
        here = f"layers/{number}/"
        for letter, name in linears.items():
            self.linear(tensors, place + name, f"{here}W_{letter}", f"{here}b_{letter}" if self.has_bias(letter) else "", *self.shape(letter))
        for ours, name in norms.items():
            self.norm(tensors, place + name, f"layers/{number}/{ours}_")

    def classifier(self, config: Config, tensors: Checkpoint, name: str, pooling: str) -> None:
        """Adds the class head `name`, which acts on the tokens that `pooling` says."""
        classes = class_count(config, tensors, name)
        self.arrays["head/W"] = tensors.take(f"{name}.weight", classes, self.width)
        if f"{name}.bias" in tensors:
            self.arrays["head/b"] = tensors.take(f"{name}.bias", classes)
        if classes == 1:
            self.notes.append(f"{name} has one output: a score, no class")
        self.attributes.update(classes=classes, pooling=pooling)

    def dense_classifier(self, config: Config, tensors: Checkpoint, dense: str, activation: str, name: str) -> None:
        """Adds the class head `name` on token 0, behind the linear map `dense` and an activation."""
        self.linear(tensors, dense, "head/transform_W", "head/transform_b", self.width, self.width)
        self.attributes["head_activation"] = activation
        self.classifier(config, tensors, name, "first")

    def masked_words(self, config: Config, tensors: Checkpoint, names: MaskedWords, activation: str) -> None:
        """Adds the head that guesses masked words: a linear map, an activation, a LayerNorm, the matrix of the words and a bias."""
        self.linear(tensors, names.dense, "word_head/transform_W", "word_head/transform_b", self.width, self.width)
        self.attributes["word_head_activation"] = activation
        self.norm(tensors, names.norm, "word_head/norm_")
        self.word_matrix(config, tensors, names.matrix)
        there = [name for name in names.biases if name in tensors] or list(names.biases[:1])
        biases = [tensors.take(name, self.words) for name in there]
        if not biases[0].equals(biases[-1]):
            raise Unfit(f"{tensors.path}: {' and '.join(there)} differ, but stand for one bias")
        self.arrays["word_head/b"] = biases[0]

    def decoder_heads(self, config: Config, tensors: Checkpoint, kind: str, family: str, words: NextWords) -> None:
        """Adds the heads of a decoder of this family and class: `score` on the last real token, and the one that guesses the next word."""
        classifies = kind == f"{family}ForSequenceClassification"
        if tensors.any("score.") or classifies:
            self.classifier(config, tensors, "score", "last")
        if words.matrix in tensors or not (classifies or kind == f"{family}Model"):
            self.word_matrix(config, tensors, words.matrix, tied=words.tied)
            if words.bias:
                self.arrays["word_head/b"] = tensors.take(words.bias, self.words)
            self.say_word_head()

    def say_word_head(self) -> None:
        """Says that there is a word head where neither a matrix nor a bias of its own does."""
        if "word_head/W" not in self.arrays and "word_head/b" not in self.arrays:
            self.attributes["word_head"] = "on"

    def zero_biases(self) -> None:
        """Adds biases of 0 to heads without, as model files of GPT-2 and OPT have had from the beginning: a training changes them."""
        if "head/W" in self.arrays:
            self.arrays.setdefault("head/b", np.zeros(int(self.attributes["classes"])))
        if self.guesses_words:
            self.attributes.pop("word_head", None)
            self.arrays.setdefault("word_head/b", np.zeros(self.words))

    def word_matrix(self, config: Config, tensors: Checkpoint, name: str, *, tied: bool = True) -> None:
        """Adds the output matrix `name` of the word head, unless it is the matrix of the embedding. `tied`: it is, if config.json does not say it."""
        words = self.arrays["embedding/words"]
        assert isinstance(words, Tensor)
        tied = config.flag("tie_word_embeddings", tied)
        if name not in tensors and tied:
            return
        matrix = tensors.take(name, *words.shape)
        if not tied:
            self.arrays["word_head/W"] = matrix
        elif not matrix.equals(words):
            raise Unfit(f"{matrix.name} differs from the word embeddings, but {config.path} does not say that they do: if so, add "
                        '"tie_word_embeddings": false')

    def vocabulary(self, config: Config, tensors: Checkpoint, name: str) -> None:
        """Adds the word embeddings `name`. A table that is padded to a multiple of 8 is longer than config.json says, which is noted."""
        said, rows = config.whole("vocab_size"), tensors.shape(name)[0] if tensors.shape(name) else 0
        padded = rows % 8 == 0 and said < rows < said + MOST_PADDING
        if padded:
            self.notes.append(f"{name} has {rows} rows, {config.path} says vocab_size = {said}: a table padded to a multiple of 8; the model "
                              f"file has all {rows}")
        self.arrays["embedding/words"] = tensors.take(name, rows if padded else said, self.width)

    def leave_out(self, names: list[str], why: str) -> None:
        """Adds a note on tensors that no model file has."""
        if names:
            self.notes.append(f"left out: {', '.join(names)} ({why})")


def class_count(config: Config, tensors: Checkpoint, name: str) -> int:
    """The number of classes of the head `name`: what config.json says, or else the rows of its matrix."""
    shape = tensors.shape(f"{name}.weight")
    return config.classes() or (shape[0] if shape else 0)


def transformer(config: Config, *, layers: str, width: str, heads: str, ffn: int, activation: str, norm: str, eps: float,
                head_width: int | None = None) -> Model:
    """Begins a Transformer of the sizes that the entries of these names give. `head_width`: channels of a head; None: width / heads."""
    count, channels = config.whole(heads), config.whole(width)
    if head_width is None and channels % count:
        raise config.refuse(heads, f"does not divide {width} = {channels}")
    depth = config.whole(layers)
    model = Model({"kind": "transformer", "layers": depth, "knots": depth, "width": channels, "heads": count, "ffn": ffn,
                   "activation": activation, "norm": norm, "norm_eps": eps, "order": "sequential", "residual": "on", "causal": "off",
                   "kernel": "dot", "inputs": 0, "tokens": 0, "classes": 0})
    if head_width is not None and count * head_width != channels:
        model.attributes["head_width"] = head_width
    return model


@dataclass(frozen=True)
class Architecture:
    """A kind of published model.

    Attributes
    ----------
    prefix, ignored : str
        Name of the trunk, and pattern of names, as `Checkpoint` takes them.
    classes : tuple of str
        Names of the models that fit into a model file, as in the entry architectures of config.json.
    build : callable
        Function that builds the model from config and checkpoint.
    renamed : tuple of (str, str)
        Patterns of newer names, and what replaces them.
    """
    prefix: str
    ignored: str
    classes: tuple[str, ...]
    build: Callable[[Config, Checkpoint, str], Model]
    renamed: tuple[tuple[str, str], ...] = ()

