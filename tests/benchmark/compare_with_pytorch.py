#!/usr/bin/env python3
"""Compares the same network in this program and in PyTorch, one thread each: GELU, pre-norm but for BERT.

    /usr/bin/python3 tests/benchmark/compare_with_pytorch.py build/tests/fluxformer_benchmark [--rounds N] [--only WHAT]

forward   one right-hand side of all layers against PyTorch's forward pass; batch 32, 49 tokens, width 64, 4 heads, 6 layers,
          ffn 256; float and double. The faster of PyTorch's two modes counts (fused or plain).
training  a whole step in float - embedding, positions, layers, mean, classifier, cross entropy, all gradients, clipping, AdamW -
          against PyTorch's; the same network, and batch 8, 256 tokens, width 128, 8 heads, 12 layers, ffn 512.
bert      a forward pass of BERT-base's shape: batch 8, 128 tokens, width 768, 12 heads, 12 layers, ffn 3072, post-norm.

The two programs alternate; medians of processor time (least affected by other load) over the rounds and the median
ratio are printed as a table, with the fraction of the matrix-product peak that ours reached.
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

SMALL = {"batch": 32, "tokens": 49, "width": 64, "heads": 4, "layers": 6, "ffn": 256}
BASE = {"batch": 8, "tokens": 128, "width": 768, "heads": 12, "layers": 12, "ffn": 3072}
LARGE = {"batch": 8, "tokens": 256, "width": 128, "heads": 8, "layers": 12, "ffn": 512}


def ours(binary, name):
    """Milliseconds and GFLOP/s of one benchmark, and the BLAS it used."""
    text = subprocess.run([binary, f"--benchmark_filter={name}$", "--benchmark_format=json", "--benchmark_min_time=0.3"],
                          check=True, capture_output=True, text=True).stdout
    result = json.loads(text[text.index("{"):])
    run = result["benchmarks"][0]
    return run["cpu_time"], run["GFLOP/s"], result["context"].get("blas", "?")


def network(size, dtype, norm_first=True):
    layer = torch.nn.TransformerEncoderLayer(size["width"], size["heads"], size["ffn"], 0.0, "gelu", batch_first=True,
                                             norm_first=norm_first, dtype=dtype)
    net = torch.nn.TransformerEncoder(layer, size["layers"])
    return net, torch.randn(size["batch"], size["tokens"], size["width"], dtype=dtype)


def median_time(action, times):
    """Median of several timings in milliseconds of processor time, after two warm-up runs."""
    taken = []
    for _ in range(times + 2):
        start = time.process_time()
        action()
        taken.append(1e3 * (time.process_time() - start))
    return statistics.median(taken[2:])


def forward_time(net, x):
    net.eval()
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    with torch.inference_mode():
        fused = median_time(lambda: net(x), 10)
    with torch.enable_grad():
        plain = median_time(lambda: net(x), 10)
    return min(fused, plain)


class Classifier(torch.nn.Module):
    """The network with embedding, learned positions, final LayerNorm, mean over tokens, and a linear head."""

    def __init__(self, size, features, classes):
        super().__init__()
        self.embed = torch.nn.Linear(features, size["width"])
        self.position = torch.nn.Parameter(0.02 * torch.randn(size["tokens"], size["width"]))
        self.layers, _ = network(size, torch.float32)
        self.norm = torch.nn.LayerNorm(size["width"])
        self.head = torch.nn.Linear(size["width"], classes)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.embed(x) + self.position)).mean(1))


def training_time(size):
    """With the faster of PyTorch's AdamW variants: tensor by tensor, or all at once."""
    features, classes = 16, 10
    x = torch.randn(size["batch"], size["tokens"], features)
    labels = torch.arange(size["batch"]) % classes
    times = []
    for foreach in (False, True):
        net = Classifier(size, features, classes).train()
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=foreach)

        def step():
            optimiser.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(net(x), labels).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()

        times.append(median_time(step, 4))
    return min(times)


def compare(label, binary, benchmark, peak_of, theirs_now, rounds):
    mine, theirs, rates, peaks = [], [], [], []
    for _ in range(rounds):
        milliseconds, rate, _ = ours(binary, benchmark)
        mine.append(milliseconds)
        rates.append(rate)
        theirs.append(theirs_now())
        peaks.append(ours(binary, f"product<{peak_of}>/768/768/768")[1])
    ratio = statistics.median(a / b for a, b in zip(mine, theirs))
    rate, peak = statistics.median(rates), statistics.median(peaks)
    print(f"{label:16} {statistics.median(mine):10.2f} {statistics.median(theirs):13.2f} {ratio:6.2f} {rate:15.1f} "
          f"{peak:6.1f} {rate / peak:6.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("forward", "training", "bert"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}; {ours(options.binary, 'right_hand_side/float')[2]}; one thread each")
    print(f"{'':16} {'ours [ms]':>10} {'PyTorch [ms]':>13} {'ratio':>6} {'ours [GFLOP/s]':>15} {'peak':>6} {'share':>6}")
    if options.only in (None, "bert"):
        for name, dtype in (("float", torch.float32), ("double", torch.float64)):
            net, x = network(BASE, dtype, norm_first=False)
            compare(f"bert {name}", options.binary, f"bert_base/{name}", name, lambda: forward_time(net, x), options.rounds)
    if options.only in (None, "forward"):
        for name, dtype in (("float", torch.float32), ("double", torch.float64)):
            net, x = network(SMALL, dtype)
            compare(f"forward {name}", options.binary, f"right_hand_side/{name}", name, lambda: forward_time(net, x),
                    options.rounds)
    if options.only in (None, "training"):
        for name, size in (("small", SMALL), ("large", LARGE)):
            compare(f"training {name}", options.binary, f"training_step/{name}_float", "float", lambda: training_time(size),
                    options.rounds)


if __name__ == "__main__":
    main()
