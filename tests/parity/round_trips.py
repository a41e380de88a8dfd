"""Round trips of weights through files, for the parity suites: transformers writes and we load, and
we write and transformers loads."""

import dataclasses
import shutil

import harness
import torch


def load(kind, directory, dtype):
    """`kind` is a class of transformers; returns the model and a sentence for each key that does
    not fit."""
    model, report = kind.from_pretrained(directory, attn_implementation="eager", dtype=dtype,
                                         output_loading_info=True)
    faults = [f"{name}: {sorted(report[name])}"
              for name in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[name]]
    return model.eval(), faults


def logits_of(model, case):
    given = {key: value for key, value in case.inputs.items() if value is not None}
    with torch.no_grad():
        return model(**given, use_cache=False).logits


def rope_of(model):
    rope = model.config.get_text_config().rope_parameters
    return {key: value for key, value in rope.items() if key != "type"}  # an older name of rope_type


class TheirSaves:
    """transformers writes, we load and agree with the model that was written."""

    def __init__(self, suite, case):
        self.suite, self.case = suite, case
        self.expected = harness.reference(case)
        self.base = suite.directory(case)

    def compare(self, directory):
        return harness.compare(
            self.expected, harness.run_forward(self.suite.binary, directory, self.case.inputs),
            self.case.inputs.get("attention_mask"))

    def check(self):
        self.suite.check(f"{self.case.name}: saved fresh by transformers", self.fresh)
        self.suite.check(f"{self.case.name}: saved in shards by transformers", self.sharded)

    def fresh(self):
        self.case.model.save_pretrained(self.base / "fresh")
        return self.compare(self.base / "fresh")

    def sharded(self):
        self.case.model.save_pretrained(self.base / "sharded", max_shard_size="60KB")
        count = len(list((self.base / "sharded").glob("*.safetensors")))
        measures, faults = self.compare(self.base / "sharded")
        return {"shards": count, **measures}, faults + ([] if count > 2 else ["it is one file"])


def check_export(suite, case, kind, dtype, stale_type=False):
    """We load and export, transformers loads: no missing or unexpected key, the same logits.

    With `stale_type` config.json names bf16 before, which must not round what we write.
    """
    suite.covered["export"].add(case.name.split(":")[0])

    def body():
        source, target = suite.directory(case) / "source", suite.directory(case) / "exported"
        shutil.rmtree(target, ignore_errors=True)
        harness.publish(case, source)
        if stale_type:
            text = (source / "config.json").read_text()
            (source / "config.json").write_text(text.replace('"float32"', '"bfloat16"'))
        suite.export(source, target)
        model, faults = load(kind, target, dtype)
        found, expected = logits_of(model, case), logits_of(case.model, case)
        if not torch.equal(found, expected):
            faults.append(f"logits differ by {(found - expected).abs().max():.1e}")
        ropes = [rope_of(model), rope_of(case.model)]
        if ropes[0] != ropes[1]:
            faults.append(f"ropes {ropes}")
        return {"tensors": len(model.state_dict())}, faults

    suite.check(f"{case.name}: exported by us", body)


def check_all(suite, case):
    """Both directions, and a model whose names are those of transformers in memory."""
    kind = type(case.model)
    saves = TheirSaves(suite, case)
    saves.check()

    def in_memory():
        harness.publish(dataclasses.replace(case, in_memory_names=True, flat_config=False),
                        saves.base / "memory")
        model, faults = load(kind, saves.base / "memory", torch.float32)
        model.save_pretrained(saves.base / "again")
        measures, more = saves.compare(saves.base / "again")
        return measures, faults + more

    suite.check(f"{case.name}: in-memory names", in_memory)
    check_export(suite, case, kind, torch.float32)
