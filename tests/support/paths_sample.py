"""Small made-up files of attention paths and pruning, with the names that the program writes (docs/reference/output-format.md), as far as claims
(input/paper/paths/claims.toml) ask for them.
"""

import comparison_sample as sample
import numpy as np

WIDTHS, TEMPERATURES = (10.0, 100.0, np.inf), (0.01, 0.1)
GAINS = ("gain_over_random", "gain_over_first_order", "gain_over_entropy")


class PathsFile(sample.ComparisonFile):
    """A file of one study of attention paths."""

    def __init__(self, path, study, task="markov", **how):
        more = {"markov": "variant = four_paths\n", "one_shot": "images = digits\n"}.get(task, "")
        super().__init__(path, f"paths_{study}", group="paths",
                         **{"settings": f"[paths]\ntask = {task}\n{more}", "command_line": f"bin/fluxformer paths_{study} input/paths/{study}.ini", **how})

    def along(self, axes, model, measure, values):
        """A measure with its axes after the seed."""
        self.add(model, measure, values)
        for place, axis in enumerate(("seed", *axes)):
            self.group()[f"{model}/{measure}"].dims[place].attach_scale(self.file[axis])

    def over_widths(self, model, measure, by_width):
        """Adds a measure by width that is the same at all temperatures."""
        self.along(("temperature", "width"), model, measure, np.broadcast_to(np.asarray(by_width, dtype=float), (len(TEMPERATURES), len(WIDTHS))))


def write_theory(path, task="markov", **how):
    """Narrow networks are more accurate than the Gaussian process; of one-shot images the temperature is chosen."""
    with PathsFile(path, "theory", task, **how) as out:
        out.axis("temperature", TEMPERATURES)
        out.axis("width", WIDTHS)
        for name, values in (("accuracy", (0.9, 0.85, 0.8)), ("largest_overlap", (0.7, 0.6, 0.3)), ("good_weight", (3.0, 2.0, 1.0)),
                             ("good_denoising", (-0.4, -0.2, 0.0)), ("pruning_loss", (0.001, 0.002, 0.1))):
            out.over_widths("theory", name, values)
        if task == "one_shot":
            out.along(("width",), "theory", "chosen_accuracy", (0.92, 0.9, 0.85))


def write_sample(path, **how):
    """Draws from the posterior; the widest network was not sampled."""
    with PathsFile(path, "sample", **how) as out:
        out.axis("temperature", TEMPERATURES)
        out.axis("width", WIDTHS)
        for sampler, excess in (("wishart", -0.05), ("hmc", -0.02)):
            out.over_widths(sampler, "order_excess", (excess, excess / 2, np.nan))
            out.over_widths(sampler, "mean_difference", (0.02, 0.01, np.nan))


def write_prune(path, **how):
    """Trained networks of paths."""
    with PathsFile(path, "prune", "one_shot", **how) as out:
        out.add("network", "loss_by_theory", 0.01)
        for name, value in zip(GAINS, (0.05, 0.02, 0.03)):
            out.add("network", name, value)


def write_pruning(path, **how):
    """Transformers that lose heads."""
    with sample.ComparisonFile(path, "pruning", **how) as out:
        for name, value in zip(GAINS, (-0.05, -0.03, 0.001)):
            out.add("transformer", name, value)
