"""Kills a pipeline stage before each action of its list: the other leaves by name, and the run goes
on from its checkpoint to the same bits.

usage: struck_actions.py TRIBUTARY [unittest arguments]; TRIB_TEST_FULL=1: every action of every rank
"""

import os
import sys
import unittest

import rank_job
import same_bits
import tiny_run

PROGRAM = None
RANKS = 2
STEPS, STRUCK_AT = 4, 4
MOST_ACTIONS = 200
SOME = {0: (0, 1, 3, 7, 12), 1: (0, 2, 5, 9, 14)}  # of each rank, without TRIB_TEST_FULL


class StruckActions(same_bits.SameBits):
    @classmethod
    def run_straight(cls):
        rank_job.run_to_the_end(cls.commands("straight"))

    @classmethod
    def commands(cls, name, *arguments):
        config = tiny_run.write_config(
            cls.shared / f"{name}.yaml", cls.shared,
            run={"dir": str(cls.shared / name), "steps": STEPS},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            checkpoint={"every": 2, "async": False}, metrics={"tensorboard": False},
            parallel={"pp": 2, "schedule": "zb_h1", "heartbeat_seconds": 0.1})
        return [[PROGRAM, "train", str(config), *arguments]] * RANKS

    def strike(self, name, rank, action):
        """Returns whether the list has such an action."""
        drill = ["drill.fault=kill", f"drill.rank={rank}", f"drill.step={STRUCK_AT}",
                 "drill.section=action", f"drill.action={action}"]
        with rank_job.Job(self.commands(name, *drill)) as job:
            ends = job.wait_for(range(RANKS))
            struck_code, _, _ = ends[rank]
            if struck_code == 0:
                return False
            code, _, words = ends[1 - rank]
            self.assertEqual(code, 10, words)
            (line,) = rank_job.causes_in(words)
            self.assertIn(f"rank lost: rank {rank} on ", line)
        return True

    def test_a_kill_at_any_action_resumes_to_the_same_bits(self):
        struck = 0
        for rank in range(RANKS):
            every = range(MOST_ACTIONS) if os.environ.get("TRIB_TEST_FULL") == "1" else SOME[rank]
            for action in every:
                with self.subTest(rank=rank, action=action):
                    name = f"rank-{rank}-action-{action}"
                    if not self.strike(name, rank, action):
                        self.assertGreater(action, 10, "the list is shorter than it can be")
                        break
                    struck += 1
                    rank_job.run_to_the_end(self.commands(name, "--resume", "auto"))
                    self.expect_same_bits(name)
        print(f"killed before {struck} actions")
        self.assertGreaterEqual(struck, 8)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
