"""Seeds: zip and tar archives, those of Omniglot and 20 Newsgroups among them."""

import gzip
import io
import os
import re
import struct
import tarfile
import zipfile

from corpus_images import drawing

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = b"Subject: some words\n\nwords of a post, 12 of them\n> quoted\n--\nsigned\n"


def groups():
    """The names of the newsgroups, from the source."""
    with open(os.path.join(HERE, "..", "..", "src", "data", "text", "newsgroups.hpp")) as stream:
        return re.findall(r'^    "([\w.-]+)",', stream.read(), re.M)


class Pipe(io.RawIOBase):
    """Cannot seek: sizes and checksums then follow the data."""

    def __init__(self):
        super().__init__()
        self.content = b""

    def writable(self):
        return True

    def write(self, portion):
        self.content += bytes(portion)
        return len(portion)


def zip_of(members, method=zipfile.ZIP_STORED, comment=b"", piped=False, large=False):
    stream = Pipe() if piped else io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.comment = comment
        for name, content in members.items():
            entry = zipfile.ZipInfo(name) if method == zipfile.ZIP_STORED else name
            with archive.open(entry, "w", force_zip64=large) as member:
                member.write(content)
    return stream.content if piped else stream.getvalue()


def zips():
    members = {"a/b/c_01.png": b"bytes " * 30, "a/": b"", "note": b"x", "a/empty": b""}
    odd = {".": b"x", "..": b"y", "/": b"", "../up": b"z", "a" * 300: b"long", "ő.png": b"no ASCII"}
    whole = zip_of(members)
    end = struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    encrypted = bytearray(whole)
    for place in (whole.index(b"PK\3\4") + 6, whole.index(b"PK\1\2") + 8):
        encrypted[place] |= 1
    return {"stored": whole, "deflated": zip_of(members, zipfile.ZIP_DEFLATED), "bzip2": zip_of(members, zipfile.ZIP_BZIP2),
            "lzma": zip_of(members, zipfile.ZIP_LZMA), "comment": zip_of(members, comment=b"PK\5\6" * 9), "odd": zip_of(odd),
            "piped": zip_of(members, zipfile.ZIP_DEFLATED, piped=True), "large": zip_of(members, large=True),
            "empty": zip_of({}), "encrypted": bytes(encrypted), "many": zip_of({str(k): b"" for k in range(60)}),
            "bomb": zip_of({"zeros": bytes(1 << 24)}, zipfile.ZIP_DEFLATED), "end_only": b"PK\5\6" + end,
            "self_extracting": b"MZ" + bytes(200) + whole}


def omniglots():
    drawings = {f"images_background/{letters}/character01/00{k:02}_{k:02}.png": drawing(k)
                for letters in ("Greek", "Latin") for k in range(1, 21)}
    one = {name: content for name, content in drawings.items() if "Greek" in name}
    more = {".": b"", "__MACOSX/._x.png": b"shadow", "images_background/": b"", "images_background/.hidden.png": b""}
    return {"one": zip_of(one), "two": zip_of(drawings), "deflated": zip_of(one, zipfile.ZIP_DEFLATED),
            "more": zip_of({**more, **one}), "few": zip_of(dict(list(one.items())[:3])),
            "piped": zip_of(one, zipfile.ZIP_DEFLATED, piped=True)}


def tar_of(members, form=tarfile.USTAR_FORMAT, kinds=(), headers=None):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, pax_headers=headers) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for kind in kinds:
            entry = tarfile.TarInfo("kind")
            entry.type, entry.linkname = kind, "elsewhere"
            archive.addfile(entry)
    return stream.getvalue()


def forged_size(text):
    """A tar whose first header has this text as size."""
    whole = bytearray(tar_of({"a/b": b"content"}))
    whole[124:136] = text.ljust(12, b"\0")
    return bytes(whole)


def sparse():
    """GNU's old form: a map of the parts that are stored."""
    entry = tarfile.TarInfo("sparse")
    entry.type, entry.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386:386 + 24] = b"00000000000\0" + b"00000001000\0"
    header[483:495] = b"00077777777\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"x" * 512 + bytes(1024)


def tars():
    members = {"20news-bydate-train/sci.med/7": TEXT, "note": b"x" * 700, "deep/" * 40 + "8": b"long name", "empty": b""}
    short = {"20news-bydate-train/sci.med/7": TEXT, "note": b"x" * 700}
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    pax = {"comment": "c" * 100, "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "hdrcharset": "BINARY"}
    return {"ustar": tar_of(short), "gnu": tar_of(members, tarfile.GNU_FORMAT), "pax": tar_of(members, tarfile.PAX_FORMAT),
            "kinds": tar_of(short, kinds=kinds), "odd": tar_of({".": b"x", "/": b"y", "..": b"z", "a//b/./c": b"w"}),
            "pax_more": tar_of(members, tarfile.PAX_FORMAT, headers=pax), "empty": tar_of({}), "nothing": b"",
            "negative": forged_size(b"\xff" * 12), "binary": forged_size(b"\x80" + bytes(7) + b"\x7f\xff\xff\xff"),
            "huge": forged_size(b"777777777777"), "sparse": sparse(), "v7": tar_of(short).replace(b"ustar\x0000", bytes(8)),
            "non_ascii": tar_of({"ő/é": b"x"}, tarfile.PAX_FORMAT), "text": b"no tar\n" * 200}


def newsgroups():
    posts = {f"20news-bydate-{split}/{group}/{number}": TEXT for split in ("train", "test") for group in groups()
             for number in (7,)}
    posts["20news-bydate-train/sci.med/8"] = b""
    posts["20news-bydate-train/sci.med/note"] = b"no post"
    return {"ustar": tar_of(posts), "gnu": tar_of(posts, tarfile.GNU_FORMAT), "pax": tar_of(posts, tarfile.PAX_FORMAT),
            "train_only": tar_of({name: text for name, text in posts.items() if "train" in name}),
            "unknown_group": tar_of({**posts, "20news-bydate-train/comp.lang.c/1": b"x"}),
            "bytes": tar_of({name: bytes(range(256)) for name in posts})}


def seeds():
    sound = tars()
    return {"zip": zips(), "omniglot": omniglots(), "tar": sound, "newsgroups": newsgroups(),
            "tar_gz": {**{name: gzip.compress(content) for name, content in sound.items()},
                       **{name + "_stored": gzip.compress(sound[name], 0) for name in ("ustar", "gnu", "pax", "sparse")},
                       "no_gzip": sound["ustar"]}}
