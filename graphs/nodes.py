"""The nodes of the graph, by name and in order."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coda.graphs.nodes_build import build, rollout
from coda.graphs.nodes_compile import compile_programs
from coda.graphs.nodes_diagnose import diagnose, refute
from coda.graphs.nodes_measure import measure
from coda.graphs.nodes_memory import consolidate
from coda.graphs.nodes_plan import plan
from coda.graphs.nodes_train import seed, train
from coda.graphs.work import Node

NODE_FUNCTIONS: Mapping[str, Node] = MappingProxyType(
    {
        "seed": seed,
        "plan": plan,
        "build": build,
        "rollout": rollout,
        "diagnose": diagnose,
        "refute": refute,
        "consolidate": consolidate,
        "compile": compile_programs,
        "train": train,
        "measure": measure,
    }
)
"""In the order of `coda.graphs.state.NODES`."""
