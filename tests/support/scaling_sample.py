"""Small made-up scaling files, as `fluxformer scaling` writes them (docs/reference/output-format.md)."""

import h5py
import numpy as np

PHASES = ("compute", "ghosts", "ring", "reduction", "output")
SIZES = {"layers": 12, "cells": 12, "tokens": 49, "samples": 8, "width": 64, "ffn": 256, "heads": 4, "parameters": 600000}


def settings_text(settings):
    sections = {}
    for name, value in settings.items():
        section, key = name.split(".")
        sections.setdefault(section, []).append(f"{key} = {value}\n")
    return "\n".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items())


def write_scaling(path, ranks, step, phases=None, facts=None, settings=None, traffic=None, peak=80e9, machine=True, **attributes):
    """`step` are the times of the repetitions [s], `phases` name -> share of a step (of medians over ranks; the least and the
    greatest are 0.5 and 1.5 of it), `traffic` name -> (messages, bytes). The checkpoint takes 0.1 s on the slowest rank."""
    step = np.asarray(step, dtype=float)
    shares = {"compute": 1.0, **(phases or {})}
    facts = {"study": "evolve", "workload": "evolve", "mode": "strong", "over": "depth", "precision": "double", "nodes": 1,
             "ranks_depth": ranks, "ranks_token": 1, "groups": 1, **SIZES, "steps": 4, "flops": 4e9,
             "statistics": "least median greatest", **(facts or {})}
    settings = {"mesh.layers": 12, "mesh.ranks_depth": 0, "mesh.ranks_token": 0, "model.width": 64, "output.file": path,
                "output.overwrite": "false", "scaling.repetitions": len(step), "scaling.steps": 4, **(settings or {})}
    with h5py.File(path, "w") as file:
        file.attrs.update({
            "schema_version": 1, "experiment": "scaling", "status": "done", "git_revision": "0123456789abcdef", "git_dirty": "false",
            "command_line": "bin/fluxformer scaling input/scaling/evolve.ini", "seed": 1, "ranks": ranks, "compiler": "g++ 12",
            "blas": "OpenBLAS", "mpi": "Open MPI", "petsc": "3.18", "settings": settings_text(settings), **attributes})
        group = file.create_group("scaling")
        group.attrs.update(facts)
        group["step_seconds"] = step
        group["flop_rate"] = facts["flops"] / step / ranks
        group["memory"] = [1e8, 1.1e8, 1.5e8]
        if machine:
            group["peak_flop_rate"] = [0.9 * peak, peak, 1.1 * peak]
        for phase in PHASES:
            seconds = np.full(len(step), 0.08) if phase == "output" else shares.get(phase, 0) * step
            group[f"{phase}/seconds"] = np.outer(seconds, [0.5, 1, 1.25 if phase == "output" else 1.5])
            messages, size = (0, 25e6) if phase == "output" else (traffic or {}).get(phase, (0, 0))
            group[phase].attrs.update({"messages": float(messages), "bytes": float(size)})
