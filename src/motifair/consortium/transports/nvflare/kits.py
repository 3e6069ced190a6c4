"""Startup kits for the server, the operator and each member, made by NVFlare's provisioning.

A federation's folder holds

    authority/           the certificate authority; with root.key anyone can be admitted
    requests/NAME.csr    a member's request for its certificate
    kits/NAME/           one folder for each member, for the `server`, and for the operator

A kit has its certificate and the authority's certificate in `startup/`, and a restrictive policy in
`local/`. A member's private key is not in it: the member made it, and adds it.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID
from nvflare.apis.utils.format_check import name_check
from nvflare.lighter.constants import CtxKey
from nvflare.lighter.entity import Participant, Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner
from nvflare.lighter.utils import (
    Identity,
    generate_cert,
    generate_keys,
    serialize_cert,
    serialize_pri_key,
)

from motifair.consortium.keys import requested_key
from motifair.errors import MotifairError
from motifair.files import read_json, write_atomic, write_json, write_private

logger = logging.getLogger(__name__)

SERVER = "server"
ORGANISATION = "motifair"
ROOT_DAYS = 3650
HERE = "motifair.consortium.transports.nvflare"
CONTROLLER = f"{HERE}.controller.SegmentController"
EXECUTOR = f"{HERE}.executor.AgentExecutor"
LAUNCHER = f"{HERE}.launcher.LastingLauncher"

NOISY_LOGGERS = (
    "nvflare.apis.impl", "nvflare.fuel.f3.cellnet", "nvflare.fuel.f3.drivers",
    "nvflare.fuel.utils", "nvflare.private.aux_runner",
    "nvflare.private.fed.client.client_runner", "nvflare.private.fed.client.communicator",
    "nvflare.private.fed.server.server_commands", "nvflare.private.fed.server.server_runner",
)  # fmt: skip
RIGHTS = (
    "submit_job", "clone_job", "manage_job", "download_job", "view", "operate",
    "shell_commands", "byoc", "server-predeployed-flwr",
)  # fmt: skip
ROLES = ("project_admin", "org_admin", "lead", "member")
AT_SERVER = ("submit_job", "manage_job", "view", "operate")
AT_SITE = ("submit_job", "manage_job", "view")


def provision(
    folder: Path, *, name: str, server_host: str, port: int, admin: str, members: Sequence[str]
) -> dict[str, Path]:
    """Make the authority and one kit for each member, the server and the operator; by name.

    Members' requests are in `folder/requests`.
    """
    if (folder / "authority").exists():
        raise MotifairError(
            f"{folder} already has a federation. Add or renew members, or use an empty folder."
        )
    check_names(admin, members)
    for member in members:  # before anything is made
        requested_key(_request(folder, member), member)
    authority = folder / "authority"
    authority.mkdir(parents=True, mode=0o700)
    key, public = generate_keys()
    issuer = Identity(name)
    root = generate_cert(issuer, issuer, key, public, valid_days=ROOT_DAYS, ca=True)
    write_private(authority / "root.key", serialize_pri_key(key))
    write_atomic(authority / "root.crt", serialize_cert(root))
    facts = {"name": name, "server_host": server_host, "port": port, "admin": admin}
    write_json(authority / "federation.json", facts)
    return issue(folder, [SERVER, admin, *members])


def add(folder: Path, member: str) -> Path:
    """Make the kit of a new member; the others' kits stay valid."""
    check_names(_facts(folder)["admin"], [member])
    if (folder / "kits" / member).exists():
        raise MotifairError(f"{member} already has a kit. Renew it, or choose another name.")
    return issue(folder, [member])[member]


def renew(folder: Path, member: str) -> Path:
    """Make a new kit, with a new certificate, to replace an existing one.

    `member` may also be `server` or the operator, which get new keys; a member keeps its own. What
    its owner changed in the old kit's `local/` is not copied.
    """
    facts = _facts(folder)
    if member not in (SERVER, facts["admin"]):
        check_names(facts["admin"], [member])
    return issue(folder, [member])[member]


def issue(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Issue certificates for these names and put their kits into `folder/kits`."""
    facts, authority = _facts(folder), folder / "authority"
    root = (authority / "root.crt").read_bytes()
    key = load_pem_private_key((authority / "root.key").read_bytes(), password=None)
    everybody = dict.fromkeys([SERVER, facts["admin"], *names])  # NVFlare requires both
    project = Project(
        facts["name"], "", serialized_root_cert=root, root_private_key=key,
        participants=[_participant(n, facts) for n in everybody],
    )  # fmt: skip
    (folder / "kits").mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=authority) as scratch:
        builders = [WorkspaceBuilder(), StaticFileBuilder("config", scheme="grpc"), CertBuilder()]
        made = Provisioner(scratch, builders).provision(project, logger=_QuietLogger())
        if made.get(CtxKey.BUILD_ERROR):
            raise MotifairError(f"The kits could not be made in {folder}; is its disk full?")
        for name in names:
            fresh = Path(made[CtxKey.CURRENT_PROD_DIR]) / name
            lock(fresh, name, facts["admin"])
            if name not in (SERVER, facts["admin"]):
                _certify(fresh, requested_key(_request(folder, name), name), key)
            _owner_only(fresh)
            place = folder / "kits" / name
            if (place / "state").exists():  # the server's jobs, or an agent's state of 0.1
                shutil.move(place / "state", fresh / "state")
            if place.exists():
                shutil.rmtree(place)
            shutil.move(fresh, place)
    return {name: folder / "kits" / name for name in names}


def _request(folder: Path, name: str) -> Path:
    return folder / "requests" / f"{name}.csr"


def _certify(kit: Path, public: RSAPublicKey, authority: PrivateKeyTypes) -> None:
    """Replace the engine's key and certificate of a member by one for the member's own key."""
    made = certificate(kit)
    name = made.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    cert = generate_cert(
        Identity(name_of(kit), ORGANISATION), Identity(name), authority, public,
        not_valid_before=made.not_valid_before_utc, not_valid_after=made.not_valid_after_utc,
    )  # fmt: skip
    (kit / "startup" / "client.key").unlink()
    write_atomic(kit / "startup" / "client.crt", serialize_cert(cert))


def lock(kit: Path, name: str, admin: str) -> None:
    """Restrict a kit to what is needed: no custom code, no shell, no other classes, no log upload.

    The engine prefers a file to its `.default`, and the defaults are permissive.
    """
    for sample in [*kit.glob("local/*.default"), *kit.glob("local/*.sample")]:
        if sample.name.startswith(("resources", "log_config")):
            sample.rename(sample.with_suffix(""))
        else:
            sample.unlink()
    if name == admin:
        return
    _quiet(kit / "local" / "log_config.json")
    at_server = name == SERVER
    allowed = AT_SERVER if at_server else AT_SITE
    rights = {r: "any" if r in allowed else "none" for r in RIGHTS}
    nothing = dict.fromkeys(RIGHTS, "none")
    roles = {role: rights if role == "project_admin" else nothing for role in ROLES}
    write_json(
        kit / "local" / "authorization.json", {"format_version": "1.0", "permissions": roles}
    )
    resources = read_json(kit / "local" / "resources.json")
    resources["class_list_enforcement_mode"] = "enforce"
    resources["class_allow_list"] = [CONTROLLER] if at_server else [EXECUTOR]
    (_lock_server if at_server else _lock_site)(resources)
    write_json(kit / "local" / "resources.json", resources)


def _owner_only(kit: Path) -> None:
    """Make a kit readable by its owner only; scripts stay executable."""
    for path in (kit, *kit.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)


def _quiet(path: Path) -> None:
    """Log each message once instead of four times, and not every task."""
    config = read_json(path)
    config["handlers"] = {"consoleHandler": config["handlers"]["consoleHandler"]}
    config["handlers"]["consoleHandler"]["formatter"] = "baseFormatter"
    config["loggers"] = {name: {"level": "WARNING"} for name in NOISY_LOGGERS}
    config["loggers"]["root"] = {"level": "INFO", "handlers": ["consoleHandler"]}
    write_json(path, config)


def _lock_server(resources: dict[str, Any]) -> None:
    """Accept no logs, detect lost sites early, and schedule the next segment at once."""
    resources["servers"][0]["heart_beat_timeout"] = 60
    components = {c["id"]: c for c in resources["components"] if c["id"] != "log_receiver"}
    components["job_scheduler"]["args"] = {
        "max_jobs": 1000, "max_schedule_count": 100_000, "max_schedule_interval": 1.0,
    }  # fmt: skip
    resources["components"] = list(components.values())


def set_state_paths(kit: Path) -> None:
    """Point the server's state to its kit, wherever that is now.

    The engine needs an absolute path; by default all servers share one folder in /tmp.
    """
    path = kit / "local" / "resources.json"
    resources = read_json(path)
    storage = resources["snapshot_persistor"]["args"]["storage"]
    storage["args"]["root_dir"] = str(kit / "state" / "snapshots")
    manager = next(c for c in resources["components"] if c["id"] == "job_manager")
    manager["args"]["uri_root"] = str(kit / "state" / "jobs")
    write_json(path, resources)


def _lock_site(resources: dict[str, Any]) -> None:
    """Send no logs, and restart a killed worker."""
    resources["allow_log_streaming"] = False
    components = {c["id"]: c for c in resources["components"] if c["id"] != "site_log_streamer"}
    components["process_launcher"]["path"] = LAUNCHER
    resources["components"] = list(components.values())


def check_names(admin: str, members: Sequence[str]) -> None:
    """Refuse names that the engine cannot use, and duplicate names."""
    if name_check(admin, "admin")[0]:
        raise MotifairError(f"The operator '{admin}' needs a name like operator@example.org.")
    for member in members:
        if name_check(member, "client")[0] or member == SERVER:
            raise MotifairError(
                f"A member cannot be called '{member}'. Use letters, digits, '-' and '_', "
                f"and not '{SERVER}'."
            )
    twice = {m for m in members if list(members).count(m) > 1}
    if twice:
        raise MotifairError(f"Two members are called {sorted(twice)[0]}. Give each its own name.")


@contextmanager
def damaged_kit(kit: Path) -> Iterator[None]:
    """Turn what damaged files of a kit raise while they are read into one sentence."""
    try:
        yield
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MotifairError(
            f"The startup kit {kit} is damaged ({type(error).__name__}: {error}); copy it again, "
            "or ask the operator for a renewed one."
        ) from error


def certificate(kit: Path) -> x509.Certificate:
    """Read the certificate of a kit."""
    path = next((p for p in kit.glob("startup/*.crt")), None)
    if path is None:
        raise MotifairError(f"{kit} is not a startup kit: it has no certificate in startup/.")
    with damaged_kit(kit):
        return x509.load_pem_x509_certificate(path.read_bytes())


def name_of(kit: Path) -> str:
    """Return the name in a kit's certificate, which does not depend on its folder."""
    with damaged_kit(kit):
        common = certificate(kit).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(common[0].value)


def check_certificate(kit: Path) -> None:
    """Refuse a kit whose certificate has expired, or is not valid yet."""
    cert = certificate(kit)
    now = datetime.now(UTC)
    if cert.not_valid_after_utc <= now:
        raise MotifairError(
            f"The certificate in {kit} expired on {cert.not_valid_after_utc:%Y-%m-%d}. "
            "Ask the operator for a renewed kit."
        )
    if cert.not_valid_before_utc > now + timedelta(minutes=5):
        raise MotifairError(f"The certificate in {kit} is not valid yet. Set this machine's clock.")


def check_version(kit: Path) -> None:
    """Refuse a kit of another version, which names classes that are not here."""
    allowed = read_json(kit / "local" / "resources.json").get("class_allow_list")
    if allowed not in ([CONTROLLER], [EXECUTOR]):
        raise MotifairError(
            f"The kit {kit} was made by another version of motifair; the operator makes a new one "
            f"with: motifair federation renew {name_of(kit)}."
        )


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = read_json(folder / "authority" / "federation.json")
    except FileNotFoundError:
        raise MotifairError(f"{folder} has no federation yet. Provision it first.") from None
    return facts


def _participant(name: str, facts: dict[str, Any]) -> Participant:
    if name == SERVER:
        host = {"fed_learn_port": facts["port"], "default_host": facts["server_host"]}
        return Participant("server", name, ORGANISATION, host)
    if name == facts["admin"]:
        return Participant("admin", name, ORGANISATION, {"role": "project_admin"})
    return Participant("client", name, ORGANISATION, {"allow_log_streaming": False})


class _QuietLogger:
    """Logger for provisioning, which would otherwise print to the terminal."""

    def debug(self, message: str) -> None:
        logger.debug(message)

    info = warning = debug

    def error(self, message: str) -> None:
        logger.error(message)
