"""Import robosuite without the choices that it makes for the whole process."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading

_NEUTRAL_GL = "glx"
"""The one value under which robosuite binds neither EGL nor OSMesa when it is imported."""

_IMPORTING = threading.Lock()
"""robosuite's modules import each other in circles: two threads at it at once block each other."""


def import_robosuite() -> None:
    """Import robosuite; `MUJOCO_GL` and PyOpenGL's platform stay as they were.

    robosuite writes ``MUJOCO_GL=egl`` and binds PyOpenGL to EGL on import, also on machines that
    have only OSMesa, or none of both.
    """
    logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
    with _IMPORTING:
        if "robosuite" not in sys.modules:
            _import()


def _import() -> None:
    asked = os.environ.get("MUJOCO_GL")
    if sys.platform.startswith("linux"):
        os.environ["MUJOCO_GL"] = _NEUTRAL_GL
    try:
        importlib.import_module("robosuite")
    finally:
        if asked is None:
            os.environ.pop("MUJOCO_GL", None)
        else:
            os.environ["MUJOCO_GL"] = asked
