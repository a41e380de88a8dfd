"""What every rank of a plan does, and how long that takes."""

from __future__ import annotations

import json
import os
from typing import Any, TypedDict, cast

from . import _engine
from .arguments import Document, Rows, document, flag, given, optional, sizes, to_json


class _Pass(TypedDict):
    op: str
    """F, B, W, BW: passes; SF, RF, SB, RB, LC, LC': between stages; XS, XR, XS', XR': features;
    GR: gradients reduced; OPT: optimizer step."""
    chunk: int
    """Which of the rank's virtual stages."""
    microbatch: int


class Action(_Pass, total=False):
    """One entry of an action list."""

    peer: int
    """Lane at the other end of a send or receive; of features, the edge."""


class Lane(TypedDict):
    """Ranks that run one action list."""

    name: str
    module: str
    replica: int
    stage: int
    ranks: list[int]
    in_flight: int
    """Most chunk activations that are ever kept."""
    actions: list[Action]


class Simulation(TypedDict):
    """The answer of `simulate`; both parts are explained in ``docs/formats/trace.md``."""

    summary: dict[str, Any]
    """The object of ``tributary simulate --json``: step_ns, lower_bound_ns, mfu, ..."""
    trace: dict[str, Any] | None
    """The file of ``tributary simulate -o``, which Perfetto opens; None when not asked for."""


def action_lists(plan: Document) -> list[Lane]:
    """Lists what every rank does in one step of a plan: what the trainer runs.

    Args:
        plan: ``docs/formats/plan.md``, as a dictionary or a path.

    Raises:
        Error: a key of the plan cannot be used, or a placement has no action lists.
    """
    return cast("list[Lane]", json.loads(_engine.action_lists(document(plan, "plan"))))


def simulate(
    plan: Document | None = None,
    model: Document | None = None,
    cluster: Document | None = None,
    *,
    profile: Document | None = None,
    threads: int | None = None,
    run: str | os.PathLike[str] | None = None,
    skip: int | None = None,
    workload: str | os.PathLike[str] | None = None,
    steps: int | None = None,
    seed: int | None = None,
    lengths: Document | Rows | None = None,
    mixture: bool = False,
    unfused_attention: bool = False,
    sequence_parallel: bool = True,
    reduce_dtype: str | None = None,
    pool: int | None = None,
    ahead: int | None = None,
    scheduler_ms: float | None = None,
    stragglers: float | None = None,
    straggler_factor: float | None = None,
    anomalies: float | None = None,
    anomaly_factor: float | None = None,
    failure_hours: float | None = None,
    restart_seconds: float | None = None,
    checkpoint_steps: int | None = None,
    trace: bool = True,
) -> Simulation:
    """Simulates steps of a plan, or of a workload of SimAI, by running action lists on a clock.

    The same seed gives the same bits on every machine, and those of ``tributary simulate``.

    Args:
        plan: ``docs/formats/plan.md``, as a dictionary or a path; needed without ``workload``.
        model: a directory with a ``config.json``, a module graph, or the content of either; None:
            what the plan names, from its own folder (a dictionary: from the current one).
        cluster: ``docs/formats/cluster.md``, as a dictionary or a path; None: nodes of 8 A100-80,
            ``configs/clusters/a100_8.yaml``, or the machine of the profile.
        profile: measured layers and collectives, ``docs/formats/profile.md``; with ``cluster`` that
            says devices, memory and links between stages.
        threads: compute threads of each rank, where the profile is of a CPU or the cluster says its
            cores; None: those of ``run``, or an equal part of the cores.
        run: directory of a run: simulate its steps, with the microbatches that they had.
        skip: steps at the beginning of ``run`` to leave out; None: 0.
        workload: in place of a plan, a workload of SimAI, ``docs/formats/simai_workload.md``: its path.
        steps: to simulate, None: 1; ``step_ns`` is their mean, all else is of the median one.
        seed: of samples and disturbances; None: 0.
        lengths: [samples][1 to 5] tokens, patches, images or frames, audio positions, clips; or a
            shape histogram (dictionary or path), or a table (path). None: the samples that the plan was
            judged with; else the mixture where it has an encoder, else full microbatches.
        mixture: draw photos, documents, groups of pictures and videos without an encoder too; not
            together with ``lengths``.
        unfused_attention: attention by products with the scores in memory.
        sequence_parallel: False: with tp of the backbone, every rank keeps what lies between the
            products whole.
        reduce_dtype: of gradients: ``float32``, or ``same`` as the parameters; None: ``float32``.
        pool: microbatches that the pool keeps of an encoder of placement flow which gives single
            ones, not whole batches (``ahead``); None: 16.
        ahead: whole batches that frozen encoders of placement flow may be ahead: 0 encodes each
            before its step, 1 beside the step before; -1 or None: microbatches, as far as the pool
            lets them.
        scheduler_ms: time that the step plan takes beside a step [ms]; None: 0.
        stragglers: share of slow ranks in each step; None: none is.
        straggler_factor: how much longer their passes take; needed with ``stragglers``.
        anomalies: share of single passes that are slow; None: none is.
        anomaly_factor: how much longer they take; needed with ``anomalies``.
        failure_hours: mean time between failures of one rank [h]; None or 0: none fails.
        restart_seconds: from a failure to the next step [s]; None: 300.
        checkpoint_steps: steps between checkpoints; None: 100.
        trace: False: leave the trace out, which takes longer to build than the rest.

    Raises:
        Error: a key or argument cannot be used, or would count for nothing (``restart_seconds``
            without ``failure_hours``); a plan that does not fit in memory is an answer:
            ``summary["out_of_memory"]`` says what is missing.
    """
    sizes_file, rows = sizes(lengths, "lengths")
    arguments = given(
        plan=optional(plan, "plan"),
        model=optional(model, "model"),
        cluster=optional(cluster, "cluster"),
        profile=optional(profile, "profile"),
        threads=threads,
        run=run,
        skip=skip,
        workload=workload,
        steps=steps,
        seed=seed,
        lengths=sizes_file,
        mixture=mixture,
        unfused_attention=unfused_attention,
        sequence_parallel=sequence_parallel,
        reduce_dtype=reduce_dtype,
        pool=pool,
        ahead=ahead,
        scheduler_ms=scheduler_ms,
        stragglers=stragglers,
        straggler_factor=straggler_factor,
        anomalies=anomalies,
        anomaly_factor=anomaly_factor,
        failure_hours=failure_hours,
        restart_seconds=restart_seconds,
        checkpoint_steps=checkpoint_steps,
    )
    summary, events = _engine.simulate(to_json(arguments, "simulate"), rows, flag(trace, "trace"))
    return {"summary": json.loads(summary), "trace": json.loads(events)}
