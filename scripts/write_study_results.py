"""Runs the studies of configs/studies and writes their tables: docs/studies.md and a page a study below it.

The inputs are frozen: what is found may change with the code, never a study to come nearer to what is published.

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
LEFT_OUT = {"demo_processes", "small"}  # examples of the format
TOLERANCE = 0.15
# Marks for what the simulator of plan files finds about a plan that was made from tables.
MARKS = {"changed": " †", "too_large": " ‡", "no_form": " §"}
NOTES = {"†": "† fits in the project's simulator only with parameters sharded, layers recomputed or both",
         "‡": "‡ does not fit in the project's simulator",
         "§": "§ has no form that a plan file holds, so that the simulator cannot judge it"}


def value_text(figure, value):
    quantity = figure["quantity"]
    if is_ratio(figure):
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
    """Whether the result lies within the tolerance of a number, or inside a range."""
    if figure["found"] is None:
        return False
    return abs(figure["deviation"]) <= (TOLERANCE if is_single(figure) else 0)


def is_ratio(figure):
    quantity = figure["quantity"]
    return quantity == "speedup" or quantity.endswith("occupancy") and bool(figure["against"] or figure["against_setting"])


def is_met_by_none(figure):
    """Whether a ratio would be met by 1.00, "no difference", so that it tests nothing."""
    if not is_ratio(figure):
        return False
    least, most = figure["published"]
    return abs(1 / least - 1) <= TOLERANCE if is_single(figure) else least <= 1 <= most


def ranges_of(figures):
    """Lists each published range once, as the figures that were published with it."""
    ranges = {}
    for figure in figures:
        if not is_single(figure):
            key = (figure["where"].partition(",")[0], figure["quantity"], *figure["published"])
            ranges.setdefault(key, []).append(figure)
    return list(ranges.values())


def is_aimed_at(study, figure):
    """Whether the aim names this claim: not hours, utilisation itself, or studies beside the aim."""
    if study in {"loongforge_levels", "mosaic_interference", "veomni_text"}:
        return False
    return not (study == "dflop_models" and figure["where"].startswith("table 4")) and figure["quantity"] != "mfu"


def is_aimed_mfu(figure):
    """Whether it is the utilisation of FlowTrain or Megatron on 72B, or of FlowTrain on 32B."""
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


def mark_notes(table):
    used = [note for mark, note in NOTES.items() if mark in table]
    return ["; ".join(used) + ".", ""] if used else []


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
            cells.append(step_text(found["step_s"]) + mfu + MARKS.get(found["plan_file"], ""))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines.append("")
    lines += mark_notes("\n".join(lines))
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
    """Counts what "no difference" does not meet already: ratios, other numbers, each range once."""
    tested = [f for f in figures if not is_met_by_none(f)]
    ratios = [f for f in tested if is_single(f) and is_ratio(f)]
    numbers = [f for f in tested if is_single(f) and not is_ratio(f)]
    ranges = ranges_of(tested)
    left_out = [f for f in figures if is_met_by_none(f)]
    return [sum(map(is_kept, ratios)), len(ratios), sum(map(is_kept, numbers)), len(numbers),
            sum(all(map(is_kept, each)) for each in ranges), len(ranges), len(left_out),
            sum(o["holds"] and not o["tie"] for o in orders), len(orders), sum(o["tie"] for o in orders)]


def headline(figures):
    kept, ratios = counts_of(figures, [])[:2]
    return (f"Of {ratios} single ratios that \"no difference\" does not already meet, {kept} are within 15 %; "
            "each range is counted once.\n")


def summary(answers):
    lines = ["| study | single ratios within 15 % | other single numbers within 15 % | ranges, all found inside "
             "| left out: 1.00 would do | orders that hold | ties | in short |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]

    def add(name, figures, orders, short=""):
        counts = counts_of(figures, orders)
        lines.append("| {} | {} of {} | {} of {} | {} of {} | {} | {} of {} | {} | {} |".format(name, *counts, short))

    every = [(name, f) for name, answer in answers.items() for f in answer["figures"]]
    for name, answer in answers.items():
        add(f"[{name}](studies/{name}.md)", answer["figures"], answer["orders"], in_short(name))
    add("all", [f for _, f in every], [o for answer in answers.values() for o in answer["orders"]])
    aimed = {name for name, f in every if is_aimed_at(name, f)}
    claims = [f for name, f in every if is_aimed_at(name, f)]
    orders = [o for name, answer in answers.items() if name in aimed or name == "dflop_data" for o in answer["orders"]]
    add("the aim's claims alone", claims, orders)
    add("the same, with utilisation itself",
        [f for name, f in every if is_aimed_at(name, f) or is_aimed_mfu(f)], orders)
    return f"The aim's claims: {headline(claims)}\nAll studies: {headline([f for _, f in every])}\n" + "\n".join(lines) + "\n"


def page_of(name):
    return PAGES / f"{name}.md"


def in_short(name):
    """The sentence that sums up the study on its page."""
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
            kept.write_text(subprocess.run([tributary, "compare", path, "--plan-files", "--json"], check=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)
        answers[path.stem] = json.loads(kept.read_text())
    for name, answer in answers.items():
        if not page_of(name).exists():
            page_of(name).write_text(f"# {answer['name']}\n\nIn short: nobody has looked at it yet.\n\n{BEGIN}{END}")
        write_between_markers(page_of(name), study_section(name, answer))
    write_between_markers(PAGE, "\n" + summary(answers))


if __name__ == "__main__":
    main()
