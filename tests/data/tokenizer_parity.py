"""Compares the tokenizer with the `tokenizers` package on generated texts.

Usage: tokenizer_parity.py TEXT_PROBE [TEXTS]
Trains four small tokenizers in the layouts of the Qwen, GPT-2 and Llama-3 files and of one with
every flag of added tokens, the first also as vocab.json with merges.txt, and asserts equal ids, equal decoded text, and equal text for random ids.
The composed form of marks that the package does not know is compared with Python's.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from generated_text import YOUNG_MARKS, make_marked_text, make_text
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
from train_tokenizer import CONTROL_TOKENS, SPLIT_PATTERN, train  # noqa: E402

SEED = 20
FLAGGED = [
    AddedToken("<think>", special=False, normalized=False),
    AddedToken("<mask>", lstrip=True, special=True, normalized=False),
    AddedToken("<right>", rstrip=True, special=True, normalized=False),
    AddedToken("<both>", lstrip=True, rstrip=True, special=False, normalized=False),
    AddedToken("word", single_word=True, special=False, normalized=False),
    AddedToken("caf\u00e9", special=False, normalized=True),
    AddedToken("<mask>ed", special=False, normalized=False),
    AddedToken("\u4e2d\u6587", special=False, normalized=True),
]


def train_plain(texts, splits, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = splits
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                                  for token in CONTROL_TOKENS])
    return tokenizer


def make_flagged(texts):
    tokenizer = train(texts, 1500)
    tokenizer.add_tokens(FLAGGED)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC()])
    return tokenizer


def in_older_files(file):
    """The same tokenizer as the class Qwen2Tokenizer of transformers wrote it before version 5."""
    model = file["model"]
    merges = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    added = {str(token.pop("id")): token for token in file["added_tokens"]}
    settings = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added}
    vocabulary = {token: i for token, i in model["vocab"].items() if str(i) not in added}
    return {"vocab.json": json.dumps(vocabulary), "merges.txt": "\n".join(merges) + "\n",
            "tokenizer_config.json": json.dumps(settings)}


def make_cases(texts):
    """Yields name, tokenizer, and the file's content, or files by name; one has its merges in the
    older form."""
    qwen = train(texts, 2000)
    yield "qwen", qwen, qwen.to_str()
    yield "qwen without tokenizer.json", qwen, in_older_files(json.loads(qwen.to_str()))
    older = json.loads(qwen.to_str())
    older["model"]["merges"] = [" ".join(pair) for pair in older["model"]["merges"]]
    yield "qwen with merges as strings", qwen, json.dumps(older)
    gpt2 = train_plain(texts, pre_tokenizers.ByteLevel(add_prefix_space=False), False)
    yield "gpt2", gpt2, gpt2.to_str()
    splits = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")),
                             behavior="isolated"),
        pre_tokenizers.Split("a.b", behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    llama = train_plain(texts, splits, ignore_merges=True)
    yield "llama3", llama, llama.to_str()
    flagged = make_flagged(texts)
    yield "every flag of added tokens", flagged, flagged.to_str()


def ask(probe, file, questions):
    """Lets the probe answer questions with the tokenizer in `file`, or in files by name."""
    files = file if isinstance(file, dict) else {"tokenizer.json": file}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
        (folder / "questions").write_text(
            "".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
        place = folder if isinstance(file, dict) else folder / "tokenizer.json"
        subprocess.run([probe, place, folder / "questions", folder / "answers"], check=True)
        answers = (folder / "answers").read_text(encoding="utf-8").split("\n")
        assert len(answers) == len(questions) + 1, "an answer is missing"
        return [json.loads(answer) for answer in answers[:-1]]


def decoded(tokenizer, ids):
    return {"text": tokenizer.decode(ids, skip_special_tokens=False),
            "skipped": tokenizer.decode(ids, skip_special_tokens=True)}


def expect_encode(tokenizer, question):
    tokenizer.encode_special_tokens = question["plain"]
    ids = tokenizer.encode(question["encode"], add_special_tokens=False).ids
    return {"ids": ids, **decoded(tokenizer, ids)}


def expect_decode(tokenizer, question):
    answer = decoded(tokenizer, question["decode"])
    return {**answer, "streamed": answer["text"]}


def compare(name, probe, tokenizer, file, source, count):
    tokens = CONTROL_TOKENS + [token.content for token in FLAGGED] + ["a.b", "cafe\u0301"]
    questions = [{"encode": make_text(source, tokens), "plain": source.random() < 0.3}
                 for _ in range(count)]
    largest = tokenizer.get_vocab_size() - 1
    questions += [{"decode": [source.randint(0, largest) for _ in range(source.randint(0, 30))]}
                  for _ in range(count // 10)]
    different = 0
    for question, answer in zip(questions, ask(probe, file, questions), strict=True):
        expect = expect_encode if "encode" in question else expect_decode
        expected = expect(tokenizer, question)
        if answer != expected:
            different += 1
            if different <= 5:
                print(f"{name}: {ascii(question)}\n  got      {ascii(answer)}\n"
                      f"  expected {ascii(expected)}")
    print(f"{name}: {len(questions) - different} of {len(questions)} equal")
    return different


def compare_composed(probe, file, source, count):
    """Decoding the ids gives the text in its composed form."""
    texts = [make_marked_text(source) for _ in range(count)]
    answers = ask(probe, file, [{"encode": text, "plain": True} for text in texts])
    different = [text for text, answer in zip(texts, answers, strict=True)
                 if answer["text"] != unicodedata.normalize("NFC", text)]
    print(f"composed form: {count - len(different)} of {count} equal; {len(YOUNG_MARKS)} marks are "
          f"younger than the package's tables; first difference: {ascii(different[:1])}")
    return len(different)


def main():
    probe = sys.argv[1]
    texts = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    source = random.Random(SEED)
    corpus = [make_text(source, ["x"]) for _ in range(3000)]
    corpus += ["The tokenizer learns the merges of words that come again and again.\n"] * 40
    different = 0
    for index, (name, tokenizer, file) in enumerate(make_cases(corpus)):
        count = texts if index == 0 else texts // 4
        different += compare(name, probe, tokenizer, file, source, count)
        if index == 0:
            different += compare_composed(probe, file, source, texts // 4)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
