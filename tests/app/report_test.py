"""Draws the report of a synthetic run and opens it in headless Chromium.

usage: report_test.py TRIBUTARY [SCREENSHOT_FOLDER]

Checks that the browser reports no error, that every chart is drawn, that text of the run is shown
as text and never run as script, and that the page refers to nothing outside itself.
"""

import html
import html.parser
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

from browser_page import BrowserPage
from find_browser import find_browser, open_in_browser
from png_file import png

SOURCES = ["documents", "frames", "pairs", "shapes", "words"]
WEIGHTS = [1.6, 0.8, 1.2, 1.0, 0.4]
STEPS = 900
ATTACK = "<script>window.broken = true; console.error('script ran')</script>"
CHARTS = ["loss", "held-out", "learning-rate", "gradient", "update", "throughput", "phases",
          "fill", "memory", "machine", "waiting", "flow", "encoders", "rates", "members", "pool", "drawn", "targets"]
QUESTION = "What colour is the disc in the picture?"


def picture(rng):
    """Returns a picture of a coloured disc on a light ground."""
    color = rng.choice([(214, 69, 65), (31, 119, 180), (44, 160, 44), (148, 103, 189)])
    x0, y0, radius = rng.randrange(30, 66), rng.randrange(30, 66), rng.randrange(12, 28)

    def pixel(x, y):
        return color if (x - x0) ** 2 + (y - y0) ** 2 < radius**2 else (244, 242, 236)

    return png(96, 96, pixel)


def write_lines(path, objects):
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))


def learning_rate(step):
    warm = 60
    if step < warm:
        return 3e-3 * step / warm
    return 1.5e-3 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm)))


def metrics_line(rng, step):
    base = {source: 3.4 * math.exp(-step / (90 + 45 * i)) + 0.06 * (i + 1)
            for i, source in enumerate(SOURCES)}
    noisy = {source: value * rng.lognormvariate(0, 0.13) for source, value in base.items()}
    loss = sum(noisy.values()) / len(noisy)
    seconds = {"data": 0.004 * rng.lognormvariate(0, 0.5), "forward": rng.gauss(0.082, 0.004),
               "backward": rng.gauss(0.151, 0.006), "optimizer": rng.gauss(0.011, 0.0006),
               "other": 0.004}
    line = {"step": step, "loss": loss, "learning_rate": learning_rate(step),
            "grad_norm": 0.4 + 2.5 * math.exp(-step / 120) * rng.lognormvariate(0, 0.4),
            "tokens": 1350, "target_tokens": 96, "samples": 32, "microbatches": 1,
            "tokens_per_second": 1350 / sum(seconds.values()), "seconds": seconds,
            "loss_by_source": noisy, "fill": min(1, rng.gauss(0.955, 0.02)), "padding": 0.0,
            "mfu": rng.gauss(0.31, 0.01), "hfu": rng.gauss(0.4, 0.01),
            "waiting": {"samples": seconds["data"] * 0.8, "packing": 0.0001}, "bytes": 3.1e8 + 9e7 * min(1, step / 80),
            "flow": {"objects": 30, "bytes": 4.1e6, "encoded_here": 2, "starved": 0.02, "encoding": 0.01,
                     "encoders": 2, "pool_bytes": 9.4e6, "encoder_seconds": 0.4, "encoder_busy": 0.3,
                     "encoder_blocked": 0.02, "encoder_rate": 70.5 if step % 3 else None,
                     "backbone_rate": 64.2, "wanted": 2 if step < 300 else 3},
            "skipped": False}
    if step == 300:
        line["reallocation"] = "ranks lacked features for 9.9 % of the last 10.3 s"
    line["norms"] = {"gradient": {"vision": 0.2 + 0.5 * math.exp(-step / 120),
                                  "backbone": 0.35 + 2.4 * math.exp(-step / 120)}}
    if step == 1 or step % 10 == 0:
        line["norms"]["update"] = {"vision": 2e-3 * learning_rate(step) / 3e-3 * rng.lognormvariate(0, 0.1),
                                   "backbone": 0.03 * learning_rate(step) / 3e-3}
        line["norms"]["parameters"] = {"vision": 12.5, "backbone": 31.0}
    line["drawn"] = {}
    for _ in range(32):
        source = rng.choices(SOURCES, WEIGHTS)[0]
        drawn = line["drawn"].setdefault(source, {"samples": 0, "tokens": 0, "target_tokens": 0})
        for name, count in (("samples", 1), ("tokens", rng.randrange(20, 70)), ("target_tokens", rng.randrange(1, 6))):
            drawn[name] += count
    if step == 412:
        line.update(loss=None, grad_norm=None, skipped=True, skip_reason="loss is not finite",
                    sample_ids=["shapes:118", "words:9"])
    return line


def accuracies(step):
    by_source = {source: max(0.02, 0.99 - 0.03 * i - math.exp(-step / (110 + 40 * i)))
                 for i, source in enumerate(SOURCES)}
    return {"overall": sum(by_source.values()) / len(by_source), **by_source}


def predictions(rng, run):
    colors = ["red", "blue", "green", "violet"]
    (run / "images").mkdir()
    lines = []
    for i in range(60):
        source = SOURCES[i % len(SOURCES)]
        names = [f"images/{i}-{k}.png" for k in range({"pairs": 2, "frames": 4, "words": 0}.get(source, 1))]
        for name in names:
            (run / name).write_bytes(picture(rng))
        right = rng.random() < 0.85
        expected = rng.choice(colors)
        answer = expected if right else rng.choice([c for c in colors if c != expected])
        lines.append({"source": source, "key": f"{source}.jsonl:{i}", "question": QUESTION,
                      "answer": answer, "expected": expected, "correct": right,
                      "blind_answer": rng.choice(colors), "images": names, "cut": i == 7})
        lines[-1]["pictures"] = len(names)
    lines[3].update(images=[], correct=False)  # of shapes: not kept
    lines[0].update(answer=ATTACK, correct=False, question=f"{ATTACK} & \"quoted\" 'text'")
    lines[1].update(images=["images/gone.png"], correct=False, answer="", expected="red")
    return lines


def answers(rng):
    """The first questions of each source at four validations."""
    lines = []
    for step in (100, 300, 600, 900):
        for i in range(10):
            source = SOURCES[i % len(SOURCES)]
            right = rng.random() < step / 1000
            lines.append({"step": step, "source": source, "key": f"{source}.jsonl:{i}",
                          "question": ATTACK if i == 9 else QUESTION, "expected": "red",
                          "answer": "red" if right else f"{ATTACK} at {step}" if i == 9 else "a blue one",
                          "correct": right, "cut": i == 8})
    return lines


def samples(run, rng):
    """Samples of the first step; the first has a picture, whose place is many tokens."""
    (run / "samples").mkdir()
    (run / "samples/0-0.png").write_bytes(picture(rng))
    words = lambda text: re.findall(r" ?\w+|[^\w ]|\s", text)
    chat = lambda before, pads, question, answer: [
        {"tokens": ["<|im_start|>", "user", "\n", *before], "target": False}, *pads,
        {"tokens": [*words(question), "<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"], "target": False},
        {"tokens": [*words(answer), "<|im_end|>"], "target": True}, {"tokens": ["\n"], "target": False}]
    pads = [{"tokens": ["<|image_pad|>"], "repeats": 49, "target": False}]
    return [{"step": 1, "source": "shapes", "key": "shapes.jsonl:3", "tokens": 71, "target_tokens": 2,
             "images": ["samples/0-0.png"], "pieces": chat(["<|vision_start|>"], pads, QUESTION, "red")},
            {"step": 1, "source": "words", "key": "words.jsonl:8", "tokens": 44, "target_tokens": 9, "images": [],
             "pieces": chat([], [], f"Say {ATTACK}", "I would rather not say that.")}]


def write_run(run):
    rng = random.Random(7)
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(
        "# Every key of the run\nrun:\n  name: demo\n  steps: 900\n  seed: 7\n"
        f"data:\n  system_prompt: \"{ATTACK}\"\n  sources:\n"
        + "".join(f"    - {{name: {name}, weight: {weight}}}\n" for name, weight in zip(SOURCES, WEIGHTS)) +
        "optimizer:\n  learning_rate: 0.003\n")
    write_lines(run / "metrics.jsonl", [metrics_line(rng, step) for step in range(1, STEPS + 1)])
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 901, "loss": 0.')  # killed while writing
    write_lines(run / "validation.jsonl", [
        {"step": step, "loss": 3.3 * math.exp(-step / 150) + 0.2, "accuracy": accuracies(step)}
        for step in range(100, STEPS + 1, 100)])
    write_lines(run / "predictions.jsonl", predictions(rng, run))
    write_lines(run / "validation_answers.jsonl", answers(rng))
    write_lines(run / "samples.jsonl", samples(run, rng))
    write_lines(run / "quarantine.jsonl", [
        {"key": "documents.jsonl:118", "source": 0, "code": "jpeg_warning",
         "reason": f"premature end of data {ATTACK}"}])
    accuracy = accuracies(STEPS)
    (run / "summary.json").write_text(json.dumps({
        "format": "tributary.summary/1", "name": "demo", "steps": STEPS, "tokens": STEPS * 1350,
        "epochs": 3.6, "accuracy": accuracy, "blind_accuracy": 0.287,
        "blind_accuracy_by_source": {s: 0.2 + 0.05 * i for i, s in enumerate(SOURCES)},
        "tokens_per_second": 5231.4, "wall_seconds": 241.3, "peak_bytes": 4.1e8, "stopped": "done"}))
    (run / "environment.json").write_text(json.dumps({
        "tributary": "0.1.0", "commit": "0123abcd", "torch": "2.11.0", "device": "cpu",
        "threads": 2, "cpu": ATTACK, "memory_bytes": 16 << 30,
        "peak_flops": 1.37e11, "peak_flops_from": "fastest of 8 products",
        "modules": [{"name": "vision", "parameters": 230400, "trained": False, "trained_parameters": 0,
                     "dtype": "bfloat16", "bytes": 460800},
                    {"name": "backbone", "parameters": 834240, "trained": True, "trained_parameters": 12288,
                     "dtype": "bfloat16", "bytes": 1668480}],
        "command": "tributary train configs/demo.yaml"}))


class PageReader(html.parser.HTMLParser):
    """Collects the facts of a page that the checks look at."""

    def __init__(self):
        super().__init__()
        self.references, self.handlers, self.scripts, self.images = [], [], 0, 0
        self.inside, self.texts, self.series = [], [], {}

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.scripts += tag == "script"
        self.images += tag == "img" and values.get("src", "").startswith("data:image/png")
        for name, value in attributes:
            if name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
                self.references.append(value)
            if name.startswith("on"):
                self.handlers.append((tag, name))
        if values.get("id", "").startswith("chart-"):
            self.inside.append(values["id"].removeprefix("chart-"))
        if tag == "path" and values.get("class") == "series" and len(values.get("d", "")) > 20:
            self.series.setdefault(self.inside[-1], []).append(values["d"])

    def handle_data(self, text):
        self.texts.append(text)


def check_page(dom, page):
    source, seen = PageReader(), PageReader()
    source.feed(page)
    seen.feed(dom)
    for reader in (source, seen):
        outside = [r for r in reader.references if not r.startswith(("#", "data:"))]
        assert not outside, f"the page refers to {outside}"
        assert not reader.handlers, f"event handlers in the markup: {reader.handlers}"
        assert reader.scripts == 3, f"{reader.scripts} scripts, expected theme, data and charts"
    assert not re.search(r"url\(|@import|https?:", re.sub(r"<article.*?</article>", "", page, flags=re.S)), \
        "the style or script names an address"
    assert sorted(seen.series) == sorted(CHARTS), f"charts drawn: {sorted(seen.series)}"
    assert len(seen.series["loss"]) == 7, "total, five sources and the held-out loss"
    assert len(seen.series["phases"]) == 5, "five phases"
    assert len(seen.series["machine"]) == 2, "MFU and HFU"
    assert len(seen.series["waiting"]) == 2, "for samples and for packing"
    assert len(seen.series["flow"]) == 2, "waiting for features, and encoding"
    assert len(seen.series["encoders"]) == 3, "there, encoding and without room"
    assert len(seen.series["rates"]) == 2, "of encoders and of the backbone"
    assert len(seen.series["members"]) == 2, "encoders that are there, and those wanted"
    assert len(seen.series["gradient"]) == 3, "all modules and each of two"
    assert len(seen.series["update"]) == 2, "of two modules"
    assert len(seen.series["drawn"]) == 10, "shares of five sources, and those asked for"
    assert len(seen.series["targets"]) == 5, "five sources"
    machine = page.index("name: 'HFU"), page.index("name: 'MFU'")
    assert machine == tuple(sorted(machine)), "MFU is drawn over HFU"
    assert seen.images >= 30, f"{seen.images} pictures"
    marked = re.findall(r"<mark>(?!marked)(.*?)</mark>", page)
    assert [re.sub(r"<[^>]*>", "", text) for text in marked] == [
        "red&lt;|im_end|&gt;", "I would rather not say that.&lt;|im_end|&gt;"], marked
    words = "".join(source.texts)
    assert words.count(ATTACK) >= 4, "text of the run is not shown as it is"
    for part in ["image not found: images/gone.png", "jpeg_warning", "loss is not finite",
                 "28.7 %", "4 min 1 s", "5,231", "picture not kept", "(cut)", "16.00 GiB",
                 "1,064,640", "frozen", "12,288", "bfloat16", "2.03 MiB", "of the training records",
                 "32.0 %", "<|image_pad|> × 49", "shapes.jsonl:3", "71 tokens, 2 targets", "step 600",
                 f"{ATTACK} at 100", "After step 300, 3 wanted: ranks lacked features for 9.9 %",
                 "The peak is 137 GFLOP/s (fastest of 8 products)."]:
        assert part in words, f"{part!r} is not on the page"


def check_phone(browser, page, folder):
    """At 400 pixels the navigation is visible, nothing overflows sideways, and axes have ticks."""
    # Chromium's window is at least 500 pixels wide, so the page is shown in a frame of 400.
    frame = folder / "phone.html"
    frame.write_text(f"""<body><iframe src="{page.name}" style="width:400px;height:900px"></iframe>
      <script>onload = () => setTimeout(() => {{
        const inner = document.querySelector('iframe').contentDocument;
        const links = [...inner.querySelectorAll('nav .links a')];
        const cards = [...inner.querySelectorAll('.prediction')].map((c) => c.getBoundingClientRect());
        document.body.dataset.found = JSON.stringify({{
          links: links.filter((link) => link.offsetHeight > 0).length,
          sideways: inner.documentElement.scrollWidth,
          height: inner.documentElement.scrollHeight,
          rows: new Set(cards.map((card) => card.top)).size,
          ticks: [...inner.querySelectorAll('#chart-loss text[text-anchor=middle]')].length,
          value: inner.querySelector('#environment td.mono').offsetWidth}});
      }}, 300);</script>""")
    dom = open_in_browser(browser, frame, "--allow-file-access-from-files",
                          "--virtual-time-budget=3000", "--dump-dom")
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', dom).group(1)))
    assert found["links"] == 11, found
    assert found["sideways"] <= 400, found
    assert found["height"] < 15000, found
    assert found["rows"] == 1, found
    assert found["ticks"] >= 3, found
    assert found["value"] > 250, found


def check_watch(browser, program, run, page):
    """The page of a run that goes on shows new steps, and keeps place and switches; then it rests."""
    lines = [metrics_line(random.Random(3), step) for step in range(1, 21)]
    write_lines(run / "metrics.jsonl", lines[:10])
    summary = (run / "summary.json").read_text()
    (run / "summary.json").unlink()
    watching = subprocess.Popen([program, "report", str(run), "-o", str(page), "--watch", "0.5"],
                                stdout=subprocess.PIPE, text=True)
    try:
        assert watching.stdout.readline() == f"{page}\n"
        with BrowserPage(browser, page.resolve().as_uri()) as shown:
            def wait_for(condition):  # the page may go away while it is asked
                end = time.monotonic() + 60
                while time.monotonic() < end:
                    answer = shown.call("Runtime.evaluate", expression=condition, returnByValue=True)
                    if answer["result"].get("value") is True:
                        return
                    time.sleep(0.05)
                raise AssertionError(f"not within 60 s: {condition}")

            words = "document.querySelector('.lead').textContent"
            wait_for(f"{words}.includes('10 steps')")
            wait_for("(document.querySelector('#chart-loss').parentElement.querySelector('.switch').click(),"
                     " document.querySelector('details').open = true, scrollTo({top: 700, behavior: 'instant'}), true)")
            with open(run / "metrics.jsonl", "a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines[10:]))
            wait_for(f"document.readyState === 'complete' && {words}.includes('20 steps')")
            wait_for("scrollY === 700 && document.querySelector('details').open"
                     " && document.querySelector('.switch').getAttribute('aria-pressed') === 'true'")
            (run / "summary.json").write_text(summary.replace("900", "20"))
            assert watching.wait(timeout=60) == 0
            wait_for("document.readyState === 'complete' && document.querySelector('h1 .good') !== null")
            assert not shown.console, shown.console
        assert "data-seconds" not in page.read_text()
    finally:
        watching.kill()
        watching.wait()


def check_stalls(browser, program, run, page):
    """Three stalled steps of twenty are named, and do not flatten the curve of the others."""
    lines = [metrics_line(random.Random(3), step) for step in range(1, 21)]
    for line in lines[4:7]:
        line["seconds"]["data"] = 12.0
    write_lines(run / "metrics.jsonl", lines)
    subprocess.run([program, "report", str(run), "-o", str(page)], check=True, capture_output=True)
    dom = open_in_browser(browser, page, "--dump-dom")
    assert re.search(r"3 of 20 are above, up to 12\.\d s", dom), "stalls are not named"


def check_against(browser, program, run, folder, shots):
    """A second run, resumed and with fewer steps: both curves in one chart, figures and keys."""
    other, page = folder / "runs" / "before", folder / "against.html"
    other.mkdir()
    rng = random.Random(8)
    lines = [metrics_line(rng, step) for step in range(1, 401)]
    for line in lines:
        line["seconds"] = {"forward": 0.2, "backward": 0.3}
    write_lines(other / "metrics.jsonl", lines[:300] + lines[250:])  # a resume wrote steps again
    (other / "config.yaml").write_text(
        (run / "config.yaml").read_text().replace("seed: 7", "seed: 8").replace("0.003", f'"{ATTACK}"'))
    subprocess.run([program, "report", str(run), "--against", str(other), "-o", str(page)],
                   check=True, capture_output=True)
    dom = open_in_browser(browser, page, "--window-size=1280,1000", "--dump-dom")
    seen, source = PageReader(), PageReader()
    seen.feed(dom)
    source.feed(page.read_text())
    assert sorted(seen.series) == sorted([*CHARTS, "against"]), f"charts drawn: {sorted(seen.series)}"
    assert len(seen.series["against"]) == 2, "a loss curve of each run"
    ends = [float(re.findall(r"([\d.]+) [\d.]+$", curve)[0]) for curve in seen.series["against"]]
    assert 0.42 < (ends[1] - 54) / (ends[0] - 54) < 0.47, f"400 of 900 steps on one axis: {ends}"
    chart = dom[dom.index('id="chart-against"'):]
    legend = re.findall(r"<button aria-pressed[^>]*><i[^>]*></i>([^<]*)</button>", chart[:chart.index("<table")])
    assert legend == ["demo", "before"], legend
    words = "".join(source.texts)
    for part in ["demo has steps 1 to 900, before has steps 1 to 400: 400 in common",
                 "mean of the last 100 common steps", "steps 301 to 400", "max |difference|",
                 "500.0 ms", "run.seed", "optimizer.learning_rate", ATTACK]:
        assert part in words, f"{part!r} is not on the page"
    assert "run.steps" not in "".join(re.findall(r'<table id="keys">.*?</table>', page.read_text(), re.S))
    for name, options in (("against", []), ("against-narrow", ["--window-size=520,1800"])) if shots else ():
        open_in_browser(browser, page, *(options or ["--window-size=1280,1500"]),
                        f"--screenshot={shots / f'{name}.png'}")


def check_trace(browser, program, folder, shots):
    """The page of a trace has times, a legend of its memory curves, and a dark form."""
    root = pathlib.Path(__file__).parents[2]
    trace, page = folder / "trace.json", folder / "trace.html"
    subprocess.run([program, "simulate", str(root / "configs/plans/demo_pipeline.json"), "-o",
                    str(trace)], check=True, capture_output=True)
    subprocess.run([program, "report", str(trace), "-o", str(page)], check=True, capture_output=True)
    dark = "--blink-settings=preferredColorScheme=0"
    dom = open_in_browser(browser, page, dark, "--dump-dom")
    assert 'data-theme="dark"' in dom, "the page of a trace has no dark form"
    assert dom.count('class="tick"') >= 8, "times below the timeline and the memory"
    memory = dom[dom.index('id="memory"'):]
    curves = memory.count("<polyline")
    assert curves > 0 and memory.count('style="background:var(--c') == curves, "a legend of curves"
    for name, options in (("light", []), ("dark", [dark])) if shots else ():
        open_in_browser(browser, page, "--window-size=1280,1600", *options,
                        f"--screenshot={shots / f'trace-{name}.png'}")


def main():
    program = sys.argv[1]
    browser = find_browser()
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as root:
        run = pathlib.Path(root) / "runs" / "demo"
        write_run(run)
        subprocess.run([program, "report", str(run)], check=True, capture_output=True)
        page = run / "report.html"
        dom = open_in_browser(browser, page, "--window-size=1280,1000", "--dump-dom")
        check_page(dom, page.read_text())

        views = {"light": ["--window-size=1280,4200"]}
        if folder:  # for a person to look at
            views["dark"] = ["--window-size=1280,4200", "--blink-settings=preferredColorScheme=0"]
            views["narrow"] = ["--window-size=520,7000"]
        for name, options in views.items():
            target = (folder or pathlib.Path(root)) / f"report-{name}.png"
            open_in_browser(browser, page, *options, f"--screenshot={target}")
            assert target.stat().st_size > 60_000, f"{target} is nearly empty"

        check_phone(browser, page, run)
        check_against(browser, program, run, pathlib.Path(root), folder)
        check_watch(browser, program, run, pathlib.Path(root) / "watched.html")
        check_stalls(browser, program, run, pathlib.Path(root) / "stalls.html")

        missing = ["validation.jsonl", "predictions.jsonl", "validation_answers.jsonl", "samples.jsonl",
                   "summary.json", "environment.json"]
        for name in missing:
            (run / name).unlink()
        subprocess.run([program, "report", str(run), "-o", str(page)], check=True, capture_output=True)
        dom = open_in_browser(browser, page, "--dump-dom")
        for name in missing:
            assert f"<code>{name}</code> is missing" in dom, f"{name} is not named as missing"

        check_trace(browser, program, pathlib.Path(root), folder)
        page = pathlib.Path(root) / "compare.html"
        study = pathlib.Path(__file__).parents[2] / "configs/studies/small.yaml"
        subprocess.run([program, "compare", str(study), "--quick", "-o", str(page)], check=True,
                       capture_output=True)
        dom = open_in_browser(browser, page, "--dump-dom")
        assert dom.count('class="bar-row"') >= 20, "a bar for each method"
        assert "megatron_uniform" in dom and "best_of_methods" in dom
        dark = "--blink-settings=preferredColorScheme=0"
        assert 'data-theme="dark"' in open_in_browser(browser, page, dark, "--dump-dom")
        if folder:
            open_in_browser(browser, page, "--window-size=1280,3000", dark,
                            f"--screenshot={folder / 'compare-dark.png'}")
    print(f"{len(CHARTS)} charts, console empty, no reference to the outside")


main()
