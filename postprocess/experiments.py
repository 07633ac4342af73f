"""What the program says of its experiments: experiments.json, which docs/describe.py writes."""

import json
import os


def keys_of(experiment, *roles):
    """The keys of an experiment with these roles: output (where, when and what is written), free (ranks, folders, limits)."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experiments.json")
    with open(path, encoding="utf-8") as file:
        entry = next(one for one in json.load(file) if one["name"] == experiment)
    return frozenset(key for role in roles for key in entry[role])
