"""Seeds of the inputs that the program and the Python package read, made by script, and the commands that read them."""

import gzip
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "regression"), os.path.join(TESTS, "support")]

import h5py  # noqa: E402 (the folders are put on the path first)
import numpy as np  # noqa: E402

import program  # noqa: E402
from comparison_sample import write_attention  # noqa: E402
from described import description  # noqa: E402
from made_up_archives import DRAWINGS, IMAGES, LABELS, LAST, TAR, ZIP, images, png, posts, tar_gz, zip_of  # noqa: E402
from made_up_images import idx  # noqa: E402
from mutations import bytes_mutated, deck_mutated, hdf5_mutated, methods_chosen, packed_mutated  # noqa: E402
from python_package import COMMAND, ENVIRONMENT  # noqa: E402
from scaling_sample import write_scaling  # noqa: E402

SMALL = ("--mesh.layers=2", "--model.width=8", "--model.ffn=8", "--attention.heads=2")
TEXTS = ("--data.set=topics", "--data.length=16", "--data.vocabulary=500")
SECRET = np.full(4096, 1234.56789)  # numbers of another file, which no output may hold
RUN = ("--quiet", "--output.file=run.h5", "--run.time_limit=20")
LONGER = ("evolve", "small.ini", "--checkpoint.every=1", "--evolve.time=8", *RUN)
TRAINING = ("train", "train.ini", "--train.epochs=3", *RUN)
AUTO = "--checkpoint.restart=auto"


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Attributes
    ----------
    name, file : str
        What is mutated, and its path below the folder of the run.
    mutate : function
        (dice, path) -> words; changes the file in place.
    arguments : tuple
        Of the program; of the Python package if the first is one of its commands.
    output : str
        The file that a run leaves which ends well; empty if it writes nothing.
    reference : str
        Whose results those of a run that ends well have to be, bit for bit; empty if none.
    """

    name: str
    file: str
    mutate: Callable
    arguments: tuple
    output: str = ""
    reference: str = ""

    @property
    def of_package(self):
        return self.arguments[0] in ("plot", "report", "predict", "import")

    @property
    def allowed(self):
        """Exit codes."""
        if self.of_package:
            return (0, 1, 2)
        return (0, 1, 2, 3, 4) if self.output else (0, 1, 2)

    def command(self, ranks, trusting=False):
        """`trusting`: HDF5 files are read at once, not on trial."""
        if self.of_package:
            return [*COMMAND, *self.arguments]
        return program.command([*self.arguments, *(["--run.trust_files=true"] if trusting else [])], ranks)

    @property
    def environment(self):
        return ENVIRONMENT if self.of_package else program.ENVIRONMENT


def keys(experiment):
    """As `fluxformer --describe=json` has them."""
    return [key for one in description()["experiments"] if one["name"] == experiment for key in one["keys"]]


def of_bytes(change):
    """A mutation of files from one of bytes."""
    def mutate(dice, path):
        with open(path, "rb") as stream:
            content, words = change(dice, stream.read())
        with open(path, "wb") as stream:
            stream.write(content)
        return words
    return mutate


def drawing_mutated(dice, path):
    """A damaged picture in a sound archive."""
    content, words = bytes_mutated(dice, png())
    with open(path, "wb") as stream:
        stream.write(zip_of({**DRAWINGS, LAST: content}))
    return words


def targets():
    """Every kind of input, in the order in which they take turns."""
    hdf5 = {name: lambda dice, path, of=name: hdf5_mutated(dice, path, keys(of)) for name in ("evolve", "train")}
    deck = {name: of_bytes(lambda dice, content, of=name: deck_mutated(dice, content, keys(of))) for name in ("evolve", "train")}
    plain, packed = of_bytes(bytes_mutated), of_bytes(packed_mutated)

    def data(name, folder, *more):
        return ("evolve", f"--data.set={name}", f"--data.directory={folder}", *SMALL, *more, "--validate")

    return [
        Target("a deck of evolve", "small.ini", deck["evolve"], ("evolve", "small.ini", "--validate")),
        Target("a model file", "good.h5", hdf5["evolve"], ("evolve", "small.ini", "--model.file=good.h5", "--validate")),
        Target("an output as deck", "good.h5", hdf5["evolve"], ("evolve", "good.h5", "--validate")),
        Target("a checkpoint of evolve", "run.checkpoint.h5", hdf5["evolve"], (*LONGER, AUTO), "run.h5", "longer.h5"),
        Target("images", f"images/{IMAGES}", plain, data("mnist", "images")),
        Target("a zip", f"drawings/{ZIP}", plain, data("omniglot", "drawings")),
        Target("a model that runs", "good.h5", hdf5["evolve"], ("evolve", "small.ini", "--model.file=good.h5", *RUN), "run.h5"),
        Target("a deck of train", "train.ini", deck["train"], ("train", "train.ini", "--validate")),
        Target("a checkpoint of train", "run.checkpoint.h5", hdf5["train"], (*TRAINING, AUTO), "run.h5", "trained.h5"),
        Target("posts", f"posts/{TAR}", packed, data("20news", "posts", "--data.length=8")),
        Target("a trained model", "trained.h5", hdf5["train"], ("evolve", "--model.file=trained.h5", "--data.tokens=rows", "--data.split=test", "--validate")),
        Target("a drawing", f"drawings/{ZIP}", drawing_mutated, data("omniglot", "drawings")),
        Target("packed labels", f"packed/{LABELS}.gz", packed, data("mnist", "packed")),
        Target("a model of texts", "texts.h5", hdf5["train"], ("evolve", "--model.file=texts.h5", *TEXTS, "--validate")),
        Target("a checkpoint by name", "old.h5", hdf5["evolve"], (*LONGER, "--checkpoint.restart=old.h5"), "run.h5", "longer.h5"),
        Target("a post", "tree/20news-bydate-train/sci.med/7", plain, data("20news", "tree", "--data.length=8")),
        Target("a training as deck", "trained.h5", hdf5["train"], ("train", "trained.h5", "--validate")),
        Target("an output to plot", "good.h5", hdf5["evolve"], ("plot", "good.h5", "--output", "run.figures")),
        Target("a state dict", "state.h5", hdf5["evolve"], ("import", "state.h5", "run.h5", "--heads", "2", "--norm", "pre", "--activation", "relu"), "run.h5"),
        Target("a training to plot", "trained.h5", hdf5["train"], ("plot", "trained.h5", "--output", "run.figures")),
        Target("a packed state dict", "state.npz", plain, ("import", "state.npz", "run.h5", "--heads", "2", "--norm", "pre", "--activation", "relu"), "run.h5"),
        Target("a comparison to report", "compared.h5", hdf5["evolve"], ("report", "compared.h5", "--output", "run.report")),
        Target("methods of PETSc in a deck", "small.ini", of_bytes(methods_chosen), ("evolve", "small.ini", *RUN), "run.h5"),
        Target("a token file", "tokens.h5", hdf5["evolve"], ("evolve", "--data.set=tokens", "--data.file=tokens.h5", *SMALL, "--validate")),
        Target("times to predict from", "scaled.h5", hdf5["evolve"], ("predict", "scaled.h5", "two.h5", "--output", "run.figures")),
    ]


class Seeds:
    """A folder with sound inputs of every kind."""

    def __init__(self, folder):
        self.folder = folder
        self._write("small.ini", program.DECK)
        self._write("train.ini", program.TRAIN_DECK)
        self._data()
        self._token_files()
        self._runs()
        self._of_package()
        with h5py.File(self._path("secret.h5"), "w") as file:
            file["numbers"] = SECRET
        self._write("secret.bin", SECRET.tobytes())

    def copy(self, target, folder):
        """What a run of this target reads, in a new folder."""
        os.makedirs(os.path.join(folder, "tmp"))
        words = {word.partition("=")[2] or word for word in target.arguments}
        for name in sorted(words | {target.file.split("/")[0], "secret.h5", "secret.bin"}):
            if os.path.isdir(self._path(name)):
                shutil.copytree(self._path(name), os.path.join(folder, name))
            elif os.path.isfile(self._path(name)):
                shutil.copy(self._path(name), folder)
        if AUTO in target.arguments:
            for generation in ("checkpoint", "checkpoint.previous"):
                shutil.copy(self._path(f"{target.arguments[0]}.{generation}.h5"), os.path.join(folder, f"run.{generation}.h5"))

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _write(self, name, content):
        os.makedirs(os.path.dirname(self._path(name)), exist_ok=True)
        with open(self._path(name), "wb" if isinstance(content, bytes) else "w") as stream:
            stream.write(content)

    def _data(self):
        for name, content in ((IMAGES, images()), (LABELS, idx(b"\0\1\2", 3))):
            self._write(f"images/{name}", content)
            self._write(f"packed/{name}.gz", gzip.compress(content))
        self._write(f"drawings/{ZIP}", zip_of(DRAWINGS))
        self._write(f"posts/{TAR}", tar_gz(posts()))
        for name, content in posts().items():
            self._write(f"tree/{name}", content)

    def _token_files(self):
        ids = np.arange(12).reshape(3, 4) % 5
        arrays = {"ids": ids, "lengths": np.array([4, 1, 2]), "labels": np.array([0, 1, 1]), "words": np.array(["<unk>", "the", "a", "of", "flux"], "S")}
        with h5py.File(self._path("tokens.h5"), "w") as file:
            for name, values in arrays.items():
                file[name] = values

    def _run(self, *arguments):
        done = subprocess.run(program.command(arguments, 1), cwd=self.folder, env=program.ENVIRONMENT, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"a sound input is refused: {shlex.join(map(str, done.args))}\n{done.stderr}")

    def _runs(self):
        self._run("evolve", "small.ini", "--quiet", "--output.file=good.h5")
        self._run(*LONGER, "--output.file=longer.h5")
        self._run(*LONGER, "--evolve.time=4", "--output.file=evolve.h5")
        shutil.copy(self._path("evolve.checkpoint.h5"), self._path("old.h5"))
        self._run(*TRAINING, "--output.file=trained.h5")
        # Stopped in its midst: a limit that has passed lets it make one step.
        for more in ((), (AUTO,)):
            subprocess.run(program.command((*TRAINING, "--output.file=train.h5", "--run.time_limit=1e-6", *more), 1), cwd=self.folder,
                           env=program.ENVIRONMENT, check=False, capture_output=True)
        self._write("texts.ini", program.TRAIN_DECK.replace("tokens = rows\n", ""))
        self._run("train", "texts.ini", "--quiet", *TEXTS, "--train.epochs=1", "--output.file=texts.h5")

    def _of_package(self):
        random = np.random.default_rng(0)
        shapes = {"self_attn.in_proj_weight": (24, 8), "self_attn.in_proj_bias": (24,), "self_attn.out_proj.weight": (8, 8),
                  "self_attn.out_proj.bias": (8,), "linear1.weight": (12, 8), "linear1.bias": (12,), "linear2.weight": (8, 12),
                  "linear2.bias": (8,), **{f"norm{which}.{kind}": (8,) for which in "12" for kind in ("weight", "bias")}}
        state = {f"layers.{layer}.{name}": random.standard_normal(shape) for layer in range(2) for name, shape in shapes.items()}
        np.savez(self._path("state.npz"), **state)
        with h5py.File(self._path("state.h5"), "w") as file:
            for name, array in state.items():
                file[name] = array
        write_attention(self._path("compared.h5"))
        for name, ranks in (("scaled.h5", 1), ("two.h5", 2)):
            write_scaling(self._path(name), ranks, np.array([0.1, 0.11, 0.12]) / ranks)
        with h5py.File(self._path("two.h5"), "r+") as file:
            file["message_bytes"] = sizes = 8.0 ** np.arange(1, 8)
            file["scaling/machine/message_seconds"] = file["scaling/machine/sum_seconds"] = 1e-6 + 1e-10 * sizes
