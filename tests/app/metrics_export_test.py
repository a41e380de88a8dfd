"""Exports the figures of a run and reads them as MLflow and W&B do; the readers are held against
files that the clients of both have written (tests/golden/trackers).

Usage: metrics_export_test.py TRIBUTARY ROOT
"""

import json
import os
import pathlib
import struct
import unittest
import zlib

import yaml
from verb_case import ROOT, VerbCase

GOLDEN = pathlib.Path(ROOT) / "tests/golden/trackers"
BLOCK = 32768


def read_store(files):
    """The runs of a file store of MLflow, of which `files` maps paths to texts."""
    experiments, runs = {}, []
    for path, text in files.items():
        parts = path.split("/")
        if parts[-1] == "meta.yaml" and len(parts) == 2:
            experiments[parts[0]] = yaml.safe_load(text)
    for path, text in files.items():
        parts = path.split("/")
        if parts[-1] != "meta.yaml" or len(parts) != 3:
            continue
        run = {"meta": yaml.safe_load(text), "experiment": experiments[parts[0]],
               "metrics": {}, "params": {}, "tags": {}}
        for other, content in files.items():
            root = f"{parts[0]}/{parts[1]}/"
            kind, _, name = other.removeprefix(root).partition("/")
            if not other.startswith(root) or kind not in run or kind == "meta":
                continue
            if kind == "metrics":
                rows = [line.split(" ") for line in content.splitlines()]
                run[kind][name] = {int(step): float(value) for _, value, step in rows}
                assert [int(time) for time, _, _ in rows] == sorted(int(row[0]) for row in rows)
            else:
                run[kind][name] = content
        runs.append(run)
    return runs


def read_records(log):
    """The records of a log of W&B, of which every checksum is right."""
    magic, version = struct.unpack("<HB", log[4:7])
    assert (log[:4], magic, version) == (b":W&B", 0xBEE1, 0)
    records, record, at = [], b"", 7
    while at < len(log):
        left = BLOCK - at % BLOCK
        if left < 7:
            assert log[at:at + left] == bytes(left)
            at += left
            continue
        checksum, length, kind = struct.unpack("<IHB", log[at:at + 7])
        part = log[at + 7:at + 7 + length]
        assert checksum == zlib.crc32(bytes([kind]) + part) and length <= left - 7
        assert (kind in (1, 2)) == (record == b""), "a record begins with its first part"
        record += part
        at += 7 + length
        if kind in (1, 4):
            records.append(record)
            record = b""
    assert record == b""
    return records


def fields(message):
    """The fields of a message of Protocol Buffers: (number, value), bytes for nested ones."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (message[at] & 0x7f) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 0x80:
                return value, at

    at, found = 0, []
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        else:
            length = 8
            if key & 7 == 2:
                length, at = varint(at)
            value, at = message[at:at + length], at + length
        found.append((key >> 3, value))
    return found


def items(message, field=1):
    """Items of a history or configuration: name to value; a name is a key or nested keys."""
    read = {}
    for number, item in fields(message):
        if number != field:
            continue
        parts = fields(item)
        name = "/".join(value.decode() for number, value in parts if number in (1, 2))
        read[name] = json.loads(dict(parts)[16])
    return read


def read_wandb(log):
    run = {"history": []}
    for record in read_records(log):
        for number, content in fields(record):
            if number == 17:
                facts = dict(fields(content))
                run |= {"id": facts[1].decode(), "project": facts[3].decode(),
                        "name": facts[8].decode(), "config": items(facts[4])}
            elif number == 2:
                run["history"].append(items(content))
                step = dict(fields(dict(fields(content))[2])).get(1, 0)
                assert step == run["history"][-1]["_step"]
            elif number == 3:
                run["summary"] = run.get("summary", {}) | items(content)
            elif number == 18:
                run["exit"] = dict(fields(content)).get(1, 0)
    return run


def figures_of(run):
    return {row["_step"]: {name: value for name, value in row.items() if not name.startswith("_")}
            for row in run["history"]}


class MetricsExport(VerbCase):
    def setUp(self):
        super().setUp()
        self.write_run("demo", steps=900)

    def write_run(self, name, steps):
        run = pathlib.Path(self.path(name))
        run.mkdir()
        (run / "config.yaml").write_text(
            "run: {name: demo, steps: 900}\ndata:\n  sources: [{name: \"a: b\", weight: 0.5}]\n")
        (run / "metrics.jsonl").write_text("".join(json.dumps({
            "step": step, "loss": None if step == 3 else 4 / step, "skipped": step == 3,
            "seconds": {"forward": 0.25, "backward": 0.5}, "sample_ids": ["x:1"],
            "loss_by_source": {"a: b": 1.5}}) + "\n" for step in range(1, steps + 1)))
        (run / "validation.jsonl").write_text(
            json.dumps({"step": 2, "accuracy": {"overall": 0.5}}) + "\n")
        (run / "environment.json").write_text(json.dumps({"started_at": "2026-01-02T03:04:05Z"}))
        (run / "summary.json").write_text(json.dumps({"name": "demo", "stopped": "done"}))
        return run

    def export(self, run, *words):
        code, out, err = self.run_verb("metrics", "export", self.path(run), *words)
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()

    def store(self):
        root = pathlib.Path(self.path("store"))
        return {str(path.relative_to(root)): path.read_text()
                for path in sorted(root.rglob("*")) if path.is_file()}

    def expect_figures(self, by_step):
        self.assertEqual(by_step[4], {"loss": 1, "skipped": 0, "seconds/forward": 0.25,
                                      "seconds/backward": 0.5, "loss_by_source/a: b": 1.5})
        self.assertEqual(by_step[3]["skipped"], 1)
        self.assertNotIn("loss", by_step[3])
        self.assertEqual(by_step[2]["validation/accuracy/overall"], 0.5)
        self.assertEqual(list(by_step), list(range(1, 901)))

    def test_mlflow_reads_a_file_store(self):
        (golden,) = read_store(json.loads((GOLDEN / "mlflow.json").read_text()))
        self.assertEqual(golden["metrics"]["seconds/forward"], {1: 0.25, 2: 0.5})
        self.export("demo", "--mlflow", self.path("store"), "--project", "my runs")
        (run,) = read_store(self.store())
        self.assertEqual(set(run["meta"]), set(golden["meta"]))
        self.assertLessEqual(set(run["experiment"]), set(golden["experiment"]))
        for key in ("experiment_id", "run_id", "lifecycle_stage"):
            self.assertIs(type(run["meta"][key]), type(golden["meta"][key]), key)
        self.assertEqual(len(run["meta"]["run_id"]), len(golden["meta"]["run_id"]))
        self.assertEqual((run["experiment"]["name"], run["meta"]["run_name"], run["meta"]["status"]),
                         ("my runs", "demo", golden["meta"]["status"]))
        self.assertEqual(run["meta"]["start_time"], 1767323045000)
        self.assertEqual(run["meta"]["end_time"], 1767323045000 + 900 * 750)
        self.assertEqual(run["tags"], golden["tags"])
        self.assertEqual(run["params"], {"run.name": '"demo"', "run.steps": "900",
                                         "data.sources.0.name": '"a: b"',
                                         "data.sources.0.weight": "0.5"})
        by_step = {}
        for name, values in run["metrics"].items():
            for step, value in values.items():
                by_step.setdefault(step, {})[name.replace("a_ b", "a: b")] = value
        self.expect_figures(dict(sorted(by_step.items())))

    def test_a_store_keeps_other_runs_and_replaces_its_own(self):
        self.write_run("other", steps=2)
        for name in ("demo", "other", "demo"):
            self.export(name, "--mlflow", self.path("store"))
        self.assertEqual(len(read_store(self.store())), 2)

    def test_wandb_reads_an_offline_run(self):
        golden = read_wandb((GOLDEN / "run.wandb").read_bytes())
        self.assertEqual(figures_of(golden), {1: {"loss": 2.5, "seconds/forward": 0.25},
                                              2: {"loss": 1.5, "seconds/forward": 0.5}})
        (where,) = self.export("demo", "--wandb", self.path("wandb"))
        self.assertRegex(where, r"/wandb/offline-run-20260102_030405-[0-9a-f]{8}$")
        (file,) = pathlib.Path(where).glob("run-*.wandb")
        self.assertGreater(file.stat().st_size, 2 * BLOCK, "records lie across blocks")
        run = read_wandb(file.read_bytes())
        self.assertEqual({key: run[key] for key in ("project", "name", "exit")},
                         {key: golden[key] for key in ("project", "name", "exit")})
        self.assertEqual(file.name, f"run-{run['id']}.wandb")
        self.assertEqual(run["config"]["data.sources.0.weight"], 0.5)
        self.assertEqual(golden["config"]["run.steps"], 2)
        self.expect_figures(figures_of(run))
        self.assertEqual(run["history"][3]["_runtime"], 3.0)
        for shown, loss in ((golden, 1.5), (run, 4 / 900)):
            self.assertEqual((shown["summary"]["loss"], shown["summary"]["seconds/forward"]),
                             (loss, 0.5 if shown is golden else 0.25))
        self.assertEqual(self.export("demo", "--wandb", self.path("wandb")), [where])
        self.assertEqual(len(os.listdir(self.path("wandb"))), 1)

    def test_says_what_is_missing(self):
        code, _, err = self.run_verb("metrics", "export", self.path("demo"))
        self.assertEqual(code, 2)
        self.assertIn("neither --mlflow nor --wandb", err)
        code, _, err = self.run_verb("metrics", "export", self.path("demo"), "--mlflow",
                                     self.path("demo/config.yaml"))
        self.assertEqual(code, 5)
        self.assertIn("metrics: file cannot be written", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
