#!/usr/bin/env python3
"""Damaged data are refused: a file that is truncated, forged or not what its name says ends the run with exit code 2 and
one line that
names the file or the key, on one rank and on several.
"""

import gzip
import os
import shutil
import struct
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from made_up_archives import (DRAWINGS, IMAGES, LABELS, LAST, TAR, ZIP, images, png, posts, tar_gz, tar_of,  # noqa: E402
                              with_last, zip_of)
from made_up_images import idx  # noqa: E402
from processes import kill_all  # noqa: E402
from program import ENDS_BY_ITSELF, ProgramTest, ranks_of_case, together, with_attributes, with_value  # noqa: E402

SMALL = ["--mesh.layers=2", "--model.width=8", "--model.ffn=8", "--attention.heads=2"]
LZMA = b"\x09\x04\x05\0\x5d" + struct.pack("<I", 0x83800000) + bytes(20)  # version, size and properties, then data


class DamagedData(ProgramTest):
    def data(self, name, files):
        """Arguments that name a data set and a new folder with its files, {path: bytes}."""
        folder = f"data{len(os.listdir(self.folder))}"
        os.mkdir(self.path(folder))
        for file, content in files.items():
            os.makedirs(os.path.dirname(self.path(f"{folder}/{file}")), exist_ok=True)
            self.write(f"{folder}/{file}", content)
        return [f"--data.set={name}", f"--data.directory={folder}", *SMALL]

    def inside(self, data, file):
        return self.path(os.path.join(data[1].partition("=")[2], file))

    def drawings(self, content):
        return self.data("omniglot", {ZIP: content})

    def news(self, content):
        return self.data("20news", {TAR: content}) + ["--data.length=8"]

    def digits(self, first, second=idx(b"\0\1\2", 3), suffix=""):
        return self.data("mnist", {IMAGES + suffix: first, LABELS + suffix: second})

    def refuse(self, cases):
        """(what is wrong, arguments, parts of the message)."""
        ends = {}

        def run(number, claim, arguments):
            started = [(ranks, self.start("evolve", *arguments, "--validate", ranks=ranks, environment=ENDS_BY_ITSELF)) for ranks in ranks_of_case(number)]
            for _, process in started:
                self.addCleanup(kill_all, process.pid)  # so that a run that hangs does not leave others behind
            ends[claim] = [(ranks, self.ended(process)) for ranks, process in started]

        together([lambda n=number, c=claim, a=arguments: run(n, c, a) for number, (claim, arguments, _) in enumerate(cases)])
        for claim, _, parts in cases:
            for ranks, end in ends[claim]:
                with self.subTest(claim, ranks=ranks):
                    self.assert_refused(end, *parts)
                    self.assertEqual(end.out, "", end)
                    if ranks == 1:  # mpiexec adds its own lines
                        self.assertEqual(len(end.err.splitlines()), 1, end)

    def test_whole_data_is_read_whatever_else_is_packed_with_it(self):
        no_file = {".": b"", "/": b""}
        for arguments in (self.drawings(zip_of({**no_file, **DRAWINGS})), self.news(tar_gz({**no_file, **posts()})),
                          self.digits(images())):
            with self.subTest(arguments[0]):
                end = self.run_program("evolve", *arguments, "--validate")
                self.assertEqual((end.code, end.err), (0, ""), end)

    def test_paths_that_are_not_those_of_drawings_are_refused(self):
        self.refuse([(repr(name), self.drawings(zip_of({name: png()})), [ZIP, part]) for name, part in (
            ("a/b.png", "'a/b.png'"), ("/b_01.png", "'/b_01.png'"), ("a/b\nc.png", "'a/b c.png'"), ("", "no drawings"),
            (".", "no drawings"), ("..", "no drawings"), ("/", "no drawings"))])

    def test_a_zip_that_is_none_or_cut_is_refused(self):
        whole = zip_of(DRAWINGS)
        table = whole.index(b"PK\1\2")
        self.refuse([(claim, self.drawings(content), [ZIP, "truncated or not a zip archive"]) for claim, content in (
            ("no files", zip_of({})), ("a text", b"not a zip\n"), ("gzip", gzip.compress(whole)), ("cut", whole[:1000]),
            ("cut in the table", whole[:table + 100]), ("a byte short", whole[:-1]))])

    def test_drawings_that_cannot_be_had_are_refused(self):
        bomb = gzip.compress(bytes(1 << 25))[10:-8]
        others = {name: content for name, content in DRAWINGS.items() if name != LAST}
        self.refuse([(claim, self.drawings(content), [ZIP, LAST]) for claim, content in (
            ("wrong check sum", with_last(png(), crc=1)), ("encrypted", with_last(png(), flags=1)),
            ("4 GB announced", with_last(png(), size=0xFFFFFFF0, packed=0xFFFFFFF0)),
            ("1 GB of zeros", with_last(bomb, size=1 << 30, method=8)),
            ("no bytes", with_last(b"")), ("cut", with_last(png()[:-20])), ("28 x 28 pixels", with_last(png(28, 28))))] + [
            ("packed by lzma, with a dictionary of 2 GB", self.drawings(with_last(LZMA, method=14, size=len(png()))),
             [ZIP, LAST, "(lzma) where deflation was expected"]),
            ("a place behind the end", self.drawings(with_last(png(), place=1 << 30)), [ZIP, "Truncated"]),
            ("a folder", self.drawings(zip_of({**others, LAST + "/": b""})), [ZIP, "lacks drawing 20 of Greek/character01"]),
            ("a link", self.drawings(with_last(b"elsewhere", mode=0o120777)), [ZIP, "lacks drawing 20"]),
            ("a name that is no ASCII", self.drawings(zip_of({**DRAWINGS, "ő.png": (png(), {"flags": 0x800})})), [ZIP, LAST]),
            ("more alphabets than there are", self.drawings(zip_of(DRAWINGS)) + ["--data.alphabets=2"],
             ["data.alphabets = 2", ZIP])])

    def test_posts_that_are_packed_wrongly_are_refused(self):
        tar = tar_of(posts())
        whole = gzip.compress(tar)
        more = tar_of({".": b"", "20news-bydate-train/sci.med/8": b"one post among others", **posts()})
        forged = more[:512 + 148] + b"9" + more[512 + 149:]  # the checksum of the second header
        endless = tarfile.TarInfo("20news-bydate-train/sci.med/8")
        endless.size = 1 << 40
        self.refuse([(claim, self.news(content), [TAR, part]) for claim, content, part in (
            ("a packed text", gzip.compress(b"no tar\n" * 99), "not a tar.gz"),
            ("cut", whole[:len(whole) // 2], "truncated"),
            ("wrong check sum", whole[:-8] + bytes(4) + whole[-4:], "damaged"),
            ("the tar is cut", gzip.compress(tar[:9000]), "damaged"), ("a damaged header", gzip.compress(forged), "damaged"),
            ("1 TB announced", gzip.compress(endless.tobuf(tarfile.GNU_FORMAT) + tar), "damaged"))])

    def test_posts_that_are_missing_are_named(self):
        self.refuse([(claim, self.news(content), parts) for claim, content, parts in (
            ("no files", tar_gz({}), [TAR, "no posts", "20news-bydate-train"]),
            ("no test posts", tar_gz(posts("train")), [TAR, "no posts", "20news-bydate-test"]),
            ("only the path .", tar_gz({".": b"x"}), [TAR, "no posts"]),
            ("a path of 9000 folders", tar_gz({"deep/" * 9000 + "7": b"x"}), [TAR, "no posts"]),
            ("links", tar_gz(posts(), tarfile.SYMTYPE), [TAR, "no posts"]),
            ("an unknown group", tar_gz({**posts(), "20news-bydate-train/comp.lang.c/7": b"x"}), [TAR, "'comp.lang.c'"]),
            ("zeros", tar_gz(posts(text=bytes(1000))), ["data.least_count = 2", "no word"]))])

    def test_a_tree_that_cannot_be_walked_is_refused(self):
        loop, large, half = (self.data("20news", posts(*splits)) for splits in ((), (), ("train",)))
        os.symlink("loop", self.inside(loop, "20news-bydate-train/loop"))
        with open(self.inside(large, "20news-bydate-train/sci.med/8"), "wb") as stream:
            stream.truncate(1 << 26)
        self.refuse([("a link to itself", loop, ["20news-bydate-train/loop", "symbolic links"]),
                     ("a post of 64 MB", large, ["sci.med/8", "more than 16777216 bytes"]),
                     ("no test posts", half, ["20news-bydate-test is not a folder"])])

    def test_digits_whose_headers_do_not_fit_are_refused(self):
        overflow = idx(b"", 1 << 31, 1 << 31, 4)  # 2^64 bytes
        self.refuse([(claim, self.digits(*arguments), [IMAGES, part]) for claim, arguments, part in (
            ("numbers of 8 bytes", (b"\0\0\x0e" + images()[3:],), "0xe03"), ("cut", (images()[:-1],), "is truncated"),
            ("too few labels", (images(), idx(b"\0\1", 2)), "2 labels"),
            ("an overflow", (overflow,), "more than any file can hold"), ("no images", (images(0), idx(b"", 0)), "no data"),
            ("packed and cut", (gzip.compress(images())[:-9], gzip.compress(idx(b"\0\1\2", 3)), ".gz"), "is truncated"))])

    def test_a_data_directory_that_is_none_is_named(self):
        self.write("file", "")
        cases = [("omniglot", "nowhere"), ("20news", "file"), ("mnist", "x" * 5000)]
        if os.geteuid() != 0:  # root can read everything
            os.mkdir(self.path("locked"), mode=0)
            cases += [(name, "locked") for name in ("omniglot", "20news", "mnist")]
        self.refuse([(f"{name} in {folder[:10]}", [f"--data.set={name}", f"--data.directory={folder}", *SMALL],
                      [f"data.directory = {folder}"]) for name, folder in cases])

    def spoilt(self, change):
        """Arguments that name a copy of good.h5 modified by `change`."""
        name = f"spoilt{len(os.listdir(self.folder))}.h5"
        shutil.copy(self.path("good.h5"), self.path(name))
        with h5py.File(self.path(name), "r+") as file:
            change(file)
        return ["small.ini", f"--model.file={name}"]

    def test_a_model_file_that_holds_no_whole_model_is_refused(self):
        self.evolve("--output.file=good.h5")
        with open(self.path("good.h5"), "rb") as stream:
            good = stream.read()

        def scribble(file):
            del file["model/layers/1/W_Q"]
            numbers = file.create_dataset("model/layers/1/W_Q", (8, 8), "f8", chunks=(8, 8), compression="gzip")
            numbers.id.write_direct_chunk((0, 0), b"not what deflate packs")

        self.write("text.h5", "not HDF5\n")
        self.write("cut.h5", good[:len(good) // 2])
        self.write("metadata.h5", good.replace(b"schema_version", b"schema_varsion"))
        os.symlink("loop.h5", self.path("loop.h5"))
        files = [(name, ["small.ini", f"--model.file={name}"], [name, part]) for name, part in (
            ("text.h5", "HDF5"), ("cut.h5", "truncated"), ("metadata.h5", "cannot list"), ("loop.h5", "symbolic links"))]
        self.refuse(files + [(claim, self.spoilt(change), ["spoilt", part]) for claim, change, part in (
            ("no model", lambda file: file.__delitem__("model"), "no group /model"),
            ("a link to nothing", with_value("model", h5py.SoftLink("/nowhere")), "/model"),
            ("a number for a group", with_value("model/layers", 1.0), "/model/layers"),
            ("words for numbers", with_value("model/layers/1/W_Q", "words"), "/model/layers/1/W_Q does not hold numbers"),
            ("another shape", with_value("model/layers/1/W_Q", np.ones((8, 7))), "/model/layers/1/W_Q is 8 x 7, expected 8 x 8"),
            ("a number for a matrix", with_value("model/head/W", 1.0), "/model/head/W is not a matrix"),
            ("numbers that do not unpack", scribble, "/model/layers/1/W_Q"),
            ("two numbers of layers", with_attributes("model", layers=[2, 2]), "layers is neither one number"),
            ("a third layer", with_attributes("model", layers=3, knots=3), "no /model/layers/3"),
            ("a width of 10^9", with_attributes("model", width=10**9), "expected 12 x 1000000000"))])

    def test_a_pipe_is_not_waited_for(self):
        folder = self.data("mnist", {LABELS: b""})
        os.mkfifo(self.inside(folder, IMAGES))
        os.mkfifo(self.path("pipe"))
        self.refuse([("a model", ["small.ini", "--model.file=pipe"], ["pipe", "not a regular file"]),
                     ("a data set", folder, [IMAGES, "is not a file"])])

    def test_a_vocabulary_that_is_none_is_refused(self):
        self.evolve("--output.file=good.h5")
        news = self.news(tar_gz(posts()))

        def words(content):
            return [*self.spoilt(lambda file: file.update({"model/embedding/vocabulary": content}))[1:], *news]

        self.refuse([("one word", words(["<pad>"]), ["spoilt", "/model/embedding/vocabulary", "1 words"]),
                     ("numbers", words([1.0, 2.0]), ["spoilt", "/model/embedding/vocabulary", "list of words"])])


if __name__ == "__main__":
    unittest.main()
