#!/usr/bin/env python3
"""Runs the planner's choice for the demo beside every homogeneous plan that the trainer takes.

Profiles the demo's model (or takes a profile), plans it from nothing but that and the sizes of its
samples, trains the choice and the homogeneous plans in turns, and says how far the choice is from
the best of them. Who is far behind after the first round runs no more.

    python bench/plan/plan_demo.py build/release/tributary --work runs/plan [--profile FILE]
"""

import argparse
import itertools
import json
import statistics
import subprocess

import demo_runs

SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb_h1", "zb_v", "v_half", "v_min")
TARGET = 0.05


def homogeneous(processes, schedules, capacities):
    """name: keys, of all pp x dp of so many processes, whole copies or shards (no tp: the demo's tower has three
    heads), under every schedule, with capacities that give some numbers of microbatches."""
    settings = {}
    for pp in (each for each in range(1, processes + 1) if processes % each == 0):
        replicas = processes // pp
        for shard in (each for each in range(1, replicas + 1) if replicas % each == 0):
            for schedule in schedules if pp > 1 else ("1f1b",):
                for capacity in capacities:
                    name = f"pp {pp}, replicate {replicas // shard}, shard {shard}, {schedule}, capacity {capacity}"
                    settings[name] = [
                        f"parallel.pp={pp}", f"parallel.dp_replicate={replicas // shard}", f"parallel.dp_shard={shard}",
                        f"parallel.schedule={schedule}", f"batch.capacity_tokens={capacity}",
                        *(["parallel.virtual_stages=2"] if schedule == "interleaved" else [])]
    return settings


def choose(demo, processes, sizes, options):
    plan = demo.work / f"plan-{processes}.json"
    done = subprocess.run(
        [demo.tributary, "plan", demo.config, "--profile", demo.profile, "--threads", str(options.threads),
         "--devices", str(processes), "--lengths", sizes, "--runnable", "--json", "-o", plan],
        check=True, stdout=subprocess.PIPE, text=True)
    return plan, json.loads(done.stdout)


def runs_of(demo, settings, ranks, options):
    """Median step [s] of each round of each setting; those out of the race have fewer rounds."""
    medians = {name: [] for name in settings}
    racing = list(settings)
    for number in range(options.rounds):  # in turns: a busy machine slows all of them
        for name in racing:
            medians[name].append(demo.median_of(name, f"n{ranks}-{number}", ranks, settings[name]))
        least = min(statistics.median(each) for each in medians.values())
        racing = [name for name in racing
                  if name == options.choice or statistics.median(medians[name]) <= options.race * least]
    return medians


def compare(demo, processes, sizes, options):
    plan, answer = choose(demo, processes, sizes, options)
    best = answer["plans"][0]
    options.choice = "the planner's choice"
    print(f"\n{processes} processes: {best['plan']}\npredicted {1e3 * best['step_s']:.1f} ms, no plan below "
          f"{1e3 * answer['lower_bound']:.1f} ms; {answer['milliseconds']:.0f} ms of search\n")
    settings, refused = {options.choice: ["--plan", plan]}, []
    for name, keys in homogeneous(processes, options.schedules, options.capacities).items():
        directory = demo.directory(name, f"n{processes}-try")
        if demo.start(directory, processes, keys, 1) == 0:
            settings[name] = keys
        else:
            refused.append((name, demo_runs.pathlib.Path(f"{directory}.log").read_text()))
    medians = runs_of(demo, settings, processes, options)
    print("| plan | rounds | step: least, median, largest of the runs' medians [ms] |\n| --- | --- | --- |")
    real = {name: statistics.median(times) for name, times in medians.items()}
    for name in sorted(settings, key=real.get):
        times = medians[name]
        print(f"| {name} | {len(times)} | {1e3 * min(times):.1f}, {1e3 * real[name]:.1f}, {1e3 * max(times):.1f} |")
    for cause, names in itertools.groupby(sorted((reason(log), name) for name, log in refused), lambda each: each[0]):
        print(f"\nrefused by the trainer, {cause}: {'; '.join(name for _, name in names)}")
    others = [name for name in settings if name != options.choice]
    winner = min(others, key=real.get)
    behind = real[options.choice] / real[winner] - 1
    print(f"\nthe choice takes {1e3 * real[options.choice]:.1f} ms, the best homogeneous plan ({winner}) "
          f"{1e3 * real[winner]:.1f} ms: {100 * behind:+.1f} %, "
          f"{'within' if behind <= TARGET else 'NOT within'} {100 * TARGET:.0f} %; predicted {1e3 * best['step_s']:.1f} ms")
    return behind <= TARGET


def reason(log):
    lines = [line for line in log.splitlines() if "error:" in line]
    return lines[0].split("; fix")[0].split("error: ", 1)[1] if lines else "without a reason"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo_runs.add_options(parser, "runs/plan")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--capacities", type=int, nargs="+", default=[1024, 512, 256])
    parser.add_argument("--race", type=float, default=1.25, help="of the best median: who is above runs no more")
    options = parser.parse_args()
    demo = demo_runs.DemoRuns(options)
    print(f"profile {demo.profile}: noise {100 * demo.noise(demo.profile):.1f} %")
    sizes = demo.write_sizes(max(20, options.steps))
    within = [compare(demo, processes, sizes, options) for processes in options.processes]
    print(f"\nwithin {100 * TARGET:.0f} % for {sum(within)} of {len(within)} numbers of processes")


if __name__ == "__main__":
    main()
