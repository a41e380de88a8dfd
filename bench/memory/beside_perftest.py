#!/usr/bin/env python3
"""GETs of the pool over UCX, next to UCX's own ucx_perftest, in turn, over the memory of one machine.

    bench/memory/beside_perftest.py build/release/bench/memory/bench_memory_get

It takes about two minutes and needs the package ucx-utils. Rows of ucx_perftest: active messages with
its option -e, so that it notices a peer that dies as the pool does; and gets of remote memory without it, the
fastest way of UCX, which the pool does not go. It sends one piece of memory over and over, and the pool two
objects; the last row reads 16 MiB or 64 MiB in turn, which caches do not hold. Figures are GB/s, minimum / median /
maximum over the rounds; a ratio is that of two runs of one round.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

SETTINGS = {"UCX_NET_DEVICES": "lo", "UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_POSIX_ERROR_HANDLING": "y",
            "UCX_SYSV_ERROR_HANDLING": "y", "UCX_CMA_MEMORY_INVALIDATE": "y", "UCX_RNDV_SCHEME": "get_zcopy",
            "UCX_ZCOPY_THRESH": "inf"}


def perftest(words, size, port):
    environment = os.environ | SETTINGS
    server = subprocess.Popen(["ucx_perftest", "-p", str(port)], env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        count = max(20, 2_000_000_000 // size)
        result = subprocess.run(["ucx_perftest", "-p", str(port), "127.0.0.1", "-f", "-s", str(size),
                                 "-n", str(count), "-w", "20", *words], env=environment,
                                capture_output=True, text=True, check=True, timeout=100)
        mebibytes = float(result.stdout.split("\n")[-2].split()[5])
        return mebibytes * 2**20 * 1e-9
    finally:
        server.kill()
        server.wait()


def pool(program, size, crc, objects=2):
    words = [f"--benchmark_filter=^ucx_get/bytes:{size}/crc:{crc}/objects:{objects}/", "--benchmark_format=json",
             "--benchmark_min_time=0.5"]
    result = subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=100)
    return json.loads(result.stdout)["benchmarks"][0]["GB/s"]


def spread(values):
    return " / ".join(f"{value:.2f}" for value in (min(values), statistics.median(values), max(values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="bench_memory_get")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = {"ucx_perftest -e -t ucp_am_bw": lambda size, port: perftest(["-e", "-t", "ucp_am_bw"], size, port),
            "ucx_perftest -t ucp_get": lambda size, port: perftest(["-t", "ucp_get"], size, port),
            "pool, without checksums": lambda size, port: pool(options.program, size, 0),
            "pool": lambda size, port: pool(options.program, size, 1),
            "pool, without checksums, 16 or 64 MiB in turn":
                lambda size, port: pool(options.program, size, 0, min(16, 2**26 // size))}
    print("| size | row | GB/s | ratio to -e |\n| --- | --- | --- | --- |")
    for size in (2**20, 2**24):
        found = {name: [] for name in rows}
        for round_ in range(options.rounds):
            for index, (name, run) in enumerate(rows.items()):
                found[name].append(run(size, 13600 + 10 * round_ + index))
        bound = next(iter(found.values()))
        for name, rates in found.items():
            ratio = spread([rate / other for rate, other in zip(rates, bound)])
            print(f"| {size >> 20} MiB | {name} | {spread(rates)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
