"""Prints the table of faults of encoders beside a run in docs/results/faults.md, and fails where one of its trials
does.

usage: encoder_faults.py BUILD_DIRECTORY
"""

import os
import pathlib
import re
import subprocess
import sys

from fault_table import HEAD, print_row
from rank_job import spread

HERE = pathlib.Path(__file__).resolve().parent
SEEDS, ROUNDS = 1000, 5  # of the simulator; a round is what its test runs


def run(words, **variables):
    """Runs a test; returns what it wrote to standard output."""
    done = subprocess.run([str(word) for word in words], env=os.environ | variables, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def print_rows_of(script, *words):
    out = run([sys.executable, HERE / script, *words], TRIB_TEST_FULL="1")
    print("".join(line + "\n" for line in out.splitlines() if line.startswith("| F")), end="", flush=True)


def main():
    build = pathlib.Path(sys.argv[1])
    tests = build / "tests/memory"
    print(HEAD)
    print_rows_of("lost_encoders.py", build / "tributary", next(build.glob("tests/train/libstrike_encoder.so")))
    out = run([tests / "test_memory_processes", "--gtest_filter=*WhenAReaderIsKilled*"], TRIB_TEST_FULL="1")
    engines = re.findall(r"OK \] \S+\.\w+/(\w+)", out)
    print_row("F4 `kill -9` of a reader while its owner replies, also stopped",
              f"100 over each of {', '.join(engines)}", [], "owners lost 0", "leases left 0")
    print_rows_of("far_encoder.py", build / "tributary")
    speeds = []
    for first in range(0, SEEDS * ROUNDS, SEEDS):
        out = run([tests / "test_memory", "--gtest_filter=*KeepsItsInvariantsUnderRandomFaults"],
                  TRIB_SIMULATE_FIRST=str(first))
        speeds.append(SEEDS / (int(re.search(r"OK \] \S+ \((\d+) ms\)", out)[1]) / 1000))
    print_row("F22 simulated jobs under loss, repetition, reordering, damage, broken links, crashes, stops",
              f"{SEEDS * ROUNDS} seeds", [], f"{spread(speeds, 'seeds/s', 0)} of one core", "broken invariants 0")


if __name__ == "__main__":
    main()
