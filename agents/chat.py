"""`ChatSession`: a conversation with the curriculum agent about a run, finished or going."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage

from coda.agents.budget import Budget
from coda.agents.caller import AgentCaller
from coda.agents.chat_tools import curriculum_tools
from coda.agents.models import make_model
from coda.agents.prompting import facts_block, human, render
from coda.memory.rows import DirectiveRow, NodeRunRow
from coda.memory.rundb import RunDb
from coda.sim.roles import AXES
from coda.tools.run_facts import latest_modes, run_facts

ROLE = "curriculum"
TASK = "chat"
MAX_TOOL_CALLS = 12
"""Tool calls of one turn."""
KEPT_MESSAGES = 40
"""Messages of earlier turns that a model is sent again, at most."""


@dataclass(frozen=True, kw_only=True)
class ChatReply:
    """One answered turn."""

    text: str
    directives: tuple[str, ...]
    """Ids of directives that this turn recorded."""
    undone: tuple[str, ...]
    """Ids of directives that this turn took back."""
    call_id: str
    """The recorded agent call; ``coda trace`` shows it in full."""


class ChatSession:
    """A conversation. Opens the run's database; close it, or use it in a ``with`` block.

    Any number of conversations may go on while the run goes in another process: they write
    directives and their own journal, nothing else.
    """

    def __init__(
        self,
        run_dir: Path | str,
        model: BaseChatModel | str = "offline",
        *,
        base_url: str | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Open a run.

        Args:
            run_dir: The run's folder.
            model: A chat model, or its name as for ``coda run --model``.
            base_url: An OpenAI-compatible server.
            budget: Caps on tokens and money; none by default.

        Raises:
            RunDbError: There is no run database, or it is of another version.
            CodaError: The model cannot be made (no key, unknown name).
        """
        self.run_dir = Path(run_dir)
        chosen = make_model(model, base_url=base_url) if isinstance(model, str) else model
        self.db = RunDb(self.run_dir / "run.db", create=False)
        self._agents = AgentCaller(chosen, self.db, budget, max_tool_calls=MAX_TOOL_CALLS)
        self._history: list[BaseMessage] = []
        self._caller: AgentCaller | None = None

    @property
    def label(self) -> str:
        """What answers, e.g. ``offline (rules)``."""
        return self._agents.info_of(ROLE).label

    def send(self, message: str, on_text: Callable[[str], None] | None = None) -> ChatReply:
        """One turn.

        Args:
            message: What the person says.
            on_text: Called with pieces of the reply as they come.

        Raises:
            NoAnswer: The model could not be reached or said nothing; the conversation goes on.
            BudgetExhausted: Before a request.
        """
        caller = self._begun()
        before = {row.directive_id: row.status for row in self.db.rows(DirectiveRow)}
        asked = human(f"{message}\n\n{facts_block(TASK, self._facts(message))}")
        opening = SystemMessage(content=f"{render(ROLE)}\n\n{render(f'{ROLE}.{TASK}')}")
        spoken = caller.converse(
            ROLE,
            [opening, *self._recent(), asked],
            curriculum_tools(self.db, self.run_dir, caller.node_key),
            links={"message": message[:300]},
            task=TASK,
            on_text=on_text,
        )
        self._history += [human(message), *spoken.messages]
        after = self.db.rows(DirectiveRow)
        return ChatReply(
            text=spoken.text,
            directives=tuple(r.directive_id for r in after if r.directive_id not in before),
            undone=tuple(
                r.directive_id
                for r in after
                if r.status == "undone" and before.get(r.directive_id, "undone") != "undone"
            ),
            call_id=spoken.call_id,
        )

    def close(self) -> None:
        """End the conversation."""
        if self._caller is not None:
            self.db.finish_node(self._caller.node_key)
            self._caller = None
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begun(self) -> AgentCaller:
        """The caller of this conversation's journal node, which begins with the first turn."""
        if self._caller is None:
            with self.db.transaction():
                number = self.db.count(NodeRunRow, node="chat") + 1
                key = f"chat:{number:03d}"
                self.db.begin_node(key)
            self._caller = self._agents.at(key)
        return self._caller

    def _recent(self) -> list[BaseMessage]:
        """Earlier messages, from the first that a person wrote."""
        recent = self._history[-KEPT_MESSAGES:]
        while recent and recent[0].type != "human":
            recent = recent[1:]
        return recent

    def _facts(self, message: str) -> dict[str, Any]:
        """What stands in the prompt; everything else comes through tools."""
        run = run_facts(self.db, self.run_dir)
        live = [row.directive_id for row in self.db.rows(DirectiveRow) if row.status != "undone"]
        shown = ("run", "family", "state", "finished", "round", "rounds", "schedule", "band")
        return {
            "message": message,
            "run": {**{key: run[key] for key in shown}, "live_directives": live},
            "modes": [mode.mode_id for mode in latest_modes(self.db)],
            "axes": list(AXES),
        }
