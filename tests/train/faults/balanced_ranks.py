"""Trains with samples balanced over ranks, some of them damaged: like one rank, and after a kill to the
same bits.

usage: balanced_ranks.py TRIBUTARY [unittest arguments]
"""

import json
import statistics
import sys
import unittest

import rank_job
import same_bits
import tiny_run

PROGRAM = None
RANKS, STEPS = 3, 8
CUT = range(0, 48, 5)  # pictures whose header is good and whose pixels end early
BROKEN = (7, 23)       # pictures that are none


def damage(data):
    for number in CUT:
        picture = data / f"images/train-{number}.png"
        picture.write_bytes(picture.read_bytes()[:60])
    for number in BROKEN:
        (data / f"images/train-{number}.png").write_bytes(b"no picture")


class BalancedRanks(same_bits.SameBits):
    @classmethod
    def run_straight(cls):
        damage(cls.shared / "data")
        cls.run_ranks("straight", RANKS)
        cls.run_ranks("one", 1)

    @classmethod
    def commands(cls, name, ranks, *arguments, data={}, **values):
        config = tiny_run.write_config(
            cls.shared / f"{name}.yaml", cls.shared,
            run={"dir": str(cls.shared / name), "steps": STEPS},
            data={"bad_at_least": 1000, **data}, batch={"global_samples": 12, "capacity_tokens": 160},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            checkpoint={"every": 2, "async": False}, metrics={"tensorboard": False}, **values)
        return [[PROGRAM, "train", str(config), *arguments]] * ranks

    @classmethod
    def run_ranks(cls, name, ranks, *arguments, **values):
        rank_job.run_to_the_end(cls.commands(name, ranks, *arguments, **values))
        return tiny_run.read_lines(cls.shared / name / "metrics.jsonl")

    @classmethod
    def words(cls):
        """Samples of which none is bad."""
        return {"sources": [{"name": "words", "path": str(cls.shared / "data/words.train.jsonl"),
                             "held_out": str(cls.shared / "data/words.held_out.jsonl")}]}

    def bad_records(self, name):
        """The samples of all ranks, each once."""
        lines = [line for file in (self.shared / name).glob("quarantine*.jsonl")
                 for line in tiny_run.read_lines(file)]
        return {(line["source"], line["record"], line["code"]) for line in lines}

    def test_every_rule_trains_like_one_rank(self):
        one = tiny_run.read_lines(self.shared / "one" / "metrics.jsonl")
        self.assertNotIn("balance", one[0])
        bad = self.bad_records("one")
        self.assertGreater(len({code for _, _, code in bad}), 1, bad)
        level = {}
        for rule, mesh in (("none", {}), ("lpt_2d", {}), ("lpt", {"dp_replicate": 3}),
                           ("none", {"dp_replicate": 3}), ("lpt_2d", {"shard": "optimizer"})):
            name = f"{rule}-{'-'.join(map(str, mesh)) or 'dp_shard'}"
            with self.subTest(name):
                lines = self.run_ranks(name, RANKS, f"batch.balance={rule}", parallel=mesh)
                for line, wanted in zip(lines, one, strict=True):
                    for key in ("loss", "grad_norm"):
                        self.assertAlmostEqual(line[key], wanted[key], delta=1e-4 * wanted[key])
                    for key in ("samples", "tokens", "target_tokens"):
                        self.assertEqual(line[key], wanted[key])
                self.assertEqual(self.bad_records(name), bad)
                balance = [line["balance"] for line in lines]
                level[name] = statistics.mean(line["time"] for line in balance)
                repacked = sum(line["repacked"] for line in balance)
                if rule == "none":
                    self.assertEqual(repacked, 0)
                    self.assertEqual({line["planning"] for line in balance}, {0})
                else:
                    self.assertGreater(repacked, 0)
                    self.assertGreater(min(line["planning"] for line in balance), 0)
                    # In steady state a plan is there before it is asked for.
                    exposed = statistics.median(line["exposed"] for line in balance[1:])
                    self.assertLess(exposed, 1e-3)
        print(level)
        self.assertLess(level["lpt_2d-dp_shard"], level["none-dp_shard"])
        self.assertLess(level["lpt-dp_replicate"], level["none-dp_replicate"])

    def test_the_level_is_what_the_plan_says_where_nothing_is_bad(self):
        for line in self.run_ranks("words", RANKS, data=self.words()):
            self.assertEqual(line["balance"]["repacked"], 0)
            self.assertLess(line["balance"]["time"], 1.2)
            self.assertNotIn("vision", line["balance"])

    def test_level_microbatches_are_as_many_as_asked_for_and_train_like_one_rank(self):
        one = self.run_ranks("words-one", 1, data=self.words())
        level = ["batch.packing=level", "batch.capacity_tokens=4096"]
        for ranks, microbatches, mesh in ((1, 5, {}), (RANKS, 2, {}), (RANKS, 2, {"dp_replicate": 3}),
                                          (RANKS, 5, {"pp": 3})):
            name = f"level-{ranks}-{'-'.join(mesh) or 'dp_shard'}"
            with self.subTest(name):
                lines = self.run_ranks(name, ranks, *level, f"batch.microbatches={microbatches}",
                                       data=self.words(), parallel=mesh)
                for line, wanted in zip(lines, one, strict=True):
                    for key in ("loss", "grad_norm"):
                        self.assertAlmostEqual(line[key], wanted[key], delta=1e-4 * wanted[key])
                    for key in ("samples", "tokens", "target_tokens"):
                        self.assertEqual(line[key], wanted[key])
                for file in (self.shared / name).glob("shapes*.jsonl"):
                    for line in tiny_run.read_lines(file):
                        tokens = [shape[0] for shape in line["microbatches"]]
                        self.assertEqual(len(tokens), microbatches, line)
                        self.assertLess(max(tokens), 1.5 * statistics.mean(tokens))

    def test_corrected_costs_change_the_arrangement_alone(self):
        # Measuring begins after 20 steps; the ratios are in use before the last ones.
        constant = ["schedule.decay=constant", "schedule.warmup_steps=0"]
        plain = self.run_ranks("plain", RANKS, "run.steps=30", "batch.balance=none", *constant)
        corrected = ["batch.correct_costs=true", *constant]
        self.run_ranks("corrected", RANKS, "run.steps=26", *corrected)
        lines = self.run_ranks("corrected", RANKS, "run.steps=30", "--resume", "auto", *corrected)
        for line, wanted in zip(lines, plain, strict=True):
            for key in ("samples", "tokens", "target_tokens"):
                self.assertEqual(line[key], wanted[key])
            self.assertAlmostEqual(line["loss"], wanted["loss"], delta=1e-3 * wanted["loss"])
        newest = self.shared / "corrected/checkpoints/step-30"
        states = [path.read_text() for path in newest.rglob("*.json")]
        self.assertTrue(any("slowness_on" in text for text in states), list(newest.rglob("*")))

    def test_a_killed_run_goes_on_to_the_same_bits(self):
        for rank, section in ((1, "forward"), (0, "optimizer")):
            with self.subTest(section):
                name = f"killed-{section}"
                drill = ["drill.fault=kill", f"drill.rank={rank}", "drill.step=6",
                         f"drill.section={section}"]
                with rank_job.Job(self.commands(name, RANKS, *drill)) as job:
                    job.wait_for(range(RANKS))
                self.assertLess(len(rank_job.losses_of(self.shared / name)), STEPS)
                self.run_ranks(name, RANKS, "--resume", "auto")
                self.expect_same_bits(name)

    def test_a_run_goes_on_with_another_number_of_ranks_and_another_rule(self):
        name = "changed"
        self.run_ranks(name, RANKS, f"run.steps={STEPS // 2}")
        lines = self.run_ranks(name, 2, "--resume", "auto", "batch.balance=lpt",
                               parallel={"dp_replicate": 2})
        one = tiny_run.read_lines(self.shared / "one" / "metrics.jsonl")
        for line, wanted in zip(lines, one, strict=True):
            for key in ("step", "samples", "tokens", "target_tokens"):
                self.assertEqual(line[key], wanted[key])
        summary = json.loads((self.shared / name / "summary.json").read_text())
        self.assertEqual(summary["steps"], STEPS)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
