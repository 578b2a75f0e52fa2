"""Speed, growth and memory of the simulator, in one run on one machine.

Run ``python -m coda.bench.engine``. The same kind of scene and the same commands go to stock
robosuite (its Stack environment: a Panda, a table, two free cubes), to our engine on one thread and
on all cores, and to bare `mj_step`, the limit. They take turns chunk by chunk, so that the ratios
mean something even where other work slows all of them.
"""

from __future__ import annotations

import argparse
import functools
import gc
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
import psutil

from coda.bench.engine_scenes import cluttered, scenes_of, variants
from coda.sim.engine import CHUNK, BatchSim, compile_scenes, substeps
from coda.sim.frame import Array
from coda.sim.mjcf import PHYSICS_DT_S, compile_scene
from coda.sim.physics import STATE, Index, RolloutPhysics
from coda.sim.planner import ScriptedPlanner
from coda.sim.scene import Scene
from coda.sim.turns import take_turns

SUBSTEPS = substeps(20.0, PHYSICS_DT_S)
BUILT = 500
"""Scenes built and dropped one after another, to see whether they leave anything behind."""
LIVE = 256
"""Scenes kept alive, each in a batch of its own, to measure what one needs."""


class Recording(RolloutPhysics):
    """Our physics, keeping the commands it was given."""

    def __init__(self, models: Sequence[mujoco.MjModel]) -> None:
        super().__init__(models)
        self.commands: list[Array] = []

    def step(self, rows: Index, ctrl: Array, substeps: int) -> None:
        """Keep the command, then advance."""
        self.commands.append(ctrl.copy())
        super().step(rows, ctrl, substeps)


def endless(
    scenes: Sequence[Scene],
    threads: int,
    *,
    models: Sequence[mujoco.MjModel] | None = None,
    record: bool = False,
) -> BatchSim:
    """A batch, reset, whose verifiers never end an episode."""
    kept = [s.model_copy(update={"nu": s.nu.model_copy(update={"hold_s": 1e6})}) for s in scenes]
    models = compile_scenes(kept, threads=threads) if models is None else models
    physics = Recording(models) if record else RolloutPhysics(models, threads=threads)
    sim = BatchSim(kept, models=models, physics=physics)
    sim.reset()
    return sim


class Raw:
    """Bare `mj_step` under the commands that our engine sent: no control, no reading."""

    def __init__(self, sim: BatchSim) -> None:
        assert isinstance(sim.physics, Recording)
        self._commands = sim.physics.commands
        self._commands.clear()
        self._models = sim.models
        self._datas = [mujoco.MjData(model) for model in sim.models]
        for i, (model, data) in enumerate(zip(self._models, self._datas, strict=True)):
            mujoco.mj_setState(model, data, sim.state(i), STATE)

    def replay(self) -> None:
        """Run the commands recorded since the last call."""
        for ctrl in self._commands:
            for i, data in enumerate(self._datas):
                data.ctrl[:] = ctrl[i]
                mujoco.mj_step(self._models[i], data, SUBSTEPS)
        self._commands.clear()


def stock() -> Any:
    """robosuite's Stack environment without pictures, its controller warmed up."""
    logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
    import robosuite

    env = robosuite.make(
        "Stack",
        robots="Panda",
        controller_configs=robosuite.load_controller_config(default_controller="OSC_POSE"),
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
        control_freq=20,
        horizon=100_000,
    )
    env.reset()
    for _ in range(20):
        env.step(np.zeros(7))
    return env


class Alone:
    """Nothing but physics under commands that stay, each thread with its share of the scenes.

    More threads never gain more in the whole engine than they do here.
    """

    def __init__(self, sim: BatchSim, cores: int) -> None:
        self._physics, self._cores = sim.physics, cores
        self._rows = np.array_split(np.arange(sim.batch), cores)
        width = sim.models[0].nu
        self._ctrl = [np.stack([sim.data(int(i)).ctrl[:width] for i in r]) for r in self._rows]

    def run(self, threads: int) -> None:
        """As many physics steps as a chunk has."""

        def turn(piece: int) -> bool:
            self._physics.step(self._rows[piece], self._ctrl[piece], CHUNK * SUBSTEPS)
            return False

        take_turns([functools.partial(turn, piece) for piece in range(self._cores)], threads)


def timed(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed(scenes: Sequence[Scene], chunks: int, cores: int) -> None:
    """Print control steps per second of everything, and the ratios that matter."""
    one, many = endless(scenes, 1, record=True), endless(scenes, cores)
    raw, env, planner = Raw(one), stock(), ScriptedPlanner()
    alone = Alone(endless(scenes, cores), cores)
    everyone = np.ones(len(scenes), dtype=np.bool_)
    spent = dict.fromkeys(("robosuite", "one", "all", "raw", "alone", "alone all"), 0.0)
    for _ in range(chunks):
        actions = planner(one.frame(), everyone)
        spent["one"] += timed(lambda a=actions: one.step_chunk(a))  # type: ignore[misc]
        spent["raw"] += timed(raw.replay)
        spent["all"] += timed(lambda a=actions: many.step_chunk(a))  # type: ignore[misc]
        spent["alone"] += timed(lambda: alone.run(1))
        spent["alone all"] += timed(lambda: alone.run(cores))
        spent["robosuite"] += timed(lambda a=actions[0]: [env.step(row) for row in a])  # type: ignore[misc]
    if one.frame().pack().tobytes() != many.frame().pack().tobytes():
        raise SystemExit("one thread and all threads disagree: the benchmark means nothing")
    steps = chunks * CHUNK * len(scenes)
    rate = {name: steps / seconds for name, seconds in spent.items()}
    rate["robosuite"] /= len(scenes)
    rows = (
        ("stock robosuite (Stack)", "robosuite"),
        ("ours, 1 thread", "one"),
        (f"ours, {cores} threads", "all"),
        ("raw mj_step, 1 thread", "raw"),
    )
    for title, name in rows:
        times = rate[name] / rate["robosuite"]
        print(f"{title:26}{rate[name]:9.0f} control steps/s {times:7.1f} x robosuite")
    print(f"{'ours / raw':26}{rate['one'] / rate['raw']:9.2f}")
    print(f"{f'{cores} threads / 1 thread':26}{rate['all'] / rate['one']:9.2f}")
    print(f"{'  physics alone':26}{rate['alone all'] / rate['alone']:9.2f}")


def rate_of(sim: BatchSim, chunks: int) -> float:
    """Control steps per second under the planner's commands."""
    planner, everyone, spent = ScriptedPlanner(), np.ones(sim.batch, dtype=np.bool_), 0.0
    for _ in range(chunks):
        actions = planner(sim.frame(), everyone)
        spent += timed(lambda a=actions: sim.step_chunk(a))  # type: ignore[misc]
    return sim.batch * CHUNK * chunks / spent


def growth(scenes: Sequence[Scene], chunks: int, cores: int) -> None:
    """Print how speed grows with the batch, and falls with objects."""
    for count in (1, 4, 16, 64, 256):
        batch = [scenes[i % len(scenes)] for i in range(count)]
        rates = [rate_of(endless(batch, threads), chunks) for threads in (1, cores)]
        print(f"{count:4} scenes   {rates[0]:9.0f} on 1 thread {rates[1]:9.0f} on {cores} threads")
    for objects in (2, 4, 8, 12):
        models = [cluttered(scene, objects) for scene in scenes[:16]]
        rate = rate_of(endless(scenes[:16], 1, models=models), chunks)
        print(f"{objects:4} objects  {rate:9.0f} on 1 thread")


def memory(scenes: Sequence[Scene], resets: int) -> None:
    """Print memory per live scene, growth over many resets, and the cost of building a scene."""
    process = psutil.Process()
    built = []
    for scene in variants(64):
        built.append(timed(lambda s=scene: compile_scene(s)))  # type: ignore[misc]
    print(f"building a variant of a known topology: median {1e3 * np.median(built[8:]):.1f} ms")
    many = variants(LIVE)
    warm = [endless([scene], 1) for scene in many[:16]]
    gc.collect()
    before = process.memory_info().rss
    live = [endless([scene], 1) for scene in many]
    gc.collect()
    grown = process.memory_info().rss - before
    print(f"memory per live scene: {grown / len(live) / 2**20:.2f} MiB ({len(warm)} to warm up)")
    sim = endless(scenes[:8], 1)
    for _ in range(20):
        sim.reset(settle_steps=1)
    before = process.memory_info().rss
    for _ in range(resets // sim.batch):
        sim.reset(settle_steps=1)
    grown = process.memory_info().rss - before
    print(f"growth over {resets} resets: {grown / 2**20:.2f} MiB")
    before = process.memory_info().rss
    for scene in variants(BUILT):
        endless([scene], 1)
    gc.collect()
    grown = process.memory_info().rss - before
    print(f"growth over {BUILT} scenes built and dropped: {grown / 2**20:.2f} MiB")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scenes", type=int, default=64)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--resets", type=int, default=5000)
    parser.add_argument("--part", choices=("all", "speed", "growth", "memory"), default="all")
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    scenes = scenes_of(args.scenes)
    if args.part in ("all", "speed"):
        speed(scenes, args.chunks, cores)
    if args.part in ("all", "growth"):
        growth(scenes, max(2, args.chunks // 3), cores)
    if args.part == "memory":
        memory(scenes, args.resets)
    if args.part == "all":  # in a process of its own, whose memory nothing else has touched
        command = [sys.executable, "-m", "coda.bench.engine", "--part", "memory"]
        subprocess.run([*command, "--resets", str(args.resets)], check=True)


if __name__ == "__main__":
    main()
