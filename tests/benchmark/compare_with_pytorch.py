#!/usr/bin/env python3
"""One right-hand side of all layers against PyTorch's forward pass of the same network, one thread each.

    /usr/bin/python3 tests/benchmark/compare_with_pytorch.py build/tests/fluxformer_benchmark [--rounds N]

Batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256, pre-norm, GELU. The two take turns; medians of
processor time (which a busy machine disturbs least) over the rounds and their ratio are printed as a table, with the share of the
matrix-product peak that ours reached. PyTorch's better mode counts (its fused path or the plain one).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import torch
except ImportError:
    sys.exit("PyTorch is missing: apt-get install python3-torch, and run with /usr/bin/python3")


def ours(binary, name):
    """Milliseconds and GFLOP/s of one benchmark."""
    text = subprocess.run([binary, f"--benchmark_filter={name}$", "--benchmark_format=json", "--benchmark_min_time=0.3"],
                          check=True, capture_output=True, text=True).stdout
    result = json.loads(text[text.index("{"):])
    run = result["benchmarks"][0]
    return run["cpu_time"], run["GFLOP/s"], result["context"].get("blas", "?")


def network(dtype):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, 0.0, "gelu", batch_first=True, norm_first=True, dtype=dtype)
    return torch.nn.TransformerEncoder(layer, 6).eval(), torch.randn(32, 49, 64, dtype=dtype)


def pytorch(net, x, fused):
    """Milliseconds of the forward pass, the median of some."""
    context = torch.inference_mode() if fused else torch.enable_grad()
    times = []
    with context:
        for parameter in net.parameters():
            parameter.requires_grad_(False)
        for _ in range(12):
            start = time.process_time()
            net(x)
            times.append(1e3 * (time.process_time() - start))
    return statistics.median(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}; {ours(options.binary, 'right_hand_side/float')[2]}; one thread each")
    print(f"{'':8} {'ours [ms]':>10} {'PyTorch [ms]':>13} {'ratio':>6} {'ours [GFLOP/s]':>15} {'peak':>6} {'share':>6}")
    for name, dtype, scalar in (("float", torch.float32, "float"), ("double", torch.float64, "double")):
        net, x = network(dtype)
        mine, theirs, rates, peaks = [], [], [], []
        for _ in range(options.rounds):
            milliseconds, rate, _ = ours(options.binary, f"right_hand_side/{name}")
            mine.append(milliseconds)
            rates.append(rate)
            theirs.append(min(pytorch(net, x, True), pytorch(net, x, False)))
            peaks.append(ours(options.binary, f"product<{scalar}>/768/768/768")[1])
        ratio = statistics.median(a / b for a, b in zip(mine, theirs))
        rate, peak = statistics.median(rates), statistics.median(peaks)
        print(f"{name:8} {statistics.median(mine):10.2f} {statistics.median(theirs):13.2f} {ratio:6.2f} {rate:15.1f} "
              f"{peak:6.1f} {rate / peak:6.2f}")


if __name__ == "__main__":
    main()
