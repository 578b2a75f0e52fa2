"""Names of the Gymnasium environments, one for each task family, e.g. ``coda/PickPlace-v0``.

Gymnasium loads no plugins since its version 1.0, so a program says once that it wants them::

    import gymnasium
    from coda.sim.gym_register import register

    register()
    env = gymnasium.make("coda/PickPlace-v0", scenes="in", obs_type="pixels_state")
    envs = gymnasium.make_vec("coda/PickPlace-v0", num_envs=8, threads=2)

or names the module that says so when it is imported, ``coda.sim.envs:coda/PickPlace-v0``.
"""

from __future__ import annotations

import gymnasium

from coda.sim.families import FAMILIES, family
from coda.sim.gym_obs import family_limit

NAMESPACE = "coda"
VERSION = 0


def env_id(family_name: str) -> str:
    """Name of a family's environment. Raises `UnknownName` for a family that does not exist."""
    words = family(family_name).name.split("-")
    return f"{NAMESPACE}/{''.join(word.capitalize() for word in words)}-v{VERSION}"


def register() -> tuple[str, ...]:
    """Make every family known to `gymnasium.make` and `make_vec`; may be called again.

    Returns:
        The names, in the order of the catalogue.
    """
    names = tuple(env_id(name) for name in FAMILIES)
    for name, family_name in zip(names, FAMILIES, strict=True):
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="coda.sim.gym_env:CodaEnv",
                vector_entry_point="coda.sim.gym_vector:CodaVectorEnv",
                max_episode_steps=family_limit(family_name),
                kwargs={"family": family_name},
            )
    return names
