#!/usr/bin/env python3
"""Whatever file the Python package is given, it ends with one line that names the file: no traceback, no other file read, nothing
waited for, no memory for what is not there."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (its folder is put on the path first)
import numpy as np  # noqa: E402

from comparison_sample import write_attention  # noqa: E402
from python_package import COMMAND, ENVIRONMENT, POSTPROCESS, FolderTest, call, start, write_checkpoint  # noqa: E402
from scaling_sample import write_scaling  # noqa: E402
from training_sample import write_training  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.state_dict import Unfit, read_state  # noqa: E402

TORCH = """
class Tensor:
    def __init__(self, fine): self.fine = fine
    def detach(self): return self
    def is_floating_point(self): return False
    def numpy(self):
        if not self.fine: raise TypeError("can't convert a sparse tensor")
        import numpy
        return numpy.ones(3)
def load(path, map_location, weights_only):
    assert weights_only
    return eval(open(path).read())
"""


class Refusals(FolderTest):
    def setUp(self):
        super().setUp()
        write_training(self.path("train.h5"), epochs=2)
        write_attention(self.path("attention.h5"))
        write_scaling(self.path("scaling.h5"), 1, [0.1, 0.2])
        # Command, sound file, a dataset and an attribute without which it cannot work, how the command is called.
        self.readers = [("plot", "train.h5", "training/loss", "status", lambda path: call("plot", path, "--output", self.path("drawn"))),
                        ("report", "attention.h5", "seed", "experiment", lambda path: call("report", path, "--output", self.path("page"))),
                        ("predict", "scaling.h5", "scaling/step_seconds", "experiment", lambda path: call("predict", path)),
                        ("import", "train.h5", "training/loss", None, self.imported)]

    def imported(self, path):
        return call("import", path, self.path("model.h5"), "--heads", 2, "--norm", "pre", "--activation", "relu")

    def odd(self, sound, change):
        shutil.copy(self.path(sound), self.path("odd.h5"))
        with h5py.File(self.path("odd.h5"), "r+") as file:
            change(file)
        return self.path("odd.h5")

    def refused_by_all(self, change, *words):
        """`change(file, dataset)` spoils a copy of the sound file of each command."""
        for command, sound, dataset, _, reader in self.readers:
            with self.subTest(command):
                self.assert_refused(reader(self.odd(sound, lambda file: change(file, dataset))), "odd.h5", *words)

    def test_other_files_are_not_read(self):
        with h5py.File(self.path("secret.h5"), "w") as file:
            file["numbers"] = np.arange(3.0)

        def link(file, name):
            del file[name]
            file[name] = h5py.ExternalLink("secret.h5", "numbers")

        def unused_link(file, _):
            file["training/deep/x"] = h5py.ExternalLink("/dev/zero", "/")

        def store(file, name):
            del file[name]
            file.create_dataset(name, shape=(3,), dtype="f8", external=[(self.path("secret.h5"), 0, 24)])

        def virtual(file, name):
            del file[name]
            layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
            layout[...] = h5py.VirtualSource(self.path("secret.h5"), "numbers", shape=(3,))
            file.create_virtual_dataset(name, layout)

        for change, words in ((link, "is a link to another file"), (unused_link, "/training/deep/x is a link to another file"),
                              (store, "keeps its numbers in another file"), (virtual, "is a virtual dataset")):
            self.refused_by_all(change, words)
            with self.assertRaisesRegex(fluxformer.RunError, words):
                fluxformer.open(self.odd("train.h5", lambda file: change(file, "training/loss")))

    def test_groups_in_a_circle_and_links_to_nothing_are_no_trap(self):
        def circle(file):
            file["training/all"] = file["/"]
            file["nothing"], file["itself"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/itself")

        self.assertIn(call("plot", self.odd("train.h5", circle), "--output", self.path("drawn")).returncode, (0, 2))
        write_training(self.path("round.h5"))
        with h5py.File(self.path("round.h5"), "r+") as file:
            file["loop"] = file["/"]
        self.assertEqual(call("plot", self.path("round.h5"), "--output", self.path("drawn")).returncode, 0)

    def test_sizes_without_numbers_take_no_memory(self):
        def grow(file, name):
            del file[name]
            file.create_dataset(name, shape=(10**12,), chunks=(1000,), dtype="f8")

        self.refused_by_all(grow, "is said to have 8000000000000 bytes, of which 0 are stored")
        with mock.patch("fluxformer.state_dict.os.sysconf", return_value=10), self.assertRaisesRegex(Unfit, "GB; to convert them takes up to 5 times"):
            read_state(self.path("train.h5"))

    def test_what_is_no_file_is_not_waited_for(self):
        os.mkfifo(self.path("pipe.h5"))
        os.mkdir(self.path("folder.h5"))
        for command, _, _, _, reader in self.readers:
            with self.subTest(command):
                self.assert_refused(reader(self.path("pipe.h5")), "pipe.h5", "not a regular file")
                self.assert_refused(reader(self.path("none.h5")), "none.h5", "no such file")
                self.assert_refused(reader(self.path("train.h5/x.h5")), "no such file")
                self.assert_refused(reader(self.path("folder.h5")), "folder.h5", "folder")
        self.assert_refused(call("report", self.path("attention.h5"), "--claims", self.path("pipe.h5")), "pipe.h5", "not a regular file")
        with open(self.path("deep.toml"), "w", encoding="utf-8") as stream:
            stream.write("a = " + "[" * 100000)
        self.assert_refused(call("report", self.path("attention.h5"), "--claims", self.path("deep.toml")), "deep.toml", "not a file of claims")

    def test_cut_and_foreign_files_are_refused(self):
        for command, sound, _, _, reader in self.readers:
            with open(self.path(sound), "rb") as stream:
                whole = stream.read()
            for content in (b"", b"no HDF5", whole[:10], whole[:len(whole) // 2], whole[:-1], bytes(4096)):
                with self.subTest(command, length=len(content)):
                    with open(self.path("cut.h5"), "wb") as stream:
                        stream.write(content)
                    self.assert_refused(reader(self.path("cut.h5")), "cut.h5", "not a readable HDF5 file")

    def test_checkpoints_are_passed_over_beside_results_and_refused_alone(self):
        checkpoints = [write_checkpoint(self.path(name)) for name in ("a.checkpoint.h5", "a.checkpoint.previous.h5")]
        for command, sound in (("plot", "train.h5"), ("report", "attention.h5")):
            done = call(command, *checkpoints, self.path(sound), "--output", self.path("drawn"))
            self.assertEqual((done.returncode, done.stderr), (0, "passed over 2 checkpoints\n"))
        for command, *how in (("plot",), ("report",), ("predict",), ("predict", self.path("scaling.h5"), "--check"), ("view",), ("convert", "--report")):
            self.assert_refused(call(command, *how, checkpoints[0]), checkpoints[0], "a checkpoint")
            self.assert_refused(call(command, *how, *checkpoints), *checkpoints, "only checkpoints")
        with self.assertRaisesRegex(fluxformer.RunError, "a checkpoint"):
            fluxformer.open(checkpoints[0])
        os.mkdir(self.path("study"))
        write_scaling(self.path("study/a.h5"), 1, [0.1, 0.2])
        write_checkpoint(self.path("study/a.checkpoint.h5"))
        done = call("plot", self.path("study"))
        self.assertEqual((done.returncode, done.stderr), (0, "passed over 1 checkpoint\n"))

    def test_attributes_of_another_kind_are_refused(self):
        for command, sound, _, name, reader in self.readers[:3]:
            for place, value in ((name, 1.5), (name, [1, 2]), ("schema_version", "one"), ("schema_version", [1, 1]), ("schema_version", 1.5),
                                 ("settings", np.bytes_(b"\xff")), (name, h5py.Empty("f8"))):
                with self.subTest(command, place=place, value=value):
                    path = self.odd(sound, lambda file: file.attrs.__setitem__(place, value))
                    self.assert_refused(reader(path), "odd.h5")
                    with self.assertRaises(fluxformer.RunError):
                        fluxformer.open(path)

    def test_numbers_that_cannot_be_unpacked_are_refused_by_name(self):
        def scribble(file, name):
            shape = file[name].shape
            del file[name]
            file.create_dataset(name, shape, "f8", chunks=shape, compression="gzip").id.write_direct_chunk((0,) * len(shape), b"no deflate" * 9)

        self.refused_by_all(scribble)

    def test_names_of_files_that_are_no_text_are_printed_on_one_line(self):
        for name in (b"two\nlines.h5", b"\xff\xfe.h5", b"\x1b[31m.h5"):
            path = os.path.join(os.fsencode(self.folder), name)
            end = subprocess.run([*COMMAND, "plot", path], capture_output=True, env=ENVIRONMENT, check=False)
            self.assertEqual((end.returncode, end.stderr.count(b"\n"), end.stderr.count(b"\x1b")), (2, 1, 0), end.stderr)
            shutil.copy(self.path("train.h5"), path)
            end = subprocess.run([*COMMAND, "plot", path, "--output", os.fsencode(self.path("drawn"))], capture_output=True, env=ENVIRONMENT, check=False)
            self.assertEqual((end.returncode, end.stderr), (0, b""))

    def test_a_crash_of_hdf5_and_the_end_of_the_memory_are_said(self):
        for number, code, word in ((signal.SIGSEGV, 2, "train.h5: damaged; HDF5 ends with SIGSEGV"), (signal.SIGKILL, 1, "train.h5: killed")):
            with open(self.path("h5py.py"), "w", encoding="utf-8") as stream:
                stream.write(f"import os\nos.write(2, b'free(): invalid pointer\\n')\nos.kill(os.getpid(), {number.value})\n")
            end = start("plot", self.path("train.h5"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
                        env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join((self.folder, POSTPROCESS))})
            self.assertEqual((end.returncode, len(end.stderr.splitlines())), (code, 1), end.stderr)
            self.assertIn(word, end.stderr)
        with mock.patch("fluxformer.plot.main", side_effect=MemoryError):
            end = call("plot", self.path("train.h5"))
        self.assertEqual((end.returncode, len(end.stderr.splitlines())), (1, 1))
        self.assertIn("memory", end.stderr)

    def test_an_interruption_and_a_full_disk_behind_the_output_leave_one_line(self):
        with mock.patch("fluxformer.plot.main", side_effect=KeyboardInterrupt):
            end = call("plot", self.path("train.h5"))
        self.assertEqual((end.returncode, end.stderr), (130, "fluxformer plot: stopped\n"))
        write_scaling(self.path("two.h5"), 2, [0.05, 0.1])
        with h5py.File(self.path("two.h5"), "r+") as file:
            file["message_bytes"] = sizes = 8.0 ** np.arange(1, 8)
            file["scaling/machine/message_seconds"] = file["scaling/machine/sum_seconds"] = 1e-6 + 1e-10 * sizes
        buffered = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONUNBUFFERED"}
        refused = ("predict", self.path("scaling.h5"), self.path("two.h5"), "--tokens", "1", "--cells", "1", "--samples", "1", "--ranks", "7")  # after it has printed something
        for arguments, code in ((("plot", self.path("train.h5"), "--output", self.path("drawn")), 1), (("--help",), 1), (refused, 2)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                end = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, check=False)
            self.assertEqual((end.returncode, len(end.stderr.splitlines())), (code, 1), end.stderr)

    def test_a_state_dict_of_torch_that_is_none_is_refused(self):
        with open(self.path("torch.py"), "w", encoding="utf-8") as stream:
            stream.write(TORCH)
        for content, reason in (("{1: Tensor(True)}", "holds more than a state dict"), ("{'a': 1}", "holds more than a state dict"),
                                ("[1]", "holds more than a state dict"), ("{'a': Tensor(False)}", "a is not an array of numbers (can't convert"),
                                ("{'a': Tensor(True)}", "no encoder layer"), ("1/0", "not a state dict")):
            with self.subTest(content):
                with open(self.path("state.pt"), "w", encoding="utf-8") as stream:
                    stream.write(content)
                end = start("import", self.path("state.pt"), self.path("model.h5"), "--heads", 2, "--norm", "pre", "--activation", "relu",
                            env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join((self.folder, POSTPROCESS))})
                self.assert_refused(end, "state.pt", reason)


if __name__ == "__main__":
    unittest.main()
