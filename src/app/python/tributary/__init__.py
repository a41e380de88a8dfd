"""Packs, balances, plans and simulates distributed training of multimodal models.

Plain lists and dictionaries in, plain lists and dictionaries out, as the command line's JSON. Every
function is pure, may be called from several threads, which then work at the same time, and raises
`Error` alone for what it cannot use.

============================  ======================================================================
`pack`                        samples to sequences, sequences to replicas
`balance`                     items to buckets in several dimensions, with a proven bound
`plan`                        where each module of a model runs, and how it is cut
`search_3d`, `compare_3d`     degrees of an encoder and a backbone from a cost table
`allocate_flow`               devices to encoders and backbone that keep one pace
`split_layers`                layers to pipeline stages, with the recompute that fits
`group_stages`                modules to stages that share devices
`fit_interference`            what modules that share a device cost each other
`action_lists`                what every rank of a plan does
`simulate`                    how long a plan takes, and why
============================  ======================================================================
"""

from .errors import Error
from .planning import BeyondGrid, LeftOut, Planned, RankedPlan, plan
from .policies import Balanced, Packed, balance, pack
from .search import Degrees, FoundPlan, Search, compare_3d, search_3d, search_methods
from .simulation import Action, Lane, Simulation, action_lists, simulate
from .solvers import (
    Certificate,
    CoLocation,
    FlowAllocation,
    FlowCandidate,
    FlowChoice,
    Interference,
    InterferenceFit,
    LayerSplit,
    PlacedModule,
    SharedModule,
    SharedStage,
    Staging,
    UnitCosts,
    allocate_flow,
    fit_interference,
    group_stages,
    split_layers,
    staging_methods,
)

__all__ = [
    "Action",
    "Balanced",
    "BeyondGrid",
    "Certificate",
    "CoLocation",
    "Degrees",
    "Error",
    "FlowAllocation",
    "FlowCandidate",
    "FlowChoice",
    "FoundPlan",
    "Interference",
    "InterferenceFit",
    "Lane",
    "LayerSplit",
    "LeftOut",
    "Packed",
    "PlacedModule",
    "Planned",
    "RankedPlan",
    "Search",
    "SharedModule",
    "SharedStage",
    "Simulation",
    "Staging",
    "UnitCosts",
    "action_lists",
    "allocate_flow",
    "balance",
    "compare_3d",
    "fit_interference",
    "group_stages",
    "pack",
    "plan",
    "search_3d",
    "search_methods",
    "simulate",
    "split_layers",
    "staging_methods",
]
