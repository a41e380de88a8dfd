"""Trains with a tower on ranks of its own, and reads how level ranks were and what they sent.

usage: placed_modules.py TRIBUTARY [unittest arguments]
"""

import rank_job
import run_case
import tiny_run

STEPS = 3
ROW = 32 * 4  # bytes of the features of a patch


class PlacedModules(run_case.RunCase):
    def run_ranks(self, name, ranks, parallel, samples):
        """One picture in each sample."""
        config = tiny_run.write_config(
            self.shared / f"{name}.yaml", self.shared,
            run={"dir": str(self.shared / name), "steps": STEPS},
            data={"sources": [{"name": "colours",
                               "path": str(self.shared / "data/colours.train.jsonl"),
                               "held_out": str(self.shared / "data/colours.held_out.jsonl")}]},
            batch={"global_samples": samples},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            metrics={"tensorboard": False}, parallel=parallel)
        rank_job.run_to_the_end([[self.program, "train", str(config)]] * ranks)
        lines = tiny_run.read_lines(self.shared / name / "metrics.jsonl")
        self.assertEqual(len(lines), STEPS)
        shapes = tiny_run.read_lines(self.shared / name / "shapes.jsonl")  # of the first replica
        self.assertEqual(len(shapes), STEPS)
        patches = [sum(each[3] for each in line["microbatches"]) for line in shapes]
        return lines, patches

    def test_one_picture_is_the_work_of_one_seat(self):
        for name, ranks, parallel, seats in (
                ("separate", 5, {"tp": 2, "vision": {"placement": "separate", "dp_shard": 3}}, 3),
                ("colocated", 4, {"tp": 2, "pp": 2, "vision": {"placement": "colocated"}}, 4),
                ("first-stage", 2, {"pp": 2, "vision_stages": 1}, 1)):
            with self.subTest(name):
                lines, patches = self.run_ranks(name, ranks, parallel, samples=1)
                for line, count in zip(lines, patches, strict=True):
                    balance = line["balance"]
                    for key in ("vision", "patches"):
                        self.assertAlmostEqual(balance[key], seats, delta=1e-4)
                    for key in ("backbone", "tokens", "attention"):
                        self.assertAlmostEqual(balance[key], 1, delta=1e-4)
                    self.assertGreater(balance["time"], 1.05)
                    self.assertLessEqual(balance["time"], ranks)
                    if name != "colocated":  # where rows may stay on their rank; else once, whatever tp is
                        self.assertEqual(line["feature_bytes"], 2 * ROW * count)

    def test_replicas_are_compared_with_replicas(self):
        lines, _ = self.run_ranks("two-and-two", 4, {"vision": {"placement": "separate", "dp_shard": 2}},
                                  samples=1)
        for line in lines:
            for key in ("vision", "backbone", "tokens"):
                self.assertAlmostEqual(line["balance"][key], 2, delta=1e-4)

    def test_modules_that_lie_together_send_no_features(self):
        lines, _ = self.run_ranks("inline", 2, {}, samples=2)
        for line in lines:
            self.assertNotIn("feature_bytes", line)
            self.assertIn("balance", line)


if __name__ == "__main__":
    run_case.main()
