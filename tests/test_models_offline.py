"""The rule-based chat model in LangChain's interface, and prompts with their facts block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from pydantic import BaseModel, ConfigDict

from coda.agents import caller as caller_module
from coda.agents import prompting
from coda.agents.budget import Budget
from coda.agents.caller import AgentCaller, NoAnswer
from coda.agents.journal import MemoryJournal
from coda.agents.offline import OFFLINE_LABEL, OfflineChatModel, OfflineError
from coda.agents.prompting import PromptError, facts_block, human, jsonable, read_facts, render
from coda.agents.streaming import stream_chat
from coda.memory.rows import AgentCallRow
from coda.memory.rundb import RunDb
from coda.sim.errors import UnknownName


class Plan(BaseModel):
    """What to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    axis: str
    looks: int


@tool
def look(axis: str) -> str:
    """Look at an axis."""
    return f"{axis} is hard"


def plan(facts: dict[str, Any]) -> dict[str, Any]:
    if "look" in facts["tools"] and not facts["tool_results"]:
        return {"tool_calls": [{"name": "look", "args": {"axis": facts["axis"]}}]}
    return {"axis": facts["axis"], "looks": len(facts["tool_results"])}


def chat(facts: dict[str, Any]) -> dict[str, Any]:
    return {"text": f"You said: {facts['said']}"}


def broken(facts: dict[str, Any]) -> dict[str, Any]:
    return {"axis": facts["nothing"]}


RULES = {"plan": plan, "chat": chat, "broken": broken, "wrong": lambda facts: {"axis": 3}}


@pytest.fixture
def model() -> OfflineChatModel:
    return OfflineChatModel(rules=RULES)


@pytest.fixture
def caller(model: OfflineChatModel, monkeypatch: pytest.MonkeyPatch) -> AgentCaller:
    monkeypatch.setattr(caller_module, "system", lambda role, values=None: SystemMessage(role))
    return AgentCaller(
        model, MemoryJournal(), Budget(max_tokens=0, max_usd=0.0), node_key="r01:plan"
    )


def asked(task: str = "plan", **facts: Any) -> HumanMessage:
    return human(f"Please.\n\n{facts_block(task, {'axis': 'yaw', **facts})}")


def test_it_answers_with_langchains_own_structured_output(model: OfflineChatModel) -> None:
    found = model.with_structured_output(Plan).invoke([asked()])
    assert found == Plan(axis="yaw", looks=0)


@pytest.mark.parametrize("wrap", [lambda s: s, ToolStrategy, ProviderStrategy])
def test_it_drives_an_agent_with_tools(model: OfflineChatModel, wrap: Any) -> None:
    agent = create_agent(model, tools=[look], response_format=wrap(Plan))
    state = agent.invoke({"messages": [asked()]})
    assert state["structured_response"] == Plan(axis="yaw", looks=1)


def test_it_is_labelled_and_costs_nothing(model: OfflineChatModel) -> None:
    message = model.invoke([asked()])
    assert message.response_metadata["model_name"] == OFFLINE_LABEL
    assert message.usage_metadata is not None
    assert message.usage_metadata["total_tokens"] == 0
    assert message.text == '{"axis": "yaw", "looks": 0}'


def test_the_last_facts_win_and_words_after_them_do_no_harm(model: OfflineChatModel) -> None:
    messages = [asked(axis="size"), AIMessage("…"), asked(), HumanMessage("Try again.")]
    assert "yaw" in model.invoke(messages).text
    said = facts_block("plan", {"axis": "evil"})
    trick = human(f"{said}\n```json\n unclosed\n\n{facts_block('chat', {'said': said})}")
    assert model.invoke([trick]).text == f"You said: {said}"


def test_without_facts_it_says_what_it_is(model: OfflineChatModel) -> None:
    assert "not a language model" in model.invoke("hello").text
    with pytest.raises(OfflineError, match="broken, chat, plan, wrong"):
        model.with_structured_output(Plan).invoke("hello")
    with pytest.raises(UnknownName, match="no offline rule for a task named 'plam'"):
        model.invoke([asked("plam")])


def test_it_streams_words_and_tool_calls(model: OfflineChatModel) -> None:
    stream = stream_chat(model, [human(facts_block("chat", {"said": "a  b"}))])
    assert list(stream) == ["You ", "said: ", "a ", " ", "b"]
    assert stream.message.text == "You said: a  b"
    tools = stream_chat(model.bind_tools([look]), [asked()])
    assert list(tools) == []
    assert [(c["name"], c["args"]) for c in tools.tool_calls] == [("look", {"axis": "yaw"})]


def test_the_caller_asks_rules_past_any_budget(caller: AgentCaller) -> None:
    first = caller.ask("curriculum", "plan", Plan, {"axis": "yaw"})
    second = caller.ask("curriculum", "plan", Plan, {"axis": "yaw"}, tools=[look])
    assert (first.value.looks, second.value.looks) == (0, 1)
    assert [first.call_id, second.call_id] == ["r01:plan#000", "r01:plan#001"]
    assert (first.status, first.attempts) == ("ok", 1)
    spoken = caller.converse("curriculum", [human(facts_block("chat", {"said": "hi"}))], [look])
    assert spoken.text == "You said: hi"


def test_a_rules_bug_is_not_an_answer_that_failed(caller: AgentCaller) -> None:
    with pytest.raises(KeyError):
        caller.ask("curriculum", "broken", Plan, {})
    with pytest.raises(
        NoAnswer, match=r"in 1 attempt\(s\); last: axis: Input should be a valid str"
    ):
        caller.ask("curriculum", "wrong", Plan, {})


def test_roles_may_have_their_own_models(
    model: OfflineChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_module, "system", lambda role, values=None: SystemMessage(role))
    other: BaseChatModel = FakeListChatModel(responses=['{"axis": "size", "looks": 2}'])
    caller = AgentCaller({"default": model, "critic": other}, MemoryJournal())
    assert caller.ask("critic", "plan", Plan, {"axis": "yaw"}).value.axis == "size"
    assert caller.ask("curriculum", "plan", Plan, {"axis": "yaw"}).value.axis == "yaw"
    alone = AgentCaller({"critic": model}, MemoryJournal())
    with pytest.raises(UnknownName, match="no model for a role named 'refuter'"):
        alone.ask("refuter", "plan", Plan, {})


def test_a_run_database_is_a_journal(
    model: OfflineChatModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(caller_module, "system", lambda role, values=None: SystemMessage(role))
    with RunDb(tmp_path / "run.db") as db:
        caller = AgentCaller(model, db)
        db.begin_node("r01:plan")
        caller.at("r01:plan").ask("curriculum", "plan", Plan, {"axis": "yaw"}, links={"mode": "m1"})
        before = db.rows(AgentCallRow)
        assert db.begin_node("r01:plan").replayable_calls == 1
        again = caller.at("r01:plan").ask("curriculum", "plan", Plan, {"axis": "yaw"})
        assert again.replayed
        assert db.rows(AgentCallRow) == before
        db.begin_node("r01:plan")
        caller.at("r01:plan").ask("curriculum", "plan", Plan, {"axis": "size"})
        assert sorted(row.abandoned for row in db.rows(AgentCallRow)) == [False, True]


def test_prompt_files_are_rendered_strictly(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "critic.md").write_text("Diagnose $family. It costs $$5.\n", encoding="utf-8")
    (tmp_path / "bad.md").write_text("costs $5", encoding="utf-8")
    (tmp_path / "critic.diagnose.md").write_text("Say why.", encoding="utf-8")
    monkeypatch.setattr(prompting, "PROMPTS", tmp_path)
    assert render("critic", {"family": "pick-place"}) == "Diagnose pick-place. It costs $5."
    with pytest.raises(PromptError, match=r"takes \['family'\], but was given \[\]"):
        render("critic")
    with pytest.raises(PromptError, match="was given \\['family', 'x'\\]"):
        render("critic", {"family": "a", "x": "b"})
    with pytest.raises(PromptError, match="stray"):
        render("bad")
    with pytest.raises(UnknownName, match=r"no prompt named 'critik'\. Did you mean 'critic'"):
        render("critik")
    assert prompting.task_text("critic", "diagnose") == "Say why."
    assert prompting.task_text("critic", "other") == "Task: other."


def test_facts_are_plain_json() -> None:
    facts = {
        "a": np.float32(0.5),
        "b": np.arange(2),
        "c": (float("nan"), None),
        "d": Plan(axis="x", looks=1),
    }
    block = facts_block("t", facts)
    assert read_facts(human(block)) == {
        "task": "t", "a": 0.5, "b": [0, 1], "c": [None, None], "d": {"axis": "x", "looks": 1},
    }  # fmt: skip
    with pytest.raises(PromptError, match="facts hold a object"):
        jsonable(object())
    with pytest.raises(PromptError, match="give PNG, JPEG, GIF or WebP"):
        human("look", [b"BM12345678"])
