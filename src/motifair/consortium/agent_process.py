"""A member's agent process: check its graphs, make its agent, answer the server's tasks."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from motifair.consortium.agent import MemberAgent
from motifair.consortium.keys import certified_key, read_key, signer
from motifair.consortium.member_data import MemberData, prepare_member_data
from motifair.consortium.members_key import read_members_key
from motifair.consortium.privacy import guarantee
from motifair.consortium.terms import FederationTerms, read_terms
from motifair.consortium.wire import FINISH, Download, Upload, unseal
from motifair.errors import MotifairError
from motifair.export.model import save_model
from motifair.files import write_atomic, write_private
from motifair.graphs.csv_file import Columns
from motifair.graphs.read import read_graphs
from motifair.learning.process import keep_freed_memory
from motifair.statements.signatures import public_text, read_public

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

HANDLER = "motifair.consortium.agent_process:make_handler"
AUTHORITY = "authority.txt"  # in a state folder: which federation it belongs to


def settings_of(
    kit: Path, graphs: Path, state: Path | None, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Check a member's graphs against the terms in its kit; return the settings of its agent.

    `tell` is called with the folder of the state, and what of the graphs is used or ignored.
    """
    from motifair.consortium.transports.nvflare.kits import name_of
    from motifair.consortium.transports.nvflare.processes import check_kit

    name, kit = name_of(kit), kit.resolve()
    check_kit(kit)  # before a state is moved, which the version that made the kit may still need
    _terms(name, kit)
    own_key(kit)
    place = _state_folder(kit, state, tell)
    settings = {"kit": str(kit), "graphs": str(graphs.resolve()), "state": str(place)}
    _, data, _ = _prepared(name, settings)
    tell(f"Its state is in {place}.")
    tell(str(data.inputs))
    return settings


def state_of(kit: Path) -> Path:
    """Return the default folder of a member's state.

    It is outside the kit, in which the engine deletes folders and which `renew` replaces, and named
    after the member, so that a renewed kit in the same place uses it. No member's name has a dot.
    """
    from motifair.consortium.transports.nvflare.kits import name_of

    return kit.resolve().parent / f"{name_of(kit)}.state"


def make_handler(name: str, settings: dict[str, Any]) -> Callable[[bytes], bytes]:
    """Make the handler of a member's agent; it exports its model when the run is finished."""
    torch.set_num_threads(1)
    keep_freed_memory()
    terms, data, seed = _prepared(name, settings)
    state = Path(settings["state"])
    key = own_key(Path(settings["kit"]))
    public = Path(settings["kit"]) / "local" / "operator.pub"
    operator = read_public(public) if public.exists() else ""  # kits of 0.1 had none
    agent = MemberAgent(name, terms, data, state, sign=signer(key), seed=seed, operator=operator)

    def handle(task: bytes) -> bytes:
        began = time.monotonic()
        answer = agent(task)
        download = Download.decode(task)
        with (state / "times.txt").open("a") as file:
            file.write(f"{download.round} {time.monotonic() - began:.4f}\n")
        if download.task == FINISH:
            _export(agent, download, Upload.decode(unseal(answer)[0]))
        return answer

    return handle


def own_key(kit: Path) -> RSAPrivateKey:
    """Return the member's private key, which is copied into the kit from `NAME.key` beside it."""
    from motifair.consortium.transports.nvflare.kits import name_of

    path, made = kit / "startup" / "client.key", kit.parent / f"{name_of(kit)}.key"
    if not path.exists():
        if not made.exists():
            raise MotifairError(
                f"The kit {kit} has no key yet; put {made.name}, which motifair federation request "
                f"made, next to the kit, as {made}."
            )
        write_private(path, made.read_bytes())
    key = read_key(path)
    if public_text(key) != certified_key(kit / "startup" / "client.crt"):
        raise MotifairError(
            f"{path} is not the key of the kit's certificate; use the key with which the request "
            "was made, or send the operator a new request."
        )
    return key


def _state_folder(kit: Path, chosen: Path | None, tell: Callable[[str], None]) -> Path:
    """Return the folder of the state, created if missing; move a state of 0.1 out of the kit."""
    place = (chosen or state_of(kit)).resolve()
    if place.is_relative_to(kit):
        raise MotifairError(
            f"{place} is in the startup kit, where the engine deletes folders and which a renewal "
            "replaces; use a folder outside it, or omit --state."
        )
    if chosen is None and (kit / "state").is_dir():
        _move_out(kit, place)
        tell(f"Moved its state from {kit / 'state'} to {place}.")
    place.mkdir(parents=True, exist_ok=True)
    own = hashlib.sha256((kit / "startup" / "rootCA.pem").read_bytes()).hexdigest()
    if not (place / AUTHORITY).exists():
        write_atomic(place / AUTHORITY, own)
    if (place / AUTHORITY).read_text() != own:
        raise MotifairError(
            f"{place} is the state of another federation; name another folder with --state."
        )
    return place


def _move_out(kit: Path, place: Path) -> None:
    from motifair.consortium.transports.nvflare.stopping import check_free

    check_free(kit)  # a running agent would continue to write to the old folder
    old = kit / "state"
    if place.exists():
        raise MotifairError(
            f"There is a state in both {old} and {place}; keep the one with the later rounds, "
            "and move the other elsewhere."
        )
    try:
        old.rename(place)
    except OSError as error:
        raise MotifairError(
            f"{old} cannot be moved out of the startup kit ({error.strerror}); move it to a folder "
            "outside, and name it with --state."
        ) from error


def _terms(name: str, kit: Path) -> FederationTerms:
    terms = read_terms(kit / "local" / "federation.toml")
    if name not in terms.members:
        raise MotifairError(
            f"The terms in {kit} do not name '{name}'; ask the operator for the current ones."
        )
    return terms


def _prepared(name: str, settings: dict[str, Any]) -> tuple[FederationTerms, MemberData, int]:
    terms = _terms(name, Path(settings["kit"]))
    seed = _secret(Path(settings["state"]))
    columns = Columns(terms.config.smiles, terms.config.targets)
    graphs = read_graphs(Path(settings["graphs"]), columns)
    keys = terms.fingerprint_key, read_members_key(Path(settings["kit"]), terms.members_key)
    return terms, prepare_member_data(terms.config, terms.schema, name, graphs, seed, *keys), seed


def _secret(state: Path) -> int:
    """Return the member's secret seed, drawn once."""
    path = state / "seed"
    state.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomic(path, _draw)
    try:
        return int(path.read_text())
    except ValueError:
        raise MotifairError(
            f"{path} is damaged; restore it from a backup, or delete it, and the agent starts anew."
        ) from None


def _draw(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(str(secrets.randbelow(2**31)))


def _export(agent: MemberAgent, download: Download, upload: Upload) -> None:
    _, state = agent.state(download.run)
    own = None
    if state.own is not None:
        own = state.own.weights[0], float(agent.agents.own_weights(state)[0])
    card = {
        "method": agent.terms.config.method,
        "agent": agent.name,
        "rounds": download.round - 1,
        "accuracy": upload.accuracy,
        "ledger_head": download.head,
        "classes": list(agent.terms.schema.classes),
        "metric": agent.terms.config.metric,
        "privacy": {
            **guarantee(agent.terms.privacy, agent.terms.config.rounds),
            "covers": "what was sent to the server, not this model",
        },
    }
    features = agent.terms.schema.encoding()
    folder = agent.folder / download.run / "model"
    save_model(folder, state.weights[0], agent.data.model, features, card, own)
