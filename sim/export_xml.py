"""MJCF that can be read on another machine: mesh files relative to the packages that ship them.

``/…/site-packages/robosuite/models/…/link1.stl`` becomes ``robosuite/models/…/link1.stl``, which
is what robosuite's and robomimic's own tools re-root when they load a recorded model.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from coda.sim.errors import SimulationError


def portable_xml(xml: str) -> str:
    """The model with files inside installed packages made relative to the packages' parents."""
    root = ET.fromstring(xml)
    roots = sorted({os.path.abspath(p) for p in sys.path if p}, key=len, reverse=True)
    for element in root.iter():
        name = element.get("file")
        if name is None or not os.path.isabs(name):
            continue
        home = next((r for r in roots if Path(name).is_relative_to(r)), None)
        if home is not None:
            element.set("file", Path(name).relative_to(home).as_posix())
    return ET.tostring(root, encoding="unicode")


def local_xml(xml: str) -> str:
    """The inverse of `portable_xml` on this machine.

    Raises:
        SimulationError: A package that ships a mesh is not installed here.
    """
    root = ET.fromstring(xml)
    for element in root.iter():
        name = element.get("file")
        if name is None or os.path.isabs(name):
            continue
        package = Path(name).parts[0]
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise SimulationError(
                f"the model's mesh {name} belongs to the package {package!r}, which is not "
                f"installed here; install it."
            )
        home = Path(next(iter(spec.submodule_search_locations))).parent
        element.set("file", str(home / name))
    return ET.tostring(root, encoding="unicode")
