"""Runs equality_matrix on RANKS processes and passes on what rank 0 prints.

usage: run_matrix.py EQUALITY_MATRIX RANKS [--all] [--only TEXT] [--device cuda]
"""

import os
import socket
import subprocess
import sys


def main():
    program, ranks, *rest = sys.argv[1:]
    if os.environ.get("TRIB_TEST_FULL"):
        rest.append("--all")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(int(ranks)):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=ranks, LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                           OMP_NUM_THREADS="1")
        processes.append(subprocess.Popen([program, *rest], env=environment))
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main())
