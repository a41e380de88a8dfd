"""An encoder on another node than the run: features come over the network, and when that is cut the run encodes
itself, with the same bits.

usage: far_encoder.py TRIBUTARY [unittest arguments]
"""

import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import rank_job
import tiny_run
import two_nodes

PROGRAM = None
STEPS = 300
PATIENCE = 1.0  # s, pool.patience_seconds


class FarEncoder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.shared = pathlib.Path(folder.name)
        tiny_run.make_workplace(self.shared)

    def config(self, name, **pool):
        return tiny_run.write_config(
            self.shared / f"{name}.yaml", self.shared, run={"dir": str(self.shared / name), "steps": STEPS},
            model={"freeze": ["vision"]}, checkpoint={"every": 100000},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            parallel={"vision": {"placement": "flow"}}, pool=pool)

    def lines(self, name):
        file = self.shared / name / "metrics.jsonl"
        return tiny_run.read_lines(file) if file.exists() else []

    def test_features_come_from_another_node_until_it_is_cut_off(self):
        alone = tiny_run.train(PROGRAM, self.config("alone"))
        self.assertEqual(alone.returncode, 0, alone.stderr)
        with two_nodes.TwoNodes() as nodes:
            addresses = list(two_nodes.ADDRESSES.values())
            start = lambda node, verb: subprocess.Popen(
                nodes.on(node, [PROGRAM, verb, str(self.config("far", encoders=1, bind=addresses[0],
                                                               patience_seconds=PATIENCE)),
                                f"pool.bind={addresses[node]}"]),
                env=tiny_run.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            run, encoder = start(0, "train"), start(1, "encoder")
            end = time.monotonic() + rank_job.LATE
            while len(self.lines("far")) < 30:
                self.assertIsNone(run.poll(), run.stderr)
                self.assertLess(time.monotonic(), end, "no step 30")
                time.sleep(0.02)
            nodes.cut()
            out, err = run.communicate(timeout=120)
            self.assertEqual(run.returncode, 0, err)
            self.assertIn("by tcp", out + err)
            encoder.kill()
            encoder.communicate()
        far = self.lines("far")
        self.assertEqual([line["loss"] for line in far], [line["loss"] for line in self.lines("alone")])
        self.assertGreater(far[10]["flow"]["objects"] + far[11]["flow"]["objects"], 0)
        self.assertGreater(sum(line["flow"]["encoded_here"] for line in far[-30:]), 0)
        longest = max(sum(line["seconds"].values()) for line in far)
        print(f"longest step {longest:.2f} s", flush=True)
        self.assertLess(longest, PATIENCE * 1.1 + 4)


if __name__ == "__main__":
    two_nodes.enter_or_skip()
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
