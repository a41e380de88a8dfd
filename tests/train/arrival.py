"""Trains on what arrives from encoders, in an order that is logged, and takes that order again.

usage: arrival.py TRIBUTARY [unittest arguments]
"""

import os
import pathlib
import shutil
import signal
import struct
import time

import beside_one_process
import flow_case
import tiny_run
from flow_case import flow

SAMPLES = 6  # of a batch
STEPS = 100


def read_log(path):
    """The ids of each step, by replica and microbatch: {step: [(replica, place, [ids])]}."""
    log, at, steps = pathlib.Path(path).read_bytes(), 0, {}
    while at < len(log):
        size, _ = struct.unpack_from("<II", log, at)
        step, _, _, count = struct.unpack_from("<QIII", log, at + 8)
        body, steps[step] = at + 28, []
        for _ in range(count):
            replica, place, samples = struct.unpack_from("<III", log, body)
            ids = [struct.unpack_from("<QI", log, body + 12 + 12 * i)[0] for i in range(samples)]
            steps[step].append((replica, place, ids))
            body += 12 + 12 * samples
        at += 8 + size
    return steps


def arrival(**keys):
    """Values of a run by arrival, of two replicas."""
    return {"parallel": flow(dp_shard=2), "run": {"steps": STEPS}, "checkpoint": {"every": 20},
            "batch": {"packing": "online_best_fit"}, "pool": {"order": "arrival"} | keys}


class Arrival(flow_case.FlowCase):
    def ids_of(self, run):
        return {step: [sample for *_, ids in microbatches for sample in ids]
                for step, microbatches in read_log(run / "plan.log").items()}

    def expect_each_once(self, run, ahead):
        """All samples of the data, each at most a window away from its step."""
        ids = self.ids_of(run)
        self.assertEqual(sorted(ids), list(range(1, STEPS + 1)))
        self.assertEqual(sorted(sum(ids.values(), [])), list(range(STEPS * SAMPLES)))
        away = {step - 1 - sample // SAMPLES for step, samples in ids.items() for sample in samples}
        self.assertLessEqual(max(away), ahead - 1)
        self.assertGreaterEqual(min(away), 1 - ahead)

    def test_an_order_by_arrival_comes_again_with_the_same_bits(self):  # I15
        with self.started("arrives", 2, 1, **arrival(ahead=3)) as launcher:
            self.wait_for_steps("arrives", 20)
            (encoder,) = self.encoders_of(launcher)
            os.kill(encoder, signal.SIGSTOP)  # then what needs no encoder comes first
            time.sleep(2.2)  # one that is silent for 3 s is lost
            os.kill(encoder, signal.SIGCONT)
            self.wait_for_steps("arrives", 50)
            os.kill(self.children_of(launcher, " train ")[-1], signal.SIGKILL)
            self.assertIn("restart 1", self.expect_good_end(launcher))
        run = self.shared / "arrives"
        self.expect_each_once(run, ahead=3)
        self.assertGreater(self.sum_of(run, "out_of_turn"), SAMPLES)
        log = self.shared / "arrived.log"
        shutil.copy(run / "plan.log", log)

        again = lambda: arrival(ahead=3, replay=str(log))
        self.expect_same_bits(self.flow_run("replayed", 2, 0, **again()), run)
        with self.started("replayed-killed", 2, 1, **again()) as launcher:
            self.wait_for_steps("replayed-killed", 50)
            os.kill(self.children_of(launcher, " train ")[-1], signal.SIGKILL)
            self.assertIn("restart 1", self.expect_good_end(launcher))
        killed = self.shared / "replayed-killed"
        self.expect_same_bits(killed, run)
        self.assertEqual((killed / "plan.log").read_bytes(), log.read_bytes())

        for ranks, key, words in ((1, "pool.order=data", "no effect on the order of the data"),
                                  (1, "batch.packing=none", "packed as it comes"),
                                  (2, f"run.steps={STEPS + 1}", "log to replay is too short"),
                                  (2, "pool.ahead=2", "log to replay does not fit the run")):
            with self.subTest(key):
                name = f"refused-{key.partition('=')[0]}"
                result = self.launch(name, ranks, key, **self.values(**again()))
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)

    def test_pairs_arrive_and_come_again_with_the_same_bits(self):
        data = self.shared / "data"
        colours = [record["messages"][-1]["content"] for record in tiny_run.read_lines(data / "colours.train.jsonl")]
        tiny_run.write_lines(data / "pairs.jsonl", [
            {"prompt": "colour?", "chosen": colour, "rejected": "red" if colour == "blue" else "blue",
             "images": [f"images/train-{i}.png"]} for i, colour in enumerate(colours)])
        values = lambda **pool: {
            "parallel": flow(), "run": {"steps": 30}, "objective": {"kind": "dpo"},
            "data": {"sources": [{"name": "pairs", "path": str(data / "pairs.jsonl")}]},
            "validation": {"max_new_tokens": 0}, "batch": {"packing": "online_best_fit", "global_samples": 4},
            "pool": {"order": "arrival", "ahead": 3} | pool}
        run = self.flow_run("pairs", 1, 1, **values(encoders=1))
        self.assertEqual(sorted(sum(self.ids_of(run).values(), [])), list(range(30 * 4)))
        self.assertGreater(self.sum_of(run, "objects"), 0)
        log = self.shared / "pairs.log"
        shutil.copy(run / "plan.log", log)
        self.expect_same_bits(self.flow_run("pairs-replayed", 1, 0, **values(replay=str(log))), run)


if __name__ == "__main__":
    beside_one_process.main()
