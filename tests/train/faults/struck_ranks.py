"""Strikes one of three ranks with a fault drill: the others leave in time and say why, nothing is
left behind, and the run goes on from its checkpoint to the same bits.

usage: struck_ranks.py TRIBUTARY [unittest arguments]; TRIB_TEST_FULL=1: every rank in every section
"""

import collections
import os
import signal
import subprocess
import sys
import unittest

import rank_job
import same_bits
import tiny_run

PROGRAM = None
RANKS = 3
STEPS, STRUCK_AT = 4, 4
LOST_AFTER = 2.0  # s, parallel.lost_after_seconds
# From the fault to the end of the last of the others. A kill is seen at once, and 0.2 s go into
# finding the cause; the rest is for a machine that is busy.
LIMITS = {"kill": 6.0, "stop": LOST_AFTER * 1.1 + 6.0}
# Where the drill strikes, and the section that the others then read in the last heartbeat.
SECTIONS = {"forward": "forward", "backward": "backward", "collective": "backward",
            "optimizer": "optimizer", "checkpoint": "checkpoint"}


def cells():
    every = [(fault, rank, section) for section in SECTIONS for fault in LIMITS
             for rank in range(RANKS)]
    if os.environ.get("TRIB_TEST_FULL") == "1":
        return every
    # Every section is killed in, every rank is killed and stopped.
    killed = [("kill", i % RANKS, section) for i, section in enumerate(SECTIONS)]
    return [*killed, ("stop", 1, "forward"), ("stop", 0, "collective"), ("stop", 2, "checkpoint")]


class StruckRanks(same_bits.SameBits):
    @classmethod
    def run_straight(cls):
        rank_job.run_to_the_end(cls.commands("straight"))

    @classmethod
    def config(cls, name):
        return tiny_run.write_config(
            cls.shared / f"{name}.yaml", cls.shared,
            run={"dir": str(cls.shared / name), "steps": STEPS},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            checkpoint={"every": 2, "async": False}, metrics={"tensorboard": False},
            parallel={"heartbeat_seconds": 0.1})

    @classmethod
    def commands(cls, name, *arguments):
        return [[PROGRAM, "train", str(cls.config(name)), *arguments]] * RANKS

    @staticmethod
    def drill(fault, rank, section):
        return [f"drill.fault={fault}", f"drill.rank={rank}", f"drill.step={STRUCK_AT}",
                f"drill.section={section}", "drill.after_seconds=0.25",
                f"parallel.lost_after_seconds={LOST_AFTER}"]

    def strike(self, name, fault, rank, section):
        """Returns how long the last of the others took to leave."""
        with rank_job.Job(self.commands(name, *self.drill(fault, rank, section))) as job:
            struck_at = job.wait_until_struck(rank, fault)
            ends = job.wait_for([each for each in range(RANKS) if each != rank], struck_at)
            announced = f"fault drill: rank {rank} is {'killed' if fault == 'kill' else 'stopped'}"
            self.assertIn(announced, job.words_of(rank))
        causes = {tuple(rank_job.causes_in(words)) for _, _, words in ends.values()}
        self.assertEqual(len(causes), 1, causes)
        (lines,) = causes
        self.assertEqual(len(lines), 1, ends)
        self.assertIn(f"rank lost: rank {rank} on ", lines[0])
        self.assertIn(f"in section {SECTIONS[section]} of step {STRUCK_AT}", lines[0])
        self.assertEqual({code for code, _, _ in ends.values()}, {10})
        return max(seconds for _, seconds, _ in ends.values())

    def test_the_others_leave_by_name_and_the_run_goes_on_to_the_same_bits(self):
        seconds = collections.defaultdict(list)
        for fault, rank, section in cells():
            with self.subTest(fault=fault, rank=rank, section=section):
                name = f"{fault}-{rank}-{section}"
                took = self.strike(name, fault, rank, section)
                seconds[fault].append(took)
                print(f"{fault:4} rank {rank} in {section:10} others left after {took:.2f} s",
                      flush=True)
                self.assertLess(took, LIMITS[fault])
                self.assertEqual(rank_job.tensors_of(self.shared / name)[0], "step-2")
                rank_job.run_to_the_end(self.commands(name, "--resume", "auto"))
                self.expect_same_bits(name)
        for fault, took in seconds.items():
            print(f"{fault}: {len(took)} times, others left after {rank_job.spread(took)}")

    def test_the_launcher_leaves_no_process_and_goes_on(self):
        for fault, rank in (("kill", 0), ("stop", 1)):
            with self.subTest(fault=fault):
                name = f"launched-{fault}"
                command = [PROGRAM, "launch", "-n", str(RANKS), "--restarts", "1", "--pause", "0.1",
                           "--", "train", str(self.config(name)),
                           *self.drill(fault, rank, "backward")]
                result = subprocess.run(command, env=rank_job.environment({}), text=True,
                                        capture_output=True, timeout=rank_job.LATE)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("restart 1 of 1", result.stderr)
                self.assertIn(f"fault drill: rank {rank} of 3", result.stdout)
                self.assertIn("fault drill: over, this is restart 1", result.stdout)
                left = subprocess.run(["pgrep", "-f", f"train {self.shared / name}.yaml"],
                                      capture_output=True, text=True)
                self.assertEqual(left.stdout, "")
                self.expect_same_bits(name)

    def test_a_failure_ends_all_with_its_own_words(self):
        with rank_job.Job(self.commands("fail", *self.drill("fail", 2, "collective"))) as job:
            for code, _, words in job.wait_for(range(RANKS)).values():
                self.assertEqual(code, 5, words)
                (line,) = rank_job.causes_in(words)
                self.assertIn("resource error: train: fault drill; where: rank 2 in a collective of "
                              "backward of step 4", line)

    def test_a_drill_for_a_rank_that_is_not_there_is_refused(self):
        with rank_job.Job(self.commands("absent", "drill.fault=kill", "drill.rank=3")) as job:
            for code, _, words in job.wait_for(range(RANKS)).values():
                self.assertEqual(code, 2, words)
                self.assertIn("drill.rank; found: 3; expected: 0 to 2 in a world of 3", words)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
