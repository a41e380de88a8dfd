"""Degrees of an encoder and a backbone from a cost table, by published and exact searches."""

from __future__ import annotations

import json
from typing import Literal, TypedDict, cast

from . import _engine
from .arguments import Document, document, text, whole

Status = Literal["optimal", "feasible", "infeasible", "truncated"]
"""``optimal`` is proven; ``truncated``: the budget ended the search, value and bound hold."""


class Degrees(TypedDict):
    """Tensor-parallel, pipeline and data-parallel degree of a module."""

    tp: int
    pp: int
    dp: int


class _PlanText(TypedDict):
    plan: str
    """Degrees and numbers, as a person reads them."""
    step_s: float
    """Seconds of a step."""


class FoundPlan(_PlanText, total=False):
    """One plan. Degrees stand there for ``published_objective``."""

    encoder: Degrees
    backbone: Degrees
    microbatches: int


class Search(TypedDict):
    """The answer of one method: an object of ``tributary plan --json``."""

    method: str
    status: Status
    value: float
    """Seconds of a step of the best plan."""
    lower_bound: float
    """Seconds that no plan of the method's space is below."""
    gap: float
    """value / lower_bound - 1."""
    evaluations: int
    milliseconds: float
    limit: str
    """Of an infeasible problem: what binds, and by how much."""
    plans: list[FoundPlan]
    """The best first; empty when nothing fits."""


def search_methods() -> list[str]:
    """Names that `search_3d` takes: ``published_objective``, then the published systems."""
    return _engine.search_methods()


def search_3d(
    cost_table: Document, *, method: str = "published_objective", keep: int = 10
) -> Search:
    """Finds degrees for an encoder and a backbone by one method.

    Args:
        cost_table: ``docs/formats/cost_table.md``, as a dictionary or a path.
        method: ``published_objective``, proven optimal, or a published system, each searched
            through in its own space and judged on the table's batches: one of `search_methods`.
        keep: best plans that ``published_objective`` gives, 1 to 1000.

    Raises:
        Error: a key of the table cannot be used, or there is no such method; a table for which
            nothing fits is an answer with status ``infeasible``.
    """
    if method == "all":
        method = "all (see compare_3d)"  # one answer is promised here
    answer = _engine.search_3d(
        document(cost_table, "cost_table"), text(method, "method"), whole(keep, "keep")
    )
    return cast(Search, json.loads(answer)[0])


def compare_3d(cost_table: Document) -> list[Search]:
    """Solves a cost table by every method, one plan each: ``tributary plan --method all``.

    Args:
        cost_table: as for `search_3d`, with batches.

    Raises:
        Error: as `search_3d`; also when the table has no batches.
    """
    answer = _engine.search_3d(document(cost_table, "cost_table"), "all", 1)
    return cast("list[Search]", json.loads(answer))
