"""Small made-up archives in the formats of Omniglot (a zip of drawings) and 20 Newsgroups (a tar.gz of posts), sound or forged."""

import gzip
import io
import struct
import tarfile
import zlib

from made_up_images import idx

ZIP, TAR = "images_background.zip", "20news-bydate.tar.gz"
IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
GROUPS = """alt.atheism comp.graphics comp.os.ms-windows.misc comp.sys.ibm.pc.hardware comp.sys.mac.hardware comp.windows.x
misc.forsale rec.autos rec.motorcycles rec.sport.baseball rec.sport.hockey sci.crypt sci.electronics sci.med sci.space
soc.religion.christian talk.politics.guns talk.politics.mideast talk.politics.misc talk.religion.misc""".split()


def png(width=105, height=105):
    """White, one bit per pixel."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = (b"\0" + b"\xff" * ((width + 7) // 8)) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def zip_of(members):
    """A zip of {name: content} or {name: (content, false header values)}, which Python's zipfile would not write."""
    body = table = b""
    for name, content in members.items():
        content, forged = content if isinstance(content, tuple) else (content, {})
        true = {"flags": 0, "method": 0, "crc": zlib.crc32(content), "packed": len(content), "size": len(content),
                "mode": 0o100644, "place": len(body)}
        is_ = {**true, **forged}
        name = name.encode()
        head = struct.pack("<HHHHHIIIHH", 20, is_["flags"], is_["method"], 0, 33, is_["crc"], is_["packed"], is_["size"],
                           len(name), 0)
        table += b"PK\1\2\x14\3" + head + struct.pack("<HHHII", 0, 0, 0, is_["mode"] << 16, is_["place"]) + name
        body += b"PK\3\4" + head + name + content
    return body + table + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(table), len(body), 0)


DRAWINGS = {f"images_background/Greek/character01/0042_{number:02}.png": png() for number in range(1, 21)}
LAST = list(DRAWINGS)[-1]


def with_last(content, **forged):
    """All drawings, the last one with these bytes and these false header values."""
    return zip_of({**DRAWINGS, LAST: (content, forged)})


def posts(*splits, text=b"Subject: a\n\nsome words\n"):
    return {f"20news-bydate-{split}/{group}/7": text for split in splits or ("train", "test") for group in GROUPS}


def tar_of(members, kind=tarfile.REGTYPE):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, "elsewhere", len(content) if kind == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def tar_gz(*arguments, **named):
    return gzip.compress(tar_of(*arguments, **named))


def images(count=3):
    return idx(bytes(count * 784), count, 28, 28)
