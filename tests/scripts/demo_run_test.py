"""demo.sh with the program itself and two steps: every step of the demo runs, and a demo that was
stopped goes on. argv[1] is the executable."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["run.steps=2", "schedule.warmup_steps=1", "schedule.decay_steps=1",
         "validation.every=0", "validation.final_samples_per_source=2",
         *(f"data.sources.{source}.start_step=0" for source in range(5))]

FEW_PICTURES = """#!/bin/bash
[ "$1" = data ] && set -- "$@" --samples 200 --held-out 4
exec "{program}" "$@"
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in ("scripts", "configs"):
            shutil.copytree(ROOT / part, root / part)
        program = root / "few_pictures"  # the program, but with a small part of its data set
        program.write_text(FEW_PICTURES.format(program=Path(sys.argv[1]).resolve()))
        program.chmod(0o755)
        command = [root / "scripts/demo.sh", program, *SHORT]
        first = subprocess.run(command, capture_output=True, text=True)
        assert first.returncode == 0, first.stdout + first.stderr
        run = root / "runs/demo"
        summary = json.loads((run / "summary.json").read_text())
        assert summary["steps"] == 2 and summary["stopped"] == "done", summary
        assert set(summary["accuracy"]) > {"overall", "text", "shapes"}, summary["accuracy"]
        assert "blind_accuracy" in summary, summary
        assert (run / "report.html").stat().st_size > 50_000
        assert "the report is runs/demo/report.html" in first.stdout, first.stdout
        rendered = (root / "runs/demo-data/COMPLETE").stat().st_mtime_ns

        (run / "summary.json").unlink()  # as if it had been killed before it wrote this
        (run / "report.html").unlink()
        command[2] = "run.steps=3"
        again = subprocess.run(command, capture_output=True, text=True)
        assert again.returncode == 0, again.stdout + again.stderr
        steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").open()]
        assert steps == [1, 2, 3], f"not taken up after step 2: {steps}"
        assert (root / "runs/demo-data/COMPLETE").stat().st_mtime_ns == rendered, "rendered again"
        assert (run / "report.html").exists()
    print("the demo runs through, and goes on where it stopped")


main()
