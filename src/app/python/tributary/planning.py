"""Where each module of a model runs and how it is cut, for a cluster or a measured machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

from . import _engine
from .arguments import Document, Rows, document, flag, given, optional, refuse, sizes, to_json, whole
from .search import Status


class RankedPlan(TypedDict):
    """One of the best plans."""

    plan: str
    """Degrees and numbers, as a person reads them."""
    trains: bool
    """Whether ``train --plan`` takes it."""
    refusal: str
    """Why it does not."""
    step_s: float
    """Seconds of a step, mean over the batches."""
    deviation_s: float
    percentile_95_s: float
    tokens_per_s: float
    """Of all devices together."""
    mfu: float
    """Model FLOPs over those of the devices at their peak; 0: that is not known."""
    gap: float
    """step / lower_bound - 1, of plans of its kind."""
    devices: int
    peak_bytes: int
    """Of the fullest device."""
    fullest: str
    """Its module."""
    links_shared: bool
    """False: messages were timed as if each were alone."""
    simulated_batches: int
    """Batches simulated with shared links; the step on the others is scaled by theirs."""
    outside_grid: bool
    """True: some passes are larger than those of the profile; collectives are in `beyond_grid` alone."""


class BeyondGrid(TypedDict):
    """A table of a profile that is asked for more than its largest point."""

    table: str
    unit: str
    """tokens (or patches), B."""
    measured: int
    """Largest size; what is above is taken at its rate."""
    asked: int


class LeftOut(TypedDict):
    """What was left out for want of measurements."""

    cells: int
    degrees: list[str]


class _Planned(TypedDict):
    method: str
    status: Status
    value: float
    """Seconds of a step of the best plan."""
    lower_bound: float
    """Seconds that no plan of the space is below."""
    gap: float
    """value / lower_bound - 1."""
    evaluations: int
    milliseconds: float
    limit: str
    """Where nothing fits: what binds, and by how much."""
    global_samples: int
    tokens: float
    """Of a step, mean over the batches."""
    cells: int
    estimates: int
    judged: int
    unshared: int
    """Colocated plans left out: they have too many messages to share links as the others do."""
    left_out: LeftOut
    beyond_grid: list[BeyondGrid]
    """By the best plan."""
    plans: list[RankedPlan]
    """Those that train first, the best first, ten at most; then those that are faster, but for simulation alone."""
    plan: dict[str, Any] | None
    """The best one, ``docs/formats/plan.md``: for `simulate`, and where it ``trains`` for ``train --plan``."""


class Planned(_Planned, total=False):
    """The answer of `plan`: the object of ``tributary plan --json``, and the file of ``-o``."""

    explanation: dict[str, Any]
    """What limits the best plan, and what would help; when asked for."""


def _words(values: Iterable[str] | None, name: str) -> list[str]:
    if values is None:
        return []
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
    words = list(values) if is_list else []
    if not is_list or not all(isinstance(each, str) for each in words):
        raise refuse("python: not a list of texts", name, repr(words or values)[:200], "a list of str")
    return words


def _choices(values: Iterable[str] | None, name: str) -> list[str]:
    """Words of which one at least is needed; None: the usual ones."""
    words = _words(values, name)
    if values is not None and not words:
        raise refuse("python: list names nothing", name, repr(values)[:200], "one at least, or None for the usual ones")
    return words


def plan(
    model: Document,
    cluster: Document | None = None,
    *,
    devices: int = 0,
    global_samples: int = 512,
    tokens: int | None = None,
    lengths: Document | Rows | None = None,
    batches: int = 8,
    seed: int = 0,
    freeze: Sequence[str] | None = None,
    schedules: Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
    candidates: int = 0,
    keep: int = 10,
    runnable: bool = False,
    explain: bool = False,
    profile: Document | None = None,
    threads: int = 0,
) -> Planned:
    """Finds where each module of a model should run and how parallel it should be.

    The same seed gives the same answer on every machine, and that of ``tributary plan``.

    Args:
        model: a directory with a ``config.json``, a module graph, or the content of either.
        cluster: ``docs/formats/cluster.md``, as a dictionary or a path; None: nodes of 8 A100-80,
            ``configs/clusters/a100_8.yaml``, or
            the machine of the profile.
        devices: of the cluster to use; 0: all, or one node of a cluster of more than 4,096, as
            ``devices`` of the plans says.
        global_samples: of a step.
        tokens: of each sample of a text model; None: 4,096. Not together with ``lengths``.
        lengths: [samples][1 to 5] tokens, patches, images or frames, audio positions, clips, to
            draw from; or a shape histogram (dictionary or path), or a table (path). None: the
            mixture of photos, documents and videos where the model has an encoder, with sound
            where it encodes both.
        batches: drawn to judge plans by.
        seed: of the batches.
        freeze: modules that do not train.
        schedules: orders of the passes to choose from; None: the usual ones.
        axes: that may have several ranks, of tp, pp, dp, cp, ulysses, ep; None: all, cp and
            ulysses for samples of 8,192 tokens and more.
        candidates: plans that are simulated; 0: 200 of 2,048 samples a step, more of fewer, at most
            1,600.
        keep: best plans to give, 1 to 10.
        runnable: only plans that ``train`` runs.
        explain: say what limits the best plan and what would help most.
        profile: measured layers and collectives, ``docs/formats/profile.md``; plans then use all
            devices.
        threads: compute threads of each rank, with a profile of a CPU; 0: a part of the cores.

    Raises:
        Error: a key or argument cannot be used, or would count for nothing; that nothing fits is an
            answer with status ``infeasible``.
    """
    sizes_file, rows = sizes(lengths, "lengths")
    arguments = given(
        model=document(model, "model"),
        cluster=optional(cluster, "cluster"),
        devices=whole(devices, "devices") or None,
        global_samples=whole(global_samples, "global_samples"),
        tokens=None if tokens is None else whole(tokens, "tokens"),
        lengths=sizes_file,
        batches=whole(batches, "batches"),
        seed=whole(seed, "seed"),
        freeze=_words(freeze, "freeze"),
        schedules=_choices(schedules, "schedules"),
        axes=_choices(axes, "axes"),
        candidates=whole(candidates, "candidates"),
        keep=whole(keep, "keep"),
        runnable=flag(runnable, "runnable"),
        explain=flag(explain, "explain"),
        profile=optional(profile, "profile"),
        threads=whole(threads, "threads"),
    )
    answer, best = _engine.plan(to_json(arguments, "plan"), rows)
    return cast(Planned, {**json.loads(answer), "plan": json.loads(best)})
