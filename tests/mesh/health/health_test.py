"""Ranks that die, stop, hang and fail: all others say why and leave in time. argv[1]: health_probe.

Real processes on the loopback interface. The probe beats every 0.1 s, a rank is lost after 2 s, a
main thread hangs after 4 s. Bounds on times are wide: on a machine that compiles beside, a process
can wait seconds for its turn. What was measured is printed.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

PROBE = sys.argv.pop(1)
PEER_LOST, HANG = 10, 11
LATE = 120  # s


def environment(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRIB_", "RANK", "WORLD"))}
    return kept | {"OMP_NUM_THREADS": "1"} | {k: str(v) for k, v in variables.items()}


class Job:
    """Ranks that share a store; rank 0 takes over a socket that already listens."""

    def __init__(self, world, *orders, only=None, store_port=None, error_files=None):
        listener = socket.create_server(("127.0.0.1", 0))
        self.ranks = {}
        for rank in only if only is not None else range(world):
            variables = {"TRIB_RANK": rank, "TRIB_WORLD_SIZE": world,
                         "TRIB_STORE_PORT": listener.getsockname()[1]}
            if rank == 0:
                variables["TRIB_STORE_DESCRIPTOR"] = listener.fileno()
            if store_port:
                variables = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank,
                             "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1",
                             "MASTER_PORT": store_port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
            if error_files:
                variables["TORCHELASTIC_ERROR_FILE"] = f"{error_files}/{rank}.json"
            self.ranks[rank] = subprocess.Popen(
                [PROBE, *orders], env=environment(**variables), pass_fds=[listener.fileno()] if rank == 0 else [],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        listener.close()

    def wait_until_ready(self):
        for rank in self.ranks.values():
            assert rank.stdout.readline() == "ready\n", rank.stderr.read()
        time.sleep(0.3)  # some steps

    def ends(self, *ranks):
        """{rank: (exit code, standard error)} of the ranks, within LATE."""
        deadline = time.monotonic() + LATE
        found = {}
        for rank in ranks or self.ranks:
            _, errors = self.ranks[rank].communicate(timeout=max(0.1, deadline - time.monotonic()))
            found[rank] = (self.ranks[rank].returncode, errors)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks.values():
            if rank.poll() is None:
                rank.kill()
            rank.communicate()


class Health(unittest.TestCase):
    def assert_all_say(self, ends, code, *words):
        lines = set()
        for rank, (exit_code, errors) in ends.items():
            with self.subTest(rank=rank):
                self.assertEqual(exit_code, code, errors)
                said = [line for line in errors.splitlines() if "error: " in line or "bug: " in line]
                self.assertEqual(len(said), 1, errors)
                self.assertRegex(said[0], rf"^\[rank {rank} step \d+\] ")
                for word in words:
                    self.assertRegex(said[0], word)
                lines.add(said[0].split("] ", 1)[1])
        self.assertEqual(len(lines), 1, lines)

    def measure(self, what, start, most=None):
        seconds = time.monotonic() - start
        print(f"{what}: all others have left after {seconds:.2f} s")
        if most:
            self.assertLess(seconds, most)

    def test_ranks_that_finish_are_not_missed(self):
        with Job(3, "steps=20") as job:
            self.assertEqual({end[0] for end in job.ends().values()}, {0})

    def test_a_world_of_one_finishes(self):
        with Job(1, "steps=3") as job:
            self.assertEqual(job.ends()[0][0], 0)

    def test_kill_of_a_rank(self):
        with Job(3) as job:
            job.wait_until_ready()
            start = time.monotonic()
            job.ranks[1].kill()
            ends = job.ends(0, 2)
            self.measure("kill -9 of a rank", start, most=5)
            self.assert_all_say(ends, PEER_LOST, "resource error: mesh: rank lost: rank 1 on ",
                                r"last heartbeat \d\.\d s ago in section (forward|backward) of step",
                                "its connection ended")

    def test_kill_of_rank_0_which_serves_the_store(self):
        with Job(3) as job:
            job.wait_until_ready()
            start = time.monotonic()
            job.ranks[0].kill()
            ends = job.ends(1, 2)
            self.measure("kill -9 of rank 0", start, most=5)
            for end in ends.values():
                self.assertEqual(end[0], PEER_LOST)
                self.assertIn("rank lost: rank 0 on ", end[1])
                self.assertIn("it is the controller", end[1])

    def test_a_stopped_rank(self):
        with Job(3) as job:
            job.wait_until_ready()
            start = time.monotonic()
            job.ranks[2].send_signal(signal.SIGSTOP)
            ends = job.ends(0, 1)
            self.measure("SIGSTOP of a rank, lost after 2 s", start, most=10)
            self.assert_all_say(ends, PEER_LOST, "rank lost: rank 2 on ", "none for 2 s")
            job.ranks[2].send_signal(signal.SIGCONT)
            self.assert_all_say(job.ends(2), PEER_LOST, "rank lost: rank 2 on ")

    def test_a_stopped_rank_0(self):
        with Job(2) as job:
            job.wait_until_ready()
            start = time.monotonic()
            job.ranks[0].send_signal(signal.SIGSTOP)
            ends = job.ends(1)
            self.measure("SIGSTOP of rank 0, lost after 2 s", start, most=10)
            self.assert_all_say(ends, PEER_LOST, "rank lost: rank 0 on ", "none for 2 s")
            job.ranks[0].send_signal(signal.SIGCONT)
            self.assert_all_say(job.ends(0), PEER_LOST, "rank lost: rank 1 on ")

    def test_a_short_stop_is_no_loss(self):
        with Job(2, "steps=100") as job:
            job.wait_until_ready()
            job.ranks[1].send_signal(signal.SIGSTOP)
            time.sleep(0.4)
            job.ranks[1].send_signal(signal.SIGCONT)
            self.assertEqual({end[0] for end in job.ends().values()}, {0})

    def test_a_main_thread_that_hangs_leaves_its_stacks(self):
        with tempfile.TemporaryDirectory() as run, Job(2, f"run={run}", "stick=1:1") as job:
            for rank in job.ranks.values():
                rank.stdout.readline()
            start = time.monotonic()
            ends = job.ends()
            self.measure("main thread hangs, deadline 4 s", start)
            self.assert_all_say(ends, HANG, "resource error: mesh: no progress: rank 1 on ",
                                r"section backward of step 1, none for [4-9]\.\d s, deadline 4\.0 s",
                                "watchdog-rank-1.txt")
            for rank in range(2):  # the one that waits has something to tell, too
                stacks = Path(run, f"watchdog-rank-{rank}.txt").read_text()
                self.assertIn("no progress: rank 1", stacks)
                self.assertIn(" health, kernel", stacks)
            self.assertIn("nanosleep", stacks.split("thread")[1])

    def test_a_save_may_take_longer_than_its_deadline_while_any_rank_goes_on(self):
        with Job(3, "save=6:1", "steps=3") as job:  # the deadline is 1.5 s without progress
            for code, errors in job.ends().values():
                self.assertEqual(code, 0, errors)

    def test_a_save_in_which_no_rank_goes_on_ends(self):
        with tempfile.TemporaryDirectory() as run, Job(2, f"run={run}", "save=6:7") as job:
            # All wait for a rank that is not there.
            self.assert_all_say(job.ends(), HANG, "no progress: rank [01] on ",
                                "section checkpoint of step 1", "deadline 1.5 s")

    def test_a_failure_of_a_rank_is_what_all_ranks_say(self):
        with tempfile.TemporaryDirectory() as files:
            text = "input error: data: file is damaged; found: a.jsonl"
            with Job(3, f"fail=2:5:2:{text}", error_files=files) as job:
                ends = job.ends()
                self.assert_all_say(ends, 2, text)
            for rank in range(3):
                message = json.loads(Path(files, f"{rank}.json").read_text())["message"]
                self.assertIn(text, message["message"])
                self.assertIn(text, message["extraInfo"]["py_callstack"])
                self.assertLess(abs(int(message["extraInfo"]["timestamp"]) - time.time()), 3600)

    def test_the_cause_wins_over_its_echo(self):
        with Job(3, "fail=0:5:10:resource error: mesh: connection reset by peer",
                 "fail=1:6:70:bug: train: broken") as job:
            self.assert_all_say(job.ends(), 70, "bug: train: broken")

    def test_a_failure_in_a_world_of_one(self):
        with Job(1, "fail=0:2:5:resource error: train: disk full") as job:
            self.assert_all_say(job.ends(), 5, "disk full")

    def test_the_store_of_the_launcher_may_die(self):
        store = subprocess.Popen([PROBE, "serve"], stdout=subprocess.PIPE, text=True,
                                 env=environment())
        try:
            with Job(2, "steps=100", store_port=store.stdout.readline().strip()) as job:
                job.wait_until_ready()
                store.kill()
                self.assertEqual({end[0] for end in job.ends().values()}, {0})
        finally:
            store.kill()
            store.communicate()


class Strangers(unittest.TestCase):
    """Whoever connects to the ports of a job changes nothing for it."""

    @staticmethod
    def ports_of(process):
        """Those that it listens on: of the store and of the watch."""
        sockets = set()
        for file in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                target = os.readlink(file)
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
        ports = set()
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in sockets:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
        return ports

    @staticmethod
    def memory_of(process):
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024  # MiB

    def molest(self, port, seconds):
        """Garbage, half a line, floods of lines, and connections that say nothing, all at once."""
        end = time.monotonic() + seconds
        held = []
        rubbish = [os.urandom(65536), b"GET / HTTP/1.1\r\n\r\n", b"hello", b"\n" * 65536,
                   b"\x16\x03\x01\x02\x00\x01", b"\xff" * 4096]
        turn = 0
        while time.monotonic() < end:
            try:
                connection = socket.create_connection(("127.0.0.1", port), timeout=1)
                connection.settimeout(0.2)
                if len(held) < 150:
                    held.append(connection)
                    continue
                connection.sendall(rubbish[turn % len(rubbish)])
                turn += 1
                connection.close()
            except OSError:
                pass
        for connection in held:
            connection.close()
        return turn

    def test_a_job_goes_on_under_garbage_floods_and_silent_connections(self):
        with Job(3) as job:
            job.wait_until_ready()
            ports = self.ports_of(job.ranks[0])
            self.assertEqual(len(ports), 2, ports)
            before = self.memory_of(job.ranks[0])
            threads = [threading.Thread(target=self.molest, args=(port, 7)) for port in ports]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for rank, process in job.ranks.items():
                self.assertIsNone(process.poll(), rank)
            grown = self.memory_of(job.ranks[0]) - before
            print(f"strangers: memory of rank 0 has grown by {grown:.1f} MiB")
            self.assertLess(grown, 64)
            # The store has told of every stranger by now: nobody reads it, and the pipe is full.
            with open(f"/proc/{job.ranks[0].pid}/fd/2", "wb") as errors:
                self.assertFalse(select.select([], [errors], [], 0)[1], "it takes more")
            job.ranks[1].kill()
            self.assertEqual(job.ranks[0].wait(timeout=LATE), PEER_LOST)


class Start(unittest.TestCase):
    def test_names_the_ranks_that_did_not_arrive(self):
        with Job(5, "bootstrap=6", only=[0, 2, 4]) as job:
            for rank, (code, errors) in job.ends().items():
                with self.subTest(rank=rank):
                    self.assertEqual(code, 5, errors)
                    self.assertIn("ranks are missing at the start", errors)
                    self.assertIn("found: rank 1, rank 3 of 5 did not arrive", errors)
                    self.assertIn("parallel.bootstrap_timeout_seconds", errors)

    @staticmethod
    def wait_until_stopped(process):
        """Returns when it was, by the monotonic clock."""
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        return time.monotonic()

    def test_names_a_rank_that_was_stopped_before_it_arrived(self):
        with Job(3, "bootstrap=8", "stop=2:start") as job:
            for rank, (code, errors) in job.ends(0, 1).items():
                self.assertEqual(code, 5, errors)
                self.assertIn("found: rank 2 of 3 did not arrive", errors)
                if rank == 0 or "still waiting" in errors:  # the first of those that are there
                    self.assertIn("still waiting at the start: ", errors)
                    self.assertLess(errors.index("did not arrive within 2 s"),
                                    errors.index("ranks are missing at the start"))

    def test_names_a_rank_that_was_stopped_when_it_had_met_the_others(self):
        with Job(3, "bootstrap=100", "stop=2:met") as job:
            start = self.wait_until_stopped(job.ranks[2])
            ends = job.ends(0, 1)
            print(f"SIGSTOP after the meeting: the others left after {time.monotonic() - start:.2f} s")
            self.assertLess(time.monotonic() - start, 15)
            for code, errors in ends.values():
                self.assertEqual(code, PEER_LOST, errors)
                self.assertIn("rank lost: rank 2 on ", errors)
                self.assertIn("met the others and did not join the watch within 2 s", errors)

    def test_names_rank_0_that_was_stopped_when_it_had_met_the_others(self):
        with Job(3, "bootstrap=100", "stop=0:met") as job:
            start = self.wait_until_stopped(job.ranks[0])
            ends = job.ends(1, 2)
            print(f"SIGSTOP of rank 0: the others left after {time.monotonic() - start:.2f} s")
            self.assertLess(time.monotonic() - start, 15)
            for code, errors in ends.values():
                self.assertEqual(code, PEER_LOST, errors)
                self.assertRegex(errors, "rank lost: rank 0 |nothing from rank 0 for 2 s")

    def test_names_rank_0_that_was_stopped_before_it_serves_the_store(self):
        with Job(2, "bootstrap=6", "stop=0:start") as job:
            code, errors = job.ends(1)[1]
            self.assertEqual(code, 5, errors)
            self.assertLess(errors.index("still waiting at the start: rank 0 does not serve the store"),
                            errors.index("mesh: store does not answer"))

    def test_says_that_rank_0_is_not_reached(self):
        with Job(2, "bootstrap=2", only=[1]) as job:
            code, errors = job.ends()[1]
            self.assertEqual(code, 5, errors)
            self.assertIn("mesh: store is not reached", errors)
            self.assertIn("rank 0 serves it within 2 s", errors)

    def test_says_that_the_store_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
            variables = {"RANK": 1, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": silent.getsockname()[1]}
            result = subprocess.run([PROBE, "bootstrap=1"], env=environment(**variables),
                                    capture_output=True, text=True, timeout=LATE)
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertIn("mesh: store does not answer", result.stderr)
            self.assertIn("rank 1 of 2", result.stderr)

    def test_says_that_the_port_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            variables = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": taken.getsockname()[1]}
            start = time.monotonic()
            result = subprocess.run([PROBE, "bootstrap=90"], env=environment(**variables),
                                    capture_output=True, text=True, timeout=LATE)
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertIn("mesh: store cannot be served", result.stderr)
            self.assertIn("a free port of this machine", result.stderr)
            self.assertLess(time.monotonic() - start, 60)

    def test_refuses_two_processes_of_one_rank(self):
        with Job(3, "bootstrap=8", only=[0, 1]) as job:
            variables = {}
            while "TRIB_RANK" not in variables:  # empty while the process is being started
                environ = Path(f"/proc/{job.ranks[1].pid}/environ").read_text().split("\0")
                variables = dict(entry.split("=", 1) for entry in environ if "=" in entry)
            second = subprocess.run([PROBE, "bootstrap=8"], env=variables, capture_output=True,
                                    text=True, timeout=LATE)
            # Either of the two may be the second to arrive; the other one misses rank 2.
            errors = second.stderr + job.ends(1)[1][1]
            self.assertEqual(second.returncode, 5)
            self.assertEqual(errors.count("mesh: two processes have the same rank"), 1, errors)
            self.assertIn("rank 1 has arrived before", errors)


if __name__ == "__main__":
    unittest.main()
