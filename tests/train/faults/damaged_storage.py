"""A disk that is full and shards that are damaged, under a run of two ranks.

usage: damaged_storage.py TRIBUTARY [unittest arguments]
"""

import json
import shutil
import subprocess
import sys
import time
import unittest

import rank_job
import same_bits
import tiny_run
import two_nodes

PROGRAM = None
STEPS = 6


class DamagedStorage(same_bits.SameBits):
    @classmethod
    def run_straight(cls):
        cls.finish("straight", [])

    @classmethod
    def commands(cls, name, *arguments):
        config = tiny_run.write_config(
            cls.shared / f"{name}.yaml", cls.shared,
            run={"dir": str(cls.shared / name), "steps": STEPS},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            checkpoint={"every": 2}, metrics={"tensorboard": False})
        return [[PROGRAM, "train", str(config), *arguments]] * 2

    @classmethod
    def finish(cls, name, arguments):
        rank_job.run_to_the_end(cls.commands(name, *arguments))

    def expect_refusal(self, code, commands, *words):
        """Both ranks leave with the code, and each with one line that has all the words."""
        with rank_job.Job(commands) as job:
            for found, _, said in job.wait_for(range(2)).values():
                self.assertEqual(found, code, said)
                (line,) = rank_job.causes_in(said)
                for word in words:
                    self.assertIn(word, line)

    # --- a full disk

    def small_disk(self, name, mebibytes):
        place = self.shared / name
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", place],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        return place

    @staticmethod
    def fill(place, leave_bytes):
        """Takes all space of the disk but some."""
        free = shutil.disk_usage(place).free - leave_bytes
        with open(place / "filler", "wb") as filler:
            filler.write(bytes(max(0, free)))
        return place / "filler"

    def test_a_full_disk_ends_the_run_with_its_last_checkpoint(self):
        disk = self.small_disk("small-disk", 16)
        name = "small-disk/run"
        (self.shared / "small-disk").mkdir(exist_ok=True)
        self.finish(name, ["run.steps=2"])
        kept = rank_job.tensors_of(disk / "run")
        filler = self.fill(disk, leave_bytes=64 << 10)
        with rank_job.Job(self.commands(name, "--resume", "auto", "checkpoint.every=1")) as job:
            for rank, (code, _, words) in job.wait_for(range(2)).items():
                self.assertEqual(code, 5, words)
                (line,) = rank_job.causes_in(words)
                self.assertIn("resource error: checkpoint: not enough space for a save", line)
                self.assertRegex(line, r"found: [\d.]+ KiB free; expected: [\d.]+ [KM]iB; "
                                       "fix: free disk space")
                self.assertNotIn("training goes on", line)
            self.assertIn("save 2 of 3 that may fail in a row failed, training goes on: ",
                          job.words_of(0))
            self.assertIn("save 3 of 3 that may fail in a row failed, the run ends: ",
                          job.words_of(0))
        self.assertEqual(rank_job.tensors_of(disk / "run"), kept)
        filler.unlink()
        self.finish(name, ["--resume", "auto"])
        self.expect_same_bits(name)

    # --- damaged shards

    def damaged_run(self, name):
        """A copy of the run of two checkpoints, and the second shard of the newest."""
        shutil.copytree(self.shared / "straight", self.shared / name)
        (shard,) = (self.shared / name).glob(f"checkpoints/step-{STEPS}/model/"
                                             "*00002-of-00002.safetensors")
        return shard

    def expect_the_previous_one_goes_on(self, name):
        self.finish(name, ["--resume", "auto", "--fallback=previous"])
        self.expect_same_bits(name)

    def test_a_truncated_shard_is_refused(self):
        shard = self.damaged_run("truncated")
        size = shard.stat().st_size
        with open(shard, "r+b") as file:
            file.truncate(size - 100)
        self.expect_refusal(4, self.commands("truncated", "--resume", "auto"), shard.name,
                            str(size - 100), str(size), "--fallback=previous")
        self.expect_the_previous_one_goes_on("truncated")

    def test_a_shard_with_one_flipped_bit_is_refused(self):
        shard = self.damaged_run("flipped")
        content = bytearray(shard.read_bytes())
        content[-50] ^= 4
        shard.write_bytes(content)
        self.expect_refusal(4, self.commands("flipped", "--resume", "auto"), shard.name, "crc",
                            "--fallback=previous")
        self.expect_the_previous_one_goes_on("flipped")


    # --- bad records

    def test_bad_records_count_once_over_ranks_and_restarts(self):
        bad = self.shared / "data/bad.jsonl"
        lines = (self.shared / "data/words.train.jsonl").read_text().splitlines()
        bad.write_text("\n".join(["{broken"] * 6 + lines[6:]) + "\n")
        source = {"name": "words", "path": str(bad)}

        def commands(name, *arguments):
            config = tiny_run.write_config(
                self.shared / f"{name}.yaml", self.shared,
                run={"dir": str(self.shared / name), "steps": 12},
                data={"sources": [source], "held_out_fraction": 0.1},
                validation={"final_samples_per_source": 1, "max_new_tokens": 1},
                checkpoint={"every": 2}, metrics={"tensorboard": False})
            return [[PROGRAM, "train", str(config), *arguments]] * 2

        def found(name):
            """What is bad: by the checkpoint, and line by line on both ranks."""
            newest = rank_job.tensors_of(self.shared / name)[0]
            state = json.loads((self.shared / name / "checkpoints" / newest / "extra/global.json")
                               .read_text())["state"]["loader"]
            written = [(line["source"], line["record"])
                       for file in (self.shared / name).glob("quarantine*.jsonl")
                       for line in tiny_run.read_lines(file)]
            return sorted((source, record) for source, record, _ in state["quarantined"]), sorted(written)

        for steps in (4, 8):
            rank_job.run_to_the_end(commands("bad-resumed", "--resume", "auto", f"run.steps={steps}"))
        # As a kill leaves it: lines of a part that no checkpoint knows.
        for file in (self.shared / "bad-resumed").glob("quarantine*.jsonl"):
            with open(file, "a") as lines_of:
                lines_of.write(json.dumps({"key": "x", "source": 0, "record": 40}) + "\n")
        rank_job.run_to_the_end(commands("bad-resumed", "--resume", "auto"))
        quarantined, written = found("bad-resumed")
        self.assertEqual(quarantined, [(0, record) for record in range(6)])
        self.assertEqual(written, sorted(set(written)), "each bad record has one line")
        self.assertEqual(set(written), set(quarantined))


if __name__ == "__main__":
    two_nodes.enter_or_skip()
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
