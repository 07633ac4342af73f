"""Small made-up files of tokens that gather on the circle and on the sphere, with the names that the program writes
(docs/reference/output-format.md).

Ends with status 77 as claim_sample.py says.
"""

import comparison_sample as sample
from claim_sample import ClaimTest  # noqa: F401 (before what else it may not find; for the tests)

import numpy as np

BINS, LISTED = 180, 16  # circle_experiment.cpp, course.hpp
MODEL = "softmax"


def gathering(time, clusters, formed):
    """N_2, numbers of clusters and share of the way to the clusters at these times: even before, points from `formed` on."""
    share = np.clip(time / formed, 0, 1)
    return 8 - (8 - clusters) * share, np.where(share == 1, float(clusters), np.nan), share


def write_circle(path, tokens=1000, seeds=(1, 2), clusters=3, times=41, every=0.5, formed=12.0, beta=5.0, wave=0.01, rate=0.682678, counted=True, more="",
                 **how):
    """Waves of these sizes at t = 0, one for each seed or for all, that grow at a rate up to 1; `counted`: of tokens, not of a density."""
    time = every * np.arange(times)
    number_2, number, share = gathering(time, clusters, formed)
    kind = f"start = random\nsolver = particles\ntokens = {tokens}\n" if counted else "start = ring\nsolver = density\n"
    settings = f"{sample.ROOT['settings']}[clusters]\n{kind}beta = {beta}\n{more}"
    with sample.ComparisonFile(path, "clusters_circle", group="clusters", seeds=seeds, spread=0.0, **{"settings": settings, **how}) as out:
        out.axis("time", time)
        out.axis("mode", np.arange(1, 9))
        out.axis("angle", (np.arange(BINS) + 0.5) / BINS)
        out.axis("count", np.arange(1, LISTED + 1))
        out.axis("place", np.arange(1, LISTED + 1))
        facts = dict(beta=beta, fastest_wave=3, followed_wave=3, wave_rate_theory=rate, formation_theory=np.log(tokens) / 2 / rate)
        out.describe(**facts, **({"tokens": tokens, "delta": 0.3 / np.sqrt(beta)} if counted else {}))
        peaks = np.zeros(BINS)
        peaks[np.arange(clusters) * BINS // clusters + 7] = 1 / clusters
        out.add(MODEL, "density", (1 - share[:, None]) / BINS + share[:, None] * peaks)
        for name, values in (("number_2", number_2), ("number_1", number_2), ("energy", 1 / (2 * beta * number_2)), ("wave_rate", rate)):
            out.add(MODEL, name, values)
        waves = np.minimum(1, np.broadcast_to(wave, len(seeds))[:, None] * np.exp(rate * time))
        out.exact(MODEL, "moment", waves[:, :, None] * np.where(np.arange(1, 9) == 3, 1, 0.1))
        if not counted:
            out.add(MODEL, "unresolved", np.nan)
            return
        for name, values in (("number", number), ("components", np.nan_to_num(number, nan=1)), ("compact_share", share), ("formed", formed),
                             ("mass", np.where(np.isfinite(number)[:, None] & (np.arange(LISTED) < clusters), 1 / clusters, 0)),
                             ("merged_by", np.full(LISTED, np.nan)), ("ring_lifetime", np.append(np.nan, 10.0 ** np.arange(8, 9 - LISTED, -1)))):
            out.add(MODEL, name, values)


def write_sphere(path, dimension=3, shown=60, clusters=4, times=41, every=0.5, formed=12.0, beta=9.0, seeds=(1,), counted=True, **how):
    """Random tokens, each of which moves straight to one of so many random directions; `counted`: these are told from each other."""
    time = every * np.arange(times)
    number_2, number, share = gathering(time, clusters, formed)
    random = np.random.default_rng(3)
    x, ends = (random.standard_normal((count, dimension)) for count in (shown, clusters))
    x, ends = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, ends))
    position = (1 - share[:, None, None]) * x + share[:, None, None] * ends[(x @ ends.T).argmax(axis=1)]
    position /= np.linalg.norm(position, axis=2, keepdims=True)
    settings = f"{sample.ROOT['settings']}[clusters]\nbeta = {beta}\ndimension = {dimension}\n"
    with sample.ComparisonFile(path, "clusters_sphere", group="clusters", seeds=seeds, spread=0.0, **{"settings": settings, **how}) as out:
        out.axis("time", time)
        for name, values in (("shown", np.arange(shown)), ("channel", np.arange(dimension)), ("power_degree", (1, 2)), ("place", np.arange(1, LISTED + 1))):
            out.axis(name, values)
        out.describe(start="random", tokens=1000, dimension=dimension, beta=beta, delta=0.1, fastest_harmonic=2, harmonic_rate_theory=0.6,
                     formation_theory=5.8)
        for name, values in (("position", position), ("number_2", number_2), ("number_1", number_2), ("number", number if counted else np.nan * number),
                             ("components_low", np.ones(times)), ("components_high", np.full(times, 9.0)), ("formed", formed if counted else np.nan),
                             ("degree_power", 0.1 + 0.5 * share[:, None] * [1, 0.8])):
            out.add(MODEL, name, values)
