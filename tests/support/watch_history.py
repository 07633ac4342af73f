"""Watches a growing history file while tests/unit/io/history_file_test.cpp writes it, until it has ROWS rows.

    watch_history.py a.history.h5 ROWS      prints the first length seen; exit code 0: as expected, 77: h5py is missing
"""

import sys
import time

try:
    import h5py
    import numpy as np
except ImportError as failure:
    print(f"{failure.name} is missing", file=sys.stderr)
    sys.exit(77)

path, rows = sys.argv[1], int(sys.argv[2])
deadline = time.monotonic() + 600
with h5py.File(path, "r", libver="latest", swmr=True) as file:
    assert file.attrs["status"] == "running" and file.attrs["schema_version"] == 1
    step, loss, rate = file["step"], file["training/loss"], file["training/learning_rate"]
    assert loss.dims[0][0] == step and loss.attrs["unit"] == "1"
    seen = []
    while not seen or seen[-1] < rows:
        assert time.monotonic() < deadline, f"only {seen[-1]} of {rows} rows came"
        step.refresh()  # first: the writer writes it last
        loss.refresh()
        rate.refresh()
        count = len(step)
        assert np.array_equal(step[:], np.arange(count))
        assert np.array_equal(loss[:count], 10 + np.arange(count)) and np.array_equal(rate[:count], 20 + np.arange(count))
        if not seen:
            print(count, flush=True)
        if not seen or count != seen[-1]:
            seen.append(count)
assert seen == sorted(seen)
