"""What is written about the project is true and speaks of the project only."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from probe.schema.field_table import BEGIN, END, field_table

ROOT = Path(__file__).parents[2]
CODE = ("probe", "engine", "app", "benchmarks", "examples")


def tracked_texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    endings = {".py", ".md", ".toml", ".txt", ".json", ".yaml", ".yml", ".sh", ""}
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and path.suffix in endings]


def test_the_field_table_of_the_schema_is_the_code() -> None:
    readme = (ROOT / "probe/schema/README.md").read_text()
    written = readme[readme.index(BEGIN) : readme.index(END) + len(END)]
    assert written == field_table(), "paste the output of `python -m probe.schema.field_table`"


def test_every_module_and_public_name_says_what_it_is() -> None:
    paths = [path for room in CODE for path in (ROOT / room).rglob("*.py")]
    assert not [where for path in paths for where in undocumented(path)]


def undocumented(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    where = str(path.relative_to(ROOT))
    nameless = [where] if tree.body and not ast.get_docstring(tree) else []
    return nameless + [
        f"{where}:{node.lineno} {node.name}"
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]


@pytest.mark.parametrize("word", [r"/work/", r"/tmp/w/", r"/root/", r"index-url", r"pyenv"])
def test_no_text_names_a_machine(word: str) -> None:
    pattern = re.compile(word)
    here = Path(__file__)
    found = [
        str(path.relative_to(ROOT))
        for path in tracked_texts()
        if path != here and pattern.search(path.read_text(errors="replace"))
    ]
    assert not found


def test_the_readme_of_the_engine_names_every_file() -> None:
    told = (ROOT / "engine" / "README.md").read_text().split("## Files")[1]
    files = {path.name for path in (ROOT / "engine").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"(\w+\.py) ", told)) == files
