"""Trains on several processes as launchers start them and compares with one process.

usage: many_ranks.py TRIBUTARY [unittest arguments]
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time

import beside_one_process
import tiny_run

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """One process for each rank, with the variables of torchrun's kind."""

    def __init__(self, config, ranks, *arguments, of_last=()):
        """`of_last`: arguments that only the last rank gets."""
        port = free_port()
        self.processes = []
        for rank in range(ranks):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks),
                               LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                               OMP_NUM_THREADS="1")
            self.processes.append(subprocess.Popen(
                [beside_one_process.BesideOneProcess.program, "train", str(config), *arguments,
                 *(of_last if rank == ranks - 1 else ())], env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        results = []
        try:
            for process in self.processes:
                out, err = process.communicate(timeout=max(1, end - time.monotonic()))
                results.append((process.returncode, out, err))
        finally:
            self.kill()
        return results

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


# For the table of docs/models.md: axes that train as one process does.
COVERS = {"tp": ("qwen2_5_vl",), "pp": ("qwen2_5_vl",), "cp": ("qwen2_5_vl",)}


class ManyRanks(beside_one_process.BesideOneProcess):
    def run_on(self, name, ranks, *arguments, code=0, **values):
        results = Job(self.config(name, **values), ranks, *arguments).wait()
        for rank, (returncode, out, err) in enumerate(results):
            self.assertEqual(returncode, code, f"rank {rank}: {err}\n{out}")
        return self.shared / name

    def test_every_mesh_trains_like_one_process(self):
        model = json.loads((self.shared / "model/config.json").read_text())
        self.assertEqual({(model["model_type"],)}, set(COVERS.values()))
        for name, ranks, mesh in (("shard", 2, {}), ("replicate", 2, {"dp_replicate": 2}),
                                  ("tp", 2, {"tp": 2}), ("both", 4, {"dp_shard": 2, "tp": 2}),
                                  ("hybrid", 4, {"dp_replicate": 2, "dp_shard": 2}),
                                  ("ring", 2, {"cp": 2}),
                                  ("heads", 4, {"cp": 2, "ulysses": 2, "ulysses_async": True}),
                                  ("optimizer", 2, {"shard": "optimizer"}),
                                  ("stages", 2, {"pp": 2}),
                                  ("tower", 3, {"pp": 3, "vision_stages": 1}),
                                  ("apart", 3, {"cp": 2, "vision": {"placement": "separate"}}),
                                  ("before", 4, {"dp_shard": 2, "ulysses": 2,
                                                 "vision": {"placement": "colocated", "tp": 2}}),
                                  ("zero", 4, {"pp": 2, "dp_shard": 2, "schedule": "zb_h1"})):
            with self.subTest(name):
                run = self.run_on(name, ranks, parallel=mesh)
                self.expect_losses(run)
                self.expect_parameters(run)
                self.expect_held_out(run)
                self.assertEqual(self.decoded(run), self.decoded(self.one), "decodes")

    def test_ranks_agree_on_held_out_pictures_that_one_cannot_read(self):
        elsewhere = self.shared / "elsewhere"
        shutil.copytree(self.shared / "data/images", elsewhere / "images")
        for picture in (elsewhere / "images").glob("held_out-*"):  # the headers stay
            picture.write_bytes(picture.read_bytes()[:-30])
        wanted = tiny_run.read_lines(self.one / "predictions.jsonl")
        for name, ranks, mesh in (("unread-tp", 2, {"tp": 2}), ("unread-shard", 2, {"dp_shard": 2}),
                                  ("unread-cp", 2, {"cp": 2}), ("unread-pp", 2, {"pp": 2})):
            with self.subTest(name):
                config = self.config(name, run={"dir": str(self.shared / name), "steps": 12},
                                     parallel=mesh, validation={"every": 5})
                job = Job(config, ranks, of_last=[f"data.sources.0.images={elsewhere}"])
                for rank, (code, out, err) in enumerate(job.wait()):
                    self.assertEqual(code, 0, f"rank {rank}: {err}\n{out}")
                validations = tiny_run.read_lines(self.shared / name / "validation.jsonl")
                self.assertEqual([line["step"] for line in validations], [5, 10, 12])
                refused = validations[-1]["refused"]
                predictions = tiny_run.read_lines(self.shared / name / "predictions.jsonl")
                self.assertEqual(len(predictions) + refused, len(wanted))
                if name == "unread-pp":  # whose second stage reads nothing
                    self.assertEqual(refused, 0)
                else:
                    self.assertGreater(refused, 0)
                for line in predictions:  # what is left was scored as ever
                    self.assertIn((line["source"], line["question"], line["expected"]),
                                  [(w["source"], w["question"], w["expected"]) for w in wanted])

    def write_plan(self, name, **modules):
        """A plan of the one-process run on stages of unequal layers."""
        plan = {"format": "tributary.plan/1",
                "modules": {"vision": {"placement": "inline"}, "projector": {"placement": "inline"},
                            "backbone": {"ranks": "0-1", "mesh": {"pp": 2}, "schedule": "zb_h1",
                                         "stages": [["embed", "0-1"], ["head"]]}},
                "edges": [{"from": "vision", "to": "projector"},
                          {"from": "projector", "to": "backbone"}],
                "batch": {"global_samples": 6, "microbatches": 2, "capacity_tokens": 160}}
        for module, keys in modules.items():
            plan["modules"][module] = plan["modules"][module] | keys
        path = self.shared / f"{name}.json"
        path.write_text(json.dumps(plan))
        return str(path)

    def test_a_plan_decides_where_layers_lie(self):
        run = self.run_on("planned", 2, "--plan", self.write_plan("planned"))
        self.expect_losses(run)
        self.assertEqual(tiny_run.read_lines(run / "metrics.jsonl")[0]["pipeline"]["in_flight"],
                         [2, 2])

    def test_a_plan_that_cannot_be_run_is_refused(self):
        larger = self.write_plan("larger", vision={"placement": "separate", "ranks": "2-3",
                                                   "mesh": {"dp_shard": 2}})
        turns = self.write_plan("turns", vision={"placement": "colocated", "ranks": "0-1",
                                                 "mesh": {"dp_replicate": 2}, "passes": 2,
                                                 "turns": True})
        for plan, words in ((larger, "plan is for 4 ranks, 2 were started"),
                            (turns, "modules.backbone.schedule; found: zb_h1; expected: "
                                    "gpipe, 1f1b")):
            for code, out, err in Job(self.config("refused"), 2, "--plan", plan).wait():
                self.assertEqual(code, 2, err)
                self.assertIn(words, err)

    def test_a_run_goes_on_under_another_mesh(self):
        run = self.run_on("reshard", 4, "run.steps=6", parallel={"dp_shard": 2, "tp": 2})
        meshes = ((2, {"pp": 2}), (1, {}), (4, {"pp": 2, "dp_replicate": 2}))
        for steps, (ranks, mesh) in zip((8, 10, 12), meshes):
            run = self.run_on("reshard", ranks, f"run.steps={steps}", "--resume", "auto",
                              parallel=mesh)
        # Learning rates follow run.steps, so it is compared with a run of the same stops.
        stops = self.config("stops")
        for steps in (6, 8, 10, 12):
            result = tiny_run.train(self.program, stops, f"run.steps={steps}", "--resume", "auto")
            self.assertEqual(result.returncode, 0, result.stderr)
        wanted = tiny_run.read_lines(self.shared / "stops" / "metrics.jsonl")
        for expected, line in zip(wanted, tiny_run.read_lines(run / "metrics.jsonl")):
            self.assertAlmostEqual(line["loss"], expected["loss"], delta=1e-4 * expected["loss"])

    def test_the_launcher_restarts_a_job_to_the_same_bits(self):
        self.expect_same_after_a_kill("straight", 2, {"dp_shard": 2})

    def test_ranks_that_disagree_are_named(self):
        port = free_port()
        processes = []
        for rank in range(2):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                               LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(port), OMP_NUM_THREADS="1")
            processes.append(subprocess.Popen(
                [self.program, "train", str(self.config("disagree")), f"run.seed={1 + rank}"],
                env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        results = [(process.communicate(timeout=60), process.returncode) for process in processes]
        for (out, err), code in results:
            self.assertEqual(code, 2, err)
            self.assertIn("rank 1", err)
            self.assertIn("seed", err)

    def test_degrees_that_do_not_fit_are_refused(self):
        for (code, out, err) in Job(self.config("degrees", parallel={"tp": 3}), 2).wait():
            self.assertEqual(code, 2, err)
            self.assertIn("start 3 processes", err)

    def test_ranks_keep_to_cores_of_their_own(self):
        usable = sorted(os.sched_getaffinity(0))
        own = usable[:len(usable) // 2] if len(usable) > 1 else []
        has_machine = len(usable) == os.sysconf("SC_NPROCESSORS_ONLN")
        losses = []
        for bind, threads, expected in (("cores", 1, own), ("none", 1, []),
                                        ("auto", len(usable), own if has_machine else [])):
            config = self.config(f"bind-{bind}", run={"bind": bind, "steps": 3, "threads": threads})
            for code, _, error in Job(config, 2).wait():
                self.assertEqual(code, 0, error)
            directory = self.shared / f"bind-{bind}"
            environment = json.loads((directory / "environment.json").read_text())
            self.assertEqual(environment["bound_to"], expected, bind)
            self.assertEqual(environment["cores"], len(usable))
            lines = (directory / "metrics.jsonl").read_text().splitlines()
            losses.append([json.loads(line)["loss"] for line in lines])
        self.assertEqual(losses[0], losses[1])

    def test_a_signal_to_one_rank_ends_all_with_a_checkpoint(self):
        job = Job(self.config("signal", run={"dir": str(self.shared / "signal"), "steps": 400},
                              checkpoint={"every": 1000}), 2)
        metrics = self.shared / "signal" / "metrics.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end and not (metrics.exists() and metrics.read_text()):
            time.sleep(0.05)
        job.processes[1].send_signal(signal.SIGTERM)
        for code, out, err in job.wait():
            self.assertEqual(code, 15, err)
        steps = list((self.shared / "signal" / "checkpoints").glob("step-*"))
        self.assertEqual(len(steps), 1)


if __name__ == "__main__":
    beside_one_process.main()
