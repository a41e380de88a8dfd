"""The data set of a newcomer: `mine.jsonl` and `pictures`, in the form that the README shows."""

import json
import re
from pathlib import Path

import PIL.Image

ROOT = Path(__file__).resolve().parents[2]
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230)}


def readme_section():
    return (ROOT / "README.md").read_text().split("## Sixty seconds")[1].split("\n## ")[0]


def write_tour_data(folder):
    """30 pictures of one colour, `cat.png` the first, each with the question of the README."""
    record = json.loads(re.search(r"```json\n(.*?)```", readme_section(), re.S).group(1))
    (folder / "pictures").mkdir()
    lines = []
    for i, name in enumerate(list(COLOURS) * 10):
        file = "cat.png" if i == 0 else f"{i}.png"
        PIL.Image.new("RGB", (80 + i, 60), COLOURS[name]).save(folder / "pictures" / file)
        user, assistant = record["messages"]
        image, text = user["content"]
        lines.append(json.dumps({"messages": [
            {**user, "content": [{**image, "image": file}, text]},
            {**assistant, "content": f"A {name} cat."}]}))
    (folder / "mine.jsonl").write_text("\n".join(lines) + "\n")
