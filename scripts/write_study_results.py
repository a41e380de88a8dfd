"""Runs the studies of configs/studies and writes their tables: docs/studies.md and a page a study below it.

usage: write_study_results.py TRIBUTARY [STUDY ...]

Only what stands between the two markers of a page is replaced. The last column of the table is what the page of
the study says in its line "In short: ...". With names of studies, the answers of the others are taken from
build/studies, where each run leaves its JSON.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/studies.md"
PAGES = ROOT / "docs/studies"
ANSWERS = ROOT / "build/studies"
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->\n"
LEFT_OUT = {"small"}  # an example of the format
TOLERANCE = 0.15


def value_text(figure, value):
    quantity = figure["quantity"]
    is_ratio = quantity.endswith("occupancy") and (figure["against"] or figure["against_setting"])
    if quantity == "speedup" or is_ratio:
        return f"{value:.3f}"
    if quantity == "hours":
        return f"{value:.2f} h"
    return f"{100 * value:.1f} points" if quantity == "mfu_gap" else f"{100 * value:.1f} %"


def published_text(figure):
    least, most = figure["published"]
    text = value_text(figure, least)
    return text if least == most else f"{text} to {value_text(figure, most)}"


def figure_text(figure):
    text = f"{figure['quantity'].replace('_', ' ')}, {figure['method']}"
    if figure["against"]:
        text += f" / {figure['against']}"
    text += f", mean of {', '.join(figure['settings'])}" if figure["settings"] else f", {figure['setting']}"
    return text + (f" / {figure['against_setting']}" if figure["against_setting"] else "")


def is_single(figure):
    return figure["published"][0] == figure["published"][1]


def is_kept(figure):
    """A number within the tolerance; of a range anything inside, and nothing else."""
    if figure["found"] is None:
        return False
    return abs(figure["deviation"]) <= (TOLERANCE if is_single(figure) else 0)


def is_near(figure):
    """Within the tolerance of the number, or of the nearer end of the range."""
    return figure["found"] is not None and abs(figure["deviation"]) <= TOLERANCE


def is_like_none(figure):
    """A ratio within the tolerance that is nearer to no difference at all than to what is published."""
    if figure["quantity"] != "speedup" or not is_near(figure):
        return False
    least, most = figure["published"]
    found = figure["found"]
    return abs(found - 1) < abs(found - min(max(found, least), most))


def is_aimed_at(study, figure):
    """Of the claims that the aim names: not the hours of runs, utilisation itself, and the studies beside."""
    if study in {"loongforge_levels", "mosaic_interference", "veomni_text"}:
        return False
    return not (study == "dflop_models" and figure["where"].startswith("table 4")) and figure["quantity"] != "mfu"


def is_aimed_mfu(figure):
    """Utilisation of FlowTrain and Megatron on 72B, and of FlowTrain on 32B at all scales."""
    return figure["quantity"] == "mfu" and figure["setting"] not in {"VLM-6B", "VLM-32B"}


def order_text(order):
    ranked, by = order["ranked"], order["by"]
    names = [f"{r['method']} / {r['against']}" if r["against"] else r["method"] for r in ranked]
    settings = [r["setting"] for r in ranked]
    subject, terms = (settings[0], names) if len(set(settings)) == 1 else (names[0], settings)
    show = {"step": step_text, **dict.fromkeys(("mfu", "occupancy"), lambda share: f"{100 * share:.1f} %"),
            "speedup": lambda ratio: f"{ratio:.3f}"}[by]
    ranks = [f"{term} {show(value) if value > 0 else 'no plan'}" for term, value in zip(terms, order["values"])]
    by_text = {"mfu": ", MFU", "occupancy": ", occupancy"}.get(by, "")
    text = f"{subject}{by_text}: {(' < ' if by == 'step' else ' > ').join(ranks)}"
    verdict = "tie" if order["tie"] else "holds" if order["holds"] else "**does not hold**"
    return f"- order, {order['where']}, {text}: {verdict}"


def step_text(seconds):
    if seconds == 0:
        return "no plan"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def study_section(name, answer):
    lines = ["", f"`configs/studies/{name}.yaml`. Source: {answer['source']}. {answer['notes'].strip()}", ""]
    methods = [m["method"] for m in answer["settings"][0]["methods"]]
    lines += ["| step (MFU) | " + " | ".join(s["name"] for s in answer["settings"]) + " |",
              "| --- |" + " --- |" * len(answer["settings"])]
    for i, method in enumerate(methods):
        cells = []
        for setting in answer["settings"]:
            found = setting["methods"][i]
            mfu = f" ({100 * found['mfu']:.1f} %)" if found["step_s"] > 0 else ""
            cells.append(step_text(found["step_s"]) + mfu)
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines.append("")
    if answer["figures"]:
        lines += ["| published in | figure | published | found | deviation |", "| --- |" * 1 + " --- |" * 4]
        for figure in answer["figures"]:
            found = "no value" if figure["found"] is None else value_text(figure, figure["found"])
            deviation = "" if figure["deviation"] is None else f"{100 * figure['deviation']:+.1f} %"
            mark = "" if is_kept(figure) else " **missed**"
            lines.append(f"| {figure['where']} | {figure_text(figure)} | {published_text(figure)} | {found} | {deviation}{mark} |")
        lines.append("")
    for order in answer["orders"]:
        lines.append(order_text(order))
    return "\n".join(lines) + "\n"


def counts_of(figures, orders):
    single = [f for f in figures if is_single(f)]
    ranges = [f for f in figures if not is_single(f)]
    return [sum(map(is_kept, figures)), len(figures), sum(map(is_kept, single)), len(single),
            sum(map(is_kept, ranges)), len(ranges), sum(map(is_near, figures)), len(figures), sum(map(is_like_none, figures)),
            sum(o["holds"] for o in orders), len(orders), sum(o["tie"] for o in orders)]


def summary(answers):
    lines = ["| study | figures kept | single numbers, within 15 % | ranges, inside "
             "| within 15 %, of a range of its nearer end | of these nearer to 1.00 than to that "
             "| orders that hold | of these ties | in short |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]

    def add(name, figures, orders, short=""):
        counts = counts_of(figures, orders)
        lines.append("| {} | {} of {} | {} of {} | {} of {} | {} of {} | {} | {} of {} | {} | {} |".format(name, *counts, short))

    every = [(name, f) for name, answer in answers.items() for f in answer["figures"]]
    for name, answer in answers.items():
        add(f"[{name}](studies/{name}.md)", answer["figures"], answer["orders"], in_short(name))
    add("all", [f for _, f in every], [o for answer in answers.values() for o in answer["orders"]])
    aimed = {name for name, f in every if is_aimed_at(name, f)}
    orders = [o for name, answer in answers.items() if name in aimed or name == "dflop_data" for o in answer["orders"]]
    add("the aim's claims alone", [f for name, f in every if is_aimed_at(name, f)], orders)
    add("the same, with utilisation itself",
        [f for name, f in every if is_aimed_at(name, f) or is_aimed_mfu(f)], orders)
    return "\n".join(lines) + "\n"


def page_of(name):
    return PAGES / f"{name}.md"


def in_short(name):
    """What the page says of the study in one sentence."""
    line = next(line for line in page_of(name).read_text().split("\n") if line.startswith("In short: "))
    return line.removeprefix("In short: ")


def write_between_markers(page, text):
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + BEGIN + text + "\n" + END + after)


def main():
    tributary, chosen = sys.argv[1], set(sys.argv[2:])
    ANSWERS.mkdir(parents=True, exist_ok=True)
    answers = {}
    for path in sorted((ROOT / "configs/studies").glob("*.yaml")):
        if path.stem in LEFT_OUT:
            continue
        kept = ANSWERS / f"{path.stem}.json"
        if not chosen or path.stem in chosen or not kept.exists():
            print(path.stem, flush=True)
            kept.write_text(subprocess.run([tributary, "compare", path, "--json"], check=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)
        answers[path.stem] = json.loads(kept.read_text())
    for name, answer in answers.items():
        if not page_of(name).exists():
            page_of(name).write_text(f"# {answer['name']}\n\nIn short: nobody has looked at it yet.\n\n{BEGIN}{END}")
        write_between_markers(page_of(name), study_section(name, answer))
    write_between_markers(PAGE, "\n" + summary(answers))


main()
