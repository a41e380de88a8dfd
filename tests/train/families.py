"""Trains a tiny model of each family on pictures, clips and text, as a user does: alone, on processes
that share it, from pretrained weights, and answers from the checkpoint."""

import json
import math
import struct
import subprocess
import wave

import numpy
import PIL.Image
import run_case
import tiny_run
from safetensors.numpy import load_file, save_file

TEXT = ("qwen2", "qwen3", "llama")
AUDIO_TOKENS = {"<|image_pad|>": "<|AUDIO|>", "<|vision_start|>": "<|audio_bos|>",
                "<|vision_end|>": "<|audio_eos|>"}
OMNI_TOKENS = {"<|image_pad|>": "<|IMAGE|>", "<|video_pad|>": "<|VIDEO|>",
               "<|vision_start|>": "<|vision_bos|>", "<|vision_end|>": "<|vision_eos|>"}
TALKER = "talker.codec_head.weight"
LLAMA_TOKENS = {"<|im_start|>": "<|start_header_id|>", "<|im_end|>": "<|eot_id|>",
                "<|vision_start|>": "<|end_header_id|>", "<|vision_end|>": "<|begin_of_text|>"}

LLAVA_TOKENS = {"<|image_pad|>": "<image>", "<|video_pad|>": "<video>"}
INTERN_TOKENS = {"<|vision_start|>": "<img>", "<|vision_end|>": "</img>",
                 "<|image_pad|>": "<IMG_CONTEXT>"}


def replace_tokens(model, tokens):
    """Gives control tokens of the tokenizer other names."""
    text = (model / "tokenizer.json").read_text()
    for own, other in tokens.items():
        text = text.replace(json.dumps(own), json.dumps(other))
    (model / "tokenizer.json").write_text(text)


def split_tokenizer(model):
    """Leaves only the older files of a tokenizer."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    (model / "tokenizer.json").unlink()
    (model / "vocab.json").write_text(json.dumps(tokenizer["model"]["vocab"]))
    (model / "merges.txt").write_text(
        "".join(" ".join(pair) + "\n" for pair in tokenizer["model"]["merges"]))
    (model / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": {str(token["id"]): token for token in tokenizer["added_tokens"]}}))


def write_clips(data):
    """Pictures that turn from one colour to another, with an odd number of frames."""
    lines = []
    for i in range(12):
        first, last = (list(tiny_run.COLOURS.items())[(i + k) % 4] for k in (0, 1))
        frames = []
        for k, (_, colour) in enumerate((first, first, last)):
            frames.append(f"images/clip-{i}-{k}.png")
            PIL.Image.new("RGB", (56, 28), colour).save(data / frames[-1])
        lines.append({"messages": [
            {"role": "user", "content": [{"type": "video", "video": frames, "fps": 2},
                                         {"type": "text", "text": "last?"}]},
            {"role": "assistant", "content": last[0]}]})
    tiny_run.write_lines(data / "clips.train.jsonl", lines)
    tiny_run.write_lines(data / "clips.held_out.jsonl", lines[:2])


def write_sounds(data, samples=24):
    """High and low tones of several lengths and rates."""
    for split, count in (("train", samples), ("held_out", 3)):
        lines = []
        for i in range(count):
            name, pitch = (("low", 300), ("high", 2000))[i % 2]
            rate = (8000, 16000, 22050)[i % 3]
            file = f"{split}-{i}.wav"
            with wave.open(str(data / file), "wb") as out:
                out.setnchannels(1)
                out.setsampwidth(2)
                out.setframerate(rate)
                out.writeframes(b"".join(
                    struct.pack("<h", round(9000 * math.sin(2 * math.pi * pitch * k / rate)))
                    for k in range(rate * (1 + i % 4) // 5)))
            if i % 2:
                lines.append({"conversations": [{"from": "human", "value": "<audio>high?"},
                                                {"from": "gpt", "value": name}], "audios": [file]})
            else:
                lines.append({"messages": [
                    {"role": "user", "content": [{"type": "audio", "audio_url": file},
                                                 {"type": "text", "text": "high?"}]},
                    {"role": "assistant", "content": name}]})
        tiny_run.write_lines(data / f"sounds.{split}.jsonl", lines)


def vision_of(family):
    common = {"depth": 2, "num_heads": 2, "in_channels": 3, "patch_size": 14,
              "spatial_merge_size": 2, "temporal_patch_size": 2}
    if family == "qwen2_vl":
        return {**common, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2,
                "hidden_act": "quick_gelu"}
    return {**common, "hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 32,
            "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
            "hidden_act": "gelu_pytorch_tanh"}


def write_family(model, family):
    """Turns the tiny Qwen2.5-VL into a model of another family."""
    config = json.loads((model / "config.json").read_text())
    text = {key: config[key] for key in (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "hidden_act", "max_position_embeddings", "rms_norm_eps",
        "rope_theta", "initializer_range", "vocab_size")}
    if family == "qwen2_5_omni_thinker":
        ids = {"image": config["image_token_id"], "video": config["video_token_id"]}
        replace_tokens(model, OMNI_TOKENS)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        last = max(token["id"] for token in tokenizer["added_tokens"])
        for i, token in enumerate(AUDIO_TOKENS.values()):
            tokenizer["added_tokens"].append(
                {**tokenizer["added_tokens"][-1], "id": last + 1 + i, "content": token})
            ids.setdefault("audio", last + 1 + i)
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        processor = json.loads((model / "preprocessor_config.json").read_text())
        (model / "preprocessor_config.json").write_text(json.dumps({
            **processor, "feature_size": 16, "sampling_rate": 16000, "hop_length": 160,
            "n_fft": 400, "chunk_length": 300}))
        vision = {key: value for key, value in config["vision_config"].items()
                  if key != "tokens_per_second"}
        thinker = {"model_type": family, "position_id_per_seconds": 25,
                  **{f"{name}_token_index": value for name, value in ids.items()},
                  "text_config": {**text, "vocab_size": last + 4, "rope_scaling": {
                      "rope_type": "default", "mrope_section": [2, 3, 3]}},
                  "vision_config": vision,
                  "audio_config": {"d_model": 32, "encoder_layers": 2, "output_dim": 32,
                                   "encoder_attention_heads": 2, "encoder_ffn_dim": 48,
                                   "num_mel_bins": 16, "n_window": 10}}
        # As released, beside a talker that is not trained.
        config = {"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {}}
        save_file({TALKER: numpy.arange(6.0)}, model / "model.safetensors")
    elif family == "qwen2_audio":
        replace_tokens(model, AUDIO_TOKENS)
        (model / "preprocessor_config.json").write_text(json.dumps({
            "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 16,
            "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "chunk_length": 1}))
        config = {"model_type": family, "audio_token_index": config["image_token_id"],
                  "text_config": {**text, "model_type": "qwen2"},
                  "audio_config": {"d_model": 32, "encoder_layers": 2,
                                   "encoder_attention_heads": 2, "encoder_ffn_dim": 48,
                                   "num_mel_bins": 16, "max_source_positions": 50}}
    elif family in TEXT:
        config = {**text, "model_type": family, "tie_word_embeddings": True}
        if family == "llama":
            replace_tokens(model, LLAMA_TOKENS)
    elif family == "llava_onevision":
        replace_tokens(model, LLAVA_TOKENS)
        pinpoints = [[30 * rows, 30 * columns] for rows in (1, 2) for columns in (1, 2, 3)]
        config = {"model_type": family, "image_token_index": config["image_token_id"],
                  "video_token_index": config["video_token_id"], "tie_word_embeddings": True,
                  "text_config": {**text, "model_type": "qwen2"},
                  "image_grid_pinpoints": pinpoints, "vision_aspect_ratio": "anyres_max_2",
                  "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 32,
                                    "num_hidden_layers": 2, "num_attention_heads": 2,
                                    "intermediate_size": 48, "image_size": 30, "patch_size": 14,
                                    "vision_use_head": False}}
        (model / "preprocessor_config.json").write_text(json.dumps(
            {"size": {"height": 30, "width": 30}, "image_grid_pinpoints": pinpoints}))
    elif family == "internvl_chat":
        replace_tokens(model, INTERN_TOKENS)
        split_tokenizer(model)
        config = {"model_type": family, "llm_config": {**text, "model_type": "qwen2"},
                  "auto_map": {"AutoModel": "modeling_internvl_chat.InternVLChatModel"},
                  "downsample_ratio": 0.5, "ps_version": "v2", "template": "internvl2_5",
                  "dynamic_image_size": True, "use_thumbnail": True, "max_dynamic_patch": 4,
                  "vision_config": {"hidden_size": 32, "num_hidden_layers": 2, "image_size": 28,
                                    "num_attention_heads": 2, "intermediate_size": 48}}
        (model / "modeling_internvl_chat.py").write_text("# of the authors\n")
        (model / "preprocessor_config.json").write_text(json.dumps({"size": 28, "crop_size": 28}))
    elif family == "internvl":
        replace_tokens(model, INTERN_TOKENS)
        config = {"model_type": "internvl", "image_token_id": config["image_token_id"],
                  "text_config": {**text, "model_type": "qwen2", "rope_scaling": {
                      "factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}},
                  "downsample_ratio": 0.5, "tie_word_embeddings": True,
                  "vision_config": {"hidden_size": 32, "num_hidden_layers": 2, "image_size": [28, 28],
                                    "num_attention_heads": 2, "intermediate_size": 48,
                                    "patch_size": [14, 14], "use_qk_norm": True}}
        (model / "preprocessor_config.json").write_text(json.dumps(
            {"size": {"height": 28, "width": 28}, "min_patches": 1, "max_patches": 4}))
    else:
        tokens = {key: config[key] for key in config if key.endswith("_token_id")}
        common = {**tokens, "model_type": family, "tie_word_embeddings": True,
                  "vision_config": vision_of(family)}
        text["rope_scaling"] = {"rope_type": "default", "mrope_section": [2, 3, 3]}
        nested = family == "qwen3_vl"
        config = {**common, "text_config": {**text, "head_dim": 16}} if nested else {**common, **text}
        config["video_token_id"] = tokens["video_token_id"]
    (model / "config.json").write_text(json.dumps(config))


# For the table of docs/models.md: what EachFamily.check does, and with which families.
CHECKED = ("qwen2", "qwen3", "llama", "qwen2_vl", "qwen3_vl", "internvl", "internvl_chat", "llava_onevision",
           "qwen2_audio", "qwen2_5_omni_thinker")
WITHOUT_CELLS = ("internvl_chat",)  # in tests/train/equality, where it is the same model as internvl
COVERS = {"train": CHECKED, "tp": CHECKED, "pp": CHECKED, "cp": WITHOUT_CELLS, "LoRA": WITHOUT_CELLS,
          "generate": CHECKED, "export": CHECKED}


class FamilyCase(run_case.RunCase):
    """A folder in which a model of any family and its data can be made."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_clips(cls.shared / "data")
        write_sounds(cls.shared / "data")

    def workplace(self, family):
        model = self.shared / family
        subprocess.run(["cp", "-r", self.shared / "model", model], check=True)
        if family != "qwen2_5_vl":
            write_family(model, family)
        names = {"qwen2_audio": ["sounds", "words"],
                 "qwen2_5_omni_thinker": ["colours", "clips", "sounds"]}.get(
            family, ["words"] if family in TEXT else ["colours", "clips", "words"])
        return {"model": {"path": str(model)},
                "data": {"sources": [
                    {"name": name, "path": str(self.shared / f"data/{name}.train.jsonl"),
                     "held_out": str(self.shared / f"data/{name}.held_out.jsonl")}
                    for name in names],
                    # That of internvl_chat is longer than a microbatch in letters.
                    "system_prompt": "" if family == "internvl_chat" else "auto"}}

    def losses(self, name):
        return [line["loss"] for line in
                tiny_run.read_lines(self.shared / name / "metrics.jsonl")]

    def answer(self, model, *arguments):
        done = subprocess.run([self.program, "generate", str(model), *map(str, arguments),
                               "--max-new-tokens", "4"], env=tiny_run.environment(), text=True,
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class EachFamily(FamilyCase):
    def run_family(self, family):
        values = self.workplace(family)
        steps = {"steps": 6, "dir": str(self.shared / f"{family}-run")}
        config = self.config(f"{family}-run", run=steps, **values)
        freeze = ["model.freeze=[vision]"] if family == "qwen3" else []  # which it does not have
        done = tiny_run.train(self.program, config, *freeze)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual("model.freeze names vision, which the model" in done.stderr, bool(freeze))
        asked = done.stdout.split("ask the model:\n")[1]
        self.assertEqual("--image" in asked, family not in (*TEXT, "qwen2_audio"))
        self.assertEqual("--audio" in asked, family == "qwen2_audio")
        alone = self.losses(f"{family}-run")
        self.assertEqual(len(alone), 6)
        self.assertLess(alone[-1], alone[0])

        longest = 80 if family in ("qwen2_vl", "qwen3_vl", *TEXT) else 100
        degrees = {"tp": ["parallel.tp=2"],
                   "pp": ["parallel.pp=2", f"batch.capacity_tokens={longest}"]}
        if family == "qwen3_vl":  # levels of deepstack pass between stages, one of them has no layer
            degrees["pp"] = ["--plan", self.write_plan(longest)]
        if family in WITHOUT_CELLS:
            degrees["cp"] = ["parallel.cp=2"]
            self.compare_adapters(family, config)
        for name, words in degrees.items():
            self.compare(alone, self.share(config, f"{family}-{name}", words))
        return config

    def write_plan(self, tokens):
        """Four stages of two processes: the embedding, two layers, the head."""
        plan = {"format": "tributary.plan/1",
                "modules": {"vision": {"placement": "inline"}, "projector": {"placement": "inline"},
                            "backbone": {"ranks": "0-1", "mesh": {"pp": 2}, "schedule": "interleaved",
                                         "stages": [["embed"], ["0"], ["1"], ["head"]]}},
                "edges": [{"from": "vision", "to": "projector"},
                          {"from": "projector", "to": "backbone"}],
                "batch": {"global_samples": 6, "microbatches": 2, "capacity_tokens": tokens}}
        path = self.shared / "stages.json"
        path.write_text(json.dumps(plan))
        return str(path)

    def share(self, config, name, words):
        """Losses of a run on two processes."""
        done = subprocess.run(
            [self.program, "launch", "-n", "2", "--", "train", str(config),
             f"run.dir={self.shared / name}", *words],
            env=tiny_run.environment(), text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.losses(name)

    def compare(self, alone, shared):
        for one, many in zip(alone, shared, strict=True):
            self.assertAlmostEqual(one, many, delta=1e-5 * abs(one))

    def compare_adapters(self, family, config):
        words = ["run.steps=2", "adapter.kind=lora", "adapter.rank=4"]
        done = tiny_run.train(self.program, config, f"run.dir={self.shared / family}-lora", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.compare(self.losses(f"{family}-lora"),
                     self.share(config, f"{family}-lora-tp", [*words, "parallel.tp=2"]))

    def export(self, family):
        exported = self.shared / f"{family}-exported"
        done = subprocess.run([self.program, "checkpoint", "export",
                               str(self.shared / f"{family}-run"), "-o", str(exported)],
                              env=tiny_run.environment(), text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return exported

    def check(self, family):
        self.run_family(family)
        question = ["--prompt", "say oak"]
        if family in ("qwen2_audio", "qwen2_5_omni_thinker"):
            question = ["--audio", self.shared / "data/held_out-1.wav", "--prompt", "high?"]
        elif family not in TEXT:
            picture = next((self.shared / "data/images").glob("held_out-*.png"))
            question = ["--image", picture, "--prompt", "colour?"]
        if family == "internvl_chat":
            question += ["--system", ""]
        of_run = self.answer(self.shared / f"{family}-run", *question)
        exported = self.export(family)
        self.assertEqual((exported / "modeling_internvl_chat.py").exists(), family == "internvl_chat")
        self.assertEqual(self.answer(exported, *question), of_run, "the export answers otherwise")
        if family == "qwen2_5_omni_thinker":
            talker = load_file(exported / "model.safetensors")[TALKER]
            self.assertEqual(talker.tolist(), list(range(6)))
        go_on = self.config(f"{family}-again", run={"steps": 1}, **{
            **self.workplace_of_export(family, exported)})
        done = tiny_run.train(self.program, go_on)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(self.losses(f"{family}-again")[0], self.losses(f"{family}-run")[0])
        if family == "qwen2_vl":
            self.check_tied_head_on_a_stage_of_its_own(go_on, self.losses(f"{family}-again"))

    def check_tied_head_on_a_stage_of_its_own(self, config, alone):
        self.compare(alone, self.share(config, "tied-pp", ["parallel.pp=2"]))

    def workplace_of_export(self, family, exported):
        values = json.loads((self.shared / f"{family}-run.yaml").read_text())
        return {"model": {"path": str(exported), "weights": "pretrained"},
                "data": values["data"]}


for each in CHECKED:
    setattr(EachFamily, f"test_{each}", lambda self, family=each: self.check(family))


if __name__ == "__main__":
    run_case.main()
