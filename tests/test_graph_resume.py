"""A run that is killed, again and again, ends with the same result as one that never was."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys
from coda.graphs.config import make_config
from coda.graphs.runfolder import RunFolder
from coda.graphs.runner import resume, run
from pathlib import Path

runs, overrides, kind, key = sys.argv[1], sys.argv[2].split(), sys.argv[3], sys.argv[4]

def listen(event):
    if event.kind == kind and f"r{event.round:02d}:{event.node}" == key:
        os.kill(os.getpid(), signal.SIGKILL)

folder = Path(runs) / "x"
if RunFolder(folder).config.exists():
    resume(folder, on_event=listen)
else:
    run(make_config("debug", overrides=overrides, runs_dir=runs, name="x"), on_event=listen)
"""

KILLS = (
    ("step", "r00:seed"),
    ("node-finished", "r01:plan"),
    ("step", "r01:build"),
    ("node-finished", "r01:rollout"),
    ("fact", "r01:diagnose"),
    ("step", "r01:refute"),
    ("fact", "r01:consolidate"),
    ("node-started", "r01:compile"),
    ("step", "r01:compile"),
    ("step", "r01:train"),
    ("node-finished", "r01:train"),
    ("success", "r01:measure"),
    ("node-started", "r02:refute"),
    ("node-finished", "r02:consolidate"),
    ("success", "r02:measure"),
    ("run-ended", "r02:"),
)
"""(event, node run) at which the process kills itself, in the order of the run. The last comes
after the report; ``node-finished`` comes before the graph's checkpoint is written."""

ONLY = {"on": [("step", "r01:refute")], "off": [("step", "r01:compile")]}
"""Events that come only with tests of the diagnoses, or only with modes to compile."""

TABLES = {
    "episodes": "episode_id, node_key, purpose, scene_digest, success, steps, progress, axis, "
    "program, mode_id, detail_json",
    "proposals": "proposal_id, node_key, program_json, accepted, rejected, issues_json, mode_id",
    "agent_calls": "call_id, seq, role, task, prompt_sha, answer_json, status, abandoned",
    "decisions": 'node_key, seq, kind, text, "by", links_json',
    "mode_versions": "mode_id, version, node_key, mode_json",
    "diagnoses": "diagnosis_id, node_key, diagnosis_json",
    "control_tests": "test_id, node_key, verdict, test_json",
    "progress": "node_key, round, split, label, successes, trials",
    "scenes": "digest, node_key",
    "node_runs": "node_key, round, node, status",
}
"""Every table, without times of day, durations and numbers of attempts."""


def go(runs: Path, overrides: Sequence[str], kind: str = "", key: str = "") -> int:
    """Run or resume in a process of its own; its exit status."""
    command = [sys.executable, "-c", SCRIPT, str(runs), " ".join(overrides), kind, key]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise AssertionError(done.stderr)
    return done.returncode


def outcome(run_dir: Path) -> dict[str, object]:
    """All that a run came to: files by hash, tables row by row, the result."""
    files = {
        str(path.relative_to(run_dir)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("policies", "replay", "programs", "rollouts", "episodes", "probes")
        for path in sorted((run_dir / folder).glob("*"))
    }
    with sqlite3.connect(f"file:{run_dir / 'run.db'}?mode=ro", uri=True) as db:
        tables = {
            table: sorted(db.execute(f"SELECT {columns} FROM {table}"), key=repr)
            for table, columns in TABLES.items()
        }
    result = json.loads((run_dir / "result.json").read_text(encoding="utf-8"))
    return {"files": files, "result": result, **tables}


@pytest.mark.slow
@pytest.mark.parametrize("controls", ["on", "off"])
def test_kills_leave_no_trace(tmp_path: Path, controls: str) -> None:
    overrides = [f"switches.controls={controls}"]
    assert go(tmp_path / "whole", overrides) == 0
    killed = 0
    kills = [kill for kill in KILLS if kill not in ONLY[{"on": "off", "off": "on"}[controls]]]
    for kind, key in kills:
        killed += go(tmp_path / "killed", overrides, kind, key) == -signal.SIGKILL
    assert go(tmp_path / "killed", overrides) == 0
    assert killed == len(kills)
    whole, pieces = outcome(tmp_path / "whole" / "x"), outcome(tmp_path / "killed" / "x")
    for part in whole:
        assert pieces[part] == whole[part], part
    assert (tmp_path / "killed" / "x" / "report.html").exists()


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("coda")), "run", "--preset", "debug"]
    started = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # where the tests run in the background, the shell has them ignore the signal
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert started.stdout is not None
    for line in started.stdout:
        if line.startswith("[r01 rollout]"):
            started.send_signal(signal.SIGINT)
            break
    _, errors = started.communicate(timeout=60)
    assert started.returncode == 130
    last = errors.strip().splitlines()[-1]
    assert last.startswith("coda: stopped in round 1, ")
    assert "coda run --resume --name debug-1" in last
    assert "Traceback" not in errors
    resumed = subprocess.run(
        [command[0], "run", "--resume"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "report: runs/debug-1/report.html" in resumed.stdout
