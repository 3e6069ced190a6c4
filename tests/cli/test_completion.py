"""Shell completion by the shell's own protocol: the names are right, and a key press is short."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from motifair.cli import complete
from motifair.cli.app import app

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "MOTIFAIR_DATA"}


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command as pip installs it, of this source tree: its name decides the protocol."""
    script = tmp_path_factory.mktemp("bin") / "motifair"
    script.write_text(f"#!{sys.executable}\nfrom motifair.cli import main\nmain()\n")
    script.chmod(0o755)
    return script


def asked(line: str) -> dict[str, str]:
    """Return what bash sets in the environment, with the cursor at the end of the line."""
    return {
        "_MOTIFAIR_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }


def completed(command: Path, line: str, **environment: str) -> list[str]:
    """Ask the installed command in a process of its own."""
    given = {**ENVIRONMENT, **asked(line), **environment}
    found = subprocess.run([str(command)], env=given, capture_output=True, text=True)
    assert "Traceback" not in found.stderr
    return found.stdout.split()


LINES = {
    "motifair pap": ["paper"],
    "motifair doc": ["doctor"],
    "motifair run --method gcfl": ["gcfl", "gcfl+"],
    "motifair run --profile ": ["default", "paper"],
    "motifair run --partition d": ["dirichlet", "domains"],
    "motifair run --device c": ["cpu", "cuda"],
    "motifair run --log ": ["tensorboard", "mlflow"],
    "motifair run --log mlflow --log t": ["tensorboard"],
    "motifair run --dataset P": ["PROTEINS"],
    "motifair run --set own": ["own_weight=", "own_prior="],
    "motifair run --set perturbation=t": ["perturbation=tiers", "perturbation=twins"],
    "motifair run --scenario excl": ["exclusive-structure", "exclusive-class"],
    "motifair data info MUTAG --scenario t": ["twins"],
    "motifair compare --partition i": ["iid"],
    "motifair compare --methods a": ["all"],
    "motifair compare --methods fedavg,gcfl,fedp": ["fedavg,gcfl,fedprox"],
    "motifair compare --baseline fedst": ["fedstar"],
    "motifair paper t": ["table2", "tradeoff"],
    "motifair paper all --device a": ["auto"],
    "motifair data info MU": ["MUTAG"],
    "motifair data check tw": ["twitter-like"],
    "motifair bench --dataset pl": ["planted"],
    "motifair ledger export --format p": ["parquet"],
    "motifair federation init --features d": ["degree"],
}


@pytest.mark.parametrize("line", LINES)
def test_names_are_completed(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in asked(line).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        app([], prog_name="motifair")  # its name decides the protocol
    assert capsys.readouterr().out.split() == LINES[line]


def test_datasets_of_the_data_folder_are_completed(command: Path, tmp_path: Path) -> None:
    (tmp_path / "MINE.zip").touch()
    (tmp_path / "MINED" / "raw").mkdir(parents=True)
    (tmp_path / "MINED" / "raw" / "MINED_A.txt").touch()
    (tmp_path / "MINUTES").mkdir()
    line = "motifair run --dataset MI"
    assert completed(command, line) == []
    assert completed(command, line, MOTIFAIR_DATA=str(tmp_path)) == ["MINE", "MINED"]
    given = f"motifair run --data-dir {tmp_path} --dataset MI"
    assert completed(command, given) == ["MINE", "MINED"]
    assert completed(command, "motifair run --dataset M", MOTIFAIR_DATA="/nowhere") == ["MUTAG"]


def test_names_written_down_for_the_shell_are_those_there_are() -> None:
    from motifair.graphs.dataset import GENERATED
    from motifair.graphs.tu import KNOWN
    from motifair.methods import METHODS

    assert tuple(METHODS) == complete.METHODS
    assert (*GENERATED, *KNOWN) == complete.DATASETS


def test_completion_imports_nothing_heavy(command: Path) -> None:
    code = (
        "import atexit, sys\n"
        "heavy = ('torch', 'numpy', 'pandas', 'mlflow', 'tensorboard', 'sqlalchemy')\n"
        "atexit.register(lambda: print(*[m for m in heavy if m in sys.modules], file=sys.stderr))\n"
        f"sys.argv = [{str(command)!r}]\n"
        "from motifair.cli import main\nmain()\n"
    )
    environment = {**ENVIRONMENT, **asked("motifair run --method fed")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert "fedprox" in found.stdout
    assert found.stderr.split() == []
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 1.0  # 0.3 s; torch alone would take longer


def test_bash_itself_completes_with_the_script_that_is_shown(command: Path) -> None:
    """Source what --show-completion prints, and press tab as bash would."""
    script = (
        'PATH="$1:$PATH"\n'
        "source <(_MOTIFAIR_COMPLETE=source_bash motifair)\n"
        "complete -p motifair\n"
        "COMP_WORDS=(motifair run --method fedp) COMP_CWORD=3\n"
        "_motifair_completion motifair\n"
        'echo "found: ${COMPREPLY[*]}"\n'
    )
    found = subprocess.run(
        ["bash", "-c", script, "bash", str(command.parent)],
        env=ENVIRONMENT, capture_output=True, text=True,
    )  # fmt: skip
    assert "found: fedprox" in found.stdout, found.stderr


def test_completion_can_be_shown_and_installed(command: Path, tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    for word in ("--show-completion", "--install-completion"):
        # Its shell is looked up among the processes above: let that be bash.
        found = subprocess.run(
            ["bash", "-c", f"{command} {word}; exit $?"],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        if word == "--show-completion":
            assert "complete -o default -F _motifair_completion motifair" in found.stdout
    assert "motifair" in (tmp_path / ".bashrc").read_text()
