#!/usr/bin/env python3
"""Writes the seeds of the fuzz tests: small sound files of every format that the program reads, in many forms, and evil ones.

    make_corpus.py PROGRAM FOLDER

PROGRAM (fluxformer) is run twice for its checkpoints and outputs. FOLDER gets one folder for each kind of seed.
"""

import bz2
import glob
import gzip
import os
import subprocess
import sys
import tempfile
import zlib

import corpus_archives
import corpus_hdf5
import corpus_images

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

EVIL_DECKS = {
    "empty": b"", "zero": bytes(100), "mark": b"\xef\xbb\xbf[mesh]\nlayers=2\n", "utf16": "[mesh]\n".encode("utf-16"),
    "twice": b"[mesh]\nlayers = 2\nlayers = 3\n", "alone": b"[petsc]\nts_monitor\n", "no_section": b"layers = 2\n",
    "deep": b"[a.b.c]\nd.e = f\n" * 20, "quoted": b"[output]\nfile = \"a b\"\n", "long": b"[output]\nfile = " + b"x" * 5000,
    "numbers": b"[mesh]\nlayers = 1e3\n[equation]\nc = 0x10\nepsilon = nan\n[evolve]\ntime = 1e400\n",
    "negative": b"[mesh]\nlayers = -9223372036854775808\n[run]\nseed = 18446744073709551616\n",
    "brackets": b"[[[mesh]]]\n]\n[\n=\n==\n[]\n = 1\n", "cr": b"[mesh]\rlayers = 2\r[model]\r\nwidth = 4\r\n",
    "petsc": b"[petsc]\nts_type = rk\nsnes_rtol = 1e-3\nksp_type = gmres\npc_type = none\n",
}


def put(folder, seeds):
    os.makedirs(folder, exist_ok=True)
    for name, content in seeds.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def decks():
    paths = sorted(glob.glob(os.path.join(ROOT, "input", "**", "*.ini"), recursive=True) +
                   glob.glob(os.path.join(HERE, "decks", "*.ini")))
    return {os.path.relpath(path, ROOT).replace("/", "_"): read(path) for path in paths}


def gzips():
    text = b"some text, " * 40
    with_all = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x05\0extra" + b"name\0" + b"comment\0"
    with_all += (zlib.crc32(with_all) & 0xFFFF).to_bytes(2, "little") + gzip.compress(text)[10:]
    return {"plain": text, "best": gzip.compress(text, 9), "stored": gzip.compress(text, 0), "two": gzip.compress(text) * 2,
            "empty": gzip.compress(b""), "nothing": b"", "header": with_all, "trailing": gzip.compress(text) + b"more",
            "zeros": gzip.compress(bytes(1 << 20)), "random": gzip.compress(bytes(k * k % 251 for k in range(3000))),
            "magic": b"\x1f\x8b", "bzip2": bz2.compress(text), "fixed": gzip.compress(b"aaaaabbbbb")}


def runs(program, folder):
    """Files of the program: {name: path}."""
    environment = {"ASAN_OPTIONS": "detect_leaks=0", **os.environ}  # those of MPI
    for experiment in ("evolve", "train"):
        deck, output = os.path.join(HERE, "decks", experiment + ".ini"), os.path.join(folder, experiment + ".h5")
        subprocess.run([program, experiment, deck, "--checkpoint.every=1", "--quiet", "--output.file=" + output], check=True,
                       stdout=subprocess.DEVNULL, env=environment)
    return {name: os.path.join(folder, name + ".h5") for name in ("evolve", "train", "evolve.checkpoint", "train.checkpoint")}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        kinds = {"ini": {**decks(), **EVIL_DECKS}, "gzip": gzips(), "idx": corpus_images.idx_files(), "png": corpus_images.pngs(),
                 **corpus_archives.seeds(), **corpus_hdf5.seeds(runs(program, scratch), scratch)}
    for kind, seeds in kinds.items():
        put(os.path.join(folder, kind), seeds)


if __name__ == "__main__":
    main()
