"""The rules of CONTRIBUTING.md that a parser can hold."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("sim", "policy", "memory", "tools", "agents", "graphs", "bench")
"""The layers; each may import itself and those before it."""
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
"""Of a body: the options of a command are many and stand in its signature."""
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal", "cloudpickle", "joblib"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}

SOURCES = sorted(p for layer in ORDER for p in (ROOT / layer).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def _where(node: ast.stmt | ast.expr | ast.excepthandler, what: str) -> str:
    return f"line {node.lineno}: {what}"


def _unsafe(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in UNSAFE_CALLS or called in {"yaml.load", "torch.load"}:
            yield _where(node, f"calls {called}")
        if any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in node.keywords):
            yield _where(node, "allows pickles")


def _broad_handlers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            names = caught.strip("()").replace(" ", "").split(",")
            reraises = any(
                isinstance(child, ast.Raise) and child.exc is None for child in node.body
            )
            if not reraises and {"", "Exception", "BaseException"} & set(names):
                yield _where(node, f"catches {caught or 'everything'}")


def _acts_on_import(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.ClassDef():
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                continue
            case ast.Expr(value=ast.Constant()):  # a docstring
                continue
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="model_rebuild"))):
                continue  # pydantic: resolves a forward reference
            case ast.If(test=test) if ast.unparse(test).startswith(("TYPE_CHECKING", "__name__")):
                continue
            case ast.AnnAssign(target=ast.Name()):
                continue
            case ast.Assign(targets=targets) if all(
                isinstance(t, ast.Name | ast.Tuple) for t in targets
            ):
                continue
        yield _where(node, f"runs on import: {ast.unparse(node)[:60]}")


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_imports_go_one_way(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0]
    allowed = set(ORDER[: ORDER.index(layer) + 1])
    names = _imports(_tree(path))
    reached = {name.split(".")[1] for name in names if name.startswith("coda.")}
    assert reached <= allowed, f"{layer} imports from a layer above it"
    assert "coda" not in names, "import a layer, coda.<layer>"


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=_name)
def test_no_layer_is_imported_by_its_bare_name(path: Path) -> None:
    assert not {name.split(".")[0] for name in _imports(_tree(path))} & {*ORDER, "studio"}


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_files_and_functions_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{node.name}: {lines} lines"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(_tree(path))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_is_executed_from_text_or_bytes(path: Path) -> None:
    tree = _tree(path)
    assert not {name.split(".")[0] for name in _imports(tree)} & UNSAFE_MODULES
    assert list(_unsafe(tree)) == []


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_no_error_is_swallowed(path: Path) -> None:
    assert list(_broad_handlers(_tree(path))) == []


PLUGINS = ("sim/envs.py",)
"""Modules whose import is a command: Gymnasium imports ``module`` for ``module:id``."""


@pytest.mark.parametrize("path", [p for p in SOURCES if _name(p) not in PLUGINS], ids=_name)
def test_a_module_only_defines(path: Path) -> None:
    assert list(_acts_on_import(_tree(path))) == []


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=_name)
def test_lines_have_no_conflict_markers_or_tabs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "\t" not in text
    assert not any(line.startswith(("<<<<<<<", ">>>>>>>")) for line in text.splitlines())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("try:\n    f()\nexcept Exception:\n    pass", "catches Exception"),
        ("try:\n    f()\nexcept (OSError, BaseException):\n    pass", "catches (OSError, Base"),
        ("try:\n    f()\nexcept:\n    pass", "catches everything"),
    ],
)
def test_the_guard_sees_a_broad_handler(source: str, found: str) -> None:
    (line,) = _broad_handlers(ast.parse(source))
    assert found in line


def test_the_guard_sees_unsafe_calls_and_import_effects() -> None:
    assert list(_unsafe(ast.parse("eval(x)\nmodel.eval()"))) == ["line 1: calls eval"]
    assert list(_unsafe(ast.parse("np.load(p, allow_pickle=True)"))) == ["line 1: allows pickles"]
    assert len(list(_acts_on_import(ast.parse("x = 1\nf()\nos.environ['a'] = 'b'")))) == 2


IMPORT_ALL = """
import importlib, logging, os, sys
before = dict(os.environ)
for name in sys.argv[1:]:
    importlib.import_module(name)
changed = {k for k in before.keys() | os.environ.keys() if before.get(k) != os.environ.get(k)}
print(sorted(changed), [h for h in logging.getLogger("coda").handlers])
print(sorted(set(sys.modules) & {"sim", "policy", "memory", "agents", "graphs", "bench", "tools"}))
"""


@pytest.mark.slow
def test_importing_everything_changes_nothing() -> None:
    names = [f"coda.{_name(p).removesuffix('.py').replace('/', '.')}" for p in SOURCES]
    run = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT_ALL, *names],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "tests",
    )
    assert run.returncode == 0, run.stderr
    environment, bare = run.stdout.splitlines()[-2:]
    assert bare == "[]"
    assert environment.endswith("[]")
    ours = {name for name in environment.split("'") if name.startswith(("CODA", "MUJOCO", "OMP"))}
    assert ours == set()
