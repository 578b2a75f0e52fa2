"""Which scenes a Gymnasium environment plays: a range, an evaluation file, a program, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coda.sim.errors import SceneError, UnknownName
from coda.sim.families import family
from coda.sim.program import GenerationProgram
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits, evaluation_set

NAMED = ("seed", "in", "ood")
"""Scenes with a name: the seed range, and the frozen evaluation files."""

ScenesOption = str | Scene | GenerationProgram | Sequence[Scene]


@dataclass(frozen=True)
class Drawn:
    """A scene to play."""

    scene: Scene
    index: int
    """Its place in the list that it was taken from; -1 if it is from none."""
    digest: str


def drawn(scene: Scene, index: int = -1) -> Drawn:
    """`scene` with its digest."""
    return Drawn(scene, index, scene.digest())


class SceneSource:
    """Draws the scenes of episodes.

    Args:
        family_name: Task family; every scene is of this family.
        scenes: ``seed`` (drawn from the family's seed range), ``in`` or ``ood`` (the frozen
            evaluation scenes), a generation program, a list of scenes, or one scene.
        task: Play this task of the family only; all of them where None. A program fixes its own.
        guard: Scenes drawn from a program lie in no cell that is held out for evaluation.

    Raises:
        UnknownName: No family, task or set of scenes of that name.
        SceneError: A scene or program of another family, a scene of another task, or an empty list.
    """

    def __init__(
        self,
        family_name: str,
        scenes: ScenesOption,
        *,
        task: str | None = None,
        guard: bool = True,
    ) -> None:
        chosen = family(family_name)
        if task is not None and task not in chosen.tasks:
            raise UnknownName(f"{chosen.name} task", task, chosen.tasks)
        self.family, self._task = chosen.name, task
        self._guard = Splits(family=self.family) if guard else None
        self._program: GenerationProgram | None = None
        self.scenes: tuple[Scene, ...] = ()
        """The list that scenes are taken from; empty where a program draws them."""
        if isinstance(scenes, GenerationProgram):
            self._of_family("the program", scenes.family)
            if task is not None:
                raise SceneError(
                    f"task = {task!r} does not go with a generation program; "
                    "let the program fix tau.task."
                )
            self._program = scenes
        elif isinstance(scenes, Scene):
            self.scenes = (scenes,)
        elif isinstance(scenes, str):
            self._named(scenes)
        else:
            self.scenes = tuple(scenes)
            if not self.scenes:
                raise SceneError("scenes is an empty list; give at least one scene.")
        for i, scene in enumerate(self.scenes):
            self._check(f"scenes[{i}]", scene)
        self._drawn = tuple(drawn(scene, i) for i, scene in enumerate(self.scenes))

    def _named(self, name: str) -> None:
        if name == "seed":
            self._program = Splits(family=self.family).seed_program(self._task)
        elif name in ("in", "ood"):
            frozen = evaluation_set("in" if name == "in" else "ood", self.family).scenes
            self.scenes = tuple(s for s in frozen if self._task in (None, s.tau.task))
        else:
            raise UnknownName("set of scenes", name, NAMED)

    def _of_family(self, what: str, name: str) -> None:
        if name != self.family:
            raise SceneError(
                f"{what} is of family {name!r}; this environment plays {self.family!r}. "
                f"Make the environment of {name!r}."
            )

    def _check(self, what: str, scene: Any) -> Scene:
        if not isinstance(scene, Scene):
            raise SceneError(f"{what} = {scene!r:.60}; give a coda.sim.scene.Scene.")
        self._of_family(what, scene.tau.family)
        if self._task not in (None, scene.tau.task):
            raise SceneError(
                f"{what} is of task {scene.tau.task!r}; this environment plays {self._task!r} only."
            )
        return scene

    def draw(self, rng: np.random.Generator) -> Drawn:
        """The next episode's scene, any of the list with equal chance or one from the program.

        Raises `Rejected` (a `SceneError`) if the program yields none.
        """
        if self._program is not None:
            return drawn(sample_scene(self._program, rng, guard=self._guard))
        return self._drawn[int(rng.integers(len(self._drawn)))]

    def pick(self, wanted: Any) -> Drawn:
        """The scene that a caller asks for: a `Scene`, or its index in `scenes`.

        Raises `SceneError` if there is no such scene.
        """
        if isinstance(wanted, int | np.integer) and not isinstance(wanted, bool):
            if not 0 <= int(wanted) < len(self.scenes):
                have = f"0 to {len(self.scenes) - 1}" if self.scenes else "none, they are drawn"
                raise SceneError(
                    f"options['scene'] = {int(wanted)}; this environment's list has: {have}."
                )
            return self._drawn[int(wanted)]
        return drawn(self._check("options['scene']", wanted))
