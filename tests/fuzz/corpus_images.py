"""Seeds: IDX files and PNG pictures."""

import gzip
import struct
import zlib


def idx(content, *shape):
    return struct.pack(f">I{len(shape)}I", 0x800 + len(shape), *shape) + content


def idx_files():
    images = idx(bytes(k % 256 for k in range(2 * 784)), 2, 28, 28)
    labels = idx(b"\3\4", 2)
    return {"images": images, "images.gz": gzip.compress(images), "images_stored.gz": gzip.compress(images, 0), "labels": labels,
            "labels.gz": gzip.compress(labels), "small": idx(b"abcdefgh", 2, 2, 2), "none": idx(b"", 0, 28, 28),
            "overflow": idx(b"", 1 << 31, 1 << 31, 4), "many": idx(b"", 0xFFFFFFFF), "cut": images[:-1], "long": images + b"x",
            "reals": b"\0\0\x0d\3" + images[4:], "many.gz": gzip.compress(idx(bytes(1 << 16), 1 << 16)), "header": images[:10],
            "bomb.gz": gzip.compress(idx(bytes(1 << 20), 1 << 20, 28, 28))}


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, depth, colour, *, between=(), interlaced=False, level=6, parts=1, rows=None):
    """A picture of some pattern; `between`: chunks before the pixels."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]

    def passes():
        if not interlaced:
            return [(width, height)]
        adam7 = ((8, 8, 0, 0), (8, 8, 4, 0), (4, 8, 0, 4), (4, 4, 2, 0), (2, 4, 0, 2), (2, 2, 1, 0), (1, 2, 0, 1))
        return [((width - x + dx - 1) // dx, (height - y + dy - 1) // dy) for dx, dy, x, y in adam7]

    if rows is None:
        rows = b"".join(bytes([row % 5]) + bytes((row * 7 + k * 13) % 256 for k in range((wide * depth * samples + 7) // 8))
                        for wide, high in passes() if wide for row in range(high))
    pixels = zlib.compress(rows, level)
    step = -(-len(pixels) // parts)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)) +
            b"".join(chunk(*one) for one in between) +
            b"".join(chunk(b"IDAT", pixels[k:k + step]) for k in range(0, len(pixels), step)) + chunk(b"IEND", b""))


def drawing(number=0):
    """As those of Omniglot: 105 x 105, one bit per pixel."""
    row = b"\0" + b"\xff" * 7 + bytes([255 - number]) + b"\xff" * 6
    return png(105, 105, 1, 0, rows=row * 105, level=9)


def pngs():
    palette = (b"PLTE", bytes(k % 256 for k in range(48)))
    gamma, ticks = (b"gAMA", struct.pack(">I", 45455)), (b"pHYs", struct.pack(">IIB", 2835, 2835, 1))
    profile = (b"iCCP", b"icc\0\0" + zlib.compress(bytes(132)))
    text = (b"tEXt", b"Title\0a picture"), (b"zTXt", b"Comment\0\0" + zlib.compress(b"text " * 20))
    forms = {f"{colour}_{depth}{'i' if interlaced else ''}": (13, 7, depth, colour, interlaced)
             for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16)))
             for depth in depths for interlaced in (False, True)}
    pictures = {name: png(wide, high, depth, colour, interlaced=interlaced, between=[palette] if colour == 3 else [])
                for name, (wide, high, depth, colour, interlaced) in forms.items()}
    pictures |= {
        "drawing": drawing(), "stored": png(9, 9, 8, 0, level=0), "parts": png(20, 20, 8, 2, parts=5),
        "gamma": png(5, 5, 8, 0, between=[gamma, ticks]), "profile": png(5, 5, 8, 2, between=[profile]),
        "text": png(5, 5, 8, 0, between=text), "transparent": png(5, 5, 8, 3, between=[palette, (b"tRNS", b"\0\x80")]),
        "grey_key": png(5, 5, 8, 0, between=[(b"tRNS", b"\0\1")]), "background": png(5, 5, 8, 4, between=[(b"bKGD", b"\0\1")]),
        "colours": png(5, 5, 8, 2, between=[(b"cHRM", struct.pack(">8I", *range(1, 9))), (b"sRGB", b"\1"),
                                            (b"sBIT", b"\5\6\5")]),
        "wide": png(4096, 1, 1, 0), "too_wide": png(4097, 1, 1, 0), "huge": png(1, 1, 8, 0).replace(
            struct.pack(">II", 1, 1), struct.pack(">II", 0x7FFFFFFF, 0x7FFFFFFF)), "no_pixels": png(8, 8, 8, 0, rows=b""),
        "no_palette": png(8, 8, 8, 3), "bomb": png(4096, 4096, 1, 0, rows=bytes(513 * 4096), level=9),
    }
    return pictures
