"""The import table of the house, made executable: who may import whom, and what is heavy where."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("probe", "engine", "app")

ANYONE = {"probe.errors", "probe.units"}
ROOMS: dict[str, set[str]] = {
    "probe.errors": set(),
    "probe.units": set(),
    "probe.schema": set(),
    "probe.record": {"probe.schema"},
    "probe.read": {"probe.schema"},
    "probe.seal": {"probe.schema", "probe.read"},
    "probe.export": {"probe.schema", "probe.read"},
    "probe.distill": {"probe.schema", "probe.read"},
    "probe.adopt": {
        "probe.schema",
        "probe.read",
        "probe.record",
        "probe.analyse",
        "probe.distill",
    },
    "probe.merge": {"probe.schema", "probe.read", "probe.analyse"},
    "probe.analyse": {"probe.schema", "probe.read"},
    "probe.figures": {"probe.schema", "probe.analyse"},
    "probe.remark": {"probe.schema", "probe.read", "probe.record"},
    "probe.text": {
        "probe.schema",
        "probe.read",
        "probe.seal",
        "probe.export",
        "probe.adopt",
        "probe.merge",
        "probe.analyse",
        "probe.telling",
    },
    "probe.telling": {
        "probe.schema",
        "probe.read",
        "probe.remark",
        "probe.analyse",
        "probe.merge",
    },
    "probe.report": {
        "probe.schema",
        "probe.read",
        "probe.analyse",
        "probe.telling",
        "probe.figures",
        "probe.text",
    },
    "probe.launch": {"probe"},
    "probe.commands": {"probe"},
    "probe.__main__": {"probe"},
    "probe": set(),
    "engine": {"probe.schema", "probe.record"},
    "app": {
        "probe.schema",
        "probe.read",
        "probe.remark",
        "probe.analyse",
        "probe.telling",
        "probe.figures",
        "probe.text",
    },
}
HEAVY: dict[str, set[str]] = {
    "pyarrow": {"probe.read", "probe.seal", "probe.export", "probe.distill", "probe.analyse"},
    "pandas": {"probe.read", "probe.analyse", "app"},
    "numpy": {"probe.read", "probe.analyse", "probe.figures"},
    "plotly": {"probe.figures"},
    "rich": {"probe.text", "probe.commands"},
    "click": {"probe.commands", "probe.launch", "probe.__main__"},
    "msgspec": {
        "probe.schema",
        "probe.record",
        "probe.read",
        "probe.export",
        "probe.merge",
        "probe.remark",
        "probe.telling",
        "probe.commands",
        "engine",
    },
    "torch": {"engine"},
    "psutil": {"engine", "probe.launch"},
    "yaml": {"engine"},
    "streamlit": {"app"},
}


def modules() -> list[tuple[str, Path]]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append((name, path))
    return found


def room_of(module: str) -> str:
    return max((room for room in ROOMS if within(module, room)), key=len)


def within(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every import of a module, those inside functions too, as full names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


MODULES = modules()
NAMES = {name for name, _ in MODULES}


def target(name: str) -> str | None:
    """The module of ours that an imported name lies in."""
    while name:
        if name in NAMES:
            return name
        name = name.rpartition(".")[0]
    return None


@pytest.mark.parametrize(("module", "path"), MODULES, ids=[name for name, _ in MODULES])
def test_a_room_imports_only_what_the_table_allows(module: str, path: Path) -> None:
    room = room_of(module)
    for name, line in imports(path):
        package = name.partition(".")[0]
        where = f"{path.relative_to(ROOT)}:{line} imports {name}"
        if package in HEAVY:
            assert room in HEAVY[package], f"{where}, which has its home in {HEAVY[package]}"
        ours = target(name)
        if ours is None or package not in PACKAGES:
            continue
        other = room_of(ours)
        allowed = ROOMS[room] | ANYONE | {room}
        if other == "probe":  # the package itself: its version
            continue
        fits = any(within(other, item) for item in allowed)
        assert fits, f"{where}; {room} may import {sorted(allowed)}"


def test_configuration_and_scaler_know_no_tensors() -> None:
    for module, path in MODULES:
        if within(module, "engine.config") or module == "engine.loss_scale":
            assert not [name for name, _ in imports(path) if name.partition(".")[0] == "torch"]


def test_nothing_is_imported_for_types_only() -> None:
    for _, path in MODULES:
        assert "TYPE_CHECKING" not in path.read_text(), f"{path}: the type lives in the wrong room"


def test_there_are_no_cycles() -> None:
    arrows = {
        module: {ours for name, _ in imports(path) if (ours := target(name)) and ours != module}
        for module, path in MODULES
    }
    done: set[str] = set()

    def follow(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail, module])
        if module not in done:
            for other in sorted(arrows[module]):
                follow(other, (*trail, module))
            done.add(module)

    for module in sorted(arrows):
        follow(module, ())


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running some code."""
    program = (
        f"{code}\nimport sys; print(' '.join(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import probe.schema.tables", {"numpy", "pandas", "pyarrow", "rich", "torch"}),
        ("import probe.record.rank, probe.record.run", {"numpy", "pandas", "pyarrow", "torch"}),
        ("import probe.read.discovery", {"pandas", "pyarrow", "torch", "plotly"}),
        ("import probe.read.run", {"torch", "plotly", "streamlit", "rich"}),
        ("import probe.seal", {"torch", "plotly", "streamlit"}),
        ("import probe.commands.report", {"rich", "pandas", "pyarrow", "plotly", "torch"}),
        ("import probe.report.report", {"torch", "streamlit", "click"}),
        ("import probe.commands.run", {"rich", "pandas", "pyarrow", "torch"}),
    ],
)
def test_a_fresh_interpreter_loads_nothing_heavy(code: str, absent: set[str]) -> None:
    assert not loaded_by(code) & absent


@pytest.mark.parametrize(
    "package",
    [
        "probe",
        "probe.schema",
        "probe.read",
        "probe.analyse",
        "probe.telling",
        "probe.text",
        "probe.figures",
        "probe.report",
    ],
)
def test_packages_of_the_reading_side_are_light(package: str) -> None:
    assert not loaded_by(f"import {package}") & set(HEAVY)
