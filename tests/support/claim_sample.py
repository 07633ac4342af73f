"""Claims on synthetic files of comparisons (comparison_sample.py), for the tests of the report.

Ends with status 77 if matplotlib, h5py or scipy is not installed, so import it first.
"""

import sys

try:
    import h5py
    import matplotlib  # noqa: F401 (what the report needs)
    import scipy  # noqa: F401
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

import comparison_sample as sample  # noqa: E402 (after what it needs is known to be there)
from python_package import FolderTest  # noqa: E402

from fluxformer.report.claims import Claim, Rule  # noqa: E402
from fluxformer.report.data import Study, open_run  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

RULE = Rule(0.05, {"digits": 10, "mnist": 6})
ATTENTION = {"experiment": "attention", "quantity": ["cosine"], "test": "value", "expected": 0.987, "tolerance": 0.01}
AT_CEILING = {"experiment": "attention", "quantity": ["cosine"], "test": "larger", "than": ["ceiling"], "delta": 0.05}
DISPARITY = {"experiment": "gradient_flow", "quantity": ["disparity"]}
FALLS = {"experiment": "bottleneck", "quantity": ["input_binning", "input_kde"], "reduce": "fall", "test": "larger", "than": ["zero", "untrained"],
         "both": True}
NOISE = {"experiment": "perturbation", "quantity": ["noise_accuracy"], "start": "accuracy", "levels": "noise_level", "test": "smaller",
         "reduce": "area", "samples": "mean"}


def claim(**entries):
    return Claim(**{"id": "a", "sentence": "b", "source": "c", **entries})


class ClaimTest(FolderTest):
    def study(self, *paths):
        runs = [open_run(path) for path in paths]
        for run in runs:
            self.addCleanup(run.close)
        return Study(("digits", "patches"), runs)

    def made(self, write, **how):
        """A synthetic file; with several seeds unless told."""
        path = self.path("made_up.h5")
        write(path, **how)
        return path

    def findings(self, one, path):
        """The findings of a claim on a file, by model."""
        with open_run(path) as run:
            weighed = weigh([one], Study(("digits", "patches"), [run]), RULE)
        return {finding.model: finding for _, findings in weighed for finding in findings}

    def verdicts(self, one, write, **how):
        return {model: finding.verdict for model, finding in self.findings(one, self.made(write, **how)).items()}

    def alone(self, path, experiment):
        """Leaves out the models that a test does not set."""
        with h5py.File(path, "r+") as file:
            for model in ("distilled", "inherited"):
                del file[f"analysis/{experiment}/{model}"]

    def change(self, path, **datasets):
        with h5py.File(path, "r+") as file:
            for name, values in datasets.items():
                if (place := name.replace("__", "/")) in file:
                    del file[place]
                file[place] = values
