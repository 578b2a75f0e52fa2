"""`CodaVectorEnv`: many episodes in one batch of the engine, as a Gymnasium vector environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from coda.sim.errors import SimulationError
from coda.sim.frame import SimFrame
from coda.sim.gym_env import CodaEnv, check_render_mode, reset_info, step_info
from coda.sim.gym_obs import (
    STATE_DIM,
    STATE_NAMES,
    Observation,
    ObsType,
    Vector,
    action_space,
    check_action,
    check_size,
    episode_limit,
    observation_space,
    pack_observation,
    state_vector,
)
from coda.sim.gym_scenes import Drawn, ScenesOption, SceneSource
from coda.sim.gym_stage import Stage
from coda.sim.gym_view import View
from coda.sim.predicates import Bool
from coda.sim.render import FAST, FILM, Image
from coda.sim.scene import Scene

StepResult = tuple[Observation, npt.NDArray[np.float64], Bool, Bool, dict[str, Any]]


def autoreset(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode of that name. Raises `SimulationError` if there is none."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(one.value for one in AutoresetMode)
        raise SimulationError(f"autoreset_mode = {mode!r}; allowed: {known}.") from None


class CodaVectorEnv(VectorEnv[Observation, Any, npt.NDArray[Any]]):
    """`num_envs` episodes side by side; a step is one vectorised call of the engine.

    It does what as many `CodaEnv` behind `gymnasium.vector.SyncVectorEnv` do, bit for bit: the
    same scenes from the same seeds (environment i of seed s is that of seed s + i), states,
    infos and autoreset. Scenes for the next episodes are built ahead, see `coda.sim.gym_stage`.

    Autoreset (``metadata["autoreset_mode"]``): ``NextStep`` resets an environment in the step after
    its last one, whose action it ignores; ``SameStep`` in its last step, with the last observation
    and info in ``infos["final_obs"]`` and ``infos["final_info"]``; ``Disabled`` never: reset with
    ``options={"reset_mask": ...}``, a boolean array (num_envs,), which works in every mode.
    ``options={"scene": ...}`` plays one scene, or its index, in every environment that is reset;
    a list gives each its own.

    Args:
        num_envs: Number of environments B.
        max_episode_steps: Control steps after which an episode is truncated: the longest limit of
            the family's tasks where None, -1 for no limit.
        autoreset_mode: See above.
        threads: Worker threads for physics; results do not depend on it.
        ahead: Scenes that lie ready for each environment, each about 2 MiB of memory.

    The others are those of `CodaEnv`.
    """

    # gymnasium reads it of the class, and declares it as an instance's
    metadata: dict[str, Any] = {  # noqa: RUF012
        **CodaEnv.metadata,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 1,
        ahead: int = 2,
        family: str = "pick-place",
        scenes: ScenesOption = "seed",
        task: str | None = None,
        guard: bool = True,
        obs_type: ObsType = "state",
        image_size: tuple[int, int] = (128, 128),
        render_mode: str | None = None,
        render_size: tuple[int, int] = (256, 256),
    ) -> None:
        self.closed = True  # until there is something to close
        for name, count, least in (
            ("num_envs", num_envs, 1),
            ("threads", threads, 1),
            ("ahead", ahead, 0),
        ):
            if count < least:
                raise SimulationError(f"{name} = {count}; give at least {least}.")
        self.num_envs = num_envs
        self._mode = autoreset(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self._mode}
        self._source = SceneSource(family, scenes, task=task, guard=guard)
        self._limit = episode_limit(max_episode_steps, self._source.family)
        self.single_observation_space = observation_space(obs_type, image_size)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = action_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = check_render_mode(render_mode)
        self._obs_type: ObsType = obs_type
        self._cameras = [View(image_size, FAST) for _ in range(num_envs)]
        self._screens = [
            View(check_size("render_size", render_size), FILM) for _ in range(num_envs)
        ]
        rngs = [seeding.np_random()[0] for _ in range(num_envs)]
        self._stage = Stage(self._source, rngs, ahead=ahead, threads=threads)
        self._state: Vector = np.zeros((num_envs, STATE_DIM), dtype=np.float32)
        self._pictures: list[dict[str, Image]] = [{} for _ in range(num_envs)]
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._done = np.zeros(num_envs, dtype=np.bool_)
        self.closed = False

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
        """Name of every entry of a state vector (N,)."""
        return STATE_NAMES

    @property
    def frame(self) -> SimFrame:
        """The full present states, one row for each environment."""
        return self._begun().frame()

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """Generators of the environments; ahead of the episodes by the scenes drawn ahead."""
        # a tuple, as `SyncVectorEnv` has it
        return self._stage.rngs

    def _begun(self) -> Stage:
        if not self._stage.ready:
            raise SimulationError("no episodes have begun; call reset() first.")
        return self._stage

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of ``options["reset_mask"]``.

        Args:
            seed: Seed s gives environment i the seed s + i; a list gives each its own.
            options: ``scene`` and ``reset_mask``, see the class.

        Raises `CodaError` for unusable seeds, masks or scenes.
        """
        wanted = dict(options or {})
        envs = self._masked(wanted.pop("reset_mask", None))
        self._seed(seed, envs)
        infos = self._begin(envs, self._given(wanted.get("scene"), envs))
        return self._observation(), infos

    def _masked(self, mask: Any) -> list[int]:
        if mask is None:
            return list(range(self.num_envs))
        chosen = np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_ or not chosen.any():
            raise SimulationError(
                f"options['reset_mask'] = {mask!r:.60}; give a boolean array of shape "
                f"({self.num_envs},) with at least one True."
            )
        if not chosen.all():
            self._begun()
        return np.flatnonzero(chosen).tolist()

    def _seed(self, seed: int | Sequence[int | None] | None, envs: Sequence[int]) -> None:
        if seed is None:
            return
        seeds = (
            [int(seed) + i for i in range(self.num_envs)]
            if isinstance(seed, int | np.integer)
            else list(seed)
        )
        if len(seeds) != self.num_envs:
            raise SimulationError(
                f"{len(seeds)} seeds for {self.num_envs} environments; give one seed, or one each."
            )
        for env in envs:
            if seeds[env] is not None:
                self._stage.seed(env, seeding.np_random(seeds[env])[0])

    def _given(self, scene: Any, envs: Sequence[int]) -> dict[int, Drawn]:
        if scene is None:
            return {}
        if isinstance(scene, Scene | int | np.integer):
            return dict.fromkeys(envs, self._source.pick(scene))
        scenes = list(scene)
        if len(scenes) != self.num_envs:
            raise SimulationError(
                f"options['scene'] has {len(scenes)} entries for {self.num_envs} environments."
            )
        return {env: self._source.pick(scenes[env]) for env in envs}

    def _begin(
        self,
        envs: Sequence[int],
        given: Mapping[int, Drawn] | None = None,
        infos: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Begin episodes, observe them, and return `infos` with theirs."""
        self._done[list(envs)] = True  # until it has worked
        self._stage.begin(envs, given)
        self._done[list(envs)] = False
        self._elapsed[list(envs)] = 0
        self._look(envs, self._stage.frame())
        infos = {} if infos is None else infos
        for env in envs:
            infos = self._add_info(infos, reset_info(self._stage.drawn(env)), env)
        return infos

    def _look(self, envs: Sequence[int], frame: SimFrame) -> None:
        """Observe the present states of `envs`, which are finite; `frame` holds everybody's."""
        rows = list(envs)
        self._state[rows] = state_vector(frame[rows])
        if self._obs_type != "state":
            for env in envs:
                drawn, qpos = self._stage.drawn(env), self._stage.qpos(env)
                self._pictures[env] = self._cameras[env].pictures(drawn, qpos)

    def _one(self, env: int) -> Observation:
        pictures = {name: picture.copy() for name, picture in self._pictures[env].items()}
        return pack_observation(self._obs_type, self._state[env].copy(), pictures)

    def _observation(self) -> Observation:
        """The batched observation, a copy."""
        if self._obs_type == "state":
            return self._state.copy()
        space, n = self.single_observation_space, self.num_envs
        items = [self._one(env) for env in range(n)]
        out: Any = create_empty_array(space, n)
        return concatenate(space, items, out)

    def step(self, actions: Any) -> StepResult:
        """One control step in every environment that plays, actions (B, 7).

        Raises `SimulationError` for actions of a wrong shape or with an entry that is not finite,
        before the first reset, and in ``Disabled`` mode when an episode has ended.
        """
        stage = self._begun()
        resting = np.flatnonzero(self._done).tolist()
        if resting and self._mode is AutoresetMode.DISABLED:
            raise SimulationError(
                f"the episodes of environments {resting} have ended; "
                "reset them with options={'reset_mask': ...} before the next step()."
            )
        active = ~self._done
        playing = np.flatnonzero(active).tolist()
        moves = check_action(actions, (self.num_envs, 7), playing)
        success = np.zeros(self.num_envs, dtype=np.bool_)
        crashed = success.copy()
        if playing:
            result = stage.step(moves, active)
            success, crashed = result.success & active, result.crashed & active
            self._elapsed[playing] += 1
            self._look([env for env in playing if not crashed[env]], result.frame)
        terminated = success | crashed
        truncated = active & (self._elapsed >= self._limit)
        self._done = terminated | truncated
        infos = self._infos(playing, success, crashed)
        if resting:  # NEXT_STEP: their action was ignored
            infos = self._begin(resting, infos=infos)
        return self._observation(), success.astype(np.float64), terminated, truncated, infos

    def _infos(self, playing: Sequence[int], success: Bool, crashed: Bool) -> dict[str, Any]:
        """Infos of a control step; `SAME_STEP` begins the next episodes here."""
        over = [env for env in playing if self._done[env]]
        again = self._mode is AutoresetMode.SAME_STEP and bool(over)
        infos: dict[str, Any] = {}
        for env in playing:
            info = step_info(self._stage.drawn(env), bool(success[env]), bool(crashed[env]))
            if again and self._done[env]:
                info = {"final_obs": self._one(env), "final_info": info}
            infos = self._add_info(infos, info, env)
        return self._begin(over, infos=infos) if again else infos

    def render(self) -> tuple[Image, ...] | None:
        """Pictures (H, W, 3) of the agent views; None without a render mode."""
        if self.render_mode is None:
            return None
        stage = self._begun()
        return tuple(
            screen.draw(stage.drawn(env), stage.qpos(env))
            for env, screen in enumerate(self._screens)
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Free the renderers and the batch."""
        del kwargs  # Unused.
        for view in (*self._cameras, *self._screens):
            view.close()
        self._stage.close()
