"""Writes files in the format safetensors, sound ones and damaged ones; shares nothing with the package's own reader and writer."""

import json
import struct

import numpy as np

KINDS = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int64): "I64", np.dtype(bool): "BOOL"}


def bfloat16(array):
    """The upper halves of the float32 numbers (cut, not rounded), as uint16."""
    return (np.asarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def parts_of(tensors, kinds=None):
    """(header, numbers) of a file that holds these arrays; `kinds` names those that are not what NumPy says."""
    header, contents, end = {}, [], 0
    for name, array in tensors.items():
        content = np.ascontiguousarray(array).tobytes()
        kind = (kinds or {}).get(name) or KINDS[array.dtype]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + len(content)]}
        contents.append(content)
        end += len(content)
    return header, b"".join(contents)


def write(path, header, numbers, length=None):
    """A file of this header (an object, or the text itself) and these numbers; `length`: what the first 8 bytes say."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text) if length is None else length) + text + numbers)


def save(path, tensors, kinds=None):
    """A sound file."""
    write(path, *parts_of(tensors, kinds))
