"""The demo's model, profiled and trained on this machine under several settings, for benches."""

import functools
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_options(parser, work):
    parser.add_argument("tributary", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(work))
    parser.add_argument("--profile", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--skip", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="compute threads of each process")
    parser.add_argument("--reuse", action="store_true", help="take the runs that are there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--key", action="append", default=[], dest="keys",
                        help="key.path=value of all runs and profiles, such as adapter.kind=lora")


def run(command, log):
    """Exit code of a command whose output goes to a file."""
    with open(log, "w") as out:
        return subprocess.run([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT).returncode


def must_run(command, log):
    if run(command, log):
        sys.exit(f"failed: {' '.join(map(str, command))}\n{pathlib.Path(log).read_text()[-2000:]}")


class DemoRuns:
    """The demo with all its sources from the first step, and nothing between steps."""

    def __init__(self, options):
        options.work = options.work.resolve()
        options.work.mkdir(parents=True, exist_ok=True)
        self.tributary = options.tributary.resolve()
        self.options = options
        self.work = options.work
        if not (self.work / "demo-data").exists():
            must_run([self.tributary, "data", "make-demo", "-o", self.work / "demo-data"], self.work / "data.log")
        self.config = self.write_config()

    @functools.cached_property
    def profile(self):
        return self.options.profile or self.measure("profile")

    def write_config(self):
        text = (ROOT / "configs" / "demo.yaml").read_text()
        kept, skipping = [], False
        for line in text.splitlines():
            if line and not line[0].isspace():
                skipping = line.split(":")[0] in ("schedule", "validation", "checkpoint")
            if skipping or "start_step" in line:
                continue
            line = line.replace("configs/demo_model", str(ROOT / "configs" / "demo_model"))
            kept.append(line.replace("runs/demo-data", str(self.work / "demo-data")))
        kept += ["validation:", "  samples_per_source: 1", "  final_samples_per_source: 1", "  max_new_tokens: 1",
                 "checkpoint:", "  every: 1000000", "  keep_best: false", "metrics:", "  tensorboard: false"]
        path = self.work / "demo_steps.yaml"
        path.write_text("\n".join(kept) + "\n")
        return path

    def measure(self, name):
        profile = self.work / f"{name}.json"
        if not self.options.reuse:
            profile.unlink(missing_ok=True)
        must_run([self.tributary, "profile", self.config, f"run.threads={self.options.threads}",
                  *self.options.keys, "-o", profile], self.work / f"{name}.log")
        return profile

    @staticmethod
    def noise(profile):
        return json.loads(profile.read_text())["noise"]

    def start(self, directory, ranks, keys, steps):
        """Trains; the exit code says whether the trainer takes the setting."""
        shutil.rmtree(directory, ignore_errors=True)
        return run([self.tributary, "launch", "-n", ranks, "--", "train", self.config, f"run.dir={directory}",
                    f"run.threads={self.options.threads}", f"run.steps={steps}", *self.options.keys, *keys], f"{directory}.log")

    def train(self, name, number, ranks, keys):
        """Directory, step times [s] and peak of tensors [bytes] of a run."""
        directory = self.directory(name, number)
        if not self.options.reuse or not (directory / "metrics.jsonl").exists():
            if self.start(directory, ranks, keys, self.options.steps + self.options.skip):
                sys.exit(f"failed: {name}\n{pathlib.Path(f'{directory}.log').read_text()[-2000:]}")
        lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
        times = [sum(line["seconds"].values()) for line in lines[self.options.skip:]]
        return directory, times, lines[-1]["bytes"]

    def directory(self, name, number):
        return self.work / f"{name.replace(' ', '').replace(',', '-')}-{number}"

    def median_of(self, name, number, ranks, keys):
        return statistics.median(self.train(name, number, ranks, keys)[1])

    def write_sizes(self, steps):
        """Sizes of the samples of some steps, one a line, as the trainer records them: microbatches of one."""
        directory = self.work / "sizes"
        if not (self.options.reuse and (directory / "shapes.jsonl").exists()):
            shutil.rmtree(directory, ignore_errors=True)
            must_run([self.tributary, "train", self.config, f"run.dir={directory}", f"run.threads={self.options.threads}",
                      f"run.steps={steps}", "batch.packing=none"], self.work / "sizes.log")
        rows = []
        for line in (directory / "shapes.jsonl").read_text().splitlines():
            for tokens, _, samples, patches, _, items in json.loads(line)["microbatches"]:
                assert samples == 1
                rows.append(f"{tokens},{patches},{items}")
        path = self.work / "sizes.csv"
        path.write_text("\n".join(rows) + "\n")
        return path
