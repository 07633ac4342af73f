"""Small made-up training files, as `fluxformer train` writes them (docs/reference/output-format.md)."""

import h5py
import numpy as np

STEPS = ("loss", "depth_loss", "penalty", "batch_accuracy", "gradient_norm", "learning_rate", "samples_per_second")


def write_training(path, epochs=6, per_epoch=20, tau=2.0, seed=0, validation=True, baseline=None, ngrams=None, byte_count=np.nan, **attributes):
    """A loss that decays as exp(-epochs/tau) with noise, `epochs` of `per_epoch` steps of 32 samples; half an epoch more if
    the status is running. `ngrams`: perplexities of next words by Kneser-Ney and Witten-Bell and accuracies, each by order, and
    `byte_count` bytes of a word."""
    noise = np.random.default_rng(seed)
    running = attributes.get("status") == "running"
    step = np.arange(epochs * per_epoch + (per_epoch // 2 if running else 0))
    done = step / per_epoch
    loss = (0.05 + 2.25 * np.exp(-done / tau)) * np.exp(0.25 * noise.standard_normal(len(step)))
    whole = np.arange(1, epochs + 1)
    mean = loss[:epochs * per_epoch].reshape(epochs, -1).mean(axis=1) if epochs else np.zeros(0)
    nothing = np.full(epochs, np.nan)
    columns = {
        "loss": loss, "depth_loss": 0 * loss, "penalty": 0 * loss, "batch_accuracy": np.exp(-loss / 2),
        "gradient_norm": 0.3 + loss * np.exp(0.4 * noise.standard_normal(len(step))),
        "learning_rate": 1e-3 * np.minimum((step + 1) / per_epoch, 0.5 * (1 + np.cos(np.pi * step / len(step)))),
        "samples_per_second": 5000 + 300 * noise.standard_normal(len(step)),
        "train_loss": mean, "train_accuracy": np.exp(-mean / 2),
        "validation_loss": 1.1 * mean + 0.02 if validation else nothing,
        "validation_accuracy": np.exp(-mean / 1.8) if validation else nothing,
        "test_loss": 1.15 * mean + 0.03, "test_accuracy": np.exp(-mean / 1.7), "wall_time": 3.5 * whole,
    }
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs.update({
            "schema_version": 1, "experiment": "train", "status": "done", "git_revision": "0123456789abcdef", "git_dirty": "no",
            "command_line": "bin/fluxformer train input/train/digits.ini", "seed": 7, "ranks": 2,
            "settings": "[train]\nbatch = 32\n", **attributes})
        for name, values in (("step", step), ("epoch", whole)):
            file.create_dataset(name, data=values, maxshape=(None,), chunks=(64,)).make_scale(name)
        for name, values in columns.items():
            data = file.create_dataset("training/" + name, data=values, maxshape=(None,), chunks=(64,))
            data.dims[0].attach_scale(file["step" if name in STEPS else "epoch"])
        file["training"].attrs.update({"samples": 32 * per_epoch + 5, "test_samples": 200, "trained_parameters": 123456})
        if ngrams is not None:
            file.create_dataset("ngram_order", data=np.arange(1, len(ngrams[0]) + 1)).make_scale("ngram_order")
            for name, values in zip(("kneser_ney_perplexity", "witten_bell_perplexity", "ngram_accuracy"), ngrams):
                file.create_dataset("training/" + name, data=values).dims[0].attach_scale(file["ngram_order"])
            for split in ("validation", "test"):
                for name, values in (("perplexity", np.exp(columns[split + "_loss"])), ("bits_per_byte", columns[split + "_loss"] / np.log(2) / byte_count)):
                    file.create_dataset(f"training/{split}_{name}", data=values).dims[0].attach_scale(file["epoch"])
        if baseline is not None:
            file["training"].attrs["baseline_accuracy"] = baseline
    return columns
