"""What the documents show runs, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from motifair.config import OPTIONS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_of_the_readme_runs(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path
) -> None:
    (tmp_path / "data").symlink_to(data_dir)
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[number], {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_between_documents_and_to_source_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_options_in_documents_exist(document: Path) -> None:
    for name in re.findall(r"--set ([a-z_]+)=", document.read_text()):
        assert name in OPTIONS, name
