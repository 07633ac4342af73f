#!/usr/bin/env python3
"""Where the time of a benchmark goes, by part, from samples of the processor's clock (Linux perf; package linux-perf).

    OPENBLAS_CORETYPE=SkylakeX tests/benchmark/parts_of_time.py build/tests/fluxformer_benchmark training_step/small_float ...

For each benchmark a line for each part: its share of the time. Products are computed by libxsmm's kernels, which are made at run time and have
no names, and by OpenBLAS; attention's kernel is not among them. Beside them their rate, from the flops that the benchmark counts, over that of
a large product of OpenBLAS in the same run (768 x 768 x 768). Needs nothing else running.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

KERNEL = "attention's kernel"
PARTS = {  # the first that matches the function's name, with the arguments of templates
    KERNEL: r"HeadKernel|exp_shifted",
    "passes of attention": r"Attention|Backwards",
    "GELU": r"gelu|activate",
    "passes of the feed-forward network": r"Reaction",
    "LayerNorm": r"layer_norm",
    "turning and rounding factors": r"turn_block|exchange_all|Bfloat16Product|set_pairs|pair_rows|round",
    "optimiser and clipping": r"Optimiser|clip|sum_over",
    "passes over states": r"SlabModel|SlabNorm|LayerMap|LayerTerm|FieldOperator|Backpropagation|memset|memmove|memcpy|Vec[A-Z]",
}
PRODUCTS = r"\[JIT\]|perf-\d+|xsmm|openblas|libblas|dnnl"  # names of files, or of functions


def measured(program: str, name: str, record: tuple[str, ...] = ()) -> float:
    """GFLOP/s of one benchmark."""
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        subprocess.run([*record, program, f"--benchmark_filter=^{re.escape(name)}$", "--benchmark_min_time=4", f"--benchmark_out={result.name}"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return float(json.load(result)["benchmarks"][0]["GFLOP/s"])


def parts(samples: str) -> Counter[str]:
    """Per cent of the samples by part."""
    report = subprocess.run(["perf", "report", "-i", samples, "--no-children", "--stdio", "-F", "overhead,dso,symbol", "--percent-limit", "0"],
                            capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    for line in report.splitlines():
        if not (entry := re.match(r"\s*([\d.]+)%\s+(.*)", line)):
            continue
        share, where = float(entry[1]), entry[2]
        part = "products" if re.search(PRODUCTS, where) else "system" if "[k]" in where else next(
            (name for name, pattern in PARTS.items() if re.search(pattern, where)), "everything else")
        found[part] += share
    return found


def main() -> None:
    program, *names = sys.argv[1:]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            samples = os.path.join(folder, "samples")
            rate = measured(program, name, ("perf", "record", "-q", "-F", "1999", "-o", samples))
            found = parts(samples)
        peak = measured(program, f"product<{'double' if 'double' in name else 'float'}>/768/768/768")
        print(f"{name}: {rate:.0f} GFLOP/s, {rate / peak:.2f} of the peak of {peak:.0f}; in products "
              f"{100 * rate / found['products'] / peak:.2f} of it (with the kernel of attention, whose flops count, "
              f"{100 * rate / (found['products'] + found[KERNEL]) / peak:.2f})")
        for part, share in found.most_common():
            print(f"  {share:5.1f} %  {part}")


if __name__ == "__main__":
    main()
