"""Exact solvers of the parts of planning: devices for flows, layers for stages, shared devices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, cast

from . import _engine
from .arguments import given, listed, refuse, to_json
from .search import Status


class Certificate(TypedDict):
    """What a search proves about its answer, in whole nanoseconds."""

    status: Status
    value_ns: int
    lower_bound_ns: int
    gap: float
    """value / lower_bound - 1."""
    evaluations: int
    limit: str
    """Of an infeasible problem: what binds, and by how much."""


# ---- allocate_flow ----


class FlowCandidate(TypedDict):
    """One way to run a module: its devices, and the period of 1,024 paired samples on them."""

    devices: int
    period_ns: int


class FlowChoice(TypedDict):
    """What a module gets: the index of its candidate, and what that is."""

    name: str
    candidate: int
    devices: int
    period_ns: int


class FlowAllocation(Certificate):
    """The answer of `allocate_flow`; value and bound are of the period of the pace."""

    encoders: list[FlowChoice]
    """In the order given; empty when nothing fits."""
    backbone: FlowChoice | None
    production_ns: int
    """Period of the slowest encoder; 0 without encoders."""
    consumption_ns: int
    devices: int
    """Taken by all modules."""


def allocate_flow(
    encoders: Mapping[str, Sequence[FlowCandidate]],
    backbone: Sequence[FlowCandidate],
    devices: int,
    *,
    order: Literal["exact", "published"] = "exact",
) -> FlowAllocation:
    """Chooses one candidate a module so that encoders and backbone keep the fastest pace, exactly.

    Args:
        encoders: candidates of each encoder, by name.
        backbone: candidates of the backbone.
        devices: there are so many, 1 to 2^16.
        order: what decides among allocations of the same pace: ``exact`` takes the fewest devices,
            then the faster encoders; ``published`` the least difference of production and
            consumption, then the fewest devices.

    Raises:
        Error: a number cannot be used; modules that do not fit are an answer with status
            ``infeasible``.
    """
    if not isinstance(encoders, Mapping):
        raise refuse("python: not a dict", "encoders", repr(encoders)[:200], "candidates by name")
    modules = [
        {"name": name, "candidates": listed(each, f"encoders {name}")}
        for name, each in encoders.items()
    ]
    problem = {
        "encoders": modules,
        "backbone": {"name": "backbone", "candidates": listed(backbone, "backbone")},
        "devices": devices,
        "order": order,
    }
    return cast(
        FlowAllocation, json.loads(_engine.allocate_flow(to_json(problem, "allocate_flow")))
    )


# ---- split_layers ----


class _UnitTime(TypedDict):
    forward_ns: int


class UnitCosts(_UnitTime, total=False):
    """Times and bytes of one unit (embedding, layer, head) for one microbatch.

    What is not given costs nothing; a recompute level that is not given is as the one below it.
    """

    input_gradient_ns: int
    weight_gradient_ns: int
    recompute_selective_ns: int
    """That selective recompute adds to backward."""
    recompute_full_ns: int
    state_bytes: int
    """Parameters, gradients, optimizer."""
    activation_bytes: int
    """Kept for one microbatch when nothing is recomputed."""
    activation_selective_bytes: int
    activation_full_bytes: int


class LayerSplit(Certificate):
    """The answer of `split_layers`; lists are empty when nothing fits."""

    first_unit: list[int]
    """[stages + 1]: stage s holds the units first_unit[s] to first_unit[s + 1] - 1."""
    recompute: list[Literal["none", "selective", "full"]]
    """[stages]: the cheapest level that fits."""
    stage_ns: list[int]
    """[stages]: time of one microbatch."""


def split_layers(
    units: Sequence[UnitCosts],
    stages: int,
    microbatches: int = 1,
    *,
    boundary_ns: int = 0,
    memory_bytes: int | None = None,
    stages_behind: int = 0,
    polish: bool = False,
) -> LayerSplit:
    """Cuts a chain of units into pipeline stages, exactly.

    What is made least is the sum of the stages plus (microbatches - 1) times the slowest.

    Args:
        units: in their order, at least as many as stages.
        stages: of the 1F1B pipeline.
        microbatches: of a step.
        boundary_ns: of a transfer between stages that nothing hides.
        memory_bytes: of a device, after buffers and reserve; None: no limit.
        stages_behind: of other modules behind the chain: more microbatches are in flight.
        polish: move single units on while the simulated makespan falls; the certificate is then
            that of the makespan.

    Raises:
        Error: a number cannot be used; a chain that does not fit is an answer with status
            ``infeasible``.
    """
    problem = given(
        units=listed(units, "units"),
        stages=stages,
        microbatches=microbatches,
        boundary_ns=boundary_ns,
        memory_bytes=memory_bytes,
        stages_behind=stages_behind,
        polish=polish,
    )
    return cast(LayerSplit, json.loads(_engine.split_layers(to_json(problem, "split_layers"))))


# ---- group_stages ----


class _ModuleTimes(TypedDict):
    name: str
    times_ns: Sequence[Sequence[int]]
    """[widths][units]: on 1, 2, 4, ... devices, up to all; with 1, 2, ... share units of each."""


class SharedModule(_ModuleTimes, total=False):
    """A module that may run on some devices at once, with a share of each."""

    after: Sequence[str]
    """Modules earlier in the list that end before it starts."""
    bandwidth: Sequence[float]
    """[units]: share of a device's memory bandwidth, 0 to 1; needed with interference."""
    memory_bytes: Sequence[int]
    """[widths]: on each device."""


class Interference(TypedDict, total=False):
    """What modules on one device cost each other, by their shares B of its memory bandwidth.

    ``pairwise``: time * (1 + base + sum * sum(B) + pair * sum of B_i B_j), for two modules or more;
    ``published``: time + base + sum * sum(B) + pair * product of B, in ns, for one module too.
    """

    form: Literal["none", "pairwise", "published"]
    base: float
    sum: float
    pair: float


class _PlacedName(TypedDict):
    name: str
    devices: int


class PlacedModule(_PlacedName, total=False):
    """A module of a stage. Methods that share no device say how many it has, and no more."""

    first_device: int
    share_units: int
    """Of each of its devices."""
    time_ns: int
    """Slowed by the others."""


class SharedStage(TypedDict):
    """Modules that run at the same time."""

    time_ns: int
    modules: list[PlacedModule]


class Staging(Certificate):
    """The answer of `group_stages`; value and bound are of the sum of the stages."""

    stages: list[SharedStage]
    """One after another; empty when nothing fits."""


def staging_methods() -> list[str]:
    """Names that `group_stages` takes: ``exact``, then the published systems."""
    return _engine.staging_methods()


def group_stages(
    modules: Sequence[SharedModule],
    devices: int,
    *,
    units: int = 10,
    memory_bytes: int | None = None,
    interference: Interference | None = None,
    method: str = "exact",
    evaluations: int | None = None,
) -> Staging:
    """Groups modules into stages; those of a stage run side by side on shares of devices.

    Args:
        modules: at most 20, each after those that it waits for.
        devices: 1 to 64, all alike.
        units: share units of a device, 1 to 16.
        memory_bytes: of a device; None: no limit.
        interference: None: modules on one device do not slow each other.
        method: ``exact``, proven optimal, or a published system: one of `staging_methods`.
        evaluations: stages of which ``exact`` and ``mosaic`` look for the time at most; None:
            50,000,000. Not together with another method.

    Raises:
        Error: a number cannot be used; modules that do not fit are an answer with status
            ``infeasible``.
    """
    problem = given(
        modules=listed(modules, "modules"),
        devices=devices,
        units=units,
        memory_bytes=memory_bytes,
        interference=interference,
        method=method,
        evaluations=evaluations,
    )
    return cast(Staging, json.loads(_engine.group_stages(to_json(problem, "group_stages"))))


class CoLocation(TypedDict):
    """A module measured beside others on a device."""

    alone_ns: int
    """Without the others, with the same share."""
    together_ns: int
    bandwidth: Sequence[float]
    """Of all modules on the device, itself first: shares of its memory bandwidth, 0 to 1."""


class InterferenceFit(TypedDict):
    """The answer of `fit_interference`."""

    interference: Interference
    """As `group_stages` takes it."""
    error: float
    """Mean of |predicted / measured - 1| over the points held out, every third one."""
    error_in_fit: float
    """The same over the points that were fitted."""
    held_out: int


def fit_interference(
    points: Sequence[CoLocation], *, form: Literal["pairwise", "published"] | None = None
) -> InterferenceFit:
    """Fits what modules on one device cost each other, by least squares with factors of 0 or above.

    Args:
        points: 6 or more, each of 2 modules or more.
        form: None: the one that predicts the points held out better.

    Raises:
        Error: a point cannot be used.
    """
    problem = given(points=listed(points, "points"), form=form)
    answer = _engine.fit_interference(to_json(problem, "fit_interference"))
    return cast(InterferenceFit, json.loads(answer))
