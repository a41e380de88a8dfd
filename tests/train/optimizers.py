"""Optimizers beside those of PyTorch, averaged weights, and runs that stop early.

usage: optimizers.py TRIBUTARY [unittest arguments]
"""

import json
import shutil

import run_case
import text_case
import tiny_run
from safetensors.torch import load_file
from text_case import torch

STEPS = 20


def orthogonalise_in_f32(matrix, coefficients, steps, epsilon):
    """Newton-Schulz as torch.optim.Muon has it, without rounding to bf16."""
    a, b, c = coefficients
    x = matrix.T if matrix.size(0) > matrix.size(1) else matrix
    x = x / x.norm().clamp(min=epsilon)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.size(0) > matrix.size(1) else x


class Optimizers(text_case.TextCase):
    def tensors(self, run, step, kind="model"):
        """The tensors of a checkpoint of one rank: `model` or `optim`."""
        tensors = {}
        for path in (self.shared / run / f"checkpoints/step-{step}/{kind}").glob("*.safetensors"):
            tensors.update(load_file(path))
        self.assertGreater(len(tensors), 0)
        return tensors

    def exported(self, run, *flags):
        out = self.shared / f"{run}-exported{''.join(flags)}"
        self.run_program("checkpoint", "export", self.shared / run, "-o", out, *flags)
        return load_file(out / "model.safetensors")

    def train_in_torch(self, optimizers):
        """Trains with `optimizers(model)`; returns losses and the average of the weights."""
        given, model = self.inputs(), self.text_model()
        made = optimizers(model)
        average = {name: p.detach().clone() for name, p in model.named_parameters()}
        losses = []
        for _ in range(STEPS):
            loss = model(**given, use_cache=False).loss
            model.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in made:
                optimizer.step()
            for name, p in model.named_parameters():
                average[name].lerp_(p.detach(), 1 - 0.9)
            losses.append(loss.item())
        return losses, average

    def expect_losses(self, run, wanted, most=1e-3):
        worst = max(abs(a - b) for a, b in zip(self.losses(run), wanted, strict=True))
        print(f"{run}: loss {wanted[0]:.4f} to {wanted[-1]:.4f}, worst difference {worst:.1e}")
        self.assertLess(worst, most)
        self.assertLess(wanted[-1], 0.9 * wanted[0])

    def adamw(self, parameters, decay):
        return torch.optim.AdamW(parameters, lr=0.003, betas=(0.9, 0.95), eps=1e-8,
                                 weight_decay=decay)

    def test_muon_trains_as_that_of_torch(self):
        import torch.optim._muon as muon
        muon._zeropower_via_newtonschulz = orthogonalise_in_f32

        def optimizers(model):
            matrices = [p for name, p in model.named_parameters() if "_proj.weight" in name]
            others = [p for name, p in model.named_parameters() if "_proj.weight" not in name]
            return [torch.optim.Muon(matrices, lr=0.003, weight_decay=0.1, momentum=0.95,
                                     nesterov=True, adjust_lr_fn="match_rms_adamw"),
                    self.adamw([p for p in others if p.dim() > 1], 0.1),
                    self.adamw([p for p in others if p.dim() == 1], 0.0)]

        wanted, _ = self.train_in_torch(optimizers)
        self.train(self.text_config("muon", STEPS, optimizer={"kind": "muon"}))
        self.expect_losses("muon", wanted)
        names = set(self.tensors("muon", STEPS, "optim"))
        self.assertIn("momentum.model.layers.0.mlp.up_proj.weight", names)
        self.assertNotIn("exp_avg.model.layers.0.mlp.up_proj.weight", names)
        self.assertIn("exp_avg.model.embed_tokens.weight", names)

    def test_averages_are_those_of_the_weights(self):
        def optimizers(model):
            parameters = list(model.parameters())
            return [self.adamw([p for p in parameters if p.dim() > 1], 0.1),
                    self.adamw([p for p in parameters if p.dim() == 1], 0.0)]

        wanted, average = self.train_in_torch(optimizers)
        self.train(self.text_config("average", STEPS, optimizer={"ema_decay": 0.9},
                                    validation={"every": STEPS // 2}))
        self.expect_losses("average", wanted)
        averaged, last = self.exported("average", "--averaged"), self.exported("average")
        self.assertEqual(set(averaged), set(last))
        for name, tensor in averaged.items():
            self.assertLess((tensor - average[name]).abs().max().item(), 1e-3, name)
        moved = max((averaged[name] - last[name]).abs().max().item() for name in last)
        self.assertGreater(moved, 0.003, "the average is the last weights")
        # Validation takes the average: the export of it scores the same without an update.
        summary = json.loads((self.shared / "average/summary.json").read_text())
        config = self.text_config("scored", 1, optimizer={"learning_rate": 1e-30},
                                  validation={"every": 1},
                                  model={"weights": "pretrained", "path": str(
                                      self.shared / "average-exported--averaged")})
        self.train(config)
        again = json.loads((self.shared / "scored/summary.json").read_text())
        self.assertAlmostEqual(summary["held_out_loss"], again["held_out_loss"], places=5)
        self.assertIn("no averaged weights", tiny_run.subprocess.run(
            [self.program, "checkpoint", "export", self.shared / "scored", "-o",
             self.shared / "none", "--averaged"], text=True, capture_output=True).stderr)

    def test_eight_bits_train_nearly_as_well(self):
        losses = {}
        for kind in ("adamw", "adamw_8bit"):
            done = self.train(self.text_config(f"bits-{kind}", STEPS, optimizer={"kind": kind}))
            losses[kind] = self.losses(f"bits-{kind}")
            print([line for line in done.stdout.splitlines() if line.startswith("memory")][0])
        self.expect_losses("bits-adamw_8bit", losses["adamw"], most=0.05 * losses["adamw"][0])
        self.assertNotEqual(losses["adamw"], losses["adamw_8bit"])

    def test_each_kind_resumes_with_the_same_bits(self):
        for kind in ("muon", "adamw_8bit"):
            values = {"optimizer": {"kind": kind, "ema_decay": 0.5},
                      "checkpoint": {"every": 2, "keep_latest": 9}}
            self.train(self.text_config(f"whole-{kind}", 4, **values))
            again = self.shared / f"again-{kind}"
            shutil.copytree(self.shared / f"whole-{kind}", again)
            shutil.rmtree(again / "checkpoints/step-4")
            self.train(self.text_config(again.name, 4, **values), "--resume", "auto")
            for part in ("model", "optim"):
                ours, theirs = (self.tensors(run, 4, part) for run in (f"whole-{kind}", again.name))
                self.assertEqual(set(ours), set(theirs))
                for name in ours:
                    self.assertTrue(torch.equal(ours[name], theirs[name]), f"{kind} {name}")
        values["optimizer"]["kind"] = "muon"
        self.expect_fails(self.text_config(again.name, 6, **values), "--resume", "auto", code=4,
                          words=["optimizer.kind was \"adamw_8bit, averaged\""])

    def test_a_run_ends_when_validation_gains_nothing(self):
        validation = {"every": 1, "stop_after": 3, "max_new_tokens": 4}
        done = self.train(self.text_config("early", 9, validation=validation))
        self.assertIn("stopped after step 4: 3 validations in a row without a gain", done.stdout)
        self.assertEqual(len(self.losses("early")), 4)
        summary = json.loads((self.shared / "early/summary.json").read_text())
        self.assertEqual((summary["stopped"], summary["steps"]), ("no_gain", 4))
        self.assertTrue((self.shared / "early/checkpoints/step-4").is_dir())
        self.train(self.text_config("early", 9, validation=validation), "--resume", "auto")
        self.assertEqual(len(self.losses("early")), 4, "it has ended")
        self.train(self.text_config("early", 6, validation={"every": 1, "max_new_tokens": 4}),
                   "--resume", "auto")
        self.assertEqual(len(self.losses("early")), 6)
        self.expect_fails(self.text_config("bad", 2, validation={"stop_after": 2}), code=2,
                          words=["validation.stop_after", "validation.every above 0"])


if __name__ == "__main__":
    run_case.main()
