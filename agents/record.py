"""One agent call from its number to its recorded row; replay after an interruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from pydantic import BaseModel, ValidationError

from coda.agents.budget import Budget, BudgetExhausted
from coda.agents.journal import CallJournal
from coda.agents.models import ModelInfo
from coda.agents.prices import Price, price_of
from coda.agents.prompting import image_hash, image_type, jsonable, prompt_hash, transcript
from coda.agents.redact import Redactor
from coda.agents.session import CallFailed, CallSession
from coda.agents.structured import StrategyMemory
from coda.agents.transport import Sender
from coda.memory.rows import AgentCallRow, CallStatus, Json, call_id
from coda.sim.errors import CodaError

T = TypeVar("T", bound=BaseModel)

REPLAYABLE = frozenset({"ok", "retried"})
"""Statuses of recorded calls that are answered from the journal; failures are asked anew."""
FREE = Price(0.0, 0.0)


class NoAnswer(CodaError):
    """No valid answer after every bounded retry; the node takes a recorded fallback."""

    def __init__(self, message: str, *, call_id: str, status: CallStatus) -> None:
        super().__init__(message)
        self.call_id = call_id
        """The recorded call, which says what went wrong."""
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Answer(Generic[T]):
    """A valid answer."""

    value: T
    call_id: str
    status: CallStatus
    """``ok``, or ``retried`` where something went wrong first."""
    attempts: int
    replayed: bool = False
    """True where it came from the journal of an interrupted attempt."""


@dataclass
class Shared:
    """What the callers of all nodes share."""

    models: Mapping[str, BaseChatModel]
    journal: CallJournal
    budget: Budget
    prices: Mapping[str, Price]
    sender: Sender
    redactor: Redactor
    image_dir: Path | None
    max_attempts: int
    max_tool_calls: int
    memory: StrategyMemory = field(default_factory=StrategyMemory)


class OpenCall:
    """One call from its number to its row; as a context it records whatever happens inside."""

    def __init__(
        self,
        shared: Shared,
        node_key: str,
        seq: int,
        *,
        role: str,
        task: str,
        info: ModelInfo,
        links: Json,
    ) -> None:
        self._shared = shared
        self.node_key = node_key
        self.seq = seq
        self.call_id = call_id(self.node_key, self.seq)
        self.role, self.task, self.links = role, task, links
        own = info.provider == "offline"
        price = FREE if own else price_of(info.name, self._shared.prices)
        if info.endpoint is not None:  # a server of one's own has no list price
            price = self._shared.prices.get(info.name)
        self.session = CallSession(
            info=info, sender=self._shared.sender, budget=self._shared.budget, price=price
        )
        self.answer: Any = None
        self.status: CallStatus = "ok"
        self._sha = ""
        self._start_s = 0.0

    def open(
        self, messages: Sequence[BaseMessage], images: Sequence[bytes], asked: dict[str, Any]
    ) -> str:
        """Write the prompt down; returns its hash."""
        entries = transcript(messages)
        paths = {image_hash(data): self._keep(data) for data in images}
        for entry in entries:
            for image in entry.get("images", ()):
                image["path"] = paths.get(image["sha256"])
        self.session.entries.extend(entries)
        self._sha = prompt_hash(
            {
                **asked,
                "messages": self._shared.redactor.value(transcript(messages)),
                "tools": [tool.name for tool in asked["tools"]],
                "model": self.session.info.label,
            }
        )
        self._start_s = self._shared.sender.clock()
        return self._sha

    def replay(self, schema: type[T], sha: str) -> Answer[T] | None:
        """The answer of an interrupted attempt to this very prompt, taken up again."""
        row = self._shared.journal.find_replay(self.node_key, self.seq, sha)
        if row is None or row.status not in REPLAYABLE:
            return None
        try:
            value = schema.model_validate(row.answer)
        except ValidationError:
            return None  # recorded by another version of the schema
        self._shared.journal.reinstate(row.call_id)
        return Answer(
            value=value,
            call_id=row.call_id,
            status=row.status,
            attempts=row.attempts,
            replayed=True,
        )

    def __enter__(self) -> OpenCall:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        session = self.session
        if error is None:
            if session.tools_failed:
                self._shared.memory.learn_lack(session.info.label, "tools")
            clean = session.attempts <= 1 and not any(e["role"] == "note" for e in session.entries)
            self.status = "ok" if clean else "retried"
            self._record()
        elif isinstance(error, CallFailed):
            self.status = "refused" if error.refused else "error"
            self._record(failure=str(error))
            reason = self._shared.redactor.text(str(error))
            raise NoAnswer(
                f"{self.role}: no answer to {self.task!r} from {session.info.label}: {reason}",
                call_id=self.call_id,
                status=self.status,
            ) from None
        elif isinstance(error, BudgetExhausted) and session.requests:
            self.status = "error"
            self._record(failure=str(error))

    def _record(self, failure: str | None = None) -> None:
        session = self.session
        if failure is not None:
            session.note("no-answer", failure)
        clean = self._shared.redactor.value
        self._shared.journal.add(
            AgentCallRow(
                call_id=self.call_id,
                node_key=self.node_key,
                seq=self.seq,
                role=self.role,
                task=self.task,
                model=session.info.label,
                prompt_sha=self._sha,
                messages=tuple(clean(jsonable(session.entries))),
                answer=clean(jsonable(self.answer)),
                tool_calls=tuple(clean(jsonable(session.tool_calls))),
                tokens_in=session.tokens_in,
                tokens_out=session.tokens_out,
                cost_usd=session.cost_usd,
                seconds=round(self._shared.sender.clock() - self._start_s, 6),
                status=self.status,
                attempts=max(1, session.attempts),
                links=clean(jsonable(self.links)),
            )
        )

    def _keep(self, data: bytes) -> str | None:
        """Keep an image under its hash; returns its path relative to the folder's parent."""
        folder = self._shared.image_dir
        if folder is None:
            return None
        path = folder / f"{image_hash(data)}.{image_type(data).removeprefix('image/')}"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_bytes(data)
            part.replace(path)
        return f"{folder.name}/{path.name}"
