"""Under a key of the members', the operator sees which motifs and graphs are equal, and no more."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from deployed import MEMBERS_KEY, SEEDS, World, graphs_of, honest, opened, sealed, site_of, terms_of
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium import member_view
from motifair.consortium.audit import audit
from motifair.consortium.claims import Question, answer, claimed, drawn_words
from motifair.consortium.member_view import Member, read_motifs
from motifair.consortium.members_key import hashed_motif, read_members_key
from motifair.consortium.run_state import believed_sizes
from motifair.consortium.validation import HASHED, MOTIF
from motifair.consortium.wire import Download
from motifair.errors import MotifairError
from motifair.statements.verification import verify

AGREED = sha256(MEMBERS_KEY).hexdigest()
OPTIONS = {"rounds": 3, "trial_rounds": 2, "diversity_weight": 1.0, "corroboration": 1}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    """The same members without and with a key of their own."""
    both = []
    for key in ("", AGREED):
        terms = terms_of(members_key=key, **OPTIONS)
        world = World(tmp_path_factory.mktemp("members-key"), terms)
        assert world.drive()
        assert verify(world.entries()).fits
        assert audit(world.terms, world.folder / "run", world.entries()).fits
        both.append(world)
    return both[0], both[1]


def test_the_server_gets_equality_of_motifs_and_nothing_of_their_content(
    worlds: tuple[World, World],
) -> None:
    plain, hidden = (w.checkpoint().roster for w in worlds)
    for a, b in zip(plain, hidden, strict=True):
        assert a.motifs
        assert set(b.motifs) == {hashed_motif(MEMBERS_KEY, m) for m in a.motifs}
        assert list(b.motifs) == sorted(b.motifs)
    files = [p for p in (worlds[1].folder / "run").rglob("*") if p.is_file()]
    for path in files:
        content = path.read_bytes()
        assert b"bond " not in content, path
        assert b"ring " not in content, path


def test_nothing_that_is_paid_or_learnt_changes(worlds: tuple[World, World]) -> None:
    """Sums over motifs are in another order: the last digits may differ."""
    plain, hidden = worlds
    for a, b in zip(plain.rounds(), hidden.rounds(), strict=True):
        assert [x.value for x in b.lines] == pytest.approx([x.value for x in a.lines], abs=1e6)
        assert [x.payoff for x in b.lines] == pytest.approx([x.payoff for x in a.lines], abs=1)
    states = [w.checkpoint().server.weights.numpy() for w in worlds]
    np.testing.assert_allclose(states[1], states[0], atol=1e-5)


def test_fingerprints_can_be_compared_by_the_server_and_computed_by_members_alone(
    worlds: tuple[World, World],
) -> None:
    plain, hidden = ([j.summary for j in w.checkpoint().roster] for w in worlds)
    for a, b in zip(plain, hidden, strict=True):
        assert a is not None
        assert b is not None
        assert not set(a.fingerprints.tolist()) & set(b.fingerprints.tolist())
        same = [np.unique(s.fingerprints, return_inverse=True)[1] for s in (a, b)]
        assert len(set(zip(*map(np.ndarray.tolist, same), strict=True))) == same[0].max() + 1
        assert (a.fingerprints % 256 == b.fingerprints % 256).all()  # the class
    first, second = (believed_sizes(w.terms, w.checkpoint().roster) for w in worlds)
    assert first is not None
    assert second is not None
    assert first.tolist() == second.tolist()


def test_a_member_shows_the_graphs_behind_hashed_fingerprints(worlds: tuple[World, World]) -> None:
    hidden = worlds[1]
    words, last = claimed(hidden.folder / "run", hidden.run, "bank-a"), hidden.checkpoint().entry
    asked = drawn_words(words, 5, last.hash, "bank-a")
    whose = (hidden.terms.name, hidden.run, "bank-a")
    question = Question(*whose, last.round, last.hash, len(words), asked)
    graphs = graphs_of("bank-a")
    assert answer(question, hidden.terms, graphs, MEMBERS_KEY).missing == 0
    assert answer(question, hidden.terms, graphs).missing == 5


@pytest.mark.parametrize("agreed", ["", AGREED])
def test_motifs_of_the_other_form_are_refused(tmp_path: Path, agreed: str) -> None:
    world = World(tmp_path, terms_of(members_key=agreed, **OPTIONS))
    other = site_of("bank-a", terms_of(members_key="" if agreed else AGREED, **OPTIONS))

    def meddle(name: str, task: Download, answer: object) -> bytes:
        if name != "bank-a":
            return honest(name, task, answer)  # type: ignore[arg-type]
        return sealed(replace(opened(answer()), motifs=other.data.motifs))  # type: ignore[operator]

    world.meddle = meddle
    with pytest.raises(
        MotifairError, match="a motif that is " + ("not h" if agreed else "neither")
    ):
        world.drive()
    assert all((MOTIF if agreed else HASHED).fullmatch(m) for m in other.data.motifs)


def test_the_key_is_fixed_within_a_run(tmp_path: Path) -> None:
    world = World(tmp_path, terms_of(**OPTIONS))
    assert not world.drive(rounds=1)
    world.terms = terms_of(members_key=AGREED, **OPTIONS)
    with pytest.raises(MotifairError, match="the members' key"):
        world.drive()


def test_a_key_is_made_once_for_its_owner_alone_and_checked_against_the_terms(
    tmp_path: Path,
) -> None:
    kit, words = tmp_path / "bank-a", ["federation", "members-key", "--out", str(tmp_path)]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0
    path = tmp_path / "members.key"
    assert path.stat().st_mode & 0o777 == 0o600
    (line,) = [x for x in said.stdout.splitlines() if x.startswith("members_key = ")]
    agreed = line.split('"')[1]
    terms = terms_of(members_key=agreed)
    assert sha256(read_members_key(kit, terms.members_key)).hexdigest() == agreed
    assert path.read_text().strip() not in said.stdout
    again = CliRunner().invoke(app, words)
    assert "exists; keep it" in str(again.exception)
    with pytest.raises(MotifairError, match="is not the key that the members share"):
        read_members_key(kit, AGREED)
    path.unlink()
    with pytest.raises(MotifairError, match="is not the key that the members share"):
        read_members_key(kit, agreed)
    assert read_members_key(kit, "") == b""


def test_a_member_knows_which_of_its_motifs_a_hash_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "members.key").write_text(MEMBERS_KEY.hex())
    (tmp_path / "seed").write_text(str(SEEDS["bank-a"]))
    terms = terms_of(members_key=AGREED)
    member = Member("bank-a", tmp_path / "bank-a", tmp_path, terms, "trial-1", 0, ())
    monkeypatch.setattr(member_view, "read_graphs", lambda path, columns: graphs_of("bank-a"))
    named = read_motifs(member, tmp_path)
    assert tuple(sorted(named)) == site_of("bank-a", terms).data.motifs
    assert tuple(sorted(named.values())) == site_of("bank-a", terms_of()).data.motifs


def test_the_key_itself_is_never_in_the_terms() -> None:
    with pytest.raises(MotifairError, match="never the key itself"):
        terms_of(members_key="shared")
    assert terms_of(members_key=AGREED).digest != terms_of().digest
