"""Rows of the table of encoders beside a run in docs/results/faults.md."""

from rank_job import spread

HEAD = ("| fault | trials | longest step | other figures |\n"
        "| --- | --- | --- | --- |")


def print_row(fault, trials, longest, *figures):
    print(f"| {fault} | {trials} | {spread(longest) if longest else '-'} | {'; '.join(figures)} |", flush=True)


def seconds_of(line):
    return sum(line["seconds"].values())
