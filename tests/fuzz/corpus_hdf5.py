"""Seeds: HDF5 files of the program, the same in other versions of the format, and evil ones."""

import os

import h5py
import numpy as np

# The oldest has no checksums of metadata; the newest other indices of chunks.
VERSIONS = {"old": ("earliest", "v108"), "v18": ("v108", "v108"), "new": ("latest", "latest")}
LARGEST = 1 << 18
BOTH = ("many", "attributes", "sparse")  # evil seeds in the oldest and in the newest version


def scratch_file(folder, change, libver=VERSIONS["v18"]):
    """The bytes of a file that `change` has written."""
    path = os.path.join(folder, "seed.h5")
    with h5py.File(path, "w", libver=libver) as file:
        change(file)
    with open(path, "rb") as stream:
        content = stream.read()
    os.remove(path)
    return content


def copy_attributes(source, target):
    for name, value in source.attrs.items():
        if name not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid"):
            target.attrs[name] = value


def copy(source, target, packed=None):
    """Attributes, groups and datasets, written anew in the version of the target."""
    copy_attributes(source, target)
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            copy(item, target.create_group(name), packed)
        else:
            how = {"chunks": item.chunks, "compression": item.compression, "shuffle": item.shuffle,
                   "fletcher32": item.fletcher32} if packed is None or not item.shape else packed
            if packed and (item.size == 0 or item.dtype.hasobject):
                how = {}
            made = target.create_dataset(name, data=item[()], dtype=item.dtype, **how)
            copy_attributes(item, made)


def part_of(path, groups, packed=None):
    """Writes the root's attributes and these groups of a file of the program."""
    def change(file):
        with h5py.File(path) as source:
            copy_attributes(source, file)
            for group in groups:
                copy(source[group], file.create_group(group), packed)
    return change


def in_versions(folder, name, change):
    return {f"{name}_{version}": scratch_file(folder, change, libver) for version, libver in VERSIONS.items()}


def whole(path):
    with open(path, "rb") as stream:
        content = stream.read()
    return {} if len(content) > LARGEST else {os.path.basename(path): content}


def spoilt(change, then):
    def both(file):
        change(file)
        then(file)
    return both


def put(path, value, **how):
    def then(file):
        if path in file:
            del file[path]
        if isinstance(value, (h5py.SoftLink, h5py.ExternalLink, h5py.VirtualLayout)):
            if isinstance(value, h5py.VirtualLayout):
                file.create_virtual_dataset(path, value)
            else:
                file[path] = value
        else:
            file.create_dataset(path, data=value, **how)
    return then


def empty(path, shape, dtype="f8", **how):
    def then(file):
        if path in file:
            del file[path]
        file.create_dataset(path, shape, dtype, **how)
    return then


def of_type(path, dtype):
    return put(path, np.zeros((2, 2), dtype))


def attribute(path, **values):
    return lambda file: file[path].attrs.update(values)


def hard_loop(file):
    file["model/again"] = file["model"]
    file["model/layers/1/W_Q"].attrs["self"] = file["model"].ref


def models(folder, made):
    weights = "model/layers/1/W_Q"
    small = part_of(made["evolve"], ["model"])
    seeds = {**whole(made["train"]), **in_versions(folder, "evolve", small),
             **in_versions(folder, "train", part_of(made["train"], ["model"]))}
    for name, how in {"gzip": {"chunks": True, "compression": "gzip"}, "lzf": {"chunks": True, "compression": "lzf"},
                      "sums": {"chunks": True, "fletcher32": True, "shuffle": True},
                      "scaled": {"chunks": True, "scaleoffset": 3}}.items():
        seeds |= in_versions(folder, name, part_of(made["evolve"], ["model"], how))
    compound = np.dtype([("a", "f8"), ("b", "S3")])
    virtual = h5py.VirtualLayout((2, 2), "f8")
    virtual[:] = h5py.VirtualSource("elsewhere.h5", "x", (2, 2))
    evil = {
        "soft_loop": put(weights, h5py.SoftLink("/" + weights)), "soft": put(weights, h5py.SoftLink("/model/layers/2/W_Q")),
        "external": put(weights, h5py.ExternalLink("elsewhere.h5", "/x")), "virtual": put(weights, virtual),
        "elsewhere": empty(weights, (2, 2), external=[("elsewhere", 0, 32)]), "scalar": put(weights, 1.0),
        "sparse": empty(weights, (1 << 40, 1 << 20), chunks=(8, 8), maxshape=(None, None)),
        "none": put(weights, h5py.Empty("f8")), "word": put(weights, "words"), "words": put(weights, ["a", "b"]),
        "big": of_type(weights, ">f8"), "single": of_type(weights, "<f4"), "half": of_type(weights, "<f2"),
        "bytes": of_type(weights, "u1"), "compound": of_type(weights, compound), "void": of_type(weights, "V7"),
        "enum": of_type(weights, h5py.enum_dtype({"a": 1, "b": 2}, "i2")), "flag": of_type(weights, "?"),
        "inner": empty(weights, (2, 2), np.dtype(("f8", (3,)))), "fill": empty(weights, (2, 2), fillvalue=7),
        "nothing": put(weights, np.zeros((0, 2))), "hard_loop": hard_loop,
        "shape": attribute("model", width=10**9), "minus": attribute("model", layers=-1, knots=0),
        "huge": attribute("model", layers=10**9, knots=10**9), "reals": attribute("model", layers=2.0),
        "short": attribute("model", layers=np.int8(2), width=np.uint64(2)),
        "bytes_word": attribute("model", norm=np.bytes_("pre")),
        "no_word": attribute("model", kind="ő" * 50), "list": attribute("model", layers=[2, 2]),
        "version": attribute("/", schema_version=2),
        "named": lambda file: file.__setitem__("type", np.dtype("f8")),
        "long": lambda file: file.create_group("model/" + "g/" * 40), "many": lambda file: [
            file.create_dataset(f"more/{k}", data=k) for k in range(60)],
        "attributes": lambda file: [file["model"].attrs.__setitem__(f"more{k}", "x" * k) for k in range(40)],
    }
    for name, then in evil.items():
        for version in ("old", "new") if name in BOTH else ("new",) if name == "virtual" else ("old",):
            seeds[f"{name}_{version}"] = scratch_file(folder, spoilt(small, then), VERSIONS[version])
    return seeds


def lists_of_words(folder, made):
    place, seeds = "model/embedding/vocabulary", {}
    some = ["<pad>", "<unk>", "the", "ő", "a" * 40, ""]
    padded = np.array([word.encode() for word in some])
    forms = {"variable": np.array(some, object), "fixed": padded, "none": padded[:0],
             "numbers": np.arange(3.0), "matrix": padded.reshape(2, 3)}
    for name, value in forms.items():
        how = {"dtype": h5py.string_dtype()} if name == "variable" else {}
        seeds |= in_versions(folder, name, spoilt(part_of(made["evolve"], ["model"]), put(place, value, **how)))
    how = {"dtype": h5py.string_dtype(), "chunks": (2,), "maxshape": (None,), "compression": "gzip"}
    seeds |= in_versions(folder, "chunks", spoilt(part_of(made["evolve"], []), put(place, np.array(some, object), **how)))

    def spaces(file):
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(5)
        kind.set_strpad(h5py.h5t.STR_SPACEPAD)
        group = file.require_group("model/embedding")
        made = h5py.h5d.create(group.id, b"vocabulary", kind, h5py.h5s.create_simple((2,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([b"a    ", b"bcdef"]), kind)

    return seeds | in_versions(folder, "spaces", spoilt(part_of(made["evolve"], []), spaces))


def checkpoints(folder, path, name):
    state = part_of(path, ["state"])
    evil = {"steps": attribute("state", **{"step" if "evolve" in name else "steps": -1}), "time": attribute("state", time=-1e300),
            "fields": attribute("state", fields=2**62), "nan": attribute("state", time=float("nan")),
            "history": put("state/history", np.zeros(7)), "arrival": put("state/arrival", np.zeros(0)),
            "raw": put("state/raw", np.zeros(0)),
            "first": put("state/first_moment", np.zeros(3)), "second": put("state/second_moment", np.zeros(1)),
            "settings": attribute("state", settings=""), "incomplete": lambda file: file["state"].attrs.pop("complete")}
    return {**whole(path), **in_versions(folder, name, state),
            **{key: scratch_file(folder, spoilt(state, then), VERSIONS["old"]) for key, then in evil.items()}}


def outputs(folder, made):
    seeds = {}
    for name in ("evolve", "train"):
        seeds |= {**whole(made[name]), **in_versions(folder, name, part_of(made[name], []))}
    settings = part_of(made["evolve"], [])
    evil = {"empty": "", "no_deck": "\1\2", "unknown": "[mesh]\nlayer = 2\n", "long": "[output]\nfile = " + "x" * 5000,
            "number": 3, "list": ["[mesh]", "layers = 2"], "bytes": np.bytes_(b"[mesh]\nlayers = 2\n"),
            "latin": np.bytes_(b"\xe9" * 9)}
    return seeds | {name: scratch_file(folder, spoilt(settings, attribute("/", settings=text)), VERSIONS["old"])
                    for name, text in evil.items()}


def token_files(folder):
    """Token files: sound ones in all versions of the format, and evil ones."""
    ids = np.arange(12).reshape(3, 4) % 5
    sound = {"ids": ids, "lengths": np.array([4, 1, 2], "u1"), "labels": np.array([0, 1, 1]), "segments": ids % 2}
    words = np.array(["<unk>", "the", "ő", "", "of"], object)

    def write(arrays, **how):
        def change(file):
            for name, values in arrays.items():
                file.create_dataset(name, data=values, **(how if np.ndim(values) else {}))
        return change

    def named(file):
        write(sound)(file)
        file.create_dataset("words", data=words, dtype=h5py.string_dtype())

    found = {**in_versions(folder, "ids", write(sound)), **in_versions(folder, "words", named),
             **in_versions(folder, "gzip", write(sound, chunks=True, compression="gzip")),
             **in_versions(folder, "features", write({"features": np.linspace(0, 1, 12).reshape(2, 3, 2)}, chunks=True)),
             **in_versions(folder, "splits", write({"train/ids": ids, "test/ids": ids[:2] + 1}))}
    virtual = h5py.VirtualLayout((3, 4), "i8")
    virtual[:] = h5py.VirtualSource("elsewhere.h5", "x", (3, 4))
    evil = {"soft": put("ids", h5py.SoftLink("/segments")), "external": put("ids", h5py.ExternalLink("elsewhere.h5", "/x")),
            "elsewhere": empty("ids", (3, 4), "i8", external=[("elsewhere", 0, 96)]), "none": put("ids", h5py.Empty("i8")),
            "sparse": empty("ids", (1 << 40, 1 << 20), "i8", chunks=(8, 8)), "flag": put("ids", ids > 2),
            "wide": put("ids", ids.astype("u8") + 2**63), "vocabulary": attribute("ids", vocabulary=2**40),
            "group": lambda file: [file.__delitem__("ids"), file.create_group("ids")],
            "half": put("features", np.ones((1, 2, 3), "f2")), "file_group": put("train", 1.0)}
    found |= {name: scratch_file(folder, spoilt(write(sound), then), VERSIONS["old"]) for name, then in evil.items()}
    return found | {"virtual": scratch_file(folder, spoilt(write(sound), put("ids", virtual)), VERSIONS["new"])}


def seeds(made, folder):
    """`made`: {evolve, train, evolve.checkpoint, train.checkpoint: path of the program's file}."""
    evolve, train = (checkpoints(folder, made[name + ".checkpoint"], name) for name in ("evolve", "train"))
    kinds = {"model": models(folder, made), "words": lists_of_words(folder, made), "evolve_checkpoint": evolve,
             "tokens": token_files(folder), "train_checkpoint": train, "output": outputs(folder, made)}
    kinds["compared"] = {**whole(made["train"]), **in_versions(folder, "train", part_of(made["train"], ["model"]))}
    kinds["checkpoint"] = {**{"e_" + name: content for name, content in evolve.items()},
                           **{"t_" + name: content for name, content in train.items()}}
    kinds["hdf5"] = {f"{kind}_{name}": content for kind in ("model", "words", "checkpoint")
                     for name, content in kinds[kind].items()}
    return kinds
