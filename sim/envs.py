"""Registers the environments when it is imported, as Gymnasium's module syntax asks for.

``gymnasium.make("coda.sim.envs:coda/PickPlace-v0")`` needs no other line of code. This is the one
module that does something on import; all others leave it to `coda.sim.gym_register.register`.
"""

from coda.sim.gym_register import register

register()
