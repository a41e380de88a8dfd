"""Trains with a mesh for each module, as users start it, and compares with one process.

usage: placements.py TRIBUTARY [unittest arguments]; TRIB_TEST_FULL=1: all cells, else a part that has
every placement, order and kind of run
"""

import json
import os
import random
import shutil
import subprocess

import PIL.Image

import beside_one_process
import families
import tiny_run

SEPARATE, COLOCATED = "separate", "colocated"
IS_FULL = os.environ.get("TRIB_TEST_FULL") == "1"


def placed(placement, vision=None, **backbone):
    """A section `parallel`: degrees of the tower, then those of the backbone."""
    return backbone | {"vision": {"placement": placement} | (vision or {})}


def write_clips(root, count=24, seed=1):
    """A source of clips of two to five frames, one or two in a question."""
    rng = random.Random(seed)
    for split, records in (("train", count), ("held_out", 4)):
        lines = []
        for i in range(records):
            colour = rng.choice(sorted(tiny_run.COLOURS))
            clips = []
            for clip in range(rng.choice([1, 2])):
                frames = [f"images/{split}-{i}-{clip}-{frame}.png"
                          for frame in range(rng.randrange(2, 6))]
                for frame in frames:
                    picture = PIL.Image.new("RGB", (56, 28), tiny_run.COLOURS[colour])
                    picture.putpixel((rng.randrange(56), rng.randrange(28)), (9, 9, 9))
                    picture.save(root / frame)
                clips.append({"type": "video", "video": frames, "fps": 2})
            lines.append({"messages": [
                {"role": "user", "content": [*clips, {"type": "text", "text": "colour?"}]},
                {"role": "assistant", "content": colour}]})
        tiny_run.write_lines(root / f"clips.{split}.jsonl", lines)


class Placements(beside_one_process.BesideOneProcess):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = {"plain": cls.one}
        deep = cls.shared / "deep-model"
        shutil.copytree(cls.shared / "model", deep)
        model = json.loads((deep / "config.json").read_text())
        (deep / "config.json").write_text(json.dumps(model | {"num_hidden_layers": 4}))
        omni = cls.shared / "omni-model"
        shutil.copytree(cls.shared / "model", omni)
        families.write_family(omni, "qwen2_5_omni_thinker")
        write_clips(cls.shared / "data")
        families.write_sounds(cls.shared / "data")
        source = lambda name, **keys: {
            "name": name, "path": str(cls.shared / f"data/{name}.train.jsonl"),
            "held_out": str(cls.shared / f"data/{name}.held_out.jsonl")} | keys
        cls.kinds = {
            "plain": {},
            "deep": {"model": {"path": str(deep)}, "batch": {"capacity_tokens": 64}},
            "frozen": {"model": {"freeze": ["vision"]}},
            "projector": {"model": {"freeze": ["vision", "backbone"]}},
            "sparse": {"data": {"sources": [source("colours", weight=0.4), source("words")]},
                       "batch": {"global_samples": 3}},
            "clips": {"data": {"sources": [source("colours"), source("clips"), source("words")]}},
            "omni": {"model": {"path": str(omni)}, "data": {"sources": [
                source(name) for name in ("colours", "clips", "sounds", "words")]}}}

    def one_of(self, kind):
        """The run of one process of this kind."""
        if kind not in self.alone:
            self.alone[kind] = self.train_alone(f"one-{kind}", **self.values(kind))
        return self.alone[kind]

    def values(self, kind):
        return json.loads(json.dumps(self.kinds[kind]))

    def expect_like_one(self, run, kind="plain"):
        one = self.one_of(kind)
        self.expect_losses(run, one, loss=1e-5, grad_norm=1e-4)
        self.expect_held_out(run, one, loss=1e-5)
        self.expect_parameters(run, one)
        self.assertEqual(self.decoded(run), self.decoded(one), "each picture is decoded once")

    def expect_all_like_one(self, *cells, full=()):
        """Of each: name, ranks, section `parallel`, kind of run; `full` are more with TRIB_TEST_FULL."""
        for name, ranks, parallel, *kind in (*cells, *full) if IS_FULL else cells:
            (kind,) = kind or ["plain"]
            with self.subTest(name, kind=kind):
                name = f"{self.id().rpartition('.')[2]}-{name}-{kind}"
                run = self.launch_well(name, ranks, parallel=parallel, **self.values(kind))
                self.expect_like_one(run, kind)

    def test_a_separate_tower_trains_like_one_process(self):
        self.expect_all_like_one(
            ("more", 5, placed(SEPARATE, {"dp_shard": 3}, dp_shard=2)),
            ("cp", 3, placed(SEPARATE, cp=2)),
            ("tower-between", 4, placed(SEPARATE, {"ranks": "1,2", "tp": 2}, dp_shard=2)), full=(
                ("fewer", 3, placed(SEPARATE, dp_shard=2)),
                ("equal", 4, placed(SEPARATE, {"dp_replicate": 2}, dp_shard=2)),
                ("tp-of-backbone", 3, placed(SEPARATE, tp=2)),
                ("tp-of-tower", 4, placed(SEPARATE, {"tp": 2}, dp_shard=2)),
                ("tower-first", 4, placed(SEPARATE, {"ranks": "0-1"}, dp_shard=2))))

    def test_a_separate_tower_beside_a_pipeline_trains_like_one_process(self):
        self.expect_all_like_one(
            ("interleaved", 4, placed(SEPARATE, {"dp_shard": 2}, pp=2, schedule="interleaved"),
             "deep"),
            ("two-pipelines", 4, placed(SEPARATE, {"pp": 2, "ranks": "0,3"}, pp=2,
                                        schedule="zb_h1")), full=(
                ("1f1b", 3, placed(SEPARATE, pp=2)),
                ("zb_v", 4, placed(SEPARATE, {"tp": 2}, pp=2, schedule="zb_v"), "deep"),
                ("vision-stages", 3, {"pp": 3, "vision_stages": 1})))

    def test_a_colocated_tower_trains_like_one_process(self):
        self.expect_all_like_one(
            ("tp-dp", 2, placed(COLOCATED, {"dp_shard": 2}, tp=2)),
            ("passes", 4, placed(COLOCATED, {"passes": 2}, tp=2, pp=2)),
            ("zb_v", 2, placed(COLOCATED, {"passes": 2}, pp=2, schedule="zb_v"), "deep"), full=(
                ("alone", 1, placed(COLOCATED, {"passes": 2}), "deep"),
                ("cp-dp", 2, placed(COLOCATED, {"dp_replicate": 2}, cp=2)),
                ("zb_h1", 2, placed(COLOCATED, pp=2, schedule="zb_h1")),
                ("interleaved", 2, placed(COLOCATED, {"passes": 2}, pp=2, schedule="interleaved"),
                 "deep")))

    def test_a_tower_that_takes_turns_trains_like_one_process(self):
        turns = lambda passes, **keys: {"passes": passes, "turns": True} | keys
        self.expect_all_like_one(
            ("1f1b", 2, placed(COLOCATED, turns(2, dp_replicate=2), pp=2)),
            ("interleaved", 4, placed(COLOCATED, turns(4, dp_replicate=2, tp=2), pp=2, tp=2,
                                      schedule="interleaved"), "deep"), full=(
                ("one-stage", 2, placed(COLOCATED, turns(3, dp_shard=2), tp=2), "deep"),
                ("sharded", 4, placed(COLOCATED, turns(3, dp_replicate=2, dp_shard=2), pp=2,
                                      dp_shard=2), "deep")))

    def test_a_tower_beside_the_first_stage_trains_like_one_process(self):
        first = {"stages": "first", "dp_shard": 2}
        self.expect_all_like_one(
            ("turns", 4, placed(COLOCATED, first | {"passes": 4, "turns": True}, tp=2, pp=2),
             "deep"), full=(
                ("passes", 4, placed(COLOCATED, first | {"passes": 2}, tp=2, pp=2)),))

    def test_features_on_the_host_have_the_same_bits(self):
        for name, ranks, tower, keys in (
                ("whole", 2, {"dp_shard": 2}, {"tp": 2}),
                ("turns", 4, {"dp_replicate": 4, "passes": 2, "turns": True}, {"pp": 2, "tp": 2})):
            with self.subTest(name):
                runs = [self.launch_well(f"features-{name}-{place}", ranks, **self.values("deep"),
                                         parallel=placed(COLOCATED, tower | {"features": place},
                                                         **keys))
                        for place in ("device", "host")]
                self.expect_same_bits(*runs)
                self.expect_like_one(runs[1], "deep")

    def test_frozen_modules_train_like_one_process(self):
        for kind in ("frozen", "projector"):
            self.expect_all_like_one(
                ("separate", 3, placed(SEPARATE, {"dp_shard": 2}), kind),
                ("zb_h1", 2, placed(COLOCATED, pp=2, schedule="zb_h1"), kind), full=(
                    ("colocated", 2, placed(COLOCATED, tp=2), kind),
                    ("turns", 2, placed(COLOCATED, {"dp_replicate": 2, "passes": 2, "turns": True},
                                        pp=2), kind)))

    def test_features_encoded_a_step_ahead_have_the_same_bits(self):
        frozen = self.values("frozen")
        ahead = lambda tower, **keys: placed(COLOCATED, tower | {"ahead": True}, **keys)
        pipeline = {"dp_replicate": 2, "passes": 2}
        turns = self.launch_well("ahead-turns", 2, **frozen, parallel=placed(
            COLOCATED, pipeline | {"turns": True}, pp=2))
        self.expect_same_after_a_kill("straight-ahead", 2, ahead(pipeline, pp=2), **frozen)
        run = self.shared / "straight-ahead"
        self.expect_same_bits(run, turns)
        self.expect_like_one(run, "frozen")
        several = {"dp_replicate": 2, "dp_shard": 2}
        runs = [self.launch_well(f"ahead-{name}", 4, **frozen, parallel=tower)
                for name, tower in (("whole", placed(COLOCATED, several, pp=2, dp_shard=2)),
                                    ("early", ahead(several | {"features": "host"}, pp=2, dp_shard=2)))]
        self.expect_same_bits(*runs)

    def test_towers_a_step_ahead_meet_batches_without_media(self):
        ahead = {"ahead": True, "dp_replicate": 2}
        for name, frozen, ranks, parallel in (
                ("one", ["vision"], 3, placed(COLOCATED, {"ahead": True}, tp=2,
                                              audio={"placement": SEPARATE})),
                ("both", ["vision", "audio"], 2, placed(
                    COLOCATED, ahead | {"passes": 2}, pp=2,
                    audio={"placement": COLOCATED} | ahead))):
            with self.subTest(name):
                values = self.values("omni")
                values["model"]["freeze"] = frozen
                values["batch"] = {"global_samples": 3}
                one = self.train_alone(f"one-omni-{name}-frozen", **values)
                run = self.launch_well(f"ahead-omni-{name}", ranks, **values, parallel=parallel)
                self.expect_losses(run, one, loss=1e-5, grad_norm=1e-4)
                self.assertEqual(self.decoded(run), self.decoded(one),
                                 "each picture is decoded once")

    def test_batches_without_pictures_train_like_one_process(self):
        decoded = self.decoded(self.one_of("sparse"))
        self.assertIn(0, decoded)
        self.assertLess(0, max(decoded))
        self.expect_all_like_one(
            ("separate-pp", 4, placed(SEPARATE, {"dp_shard": 2}, pp=2), "sparse"),
            ("colocated", 2, placed(COLOCATED, {"passes": 2}, tp=2), "sparse"), full=(
                ("separate", 3, placed(SEPARATE, dp_shard=2), "sparse"),))

    def test_clips_train_like_one_process(self):
        self.expect_all_like_one(
            ("separate", 5, placed(SEPARATE, {"dp_shard": 3}, dp_shard=2), "clips"),
            ("colocated", 4, placed(COLOCATED, {"passes": 2}, tp=2, pp=2), "clips"))

    def test_two_towers_train_like_one_process(self):
        separate = {"placement": SEPARATE}
        beside = {"placement": COLOCATED}
        self.expect_all_like_one(
            ("both", 5, {"tp": 2, "vision": separate | {"dp_shard": 2}, "audio": separate}, "omni"),
            ("both-colocated", 4, placed(COLOCATED, {"dp_shard": 4, "passes": 2}, pp=2, tp=2,
                                         audio=beside | {"dp_shard": 2, "tp": 2}), "omni"), full=(
                ("one-colocated", 3, placed(COLOCATED, {"dp_shard": 2}, tp=2, audio=separate),
                 "omni"),
                ("one-inline", 3, {"pp": 2, "audio": separate}, "omni")))
        self.expect_same_after_a_kill("straight-both-colocated", 2, placed(
            COLOCATED, {"dp_replicate": 2, "passes": 2, "turns": True}, pp=2,
            audio=beside | {"tp": 2, "passes": 2}), **self.values("omni"))
        if IS_FULL:
            self.expect_same_after_a_kill("straight-towers", 3,
                                          {"vision": separate, "audio": separate},
                                          **self.values("omni"))

    def print_plan(self, name, *words):
        """What `config` prints of a run without starting it."""
        done = subprocess.run([self.program, "config", str(self.shared / f"{name}.yaml"), "--plan", *words],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_plan_of_a_run_gives_the_same_run(self):
        for name, ranks, parallel in (
                ("separate", 4, placed(SEPARATE, {"ranks": "0,3", "tp": 2}, pp=2)),
                ("colocated", 2, placed(COLOCATED, {"dp_shard": 2, "passes": 2}, tp=2))):
            with self.subTest(name):
                run = self.launch_well(f"planned-{name}", ranks, parallel=parallel)
                file = self.shared / f"{name}.plan.json"
                file.write_text(self.print_plan(f"planned-{name}", "-n", str(ranks)))
                self.assertEqual(file.read_text(), (run / "plan.json").read_text())
                self.assertEqual(file.read_text(), self.print_plan(f"planned-{name}"))
                again = self.launch_well(f"read-{name}", ranks, "--plan", str(file))
                self.expect_same_bits(again, run)
                self.expect_like_one(again)
                self.assertEqual(json.loads((again / "plan.json").read_text())["modules"],
                                 json.loads((run / "plan.json").read_text())["modules"])

    def test_a_killed_run_is_restarted_to_the_same_bits(self):
        # struck_actions.py kills ranks of the other placements too.
        cells = (("separate", 5, placed(SEPARATE, {"dp_shard": 3}, dp_shard=2)),
                 ("colocated", 2, placed(COLOCATED, {"dp_shard": 2, "passes": 2}, tp=2)),
                 ("turns", 2, placed(COLOCATED, {"dp_replicate": 2, "passes": 2, "turns": True},
                                     pp=2)))
        for name, ranks, parallel in cells if IS_FULL else cells[:1]:
            with self.subTest(name):
                self.expect_same_after_a_kill(f"straight-{name}", ranks, parallel)

    def test_a_run_goes_on_under_another_placement(self):
        # Learning rates follow run.steps, so all runs have the same stops.
        separate, colocated = placed(SEPARATE, {"dp_shard": 2}), placed(COLOCATED, tp=2)
        begin, end = (["run.steps=6"], ["run.steps=12", "--resume", "auto"])
        self.train_alone("stops", *begin)
        stops = self.train_alone("stops", *end)
        cells = (("from-inline", (1, {}), (3, separate)), ("to-colocated", (3, separate), (2, colocated)),
                 ("from-colocated", (2, colocated), (1, {})), ("to-inline", (3, separate), (1, {})))
        for name, (ranks, first), (more, then) in cells if IS_FULL else cells[:3]:
            with self.subTest(name):
                self.launch_well(name, ranks, *begin, parallel=first)
                run = self.launch_well(name, more, *end, parallel=then)
                self.expect_losses(run, stops, loss=1e-5, grad_norm=1e-4)
                self.expect_held_out(run, stops, loss=1e-5)

    def test_costs_are_corrected_under_every_placement(self):
        # Measuring begins after 20 steps. The arrangement may change, the losses may not.
        begin = ["schedule.decay=constant", "checkpoint.every=100", "run.steps=23"]
        end = [*begin[:2], "run.steps=26", "--resume", "auto"]
        turns = {"dp_replicate": 2, "passes": 2, "turns": True}
        cells = (("separate", 3, placed(SEPARATE, {"dp_shard": 2}), "plain"),
                 ("colocated", 2, placed(COLOCATED, {"dp_shard": 2, "passes": 2}, tp=2), "plain"),
                 ("both-in-turns", 2, placed(COLOCATED, turns, pp=2,
                                             audio={"placement": COLOCATED} | turns), "omni"))
        lines_of = {}
        for name, ranks, parallel, kind in cells if IS_FULL else cells[:2]:
            with self.subTest(name):
                if kind not in lines_of:
                    one = self.train_alone(f"many-steps-{kind}", *begin[:2], "run.steps=26",
                                           **self.values(kind))
                    lines_of[kind] = tiny_run.read_lines(one / "metrics.jsonl")
                name = f"corrected-{name}"
                for words in (begin, end):
                    run = self.launch_well(name, ranks, "batch.correct_costs=true", *words,
                                           parallel=parallel, **self.values(kind))
                lines = tiny_run.read_lines(run / "metrics.jsonl")
                for line, wanted in zip(lines, lines_of[kind], strict=True):
                    self.assertAlmostEqual(line["loss"], wanted["loss"], delta=1e-3 * wanted["loss"])
                texts = [path.read_text() for path in (run / "checkpoints/step-26").rglob("*.json")]
                state = next(text for text in texts if "encoder_scales" in text).replace("\\", "")
                found = json.JSONDecoder().raw_decode(state, state.index('{"benefit"'))[0]
                self.assertEqual(len(found["encoder_scales"]), 2 if kind == "omni" else 1)
                for tower, scale in found["encoder_scales"]:
                    self.assertGreater(scale, 0)
                    self.assertIn(tower, [key[0] for key, _, _ in found["ratios"]])

    def expect_refused(self, ranks, words, *arguments):
        """A launch that starts no rank and makes no directory, and says why, once."""
        with self.subTest(arguments):
            result = self.launch("refused", ranks, *arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertEqual(result.stderr.count("input error: "), 1, result.stderr)
            self.assertNotIn("tributary launch: rank", result.stderr)
            self.assertFalse((self.shared / "refused").exists())

    def test_places_that_do_not_fit_are_refused(self):
        separate, colocated = (f"parallel.vision.placement={each}"
                               for each in (SEPARATE, COLOCATED))
        vision = lambda **keys: [f"parallel.vision.{key}={value}" for key, value in keys.items()]
        for ranks, words, arguments in (
                (4, ["axes do not multiply to the world size", "start 5 processes"],
                 [separate, *vision(dp_shard=2), "parallel.dp_shard=3"]),
                (4, ["do not multiply to its ranks", "parallel.vision.dp_shard to 1"],
                 [separate, *vision(ranks="2-3", tp=2, dp_shard=2)]),
                (4, ["do not multiply to its ranks", "as many as the backbone has"],
                 [colocated, *vision(dp_shard=2)]),
                (4, ["vision heads do not divide", "parallel.vision.tp to 2"],
                 [colocated, *vision(tp=4)]),
                (2, ["no rank is left for the backbone", "start 3 processes"],
                 [separate, *vision(dp_shard=2)]),
                (4, ["rank is not one of the run", "ranks 0 to 3"],
                 [separate, *vision(ranks="3-5")]),
                (2, ["found: zb_h1", "set the backbone's schedule to 1f1b, modules.vision.turns to false"],
                 [colocated, "parallel.pp=2", "parallel.schedule=zb_h1",
                  *vision(dp_replicate=2, passes=2, turns="true")]),
                (2, ["colocated module is cut into stages"], [colocated, *vision(pp=2)]),
                (2, ["colocated module lists ranks"], [colocated, *vision(ranks="0-1")]),
                (2, ["ranks that meet in a pass lie on several stages", "dp_replicate"],
                 [colocated, "parallel.pp=2", *vision(passes=2, turns="true")]),
                (2, ["ranks that meet in a pass lie on several stages", "vision.ahead"],
                 [colocated, "parallel.pp=2", *vision(ahead="true"), "model.freeze=[vision]"]),
                (2, ["module that trains cannot encode ahead", "model.freeze"],
                 [colocated, *vision(ahead="true")]),
                (2, ["do not multiply to its ranks", "on its first stage"],
                 [colocated, "parallel.pp=2", *vision(stages="first", dp_shard=2)]),
                (3, ["only a colocated module has passes"], [separate, *vision(passes=2)]),
                (3, ["module is placed in two ways"],
                 [separate, "parallel.pp=2", "parallel.vision_stages=1"]),
                (2, ["key has no effect on an inline module"], vision(dp_shard=2))):
            self.expect_refused(ranks, words, *arguments)

    def test_a_tower_that_the_model_lacks_is_refused(self):
        text = self.shared / "text-model"
        shutil.copytree(self.shared / "model", text)
        model = json.loads((text / "config.json").read_text())
        del model["vision_config"], model["rope_scaling"]
        (text / "config.json").write_text(json.dumps(
            model | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}))
        for placement in (SEPARATE, COLOCATED):
            self.expect_refused(2, ["vision"], f"model.path={text}",
                                f"parallel.vision.placement={placement}")

    def test_plans_whose_ranks_do_not_fit_are_refused(self):
        run = self.launch_well("to-change", 3, parallel=placed(SEPARATE, dp_shard=2))
        plan = json.loads((run / "plan.json").read_text())
        file = self.shared / "changed.json"
        for ranks, vision, edges, words in (
                (4, {}, plan["edges"], ["plan is for 3 ranks, 4 were started", "start 3 processes"]),
                (3, {"ranks": "1"}, plan["edges"],
                 ["rank belongs to two modules", "found: rank 1", "set modules.vision.ranks to 2"]),
                (3, {"ranks": "3"}, plan["edges"],
                 ["no module has rank 2", "set modules.vision.ranks to 2"]),
                (3, {"ranks": "2-3"}, plan["edges"],
                 ["ranks are not those of the mesh", "vision.mesh.dp_shard to 2, or give it 1 rank"]),
                (3, {}, plan["edges"][1:],
                 ["module is not connected to the backbone", "add an edge from vision"])):
            changed = json.loads(json.dumps(plan)) | {"edges": edges}
            changed["modules"]["vision"] |= vision
            file.write_text(json.dumps(changed))
            self.expect_refused(ranks, words, "--plan", str(file))


if __name__ == "__main__":
    beside_one_process.main()
