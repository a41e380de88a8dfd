"""The program under PyTorch's own launcher: over two nodes, and through a restart.

usage: torchrun_runs.py TRIBUTARY [unittest arguments]
"""

import subprocess
import sys
import unittest

import rank_job
import same_bits
import tiny_run
import two_nodes

PROGRAM = None
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]  # what the script torchrun runs


class Torchrun(same_bits.SameBits):
    @classmethod
    def run_straight(cls):
        rank_job.run_to_the_end([cls.train("straight")] * 2)

    @classmethod
    def train(cls, name, *arguments):
        config = tiny_run.write_config(
            cls.shared / f"{name}.yaml", cls.shared,
            run={"dir": str(cls.shared / name), "steps": 6},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            checkpoint={"every": 2}, metrics={"tensorboard": False},
            parallel={"heartbeat_seconds": 0.1, "lost_after_seconds": 5})
        return [PROGRAM, "train", str(config), *arguments]

    def test_a_killed_rank_leads_to_a_restart_and_the_same_bits(self):
        command = [*TORCHRUN, "--standalone", "--no-python", "--nproc-per-node=2",
                   "--max-restarts=1", "--monitor-interval=0.1",
                   *self.train("restarted", "--resume", "auto", "drill.fault=kill", "drill.rank=1",
                               "drill.step=5", "drill.section=backward")]
        result = subprocess.run(command, env=rank_job.environment({}), text=True,
                                capture_output=True, timeout=2 * rank_job.LATE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("fault drill: rank 1 is killed in backward of step 5", result.stderr)
        self.assertIn("fault drill: over, this is restart 1", result.stdout)
        self.assertIn("resuming from", result.stdout)
        self.expect_same_bits("restarted")

    def train_on_two_nodes(self, train, encoder=None):
        """The ranks by torchrun, and an encoder on the second node."""
        ranks = [*TORCHRUN, "--nnodes=2", "--nproc-per-node=1", "--no-python",
                 "--rdzv-backend=c10d", f"--rdzv-endpoint={two_nodes.NAMES[0]}:29400",
                 "--rdzv-id=job1", "--monitor-interval=0.1", *train]
        with two_nodes.TwoNodes() as nodes:
            commands = [(0, ranks), (1, ranks), *([(1, encoder)] if encoder else [])]
            agents = [subprocess.Popen(nodes.on(node, command), text=True,
                                       env=rank_job.environment({}), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE) for node, command in commands]
            try:
                for agent in agents:
                    _, words = agent.communicate(timeout=2 * rank_job.LATE)
                    self.assertEqual(agent.returncode, 0, words)
            finally:
                for agent in agents:
                    agent.terminate()  # hands it on to its ranks
                    agent.wait()

    def test_two_nodes_train_to_the_same_bits(self):
        self.train_on_two_nodes(self.train("two-nodes", "--resume", "auto"))
        self.expect_same_bits("two-nodes")

    def test_two_nodes_train_a_tower_with_an_encoder_to_the_same_bits(self):
        flow = "parallel.vision.placement=flow"
        rank_job.run_to_the_end([self.train("tower-alone", flow)] * 2)
        beside = [flow, f"pool.bind={two_nodes.CABLE}"]
        train = self.train("tower", *beside, "pool.encoders=1")
        self.train_on_two_nodes(train, [PROGRAM, "encoder", train[2], *beside])
        alone, tower = (self.shared / name for name in ("tower-alone", "tower"))
        self.assertEqual(rank_job.losses_of(tower), rank_job.losses_of(alone))
        self.assertEqual(rank_job.tensors_of(tower), rank_job.tensors_of(alone))
        use = [line["flow"] for line in tiny_run.read_lines(tower / "metrics.jsonl")]
        self.assertGreater(sum(line["gradients"] for line in use), 0)
        self.assertEqual(sum(line["gradients_here"] for line in use), 0)


if __name__ == "__main__":
    two_nodes.enter_or_skip()
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
