"""Packing samples into sequences, and sharing loads over buckets."""

from __future__ import annotations

import json
from typing import Literal, TypedDict, Union, cast

from . import _engine
from .arguments import Numbers, Rows, real, text, whole


class Packed(TypedDict):
    """The answer of `pack`: the object of ``tributary pack --json``."""

    assignment: list[int]
    """Sequence of each sample, from 0."""
    bins: int
    """Number of sequences."""
    loads: list[int]
    """Tokens of each sequence."""
    replica: list[int]
    """Replica of each sequence, from 0."""
    replica_costs: list[int]
    """Sum of the costs of each replica's sequences."""
    value: int
    """The same as ``bins``."""
    lower_bound: int
    """No packing of these samples has fewer sequences."""
    gap: float
    """value / lower_bound - 1."""
    milliseconds: float
    """Time of the answer, without reading and returning."""


class Balanced(TypedDict):
    """The answer of `balance`: the object of ``tributary balance --json``."""

    assignment: list[int]
    """Bucket of each item, from 0."""
    buckets: int
    loads: list[list[Union[int, float]]]
    """[buckets][dimensions], in the unit of the items; whole where all items are."""
    value: Union[int, float]
    """Largest load of any bucket in any dimension."""
    lower_bound: Union[int, float]
    """No arrangement is below."""
    gap: float
    """value / lower_bound - 1."""
    status: Literal["optimal", "feasible", "truncated"]
    """``optimal`` is proven; ``truncated``: the budget ended the search."""
    milliseconds: float


def pack(
    lengths: Numbers,
    capacity: int,
    replicas: int = 1,
    *,
    window: int | None = None,
    method: Literal["best_fit_decreasing", "online_best_fit"] = "best_fit_decreasing",
    meet: Literal["step", "microbatch"] = "step",
    attention_length: int = 0,
) -> Packed:
    """Packs samples into sequences of at most ``capacity`` tokens, and deals these to replicas.

    A pure function: the same answer on every machine, and that of ``tributary pack``.

    Args:
        lengths: [samples] tokens of each sample, whole, 1 to ``capacity``. A sequence or an array.
        capacity: longest sequence [tokens], 1 to 2^26.
        replicas: data-parallel replicas that share the sequences, as many to each as far as it
            goes.
        window: how many samples are known at a time; None: all. ``best_fit_decreasing`` packs each
            ``window`` samples by themselves, ``online_best_fit`` closes a sequence ``window``
            samples after its first one.
        method: ``best_fit_decreasing`` takes the longest sample first, ``online_best_fit`` keeps
            the order.
        meet: how replicas wait for each other: at each ``step`` (sums of costs are levelled) or at
            each ``microbatch`` (so are the costs of each slot, as FSDP wants).
        attention_length: length [tokens] at which a sample's attention costs as much as all else;
            0: a sequence costs its tokens.

    Raises:
        Error: an argument is out of range, or a sample does not fit; ``where`` names it.

    >>> pack([5, 3, 4, 2], capacity=7)["assignment"]
    [0, 1, 1, 0]
    """
    answer = _engine.pack(
        lengths,
        whole(capacity, "capacity"),
        whole(replicas, "replicas"),
        0 if window is None else whole(window, "window"),
        text(method, "method"),
        text(meet, "meet"),
        whole(attention_length, "attention_length"),
    )
    return cast(Packed, json.loads(answer))


def balance(
    items: Rows,
    buckets: int,
    *,
    deadline_ms: float | None = None,
    evaluations: int | None = None,
) -> Balanced:
    """Shares items over buckets so that the largest load of any bucket in any dimension is small.

    Without a deadline a pure function: the same answer on every machine, and that of
    ``tributary balance``.

    Args:
        items: [items] or [items][dimensions] loads of 0 or above, all of one unit, for example
            milliseconds of the modules that work at the same time. A sequence or an array.
        buckets: 1 to 2^20.
        deadline_ms: end the search after this time [ms]; the answer then depends on the machine.
        evaluations: end the search after so many arrangements; None: after 8,000,000. Not together
            with ``deadline_ms``.

    Raises:
        Error: an argument is out of range, or a load is; ``where`` names it.

    >>> balance([(7, 3), (1, 8), (9, 2), (2, 9)], buckets=2)["value"]
    11
    """
    answer = _engine.balance(
        items,
        whole(buckets, "buckets"),
        0.0 if deadline_ms is None else real(deadline_ms, "deadline_ms"),
        0 if evaluations is None else whole(evaluations, "evaluations"),
    )
    return cast(Balanced, json.loads(answer))
