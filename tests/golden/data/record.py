"""Takes excerpts of the sample files that peers publish, and writes others with the peers' own packages.

    record.py CLONES    # CLONES/<owner>/<name> holds each repository of README.md at its commit

Needs datasets==5.2.0, webdataset==1.0.2, Pillow and the program ffmpeg. Pictures, clips and sounds
are replaced by tiny ones of the same names and kinds.
"""

import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import datasets
import webdataset
from PIL import Image

HERE = pathlib.Path(__file__).parent
CLONES = pathlib.Path(sys.argv[1])


def picture(colour, kind="PNG"):
    out = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(out, format=kind)
    return out.getvalue()


def replace_media(path):
    """Writes a medium of the kind that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jpg":
        path.write_bytes(picture("grey", "JPEG"))
        return
    is_clip = path.suffix in (".mp4", ".avi")
    source = "testsrc=size=32x32:rate=4:duration=1" if is_clip else "sine=duration=0.2:sample_rate=8000"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-fflags", "+bitexact",
                    "-flags", "+bitexact", path], check=True)


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def write_list(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")


def smallest(records, count):
    """The `count` records with the shortest texts, in their order."""
    order = sorted(range(len(records)), key=lambda i: (len(json.dumps(records[i])), i))
    return [records[i] for i in sorted(order[:count])]


def record_llama_factory():
    source, target = CLONES / "hiyouga/LLaMA-Factory/data", HERE / "llama_factory/data"
    for name, count in (("alpaca_en_demo", 3), ("identity", 2), ("dpo_en_demo", 2), ("mllm_demo", 3),
                        ("mllm_audio_demo", 3), ("mllm_video_demo", 3), ("mllm_video_audio_demo", 1),
                        ("kto_en_demo", 1), ("glaive_toolcall_en_demo", 1)):
        records = json.loads((source / f"{name}.json").read_text())
        write_list(target / f"{name}.json", smallest(records, count))
    for name, count in (("v1_sft_demo", 2), ("v1_dpo_demo", 1), ("v1_multimodal_demo", 2)):
        records = [json.loads(line) for line in (source / f"{name}.jsonl").open(newline="\n")
                   if line.strip()]
        write_lines(target / f"{name}.jsonl", smallest(records, count))
    for name in ("1.jpg", "2.jpg", "3.jpg", "1.mp4", "2.avi", "3.mp4", "4.mp4", "1.mp3", "2.wav",
                 "3.flac", "4.mp3"):
        replace_media(target / "mllm_demo_data" / name)


def record_ms_swift():
    source, target = CLONES / "modelscope/ms-swift", HERE / "ms_swift"
    target.mkdir(exist_ok=True)
    for name in ("alpaca.csv", "alpaca.jsonl", "chatml.jsonl", "conversations.jsonl", "sharegpt.jsonl",
                 "swift_multi.json", "swift_multi.jsonl", "swift_single.csv", "swift_single.jsonl",
                 "multi_modal_2.jsonl"):
        shutil.copyfile(source / "tests/llm/data" / name, target / name)
    page = source.joinpath("docs", "source_en", "Customization", "Custom-dataset" ".md").read_text()
    blocks = re.findall(r"^```(?:jsonl)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    def block(words):
        (found,) = {each for each in blocks if words in each}
        return found.replace("/xxx/", "xxx/")  # an absolute path, for any folder of the reader

    for name, words in (("loss", '"Hi, how can I help you?", "loss": false'),
                        ("multimodal", "What is the difference between the two images?"),
                        ("grounding", "<ref-object><bbox> and <ref-object><bbox>")):
        (target / f"{name}.jsonl").write_text(block(words).splitlines()[0] + "\n" if name == "loss"
                                              else block(words))
    for name in ("x.jpg", "x.mp3", "x.mp4"):
        replace_media(target / "xxx" / name)
    Image.new("RGB", (1200, 1600), "grey").save(target / "xxx/x.jpg", optimize=True)  # holds the boxes
    (target / "xxx/x.png").write_bytes(picture("grey"))


def record_llava():
    page = CLONES.joinpath("haotian-liu", "LLaVA", "docs", "Finetune_Custom_Data" ".md").read_text()
    text = re.search(r"```json\n(.*?)```", page, re.DOTALL)[1]
    text = re.sub(r",(\s*\.\.\.)?(\s*\])", r"\2", text)  # of the page's "..." and last commas
    target = HERE / "llava"
    records = json.loads(text)
    write_list(target / "custom.json", records)
    for record in records:
        replace_media(target / record["image"])


def record_openai():
    lines = (CLONES / "openai/openai-cookbook/examples/data/toy_chat_fine_tuning.jsonl").read_text()
    write_lines(HERE / "openai/toy_chat_fine_tuning.jsonl",
                [json.loads(line) for line in lines.splitlines()[:4]])


def record_datasets():
    target = HERE / "datasets"
    shutil.rmtree(target, ignore_errors=True)
    columns = {"image": [{"bytes": picture(colour), "path": None} for colour in ("red", "green")],
               "query": ["Which colour?", "And this?"], "response": ["Red.", "Green."]}
    features = datasets.Features({"image": datasets.Image(), "query": datasets.Value("string"),
                                  "response": datasets.Value("string")})
    made = datasets.Dataset.from_dict(columns, features=features)
    made.save_to_disk(target / "saved")
    made.to_parquet(target / "pictures.parquet")
    turns = [[{"role": "user", "content": "Do cats fly?"}, {"role": "assistant", "content": "No."}]]
    datasets.Dataset.from_dict({"messages": turns}).to_json(target / "messages.jsonl")
    classes = datasets.Features({"image": datasets.Image(),
                                 "label": datasets.ClassLabel(names=["red", "green"])})
    datasets.Dataset.from_dict({"image": columns["image"], "label": [0, 1]},
                               features=classes).to_parquet(target / "classes.parquet")


def record_webdataset():
    target = HERE / "webdataset"
    target.mkdir(exist_ok=True)
    with tarfile.open(CLONES / "webdataset/webdataset/testdata/sample.tgz") as whole, \
            tarfile.open(target / "sample.tgz", "w:gz") as part:
        for member in whole.getmembers()[:6]:
            part.addfile(member, whole.extractfile(member))
    with webdataset.ShardWriter(str(target / "shard-%06d.tar"), maxcount=2, mtime=0.0, verbose=0) as out:
        for i, colour in enumerate(("red", "green", "blue")):
            out.write({"__key__": f"sample{i:06d}", "jpg": picture(colour, "JPEG"),
                       "json": {"conversations": [
                           {"from": "human", "value": "<image>\nWhich colour?"},
                           {"from": "gpt", "value": colour}]}})
    with webdataset.TarWriter(str(target / "captions.tar"), mtime=0.0) as out:
        for i, colour in enumerate(("red", "green")):
            out.write({"__key__": f"{i:04d}", "png": picture(colour), "txt": f"a {colour} card"})


record_llama_factory()
record_ms_swift()
record_llava()
record_openai()
record_datasets()
record_webdataset()
