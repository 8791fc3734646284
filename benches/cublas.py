#!/usr/bin/env python3
"""Times cuBLAS through PyTorch, one CSV row a shape, with the columns of `cargo bench`'s rows.

Needs PyTorch with CUDA and an NVIDIA GPU. TF32 is off. Each figure is the median of seven replays of
a CUDA graph of up to 70 products, after at least 250 ms of warm-up. Inputs are random, and taken in
turn from as many sets of operands as `cargo bench`'s are, so that caches do not hold them. Arguments
choose: parts of `f32 4096x4096x4096`, as those of `cargo bench`'s are.
"""

import math
import os
import statistics
import subprocess
import sys
import time

import torch

ROUNDS = 7
CALLS = 70
ROUND = 0.1  # seconds of a replay, at most
CACHE = 256e6  # bytes that all sets of operands exceed together
MOST_SETS = 8
SIZES = [
    (1024, 1024, 1024, 1), (2048, 2048, 2048, 1), (4096, 4096, 4096, 1), (8192, 8192, 8192, 1),
    (1000, 1000, 1000, 1), (4095, 4097, 4099, 1), (105, 384, 1536, 1), (64, 64, 262144, 1),
    (262144, 64, 64, 1), (64, 64, 64, 512), (1, 4096, 4096, 1), (16, 4096, 4096, 1),
    (64, 4096, 4096, 1), (1536, 1536, 8192, 1),
]
# Types of the factors and of C; all sums are f32.
TYPES = {
    "f32": (torch.float32, torch.float32),
    "f16": (torch.float16, torch.float16),
    "f16-f32": (torch.float16, torch.float32),
}


def moved(types, m, n, k, batch):
    """Bytes of A, B and C."""
    return batch * ((m * k + k * n) * types[0].itemsize + m * n * types[1].itemsize)


def seconds(types, m, n, k, batch):
    """Seconds of one product in each repeat, K x N stored row-major."""
    factor, output = types
    shape = (lambda r, c: (r, c)) if batch == 1 else (lambda r, c: (batch, r, c))
    random = lambda r, c, t: torch.rand(shape(r, c), device="cuda").mul_(2).sub_(1).to(t)
    sets = max(1, min(MOST_SETS, math.ceil(CACHE / moved(types, m, n, k, batch)) + 1))
    sets = [(random(m, k, factor), random(k, n, factor), random(m, n, output)) for _ in range(sets)]
    product = torch.mm if batch == 1 else torch.bmm
    # PyTorch takes a type of C only where it differs.
    options = {} if factor == output else {"out_dtype": output}

    def multiply(index):
        a, b, c = sets[index % len(sets)]
        product(a, b, out=c, **options)

    multiply(0)
    torch.cuda.synchronize()
    start = time.time()
    multiply(1)
    torch.cuda.synchronize()
    calls = max(2, min(CALLS, int(ROUND / (time.time() - start))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(calls):
            multiply(index)
    start = time.time()
    while time.time() - start < 0.25:
        graph.replay()
        torch.cuda.synchronize()
    times = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / calls)
    return times


def commit():
    """The commit that LAPIDARY_COMMIT names, else the working tree's, with a + where files differ."""
    if "LAPIDARY_COMMIT" in os.environ:
        return os.environ["LAPIDARY_COMMIT"]

    def git(*arguments):
        command = ["git", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = sys.argv[1:]
    print("op,shape,dtype,tflops,tbps,us,spread,rounds,status,clock,device,commit")
    for name, (m, n, k, batch) in ((name, size) for name in TYPES for size in SIZES):
        shape = f"{m}x{n}x{k}" if batch == 1 else f"{batch}x{m}x{n}x{k}"
        if wanted and not any(part in f"{name} {shape}" for part in wanted):
            continue
        times = seconds(TYPES[name], m, n, k, batch)
        s = statistics.median(times)
        rate = 2.0 * m * n * k * batch / s / 1e12
        bandwidth = moved(TYPES[name], m, n, k, batch) / s / 1e12
        spread = (max(times) - min(times)) / s
        device = torch.cuda.get_device_name()
        figures = f"{rate},{bandwidth},{s * 1e6},{spread},{len(times)}"
        print(f"cublas,{shape},{name},{figures},ok,device,{device},{commit()}", flush=True)


if __name__ == "__main__":
    main()
