"""What the documents show runs, and what they name exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from motifair.cli.options import option_rows

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
]

# Run by test_bare_install.py
WITHOUT_EXTRAS = ("README.md", "experiments.md", "graphs.md", "tutorial.md")
BLOCKS = [
    pytest.param(code, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    if document.name not in WITHOUT_EXTRAS
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    )
]


@pytest.mark.parametrize("code", BLOCKS)
def test_the_python_of_the_documents_runs(
    code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path
) -> None:
    (tmp_path / "data").symlink_to(data_dir)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    exec(code, {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_between_documents_and_to_source_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_options_in_documents_exist(document: Path) -> None:
    text = document.read_text()
    known = {row["option"] for row in option_rows()}
    declared = set(re.findall(r"^    (\w+): \w+ = option\(", text, re.MULTILINE))
    for name in re.findall(r"--set ([a-z_]+)=", text):
        assert name in known | declared, name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_functions_that_documents_link_to_exist(document: Path) -> None:
    for names, target in re.findall(r"\[([\w., ]+)\]\(([^)]+\.py)\)", document.read_text()):
        source = (document.parent / target).read_text()
        for name in names.split(","):
            last = name.strip().split(".")[-1]
            named = re.search(rf"(def|class) {last}\b|^{last}\b", source, re.MULTILINE)
            assert named or last in ("py", Path(target).stem), f"{name} in {target}"


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version.partition('.dev')[0]} " in (ROOT / "CHANGELOG.md").read_text()
