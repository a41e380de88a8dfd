#!/usr/bin/env python3
"""Trains a small byte-level BPE tokenizer in the layout of the Qwen families.

    scripts/train_tokenizer.py --vocab-size 2048 --output configs/demo_model data/train.jsonl

Reads text files (one text per line) and JSONL chats (the `messages` and the `conversations` form),
writes tokenizer.json and tokenizer_config.json (with the chat template) into the output folder.
The same input gives the same bytes. The size counts the eight control tokens, which come last.
"""

import argparse
import json
import os
import pathlib
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models  # noqa: E402
from tokenizers import normalizers, pre_tokenizers, processors, trainers  # noqa: E402

CONTROL_TOKENS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
]

SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# ChatML with pictures: a system turn is put in front of a chat that has none.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}"
    "{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' or 'image' in part or 'image_url' in part %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% elif part['type'] == 'video' or 'video' in part %}"
    "{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def texts_of_chat(record):
    """Yields the texts of one chat record, without the marks that stand for media."""
    for turn in record.get("messages") or record.get("conversations") or []:
        said = turn.get("content", turn.get("value", ""))
        parts = said if isinstance(said, list) else [{"text": said}]
        for part in parts:
            text = part.get("text") or ""
            yield text.replace("<image>", "").replace("<video>", "")


def texts_of_line(line, is_chat):
    """The training texts of a line: the line itself, or the texts of the chat that it holds."""
    return texts_of_chat(json.loads(line)) if is_chat else [line]


def texts_of_file(path):
    try:
        for number, line in enumerate(path.open("rb"), start=1):
            yield from texts_of_line(line.decode("utf-8"), path.suffix == ".jsonl")
    except OSError as failure:
        sys.exit(f"train_tokenizer: cannot read {path}: {failure.strerror}")
    except (json.JSONDecodeError, UnicodeDecodeError) as broken:
        sys.exit(f"train_tokenizer: {path}:{number} is damaged: {broken}")


def make_untrained():
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix="",
                                     fuse_unk=False, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
    ])
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False,
                                                    use_regex=False)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False,
                                           use_regex=False)
    return tokenizer


def train(texts, vocab_size):
    """Trains the merges, then puts the control tokens behind them, as the Qwen files have them."""
    tokenizer = make_untrained()
    learned = vocab_size - len(CONTROL_TOKENS)
    if learned < 256:
        sys.exit(f"train_tokenizer: --vocab-size {vocab_size} is too small; expected at least "
                 f"{256 + len(CONTROL_TOKENS)}: every byte and the control tokens")
    trainer = trainers.BpeTrainer(vocab_size=learned, show_progress=False, special_tokens=[],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts, trainer)
    found = tokenizer.get_vocab_size()
    if found != learned:
        sys.exit(f"train_tokenizer: the texts give {found + len(CONTROL_TOKENS)} tokens; "
                 f"expected {vocab_size}: add text or lower --vocab-size")
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                                  for token in CONTROL_TOKENS])
    return tokenizer


def tokenizer_config(tokenizer):
    return {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {
                "content": token, "lstrip": False, "normalized": False, "rstrip": False,
                "single_word": False, "special": True}
            for token in CONTROL_TOKENS},
        "additional_special_tokens": CONTROL_TOKENS[1:],
        "add_prefix_space": False,
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, help=".txt or .jsonl files")
    parser.add_argument("--vocab-size", type=int, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder to write to")
    arguments = parser.parse_args()

    tokenizer = train((text for path in arguments.inputs for text in texts_of_file(path)),
                      arguments.vocab_size)
    arguments.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.output / "tokenizer.json"), pretty=True)
    config = json.dumps(tokenizer_config(tokenizer), indent=2, ensure_ascii=False)
    (arguments.output / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")
    print(f"{tokenizer.get_vocab_size()} tokens in {arguments.output / 'tokenizer.json'}")


if __name__ == "__main__":
    main()
