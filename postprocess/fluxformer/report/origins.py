"""Where numbers of the report come from: the runs behind a figure, in text."""

from __future__ import annotations

from fluxformer.io import Run


def seeds_of(run: Run) -> str:
    """The seeds behind a run's numbers, as text."""
    seeds = list(run.coordinate("seed")) if "seed" in run.coordinates else [run.attributes.get("seed")]
    return ", ".join(str(int(seed)) for seed in seeds)


def origins(runs: list[Run]) -> list[str]:
    """Lines that lead from a figure back to its runs, one for those of the same deck and revision."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        deck = f"deck {run.deck_name}" if run.deck_name != "defaults" else f"no deck: fluxformer {run.attributes['experiment']} ..."
        groups.setdefault(f"{deck} · revision {run.revision}", []).append(run)
    lines = []
    for made, members in groups.items():
        seeds = ", ".join(dict.fromkeys(seed for run in members for seed in seeds_of(run).split(", ")))
        lines.append(f"{', '.join(run.path for run in members)} · {made} · seed{'s' * (',' in seeds)} {seeds}")
    return lines
