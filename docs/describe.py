#!/usr/bin/env python3
"""Generates the tables of docs/output-format.md and postprocess/fluxformer/experiments.json from `fluxformer --describe=json`.

    docs/describe.py PROGRAM [--check]

With --check nothing is written; exit status 1 if a file differs from what the program describes. Standard library only.
"""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE, EXPERIMENTS = os.path.join("docs", "output-format.md"), os.path.join("postprocess", "fluxformer", "experiments.json")
BEGIN, END = "<!-- from here: docs/describe.py -->\n", "<!-- to here -->\n"


def description(program):
    return json.loads(subprocess.run([program, "--describe=json"], check=True, capture_output=True, text=True).stdout)


def group(experiment):
    """The group of its measures: that of its name or, where studies share one, that of its family."""
    own, shared = (f"/analysis/{experiment[key]}" for key in ("name", "family"))
    return own if any(one["path"].startswith(own + "/") for one in experiment["variables"]) else shared


def tables(described):
    """One table for each set of experiments whose files hold the same names."""
    names = {}  # (path, axes, unit, meaning): experiments
    for experiment in described["experiments"]:
        for one in experiment["variables"]:
            path = one["path"]
            shared = path.replace(group(experiment), "/analysis/<experiment>")
            names.setdefault((shared, path, ", ".join(one["axes"]), one["unit"], one["meaning"]), []).append(experiment["name"])
    merged = {}  # names that differ only by the experiment are merged
    for (shared, path, axes, unit, meaning), experiments in names.items():
        key = (shared, axes, unit, meaning)
        paths, owners = merged.setdefault(key, ([], []))
        paths.append(path)
        owners += experiments
    groups = {}
    for (shared, axes, unit, meaning), (paths, owners) in merged.items():
        groups.setdefault(tuple(owners), []).append((paths[0] if len(set(paths)) == 1 else shared, axes, unit, meaning))
    everybody = tuple(one["name"] for one in described["experiments"])
    lines = []
    for owners in sorted(groups, key=lambda group: (-len(group), [everybody.index(name) for name in group])):
        title = "All files" if set(owners) == set(everybody) else ", ".join(f"`{name}`" for name in owners)
        lines += ["", f"### {title}", "", "| name | dimensions | unit | meaning |", "| --- | --- | --- | --- |"]
        lines += ["| {} | {} | {} | {} |".format(f"`{path}`", axes, unit, meaning.replace("|", "\\|")) for path, axes, unit, meaning in groups[owners]]
    return "\n".join(lines[1:]) + "\n"


def experiments(described):
    """Names and families of the experiments, and the keys that do not change a result, by role."""
    entries = []
    for one in described["experiments"]:
        entry = {key: one[key] for key in ("name", "family", "sentence")}
        for role in ("output", "free", "permission"):
            entry[role] = [key["name"] for key in one["keys"] if key["role"] == role]
        lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entry.items())
        entries.append(" {\n" + ",\n".join(lines) + "\n }")
    return "[\n" + ",\n".join(entries) + "\n]\n"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    described = description(sys.argv[1])
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
        page = file.read()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    wanted = {PAGE: page[:begin] + tables(described) + page[end:], EXPERIMENTS: experiments(described)}
    different = []
    for name, text in wanted.items():
        path = os.path.join(ROOT, name)
        try:
            with open(path, encoding="utf-8") as file:
                there = file.read()
        except FileNotFoundError:
            there = None
        if there == text:
            continue
        different.append(name)
        if not sys.argv[2:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for name in different:
        print(f"{name}: {'differs from what the program describes; run docs/describe.py' if sys.argv[2:] else 'written'}")
    return 1 if different and sys.argv[2:] else 0


if __name__ == "__main__":
    sys.exit(main())
