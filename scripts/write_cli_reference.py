"""Writes docs/cli.md from the --help of every verb: write_cli_reference.py TRIBUTARY [OUT]."""

import re
import subprocess
import sys
from pathlib import Path

INTRODUCTION = """# Command line

`tributary VERB --help` prints these texts; this page is made from them by
`scripts/write_cli_reference.py`, and a test holds it against the program.

With `--json` a verb prints one JSON object on standard output and nothing else there (`data inspect` and
`plan --method` print a list); what it says to people goes to standard error. An error is then the last line
of standard error: `{"error": {"fault", "what", "where", "found", "expected", "fix", "source"}, "exit_code"}`,
with the parts that it has. Of the processes of `launch` the launcher reports errors, so its own `--json`
stands before `--`. Two verbs have no such output: `chat` is a dialogue (programs ask `serve`), and
`completion` prints a script.

`tributary completion bash` (zsh, fish) prints a script with which the shell completes verbs, options and
keys; `make install` puts that of bash in place.
"""


EXIT_CODES = {
    0: "done",
    2: "input error: command line, configuration, a file that the user named",
    3: "too many bad samples",
    4: "checkpoint or weights refused: damaged or incompatible",
    5: "resource: disk, memory, no such device, a rank that did not arrive, output that cannot be written",
    10: "a rank was lost",
    11: "no progress: a rank or a collective above its deadline",
    12: "kept for encoder workers that were shut out; nothing ends with it so far",
    13: "stopped on non-finite losses or gradients",
    14: "`tributary launch` gave up: too many restarts, or a crash loop",
    15: "ended on SIGTERM or Ctrl-C after a committed checkpoint",
    70: "a mistake of Tributary: report it as CONTRIBUTING.md says, with the line that was printed",
}


def list_exit_codes():
    """The table of the codes in core/exit_code.h, each with its meaning."""
    header = Path(__file__).resolve().parents[1] / "src/core/exit_code.h"
    codes = [int(code) for code in re.findall(r"^  k\w+ = (\d+),", header.read_text(), re.M)]
    if codes != sorted(EXIT_CODES):
        raise ValueError(f"{header} has codes {codes}, EXIT_CODES {sorted(EXIT_CODES)}")
    rows = [f"| {code} | {EXIT_CODES[code]} |" for code in codes]
    return "\n".join(["| exit code | meaning |", "| --- | --- |", *rows,
                      "| 128 + n | killed by signal n |", ""])


def read_help(tributary, words):
    command = [tributary, *words, "--help"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def list_subcommands(text):
    sections = re.findall(r"^(?:Subcommands|Train|Look at|Plan):\n(.*?)(?:\n\n|\Z)", text, re.S | re.M)
    return [name for section in sections for name in re.findall(r"^  (\S+)", section, re.M)]


def list_verbs(tributary, words=()):
    """Yields (words, help) of every verb, groups opened."""
    text = read_help(tributary, words)
    below = list_subcommands(text)
    if not below:
        yield words, text
    for name in below:
        yield from list_verbs(tributary, (*words, name))


def write_reference(tributary):
    parts = [INTRODUCTION, list_exit_codes()]
    for words, text in list_verbs(tributary):
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"## {' '.join(words)}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    text = write_reference(sys.argv[1])
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text)
    else:
        print(text)
