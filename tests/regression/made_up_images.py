"""Small synthetic data in MNIST's file format; `write_mnist`: such as a network learns in a few steps."""

import os
import struct

import numpy as np


def idx(content, *sizes):
    """An IDX file of unsigned bytes."""
    return struct.pack(f">{len(sizes) + 1}I", 0x800 + len(sizes), *sizes) + content


def write_mnist(folder, training, test, seed=0):
    """Noise with a bright bar in columns 2k + 4 and 2k + 5 for class k. Returns the labels of the test images."""
    os.makedirs(folder, exist_ok=True)
    random = np.random.default_rng(seed)
    for split, count in (("train", training), ("t10k", test)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = random.integers(0, 60, (count, 28, 28), dtype=np.uint8)
        for image, label in zip(images, labels):
            image[:, 2 * label + 4:2 * label + 6] += 180
        with open(os.path.join(folder, f"{split}-images-idx3-ubyte"), "wb") as stream:
            stream.write(idx(images.tobytes(), *images.shape))
        with open(os.path.join(folder, f"{split}-labels-idx1-ubyte"), "wb") as stream:
            stream.write(idx(labels.tobytes(), *labels.shape))
    return labels


def rows_of_test_images(folder):
    """[image, row, pixel] as the program reads them."""
    with open(os.path.join(folder, "t10k-images-idx3-ubyte"), "rb") as stream:
        images = np.frombuffer(stream.read()[16:], np.uint8).reshape(-1, 28, 28)
    return (images / 255 - 0.1307) / 0.3081  # mean and deviation of MNIST's pixels
