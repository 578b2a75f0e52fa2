"""What ``coda chat`` does: a conversation in the terminal, or given messages and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from coda.agents.budget import BudgetExhausted
from coda.agents.chat import ChatSession
from coda.agents.record import NoAnswer
from coda.graphs.runfolder import find


def chat_command(
    runs_dir: Path,
    run: str | None,
    model: str | None,
    base_url: str | None,
    messages: tuple[str, ...],
) -> None:
    """Converse until an empty line, or say `messages` and print the answers."""
    folder = find(runs_dir, run)
    models = folder.read_config().models
    console = Console(highlight=False, emoji=False, markup=False)
    with ChatSession(
        folder.path,
        model or models.for_role("curriculum"),
        base_url=base_url or models.base_url,
    ) as session:
        console.print(f"{folder.path.name}: the curriculum agent, {session.label}", style="bold")
        for message in messages or _typed():
            if messages:
                console.print(f"> {message}", markup=False)
            _turn(session, message, console)


def _typed() -> Iterator[str]:
    """Lines that a person types, until an empty one."""
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if line.lower() in ("", "exit", "quit"):
            return
        yield line


def _turn(session: ChatSession, message: str, console: Console) -> None:
    try:
        reply = session.send(
            message, lambda piece: console.print(piece, end="", markup=False, soft_wrap=True)
        )
    except (NoAnswer, BudgetExhausted) as error:
        console.print(f"(no answer: {error})", markup=False, soft_wrap=True)
        return
    console.print()
    for words, ids in (("recorded", reply.directives), ("took back", reply.undone)):
        if ids:
            console.print(f"({words} {', '.join(ids)})", style="dim")
