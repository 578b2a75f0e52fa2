"""`CodaEnv`: one scene after another as a Gymnasium environment, for any task family."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from coda.sim.engine import CONTROL_HZ
from coda.sim.errors import SimulationError
from coda.sim.frame import SimFrame
from coda.sim.gym_obs import (
    STATE_DIM,
    STATE_NAMES,
    Observation,
    ObsType,
    Vector,
    action_space,
    check_action,
    check_size,
    observation_space,
    pack_observation,
    state_vector,
)
from coda.sim.gym_scenes import Drawn, ScenesOption, SceneSource
from coda.sim.gym_stage import Stage
from coda.sim.gym_view import View
from coda.sim.render import FAST, FILM, Image
from coda.sim.scene import Scene

RENDER_MODES = ("rgb_array",)
_EVERYONE = np.ones(1, dtype=np.bool_)


def check_render_mode(render_mode: str | None) -> str | None:
    """The mode. Raises `SimulationError` if it is not one of `RENDER_MODES` or None."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise SimulationError(
            f"render_mode = {render_mode!r}; allowed: {', '.join(RENDER_MODES)}, or none."
        )
    return render_mode


def reset_info(drawn: Drawn) -> dict[str, Any]:
    """Info of a reset: the scene's digest, its index in the list of scenes, its task and words."""
    return {
        "scene": drawn.digest,
        "scene_index": drawn.index,
        "task": drawn.scene.tau.task,
        "instruction": drawn.scene.tau.instruction,
    }


def step_info(drawn: Drawn, success: bool, crashed: bool) -> dict[str, Any]:
    """Info of a control step."""
    return {"is_success": success, "crashed": crashed, "scene": drawn.digest}


class CodaEnv(gymnasium.Env[Observation, Any]):
    """Panda manipulation, one control step (20 Hz) at a time.

    Actions (7,) in [-1, 1]: displacement of the gripper / 0.05 m, rotation (axis-angle) / 0.5 rad,
    both in the robot's base frame; then the gripper: below 0 opens, above 0 closes, 0 leaves it.
    Larger numbers are clipped. Observations: `coda.sim.gym_obs`.

    The reward is 1 in the step in which the scene's verifier has held for its hold time, else 0.
    That terminates the episode; so does a state of the physics that is not finite, which says
    nothing about the policy: then ``info["crashed"]`` is True, and the observation is the last
    finite one. Every step's info holds ``is_success``, ``crashed`` and ``scene`` (digest), a
    reset's ``scene``, ``scene_index``, ``task`` and ``instruction``.

    What is random is which scene an episode plays: ``reset(seed=...)`` fixes the sequence.
    ``reset(options={"scene": ...})`` plays one `Scene`, or the one with that index in `scenes`.

    Args:
        family: Task family.
        scenes: ``"seed"``, ``"in"``, ``"ood"``, a generation program, a list of scenes or a scene.
        task: Only this task of the family; all of them where None.
        guard: Scenes from a program avoid the cells held out for evaluation.
        obs_type: ``"state"``, ``"pixels"`` or ``"pixels_state"``.
        image_size: Height and width of the cameras' pictures in observations.
        render_mode: ``"rgb_array"`` or None.
        render_size: Height and width of the pictures of `render`.
    """

    # gymnasium reads it of the class, and declares it as an instance's
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": list(RENDER_MODES),
        "render_fps": round(CONTROL_HZ),
    }

    def __init__(
        self,
        *,
        family: str = "pick-place",
        scenes: ScenesOption = "seed",
        task: str | None = None,
        guard: bool = True,
        obs_type: ObsType = "state",
        image_size: tuple[int, int] = (128, 128),
        render_mode: str | None = None,
        render_size: tuple[int, int] = (256, 256),
    ) -> None:
        self._source = SceneSource(family, scenes, task=task, guard=guard)
        self.observation_space = observation_space(obs_type, image_size)
        self.action_space = action_space()
        self.render_mode = check_render_mode(render_mode)
        self._obs_type: ObsType = obs_type
        self._camera = View(image_size, FAST)
        self._screen = View(check_size("render_size", render_size), FILM)
        self._stage = Stage(self._source, [np.random.default_rng()])
        self._seeded: np.random.Generator | None = None
        self._running = False
        self._state: Vector = np.zeros(STATE_DIM, dtype=np.float32)
        self._pictures: dict[str, Image] = {}

    @property
    def family(self) -> str:
        """Name of the task family."""
        return self._source.family

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """The list that scenes are taken from; empty where a program draws them."""
        return self._source.scenes

    @property
    def state_names(self) -> tuple[str, ...]:
        """Name of every entry of the state vector (N,)."""
        return STATE_NAMES

    @property
    def scene(self) -> Scene:
        """The scene of this episode. Raises `SimulationError` before the first reset."""
        return self._begun().drawn(0).scene

    @property
    def frame(self) -> SimFrame:
        """The full present state, B = 1: what planners, predicates and potentials read."""
        return self._begun().frame()

    def _begun(self) -> Stage:
        if not self._stage.ready:
            raise SimulationError("no episode has begun; call reset() first.")
        return self._stage

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode, in the next scene or in ``options["scene"]``.

        Raises `CodaError` if there is no such scene or none can be drawn.
        """
        super().reset(seed=seed)
        if self.np_random is not self._seeded:
            self._seeded = self.np_random
            self._stage.seed(0, self.np_random)
        wanted = (options or {}).get("scene")
        given = {} if wanted is None else {0: self._source.pick(wanted)}
        self._running = False
        self._stage.begin([0], given)
        self._running = True
        return self._look(), reset_info(self._stage.drawn(0))

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One control step. The time limit is `gymnasium.make`'s, so `truncated` is False here.

        Raises `SimulationError` for an action of a wrong shape or with an entry that is not finite,
        and when the episode has ended or none has begun.
        """
        stage = self._begun()
        if not self._running:
            raise SimulationError("the episode has ended; call reset() before the next step().")
        result = stage.step(check_action(action, (7,))[None], _EVERYONE)
        success, crashed = bool(result.success[0]), bool(result.crashed[0])
        self._running = not (success or crashed)
        info = step_info(stage.drawn(0), success, crashed)
        seen = self._last() if crashed else self._look()
        return seen, float(success), success or crashed, False, info

    def _look(self) -> Observation:
        """Observe the present state, which is finite."""
        stage = self._stage
        self._state = state_vector(stage.frame())[0]
        if self._obs_type != "state":
            self._pictures = self._camera.pictures(stage.drawn(0), stage.qpos(0))
        return self._last()

    def _last(self) -> Observation:
        """The last observation, as a copy."""
        pictures = {name: picture.copy() for name, picture in self._pictures.items()}
        return pack_observation(self._obs_type, self._state.copy(), pictures)

    def render(self) -> Image | None:
        """Picture (H, W, 3) of the agent view; None without a render mode."""
        if self.render_mode is None:
            return None
        stage = self._begun()
        return self._screen.draw(stage.drawn(0), stage.qpos(0))

    def close(self) -> None:
        """Free the renderers and the batch; may be called again."""
        self._camera.close()
        self._screen.close()
        self._stage.close()
