"""Strikes encoders beside a run, the run, and the launcher: what goes on goes on to the same bits without a
long step, and nothing is left behind.

usage: lost_encoders.py TRIBUTARY STRIKE_LIBRARY [unittest arguments]; TRIB_TEST_FULL=1: all strikes, five trials of
each, with the rows of docs/results/faults.md
"""

import os
import pathlib
import signal
import statistics
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import beside_one_process  # noqa: E402
import flow_case  # noqa: E402
import tiny_run  # noqa: E402
from fault_table import print_row, seconds_of  # noqa: E402
from flow_case import MANY, flow  # noqa: E402
from rank_job import spread  # noqa: E402

LIBRARY = None
FULL = os.environ.get("TRIB_TEST_FULL") == "1"
TRIALS = 5 if FULL else 1
FENCED_AFTER = 3.0  # s, an encoder that is silent
BUSY = 2.0  # s, of a machine that does other work
LEFT = 5.0  # s, until all processes of a job have ended with it
POINTS = ("idle", "encoding", "serving", "publishing")


def cpu_ticks(process):
    words = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def wait_until_idle(process):
    """It has used no processor for a while; a step of the run is longer."""
    quiet, ticks = 0, cpu_ticks(process)
    while quiet < 10:
        time.sleep(0.002)
        quiet, ticks = quiet + 1 if cpu_ticks(process) == ticks else 0, cpu_ticks(process)


def is_rank_0(process):
    return b"TRIB_RANK=0" in pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")


class LostEncoders(flow_case.FlowCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = {}

    def expect_bits_of_nobody(self, run, steps):
        """Those of a run without encoders."""
        if steps not in self.alone:
            self.alone[steps] = self.train_alone(f"alone-{steps}",
                                                 **self.values(parallel=flow(), run={"steps": steps}))
        self.expect_same_bits(run, self.alone[steps])

    def lines_of(self, name):
        return tiny_run.read_lines(self.shared / name / "metrics.jsonl")

    def kill_at(self, name, point):
        """Kills one of two encoders. Returns the figures of the run."""
        shared = self.shared / f"{name}.struck"
        shared.write_bytes(bytes(16))
        variables = {"LD_PRELOAD": LIBRARY, "STRIKE_FILE": str(shared)}
        if point != "idle":
            variables["STRIKE_AT"] = f"{point} 20"
        with self.started(name, 1, 2, variables, parallel=flow(), run={"steps": MANY},
                          pool={"engines": ["tcp"]}) as launcher:
            if point == "idle":
                self.wait_for_steps(name, 20)
                victim = self.encoders_of(launcher)[0]
                wait_until_idle(victim)
                os.kill(victim, signal.SIGKILL)
            self.assertIn("another one takes its place", self.expect_good_end(launcher))
        self.expect_bits_of_nobody(self.shared / name, MANY)
        struck, published = struct.unpack("<QQ", shared.read_bytes())
        self.assertEqual(struck, point != "idle")
        lines, use = self.lines_of(name), self.use(self.shared / name)
        at = next(i for i, each in enumerate(use) if each["lost"])
        self.assertEqual((sum(each["lost"] for each in use), sum(each["left"] for each in use)), (1, 0))
        return {"longest": max(seconds_of(line) for line in lines[max(1, at - 1):]),
                "speed": statistics.median(map(seconds_of, lines[10:at])) /
                         statistics.median(map(seconds_of, lines[-50:])),
                "in_vain": published - sum(each["objects"] for each in use),
                "by_rank": sum(each["encoded_here"] for each in use[10:])}

    def test_a_killed_encoder_costs_no_bit_and_no_long_step(self):  # F3
        for point in POINTS if FULL else ("publishing",):
            with self.subTest(point):
                found = [self.kill_at(f"killed-{point}-{trial}", point) for trial in range(TRIALS)]
                values = {key: [each[key] for each in found] for key in found[0]}
                self.assertLess(max(values["longest"]), BUSY)
                print_row(f"F3 `kill -9` of an encoder, {point}", TRIALS, values["longest"],
                          f"throughput after / before {spread(values['speed'], '')}",
                          f"samples encoded in vain {spread(values['in_vain'], '', 0)}",
                          f"by the rank {spread(values['by_rank'], '', 0)}")

    def stop(self, name, seconds, steps):
        """Stops one of two encoders for a while, None for ever. Returns the lines of the run."""
        with self.started(name, 1, 2, parallel=flow(), run={"steps": steps}) as launcher:
            self.wait_for_steps(name, 20)
            first, _ = self.encoders_of(launcher)
            os.kill(first, signal.SIGSTOP)
            if seconds is not None:
                time.sleep(seconds)
                os.kill(first, signal.SIGCONT)
            self.expect_good_end(launcher)
        self.expect_bits_of_nobody(self.shared / name, steps)
        return self.lines_of(name)

    def test_a_stopped_encoder_costs_no_bit_and_no_long_step(self):  # F6
        for seconds in (1, 10, None) if FULL else (1, None):
            with self.subTest(seconds):
                steps = 2000 if seconds == 10 else MANY
                runs = [self.stop(f"stopped-{seconds}-{trial}", seconds, steps) for trial in range(TRIALS)]
                longest = [max(map(seconds_of, lines[20:])) for lines in runs]
                fenced, joined = ([sum(line["flow"][key] for line in lines) for lines in runs]
                                  for key in ("lost", "joined"))
                is_fenced = seconds != 1
                self.assertLess(max(longest), (FENCED_AFTER if is_fenced else seconds) * 1.1 + BUSY)
                self.assertGreater(min(lines[-1]["flow"]["encoders"] for lines in runs), 0, "the other goes on")
                if is_fenced:
                    self.assertEqual(set(fenced), {1})
                if seconds == 10:
                    self.assertEqual(set(joined), {3}, "it has come back")
                print_row(f"F6 SIGSTOP of an encoder {f'for {seconds} s' if seconds else 'for ever'}", TRIALS,
                          longest, f"fenced {sum(fenced)} of {TRIALS}",
                          f"back as a new member {sum(joined) - 2 * TRIALS}")

    def test_an_only_encoder_that_is_killed_leaves_its_work_to_the_rank(self):
        with self.started("only", 1, 1, parallel=flow(), run={"steps": MANY}) as launcher:
            self.wait_for_steps("only", 20)
            (only,) = self.encoders_of(launcher)
            os.kill(only, signal.SIGKILL)
            self.assertIn("another one takes its place", self.expect_good_end(launcher))
        self.expect_bits_of_nobody(self.shared / "only", MANY)
        self.assertGreater(self.sum_of(self.shared / "only", "encoded_here"), 0)

    def end_with(self, name, victim):
        """Kills rank 0, whose process holds the controller, or the launcher. Returns after how many seconds no
        other process of the job is there."""
        with self.started(name, 2, 2, options=("--restarts", "0"), parallel=flow(dp_shard=2),
                          run={"steps": 100000}) as launcher:
            self.wait_for_steps(name, 2)
            children = self.children_of(launcher)
            self.assertEqual(len(children), 4)
            (head,) = filter(is_rank_0, self.children_of(launcher, " train "))
            os.kill(launcher.pid if victim == "launcher" else head, signal.SIGKILL)
            struck, ended = time.monotonic(), 0.0
            if victim == "launcher":
                launcher.wait()
            while any(os.path.exists(f"/proc/{child}") for child in children):
                self.assertLess(time.monotonic(), struck + LEFT + BUSY, "a process of the job is still there")
                time.sleep(0.01)
            return time.monotonic() - struck

    def test_nothing_is_left_of_a_job_that_loses_its_head(self):  # F5
        before = set(os.listdir("/dev/shm"))
        for victim in ("rank 0, with the controller", "launcher") if FULL else ("launcher",):
            with self.subTest(victim):
                ended = [self.end_with(f"orphans-{victim[:4]}-{trial}", victim) for trial in range(TRIALS)]
                self.assertLess(max(ended), LEFT)
                print_row(f"F5 `kill -9` of the {victim}", TRIALS, [], f"all others ended after {spread(ended)}",
                          "processes left 0, files in /dev/shm 0")
        self.assertEqual(set(os.listdir("/dev/shm")) - before, set())
        # The directory serves the next start, whose pool replaces what the killed one has left.
        with self.started("orphans-laun-0", 1, 1, parallel=flow(), run={"steps": MANY}) as launcher:
            self.expect_good_end(launcher)

    def test_an_encoder_without_room_waits_and_costs_no_bit(self):  # F17
        batch = {"global_samples": 24, "capacity_tokens": 160}
        values = lambda: {"parallel": flow(), "batch": dict(batch), "run": {"steps": 40}}
        alone = self.train_alone("alone-room", **self.values(**values()))
        blocked, longest = [], []
        for trial in range(TRIALS):
            run = self.flow_run(f"room-{trial}", 1, 1, pool={"encoder_mib": 1, "ahead": 4, "encoders": 1}, **values())
            self.expect_same_bits(run, alone)
            blocked.append(self.sum_of(run, "encoder_blocked"))
            longest.append(max(map(seconds_of, tiny_run.read_lines(run / "metrics.jsonl")[1:])))
        self.assertGreater(min(blocked), 0)
        print_row("F17 memory of an encoder for a quarter of what it may make ahead", TRIALS, longest,
                  f"blocked {spread(blocked)}")
        result = self.launch("no-room", 1, "pool.encoder_mib=0", **self.values(**values()))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("pool.encoder_mib", result.stderr)


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    beside_one_process.main()
