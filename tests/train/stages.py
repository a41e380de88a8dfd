"""Trains in stages: each begins with the weights of the one before and goes on exactly, alone and on
processes; and starts a run from another one's weights."""

import json
import subprocess

import run_case
import tiny_run

STAGES = [{"name": "align", "set": ["run.steps=4", "model.freeze=[vision,backbone]",
                                    "optimizer.learning_rate=0.01"]},
          {"name": "all", "set": ["run.steps=6", "data.sources.0.weight=2"]}]


class Stages(run_case.RunCase):
    def staged(self, name, stages=None, **values):
        run = {"stages": STAGES if stages is None else stages}
        return self.config(name, run=run, checkpoint={"every": 2}, **values)

    def lines(self, folder):
        return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"])
                for line in tiny_run.read_lines(self.shared / folder / "metrics.jsonl")]

    def expect_done(self, done):
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_a_stage_begins_where_the_one_before_ended(self):
        config = self.staged("staged")
        self.expect_done(tiny_run.train(self.program, config))
        first, second = self.lines("staged/1-align"), self.lines("staged/2-all")
        self.assertEqual((len(first), len(second)), (4, 6))
        # By hand: the same two runs, the second from the checkpoint of the first.
        for number, stage in enumerate(STAGES):
            by_hand = self.config(f"by-hand-{number}", checkpoint={"every": 2})
            weights = [] if number == 0 else [
                "model.weights=checkpoint", f"model.checkpoint={self.shared}/by-hand-0"]
            self.expect_done(tiny_run.train(self.program, by_hand, *stage["set"], *weights))
        self.assertEqual(first, self.lines("by-hand-0"))
        self.assertEqual(second, self.lines("by-hand-1"))

    def test_a_killed_stage_goes_on_to_the_same_bits(self):
        straight = self.staged("straight-stages")
        self.expect_done(tiny_run.train(self.program, straight))
        drill = ["drill.fault=kill", "drill.step=5"]
        struck = {**STAGES[1], "set": STAGES[1]["set"] + drill}
        killed = tiny_run.train(self.program, self.staged("killed", [STAGES[0], struck]))
        self.assertEqual(killed.returncode, -9, killed.stderr)
        done = tiny_run.train(self.program, self.staged("killed"), "--resume", "auto")
        self.expect_done(done)
        self.assertIn("done before", done.stdout)
        for stage in ("1-align", "2-all"):
            self.assertEqual(self.lines(f"killed/{stage}"), self.lines(f"straight-stages/{stage}"))

    def test_processes_meet_again_in_each_stage(self):
        alone = self.staged("alone")
        self.expect_done(tiny_run.train(self.program, alone))
        config = self.staged("two")
        done = subprocess.run([self.program, "launch", "-n", "2", "--", "train", str(config),
                               "parallel.tp=2"], env=tiny_run.environment(), text=True,
                              capture_output=True, timeout=300)
        self.expect_done(done)
        for stage in ("1-align", "2-all"):
            for one, many in zip(self.lines(f"alone/{stage}"), self.lines(f"two/{stage}"),
                                 strict=True):
                self.assertAlmostEqual(one[1], many[1], delta=1e-5 * abs(one[1]))

    def test_stages_that_cannot_be_are_refused_before_the_first(self):
        for name, stages, words in [
                ("twice", [STAGES[0], STAGES[0]], ["run.stages.1.name", "align"]),
                ("unknown", [STAGES[0], {"name": "all", "set": ["model.frieze=[]"]}],
                 ["model.freeze"]),
                ("nested", [{"name": "all", "set": ["run.dir=elsewhere"]}], ["run.dir"])]:
            with self.subTest(name):
                config = self.staged(f"refused-{name}", stages)
                self.expect_fails(config, code=2, words=words)
                self.assertFalse((self.shared / f"refused-{name}").exists())
        config = self.config("no-checkpoint")
        self.expect_fails(config, "model.weights=checkpoint", code=2, words=["model.checkpoint"])
        self.expect_fails(config, "model.weights=checkpoint", "model.checkpoint=nowhere", code=2,
                          words=["model.checkpoint", "nowhere"])


if __name__ == "__main__":
    run_case.main()
