"""Which off-screen OpenGL is chosen, and what is said where there is none."""

from __future__ import annotations

import ctypes.util
import importlib
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from coda.sim import gl
from coda.sim.errors import SimulationError

Libraries = Callable[..., None]


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Libraries:
    """Pretend that only these libraries are installed, on a Linux machine with or without a GPU."""
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")

    def only(*names: str, gpu: bool = False) -> None:
        found = {name: f"lib{name}.so.1" for name in names}
        monkeypatch.setattr(ctypes.util, "find_library", found.get)
        monkeypatch.setattr(gl, "_has_gpu", lambda: gpu)

    return only


@pytest.mark.parametrize(
    ("names", "gpu", "chosen"),
    [
        (("EGL", "OSMesa"), True, "egl"),
        (("EGL", "OSMesa"), False, "osmesa"),
        (("EGL",), False, "egl"),
        (("OSMesa",), True, "osmesa"),
    ],
)
def test_the_backend_is_chosen_by_what_is_there(
    libraries: Libraries, names: tuple[str, ...], gpu: bool, chosen: str
) -> None:
    libraries(*names, gpu=gpu)
    assert gl.ensure_gl() == chosen


def test_one_line_says_what_to_install_where_neither_is_there(libraries: Libraries) -> None:
    libraries(gpu=True)
    with pytest.raises(SimulationError) as caught:
        gl.ensure_gl()
    text = str(caught.value)
    assert text.startswith("no off-screen OpenGL found (neither EGL nor OSMesa); install one: ")
    assert "apt-get install libosmesa6 (or libegl1)" in text
    assert "\n" not in text


def test_what_was_asked_for_is_taken(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries("OSMesa")
    monkeypatch.setenv("MUJOCO_GL", "EGL")
    assert gl.ensure_gl() == "egl"
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    with pytest.raises(SimulationError, match="'vulkan'; allowed: egl, osmesa, glfw"):
        gl.ensure_gl()


def test_what_pyopengl_is_bound_to_stays(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries("EGL", "OSMesa", gpu=True)
    monkeypatch.setenv("PYOPENGL_PLATFORM", "osmesa")
    assert gl.ensure_gl() == "osmesa"


def test_a_window_needs_a_screen(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries("EGL")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(SimulationError, match="needs a screen; unset it"):
        gl.open_context(8, 8)


def test_a_driver_that_refuses_is_one_line(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries("OSMesa")

    class Broken:
        def __init__(self, width: int, height: int) -> None:
            raise RuntimeError("Failed to create\n  OSMesa GL context.")

    class Module:
        GLContext = Broken

    monkeypatch.setattr(importlib, "import_module", lambda name: Module)
    with pytest.raises(SimulationError) as caught:
        gl.open_context(8, 8)
    assert str(caught.value).startswith(
        "MuJoCo cannot render with osmesa: Failed to create OSMesa GL context; install one"
    )


def test_robosuite_leaves_the_choice_alone() -> None:
    code = (
        "import os\n"
        "from coda.sim.kinematics import robot_xml\n"
        "robot_xml()\n"
        "import robosuite\n"
        "print(os.environ.get('MUJOCO_GL'), os.environ.get('PYOPENGL_PLATFORM'))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_plain()
    )
    assert run.stdout.split() == ["None", "None"]


def _plain() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
