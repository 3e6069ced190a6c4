"""The operator's folder, and what of it is in a member's kit."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here
from deployed import content_of

from motifair.consortium.operator_folder import OperatorFolder
from motifair.consortium.template import federation_toml, members_toml
from motifair.consortium.terms import make_terms, read_terms
from motifair.errors import MotifairError
from motifair.statements.signatures import public_text, read_public

SECRETS = ("db.example.org", "ledger-writer", "s3cret-word", "old-word")
LEDGER = f'"postgresql://{SECRETS[1]}:{SECRETS[2]}@{SECRETS[0]}:5432/books"  # was {SECRETS[3]}'


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> OperatorFolder:
    """A federation with a ledger in PostgreSQL, not started."""
    made = Consortium(tmp_path_factory.mktemp("kits") / "operator")
    made.prepare(3, 2, ledger=LEDGER)
    return made.operator


def files_of(kit: Path) -> list[Path]:
    return [path for path in kit.rglob("*") if path.is_file()]


def test_a_members_kit_holds_nothing_of_the_ledger(operator: OperatorFolder) -> None:
    motifair_here("federation", "renew", operator.terms.members[1], "--folder", operator.folder)
    for name in operator.terms.members:
        files = files_of(operator.kit(name))
        assert len(files) > 5
        for path in files:
            for secret in SECRETS:
                assert secret.encode() not in path.read_bytes(), path


def test_a_member_agrees_to_the_same_terms_as_the_server(operator: OperatorFolder) -> None:
    for name in operator.terms.members:
        terms = read_terms(operator.kit(name) / "local" / "federation.toml")
        assert terms.digest == operator.terms.digest
        assert terms.members == operator.terms.members
        assert (terms.host, terms.port) == (operator.terms.host, operator.terms.port)


def test_nobody_but_its_owner_can_read_a_kit(operator: OperatorFolder) -> None:
    for kit in (operator.folder / "kits").iterdir():
        for path in (kit, *kit.rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path
        assert all(path.stat().st_mode & 0o100 for path in kit.rglob("*.sh"))


def test_changed_terms_are_printed_as_members_get_them(operator: OperatorFolder) -> None:
    printed = motifair_here("federation", "terms", "--folder", operator.folder)
    assert make_terms(tomllib.loads(printed)).digest == operator.terms.digest
    assert not any(secret in printed for secret in SECRETS)


def test_the_operators_key_is_in_no_kit_and_its_public_key_in_every_members(
    operator: OperatorFolder,
) -> None:
    key = operator.folder / "operator.key"
    assert key.stat().st_mode & 0o077 == 0
    secret = key.read_bytes().splitlines()[1]
    holders = [path for path in files_of(operator.folder) if secret in path.read_bytes()]
    assert holders == [key]
    public = public_text(operator.signing_key())
    assert (operator.folder / "operator.pub").read_text() == public
    for name in operator.terms.members:
        assert read_public(operator.kit(name) / "local" / "operator.pub") == public


def test_an_operators_key_is_made_once_and_never_replaced(tmp_path: Path) -> None:
    operator = OperatorFolder(tmp_path)
    first = public_text(operator.signing_key())
    assert public_text(operator.signing_key()) == first
    (tmp_path / "operator.key").unlink()
    with pytest.raises(MotifairError, match="is missing; restore it from a backup"):
        operator.signing_key()
    (tmp_path / "operator.key").write_text("nonsense")
    with pytest.raises(MotifairError, match="is not a private key; restore the original file"):
        operator.signing_key()


def test_terms_that_may_get_a_password_are_for_their_owner_alone(tmp_path: Path) -> None:
    terms = make_terms(content_of())
    path = OperatorFolder(tmp_path).write_terms("trial", terms.members, terms.schema)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content",
    [
        content_of(),
        content_of(money={"currency": 'a "quoted"\nü\x7f\\ currency'}),
        content_of() | {"server": {"ledger": "x.sqlite", "retain_uploads": False}},
    ],
)
def test_members_terms_say_the_same_but_for_the_ledger(content: dict[str, object]) -> None:
    again = tomllib.loads(members_toml(content))
    server = {k: v for k, v in content.get("server", {}).items() if k != "ledger"}  # type: ignore[attr-defined]
    assert again == content | ({"server": server} if "server" in content else {})


def test_a_template_reads_back_for_members() -> None:
    terms = make_terms(content_of())
    content = tomllib.loads(federation_toml("trial", terms.members, terms.schema))
    content["privacy"] = {"delta": 1e-5, "clip_update": float("inf")}
    again = tomllib.loads(members_toml(content))
    assert content["server"].pop("ledger")
    assert again == content
