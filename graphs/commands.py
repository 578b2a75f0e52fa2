"""What the commands do, apart from reading their options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from coda.graphs.config import RunConfig, make_config, override
from coda.graphs.events import Listener, RunEvent
from coda.graphs.progress import make_view
from coda.graphs.result import RunResult, print_summary
from coda.graphs.runfolder import RunError, amend, find

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
ALLOWANCES = ("models.max_tokens", "models.max_usd", "models.timeout_s", "threads")
"""Settings that a resumed run may change: they decide how far it gets, not what comes out."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of ``coda run``; None leaves the configuration's value alone."""

    preset: str = "laptop"
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    name: str | None = None
    runs_dir: Path = Path("runs")
    rounds: int | None = None
    seed: int | None = None
    model: str | None = None
    base_url: str | None = None
    threads: int | None = None
    memory: str | None = None

    def resolve(self) -> RunConfig:
        """The configuration that these options ask for."""
        models = [f"models.{key}={value}" for key, value in self._models().items() if value]
        return make_config(
            self.preset,
            file=self.config,
            overrides=[*self.overrides, *models],
            name=self.name,
            runs_dir=str(self.runs_dir),
            rounds=self.rounds,
            seed=self.seed,
            threads=self.threads,
            import_memory=self.memory,
        )

    def changed(self) -> list[str]:
        """Options that a resumed run cannot take."""
        given = {
            "--config": self.config,
            "--rounds": self.rounds,
            "--seed": self.seed,
            "--model": self.model,
            "--base-url": self.base_url,
            "--threads": self.threads,
            "--memory": self.memory,
        }
        return [option for option, value in given.items() if value is not None]

    def _models(self) -> dict[str, str | None]:
        return {"default": self.model, "base_url": self.base_url}


def run_command(options: RunOptions, *, resume_run: bool, quiet: bool) -> int:
    """Run or resume with a live view; return the exit status."""
    if resume_run:
        if options.changed():
            raise RunError(
                f"a resumed run keeps its settings; leave out {', '.join(options.changed())}."
            )
        folder = find(options.runs_dir, options.name, unfinished=options.name is None)
        config = with_allowances(folder.read_config(), options.overrides)
    else:
        config = options.resolve()
    from coda.graphs import runner  # seconds of imports, after what can be refused without them

    if resume_run:
        amend(folder, config)
    else:
        folder, config = runner.start(config)
    return _watched(
        config,
        lambda listen: runner.resume(folder.path, on_event=listen),
        folder.path,
        quiet=quiet,
    )


def with_allowances(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """A resumed run's configuration with other limits, which do not change its results.

    Raises:
        RunError: Another setting was given.
    """
    for text in overrides:
        if text.partition("=")[0].strip() not in ALLOWANCES:
            raise RunError(
                f"a resumed run keeps its settings; --set {text!r} is not one of "
                f"{', '.join(ALLOWANCES)}."
            )
    return override(config, overrides)


def _watched(
    config: RunConfig, go: Callable[[Listener], RunResult], path: Path, *, quiet: bool
) -> int:
    console = Console(emoji=False)
    heard: list[RunEvent] = []
    try:
        with make_view(console, config.rounds, quiet=quiet) as view:

            def listen(event: RunEvent) -> None:
                heard.append(event)
                view(event)

            result = go(listen)
    except KeyboardInterrupt:
        at = next((f" in round {e.round}, {e.node}" for e in reversed(heard) if e.node), "")
        command = f"coda run --resume --name {path.name}"
        if path.parent != Path("runs"):
            command += f" --runs-dir {path.parent}"
        print(f"coda: stopped{at}; go on with '{command}'.", file=sys.stderr)
        return INTERRUPTED
    print_summary(console, result)
    return 0
