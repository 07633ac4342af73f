#!/usr/bin/env python3
"""Compares the same network in this program and in PyTorch, one thread each: GELU, pre-norm, but for bert and decoder.

    /usr/bin/python3 tests/benchmark/compare_with_pytorch.py build/tests/fluxformer_benchmark [--rounds N] [--only WHAT] [--json FILE] \
        [--onnxruntime FOLDER]

forward   one right-hand side of all layers against PyTorch's forward pass; batch 32, 49 tokens, width 64, 4 heads, 6 layers,
          ffn 256; float and double. The faster of PyTorch's two modes counts (fused or plain).
training  a whole step in float and double - embedding, positions, layers, mean, classifier, cross entropy, all gradients, clipping, AdamW -
          against PyTorch's; mixed precision against its float; the same network, and batch 8, 256 tokens, width 128, 8 heads, 12 layers, ffn 512.
depth     24 steps of the classical Runge-Kutta method through the field of the small network, weights interpolated between 6 knots, and the
          gradient of all weights: TSAdjoint, with and without the stages' activations, against back-propagation through the same
          loop.
line      attention of one head of 64 over 4096 tokens, projections included; the faster of PyTorch's soft-max of the whole matrix and
          of 256 rows at a time.
bert      a forward pass of BERT-base's shape: batch 8, 128 tokens, width 768, 12 heads, 12 layers, ffn 3072, post-norm.
decoder   a forward pass of SmolLM-135M's shape without its table of words: batch 4, 256 tokens, width 576, 9 heads, 3 groups of keys, 30
          layers, ffn 1536; RMSNorm, rotary positions, SiLU gate, causal, no biases.

bert and decoder run, in float, the weights of this program, and results are compared. With --onnxruntime FOLDER they run in ONNX Runtime,
too, and the faster peer counts; FOLDER is one where `npm install onnxruntime-node` ran. Without it this is left out, with a message.

The programs alternate; medians of processor time (least affected by other load) over the rounds and the median
ratio are printed as a table, with the fraction of the matrix-product peak that ours reached.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# PyTorch allocates its results anew; glibc would return large ones to the system and clear them again each time, which doubles its time.
# The settings must be there when the program starts.
if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
    os.environ.update(MALLOC_MMAP_THRESHOLD_=str(4 << 30), MALLOC_TRIM_THRESHOLD_=str(8 << 30))
    os.execv(sys.executable, [sys.executable, *sys.argv])
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import torch
except ImportError:
    sys.exit("PyTorch is missing: apt-get install python3-torch, and run with /usr/bin/python3")

import wide_networks

SMALL = {"batch": 32, "tokens": 49, "width": 64, "heads": 4, "layers": 6, "ffn": 256}
LARGE = {"batch": 8, "tokens": 256, "width": 128, "heads": 8, "layers": 12, "ffn": 512}


def ours(binary, name, seconds=0.3):
    """Milliseconds and GFLOP/s of one benchmark, run for so long at least, and the BLAS it used."""
    text = subprocess.run([binary, f"--benchmark_filter={name}$", "--benchmark_format=json", f"--benchmark_min_time={seconds}"],
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

    def __init__(self, size, features, classes, dtype):
        super().__init__()
        self.embed = torch.nn.Linear(features, size["width"], dtype=dtype)
        self.position = torch.nn.Parameter(0.02 * torch.randn(size["tokens"], size["width"], dtype=dtype))
        self.layers, _ = network(size, dtype)
        self.norm = torch.nn.LayerNorm(size["width"], dtype=dtype)
        self.head = torch.nn.Linear(size["width"], classes, dtype=dtype)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.embed(x) + self.position)).mean(1))


def training_time(size, dtype):
    """With the faster of PyTorch's AdamW variants: tensor by tensor, or all at once."""
    features, classes = 16, 10
    x = torch.randn(size["batch"], size["tokens"], features, dtype=dtype)
    labels = torch.arange(size["batch"]) % classes
    times = []
    for foreach in (False, True):
        net = Classifier(size, features, classes, dtype).train()
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=foreach)

        def step():
            optimiser.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(net(x), labels).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()

        times.append(median_time(step, 4))
    return min(times)


class Field(torch.nn.Module):
    """F(u; s) of the small network: attention and feed-forward network side by side, weights linear between knots."""

    def __init__(self, size, dtype):
        super().__init__()
        d, f, knots = size["width"], size["ffn"], size["layers"]
        self.heads = size["heads"]
        shapes = {"g1": (d,), "c1": (d,), "w_qkv": (3 * d, d), "b_qkv": (3 * d,), "w_o": (d, d), "b_o": (d,), "g2": (d,), "c2": (d,),
                  "w_1": (f, d), "b_1": (f,), "w_2": (d, f), "b_2": (d,)}
        self.knots = torch.nn.ParameterDict({name: torch.nn.Parameter(0.05 * torch.randn(knots, *shape, dtype=dtype))
                                             for name, shape in shapes.items()})

    def at(self, s):
        lower = min(int(s), self.knots["g1"].shape[0] - 1)
        upper = min(lower + 1, self.knots["g1"].shape[0] - 1)
        return {name: torch.lerp(knot[lower], knot[upper], s - lower) if upper > lower else knot[lower]
                for name, knot in self.knots.items()}

    def forward(self, u, s):
        p = self.at(s)
        batch, tokens, d = u.shape
        x = torch.nn.functional.layer_norm(u, (d,), p["g1"], p["c1"])
        q, k, v = (part.reshape(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in torch.nn.functional.linear(x, p["w_qkv"], p["b_qkv"]).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, d)
        inner = torch.nn.functional.linear(torch.nn.functional.layer_norm(u, (d,), p["g2"], p["c2"]), p["w_1"], p["b_1"])
        return (torch.nn.functional.linear(mixed, p["w_o"], p["b_o"])
                + torch.nn.functional.linear(torch.nn.functional.gelu(inner), p["w_2"], p["b_2"]))


def depth_time(size, dtype, cells=24):
    field = Field(size, dtype)
    start = torch.randn(size["batch"], size["tokens"], size["width"], dtype=dtype)
    h = size["layers"] / cells

    def solve():
        field.zero_grad(set_to_none=True)
        u = start.clone().requires_grad_(True)
        state = u
        for cell in range(cells):
            s = cell * h
            k1 = field(state, s)
            k2 = field(state + h / 2 * k1, s + h / 2)
            k3 = field(state + h / 2 * k2, s + h / 2)
            k4 = field(state + h * k3, s + h)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        state.square().sum().backward()

    return median_time(solve, 3)


def line_time(dtype, tokens=4096, width=64):
    linear = torch.nn.functional.linear
    x = torch.randn(tokens, width, dtype=dtype)
    w, b = torch.randn(3 * width, width, dtype=dtype) / 8, torch.zeros(3 * width, dtype=dtype)
    w_o, b_o = torch.randn(width, width, dtype=dtype) / 8, torch.zeros(width, dtype=dtype)

    def attend(rows):
        with torch.inference_mode():
            q, k, v = linear(x, w, b).chunk(3, dim=-1)
            turned = k.t().contiguous() * width ** -0.5
            return linear(torch.cat([torch.softmax(part @ turned, dim=-1) @ v for part in q.split(rows)]), w_o, b_o)

    return min(median_time(lambda: attend(tokens), 4), median_time(lambda: attend(256), 4))


def compare(label, binary, benchmark, peak_of, peers, rounds, seconds=0.3):
    """Prints and returns medians over rounds in which the programs alternate, and our ratio to the fastest peer. `peers`: a function that
    returns milliseconds for each; one function alone is PyTorch's."""
    if callable(peers):
        peers = {"PyTorch": peers}
    mine, theirs, rates, peaks = [], {name: [] for name in peers}, [], []
    for _ in range(rounds):
        milliseconds, rate, _ = ours(binary, benchmark, seconds)
        mine.append(milliseconds)
        rates.append(rate)
        for name, now in peers.items():
            theirs[name].append(now())
        peaks.append(ours(binary, f"product<{peak_of}>/768/768/768")[1])
    ratios = {name: statistics.median(a / b for a, b in zip(mine, theirs[name])) for name in peers}
    rate, peak = statistics.median(rates), statistics.median(peaks)
    for name, ratio in ratios.items():
        shown = label if len(peers) == 1 else f"{label}: {name}"
        print(f"{shown:56} {statistics.median(mine):10.2f} {statistics.median(theirs[name]):13.2f} {ratio:6.2f} {rate:15.1f} "
              f"{peak:6.1f} {rate / peak:6.2f}", flush=True)
    fastest_peer = max(ratios, key=ratios.get)
    if len(peers) > 1:
        print(f"{label}: {ratios[fastest_peer]:.2f} of the faster, {fastest_peer}; by round "
              f"{', '.join(f'{a / b:.2f}' for a, b in zip(mine, theirs[fastest_peer]))}")
    row = {"what": label, "ours": statistics.median(mine), "pytorch": statistics.median(theirs["PyTorch"]), "ratio": ratios["PyTorch"], "rate": rate,
           "peak": peak}
    if "ONNX Runtime" in peers:
        row.update(onnxruntime=statistics.median(theirs["ONNX Runtime"]), ratio_to_the_faster=ratios[fastest_peer])
    return row


def must_agree(what, result, expected):
    """Both took the same arithmetic in another order. A value is a sum over some thousand terms and passes tens of sub-layers, each of
    which adds round-off of about 1e-6 of the largest value; a wrong network is off by that value itself."""
    largest = float(expected.abs().max())
    difference = float((result - expected).abs().max())
    if not difference < 1e-4 * largest:
        sys.exit(f"{what} differs from PyTorch by {difference:.2g} of {largest:.2g}")
    return difference / largest


def compare_wide(shape, net_of, size, options):
    """Ours, PyTorch and ONNX Runtime (if there is a folder of it), in turns, in float: medians and our ratio to the faster peer."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.binary, "--write", shape, folder], check=True)
        march = wide_networks.March(folder)
        net, u = net_of(march, size).eval(), march.state("first")
        modes = {"plain": net}
        with torch.inference_mode():
            expected = net(u)
        with torch.no_grad():
            modes["frozen"] = torch.jit.freeze(torch.jit.trace(net, u))
        if shape == "bert":
            modes["fused"] = network(size, torch.float32, norm_first=False)[0].eval()
        print(f"{shape}: ours and PyTorch differ by {must_agree('our ' + shape, march.state('last'), expected):.1g} of the largest value")
        peers = {"PyTorch": lambda: fastest(modes, u)}
        if options.onnxruntime is not None and wide_networks.has_onnxruntime(options.onnxruntime):
            runtime = wide_networks.OnnxRuntime(options.onnxruntime, net, u, folder)
            version, _, result = runtime()
            print(f"ONNX Runtime {version}: differs from PyTorch by {must_agree('ONNX Runtime', result, expected):.1g}")
            peers["ONNX Runtime"] = lambda: runtime()[1]
        else:
            print("ONNX Runtime is left out: it needs node, `npm install onnxruntime-node` in some folder, and --onnxruntime FOLDER")
        label, benchmark = {"bert": ("BERT", "bert_base"), "decoder": ("SmolLM", "decoder")}[shape]
        return compare(f"forward pass of {label}'s shape, float", options.binary, f"{benchmark}/float", "float", peers, options.rounds,
                       seconds=4)  # a few marches behind one that is not counted


def fastest(modes, u):
    with torch.inference_mode():
        return min(median_time(lambda: net(u), 3) for net in modes.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("forward", "training", "depth", "line", "bert", "decoder"))
    parser.add_argument("--json", metavar="FILE", help="write the rows, for docs/numbers.py")
    parser.add_argument("--onnxruntime", metavar="FOLDER", help="a folder with node_modules/onnxruntime-node, for bert and decoder")
    options = parser.parse_args()
    rows = []
    torch.set_num_threads(1)
    libraries = ours(options.binary, "right_hand_side/float")[2]
    print(f"PyTorch {torch.__version__}; {libraries}; one thread each")
    print(f"{'':56} {'ours [ms]':>10} {'theirs [ms]':>13} {'ratio':>6} {'ours [GFLOP/s]':>15} {'peak':>6} {'share':>6}")
    kinds = (("float", torch.float32), ("double", torch.float64))
    if options.only in (None, "forward"):
        for name, dtype in kinds:
            net, x = network(SMALL, dtype)
            rows.append(compare(f"right-hand side, {name}", options.binary, f"right_hand_side/{name}", name, lambda: forward_time(net, x), options.rounds))
    if options.only in (None, "training"):
        for name, size in (("small", SMALL), ("large", LARGE)):
            for kind, peak, dtype in (("float", "float", torch.float32), ("mixed", "float", torch.float32), ("double", "double", torch.float64)):
                rows.append(compare(f"training step, {name}, {kind}", options.binary, f"training_step/{name}_{kind}", peak,
                                    lambda: training_time(size, dtype), options.rounds))
    if options.only in (None, "bert"):
        rows.append(compare_wide("bert", wide_networks.Bert, wide_networks.BERT, options))
        net, x = network(wide_networks.BERT, torch.float64, norm_first=False)
        rows.append(compare("forward pass of BERT's shape, double", options.binary, "bert_base/double", "double", lambda: forward_time(net, x),
                            options.rounds))
    if options.only in (None, "decoder"):
        rows.append(compare_wide("decoder", wide_networks.Decoder, wide_networks.DECODER, options))
    if options.only in (None, "line"):
        for kind, dtype in kinds:
            rows.append(compare(f"attention over 4096 tokens, {kind}", options.binary, f"long_line/{kind}", kind, lambda: line_time(dtype), options.rounds))
    if options.only in (None, "depth"):
        for kind, dtype in kinds:
            for kept in ("", "_tapes"):
                rows.append(compare(f"gradient of 24 Runge-Kutta steps, {kind}{kept and ', activations kept'}", options.binary,
                                    f"depth_solve/{kind}{kept}", kind, lambda: depth_time(SMALL, dtype), options.rounds))
    if options.json:
        revision = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=os.path.dirname(os.path.abspath(__file__)), check=True,
                                  capture_output=True, text=True).stdout.strip()
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            processor = next(line.split(":")[1].strip() for line in stream if line.startswith("model name"))
        with open(options.json, "w", encoding="utf-8") as stream:
            machine = f"One thread of {processor}; {libraries}; PyTorch {torch.__version__}"
            networks = {"small": SMALL, "large": LARGE, "BERT's shape": wide_networks.BERT, "SmolLM's shape": wide_networks.DECODER}
            json.dump({"machine": machine, "revision": revision, "networks": networks, "rows": rows}, stream, indent=1)
            stream.write("\n")


if __name__ == "__main__":
    main()
