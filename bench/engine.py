"""Speed of the simulator: ours on one and on all threads, the raw physics, and stock robosuite.

Run ``python -m coda.bench.engine``; everything is measured in one run on one machine, so the ratios
mean something even where other work slows all of it.
"""

from __future__ import annotations

import argparse
import logging
import os
import time

import mujoco
import numpy as np

from coda.sim.engine import CHUNK, SUBSTEPS, BatchSim
from coda.sim.planner import ScriptedPlanner
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits


def ours(threads: int, scenes: int, chunks: int) -> float:
    """Control steps per second of the batch simulator under the planner's actions."""
    rng = np.random.default_rng(0)
    program = Splits().program(["position", "goal"])
    sim = BatchSim([sample_scene(program, rng) for _ in range(scenes)], threads=threads)
    frame = sim.reset()
    everyone = np.ones(scenes, dtype=np.bool_)
    planner = ScriptedPlanner()
    spent, steps = 0.0, 0
    for _ in range(chunks):
        actions = planner(frame, everyone)
        start = time.perf_counter()
        result = sim.step_chunk(actions)
        spent += time.perf_counter() - start
        steps += int(result.steps.sum())
        frame = result.frame
    sim.close()
    return steps / spent


def raw(scenes: int, chunks: int) -> float:
    """Control steps per second of `mj_step` alone on the same scenes: the limit of one thread."""
    rng = np.random.default_rng(0)
    program = Splits().program(["position", "goal"])
    sim = BatchSim([sample_scene(program, rng) for _ in range(scenes)])
    sim.reset()
    start = time.perf_counter()
    for i in range(scenes):
        mujoco.mj_step(sim.models[i], sim.data(i), SUBSTEPS * CHUNK * chunks)
    return scenes * CHUNK * chunks / (time.perf_counter() - start)


def stock(steps: int) -> float:
    """Control steps per second of robosuite's own Lift environment, without pictures."""
    logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
    import robosuite

    env = robosuite.make(
        "Lift",
        robots="Panda",
        controller_configs=robosuite.load_controller_config(default_controller="OSC_POSE"),
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
        control_freq=20,
        horizon=10 * steps,
    )
    env.reset()
    action = np.zeros(7)
    for _ in range(20):  # its controller is compiled at first use
        env.step(action)
    start = time.perf_counter()
    for _ in range(steps):
        env.step(action)
    return steps / (time.perf_counter() - start)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scenes", type=int, default=32)
    parser.add_argument("--chunks", type=int, default=8)
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    rows = {
        "stock robosuite (Lift)": stock(150),
        "ours, 1 thread": ours(1, args.scenes, args.chunks),
        f"ours, {cores} threads": ours(cores, args.scenes, args.chunks),
        "raw mj_step, 1 thread": raw(args.scenes, args.chunks),
    }
    base = rows["stock robosuite (Lift)"]
    for name, value in rows.items():
        print(f"{name:26}{value:9.0f} control steps/s {value / base:7.1f} x robosuite")


if __name__ == "__main__":
    main()
