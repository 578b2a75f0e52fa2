"""Reads MuJoCo states into the arrays of a `SimFrame`, one scene at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim.assets import half_size
from coda.sim.frame import _SHAPES, N_ROLES, Array, SimFrame
from coda.sim.mjcf import KIND_LEFT, KIND_RIGHT, KIND_ROBOT, KIND_TABLE, PHYSICS_DT_S, Layout
from coda.sim.roles import ROLES
from coda.sim.scene import Scene

_RECEPTACLE = ROLES.index("receptacle")
_CONTROL_DT_S = 10 * PHYSICS_DT_S


class Recorder:
    """Arrays of a batch's frame, filled scene by scene (each scene writes only its own rows)."""

    ee_pos: Array
    command_pos: Array
    command_rot: Array
    gripper_command: Array

    def __init__(
        self,
        models: Sequence[mujoco.MjModel],
        datas: Sequence[mujoco.MjData],
        layouts: Sequence[Layout],
        scenes: Sequence[Scene],
    ) -> None:
        batch = len(models)
        self._models, self._datas = models, datas
        self._arrays = {name: np.zeros((batch, *shape)) for name, shape in _SHAPES.items()}
        for name in ("ee_pos", "command_pos", "command_rot", "gripper_command"):
            setattr(self, name, self._arrays[name])
        self._roles = [np.array(lay.roles) for lay in layouts]
        self._moving = [
            [(r, q, v) for r, q, v in zip(lay.roles, lay.qpos, lay.qvel, strict=True) if v >= 0]
            for lay in layouts
        ]
        self._layouts = layouts
        self._views = [
            (d.xpos, d.xmat.reshape(-1, 3, 3), d.site_xpos, d.site_xmat, d.qpos, d.qvel)
            for d in datas
        ]
        for i, (lay, scene) in enumerate(zip(layouts, scenes, strict=True)):
            for r, role in zip(lay.roles, scene.roles, strict=True):
                self._arrays["half_size"][i, r] = half_size(scene.alpha.objects[role])
                self._arrays["present"][i, r] = 1.0

    def read(self, i: int, *, first: bool = False) -> None:
        """Copy scene i's state: kinematics brought up to date, contacts of the last substep."""
        model, data, lay = self._models[i], self._datas[i], self._layouts[i]
        mujoco.mj_kinematics(model, data)
        a = self._arrays
        xpos, xmat, site_pos, site_mat, qpos, qvel = self._views[i]
        roles = self._roles[i]
        a["pos"][i, roles] = xpos[lay.bodies]
        a["rot"][i, roles] = xmat[lay.bodies]
        tip = site_pos[lay.grip_site]
        a["ee_linvel"][i] = 0.0 if first else (tip - a["ee_pos"][i]) / _CONTROL_DT_S
        a["ee_pos"][i] = tip
        a["ee_rot"][i] = site_mat[lay.grip_site].reshape(3, 3)
        a["gripper_width_m"][i] = qpos[lay.fingers[0]] - qpos[lay.fingers[1]]
        for r, _, v in self._moving[i]:
            a["linvel"][i, r] = qvel[v : v + 3]
            a["angvel"][i, r] = qvel[v + 3 : v + 6]
        a["time_s"][i] = data.time
        self._contacts(i, data, lay)

    def _contacts(self, i: int, data: mujoco.MjData, lay: Layout) -> None:
        a = self._arrays
        for name in ("touch_left", "touch_right", "touch_table", "touch_receptacle"):
            a[name][i] = 0.0
        a["robot_touch_table"][i] = 0.0
        if not data.ncon:
            return
        kinds = lay.geom_kind[data.contact.geom]
        for first, second in set(map(tuple, kinds.tolist())):
            low, high = (first, second) if first < second else (second, first)
            if low < N_ROLES:
                if high == KIND_LEFT:
                    a["touch_left"][i, low] = 1.0
                elif high == KIND_RIGHT:
                    a["touch_right"][i, low] = 1.0
                elif high == KIND_TABLE:
                    a["touch_table"][i, low] = 1.0
                elif low == _RECEPTACLE and high < N_ROLES:
                    a["touch_receptacle"][i, high] = 1.0
                elif high == _RECEPTACLE:
                    a["touch_receptacle"][i, low] = 1.0
            elif low == KIND_TABLE and high in (KIND_LEFT, KIND_RIGHT, KIND_ROBOT):
                a["robot_touch_table"][i] = 1.0

    def finite(self, idx: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the states of scenes `idx` are finite and within 10 m, (n,)."""
        a = self._arrays
        reach = np.abs(a["pos"][idx]).max(axis=(1, 2)) + np.abs(a["ee_pos"][idx]).max(axis=1)
        return np.asarray(np.isfinite(reach) & (reach < 10.0))

    def frame(self) -> SimFrame:
        """A copy of the present arrays."""
        return SimFrame(**{f.name: self._arrays[f.name].copy() for f in fields(SimFrame)})

    def load(self, frame: SimFrame) -> None:
        """Overwrite the arrays, after a restore."""
        for f in fields(SimFrame):
            self._arrays[f.name][:] = getattr(frame, f.name)
