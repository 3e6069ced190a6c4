"""Contents and restrictions of a startup kit."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("nvflare")

import requested
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from nvflare.fuel.utils.config_service import ConfigService
from nvflare.lighter.utils import Identity, generate_cert, serialize_cert

from motifair.consortium.keys import write_request
from motifair.consortium.transports.nvflare import kits, operator, processes
from motifair.errors import MotifairError

ADMIN = "operator@example.org"


def provision(folder, members=("a", "b")):
    return requested.provision(folder, members, admin=ADMIN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("kits") / "federation"
    provision(path)
    return path


def certificate(kit):
    return kits.certificate(kit)


def test_there_is_a_kit_for_each_member_the_server_and_the_operator(folder):
    assert {p.name for p in (folder / "kits").iterdir()} == {"a", "b", "server", ADMIN}
    for name in ("a", "b", "server", ADMIN):
        assert kits.name_of(folder / "kits" / name) == name


def test_the_key_fits_the_certificate_and_the_authority_has_signed_it(folder):
    kit = folder / "kits" / "a"
    key = load_pem_private_key((kit / "startup" / "client.key").read_bytes(), None)
    cert = certificate(kit)
    assert key.public_key() == cert.public_key()
    cert.verify_directly_issued_by(
        x509.load_pem_x509_certificate((folder / "authority" / "root.crt").read_bytes())
    )
    signature = key.sign(b"upload", padding.PKCS1v15(), SHA256())
    cert.public_key().verify(signature, b"upload", padding.PKCS1v15(), SHA256())


def test_private_keys_can_be_read_by_their_owner_only(folder):
    keys = [*folder.glob("kits/*/startup/*.key"), folder / "authority" / "root.key"]
    assert len(keys) == 5
    assert all(path.stat().st_mode & 0o077 == 0 for path in keys)


def test_the_operator_makes_no_key_of_a_member(tmp_path):
    requested.write_requests(tmp_path, ["a"])
    shutil.rmtree(tmp_path / "keys")
    kits.provision(
        tmp_path, name="trial", server_host="localhost", port=8002, admin=ADMIN, members=["a"]
    )
    keys = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.key")}
    others = {"kits/server/startup/server.key", f"kits/{ADMIN}/startup/client.key"}
    assert keys == {"authority/root.key", *others}


def test_a_request_that_is_missing_or_of_another_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(MotifairError, match=r"There is no .*a.csr; ask the member"):
        kits.provision(tmp_path, name="t", server_host="h", port=1, admin=ADMIN, members=["a"])
    requested.write_requests(tmp_path, ["b"])
    request = tmp_path / "requests" / "b.csr"
    for content in (request.read_bytes(), b"nonsense"):
        (tmp_path / "requests" / "a.csr").write_bytes(content)
        with pytest.raises(MotifairError, match="is not a request"):
            kits.provision(tmp_path, name="t", server_host="h", port=1, admin=ADMIN, members=["a"])
    assert not (tmp_path / "authority").exists()
    with pytest.raises(MotifairError, match="exists; keep it"):
        write_request(tmp_path / "keys", "b")


@pytest.mark.parametrize("name", ["a", "b", "server"])
def test_a_kit_allows_no_code_no_shell_and_only_our_class(folder, name):
    local = folder / "kits" / name / "local"
    roles = json.loads((local / "authorization.json").read_text())["permissions"]
    assert set(roles) == {"project_admin", "org_admin", "lead", "member"}
    for role, rights in roles.items():
        assert rights["byoc"] == rights["shell_commands"] == rights["download_job"] == "none"
        assert rights["submit_job"] == ("any" if role == "project_admin" else "none")
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_list_enforcement_mode"] == "enforce"
    ours = kits.CONTROLLER if name == "server" else kits.EXECUTOR
    assert resources["class_allow_list"] == [ours]
    assert not list(local.glob("*.default"))
    assert "log_receiver" not in str(resources)
    assert "streamer" not in str(resources)


def test_a_member_who_joins_or_is_renewed_gets_a_certificate_for_its_own_key(tmp_path):
    made = provision(tmp_path)
    before = {name: certificate(kit) for name, kit in made.items()}
    root = x509.load_pem_x509_certificate((tmp_path / "authority" / "root.crt").read_bytes())
    requested.write_requests(tmp_path, ["c"])
    for kit in (kits.add(tmp_path, "c"), kits.renew(tmp_path, "b")):
        certificate(kit).verify_directly_issued_by(root)
    assert certificate(made["b"]).public_key() == before["b"].public_key()
    assert certificate(made["b"]) != before["b"]
    assert certificate(made["a"]) == before["a"]
    assert certificate(made["server"]) == before["server"]
    with pytest.raises(MotifairError, match="already has a kit"):
        kits.add(tmp_path, "c")
    with pytest.raises(MotifairError, match="already has a federation"):
        provision(tmp_path, [])


@pytest.mark.parametrize(
    ("members", "what"),
    [(["a", "a"], "Two members"), (["server"], "cannot be called"), (["a b"], "cannot be called")],
)
def test_names_that_cannot_be_used_are_refused_before_anything_is_made(tmp_path, members, what):
    with pytest.raises(MotifairError, match=what):
        kits.provision(tmp_path, name="t", server_host="h", port=1, admin=ADMIN, members=members)
    assert not list(tmp_path.iterdir())


def test_an_expired_certificate_is_named_with_its_day(folder, tmp_path):
    kit = tmp_path / "a"
    shutil.copytree(folder / "kits" / "a", kit)
    authority = load_pem_private_key((folder / "authority" / "root.key").read_bytes(), None)
    key = load_pem_private_key((kit / "startup" / "client.key").read_bytes(), None)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    expired = generate_cert(
        Identity("a", "motifair"), Identity("trial"), authority, key.public_key(),
        not_valid_before=yesterday - timedelta(days=1), not_valid_after=yesterday,
    )  # fmt: skip
    (kit / "startup" / "client.crt").write_bytes(serialize_cert(expired))
    with pytest.raises(MotifairError, match=f"expired on {yesterday:%Y-%m-%d}. Ask the operator"):
        processes.start_site(kit, "motifair.consortium.transports.echo:make_echo", {})
    assert not (kit / "engine.log").exists()


def test_a_folder_with_a_blank_is_refused_before_anything_is_started(folder, tmp_path):
    kit = tmp_path / "my kit"
    shutil.copytree(folder / "kits" / "a", kit)
    with pytest.raises(MotifairError, match="path without spaces"):
        processes.start_site(kit, "motifair.consortium.transports.echo:make_echo", {})


def test_a_kit_of_another_version_is_refused_before_anything_starts(folder, tmp_path):
    kit = shutil.copytree(folder / "kits" / "a", tmp_path / "a")
    path = kit / "local" / "resources.json"
    old = path.read_text().replace("motifair.consortium.", "motifair.federation.")
    path.write_text(old)
    with pytest.raises(MotifairError, match="made by another version of motifair"):
        processes.start_site(kit, "motifair.errors:nearest", {})


def test_a_session_looks_for_settings_of_the_engine_in_its_kit_alone(folder, tmp_path, monkeypatch):
    """Without a path the engine reads all folders below the present one, a whole home it may be."""
    found = []

    def connect(*_, **__):
        found.append(ConfigService.load_configuration("comm_config.json"))
        raise ConnectionError("not today")

    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "comm_config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ConfigService, "_config_path", [])
    monkeypatch.setattr(operator, "listens", lambda *_: True)
    monkeypatch.setattr(operator, "new_secure_session", connect)
    assert ConfigService.load_configuration("comm_config.json") is not None
    with pytest.raises(MotifairError, match="not today"):
        operator.status(folder / "kits" / ADMIN)
    assert found == [None]
