"""What a plain `pip install .` gives: README, guides and tutorial run; extras are named."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from bare import PROJECT, ROOT, Bare, make_bare
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from motifair.cli import main
from motifair.errors import MotifairError
from motifair.extras import MODULES
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import write_tu

README = (ROOT / "README.md").read_text()
SIMULATION, BETWEEN_MACHINES = README.split("## Between machines")
GUIDES = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("experiments", "graphs"))
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
SMALL = {
    "run": ["--rounds", "2", "--threads", "1", "--quiet", "--data-dir", "data"],
    "compare": ["--rounds", "2", "--threads", "1", "--quiet", "--data-dir", "data"],
    "paper": [
        "--rounds", "2", "--splits", "1", "--threads", "1", "--datasets", "MUTAG",
        "--data-dir", "data",
    ],
    "data": ["--data-dir", "data"],
    "doctor": ["--data-dir", "data"],
}  # fmt: skip
NEED_EXTRAS = [
    ("federation init --like graphs --members a,b", "federation"),
    ("federation request bank-a", "federation"),
    ("federation provision", "federation"),
    ("federation terms", "federation"),
    ("federation add bank-a", "federation"),
    ("federation renew bank-a", "federation"),
    ("federation remove bank-a", "federation"),
    ("federation readmit bank-a", "federation"),
    ("federation server start", "federation"),
    ("federation agent start --kit kit --graphs graphs", "federation"),
    ("federation stop --kit kit", "federation"),
    ("federation run", "federation"),
    ("federation status", "federation"),
    ("federation me --kit kit", "federation"),
    ("federation privacy", "federation"),
    ("federation demo", "federation"),
    ("ledger verify --ledger ledger.sqlite", "ledger"),
    ("ledger entries --ledger postgresql://me@localhost/books", "ledger"),
    ("ledger balance --run folder", "ledger"),
    ("ledger export --ledger ledger.sqlite --format parquet --out rows.parquet", "ledger"),
    ("ledger audit", "ledger"),
    ("statement --ledger ledger.sqlite --agent bank-a", "ledger"),
    ("dashboard --ledger ledger.sqlite", "web"),
    ("run --rounds 2 --agents 3 --log tensorboard", "tensorboard"),
    ("run --rounds 2 --agents 3 --log mlflow", "mlflow"),
    ("compare --rounds 2 --agents 3 --log mlflow", "mlflow"),
    ("paper claims --rounds 2 --splits 1", "studies"),
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    return make_bare(tmp_path_factory.mktemp("bare"))


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each `motifair` command in the console blocks, comments left out."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[0] == "motifair":
                yield words[1:]


def small(words: list[str]) -> list[str]:
    """Return a command with fewer rounds, splits and methods, on a smaller dataset; the
    ablation is a study of a third as many methods as Table 2.
    """
    text = " ".join([*words, *SMALL.get(words[0], [])]).replace("runs/...", "runs/first")
    if words[0] in ("run", "compare"):
        several = re.search(r"--dataset ([^\s,]+,\S+)", text)
        if several and "--out" not in text:  # only one dataset is here
            text = text.replace(several[1], "MUTAG").replace(" --set spaces=own", "")
            text += f" --out runs/several-{sum(map(ord, text))}-{words[0]}"
        text = re.sub("PROTEINS|IMDB-BINARY", "MUTAG", text)
    if words[0] == "resume":  # a run shorter than its trial cannot be extended
        text = re.sub(r" --rounds \d+", "", text)
    text = re.sub(r"--splits \d+", "--splits 1", text).replace("table2", "ablation")
    return text.replace("--methods all", "--methods fedavg,motifair").split()


def few_rounds(block: str) -> str:
    return re.sub(r"\brounds=\d+", "rounds=2", block)


@pytest.mark.slow
def test_the_tutorial_runs_as_written_without_extras(bare: Bare, tmp_path: Path) -> None:
    """In the order in which it stands there, but in few rounds."""
    blocks = re.findall(r"```(console|python)\n(.*?)```", TUTORIAL, re.DOTALL)
    for kind, some in groupby(blocks, key=itemgetter(0)):
        texts = [text for _, text in some]
        if kind == "python":
            bare.blocks([few_rounds(text) for text in texts], tmp_path)
            continue
        given = list(commands("".join(f"```console\n{text}```" for text in texts)))
        given = [
            [*words, "--rounds", "2"] if words[0] in ("run", "compare") else words
            for words in given
        ]
        for words, (ended, printed) in zip(given, bare.commands(given, tmp_path), strict=True):
            assert ended == 0, f"{words}\n{printed}"
    assert (tmp_path / "runs" / "demo" / "report.html").exists()
    assert (tmp_path / "agent-02.html").exists()


def test_readme_and_guides_up_to_the_federation_run_without_extras(
    bare: Bare, data_dir: Path, mutag: GraphSet
) -> None:
    (bare.folder / "data").mkdir()
    for path in data_dir.iterdir():  # `doctor` reads every dataset there is
        if path.stem in ("MUTAG", "PROTEINS"):
            (bare.folder / "data" / path.name).symlink_to(path)
    for name, first in (("bank-a", 0), ("bank-b", 60), ("lab", 120)):
        write_tu(mutag.select(np.arange(first, first + 60)), bare.folder / name)
    first, *others = [small(words) for words in commands(SIMULATION + GUIDES)]
    statement = ["statement", "--run", "runs/first", "--agent", "agent-03", "--out"]
    given = [
        [*first, "--out", "runs/first"],
        *others,
        [*statement, "s.html"],
        [*statement, "s.pdf"],
    ]
    for words, (code, printed) in zip(given, bare.commands(given), strict=True):
        extra = "tensorboard" if "--log" in words else "pdf" if "s.pdf" in words else ""
        assert code == (2 if extra else 0), f"{words}\n{printed}"
        assert f"'.[{extra}]'" in printed or not extra
    assert (bare.folder / "s.html").exists()
    assert not (bare.folder / "s.pdf").exists()
    blocks = re.findall(r"```python\n(.*?)```", SIMULATION + GUIDES, re.DOTALL)
    bare.blocks([few_rounds(text) for text in blocks])


def test_what_needs_an_extra_names_it_and_writes_nothing(bare: Bare, tmp_path: Path) -> None:
    given = [command.split() for command, _ in NEED_EXTRAS]
    for (command, extra), (code, printed) in zip(
        NEED_EXTRAS, bare.commands(given, cwd=tmp_path), strict=True
    ):
        assert code == 2, f"{command}\n{printed}"
        sentence = f"pip install 'motifair[{extra}]', or pip install '.[{extra}]'"
        assert sentence in printed, f"{command}\n{printed}"
        assert printed.startswith("motifair: "), f"{command}\n{printed}"
        assert printed.count("\n") == 1, f"{command}\n{printed}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["demo", "provision", "stop --kit kit", "server start"])
def test_with_the_extra_of_a_ledger_alone_a_federation_names_its_own(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: None if name == "nvflare" else 1)
    monkeypatch.delitem(sys.modules, "motifair.consortium.transports.nvflare", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["motifair", "federation", *command.split(), "--debug"])
    with pytest.raises(
        MotifairError, match=r"needs nvflare; run pip install 'motifair\[federation"
    ):
        main()
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_names_the_extra_of_a_ledger(bare: Bare) -> None:
    ended = bare.run("-m", "motifair", "doctor", "--ledger", "ledger.sqlite", "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "or pip install '.[ledger]' in a checkout" in ended.stdout


@cache  # it reads what every package on this machine brings
def modules_of_packages() -> list[tuple[str, str]]:
    return [(d, m) for m, ds in metadata.packages_distributions().items() for d in ds]


def brought(extra: str) -> set[str]:
    """Return the modules of the packages that an extra names, those of extras in it included."""
    found: set[str] = set()
    for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if requirement.name == "motifair":
            found |= {m for inner in requirement.extras for m in brought(inner)}
        else:
            found |= {
                m for d, m in modules_of_packages() if canonicalize_name(d) == requirement.name
            }
    return found


@pytest.mark.parametrize("extra", MODULES)
def test_modules_are_asked_for_by_the_extra_that_brings_them(extra: str) -> None:
    assert set(MODULES[extra]) <= brought(extra)


def test_every_extra_of_users_is_known() -> None:
    assert {*MODULES, "docs", "dev"} == set(PROJECT["optional-dependencies"])


def test_readme_installs_what_its_federation_uses() -> None:
    (line,) = re.findall(r"^pip install '\.\[(.*)\]'$", BETWEEN_MACHINES, re.MULTILINE)
    used = {"ledger": "ledger", "federation": "federation", "dashboard": "web"}
    wanted = {used[words[0]] for words in commands(BETWEEN_MACHINES) if words[0] in used}
    installed = {module for extra in line.split(",") for module in brought(extra)}
    assert wanted == {"federation", "ledger", "web"}
    assert installed >= {module for extra in wanted for module in brought(extra)}
