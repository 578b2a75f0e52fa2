"""The wheel holds the layers and nothing else; constraints cover every direct dependency."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYERS = sorted(PROJECT["tool"]["setuptools"]["package-dir"].values())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement_name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return _normal(match.group())


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {_normal(name): version for name, version in pairs}


def test_every_direct_dependency_has_a_tried_version() -> None:
    direct = list(PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        direct += extra
    assert {_requirement_name(item) for item in direct} <= set(_pins())


def test_torch_stays_open_in_the_metadata() -> None:
    (torch,) = [d for d in PROJECT["project"]["dependencies"] if d.startswith("torch")]
    assert "==" not in torch


def test_robosuite_and_mujoco_are_pinned_together() -> None:
    wanted = {"mujoco==3.3.7", "robosuite==1.4.0"}
    assert wanted <= set(PROJECT["project"]["dependencies"])


def test_every_layer_is_published_under_coda() -> None:
    folders = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and (path / "py.typed").exists() and not path.name.startswith(".")
    }
    assert folders == set(LAYERS)
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == {f"coda.{name}" for name in LAYERS}


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"  # a copy, so that no build folder is left or reused in the checkout
    tree.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in LAYERS:
        shutil.copytree(ROOT / name, tree / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(tmp_path), str(tree)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("coda/", "coda_robotics-")) for name in names)
    packed = {name.removeprefix("coda/") for name in names if name.startswith("coda/")}
    held = {
        path.relative_to(tree).as_posix()
        for layer in LAYERS
        for path in (tree / layer).rglob("*")
        if path.is_file() and path.relative_to(tree).parts[:2] != ("bench", "results")
    }
    assert packed == held
