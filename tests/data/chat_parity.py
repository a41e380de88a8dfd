"""Compares chats with what transformers renders and tokenises.

Usage: chat_parity.py TEXT_PROBE [CHATS]
Trains a tokenizer with scripts/train_tokenizer.py, twice for the same bytes, loads it with
transformers, and compares on generated chats: the rendered text, the ids, and the targets with
those read off the ids of the reference.
"""

import dataclasses
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import torch
from generated_text import make_text
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers import (AutoTokenizer, PreTrainedTokenizerFast, Qwen2AudioProcessor,
                          Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor)
from transformers.video_utils import VideoMetadata

ROOT = pathlib.Path(__file__).parents[2]
SEED = 21
ROLES = ["system", "user", "assistant"]
IGNORED = -100

# The template of the Qwen2.5-VL files.
QWEN_VL = (
    "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}"
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}"
    "{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' or 'video' in content %}"
    "{% set video_count.value = video_count.value + 1 %}"
    "{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}"
    "<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The template of the InternVL files; the processor puts <img> and </img> around the token of an image
# and writes clips frame by frame.
INTERN = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' %}"
    "{{ '<IMG_CONTEXT>\n' }}{% elif content['type'] == 'video' %}{{ '<video>\n' }}"
    "{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{{'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"
)
# The template of the LLaVA-OneVision files.
LLAVA = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{# Render all images first #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}"
    "{# Render all video then #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}"
    "{{ '<video>\n' }}{% endfor %}"
    "{# Render all text next #}{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] }}{% endfor %}{% else %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ content['text'] }}{% endgeneration %}{% endfor %}{% endif %}"
    "{{'<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FRAMES = 2
MEDIA = {INTERN: {"<IMG_CONTEXT>": "<img><IMG_CONTEXT></img>",
                  "<video>": "\n".join(f"Frame{i + 1}: <img><IMG_CONTEXT></img>"
                                       for i in range(FRAMES))}, LLAVA: {}}
TILE_TOKENS = {INTERN: {"<|vision_start|>": "<img>", "<|vision_end|>": "</img>",
                        "<|image_pad|>": "<IMG_CONTEXT>"},
               LLAVA: {"<|image_pad|>": "<image>", "<|video_pad|>": "<video>"}}
# The control tokens of Llama 3 that take the places of those of ChatML in the trained tokenizer.
LLAMA_TOKENS = {"<|im_start|>": "<|start_header_id|>", "<|im_end|>": "<|eot_id|>",
                "<|vision_start|>": "<|end_header_id|>", "<|vision_end|>": "<|begin_of_text|>"}
# The template of Qwen2-Audio, as its processor has it, and its control tokens.
AUDIO = Qwen2AudioProcessor.default_chat_template.fget(None)
AUDIO_TOKENS = {"<|vision_start|>": "<|audio_bos|>", "<|image_pad|>": "<|AUDIO|>",
                "<|vision_end|>": "<|audio_eos|>"}
# Those of Qwen2.5-Omni, which needs one more than the trained tokenizer has.
OMNI_TOKENS = {"<|vision_start|>": "<|vision_bos|>", "<|vision_end|>": "<|vision_eos|>",
               "<|image_pad|>": "<|IMAGE|>", "<|video_pad|>": "<|VIDEO|>",
               "<|vision_pad|>": "<|audio_bos|>", "<|endoftext|>": "<|AUDIO|>",
               "": "<|audio_eos|>"}
HELPFUL = "You are a helpful assistant."


def published(name):
    """A template as tests/golden/chat_templates keeps it."""
    return (ROOT / f"tests/golden/chat_templates/{name}.jinja").read_text()


@dataclasses.dataclass
class Family:
    """A template, and what its chats are made of."""
    name: str
    template: str
    tokens: dict = dataclasses.field(default_factory=dict)  # of the trained tokenizer: its own
    media: tuple = ()
    media_roles: tuple = (0, 1, 2)
    prompt: str = ""  # that the template puts in front
    form: str = "qwen_vl"
    words: tuple = ("<|im_end|>", "<|image_pad|>", "<|im_start|>")  # that a user may write too
    left_out: str = ""  # of what the template writes

    @property
    def is_llama(self):
        return "<|eot_id|>" in self.tokens.values()


WITH_DATES = {**LLAMA_TOKENS, "<|image_pad|>": "<|eom_id|>"}
LLAMA_WORDS = ("<|eot_id|>", "<|start_header_id|>")
FAMILIES = [
    Family("qwen-vl", QWEN_VL, media=("image", "video"), prompt=HELPFUL),
    Family("qwen2.5", published("qwen2_5"), prompt=f"You are Qwen, created by Alibaba Cloud. {HELPFUL}"),
    Family("qwen3", published("qwen3"), left_out="<think>\n\n</think>\n\n"),
    Family("qwen3-instruct-2507", published("qwen3_instruct_2507")),
    # Its template writes media in turns of users only.
    Family("qwen3-vl", published("qwen3_vl"), media=("image", "video"), media_roles=(1,)),
    Family("qwen2.5-omni", published("qwen2_5_omni"), OMNI_TOKENS, ("image", "video", "audio"),
           (0, 1), HELPFUL, "qwen_omni", ("<|im_end|>", "<|IMAGE|>", "<|im_start|>")),
    Family("qwen2-audio", AUDIO, AUDIO_TOKENS, ("audio",), prompt=HELPFUL),
    Family("llama 3", published("llama3"), LLAMA_TOKENS, words=LLAMA_WORDS),
    Family("llama 3.1", published("llama3_1"), WITH_DATES, words=LLAMA_WORDS),
    Family("llama 3.2", published("llama3_2"), WITH_DATES, words=LLAMA_WORDS),
]


def train_tokenizer(folder, source):
    """Runs the script on a text file and a chat file; gives the folder it wrote."""
    (folder / "text.txt").write_text("\n".join(make_text(source, ["x"]) for _ in range(1000)),
                                     encoding="utf-8", errors="replace")
    chats = [{"messages": [{"role": "user", "content": [{"type": "text", "text": f"count {i}"}]},
                           {"role": "assistant", "content": f"the answer is {i}"}]}
             for i in range(100)]
    chats += [{"conversations": [{"from": "human", "value": f"<image>\nWhat is shown in {i}?"}]}
              for i in range(100)]
    (folder / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    for name in ["first", "second"]:
        subprocess.run([sys.executable, ROOT / "scripts/train_tokenizer.py", "--vocab-size", "1200",
                        "--output", folder / name, folder / "text.txt", folder / "chats.jsonl"],
                       check=True, stdout=subprocess.DEVNULL)
    for file in ["tokenizer.json", "tokenizer_config.json"]:
        first, second = ((folder / name / file).read_bytes() for name in ["first", "second"])
        assert first == second, f"{file} differs between two runs of train_tokenizer.py"
    return folder / "first"


def make_turns(source, media, tokens, media_roles=(0, 1, 2)):
    turns = []
    for index in range(source.randint(1, 5)):
        role = source.randint(0 if index == 0 else 1, 2)
        # Records refuse media in answers; of a sound there the words around it would be in doubt.
        in_turn = [] if role == 2 and media == ["audio"] or role not in media_roles else media
        parts = []
        for _ in range(source.randint(0, 3)):
            if in_turn and source.random() < 0.3:
                parts.append({source.choice(in_turn): 0})
            else:
                parts.append(make_text(source, tokens))
        turns.append({"role": role, "parts": parts})
    return turns


def to_lists(turns):
    """The turns as the templates of families of tiles take them."""
    return [{"role": ROLES[turn["role"]],
             "content": [{"type": "text", "text": part} if isinstance(part, str)
                         else {"type": next(iter(part))} for part in turn["parts"]]}
            for turn in turns]


def to_messages(turns, has_media):
    """The turns as transformers takes them."""
    messages = []
    for turn in turns:
        parts = [{"type": "text", "text": part} if isinstance(part, str)
                 else {"type": next(iter(part))} for part in turn["parts"]]
        text = "".join(part for part in turn["parts"] if isinstance(part, str))
        is_list = has_media and len(parts) != 1
        if has_media and len(parts) == 1 and not isinstance(turn["parts"][0], str):
            is_list = True
        messages.append({"role": ROLES[turn["role"]], "content": parts if is_list else text})
    return messages


def read_off_targets(tokenizer, ids, with_newline):
    """Targets computed only from ids: the tokens from an assistant's first newline to its end."""
    start, end = (tokenizer.convert_tokens_to_ids(t) for t in ["<|im_start|>", "<|im_end|>"])
    media = {tokenizer.convert_tokens_to_ids(token) for token in
             ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
              *AUDIO_TOKENS.values(), *OMNI_TOKENS.values()]}
    counts = [False] * len(ids)
    at = 0
    while at < len(ids):
        assert ids[at] == start
        header = at + 1
        while not tokenizer.decode(ids[at + 1:header]).endswith("\n"):
            header += 1
        stop = ids.index(end, at) if end in ids[at:] else len(ids) - 2
        if tokenizer.decode(ids[at + 1:header]) == "assistant\n":
            for place in range(header, min(stop + 1 + with_newline, len(ids))):
                counts[place] = ids[place] not in media
        at = stop + 2
    return [ids[i + 1] if i + 1 < len(ids) and counts[i + 1] else IGNORED for i in range(len(ids))]


def read_off_llama_targets(tokenizer, ids):
    """As read_off_targets: what follows an assistant's header, to its <|eot_id|>."""
    end, after_role = (tokenizer.convert_tokens_to_ids(t) for t in ["<|eot_id|>", "<|end_header_id|>"])
    counts = [False] * len(ids)
    learns, header = False, []
    for place, token in enumerate(ids):
        if token == after_role:
            learns = tokenizer.decode(header).endswith("assistant")
            skip = len(tokenizer("\n\n", add_special_tokens=False)["input_ids"])
            header = []
        elif learns and skip > 0:
            skip -= 1
        elif learns:
            counts[place] = True
            learns = token != end
        else:
            header.append(token)
    return [ids[i + 1] if i + 1 < len(ids) and counts[i + 1] else IGNORED for i in range(len(ids))]


def has_newline_first(turns):
    """An answer that begins with a newline is tokenised apart from its header, on purpose."""
    return any(turn["role"] == 2 and turn["parts"] and isinstance(turn["parts"][0], str)
               and re.match(r"\s*[\r\n]", "".join(p for p in turn["parts"] if isinstance(p, str)))
               for turn in turns)


def with_tokens(trained, folder, tokens):
    """The trained tokenizer with other control tokens, and one more where there is one of no place."""
    text = (trained / "tokenizer.json").read_text(encoding="utf-8")
    for own, other in tokens.items():
        text = text.replace(json.dumps(own), json.dumps(other)) if own else text
    if "" in tokens:
        content = json.loads(text)
        last = content["added_tokens"][-1]
        more = {**last, "id": last["id"] + 1, "content": tokens[""]}
        content["added_tokens"].append(more)
        text = json.dumps(content, ensure_ascii=False)
    folder.mkdir()
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def compare_tiles(probe, folder, trained, template, source, count):
    """As compare, for the families of tiles: ids and targets, of which media are no part."""
    name = {INTERN: "internvl", LLAVA: "llava-onevision"}[template]
    tokenizer = with_tokens(trained, folder / name, TILE_TOKENS[template])
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    # Only transformers' own environment knows the marks around what an assistant says.
    rendered_by = environment.from_string(re.sub("{% (end)?generation %}", "", template))
    questions = [{"turns": make_turns(source, ["image", "video"], ["x"], media_roles=(0, 1)), "plain": True,
                  "system": "", "prompt": source.random() < 0.3, "newline": source.random() < 0.5,
                  "media": "internvl" if template == INTERN else "llava_onevision",
                  "frames": FRAMES if template == INTERN else 0} for _ in range(count)]
    (folder / "questions").write_text("".join(json.dumps(q) + "\n" for q in questions))
    subprocess.run([probe, folder / name / "tokenizer.json", folder / "questions",
                    folder / "answers"], check=True)
    answers = (folder / "answers").read_text(encoding="utf-8").split("\n")[:-1]
    different = compared = 0
    for question, answer in zip(questions, map(json.loads, answers), strict=True):
        if has_newline_first(question["turns"]):
            continue
        compared += 1
        text = rendered_by.render(messages=to_lists(question["turns"]),
                                  add_generation_prompt=question["prompt"])
        for token, written in MEDIA[template].items():
            text = text.replace(token, written)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        targets = read_off_targets(tokenizer, ids, question["newline"])
        if answer["ids"] != ids or answer["targets"] != targets:
            different += 1
            if different <= 3:
                print(f"{ascii(question)}\n  got      {ascii(tokenizer.decode(answer['ids']))}\n"
                      f"  expected {ascii(text)}")
    print(f"{name}: {compared - different} of {compared} equal")
    return different + (compared < count // 4)


def compare(probe, folder, tokenizer, family, source, count):
    model = family.name if family.tokens else "first"
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    rendered_by = environment.from_string(family.template)
    questions = []
    for _ in range(count):
        tokens = source.choice([["x"], list(family.words)])
        questions.append({"turns": make_turns(source, list(family.media), tokens, family.media_roles),
                          "plain": tokens == ["x"], "system": family.prompt, "media": family.form,
                          "prompt": source.random() < 0.3, "newline": source.random() < 0.5,
                          "numbers": family.template == AUDIO})
    if family.left_out:  # a newline that follows it is left out too
        questions = [each for each in questions if not has_newline_first(each["turns"])]
    (folder / "questions").write_text("".join(json.dumps(q) + "\n" for q in questions))
    subprocess.run([probe, folder / model / "tokenizer.json", folder / "questions",
                    folder / "answers"], check=True)
    answers = (folder / "answers").read_text(encoding="utf-8").split("\n")[:-1]
    different = compared_ids = 0
    for question, answer in zip(questions, map(json.loads, answers), strict=True):
        messages = to_messages(question["turns"], bool(family.media))
        text = rendered_by.render(messages=messages, add_generation_prompt=question["prompt"],
                                  bos_token="<|begin_of_text|>")
        if family.left_out:
            text = text.replace(family.left_out, "")
        expected = {"text": text}
        if family.template == QWEN_VL:
            own = tokenizer.apply_chat_template(messages, tokenize=False,
                                                add_generation_prompt=question["prompt"])
            assert own == text, "the template that train_tokenizer.py writes is another one"
        if question["plain"] and not has_newline_first(question["turns"]):
            compared_ids += 1
            expected["ids"] = tokenizer(text, add_special_tokens=False)["input_ids"]
            expected["targets"] = (
                read_off_llama_targets(tokenizer, expected["ids"]) if family.is_llama
                else read_off_targets(tokenizer, expected["ids"], question["newline"]))
        if any(answer[key] != value for key, value in expected.items()):
            different += 1
            if different <= 3:
                print(f"{ascii(question)}\n  got      {ascii(answer)}\n"
                      f"  expected {ascii(expected)}")
    print(f"{family.name}: {len(questions) - different} of {len(questions)} equal, "
          f"{compared_ids} with ids and targets")
    return different + (compared_ids < count // 4)


def compare_clips(probe, folder, tokenizer, source, count):
    """Compares the ids of chats with clips with those that the processor of Qwen3-VL makes."""
    processor = Qwen3VLProcessor(Qwen2VLImageProcessor(patch_size=16), tokenizer,
                                 Qwen3VLVideoProcessor(size=dict(shortest_edge=4096,
                                                                 longest_edge=65536)))
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    rendered_by = environment.from_string(published("qwen3_vl"))
    questions = []
    while len(questions) < count:
        turns = make_turns(source, ["video"], ["x"], media_roles=(1,))
        clips = sum(part == {"video": 0} for turn in turns for part in turn["parts"])
        if clips and not has_newline_first(turns):
            frames, fps = source.randint(2, 9), source.choice([0.7, 1, 2, 4, 24, 29.97])
            questions.append({"turns": turns, "system": "", "prompt": False, "newline": True,
                              "clips": clips, "fps": fps,
                              "seconds": [i / fps for i in range(frames)]})
    (folder / "questions").write_text("".join(json.dumps(q) + "\n" for q in questions))
    subprocess.run([probe, folder / "first/tokenizer.json", folder / "questions",
                    folder / "answers"], check=True)
    answers = map(json.loads, (folder / "answers").read_text(encoding="utf-8").split("\n")[:-1])
    different = 0
    for question, answer in zip(questions, answers, strict=True):
        frames = len(question["seconds"])
        text = rendered_by.render(messages=to_messages(question["turns"], True))
        made = processor(
            text=[text], videos=[torch.zeros(frames, 3, 64, 48, dtype=torch.uint8)] * question["clips"],
            do_sample_frames=False, cap_pixels_per_frame=False, add_special_tokens=False,
            video_metadata=[VideoMetadata(total_num_frames=frames, fps=question["fps"],
                                          frames_indices=list(range(frames)))
                            for _ in range(question["clips"])])
        written = tokenizer.decode(made["input_ids"][0])
        # One pad for each step; and the processor keeps the marks of the template around a clip.
        written = re.sub(r"(<\|video_pad\|>)+", r"\1", written)
        written = re.sub(r"<\|vision_start\|>((?:<[0-9.]+ seconds><\|vision_start\|><\|video_pad\|>"
                         r"<\|vision_end\|>)+)<\|vision_end\|>", r"\1", written)
        got = tokenizer.decode(answer["ids"])
        if got != written:
            different += 1
            if different <= 3:
                print(f"{ascii(question)}\n  got      {ascii(got)}\n  expected {ascii(written)}")
    print(f"clips of qwen3-vl: {count - different} of {count} equal")
    return different


def check_known_templates(config):
    """The program knows these templates and no others, because they are compared here."""
    source = (ROOT / "src/data/text/model_template.cpp").read_text()
    texts = [INTERN, LLAVA, json.loads(config.read_text())["chat_template"],
             *(family.template for family in FAMILIES)]
    digests = {hashlib.sha256(text.rstrip(" \t\r\n").encode()).hexdigest() for text in texts}
    assert digests == set(re.findall(r'"([0-9a-f]{64})"', source)), "digests of model_template.cpp"


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    source = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        trained = train_tokenizer(folder, source)
        check_known_templates(trained / "tokenizer_config.json")
        own = AutoTokenizer.from_pretrained(trained)
        different = 0
        for family in FAMILIES:
            tokenizer = (with_tokens(trained, folder / family.name, family.tokens) if family.tokens
                         else own)
            different += compare(sys.argv[1], folder, tokenizer, family, source, count)
        different += compare_clips(sys.argv[1], folder, own, source, count // 8)
        different += sum(compare_tiles(sys.argv[1], folder, trained, template, source, count)
                         for template in [INTERN, LLAVA])
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
