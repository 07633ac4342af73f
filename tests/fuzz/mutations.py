"""Mutations of inputs, each keyed by a `random.Random`: bytes, decks (lines of INI), HDF5 files (objects and attributes).

Each returns a few words on what was done, for the report.
"""

import gzip
import struct

import h5py
import numpy as np

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 32767, 65535, 10**6, 10**9, 2**31 - 1, 2**31, -2**31, 2**32 - 1, 2**32, 2**53 + 1,
           2**63 - 1, -2**63)
WORDS = ("", "-1", "0", "1", "2", "1e9", "1000000007", "99999999999999999999", "-99999999999999999999", "1e-320", "1e400", "-1e400",
         "nan", "inf", "0x10", "1.5", "1,5", "true", "false", "on", "no", "auto", "\u00e9", "a" * 5000, "%s%n", "../../x", "/dev/zero",
         "a b", "\"", "#", ";", "=", "[x]", "\t", "\x01")
# Of the right type, so that what follows the reading of a deck is reached too.
SOUND = {"whole number": (0, 1, 2, 3, 7, 8, 64, 1000, 10**6, 10**9, 2**31 - 1), "number": (0, 1e-300, 1e-9, 0.5, 1, 2, 1e9, 1e300),
         "flag": ("true", "false")}
# PETSc's viewers open files for writing and sockets, some options start programs or end the run.
PETSC = ("log_view = :canary.txt", "ts_monitor = ascii:canary.txt", "options_view = :canary.txt", "log_trace = canary.txt", "info = canary.txt",
         "ts_view = ascii:canary.txt", "options_file = canary.txt", "malloc_dump =", "on_error_attach_debugger =", "log_xml = canary.txt",
         "history = canary.txt", "viewer_binary_filename = canary.txt", "ts_view_solution = binary:canary.txt", "python = canary.py",
         "stop_for_debugger =", "vec_view = canary.txt", "citations = canary.txt", "memory_view =", "ts_type = none", "mat_type = nothing")
# PETSc's methods, many of which need more than the program has, and numbers for them.
OF_METHODS = (-1, 0, 1, 2, 7, 1000, 0.5, 1e-300, "nan", "many", "")
METHODS = {
    "ts_type": "alpha alpha2 arkimex basicsymplectic beuler bdf cn discgrad euler eimex glle glee irk mimex mprk pseudo rk rosw ssp theta".split(),
    "snes_type": ("newtonls newtontr newtontrdc nrichardson ksponly ksptransposeonly vinewtonrsls vinewtonssls ngmres qn ncg fas ms nasm anderson "
                  "aspin composite patch ngs").split(),
    "ksp_type": ("richardson chebyshev cg pipecgrr cgne stcg cgnr fgmres gmres lgmres dgmres pgmres tcqmr bcgs ibcgs fbcgsr bcgsl pipebcgs tfqmr "
                 "lsqr preonly qcg bicg minres lcd gcr pipegcr cgls fetidp tsirm").split(),
    "pc_type": ("none jacobi sor lu qr bjacobi mg eisenstat ilu asm gasm ksp composite redundant spai nn pbjacobi mat hypre fieldsplit ml galerkin "
                "bfbt lsc redistribute svd gamg lmvm kaczmarz telescope patch hmg deflation").split(),
    "ts_adapt_type": ("none", "basic", "dsp", "cfl", "glee"), "ts_exact_final_time": ("stepover", "interpolate", "matchstep", "x"),
    "snes_linesearch_type": ("bt", "basic", "l2", "cp", "nleqerr", "x"), "ksp_pc_side": ("left", "right", "symmetric"),
    "ksp_norm_type": ("none", "natural", "unpreconditioned"), "snes_mf": ("",), "snes_mf_operator": ("",), "snes_fd": ("",), "snes_fd_color": ("",),
    **dict.fromkeys(("ts_dt", "ts_max_steps", "ts_rtol", "ts_theta_theta", "ts_bdf_order", "ts_ssp_nstages", "ts_alpha_radius", "ts_adapt_clip",
                     "ksp_max_it", "ksp_rtol", "ksp_gmres_restart", "snes_max_it", "snes_rtol", "snes_lag_jacobian"), OF_METHODS)}


def bytes_mutated(dice, content, most=4):
    """(mutated bytes, words)."""
    content, done = bytearray(content), []
    for _ in range(dice.randint(1, most)):
        name, change = dice.choice(list(CHANGES.items()))
        change(dice, content)
        done.append(name)
    return bytes(content), ", ".join(done)


def _somewhere(dice, content, room=1):
    return dice.randrange(max(1, len(content) - room + 1))


def _flip(dice, content):
    for _ in range(dice.choice((1, 1, 1, 2, 8, 64))):
        if content:
            content[_somewhere(dice, content)] ^= 1 << dice.randrange(8)


def _truncate(dice, content):
    del content[_somewhere(dice, content):]


def _insert(dice, content):
    place, length = _somewhere(dice, content), dice.choice((1, 2, 4, 16, 100, 4096))
    begin = _somewhere(dice, content, length)
    content[place:place] = dice.choice((dice.randbytes(length), bytes(length), b"\xff" * length, content[begin:begin + length]))


def _number(dice, content):
    form = dice.choice(("<", ">")) + dice.choice("bBhHiIqQ")
    size, number = struct.calcsize(form), dice.choice(NUMBERS)
    place = _somewhere(dice, content, size)
    content[place:place + size] = (number % (1 << 8 * size)).to_bytes(size, "little" if form[0] == "<" else "big")


def _remove(dice, content):
    place = _somewhere(dice, content)
    del content[place:place + dice.choice((1, 2, 8, 100, 4096))]


def _blank(dice, content):
    place, length = _somewhere(dice, content), dice.choice((1, 8, 64, 512))
    content[place:place + length] = bytes([dice.choice((0, 255, 32))]) * min(length, max(0, len(content) - place))


CHANGES = {"bits flipped": _flip, "truncated": _truncate, "inserted": _insert, "a number": _number, "removed": _remove, "blanked": _blank}


def packed_mutated(dice, content):
    """The same for gzip: half of the time what is packed."""
    if dice.random() < 0.5:
        return bytes_mutated(dice, content)
    inner, words = bytes_mutated(dice, gzip.decompress(content))
    return gzip.compress(inner, 1), f"packed: {words}"


def deck_mutated(dice, content, keys):
    """(mutated deck, words); `keys` are those of its experiment as the program describes them."""
    if dice.random() < 0.15:
        return bytes_mutated(dice, content, 2)
    lines, done = content.decode("utf-8", "replace").splitlines(), []
    for _ in range(dice.randint(1, 2)):
        place = dice.randrange(len(lines) + 1)
        kind = dice.choice(("value", "key", "key", "key", "petsc", "remove", "double", "line"))
        if kind == "value" and place < len(lines) and "=" in lines[place]:
            lines[place] = f"{lines[place].partition('=')[0]}= {dice.choice(WORDS)}"
        elif kind == "key":
            entry = dice.choice(keys)
            section, _, key = entry["name"].partition(".")
            word = dice.choice(entry.get("choices") or SOUND.get(entry["type"], WORDS)) if dice.random() < 0.6 else dice.choice(WORDS)
            lines += [f"[{section}]", f"{key} = {word}"]
        elif kind == "petsc":
            lines += ["[petsc]", dice.choice(PETSC)]
        elif kind == "remove":
            del lines[place:place + 1]
        elif kind == "double":
            lines[place:place] = lines[place:place + dice.choice((1, 3, 1000))]
        else:
            lines.insert(place, dice.choice(("[", "[]", "]", "=", "= 1", "x", "x = 1", "[petsc]", "[a.b]", "a.b = c", "#" * 70000, "\ufeff", "\0")))
            kind = f"line {lines[place][:20]!r}"
        done.append(kind)
    return (dice.choice(("\n", "\n", "\n", "\r\n")).join(lines) + dice.choice(("\n", ""))).encode("utf-8", "surrogateescape"), ", ".join(done)


def methods_chosen(dice, content):
    """(deck with some methods of PETSc, words)."""
    names = dice.sample(("ts_type", "snes_type", "ksp_type", "pc_type"), dice.choice((0, 1, 1, 2)))
    names += dice.sample(sorted(METHODS), dice.choice((0, 1, 2)))
    chosen = {name: dice.choice(METHODS[name]) for name in names}
    if chosen and "ts_type" not in chosen:  # the solvers are those of implicit methods
        chosen["ts_type"] = dice.choice(("beuler", "bdf"))
    words = [f"{name} = {value}" for name, value in chosen.items()]
    return content + "\n".join(["", "[petsc]", *words, ""]).encode(), ", ".join(words)


def hdf5_mutated(dice, path, keys):
    """Mutates the file in place; words on what was done."""
    if dice.random() < 0.3:
        with open(path, "rb") as stream:
            content, words = bytes_mutated(dice, stream.read())
        with open(path, "wb") as stream:
            stream.write(content)
        return words
    done = []
    with h5py.File(path, "r+") as file:
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            done.append(_object_mutated(dice, file, keys))
    return ", ".join(done)


def _object_mutated(dice, file, keys):
    places = ["/"]
    file.visit(lambda name: places.append("/" + name) and None)
    special = [name for name in places if name.startswith(("/model", "/state", "/time", "/step", "/epoch", "/scaling", "/layers"))]
    place = dice.choice(special if special and dice.random() < 0.7 else places)
    item = file[place]
    if len(item.attrs) and (place == "/" or dice.random() < 0.5):
        name = "settings" if "settings" in item.attrs and dice.random() < 0.3 else dice.choice(list(item.attrs))
        return _attribute_mutated(dice, item, name, keys)
    return _dataset_mutated(dice, file, place) if place != "/" else "nothing"


def _attribute_mutated(dice, item, name, keys):
    where = f"{item.name}@{name}"
    value = item.attrs[name]
    if name in ("settings", "deck") and isinstance(value, str) and dice.random() < 0.8:
        deck, words = deck_mutated(dice, value.encode(), keys)
        item.attrs[name] = np.bytes_(deck) if b"\0" in deck else deck.decode("utf-8", "replace")
        return f"{where}: {words}"
    values = [np.int64(number) for number in NUMBERS] + [
        np.float64(1.5), np.float64("nan"), np.float64("inf"), "", "true", "no such word", "x" * 60000, np.bytes_(b"\xff\xfe"), np.array([1, 2]),
        np.array([], dtype=float), np.array(["a", "b"], dtype=h5py.string_dtype()), h5py.Empty("f8"), np.array((1, 2.0), dtype="i4,f8"), None]
    new = dice.choice(values)
    try:
        del item.attrs[name]
        if new is not None:
            item.attrs[name] = new
    except (OSError, RuntimeError, ValueError):
        return f"{where} is left out"
    return f"{where} = {repr(new)[:40]}"


def _dataset_mutated(dice, file, place):
    old = file[place]
    shape, kind = (old.shape or (), old.dtype) if isinstance(old, h5py.Dataset) else ((3,), np.dtype(float))
    if np.prod(shape, dtype=float) > 1e6:
        shape = (3,)  # of a mutation before this one: what replaces it is made in memory
    change = dice.choice(list(REPLACED))
    try:
        del file[place]
        REPLACED[change](dice, file, place, shape, kind)
    except (OSError, RuntimeError, ValueError, TypeError, KeyError):
        return f"{place} is left out"
    return f"{place}: {change}"


def _numbers(dice, shape, values):
    array = np.random.default_rng(dice.randrange(2**32)).standard_normal(shape)
    if array.size:
        array.reshape(-1)[dice.randrange(array.size)] = dice.choice(values)
    return array


def _external(dice, file, place, shape, kind):
    file.create_dataset(place, shape=shape, dtype=kind, external=[("secret.bin", 0, h5py.h5f.UNLIMITED)])


def _virtual(dice, file, place, shape, kind):
    layout = h5py.VirtualLayout(shape=shape or (1,), dtype=kind)
    layout[...] = h5py.VirtualSource("secret.h5", "numbers", shape=shape or (1,))
    file.create_virtual_dataset(place, layout)


def _huge(dice, file, place, shape, kind):
    file.create_dataset(place, shape=dice.choice(((10**12,), (10**6, 10**6), (2**31 + 1,))), dtype="f8", chunks=True)


def _cycle(dice, file, place, shape, kind):
    file[place] = file["/"]


def _put(make):
    def change(dice, file, place, shape, kind):
        file[place] = make(dice, shape)
    return change


REPLACED = {
    "left out": lambda *_: None,
    "other numbers": _put(lambda dice, shape: _numbers(dice, shape, (0.0, -1.0, 1e-300))),
    "odd numbers": _put(lambda dice, shape: _numbers(dice, shape, (np.nan, np.inf, -np.inf, 1e308))),
    "whole numbers": _put(lambda dice, shape: np.full(shape, dice.choice(NUMBERS), dtype=np.int64)),
    "float32": _put(lambda dice, shape: np.ones(shape, dtype=np.float32)),
    "complex": _put(lambda dice, shape: np.ones(shape, dtype=complex)),
    "words": _put(lambda dice, shape: np.full(shape, b"word", dtype=h5py.string_dtype())),
    "longer": _put(lambda dice, shape: np.ones(tuple(size + 1 for size in shape) or (2,))),
    "shorter": _put(lambda dice, shape: np.ones(tuple(max(0, size - 1) for size in shape))),
    "turned": _put(lambda dice, shape: np.ones(shape[::-1])),
    "one more axis": _put(lambda dice, shape: np.ones((*shape, 1))),
    "empty": _put(lambda dice, shape: np.ones((0,) * max(1, len(shape)))),
    "a scalar": _put(lambda dice, shape: 1.0),
    "null": _put(lambda dice, shape: h5py.Empty("f8")),
    "a group": lambda dice, file, place, shape, kind: file.create_group(place),
    "a dangling link": _put(lambda dice, shape: h5py.SoftLink("/nowhere")),
    "a link to itself": lambda dice, file, place, shape, kind: file.__setitem__(place, h5py.SoftLink(place)),
    "a link to another file": _put(lambda dice, shape: h5py.ExternalLink("secret.h5", "numbers")),
    "external storage": _external, "virtual": _virtual, "huge": _huge, "a cycle": _cycle,
}
