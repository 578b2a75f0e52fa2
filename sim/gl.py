"""Off-screen OpenGL: EGL or OSMesa, chosen by itself, once a process."""

from __future__ import annotations

import ctypes.util
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import mujoco

from coda.sim.errors import SimulationError

BACKENDS = ("egl", "osmesa", "glfw")
GL_HINT = "install one: apt-get install libosmesa6 (or libegl1), or set MUJOCO_GL=egl|osmesa|glfw"

GL_ERRORS = (RuntimeError, AttributeError, ImportError, OSError, mujoco.FatalError)
"""What MuJoCo, PyOpenGL and drivers raise where they cannot draw."""


def _has_gpu() -> bool:
    """Whether a graphics device is there that this user may open."""
    nodes = [*Path("/dev/dri").glob("renderD*"), *Path("/dev").glob("nvidia[0-9]*")]
    return any(os.access(node, os.R_OK | os.W_OK) for node in nodes)


def ensure_gl() -> str:
    """Name of the off-screen GL: `MUJOCO_GL` where set, else EGL with a GPU, else OSMesa, else EGL.

    What PyOpenGL was already bound to in this process stays: it cannot be changed. Raises
    `SimulationError` with the packages to install where none is there.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in BACKENDS:
        return asked
    if asked:
        raise SimulationError(f"MUJOCO_GL = {asked!r}; allowed: {', '.join(BACKENDS)}.")
    if sys.platform in ("darwin", "win32"):
        return "glfw"
    bound = os.environ.get("PYOPENGL_PLATFORM", "").lower()
    if bound in ("egl", "osmesa"):
        return bound
    egl = ctypes.util.find_library("EGL") is not None
    if egl and _has_gpu():
        return "egl"
    if ctypes.util.find_library("OSMesa") is not None:
        return "osmesa"
    if egl:
        return "egl"
    raise SimulationError(f"no off-screen OpenGL found (neither EGL nor OSMesa); {GL_HINT}.")


def open_context(width: int, height: int) -> Any:
    """A current off-screen GL context with `make_current()` and `free()`.

    MuJoCo fixes its own choice when it is imported; this one is made when it is needed. Raises
    `SimulationError` in one line where the driver refuses.
    """
    backend = ensure_gl()
    if backend == "glfw" and not has_screen():
        raise SimulationError("MUJOCO_GL = 'glfw' needs a screen; unset it, or set egl or osmesa.")
    try:
        kind: Any = importlib.import_module(f"mujoco.{backend}").GLContext
        if not hasattr(kind, "_context"):
            kind._context = None  # its destructor reads it, also after a failed constructor
        context = kind(width, height)
        context.make_current()
    except GL_ERRORS as error:
        raise refused(error) from None
    return context


def refused(error: BaseException) -> SimulationError:
    """What a driver's error means, in one line."""
    words = " ".join(str(error).split()).rstrip(".")
    return SimulationError(f"MuJoCo cannot render with {ensure_gl()}: {words}; {GL_HINT}.")


def has_screen() -> bool:
    """Whether a window can be opened here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
