"""Compares read_model_config with transformers on random configurations of every family.

usage: model_config_live.py DUMP_TOOL

Each configuration is written by transformers itself (the nested layout for vision models) and once
more as a flat file of the older layout; both must be read with the values that transformers reads,
and count the parameters that its model class has (built on the meta device).
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers

SEEDS = 12
transformers.logging.set_verbosity_error()  # tiny vocabularies lack the default ids


def random_decoder(rng):
    kv_heads = rng.choice([1, 2, 3])
    heads = kv_heads * rng.choice([1, 2, 4])
    return {
        "vocab_size": rng.randrange(200, 2000),
        "hidden_size": heads * rng.choice([8, 16, 32]),
        "intermediate_size": rng.randrange(16, 200),
        "num_hidden_layers": rng.randrange(1, 5),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": rng.randrange(64, 4096),
        "initializer_range": rng.choice([0.02, 0.05]),
        "rms_norm_eps": rng.choice([1e-6, 1e-5]),
        "tie_word_embeddings": rng.random() < 0.5,
    }


def random_theta(rng, fields):
    """Adds rope_theta in most files; the others leave it to the default of the class."""
    theta = rng.choice([None, 1e4, 1e6, 5e5])
    return fields if theta is None else {**fields, "rope_theta": theta}


def random_text(rng, config_class):
    fields = random_theta(rng, random_decoder(rng))
    if rng.random() < 0.5:
        fields["head_dim"] = rng.choice([8, 24, 64])
    return config_class(**fields), None


def random_llama(rng):
    fields = random_theta(rng, random_decoder(rng))
    if rng.random() < 0.5:
        fields["head_dim"] = rng.choice([8, 24, 64])
    if rng.random() < 0.5:
        fields["rope_scaling"] = {
            "rope_type": "llama3", "factor": rng.choice([8.0, 32.0]), "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    return transformers.LlamaConfig(**fields), None


CLASSES = {
    "qwen2": transformers.Qwen2ForCausalLM,
    "qwen3": transformers.Qwen3ForCausalLM,
    "llama": transformers.LlamaForCausalLM,
    "qwen2_vl": transformers.Qwen2VLForConditionalGeneration,
    "qwen2_5_vl": transformers.Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": transformers.Qwen3VLForConditionalGeneration,
    "internvl": transformers.InternVLForConditionalGeneration,
    "qwen2_audio": transformers.Qwen2AudioForConditionalGeneration,
    "qwen2_5_omni_thinker": transformers.Qwen2_5OmniThinkerForConditionalGeneration,
}


def random_audio(rng):
    heads = rng.choice([1, 2, 4])
    text = random_theta(rng, random_decoder(rng))
    audio = {"d_model": heads * rng.choice([8, 16]), "encoder_attention_heads": heads,
             "encoder_layers": rng.randrange(1, 5), "encoder_ffn_dim": rng.randrange(16, 100),
             "num_mel_bins": rng.choice([8, 80]), "initializer_range": rng.choice([0.02, 0.03])}
    if rng.random() < 0.5:
        audio["max_source_positions"] = rng.randrange(20, 100)
    return transformers.Qwen2AudioConfig(
        text_config=text, audio_config=audio,
        audio_token_index=rng.randrange(text["vocab_size"])), None


def random_omni(rng):
    text = random_theta(rng, random_decoder(rng))
    tied = text.pop("tie_word_embeddings")
    half_head = text["hidden_size"] // text["num_attention_heads"] // 2
    time = rng.randrange(1, half_head - 1)
    text["rope_scaling"] = {"rope_type": "default",
                            "mrope_section": [time, 1, half_head - time - 1]}
    vision = random_tower(rng, "qwen2_5_vl", text["hidden_size"])
    vision.pop("tokens_per_second", None)
    heads = rng.choice([1, 2])
    audio = {"d_model": 16 * heads, "encoder_attention_heads": heads,
             "encoder_layers": rng.randrange(1, 4), "encoder_ffn_dim": rng.randrange(16, 100),
             "num_mel_bins": rng.choice([8, 80]), "output_dim": text["hidden_size"],
             "n_window": rng.choice([5, 100])}
    image, video, sound = rng.sample(range(text["vocab_size"]), 3)
    return transformers.Qwen2_5OmniThinkerConfig(
        text_config=text, vision_config=vision, audio_config=audio, tie_word_embeddings=tied,
        image_token_index=image, video_token_index=video, audio_token_index=sound,
        position_id_per_seconds=rng.choice([13, 25])), None


def random_tower(rng, family, out_width):
    heads = rng.choice([1, 2, 4])
    depth = rng.randrange(1, 5)
    width = heads * rng.choice([8, 16])
    vision = {
        "depth": depth,
        "num_heads": heads,
        "patch_size": rng.choice([8, 14]),
        "spatial_merge_size": rng.choice([1, 2]),
        "temporal_patch_size": rng.choice([1, 2]),
        "initializer_range": rng.choice([0.02, 0.03]),
    }
    if family == "qwen2_vl":
        return {**vision, "embed_dim": width, "hidden_size": out_width,
                "mlp_ratio": rng.choice([2, 3, 4])}
    vision.update(hidden_size=width, out_hidden_size=out_width,
                  intermediate_size=rng.randrange(16, 100))
    chosen = sorted(rng.sample(range(depth), rng.randrange(0, depth + 1)))
    if family == "qwen3_vl":
        return {**vision, "deepstack_visual_indexes": chosen[:1],
                "num_position_embeddings": rng.choice([9, 16, 2304])}
    vision.update(window_size=rng.choice([56, 112]), fullatt_block_indexes=chosen)
    if rng.random() < 0.5:
        vision["tokens_per_second"] = rng.choice([2, 25])
    return vision


def random_vision(rng, family):
    text = random_theta(rng, random_decoder(rng))
    tied = text.pop("tie_word_embeddings")
    half_head = text["hidden_size"] // text["num_attention_heads"] // 2
    time = rng.randrange(1, half_head - 1)
    row = rng.randrange(1, half_head - time)
    sections = [time, row, half_head - time - row]
    text["rope_scaling"] = {"type": "mrope", "mrope_section": sections}
    if family == "qwen3_vl":
        text["head_dim"] = 2 * half_head
        text["rope_scaling"] = {"rope_type": "default", "mrope_section": sections,
                                "mrope_interleaved": True}
    vision = random_tower(rng, family, text["hidden_size"])
    ids = rng.sample(range(text["vocab_size"]), 4)
    names = ["image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"]
    top = {**dict(zip(names, ids)), "tie_word_embeddings": tied}
    nested = CLASSES[family].config_class(
        text_config=dict(text), vision_config=dict(vision), **top)
    if family == "qwen3_vl":  # released nested
        return nested, None
    flat_vision = dict(vision, in_chans=3, spatial_patch_size=vision["patch_size"])
    flat = {"model_type": family, **text, **top, "vision_config": flat_vision}
    return nested, flat


def random_internvl(rng):
    text = random_theta(rng, random_decoder(rng))
    tied = text.pop("tie_word_embeddings")
    text["model_type"] = rng.choice(["qwen2", "qwen3", "llama"])
    if text["model_type"] == "qwen3":
        text["head_dim"] = rng.choice([8, 24])
    heads, patch, merge = rng.choice([1, 2, 5]), rng.choice([8, 14]), rng.choice([1, 2])
    vision = {"hidden_size": heads * rng.choice([8, 16]), "num_attention_heads": heads,
              "num_hidden_layers": rng.randrange(1, 5), "intermediate_size": rng.randrange(16, 100),
              "patch_size": [patch] * 2, "image_size": [patch * merge * rng.randrange(1, 4)] * 2,
              "norm_type": rng.choice(["layer_norm", "rms_norm"])}
    if rng.random() < 0.5:  # the other files leave these to the defaults of the class
        vision.update(attention_bias=rng.random() < 0.5, use_qk_norm=rng.random() < 0.5)
    image = rng.randrange(text["vocab_size"])
    return transformers.InternVLConfig(
        text_config=text, vision_config=vision, image_token_id=image, tie_word_embeddings=tied,
        downsample_ratio=1 / merge), None


def expected_of_tiles(config):
    vision = config.vision_config
    side = vision.image_size[0] // vision.patch_size[0]
    return {
        "layers": vision.num_hidden_layers, "width": vision.hidden_size,
        "heads": vision.num_attention_heads, "mlp_width": vision.intermediate_size,
        "output_width": config.text_config.hidden_size, "channels": vision.num_channels,
        "patch": vision.patch_size[0], "temporal_patch": 1, "merge": int(1 / config.downsample_ratio),
        "window": 0, "full_attention_layers": [], "deepstack_layers": [], "positions_side": side,
        "tokens_per_second": 2, "initializer_range": vision.initializer_range}


def expected_of(config):
    """What transformers makes of a configuration, under our names."""
    text = config.get_text_config()
    rope = text.rope_parameters
    family = config.model_type
    head_width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    with torch.device("meta"):
        model = CLASSES[family](config)
    expected = {
        "model_type": family,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": [-1] * 5,
        "backbone": {
            "layers": text.num_hidden_layers,
            "width": text.hidden_size,
            "heads": text.num_attention_heads,
            "kv_heads": text.num_key_value_heads,
            "head_width": head_width,
            "mlp_width": text.intermediate_size,
            "vocab": text.vocab_size,
            "max_positions": text.max_position_embeddings,
            "rope_theta": rope["rope_theta"],
            "norm_epsilon": text.rms_norm_eps,
            "qkv_bias": text.model_type in ("qwen2", "qwen2_vl_text", "qwen2_5_vl_text",
                                             "qwen2_5_omni_text"),
            "qk_norm": text.model_type in ("qwen3", "qwen3_vl_text"),
            "tied_head": family != "qwen2_audio" and config.tie_word_embeddings,
            "mrope_section": rope.get("mrope_section", []),
            "mrope_interleaved": family == "qwen3_vl",
            "rope_factor": rope.get("factor", 1.0),
            "initializer_range": text.initializer_range,
        },
    }
    if family == "internvl":
        expected["tokens"][0] = config.image_token_id
        expected["vision"] = expected_of_tiles(config)
    elif hasattr(config, "vision_config"):
        vision = config.vision_config
        omni = family == "qwen2_5_omni_thinker"
        first, second = family == "qwen2_vl", family == "qwen2_5_vl" or omni
        ends = [-1, -1] if omni else [config.vision_start_token_id, config.vision_end_token_id]
        expected["tokens"] = [config.image_token_id, config.video_token_id, *ends, -1]
        expected["vision"] = {
            "layers": vision.depth,
            "width": vision.embed_dim if first else vision.hidden_size,
            "heads": vision.num_heads,
            "mlp_width": (vision.embed_dim * vision.mlp_ratio if first
                          else vision.intermediate_size),
            "output_width": vision.hidden_size if first else vision.out_hidden_size,
            "channels": vision.in_channels,
            "patch": vision.patch_size,
            "temporal_patch": vision.temporal_patch_size,
            "merge": vision.spatial_merge_size,
            "window": vision.window_size if second else 0,
            "full_attention_layers": list(vision.fullatt_block_indexes) if second else [],
            "deepstack_layers": list(getattr(vision, "deepstack_visual_indexes", [])),
            "positions_side": round(getattr(vision, "num_position_embeddings", 0) ** 0.5),
            "tokens_per_second": (config.position_id_per_seconds if omni else
                                  vision.tokens_per_second if second else 2),
            "initializer_range": vision.initializer_range,
        }
    if hasattr(config, "audio_config"):
        audio = config.audio_config
        expected["tokens"][4] = config.audio_token_id
        expected["audio"] = {
            "layers": audio.encoder_layers, "width": audio.d_model,
            "heads": audio.encoder_attention_heads, "mlp_width": audio.encoder_ffn_dim,
            "output_width": text.hidden_size, "mel_bins": audio.num_mel_bins,
            "positions": 15000 if hasattr(audio, "n_window") else audio.max_source_positions,
            "chunk": 2 * getattr(audio, "n_window", 0),
            "initializer_range": audio.initializer_range}
    return expected


def write_cases(root):
    """Writes the files; returns (directory, expected values) of each."""
    cases = []
    for seed in range(SEEDS):
        rng = random.Random(seed)
        for config, flat in (
            random_text(rng, transformers.Qwen2Config),
            random_text(rng, transformers.Qwen3Config),
            random_vision(rng, "qwen2_5_vl"),
            random_llama(rng),
            random_vision(rng, "qwen2_vl"),
            random_vision(rng, "qwen3_vl"),
            random_internvl(rng),
            random_audio(rng),
            random_omni(rng),
        ):
            directory = root / f"{config.model_type}-{seed}"
            config.save_pretrained(directory)
            expected = expected_of(transformers.AutoConfig.from_pretrained(directory))
            cases.append((directory, expected))
            if flat is None:
                continue
            directory = root / f"{config.model_type}-{seed}-flat"
            directory.mkdir()
            (directory / "config.json").write_text(json.dumps(flat))
            again = expected_of(transformers.AutoConfig.from_pretrained(directory))
            assert again == expected, f"transformers reads {directory.name} otherwise"
            cases.append((directory, again))
    return cases


def main():
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as root:
        cases = write_cases(pathlib.Path(root))
        dumped = subprocess.run(
            [tool, *[str(directory) for directory, _ in cases]], capture_output=True, text=True)
        if dumped.returncode != 0:
            sys.exit(dumped.stderr)
        lines = dumped.stdout.splitlines()
        assert len(lines) == len(cases), f"{len(lines)} lines for {len(cases)} files"
        failed = 0
        for (directory, expected), line in zip(cases, lines):
            found = json.loads(line)
            if found != expected:
                failed += 1
                print(f"{directory.name}:\n  found    {found}\n  expected {expected}")
        print(f"{len(cases)} configurations compared, {failed} differ")
        sys.exit(1 if failed else 0)


main()
