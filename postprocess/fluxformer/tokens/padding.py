"""Padding of samples of words: masks of tokenisers become lengths, and what looks like padding without a length is refused.

Padding stands behind the real tokens. A token file says how long each sample is, not which tokens count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluxformer.hdf5_file import RunError

PADS = ("[pad]", "<pad>", "<|pad|>", "<|padding|>")  # words for padding alone, in small letters
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")  # the end of a text, with which some tokenisers pad
RIGHT = "padding stands on the right (tokenizer.padding_side = 'right')"


def is_padding(word: str) -> bool:
    """True for a word that stands for padding and nothing else."""
    return word.lower() in PADS


def mask_lengths(what: str, mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The number of real tokens of each sample, from the mask of a tokeniser.

    Parameters
    ----------
    what : str
        Name of the mask, for messages.
    mask : array
        Mask [sample, token]: 1 (or True) for real tokens, 0 for padding behind them.
    shape : (int, int)
        Number of samples and tokens.

    Raises
    ------
    RunError
        If it is not of this shape, holds other numbers, has a sample without real tokens, or one with padding before a real token.
    """
    if mask.shape != shape:
        raise RunError(f"{what} has shape {mask.shape}, expected {shape}")
    if mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise RunError(f"{what} holds other numbers than 1 for a real token and 0 for padding")
    real = mask.astype(bool)
    lengths = real.sum(axis=1)
    if (odd := np.flatnonzero(lengths == 0)).size:
        raise RunError(f"{what}: sample {odd[0]} has no real token")
    if (odd := np.flatnonzero((real != (np.arange(shape[1]) < lengths[:, None])).any(axis=1))).size:
        row = real[odd[0]]
        if not row[0]:
            raise RunError(f"{what}: sample {odd[0]} is left-padded: it begins with {int(row.argmax())} tokens of padding. Padding on the left is not "
                           f"read: {RIGHT}")
        raise RunError(f"{what}: token {int(row.argmin())} of sample {odd[0]} is masked, and real ones follow: only padding at the end can be left out")
    return lengths


def _run(ids: np.ndarray, number: int) -> np.ndarray:
    """With how many tokens of this number each sample begins."""
    other = ids != number
    return np.where(other.any(axis=1), other.argmax(axis=1), ids.shape[1])


def _backwards(ids: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
    """The samples from their last token on; -1 behind the first one of shorter ones."""
    places = (np.full(len(ids), ids.shape[1]) if lengths is None else lengths)[:, None] - 1 - np.arange(ids.shape[1])
    return np.where(places >= 0, np.take_along_axis(ids, places.clip(min=0), axis=1), -1)


def refuse_padding(place: str, ids: np.ndarray, lengths: np.ndarray | None, words: Sequence[str], known: bool) -> None:
    """Refuses padding that would count as words.

    Parameters
    ----------
    place : str
        What stands in front of "ids" in messages.
    ids : array of whole numbers
        Samples [sample, token].
    lengths : array of whole numbers, or None
        Tokens of each sample, [sample] (default: all).
    words : sequence of str
        The vocabulary.
    known : bool
        True if whoever made the samples says which tokens are padding; False: `lengths` are those of lists, or None.

    Raises
    ------
    RunError
        If real words follow a word for padding at the beginning of samples; and without lengths if samples end with one, or if some end with
        more marks of the end of a text than others.
    """
    real = ids.shape[1] if lengths is None else lengths
    for number, word in enumerate(words):
        pad, mark = is_padding(word), word.lower() in ENDS
        if not pad and not (mark and not known):
            continue
        ends, begins = _run(_backwards(ids, lengths), number), _run(ids, number)
        # One mark at the end is that of the text if all samples have one, if marks stand between texts (samples are blocks of a long text),
        # or if lists of different lengths were given, which are not padded.
        own = ends.min() > 0 or (ids == number).sum() > (ends + begins).sum() or lengths is not None and lengths.min() < lengths.max()
        padded = ends > (1 if mark and own else 0)
        if not known and padded.any():
            first = int(padded.argmax())
            raise RunError(f"{place}ids: {padded.sum()} of {len(ids)} samples end with {word!r} (sample {first}: {ends[first]} times), and nothing says that "
                           "this is padding: give attention_mask or lengths, the number of real tokens of each sample")
        padded = (begins > (0 if pad else 1)) & (begins < real)
        if padded.any():
            raise RunError(f"{place}ids: {padded.sum()} of {len(ids)} samples begin with {word!r} (sample {int(padded.argmax())}). "
                           f"Padding on the left is not read: {RIGHT}")


def padding_note(place: str, ids: np.ndarray) -> str:
    """A warning if samples without words and lengths seem to be padded: some of several end with the same number twice or more; else ""."""
    numbers, counts = np.unique(ids[(ids[:, -1:] == ids[:, -2:-1]).any(axis=1), -1], return_counts=True)
    padded = int(counts.max(initial=0))
    if padded == 0 or len(ids) == 1:
        return ""
    number = numbers[counts.argmax()]
    return (f"{place}ids: {padded} of {len(ids)} samples end with two or more of the number {number}, which count as words; if that is padding, "
            "give attention_mask or lengths")
