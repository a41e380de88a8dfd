"""Compares `tributary forward` with transformers on tiny random models, live.

A case is a transformers model and its inputs. The model's tensors are drawn from N(0, 0.05^2), all
of them (norms and biases too: defaults of 0 and 1 hide errors), and written as a released
checkpoint. Both sides then run in fp32 on one thread, and logits, loss and every gradient are
compared. One process runs many cases, because importing transformers takes ten seconds.

Limits and procedure: docs/models.md; why packed rows need 4-row positions, no mask and no cache in
transformers: docs/theory/numerics.md, "Packed rows and the loss".
"""

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)

MAX_LOGIT_ERROR = 1e-4  # of the largest reference magnitude
MAX_LOSS_ERROR = 1e-5  # relative
MAX_GRADIENT_ERROR = 1e-4  # relative norm
ZERO_GRADIENT = 1e-7  # absolute norm per element root, where the exact gradient is zero
DEVIATION = 0.05
NOT_FOR_THE_VERB = {"mm_token_type_ids"}  # transformers needs it, but our verb reads it from the token ids


def published_name(name):
    """The name in released checkpoints of a parameter of the transformers class."""
    if name.startswith("model.visual."):
        return name.removeprefix("model.")
    if name.startswith("model.language_model."):
        return "model." + name.removeprefix("model.language_model.")
    return name


def same_name(name):
    """Families whose released checkpoints have the names of the transformers class."""
    return name


@dataclasses.dataclass
class Case:
    """One model and its inputs under their Hugging Face names; None values are left out."""

    name: str
    model: torch.nn.Module
    inputs: dict
    flat_config: bool = True  # config.json as released; else as transformers 5.x writes it
    in_memory_names: bool = False  # tensor names of transformers 5.x instead of released ones
    published: callable = published_name  # the released name of a parameter
    edit_config: callable = None  # changes config.json before it is written
    stored: callable = dict  # what the files have for tensors by their published names
    files: dict = dataclasses.field(default_factory=dict)  # other files: their text by name


def fill_rows(rows, filler, left):
    """Lists as the rows of a tensor, each filled up to the longest."""
    longest = max(map(len, rows))
    fills = [[filler] * (longest - len(row)) for row in rows]
    return torch.tensor([fill + row if left else row + fill for row, fill in zip(rows, fills)])


def padded(samples, left):
    """The text of a batch with one row for each pair of ids and labels."""
    ids, labels = zip(*samples)
    return dict(input_ids=fill_rows(ids, 0, left), labels=fill_rows(labels, -100, left),
                attention_mask=fill_rows([[1] * len(each) for each in ids], 0, left))


def packed(rows):
    """The text of a batch whose rows hold several pairs of ids and labels; positions restart, which
    transformers takes as a boundary."""
    def stack(pick):
        return torch.tensor([[v for sample in row for v in pick(*sample)] for row in rows])
    return dict(input_ids=stack(lambda ids, labels: ids), labels=stack(lambda ids, labels: labels),
                position_ids=stack(lambda ids, labels: range(len(ids))))


def text_of(samples, layout):
    """The text of samples in one row, `packed`, or in a row each, filled at the `left` or `right`."""
    pairs = [(sample.ids, sample.labels) for sample in samples]
    return packed([pairs]) if layout == "packed" else padded(pairs, left=layout == "left")


def randomize(model, seed):
    """Draws every parameter from N(0, DEVIATION^2), in the order of the names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * DEVIATION)
    return model.eval()


def randomize_lively(model, seed):
    """Draws parameters that are so large that activations are non-linear and attention is sharp.

    With DEVIATION everywhere a wrong activation function would stay below the limits.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            draw = torch.randn(parameter.shape, generator=generator)
            if "norm" in name or "ln_q" in name:
                parameter.copy_(1 + 0.3 * draw)
            elif parameter.dim() == 1:
                parameter.copy_(0.3 * draw)
            elif "embed_tokens" in name:
                parameter.copy_(draw)
            else:
                parameter.copy_(draw * 1.5 / parameter[0].numel() ** 0.5)
    return model.eval()


def flat_config(config):
    """config.json as released: text fields at the top, old rope keys."""
    whole = json.loads(config.to_json_string(use_diff=False))
    text = whole.pop("text_config", {})
    flat = {**text, **whole}
    flat["model_type"] = config.model_type
    rope = flat.pop("rope_parameters", None) or text.get("rope_parameters")
    flat["rope_theta"] = rope["rope_theta"]
    if rope["rope_type"] == "llama3":
        flat["rope_scaling"] = {key: rope[key] for key in rope if key != "rope_theta"}
    if "mrope_section" in rope:
        flat["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    vision = flat.get("vision_config")
    if vision:
        vision.pop("rope_parameters", None)
        vision["in_chans"] = vision["in_channels"]
    return flat


def publish(case, directory):
    """Writes the model of a case to `directory`."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    config = case.model.config
    text = flat_config(config) if case.flat_config else json.loads(config.to_json_string(False))
    text["architectures"] = [type(case.model).__name__]
    if case.edit_config:
        case.edit_config(text)
    (directory / "config.json").write_text(json.dumps(text, indent=1))
    for name, content in case.files.items():
        (directory / name).write_text(content)
    rename = same_name if case.in_memory_names else case.published
    tensors = {rename(n): p.detach().contiguous() for n, p in case.model.named_parameters()}
    save_file(case.stored(tensors), directory / "model.safetensors", metadata={"format": "pt"})


def reference(case):
    """Returns logits, loss and gradients (by published name) of transformers."""
    case.model.zero_grad(set_to_none=True)
    inputs = {key: value for key, value in case.inputs.items() if value is not None}
    result = case.model(**inputs, use_cache=False)
    answer = {"logits": result.logits.detach()}
    if "labels" in inputs:
        result.loss.backward()
        answer["loss"] = result.loss.detach()
        for name, parameter in case.model.named_parameters():
            gradient = parameter.grad
            answer[case.published(name)] = (
                torch.zeros_like(parameter) if gradient is None else gradient
            )
    return case.stored(answer)


@functools.cache
def open_loop(binary):
    """A process of forward_loop that lives as long as this one."""
    return subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_forward(binary, model_directory, inputs, adapter=""):
    """Runs the verb `forward` in the forward_loop `binary`, and returns what it wrote: logits, loss,
    gradients under checkpoint names."""
    tensors = {
        key: value.contiguous()
        for key, value in inputs.items()
        if value is not None and key not in NOT_FOR_THE_VERB
    }
    loop = open_loop(str(binary))
    with tempfile.TemporaryDirectory() as folder:
        options = {"model": str(model_directory), "inputs": f"{folder}/inputs.safetensors",
                   "output": f"{folder}/outputs.safetensors", "adapter": str(adapter),
                   "gradients": "labels" in tensors}
        save_file(tensors, options["inputs"])
        print(json.dumps(options), file=loop.stdin, flush=True)
        answer = loop.stdout.readline()
        if answer != '""\n':
            raise RuntimeError(json.loads(answer) if answer else f"{binary} ended: {loop.wait()}")
        return load_file(options["output"])


def relative_norm(found, expected):
    """Error of a gradient; where the exact one is zero, 0 if `found` is as good as zero."""
    norm = expected.norm().item()
    error = (found - expected).norm().item()
    if norm <= ZERO_GRADIENT * expected.numel() ** 0.5:
        return 0.0 if error <= ZERO_GRADIENT * expected.numel() ** 0.5 else float("inf")
    return error / norm


def compare(expected, found, mask=None):
    """Returns (measures, faults): the worst errors by kind, and a sentence for each breach."""
    faults = []
    if set(expected) != set(found):
        faults.append(f"only in transformers: {sorted(set(expected) - set(found))}; "
                      f"only in ours: {sorted(set(found) - set(expected))}")
    rows, ours = expected["logits"], found["logits"]
    if rows.shape != ours.shape:
        return {}, [*faults, f"logits {tuple(ours.shape)}, expected {tuple(rows.shape)}"]
    if mask is not None:
        rows, ours = rows[mask.bool()], ours[mask.bool()]
    measures = {"logits": ((rows - ours).abs().max() / rows.abs().max()).item()}
    if "loss" in expected and "loss" in found:
        loss, our_loss = expected["loss"].item(), found["loss"].item()
        measures["loss"] = abs(loss - our_loss) / abs(loss)
    names = (set(expected) & set(found)) - {"logits", "loss"}
    errors = {name: relative_norm(found[name], expected[name]) for name in names}
    if errors:
        measures["gradient"] = max(errors.values())
        measures["gradients"] = len(errors)
    # A NaN must fail, hence "not (x <= limit)".
    limits = {"logits": MAX_LOGIT_ERROR, "loss": MAX_LOSS_ERROR}
    faults += [f"{kind}: error {measures[kind]:.2e}, at most {limit}"
               for kind, limit in limits.items()
               if kind in measures and not measures[kind] <= limit]
    faults += [f"gradient of {name}: error {error:.2e}, at most {MAX_GRADIENT_ERROR}"
               for name, error in sorted(errors.items()) if not error <= MAX_GRADIENT_ERROR]
    return measures, faults


class Suite:
    """Runs checks one after the other, prints a line each, and remembers what failed."""

    def __init__(self, binary, exporter, folder):
        self.binary = binary
        self.exporter = exporter
        self.folder = Path(folder)
        self.failed = []
        self.done = 0
        self.covered = {"forward": set(), "export": set()}  # families

    def check(self, name, body):
        """`body` returns (measures, faults)."""
        started = time.time()
        try:
            measures, faults = body()
        except Exception as error:  # one broken case must not hide the others
            measures, faults = {}, [f"{type(error).__name__}: {error}"]
        self.done += 1
        shown = ", ".join(f"{k} {v:.1e}" if isinstance(v, float) else f"{k} {v}"
                          for k, v in measures.items())
        print(f"{'FAILED' if faults else 'ok':6} {name:44} {time.time() - started:5.1f} s  {shown}",
              flush=True)
        for fault in faults[:12]:
            print(f"       {fault}")
        if faults:
            self.failed.append(name)

    def directory(self, case):
        return self.folder / case.name.replace(" ", "_").replace("/", "_")

    def parity(self, case):
        """Logits, loss and gradients of one case."""
        self.covered["forward"].add(case.name.split(":")[0])

        def body():
            publish(case, self.directory(case))
            found = run_forward(self.binary, self.directory(case), case.inputs)
            return compare(reference(case), found, case.inputs.get("attention_mask"))

        self.check(case.name, body)

    def export(self, source, target):
        """Loads a model directory and writes it again, with our own code both ways."""
        subprocess.run([self.exporter, str(source), str(target)], check=True, timeout=300)

    def finish(self, at_least):
        """Exit status; a suite that ran fewer checks than it should has failed too."""
        print(f"{self.done - len(self.failed)} of {self.done} checks passed")
        if self.done < at_least:
            print(f"expected at least {at_least} checks")
        return 1 if self.failed or self.done < at_least else 0


def run_suite(description, cases, at_least, covers):
    """Main program: `cases(suite)` calls suite.parity and suite.check. `covers` says of which families,
    whose names and a colon begin those of their cases."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--binary", required=True, help="the executable forward_loop")
    parser.add_argument("--exporter", help="the executable export_model, for round trips")
    parser.add_argument("--keep", help="folder for the models, kept; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(options.binary, options.exporter, options.keep or folder)
        cases(suite)
        found = {column: sorted(families) for column, families in suite.covered.items()}
        if found != {column: sorted(families) for column, families in covers.items()}:
            sys.exit(f"COVERS says {covers}, and the cases were of {found}")
        sys.exit(suite.finish(at_least))
