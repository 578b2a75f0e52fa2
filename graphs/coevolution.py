"""The co-evolution graph: seed, then plan → build → … → measure until a stop decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph

from coda.graphs.deps import Deps
from coda.graphs.nodes import NODE_FUNCTIONS
from coda.graphs.state import RoundState
from coda.graphs.work import journaled

Builder = StateGraph[RoundState, None, RoundState, RoundState]


def after_plan(state: RoundState) -> Literal["build", "__end__"]:
    """Plan may end the run: rounds done, every mode mastered, a person said so."""
    return END if state.get("stop") else "build"  # type: ignore[return-value]


def after_rollout(state: RoundState) -> Literal["diagnose", "compile"]:
    """No failures, nothing to diagnose."""
    return "diagnose" if state["failures"] else "compile"


def after_diagnose(state: RoundState) -> Literal["refute", "compile"]:
    """No diagnoses, nothing to test."""
    return "refute" if state["diagnosed"] else "compile"


def after_measure(state: RoundState) -> Literal["plan", "__end__"]:
    """An exhausted budget ends the run after the round that met it."""
    return END if state.get("stop") else "plan"  # type: ignore[return-value]


def build(deps: Callable[[], Deps]) -> Builder:
    """Wire the nodes to their dependencies, which are first asked for when a node runs.

    Returns:
        The graph, not compiled: the caller chooses the checkpointer.
    """
    graph: Builder = StateGraph(RoundState)
    for name, node in NODE_FUNCTIONS.items():
        graph.add_node(name, RunnableLambda(journaled(name, node, deps)))
    graph.add_edge(START, "seed")
    graph.add_edge("seed", "plan")
    graph.add_conditional_edges("plan", after_plan)
    graph.add_edge("build", "rollout")
    graph.add_conditional_edges("rollout", after_rollout)
    graph.add_conditional_edges("diagnose", after_diagnose)
    graph.add_edge("refute", "consolidate")
    graph.add_edge("consolidate", "compile")
    graph.add_edge("compile", "train")
    graph.add_edge("train", "measure")
    graph.add_conditional_edges("measure", after_measure)
    return graph


def mermaid() -> str:
    """The drawing of the graph, as the README shows it."""

    def no_deps() -> Deps:
        raise AssertionError("a drawing runs no node")

    text: str = build(no_deps).compile().get_graph().draw_mermaid()
    return text


def studio_graph() -> Any:
    """Compiled graph for LangGraph's own tools (`langgraph.json`).

    Works on the run folder named by the environment variable ``CODA_RUN``, or starts a run of the
    debug preset when its first node runs. The tools bring their own checkpointer.
    """
    from coda.graphs.runner import studio_deps

    return build(studio_deps()).compile()
