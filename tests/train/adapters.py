"""Adapters against PEFT and beside plain runs: logits and gradients, training, resuming, export both
ways, and ranks that share the work.

usage: adapters.py TRIBUTARY [unittest arguments]
"""

import json
import pathlib
import shutil
import subprocess

import run_case
import text_case
import tiny_run
from text_case import harness, torch
import peft
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen2_5_VLForConditionalGeneration

STEPS = 50
TOWERS = ("qwen2_5_vl", "qwen2_vl")  # whose gradients are compared
COVERS = {"LoRA": ("qwen2", "qwen2_5_vl", "qwen2_vl")}  # for the table of docs/models.md
KINDS = {"lora": {}, "rslora": {"use_rslora": True}, "dora": {"use_dora": True}}


def own_name(name):
    """The name here of a parameter of a PeftModel over Qwen."""
    name = name.removeprefix("base_model.model.").replace(".default", "")
    return harness.published_name(name.replace("magnitude_vector.weight", "magnitude_vector"))


def add_adapter(model, targets, seed=1, starts_at_nothing=False, **form):
    """Wraps a model; B and magnitudes are drawn too, unless the adapter is to change nothing."""
    settings = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, **form)
    wrapped = peft.get_peft_model(model, settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(wrapped.named_parameters()):
            if "lora_" not in name:
                continue
            if "lora_A" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
            elif not starts_at_nothing:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return wrapped


def gradients_of(model):
    return {own_name(name): parameter.grad
            for name, parameter in model.named_parameters() if parameter.requires_grad}


class Adapters(text_case.TextCase):
    def forward(self, model, inputs, adapter):
        return harness.run_forward(pathlib.Path(self.program).with_name("forward_loop"), model, inputs, adapter)

    def test_logits_and_gradients_are_those_of_peft(self):
        given = self.inputs()
        mask = given["attention_mask"].bool()
        for kind, form in KINDS.items():
            for targets in ("all-linear", ["q_proj", "v_proj", "down_proj"]):
                folder = self.shared / f"peft-{kind}-{len(targets)}"
                model = add_adapter(self.text_model(), targets, lora_dropout=0.1, **form)
                model.save_pretrained(folder)  # dropout matters in training alone
                model.eval()
                wanted = model(**given, use_cache=False)
                wanted.loss.backward()
                found = self.forward(self.shared / "text", given, folder)
                gradients = gradients_of(model)
                self.assertEqual(set(found) - {"logits", "loss"}, set(gradients), kind)
                self.expect_close(found["logits"][mask], wanted.logits.detach()[mask])
                self.assertAlmostEqual(found["loss"].item(), wanted.loss.item(), places=5)
                for name, gradient in gradients.items():
                    with self.subTest(f"{kind} {targets} {name}"):
                        self.expect_close(found[name], gradient)

    def test_gradients_of_a_vision_tower_are_those_of_peft(self):
        import vision_language_parity as pictures
        self.assertEqual(COVERS["LoRA"], (self.family, *TOWERS))
        for family in TOWERS:
            case = pictures.make_case(family, "adapters", pictures.Sizes(), "packed",
                                      [[12, (4, 8), 9], [7, (6, 4), (4, 4), 5]])
            harness.publish(case, self.shared / family)
            folder = self.shared / f"peft-{family}"
            model = add_adapter(case.model, "all-linear", use_dora=True)
            model.save_pretrained(folder)
            inputs = {key: value for key, value in case.inputs.items() if value is not None}
            wanted = model(**inputs, use_cache=False)
            wanted.loss.backward()
            found = self.forward(self.shared / family, inputs, folder)
            gradients = gradients_of(model)
            self.assertIn("visual.blocks.0.attn.qkv.lora_B.weight", gradients)
            self.assertEqual(set(found) - {"logits", "loss"}, set(gradients))
            self.expect_close(found["logits"], wanted.logits.detach())
            for name, gradient in gradients.items():
                with self.subTest(f"{family} {name}"):
                    self.expect_close(found[name], gradient)

    def test_training_goes_as_that_of_peft(self):
        given = self.inputs()
        for kind in ("lora", "dora"):
            folder = self.shared / f"start-{kind}"
            model = add_adapter(self.text_model(), ["q_proj", "k_proj", "v_proj", "up_proj"],
                                starts_at_nothing=True, **KINDS[kind])
            model.save_pretrained(folder)
            trained = [p for p in model.parameters() if p.requires_grad]
            optimizer = torch.optim.AdamW(
                [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1},
                 {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}],
                lr=0.003, betas=(0.9, 0.95), eps=1e-8)
            wanted = []
            for _ in range(STEPS):
                loss = model(**given, use_cache=False).loss
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trained, 1.0)
                optimizer.step()
                wanted.append(loss.item())
            self.train(self.text_config(f"beside-{kind}", STEPS, adapter={"path": str(folder)}))
            found = self.losses(f"beside-{kind}")
            worst = max(abs(a - b) for a, b in zip(found, wanted, strict=True))
            print(f"{kind}: loss {wanted[0]:.4f} to {wanted[-1]:.4f}, worst difference {worst:.1e}")
            self.assertLess(worst, 1e-3)
            self.assertLess(wanted[-1], 0.9 * wanted[0])

    def test_exports_answer_as_the_run_does(self):
        given = self.inputs()
        for kind in ("lora", "dora"):
            name = f"export-{kind}"
            self.train(self.text_config(name, 6, adapter={"kind": kind, "rank": 4, "alpha": 8}))
            adapter, merged = self.shared / f"{name}-peft", self.shared / f"{name}-merged"
            self.run_program("checkpoint", "export", self.shared / name, "-o", adapter)
            self.run_program("checkpoint", "export", self.shared / name, "-o", merged, "--merged")
            model = peft.PeftModel.from_pretrained(self.text_model(), adapter)
            with torch.no_grad():
                wanted = model(**given, use_cache=False).logits
                plain = self.text_model()(**given, use_cache=False).logits
                whole = AutoModelForCausalLM.from_pretrained(
                    merged, attn_implementation="eager", dtype=torch.float32)(
                        **given, use_cache=False).logits
            mask = given["attention_mask"].bool()
            found = self.forward(self.shared / "text", given, adapter)["logits"]
            self.expect_close(found[mask], wanted[mask])
            self.expect_close(whole[mask], wanted[mask])
            self.assertGreater((plain - wanted).abs().max().item(), 0.01, "nothing was trained")
            model.save_pretrained(self.shared / f"{name}-again")
            theirs = load_file(self.shared / f"{name}-again/adapter_model.safetensors")
            ours = load_file(adapter / "adapter_model.safetensors")
            self.assertEqual(set(theirs), set(ours))
            for key, value in ours.items():
                self.assertTrue(torch.equal(theirs[key], value), key)
            question = ["--prompt", "say oak 1", "--max-new-tokens", "4", "--system", ""]
            self.assertEqual(self.run_program("generate", self.shared / name, *question),
                             self.run_program("generate", merged, *question))
            self.train(self.text_config(f"{name}-on", 1, adapter={"path": str(adapter)}))
            self.assertLess(self.losses(f"{name}-on")[0], self.losses(name)[-1])

    def test_a_resumed_run_has_the_same_bits(self):
        values = {"adapter": {"kind": "dora", "rank": 2, "targets": ["*_proj", "attn.qkv"]},
                  "model": {"path": str(self.shared / "model"), "freeze": ["projector"]},
                  "checkpoint": {"every": 3, "keep_latest": 9}}
        run = {"steps": 6, "dir": str(self.shared / "whole")}
        started = self.train(self.config("whole", run=run, **values))
        self.assertIn("adapter    dora, rank 2, alpha 8, on *_proj, attn.qkv", started.stdout)
        self.assertIn("projector", started.stdout)
        again = self.shared / "again"
        shutil.copytree(self.shared / "whole", again)
        shutil.rmtree(again / "checkpoints/step-6")
        config = self.config("again", run={"steps": 6, "dir": str(again)}, **values)
        self.train(config, "--resume", "auto")
        for path in sorted((self.shared / "whole/checkpoints/step-6").glob("*/*.safetensors")):
            other = again / path.relative_to(self.shared / "whole")
            self.assertEqual(path.read_bytes(), other.read_bytes(), path)
        self.assertEqual(self.losses("again"), self.losses("whole"))
        values["adapter"]["rank"] = 3
        self.expect_fails(self.config("again", run={"steps": 6, "dir": str(again)}, **values),
                          "--resume", "auto", code=4, words=["adapter was"])
        exported = self.shared / "whole-peft"
        self.run_program("checkpoint", "export", self.shared / "whole", "-o", exported)
        kind = Qwen2_5_VLForConditionalGeneration
        base = self.shared / "whole-base"
        self.run_program("checkpoint", "export", self.shared / "whole", "-o", base, "--merged")
        loaded = peft.PeftModel.from_pretrained(kind.from_pretrained(base), exported)
        stored = load_file(exported / "adapter_model.safetensors")
        names = {name.replace(".default", "").replace("magnitude_vector.weight", "magnitude_vector")
                 for name, p in loaded.named_parameters() if "lora_" in name}
        self.assertEqual(names, set(stored))

    def test_ranks_train_as_one(self):
        values = {"adapter": {"kind": "lora", "rank": 4}}
        run = {"steps": 4, "dir": str(self.shared / "one")}
        self.train(self.config("one", run=run, **values))
        for degrees in (["parallel.tp=2"], ["parallel.dp_shard=2"], ["parallel.pp=2"]):
            directory = self.shared / f"two-{degrees[0]}"
            done = subprocess.run(
                [self.program, "launch", "-n", "2", "--", "train", self.shared / "one.yaml",
                 f"run.dir={directory}", *degrees],
                env=tiny_run.environment(), text=True, capture_output=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            for one, two in zip(self.losses("one"), self.losses(directory.name), strict=True):
                self.assertAlmostEqual(one, two, delta=1e-5 * one, msg=degrees)

    def test_refusals_name_the_key(self):
        self.expect_fails(self.config("bad", adapter={"kind": "lora", "targets": ["q_prj"]}),
                          code=2, words=["adapter.targets", "did you mean q_proj"])
        self.expect_fails(self.config("bad", adapter={"rank": 4}), code=2,
                          words=["keys of the adapter have no effect"])
        self.expect_fails(self.config("bad", adapter={"kind": "lora", "targets": ["v_proj"]},
                                      model={"path": str(self.shared / "model"),
                                             "freeze": ["backbone"]}),
                          code=2, words=["no linear map has an adapter"])
        folder = self.shared / "odd"
        add_adapter(self.text_model(), ["q_proj"]).save_pretrained(folder)
        path = folder / "adapter_config.json"
        config = json.loads(path.read_text())
        for key, value in {"lora_dropout": 0.1, "rank_pattern": {"q_proj": 2},
                           "peft_type": "IA3"}.items():
            path.write_text(json.dumps({**config, key: value}))
            self.expect_fails(self.text_config("bad", 1, adapter={"path": str(folder)}), code=2,
                              words=["a form that is not trained here", key])
        path.write_text(json.dumps(config))
        self.expect_fails(self.text_config("bad", 1, adapter={"path": str(folder), "rank": 5}),
                          code=2, words=["adapter.path says something else", "adapter.rank"])


if __name__ == "__main__":
    run_case.main()
