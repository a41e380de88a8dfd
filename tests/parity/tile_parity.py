"""Compares the families whose pictures are cut into tiles with transformers: logits, loss and every
gradient, and both round trips."""

import dataclasses
import itertools
import json
import random
import types

import harness
import round_trips
import torch
import transformers
from safetensors.torch import load_file
from transformers.models.llava_onevision import modeling_llava_onevision as llava
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor

IMAGE, VIDEO = 290, 291
VOCAB = 300

# For the table of docs/models.md: what is compared, and of which families.
COVERS = {"forward": ("internvl", "internvl_chat", "llava_onevision"),
          "export": ("internvl", "internvl_chat", "llava_onevision")}

# Names of InternViT and its projector in transformers, and in the code of its authors.
AUTHORS_NAMES = {
    "vision_tower.": "vision_model.", "embeddings.cls_token": "embeddings.class_embedding",
    "embeddings.position_embeddings": "embeddings.position_embedding",
    "patch_embeddings.projection.": "patch_embedding.", "encoder.layer.": "encoder.layers.",
    ".layernorm_before.": ".norm1.", ".layernorm_after.": ".norm2.",
    ".lambda_1": ".ls1", ".lambda_2": ".ls2",
    ".attention.projection_layer.": ".attn.proj.", ".attention.": ".attn.",
    "multi_modal_projector.layer_norm.": "mlp1.0.", "multi_modal_projector.linear_1.": "mlp1.1.",
    "multi_modal_projector.linear_2.": "mlp1.3."}
AUTHORS_KEYS = {"attention_bias": "qkv_bias", "use_qk_norm": "qk_normalization",
                "layer_scale_init_value": "initializer_factor"}


@dataclasses.dataclass
class Sizes:
    """The settings by which the tiny models differ. Head widths: text 16, vision 8."""

    family: str = "internvl"

    heads: int = 4
    kv_heads: int = 2
    tied: bool = False
    text: str = "qwen2"
    vision_layers: int = 2
    vision_heads: int = 4
    patch: int = 14
    side: int = 4  # patches of a tile
    merge: int = 2
    bias: bool = True
    norm: str = "layer_norm"
    qk_norm: bool = False
    rope: str = "default"  # "dynamic", as transformers 5 writes it, or "released" as InternVL 3 does
    context: int = 512
    pinpoints: int = 3  # arrangements of up to so many tiles on each side
    most: int = 9  # tiles whose tokens are kept


def is_siglip(name):
    parts = ("vision_tower.embeddings.patch_embedding.", "vision_tower.embeddings.position_embedding.",
             "vision_tower.encoder.layers.", "vision_tower.post_layernorm.")
    return any(part in name for part in parts)


def published_name(name):
    """The name in released checkpoints of a parameter of the transformers class."""
    name = name.replace("vision_tower.", "vision_tower.vision_model.") if is_siglip(name) else name
    if name == "lm_head.weight":
        return "language_model.lm_head.weight"
    if name.startswith("model.language_model."):
        return "language_model.model." + name.removeprefix("model.language_model.")
    return name.removeprefix("model.")


def authors_tensors(tensors):
    """Tensors as the authors' files have them: query, key and value are one."""
    stored = {}
    for name, tensor in tensors.items():
        for own, theirs in AUTHORS_NAMES.items() if not name.startswith("language_model.") else ():
            name = name.replace(own, theirs)
        stored[name] = tensor
    for query in [name for name in stored if ".attn.q_proj." in name]:
        parts = [stored.pop(query.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        stored[query.replace("q_proj", "qkv")] = torch.cat(parts)
    return stored


def write_authors_config(config):
    vision, tile = config["vision_config"], config["vision_config"]["image_size"][0]
    config["vision_config"] = {AUTHORS_KEYS.get(key, key): value for key, value in vision.items()} | {
        "model_type": "intern_vit_6b", "image_size": tile, "patch_size": vision["patch_size"][0],
        "drop_path_rate": 0.1}
    config |= {"model_type": "internvl_chat", "architectures": ["InternVLChatModel"],
               "llm_config": config.pop("text_config"), "force_image_size": tile, "ps_version": "v2",
               "select_layer": -1, "template": "internvl2_5", "dynamic_image_size": True,
               "use_thumbnail": True}
    for key in ("image_token_id", "vision_feature_layer", "vision_feature_select_strategy"):
        config.pop(key)


def text_config(sizes):
    extra = dict(head_dim=16) if sizes.text == "qwen3" else {}
    rope = dict(rope_type="default") if sizes.rope == "default" else dict(rope_type="dynamic", factor=2.0)
    return dict(
        model_type=sizes.text, vocab_size=VOCAB, hidden_size=16 * sizes.heads,
        intermediate_size=24 * sizes.heads, num_hidden_layers=2, num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads, max_position_embeddings=sizes.context,
        rms_norm_eps=1e-6, rope_parameters=dict(rope_theta=1e6, **rope), bos_token_id=None,
        eos_token_id=None, **extra)


def make_llava(sizes):
    tile = sizes.side * sizes.patch + 3  # the convolution leaves a border out
    config = transformers.LlavaOnevisionConfig(
        text_config=text_config(sizes),
        vision_config=dict(
            model_type="siglip_vision_model", hidden_size=8 * sizes.vision_heads,
            num_hidden_layers=sizes.vision_layers, num_attention_heads=sizes.vision_heads,
            intermediate_size=40, image_size=tile, patch_size=sizes.patch, vision_use_head=False),
        image_token_index=IMAGE, video_token_index=VIDEO, tie_word_embeddings=sizes.tied,
        multimodal_projector_bias=sizes.bias, vision_aspect_ratio=f"anyres_max_{sizes.most}",
        image_grid_pinpoints=[[tile * h, tile * w] for h in range(1, sizes.pinpoints + 1)
                              for w in range(1, sizes.pinpoints + 1)])
    return transformers.LlavaOnevisionForConditionalGeneration._from_config(
        config, attn_implementation="eager")


def make_model(sizes, seed, lively):
    model = make_llava(sizes) if sizes.family == "llava_onevision" else make_internvl(sizes)
    model.tie_weights()
    return (harness.randomize_lively if lively else harness.randomize)(model, seed)


def make_internvl(sizes):
    config = transformers.InternVLConfig(
        text_config=text_config(sizes),
        vision_config=dict(
            hidden_size=8 * sizes.vision_heads, num_hidden_layers=sizes.vision_layers,
            num_attention_heads=sizes.vision_heads, intermediate_size=40,
            attention_bias=sizes.bias, use_qk_norm=sizes.qk_norm, norm_type=sizes.norm,
            image_size=[sizes.side * sizes.patch] * 2, patch_size=[sizes.patch] * 2),
        image_token_id=IMAGE, downsample_ratio=1 / sizes.merge, tie_word_embeddings=sizes.tied)
    return transformers.InternVLForConditionalGeneration._from_config(
        config, attn_implementation="eager")


class Sample:
    """Parts: an int is that many text tokens; a list of one int a picture of that many tiles, or of
    LLaVA-OneVision a clip of that many frames; a pair the height and width of a picture."""

    def __init__(self, draw, parts, sizes, config):
        self.ids, self.pixels, self.clips, self.sizes = [], [], [], []
        self.config = config
        self.alone = sum(isinstance(part, tuple) for part in parts) == 1
        for part in parts:
            if isinstance(part, int):
                self.ids += [draw.randrange(280) for _ in range(part)]
            elif isinstance(part, tuple):
                self.add_picture(draw, part, sizes)
            else:
                self.add_tiles(draw, part[0], sizes)
        # The last two thirds count; the first token of a sample never does.
        self.labels = [-100 if 3 * i < len(self.ids) or token >= IMAGE else token
                       for i, token in enumerate(self.ids)]
        self.labels[0] = -100

    def noise(self, draw, tiles):
        side = self.config.vision_config.image_size
        side = side if isinstance(side, int) else side[0]
        generator = torch.Generator().manual_seed(draw.randrange(2**30))
        return torch.rand(tiles, 3, side, side, generator=generator) * 4 - 2

    def add_tiles(self, draw, tiles, sizes):
        if sizes.family != "llava_onevision":
            self.pixels.append(self.noise(draw, tiles))
            self.ids += [IMAGE] * (tiles * (sizes.side // sizes.merge) ** 2)
        else:
            self.clips.append(self.noise(draw, tiles))
            self.ids += [VIDEO] * (tiles * ((sizes.side + 1) // 2) ** 2 + 1)

    def add_picture(self, draw, size, sizes):
        """A picture of LLaVA-OneVision; the processor of transformers counts tiles and tokens."""
        tiles, tokens = 1, sizes.side**2 + 1
        if self.alone:
            pinpoints, tile = self.config.image_grid_pinpoints, self.config.vision_config.image_size
            tiles = llava.image_size_to_num_patches(list(size), pinpoints, tile)
            counter = LlavaOnevisionProcessor.__new__(LlavaOnevisionProcessor)
            counter.num_image_tokens = sizes.side**2
            counter.vision_aspect_ratio = self.config.vision_aspect_ratio
            counter.image_processor = types.SimpleNamespace(image_grid_pinpoints=pinpoints)
            tokens = counter._get_number_of_features(*size, tile, tile)
        self.pixels.append(self.noise(draw, tiles))
        self.sizes.append(size)
        self.ids += [IMAGE] * tokens


def media(samples):
    pixels = [picture for sample in samples for picture in sample.pixels]
    clips = [clip for sample in samples for clip in sample.clips]
    if samples[0].config.model_type == "internvl":
        return dict(pixel_values=torch.cat(pixels) if pixels else None)
    given = dict(pixel_values_videos=torch.stack(clips) if clips else None)
    if pixels:
        most = max(len(picture) for picture in pixels)
        given["pixel_values"] = torch.stack([
            torch.nn.functional.pad(picture, [0] * 7 + [most - len(picture)]) for picture in pixels])
        given["image_sizes"] = torch.tensor([size for s in samples for size in s.sizes])
        given["batch_num_images"] = torch.tensor([len(s.sizes) for s in samples if s.sizes])
    return given


def fixed_cases():
    """Yields (name, sizes, layout, lists of parts); each meets one edge."""
    yield "InternViT-300M, tiles, GQA 4/2", Sizes(), "packed", [[5, [3], 9, [1], 12], [4, [7], 6]]
    yield ("InternViT-6B, tied, MHA", Sizes(kv_heads=4, tied=True, bias=False, norm="rms_norm",
                                            qk_norm=True), "packed", [[3, [2], 8], [7], [4, [5], 6]])
    yield "norms on query and key beside biases", Sizes(qk_norm=True), "packed", [[3, [2], 8]]
    yield "right padding", Sizes(heads=6, kv_heads=3), "right", [[6, [2], 9], [17], [4, [1], 7]]
    yield "left padding, Qwen3, tied", Sizes(text="qwen3", tied=True), "left", [[6, [4], 9], [3, [1], 5]]
    yield "Llama, no shuffle", Sizes(text="llama", merge=1, side=3), "packed", [[6, [2], 9], [12]]
    yield "four patches a side of a token", Sizes(merge=4, side=8, patch=6), "packed", [[6, [2], 9]]
    yield "text alone", Sizes(), "packed", [[12], [7], [1, 20]]
    # The longest samples fill the context, and the pack is longer: positions restart in it.
    yield "dynamic rope", Sizes(rope="dynamic", context=38), "packed", [[5, [3], 21], [4, [7], 6], [38]]
    yield "dynamic rope as released", Sizes(rope="released", context=26), "right", [[6, [2], 12], [17]]


def llava_cases():
    """As fixed_cases; the first pictures are those of the reference page of sizes."""
    sizes = Sizes(family="llava_onevision", pinpoints=6)
    yield "wide, high and square pictures", sizes, "packed", [[5, (100, 150), 9], [3, (300, 180), 4],
                                                              [4, (200, 330), 6], [2, (59, 59), 7]]
    yield ("many tiles made smaller, tied", dataclasses.replace(sizes, tied=True, most=2, side=5),
           "packed", [[3, (500, 500), 8], [7], [4, (900, 200), 6], [2, (77, 300), 3]])
    yield ("several pictures in a sample beside one alone", sizes, "packed",
           [[3, (100, 150), 4, (80, 30), 5], [6, (70, 200), 4]])
    yield "clips", dataclasses.replace(sizes, side=3), "packed", [[6, [2], 9, (90, 50), 3], [4, [2], 5]]
    yield ("right padding, no bias", dataclasses.replace(sizes, bias=False, heads=6, kv_heads=3),
           "right", [[6, (64, 64), 9], [17], [4, (90, 300), 7]])
    yield ("left padding, one tile a side", dataclasses.replace(sizes, pinpoints=1), "left",
           [[6, (64, 20), 9], [3, (20, 64), 5]])
    yield "text alone", sizes, "packed", [[12], [7], [1, 20]]


def random_llava(seed):
    draw = random.Random(seed)
    kv_heads = draw.choice([1, 2])
    sizes = Sizes(
        family="llava_onevision", heads=kv_heads * draw.choice([1, 2, 3]), kv_heads=kv_heads,
        tied=draw.random() < 0.5, vision_layers=draw.choice([1, 2, 3]),
        vision_heads=draw.choice([1, 2, 5]), patch=draw.choice([6, 9]), side=draw.randrange(1, 6),
        bias=draw.random() < 0.7, pinpoints=draw.randrange(1, 5), most=draw.choice([1, 2, 9]))

    def parts():
        yield draw.randrange(2, 9)
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            yield draw.choice([[2], (draw.randrange(20, 250), draw.randrange(20, 250))])
            yield draw.randrange(1, 9)
        yield draw.randrange(3, 9)

    samples = [list(parts()) for _ in range(draw.randrange(1, 5))]
    return f"random {seed}", sizes, draw.choice(["packed", "packed", "left", "right"]), samples


def random_case(seed):
    draw = random.Random(seed)
    kv_heads = draw.choice([1, 2, 3])
    merge = draw.choice([1, 2])
    sizes = Sizes(
        heads=kv_heads * draw.choice([1, 2, 3]), kv_heads=kv_heads, tied=draw.random() < 0.5,
        vision_layers=draw.choice([1, 2, 3]), vision_heads=draw.choice([1, 2, 5]),
        patch=draw.choice([8, 14]), side=merge * draw.choice([1, 2, 3]), merge=merge,
        bias=draw.random() < 0.5, norm=draw.choice(["layer_norm", "rms_norm"]),
        qk_norm=draw.random() < 0.5)

    def parts():
        yield draw.randrange(2, 9)
        for _ in range(draw.choice([0, 1, 1, 2])):
            yield [draw.randrange(1, 6)]
            yield draw.randrange(1, 9)
        yield draw.randrange(3, 9)

    samples = [list(parts()) for _ in range(draw.randrange(1, 5))]
    return f"random {seed}", sizes, draw.choice(["packed", "packed", "left", "right"]), samples


def make_case(name, sizes, layout, samples):
    draw = random.Random(name)
    model = make_model(sizes, seed=len(name), lively=name.startswith("random"))
    made = [Sample(draw, parts, sizes, model.config) for parts in samples]
    inputs = harness.text_of(made, layout) | media(made)
    case = harness.Case(f"{sizes.family}: {name}", model, inputs, flat_config=False,
                        published=published_name,
                        edit_config=release_rope if sizes.rope == "released" else None)
    if sizes.family != "internvl_chat":
        return case
    tokens = {"added_tokens_decoder": {str(IMAGE): {"content": "<IMG_CONTEXT>"}}}
    return dataclasses.replace(case, edit_config=write_authors_config, stored=authors_tensors,
                               files={"tokenizer_config.json": json.dumps(tokens)})


def release_rope(config):
    """Writes the dynamic rope as the released files of InternVL 3 have it."""
    text = config["text_config"]
    rope = text.pop("rope_parameters")
    text["rope_theta"] = rope["rope_theta"]
    text["rope_scaling"] = {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}


def check_longer_than_context(suite):
    """Beyond the context a dynamic rope is another one, which we refuse."""
    case = make_case("longer than the context", Sizes(rope="dynamic", context=37), "packed", [[38]])

    def body():
        harness.publish(case, suite.directory(case))
        try:
            harness.run_forward(suite.binary, suite.directory(case), case.inputs)
        except RuntimeError as error:
            expected = ("outgrows a dynamic rope", "38 tokens", "max_position_embeddings 37")
            return {}, [f"not in {error}: {part}" for part in expected if part not in str(error)]
        return {}, ["it was not refused"]

    suite.check(case.name, body)


def check_other_head(suite):
    """transformers ties no head that differs from the embedding, whatever the file says."""
    def contradict(config):
        del config["tie_word_embeddings"]  # the class ties by default
        config["text_config"]["tie_word_embeddings"] = True

    case = dataclasses.replace(make_case("a tied head that differs", Sizes(), "packed", [[5, [3], 9]]),
                               edit_config=contradict)

    def body():
        source, target = suite.directory(case) / "source", suite.directory(case) / "exported"
        harness.publish(case, source)
        measures, faults = harness.compare(
            harness.reference(case), harness.run_forward(suite.binary, source, case.inputs))
        suite.export(source, target)
        config = json.loads((target / "config.json").read_text())
        ties = [part["tie_word_embeddings"] for part in (config, config["text_config"])]
        faults += [f"exported ties: {ties}"] if any(ties) else []
        expected = round_trips.logits_of(case.model, case)
        for directory in (source, target):
            model, more = round_trips.load(type(case.model), directory, torch.float32)
            equal = torch.equal(round_trips.logits_of(model, case), expected)
            faults += more + ([] if equal else [f"transformers computes another {directory.name}"])
        return measures, faults

    suite.check(case.name, body)


def check_round_trips(suite, case):
    saves = round_trips.TheirSaves(suite, case)
    saves.check()

    def in_memory():
        harness.publish(dataclasses.replace(case, in_memory_names=True), saves.base / "memory")
        return saves.compare(saves.base / "memory")

    suite.check(f"{case.name}: in-memory names", in_memory)
    round_trips.check_export(suite, case, type(case.model), torch.float32)


def authors_cases():
    """Some of InternVL, as the files of its authors have them."""
    for name, sizes, *others in [*itertools.islice(fixed_cases(), 3), random_case(0), random_case(1)]:
        yield name, dataclasses.replace(sizes, family="internvl_chat"), *others


def check_authors_export(suite, case):
    """We load and export: the files have the same tensors under the same names."""
    suite.covered["export"].add("internvl_chat")

    def body():
        source, target = suite.directory(case), suite.directory(case).with_suffix(".exported")
        suite.export(source, target)
        before, after = (load_file(folder / "model.safetensors") for folder in (source, target))
        different = [name for name in before.keys() | after.keys() if name not in before
                     or name not in after or not torch.equal(before[name], after[name])]
        return {"tensors": len(after)}, [f"they differ: {different}"] if different else []

    suite.check(f"{case.name}: exported by us", body)


def cases(suite):
    for spec in authors_cases():
        suite.parity(make_case(*spec))
    check_authors_export(suite, make_case(*next(authors_cases())))
    for fixed, drawn in ((fixed_cases, random_case), (llava_cases, random_llava)):
        everything = [*fixed(), *(drawn(seed) for seed in range(6))]
        for spec in everything:
            suite.parity(make_case(*spec))
        for spec in everything[:2]:  # untied and tied
            check_round_trips(suite, make_case(*spec))
    for spec in fixed_cases():
        if "released" in spec[0]:
            case = make_case(*spec)
            round_trips.check_export(suite, case, type(case.model), torch.float32)
    check_longer_than_context(suite)
    check_other_head(suite)


if __name__ == "__main__":
    harness.run_suite(__doc__, cases, at_least=54, covers=COVERS)
