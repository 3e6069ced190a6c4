"""Audits of claims: graphs that are there are shown, invented ones are found out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from deployed import NAMES, World, content_of, graphs_of, honest, opened, sealed, terms_of
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.claims import Question, answer, ask, found_out, least_fine
from motifair.consortium.template import members_toml
from motifair.consortium.transports.nvflare import kits
from motifair.consortium.wire import JOIN, Download
from motifair.errors import MotifairError
from motifair.graphs.tu import write_tu

ME = "bank-d"
FEW = {"rounds": 1, "trial_rounds": 1}


def inventing(name: str, task: Download, say) -> bytes:  # type: ignore[no-untyped-def]
    """`ME` replaces half of its fingerprints by new ones, each graph being claimed as two."""
    if name != ME or task.task != JOIN:
        return honest(name, task, say)
    upload = opened(say())
    assert upload.fingerprints is not None
    words = upload.fingerprints.copy()
    words[::2] ^= np.uint64(0xABCD00)  # the last byte is the class
    return sealed(replace(upload, fingerprints=words))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    made = {}
    for cheats in (False, True):
        world = World(
            tmp_path_factory.mktemp("w"), terms_of(**FEW), inventing if cheats else honest
        )
        assert world.drive()
        made[cheats] = world.folder / "run"
    return made


def test_a_member_shows_the_graphs_that_it_has(folders: dict[bool, Path]) -> None:
    terms = terms_of(**FEW)
    for name in NAMES:
        question = ask(terms, folders[False], "trial-1", name, graphs=8)
        assert len(question.asked) == 8
        found = answer(question, terms, graphs_of(name))
        assert found.missing == 0
        assert len(set(found.graphs)) == 8
        assert "has all 8 graphs" in str(found)
    assert ask(terms, folders[False], "trial-1", ME, graphs=8) == question
    everything = ask(terms, folders[False], "trial-1", ME, graphs=10**6)
    assert len(everything.asked) == everything.claimed
    other = answer(question, terms, graphs_of(NAMES[0]))
    assert other.missing == 8  # another's graphs do not do


def test_a_fingerprint_claimed_twice_takes_two_graphs(folders: dict[bool, Path]) -> None:
    terms, graphs = terms_of(**FEW), graphs_of(ME)
    question = ask(terms, folders[False], "trial-1", ME, graphs=1)
    twice = replace(question, asked=question.asked * 2)
    found = answer(question, terms, graphs).graphs[0]
    (copied,) = np.array([[*range(len(graphs)), found]])
    with_copy = answer(twice, terms, graphs.select(copied))
    assert with_copy.missing == 0
    assert len(with_copy.to_json()["graphs"]) == len(set(with_copy.graphs)) == 2
    assert answer(twice, terms, graphs).missing == 1


def test_invented_fingerprints_have_no_graph(folders: dict[bool, Path]) -> None:
    terms = terms_of(**FEW)
    everything = ask(terms, folders[True], "trial-1", ME, graphs=10**6)
    assert answer(everything, terms, graphs_of(ME)).missing == (everything.claimed + 1) // 2
    some = answer(ask(terms, folders[True], "trial-1", ME, graphs=8), terms, graphs_of(ME))
    assert 0 < some.missing <= 8
    assert f"no graph for {some.missing} of the 8" in str(some)
    assert some.to_json()["missing"] == sum(g["graph"] == -1 for g in some.to_json()["graphs"])
    honest_one = ask(terms, folders[True], "trial-1", NAMES[0], graphs=8)
    assert answer(honest_one, terms, graphs_of(NAMES[0])).missing == 0


@pytest.mark.parametrize("cheats", [False, True])
def test_the_command_answers_at_the_members_desk(
    folders: dict[bool, Path], cheats: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kits, "name_of", lambda kit: kit.name)  # without a certificate
    kit, question = tmp_path / ME, tmp_path / "question.json"
    (kit / "local").mkdir(parents=True)
    (kit / "local" / "federation.toml").write_text(members_toml(content_of(**FEW)))
    write_tu(graphs_of(ME), tmp_path / "own")
    question.write_text(ask(terms_of(**FEW), folders[cheats], "trial-1", ME, graphs=8).to_json())
    line = ["federation", "answer", str(question), "--kit", str(kit)]
    line += ["--graphs", str(tmp_path / "own")]
    shown = CliRunner().invoke(app, [*line, "--json"])
    assert shown.exit_code == int(cheats), shown.output
    content = json.loads(shown.output)
    assert (content["missing"] > 0, content["asked"]) == (cheats, 8)
    assert ("has all 8 graphs" in CliRunner().invoke(app, line).output) != cheats
    kit.rename(tmp_path / NAMES[0])
    line[line.index(str(kit))] = str(tmp_path / NAMES[0])
    refused = CliRunner().invoke(app, line).exception
    assert isinstance(refused, MotifairError)
    assert f"for {ME}, and the kit is of {NAMES[0]}" in str(refused)


def test_a_question_survives_its_file_and_bad_ones_are_refused(
    folders: dict[bool, Path], tmp_path: Path
) -> None:
    terms = terms_of(**FEW)
    question = ask(terms, folders[False], "trial-1", ME, graphs=3)
    path = tmp_path / "question.json"
    path.write_text(question.to_json())
    assert Question.read(path) == question
    content = json.loads(path.read_text())
    bad = [{}, [], {**content, "asked": []}, {**content, "asked": ["no word"]}, {**content, "x": 1}]
    for one in bad:
        path.write_text(json.dumps(one))
        with pytest.raises(MotifairError, match="is not a question"):
            Question.read(path)
    with pytest.raises(MotifairError, match="of federation elsewhere"):
        answer(replace(question, federation="elsewhere"), terms, graphs_of(ME))
    with pytest.raises(MotifairError, match="no member of run"):
        ask(terms, folders[False], "trial-1", "bank-z", graphs=3)
    with pytest.raises(MotifairError, match="no position of run"):
        ask(terms, tmp_path, "trial-1", ME, graphs=3)


@given(
    st.floats(0.01, 10), st.floats(0.01, 1), st.floats(0.01, 1), st.integers(1, 50),
    st.floats(1.001, 3),
)  # fmt: skip
def test_above_the_least_fine_claiming_does_not_pay(
    gain: float, audited: float, invented: float, asked: int, more: float
) -> None:
    fine = more * least_fine(gain, audited, invented, asked)
    assert gain - audited * found_out(invented, asked) * fine < 0
    assert least_fine(gain, 0.0, invented, asked) == float("inf")


def test_questions_find_out_as_often_as_is_said() -> None:
    """Drawn without replacement they find out a little more often."""
    rng = np.random.default_rng(0)
    claimed = np.arange(60) < 12  # a fifth is invented
    found = [rng.choice(claimed, 6, replace=False).any() for _ in range(4000)]
    assert found_out(0.2, 6) - 0.02 < np.mean(found) < found_out(0.2, 6) + 0.05
