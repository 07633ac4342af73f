#!/usr/bin/env python3
"""Generates what the documents say of keys and files, and postprocess/fluxformer/experiments.json, from `fluxformer --describe=json`:
docs/reference/keys.md, the tables of docs/reference/output-format.md and those of keys in docs/guide/.

    docs/describe.py PROGRAM [--check]

With --check nothing is written; exit status 1 if a file differs from what the program describes. Standard library only.
"""

import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GUIDE, REFERENCE = os.path.join("docs", "guide"), os.path.join("docs", "reference")
EXPERIMENTS = os.path.join("postprocess", "fluxformer", "experiments.json")
END = "<!-- end -->"


def description(program):
    return json.loads(subprocess.run([program, "--describe=json"], check=True, capture_output=True, text=True).stdout)


def table(heading, rows):
    """A table in Markdown."""
    text = lambda cell: (cell if cell.startswith("`") else cell.replace("<", "&lt;")).replace("|", "\\|")  # noqa: E731
    lines = [heading, ["---"] * len(heading), *([text(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def filled(page, marker, make):
    """A page whose blocks, from `<!-- marker: NAMES -->` to `<!-- end -->`, are made anew: make(NAMES)."""
    return re.sub(rf"(<!-- {marker}(?:: ([^>]*?))? -->\n).*?({END})", lambda found: found[1] + make(found[2]) + found[3], page, flags=re.DOTALL)


def value(key):
    """The default of a key with its unit."""
    default = key["default"]
    text = ", ".join(map(str, default)) if isinstance(default, list) else str(default).lower() if isinstance(default, bool) else str(default)
    return (f"`{text}`" + (f" {key['unit']}" if key.get("unit") else "")) if text else ""


def meaning(key):
    """What a key says, with its choices."""
    choices = key.get("choices")
    return key["sentence"] + (f". One of {', '.join(f'`{one}`' for one in choices)}" if choices else "")


def keys_by_section(described):
    """{section: {(key, default, meaning): experiments}} in the order of the program."""
    found = {}
    for experiment in described["experiments"]:
        for key in experiment["keys"]:
            rows = found.setdefault(key["name"].partition(".")[0], {})
            rows.setdefault((f"`{key['name']}`", value(key), meaning(key)), []).append(experiment["name"])
    return found


def owners(rows):
    """All experiments that have a key of a section."""
    return list(dict.fromkeys(name for names in rows.values() for name in names))


def keys_page(described):
    """docs/reference/keys.md."""
    parts = ["# Keys\n\nAll keys of all experiments, with default and unit, by section of a deck. `fluxformer EXPERIMENT --help` lists "
             "those of one experiment. Written by `docs/describe.py` from the program's own description.\n"]
    for section, rows in keys_by_section(described).items():
        parts.append(f"## {section}\n\nOf {', '.join(f'`{name}`' for name in owners(rows))}.\n")
        parts.append(table_of_keys(rows))
    return "\n".join(parts)


def table_of_keys(rows):
    """A table of the keys of a section; with a column for those that not all of its experiments have, if there are such."""
    everyone = owners(rows)
    lines = [[*row, "" if names == everyone else ", ".join(f"`{name}`" for name in names)] for row, names in rows.items()]
    heading = ["key", "default", "meaning", "only of"]
    return table(heading, lines) if any(line[3] for line in lines) else table(heading[:3], [line[:3] for line in lines])


def keys_table(described, sections):
    """Keys of these sections, for a page of the guide."""
    found = keys_by_section(described)
    if unknown := [name for name in sections if name not in found]:
        sys.exit(f"there is no section of keys {', '.join(unknown)}")
    return "\n".join(table_of_keys(found[name]) for name in sections)


def variables(described):
    """{(path, axes, unit, meaning): experiments}."""
    found = {}
    for experiment in described["experiments"]:
        for one in experiment["variables"]:
            found.setdefault((f"`{one['path']}`", ", ".join(one["axes"]), one["unit"], one["meaning"]), []).append(experiment["name"])
    return found


def names_of_files(described):
    """A table of names for every file, one for the weights, and one for each experiment."""
    found = variables(described)
    everybody = [one["name"] for one in described["experiments"]]
    of_all = [row for row, names in found.items() if names == everybody]
    model = [row for row, names in found.items() if names not in ([name] for name in everybody) and row[0].startswith("`/model")]
    parts = [("In every file", "", of_all), ("Weights", "In files of `evolve` and `train`, and in model files.", model)]
    for one in described["experiments"]:
        rows = [row for row, names in found.items() if one["name"] in names and row not in of_all and row not in model]
        parts.append((f"`{one['name']}`", f"This experiment {one['sentence']}.", rows))
    heading = ["name", "dimensions", "unit", "meaning"]
    return "\n".join(f"### {title}\n\n" + (f"{sentence}\n\n" if sentence else "") + table(heading, rows) for title, sentence, rows in parts)


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


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def settled(wanted, check, source):
    """Writes the files {name: text} that differ, or with `check` names them; the exit status."""
    different = [name for name, text in wanted.items() if not os.path.exists(os.path.join(ROOT, name)) or read(name) != text]
    for name in different:
        if not check:
            with open(os.path.join(ROOT, name), "w", encoding="utf-8") as file:
                file.write(wanted[name])
        print(f"{name}: {f'differs from {source}' if check else 'written'}")
    return 1 if different and check else 0


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    described = description(sys.argv[1])
    wanted = {os.path.join(REFERENCE, "keys.md"): keys_page(described), EXPERIMENTS: experiments(described)}
    output = os.path.join(REFERENCE, "output-format.md")
    wanted[output] = filled(read(output), "names", lambda _: names_of_files(described))
    for path in sorted(glob.glob(os.path.join(ROOT, GUIDE, "*.md"))):
        name = os.path.relpath(path, ROOT)
        wanted[name] = filled(read(name), "keys", lambda sections: keys_table(described, sections.split()))
    return settled(wanted, bool(sys.argv[2:]), "what the program describes; run docs/describe.py")


if __name__ == "__main__":
    sys.exit(main())
