"""Ranks of a tiny run as separate processes, how each ended and when, and what the run left."""

import hashlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tiny_run

LATE = 240  # s: then a test fails, whatever it waits for


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torch_variables(rank, world, port, address="127.0.0.1", local=True):
    """What torchrun and the Kubernetes operator set; `local`: all ranks on one machine."""
    variables = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": address, "MASTER_PORT": port}
    if local:
        variables |= {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}
    return variables


def slurm_variables(rank, world, port):
    """What srun sets on one node, and what the batch script exports."""
    return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": world, "SLURM_LOCALID": rank,
            "SLURM_NODEID": 0, "SLURM_STEP_TASKS_PER_NODE": world, "SLURM_JOB_ID": 77,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def open_mpi_variables(rank, world, port):
    """What mpirun sets on one node, and what it is told to pass on."""
    return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world,
            "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": world,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def environment(variables):
    launched = ("TRIB_", "RANK", "WORLD", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "TORCHELASTIC")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(launched)}
    return kept | {"OMP_NUM_THREADS": "1"} | {key: str(value) for key, value in variables.items()}


def state_of(pid):
    """R, S, T (stopped), Z (has ended) ... as the kernel calls it."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Job:
    """One process for each rank: `commands[rank]` with `variables(rank, world, port)`."""

    def __init__(self, commands, variables=torch_variables):
        port = free_port()
        self.files = [tempfile.TemporaryFile("w+") for _ in commands]
        self.processes = [
            subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=file,
                             env=environment(variables(rank, len(commands), port)))
            for rank, (command, file) in enumerate(zip(commands, self.files))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for file in self.files:
            file.close()

    def wait_until_struck(self, rank, fault):
        """When the rank was killed or stopped, by the monotonic clock."""
        process, end = self.processes[rank], time.monotonic() + LATE
        while time.monotonic() < end:
            if fault == "kill" and process.poll() is not None:
                assert process.returncode == -signal.SIGKILL, self.words_of(rank)
                return time.monotonic()
            if fault == "stop" and state_of(process.pid) == "T":
                return time.monotonic()
            assert process.poll() is None, self.words_of(rank)
            time.sleep(0.001)
        raise AssertionError(f"rank {rank} was not struck: {self.words_of(rank)}")

    def wait_for(self, ranks, since=0.0):
        """{rank: (exit code, seconds since `since`, standard error)} when they have ended."""
        ends, end = {}, time.monotonic() + LATE
        while len(ends) < len(ranks):
            for rank in ranks:
                if rank not in ends and self.processes[rank].poll() is not None:
                    ends[rank] = time.monotonic() - since
            if time.monotonic() > end:
                raise AssertionError({rank: self.words_of(rank) for rank in ranks if rank not in ends})
            time.sleep(0.001)
        return {rank: (self.processes[rank].returncode, ends[rank], self.words_of(rank))
                for rank in ranks}

    def words_of(self, rank):
        self.files[rank].seek(0)
        return self.files[rank].read()


def run_to_the_end(commands, variables=torch_variables):
    """Runs a job that must succeed."""
    with Job(commands, variables) as job:
        for rank, (code, _, words) in job.wait_for(range(len(commands))).items():
            assert code == 0, f"rank {rank}: {code}: {words}"


def causes_in(words):
    """The lines that say why a rank left, without what each sees for itself: its rank and step, the
    age of the heartbeat, the word of the kernel for the end of a connection."""
    own = r"^\[rank \d+ step \d+\] |last heartbeat [\d.]+ s ago |(?<=connection ended: )[^;]+"
    return [re.sub(own, "", line)
            for line in words.splitlines() if re.match(r"\[rank \d+ step \d+\] .* error: ", line)]


def losses_of(run):
    """What must be equal bit by bit, step by step."""
    return [(line["step"], line["loss"], line["grad_norm"])
            for line in tiny_run.read_lines(run / "metrics.jsonl")]


def tensors_of(run):
    """Digest of every shard of the newest checkpoint: parameters, moments, generators."""
    newest = max((path for path in (run / "checkpoints").glob("step-*") if path.name[5:].isdigit()),
                 key=lambda path: int(path.name[5:]))
    return newest.name, {str(path.relative_to(newest)): hashlib.sha256(path.read_bytes()).hexdigest()
                         for path in sorted(newest.rglob("*.safetensors"))}


def spread(values, unit="s", digits=2):
    """min / median / max; one number where they are the same."""
    ordered = sorted(values)
    words = [f"{value:.{digits}f}" for value in (ordered[0], ordered[len(ordered) // 2], ordered[-1])]
    return f"{words[0] if words[0] == words[2] else ' / '.join(words)} {unit}".rstrip()
