"""An encoder on another node than the run: features come over the network, and whatever that does the run goes on
with the same bits.

usage: far_encoder.py TRIBUTARY [unittest arguments]; TRIB_TEST_FULL=1: all faults, three trials of each, with the
rows of docs/results/faults.md
"""

import json
import os
import re
import subprocess
import sys
import time
import unittest

import bad_cable
import rank_job
import run_case
import tiny_run
import two_nodes
from fault_table import print_row, seconds_of
from rank_job import spread

PROGRAM = None
FULL = os.environ.get("TRIB_TEST_FULL") == "1"
TRIALS = 3 if FULL else 1
PATIENCE = 1.0  # s, pool.patience_seconds
STRIKES = 10  # of a fault that strikes single messages


def cut_for_ever(cable, *_):
    cable.cut()


def cut_for_a_second(cable, *_):
    cable.cut()
    time.sleep(1)
    cable.mend()


def lose_one_way(cable, *_):
    cable.loses = {1}
    time.sleep(6)
    cable.loses = frozenset()


def delay(cable, *_):
    cable.delay = 0.2


def throttle(cable, *_):
    cable.rate = 1e6


def cut_frames(cable, goes_on, _):
    return strike_messages(cable, goes_on, "cuts")


def flip_bits(cable, goes_on, _):
    return strike_messages(cable, goes_on, "flips")


def strike_messages(cable, goes_on, kind):
    """Returns how many messages were struck before the run ended."""
    struck = 0
    for _ in range(STRIKES):
        setattr(cable, kind, 1)
        while getattr(cable, kind) > 0 and goes_on():
            time.sleep(0.01)
        struck += 1 - getattr(cable, kind)
        time.sleep(0.1)
    return struck


def kill(_cable, _goes_on, encoder):
    encoder.kill()


# Each with its steps, and whether the encoder is fenced: it must be (True), must not be (False), or may be (None).
FAULTS = {"`kill -9`": (kill, 300, True),
          "link down for ever": (cut_for_ever, 300, True),
          "link down for 1 s": (cut_for_a_second, 300, False),
          "one-way loss for 6 s": (lose_one_way, 1500, True),
          "200 ms delay": (delay, 60, False),
          "1 MB/s": (throttle, 300, False),
          f"cut within a frame, {STRIKES} times": (cut_frames, 300, None),
          f"one bit flipped, {STRIKES} times": (flip_bits, 300, None)}


class FarEncoder(run_case.Workplace):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = {}

    def config(self, name, steps, **pool):
        return tiny_run.write_config(
            self.shared / f"{name}.yaml", self.shared, run={"dir": str(self.shared / name), "steps": steps},
            model={"freeze": ["vision"]}, checkpoint={"every": 100000},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            parallel={"vision": {"placement": "flow"}}, pool=pool)

    def lines(self, name):
        file = self.shared / name / "metrics.jsonl"
        return tiny_run.read_lines(file) if file.exists() else []

    def bits_of(self, name):
        """Losses, and the bytes of the last checkpoint."""
        return [line["loss"] for line in self.lines(name)], rank_job.tensors_of(self.shared / name)

    def expect_bits_of_nobody(self, name, steps):
        """Those of a run without encoders."""
        alone = f"alone-{steps}"
        if steps not in self.alone:
            result = tiny_run.train(PROGRAM, self.config(alone, steps))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.alone[steps] = self.bits_of(alone)
        self.assertEqual(self.bits_of(name), self.alone[steps])

    def hide_the_socket(self, name):
        """Nodes that share their files would share the controller's unix socket too, as machines do not."""
        file, end = self.shared / name / "pool/controller.json", time.monotonic() + rank_job.LATE
        while not file.exists():
            self.assertLess(time.monotonic(), end, "no controller")
            time.sleep(0.01)
        content = json.loads(file.read_text())
        content["unix_socket"] = ""
        file.with_suffix(".part").write_text(json.dumps(content))
        file.with_suffix(".part").rename(file)

    def train_over(self, cable, name, steps, strike, shares_socket=False):
        """Trains on node 0 with an encoder on node 1. Returns what both said, after how many seconds the
        encoder was fenced, if it was, and what the strike returned."""
        config = str(self.config(name, steps, encoders=1, bind=two_nodes.CABLE, patience_seconds=PATIENCE))
        start = lambda node, verb: subprocess.Popen(
            cable.on(node, [PROGRAM, verb, config]), env=tiny_run.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        run, encoder = start(0, "train"), None
        try:
            if not shares_socket:
                self.hide_the_socket(name)
            encoder = start(1, "encoder")
            end = time.monotonic() + rank_job.LATE
            while len(self.lines(name)) < 30:
                if run.poll() is not None:
                    self.fail(run.communicate()[0])
                self.assertLess(time.monotonic(), end, "no step 30")
                time.sleep(0.02)
            struck = len(self.lines(name))
            applied = strike(cable, lambda: run.poll() is None, encoder)
            said = run.communicate(timeout=300)[0]
            self.assertEqual(run.returncode, 0, said)
            lines = self.lines(name)
            fenced = [sum(map(seconds_of, lines[struck:i + 1])) for i, line in enumerate(lines)
                      if line["flow"]["lost"] > 0]
        finally:
            for process in filter(None, (run, encoder)):
                process.kill()
        return said + encoder.communicate()[0], fenced, applied

    def try_fault(self, fault, trial):
        strike, steps, _ = FAULTS[fault]
        name = re.sub(r"\W+", "-", fault) + f"-{trial}"
        with bad_cable.BadCable() as cable:
            said, fenced, applied = self.train_over(cable, name, steps, strike)
            resent = cable.resent
        self.expect_bits_of_nobody(name, steps)
        lines = self.lines(name)
        self.assertIn("by tcp", said)
        self.assertGreater(sum(line["flow"]["objects"] for line in lines[10:30]), 0)
        longest = max(map(seconds_of, lines[10:]))
        self.assertLess(longest, PATIENCE * 1.1 + 4)
        found = {"longest": longest, "fenced": fenced[0] if fenced else None, "resent": resent,
                 "reopened": said.count("opened its broken link again"),
                 "reads": said.count("fails to read from"), "back": sum(line["flow"]["joined"] for line in lines) - 1}
        if strike in (cut_frames, flip_bits):
            self.assertEqual(applied, STRIKES, "the run ended too early")
            self.assertGreater(found["reopened"] + found["reads"], 0, "no fault was noticed")
        return found

    def test_a_bad_network_costs_no_bit_and_no_long_step(self):  # F9
        few = ("link down for ever", f"one bit flipped, {STRIKES} times")
        for fault in FAULTS if FULL else few:
            with self.subTest(fault):
                found = [self.try_fault(fault, trial) for trial in range(TRIALS)]
                fenced = [each["fenced"] for each in found if each["fenced"] is not None]
                must = FAULTS[fault][2]
                if must is not None:
                    self.assertEqual(len(fenced), TRIALS if must else 0)
                print_row(f"F9 encoder on another node, {fault}", TRIALS, [each["longest"] for each in found],
                          f"fenced {len(fenced)} of {TRIALS}" + (f", after {spread(fenced)}" if fenced else ""),
                          *(f"{what} {spread([each[key] for each in found], unit, 0)}" for what, key, unit in (
                              ("back", "back", ""), ("links opened again", "reopened", ""),
                              ("links of features lost", "reads", ""), ("resent", "resent", "B"))))

    def test_an_encoder_that_no_rank_can_read_from_stays_away(self):
        if not FULL:
            self.skipTest("TRIB_TEST_FULL=1 runs it")
        with bad_cable.BadCable() as cable:
            self.train_over(cable, "unread", 1500, cut_for_ever, shares_socket=True)
        self.expect_bits_of_nobody("unread", 1500)
        joined = sum(line["flow"]["joined"] for line in self.lines("unread"))
        self.assertTrue(2 <= joined <= 6, joined)


if __name__ == "__main__":
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        print("skipped: this machine lets us open no /dev/net/tun, the ends of the cable")
        sys.exit(two_nodes.SKIPPED)
    two_nodes.enter_or_skip()
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
