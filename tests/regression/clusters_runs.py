"""Shared by tests of tokens that gather: the balance of energy, and runs with a stop wherever one is heard."""

import h5py
import numpy as np


def assert_energy_is_dissipation_integrated(found, tolerance):
    """Between each two stored times and the next two, by Simpson's rule: step^5/90 times a fourth derivative of a rate, below (2 rate)^5 E."""
    time, dissipation = found["time"], found["dissipation"]
    gained = np.diff(found["energy"][:, ::2], axis=1)
    step = time[1] - time[0]
    simpson = step / 3 * (dissipation[:, :-2:2] + 4 * dissipation[:, 1:-1:2] + dissipation[:, 2::2])
    np.testing.assert_allclose(gained, simpson, rtol=0, atol=tolerance)


def stopped_again_and_again(test, experiment, settings, ranks=3, name="out"):
    """Runs an experiment as a whole, and again with a stop whenever one is heard; both have the same bits. Returns the numbers of tokens in its checkpoints."""
    run = (experiment, *settings, "--quiet", "--checkpoint.restart=auto")
    whole = test.run_program(*run, f"--output.file={name}-whole.h5", ranks=ranks)
    test.assertEqual(whole.code, 0, whole)
    codes, moving = [], set()
    while not codes or (codes[-1] == 4 and len(codes) < 200):
        codes.append(test.run_program(*run, f"--output.file={name}.h5", "--run.time_limit=1e-6", ranks=ranks).code)
        if codes[-1] == 4:
            with h5py.File(test.path(f"{name}.checkpoint.h5")) as file:
                moving |= {int(file["state"].attrs["tokens"])} if "tokens" in file["state"].attrs else set()
    with h5py.File(test.path(f"{name}-whole.h5")) as first, h5py.File(test.path(f"{name}.h5")) as second:
        # A stop at each stored time but the last, and at least one between them.
        test.assertGreater(len(codes), len(first["time"]))
        test.assertEqual(codes, [4] * (len(codes) - 1) + [0])
        group = "analysis/clusters/softmax"
        test.assertEqual(set(first[group]), set(second[group]))
        for name in set(first[group]) - {"seconds", "evaluation_seconds"}:
            np.testing.assert_array_equal(first[group][name][...], second[group][name][...], err_msg=name)
    return moving
