"""Trains on pictures that turn out bad when they are decoded, where the tower has a mesh of its
own: samples, counts and losses are those of one process.

usage: bad_pictures.py TRIBUTARY [unittest arguments]
"""

import json
import shutil

import beside_one_process
import tiny_run

PLACES = (("separate", 3, {"dp_shard": 2, "vision": {"placement": "separate"}}),
          ("more", 4, {"vision": {"placement": "separate", "dp_shard": 3}}),
          ("tp", 4, {"dp_shard": 2, "vision": {"placement": "separate", "tp": 2}}),
          ("pp", 3, {"pp": 2, "vision": {"placement": "separate"}}),
          ("cp", 3, {"cp": 2, "vision": {"placement": "separate"}}),
          ("colocated", 2, {"dp_shard": 2, "vision": {"placement": "colocated", "passes": 2}}),
          ("colocated-tp", 2, {"tp": 2, "vision": {"placement": "colocated", "dp_shard": 2}}))


def damage(picture):
    """Cuts its end; the header stays, by which samples are dealt."""
    picture.write_bytes(picture.read_bytes()[:-30])


class BadPictures(beside_one_process.BesideOneProcess):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bad = cls.shared / "bad"
        shutil.copytree(cls.shared / "data", cls.bad)
        for i in range(0, 48, 6):
            damage(cls.bad / f"images/train-{i}.png")
        damage(cls.bad / "images/held_out-2.png")
        file = cls.bad / "colours.train.jsonl"
        records = tiny_run.read_lines(file)
        for record in records[3::8]:
            record["messages"][-1]["content"] = "red " * 400  # too long: left out
        tiny_run.write_lines(file, records)
        cls.one = cls.train_alone("one-bad", **cls.values(cls.bad, 20))

    @classmethod
    def values(cls, data, bad_at_least):
        source = lambda name: {"name": name, "path": str(data / f"{name}.train.jsonl"),
                               "held_out": str(data / f"{name}.held_out.jsonl")}
        return {"data": {"sources": [source("colours"), source("words")],
                         "bad_at_least": bad_at_least},
                "validation": {"every": 6}}

    def quarantined(self, run):
        """Each replica lists a record once, in a file of its own."""
        found = set()
        for file in run.glob("quarantine*.jsonl"):
            lines = [(line["key"].rpartition("/")[2], line["code"])
                     for line in tiny_run.read_lines(file)]
            self.assertEqual(len(lines), len(set(lines)), file.name)
            found |= set(lines)
        return found

    def column(self, run, file, key):
        return [(line["step"], line.get(key, 0)) for line in tiny_run.read_lines(run / file)]

    def expect_counts(self, run):
        summary, wanted = (json.loads((each / "summary.json").read_text())
                           for each in (run, self.one))
        for key in ("quarantined_samples", "left_out_samples"):
            self.assertEqual(summary[key], wanted[key], key)
            self.assertGreater(summary[key], 3, key)
        self.assertEqual(self.quarantined(run), self.quarantined(self.one))
        for file, key in (("metrics.jsonl", "left_out"), ("validation.jsonl", "refused")):
            self.assertEqual(self.column(run, file, key), self.column(self.one, file, key), key)
        refused = self.column(run, "validation.jsonl", "refused")
        self.assertEqual({count for _, count in refused}, {1})

    def test_bad_pictures_are_replaced_and_counted_as_by_one_process(self):
        for name, ranks, parallel in PLACES:
            with self.subTest(name):
                run = self.launch_well(name, ranks, parallel=parallel, **self.values(self.bad, 20))
                self.expect_losses(run, loss=1e-5, grad_norm=1e-4)
                self.expect_held_out(run, loss=1e-5)
                self.expect_counts(run)
                self.assertEqual(self.decoded(run), self.decoded(self.one))

    def test_too_many_bad_pictures_end_the_run_on_all_ranks(self):
        for name, ranks, parallel in PLACES:
            with self.subTest(name):
                result = self.launch(f"limit-{name}", ranks, parallel=parallel,
                                     **self.values(self.bad, 1))
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn("data: too many bad samples", result.stderr)
                summary = json.loads((self.shared / f"limit-{name}/summary.json").read_text())
                self.assertEqual(summary["stopped"], "bad_data")


if __name__ == "__main__":
    beside_one_process.main()
