"""The compiled part: see `src/app/python/module.cpp`. JSON in, JSON out."""

from typing import Any

def pack(
    lengths: Any,
    capacity: int,
    replicas: int,
    window: int,
    method: str,
    meet: str,
    attention_length: int,
    /,
) -> str: ...
def balance(items: Any, buckets: int, deadline_ms: float, evaluations: int, /) -> str: ...
def search_3d(table: tuple[bool, str], method: str, keep: int, /) -> str: ...
def search_methods() -> list[str]: ...
def allocate_flow(problem: str, /) -> str: ...
def split_layers(problem: str, /) -> str: ...
def group_stages(problem: str, /) -> str: ...
def fit_interference(problem: str, /) -> str: ...
def staging_methods() -> list[str]: ...
def plan(
    model: tuple[bool, str],
    cluster: tuple[bool, str] | None,
    profile: tuple[bool, str] | None,
    sizes: tuple[bool, str] | None,
    lengths: Any,
    options: str,
    keep: int,
) -> tuple[str, str]: ...
def action_lists(plan: tuple[bool, str], /) -> str: ...
def simulate(
    plan: tuple[bool, str] | None,
    model: tuple[bool, str] | None,
    cluster: tuple[bool, str] | None,
    profile: tuple[bool, str] | None,
    sizes: tuple[bool, str] | None,
    lengths: Any,
    options: str,
    with_trace: bool,
) -> tuple[str, str]: ...
