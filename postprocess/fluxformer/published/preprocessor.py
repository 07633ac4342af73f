"""The preprocessor_config.json of a published model of images: what turns pixels into the numbers that the model was trained on."""

from __future__ import annotations

from dataclasses import dataclass

from fluxformer.published.config import Config


@dataclass(frozen=True)
class Preprocessor:
    """A model wants (pixel * factor - mean) / deviation, with mean and deviation of each channel.

    Attributes
    ----------
    factor : float
        1/255 for pixels from 0 to 255.
    mean, deviation : tuple of float
        A number for each channel.
    """
    factor: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def read_preprocessor(path: str, channels: int) -> Preprocessor:
    """Reads the file for a model of images with so many channels. Unfit if an entry is missing or impossible."""
    config = Config(path, "preprocessor_config.json")
    factor = config.number("rescale_factor", 1 / 255) if config.flag("do_rescale", True) else 1.0
    if factor <= 0:
        raise config.refuse("rescale_factor", "must be more than 0")
    if not config.flag("do_normalize", True):
        return Preprocessor(factor, (0.0,) * channels, (1.0,) * channels)
    mean, deviation = config.numbers("image_mean", channels), config.numbers("image_std", channels)
    if min(deviation) <= 0:
        raise config.refuse("image_std", "every number must be more than 0")
    return Preprocessor(factor, mean, deviation)
