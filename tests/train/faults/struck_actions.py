"""Kills a rank before each action of its list: the others leave by name, and the run goes on from
its checkpoint to the same bits.

usage: struck_actions.py TRIBUTARY [unittest arguments]; TRIB_TEST_FULL=1: every action of every rank
"""

import os
import sys
import unittest

import rank_job
import same_bits
import tiny_run

PROGRAM = None
STEPS, STRUCK_AT = 4, 4
MAX_ACTIONS = 200


class StruckActions:
    """Of a run on `ranks` with these sections `parallel` and `model`; `some` are actions of ranks that
    are struck without TRIB_TEST_FULL."""

    model = {}

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
            model=cls.model, parallel=cls.parallel | {"heartbeat_seconds": 0.1})
        return [[PROGRAM, "train", str(config), *arguments]] * cls.ranks

    def strike(self, name, rank, action):
        """Returns whether the list has such an action."""
        drill = ["drill.fault=kill", f"drill.rank={rank}", f"drill.step={STRUCK_AT}",
                 "drill.section=action", f"drill.action={action}"]
        with rank_job.Job(self.commands(name, *drill)) as job:
            ends = job.wait_for(range(self.ranks))
            struck_code, _, _ = ends.pop(rank)
            if struck_code == 0:
                return False
            for code, _, words in ends.values():
                self.assertEqual(code, 10, words)
                (line,) = rank_job.causes_in(words)
                self.assertIn(f"rank lost: rank {rank} on ", line)
        return True

    def test_a_kill_at_any_action_resumes_to_the_same_bits(self):
        struck = 0
        is_full = os.environ.get("TRIB_TEST_FULL") == "1"
        for rank in range(self.ranks) if is_full else self.some:
            for action in range(MAX_ACTIONS) if is_full else self.some[rank]:
                with self.subTest(rank=rank, action=action):
                    name = f"rank-{rank}-action-{action}"
                    if not self.strike(name, rank, action):
                        self.assertGreater(action, 9, "the list is shorter than it can be")
                        break
                    struck += 1
                    rank_job.run_to_the_end(self.commands(name, "--resume", "auto"))
                    self.expect_same_bits(name)
        print(f"{type(self).__name__}: killed before {struck} actions", flush=True)
        self.assertGreaterEqual(struck, 2)


class OfAnInlineTower(StruckActions, same_bits.SameBits):
    """The tower is a part of the first stage."""

    ranks = 2
    parallel = {"pp": 2, "schedule": "zb_h1"}
    some = {0: (7,), 1: (0, 14)}


class OfASeparateTower(StruckActions, same_bits.SameBits):
    """Rank 2 has the tower. With two microbatches it awaits gradients of features (0), encodes (2),
    sends features (3), goes back (6), to its weights too (7), and reduces (10). Rank 0 sends
    gradients of features (9)."""

    ranks = 3
    parallel = {"pp": 2, "schedule": "zb_h1", "vision": {"placement": "separate"}}
    some = {2: (3, 10), 0: (9,)}


class OfAColocatedTower(StruckActions, same_bits.SameBits):
    """Both ranks encode (0), send features (1) and run the backbone (from 4 on). Then they await
    gradients of features (18), go back through the tower (20) and reduce (22)."""

    ranks = 2
    parallel = {"pp": 2, "vision": {"placement": "colocated", "passes": 2}}
    some = {0: (1, 20)}


class OfATowerThatTakesTurns(StruckActions, same_bits.SameBits):
    """Each rank encodes twice, among the passes of its stage and back again likewise."""

    ranks = 2
    parallel = {"pp": 2, "vision": {"placement": "colocated", "dp_replicate": 2, "passes": 2,
                                    "turns": True}}
    some = {0: (13,), 1: (6,)}


class OfATowerAStepAhead(StruckActions, same_bits.SameBits):
    """Each rank also encodes twice for the step after, and sends it the features."""

    ranks = 2
    model = {"freeze": ["vision"]}
    parallel = {"pp": 2, "vision": {"placement": "colocated", "dp_replicate": 2, "passes": 2,
                                    "ahead": True}}
    some = {0: (4,), 1: (9,)}


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
