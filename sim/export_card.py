"""What an export says about itself: a card for people, and the versions a replay depends on."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

PACKAGES = ("coda-robotics", "mujoco", "robosuite", "numpy")
"""A replay gives the same bits with the same versions of these."""

_TEMPLATE = """---
tags:
- LeRobot
task_categories:
- robotics
configs:
- config_name: default
  data_files: data/*/*.parquet
---

# Episodes exported by CoDA

Simulated Franka Panda, LeRobotDataset v3.0, 20 frames a second. Load it with lerobot:
`LeRobotDataset("local/name", root="THIS FOLDER")`.

Row t is what was seen before action t, the action, and what came of it (`next.*`). Base frame of
the robot, metres, radians. Failed episodes may be among them: `next.success` is true in the last
row of a successful one.

{features}

## Replay

`coda/episodes/<index>.json` holds each episode's scene, seed, outcome and exact actions (the
`action` column is rounded to 32 bits), `coda/episodes/<index>.xml` the physics model; its meshes
are relative to the folder that holds the package robosuite.

```python
import json
import numpy as np
from coda.sim.export_common import replay_states, states_digest
from coda.sim.scene import Scene

facts = json.load(open("coda/episodes/000000.json"))
states = replay_states(Scene.model_validate(facts["scene"]), np.array(facts["actions"]))
assert states_digest(states) == facts["states_sha256"]  # same versions, same bits
```

Made with {versions}.
"""


def versions() -> dict[str, str]:
    """Installed versions of `PACKAGES`."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def card(features: Mapping[str, Mapping[str, Any]], cameras: Sequence[str]) -> str:
    """README of a dataset with these features."""
    words = {
        "observation.state": "proprioception: grasp point, x and y axis of the gripper, gap",
        "observation.environment_state": "**privileged**: true pose and size of every object; "
        "a policy that reads it cannot run on a robot",
        "action": "displacement / 0.05 m, axis-angle / 0.5 rad, gripper (> 0 closes), in [-1, 1]",
    }
    words |= {f"observation.images.{name}": f"{name} camera, RGB" for name in cameras}
    lines = ["| feature | shape | what |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {features[name]['shape']} | {text} |" for name, text in words.items()
              if name in features]  # fmt: skip
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    return _TEMPLATE.format(features="\n".join(lines), versions=made)
