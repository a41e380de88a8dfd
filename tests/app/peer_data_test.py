"""Reads the sample files of other trainers and data libraries with `tributary data inspect`.

Usage: peer_data_test.py TRIBUTARY SOURCE_DIR
The files lie in tests/golden/data, whose README says where they come from.
"""

import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(2)) / "tests/golden/data"
TRIBUTARY = sys.argv.pop(1)

# A file has good records by form; turns, images, clips and sounds in them; a first record that
# begins so. Options of `data inspect` stand behind its name.
GOOD = {
    "llama_factory/data/alpaca_en_demo.json": (
        {"alpaca": 3}, (6, 0, 0, 0),
        "user: Generate a hypothetical phone number.\nassistant: (555) 123-4567"),
    "llama_factory/data/identity.json": (
        {"alpaca": 2}, (4, 0, 0, 0),
        "user: Who built you?\nassistant: I am an AI assistant built by {{author}}."),
    "llama_factory/data/dpo_en_demo.json": (
        {"preference": 2}, (4, 0, 0, 0),
        "user: answer 256626720691 + 1646615806005?\nLimit your response to mathematical expressions "
        "and symbols.\nassistant: 256626720691 + 1646615806005 = 1903242526696\nrejected assistant: "
        "To find the sum"),
    "llama_factory/data/mllm_demo.json": (
        {"messages": 3}, (12, 4, 0, 0),
        "user: [image mllm_demo_data/1.jpg]Who are they?\nassistant: They're Kane and Gretzka from "
        "Bayern Munich.\nuser: What are they doing?[image mllm_demo_data/1.jpg]\nassistant: They are"),
    "llama_factory/data/mllm_audio_demo.json": (
        {"messages": 3}, (6, 0, 0, 3),
        "user: [sound mllm_demo_data/1.mp3]What's that sound?\nassistant: It is the sound of"),
    "llama_factory/data/mllm_video_demo.json": (
        {"messages": 3}, (6, 0, 3, 0),
        "user: [clip of 2 frames per second of mllm_demo_data/1.mp4]Why is this video funny?"),
    "llama_factory/data/mllm_video_audio_demo.json": (
        {"messages": 1}, (2, 0, 1, 1),
        "user: [clip of 2 frames per second of mllm_demo_data/4.mp4][sound mllm_demo_data/4.mp3]What"),
    "llama_factory/data/v1_sft_demo.jsonl": (
        {"messages": 2}, (4, 0, 0, 0),
        "user: Generate a hypothetical phone number.\nassistant: (555) 123-4567"),
    "llama_factory/data/v1_dpo_demo.jsonl": (
        {"preference": 1}, (3, 0, 0, 0),
        "system: You are a helpful assistant, who always provide explanation. Think like you are "
        "answering to a five year old.\nuser: Concepts: fall, love, relationship, thing\n\nWrite a "
        "sentence that includes all these words.\nassistant: When you fall in love,"),
    "llama_factory/data/v1_multimodal_demo.jsonl --images=llama_factory": (
        {"messages": 2}, (8, 2, 0, 0),
        "user: [image data/mllm_demo_data/2.jpg]Who is he?\nassistant: He's Thomas Muller"),
    "ms_swift/alpaca.jsonl": (
        {"alpaca": 3}, (9, 0, 0, 0),
        "system: system123\nuser: aaaaa\nassistant: bbbbb\nuser: 11111\n22222\nassistant: 33333"),
    "ms_swift/alpaca.csv": (
        {"alpaca": 3}, (7, 0, 0, 0), "system: 00000\nuser: 11111\n22222\nassistant: 3.3"),
    "ms_swift/chatml.jsonl": (
        {"messages": 3}, (11, 0, 0, 0), "system: 00000\nuser: 11111\nassistant: 22222"),
    "ms_swift/conversations.jsonl": (
        {"conversations": 3}, (11, 0, 0, 0), "system: 00000\nuser: 11111\nassistant: 22222"),
    "ms_swift/sharegpt.jsonl": (
        {"conversations": 3}, (11, 0, 0, 0), "system: 00000\nuser: 11111\nassistant: 22222"),
    "ms_swift/swift_multi.json": (
        {"query": 3}, (11, 0, 0, 0), "system: 00000\nuser: 55555\nassistant: 66666"),
    "ms_swift/swift_multi.jsonl": (
        {"query": 3}, (11, 0, 0, 0), "system: 00000\nuser: 55555\nassistant: 66666"),
    "ms_swift/swift_single.jsonl": (
        {"query": 3}, (7, 0, 0, 0), "system: 00000\nuser: 11111\nassistant: 22222"),
    "ms_swift/swift_single.csv": (
        {"query": 3}, (7, 0, 0, 0), "system: 00000\nuser: 11111\nassistant: 22222"),
    "ms_swift/loss.jsonl": (
        {"messages": 1}, (4, 0, 0, 0), "user: Hello!\nassistant (not learned): Hi, how can I help you?\nuser: What"),
    "ms_swift/multimodal.jsonl": (
        {"messages": 4}, (9, 3, 1, 1),
        "user: Where is the capital of Zhejiang?\nassistant: The capital of Zhejiang is Hangzhou."),
    "ms_swift/grounding.jsonl": (
        {"messages": 3}, (9, 3, 0, 0),
        "system: You are a helpful assistant.\nuser: [image xxx/x.jpg]Describe the image.\nassistant: "
        "a dog[box 331.5, 761.4, 853.5, 1594.8] and a woman[box 676.5, 685.8, 1099.5, 1427.4] are"),
    "llava/custom.json": (
        {"conversations": 1}, (2, 1, 0, 0),
        "user: [image part-000001/997bb945-628d-4724-b370-b84de974a19f.jpg]\nWrite a prompt for Stable "
        "Diffusion to generate this image.\nassistant: a beautiful painting of chernobyl"),
    "openai/toy_chat_fine_tuning.jsonl": (
        {"messages": 4}, (16, 0, 0, 0),
        "system: You are a happy assistant that puts a positive spin on everything.\nuser: I fell off "
        "my bike today.\nassistant: It's great that you're getting exercise outdoors!"),
    "datasets/saved": (
        {"query": 2}, (4, 2, 0, 0), "user: [image image]Which colour?\nassistant: Red."),
    "datasets/pictures.parquet": (
        {"query": 2}, (4, 2, 0, 0), "user: [image image]Which colour?\nassistant: Red."),
    "datasets/classes.parquet --question=Which?": (
        {"caption": 2}, (4, 2, 0, 0), "user: [image image]Which?\nassistant: red"),
    "datasets/messages.jsonl": (
        {"messages": 1}, (2, 0, 0, 0), "user: Do cats fly?\nassistant: No."),
    "webdataset/sample.tgz --question=Which?": (
        {"caption": 3}, (6, 3, 0, 0), "user: [image 10.png]Which?\nassistant: 0"),
    "webdataset/shard-{000000..000001}.tar": (
        {"conversations": 3}, (6, 3, 0, 0),
        "user: [image sample000000.jpg]\nWhich colour?\nassistant: red"),
    "webdataset/captions.tar --question=What?": (
        {"caption": 2}, (4, 2, 0, 0), "user: [image 0000.png]What?\nassistant: a red card"),
}
UNREAD = {"llava/custom.json": {"id": 1}}
# What is not trained, and pictures that would have to be fetched.
REFUSED = {
    "llama_factory/data/kto_en_demo.json": {"unread_key": 1},
    "llama_factory/data/glaive_toolcall_en_demo.json": {"unread_key": 1},
    "ms_swift/multi_modal_2.jsonl": {"bad_path": 3},
}


def inspect(words):
    """What `data inspect` says of a file with options behind it."""
    path, *options = words.split()
    options = [option.replace("=llama_factory", f"={ROOT}/llama_factory") for option in options]
    done = subprocess.run([TRIBUTARY, "data", "inspect", ROOT / path, "--json", *options],
                          capture_output=True, text=True)
    if not done.stdout:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)[0]


class PeerData(unittest.TestCase):
    maxDiff = None

    def test_sample_files_of_peers_are_read(self):
        for words, (forms, counts, first) in GOOD.items():
            with self.subTest(words):
                survey = inspect(words)
                self.assertEqual((survey["bad"], survey["first_bad"]), ({}, []))
                self.assertEqual(survey["forms"], forms)
                self.assertEqual(tuple(survey[name] for name in ("turns", "images", "clips", "sounds")),
                                 counts)
                self.assertEqual(survey["first_sample"][:len(first)], first)
                self.assertEqual(survey["unread_keys"], UNREAD.get(words, {}))

    def test_what_cannot_be_learned_is_refused(self):
        for words, codes in REFUSED.items():
            with self.subTest(words):
                self.assertEqual(inspect(words)["bad"], codes)

    def test_each_file_is_listed(self):
        listed = {words.split()[0] for words in [*GOOD, *REFUSED]}
        media = {".jpg", ".png", ".mp3", ".wav", ".flac", ".mp4", ".avi", ".arrow"}
        kept = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*") if path.is_file()
                and path.suffix not in media and path.parent.name != "saved"}
        self.assertEqual(kept - {f"webdataset/shard-{i:06d}.tar" for i in range(2)},
                         {words for words in listed if "{" not in words} - {"datasets/saved"})


unittest.main()
