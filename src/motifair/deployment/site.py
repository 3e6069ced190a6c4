"""A member's side: check its graphs, start its agent, and answer the server's tasks."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from motifair.errors import MotifairError
from motifair.export.model import save_model
from motifair.federation.keys import read_key, signer
from motifair.federation.own import Own, prepare_own, schema_features
from motifair.federation.privacy import statement
from motifair.federation.records import FINISH, Download, Upload, unseal
from motifair.federation.site import Site
from motifair.federation.terms import Terms, read_terms
from motifair.files import write_atomic
from motifair.graphs.read import read_graphs
from motifair.learning.steady import keep_freed_memory

HANDLER = "motifair.deployment.site:make_handler"


def settings_of(
    kit: Path, graphs: Path, state: Path | None, tell: Callable[[str], None] = lambda words: None
) -> dict[str, Any]:
    """Check a member's graphs against the terms in its kit; return what its agent is made from.

    `tell` is called with what of the graphs is used, and what is ignored.
    """
    settings = {
        "kit": str(kit.resolve()),
        "graphs": str(graphs.resolve()),
        "state": str((state or kit / "state").resolve()),
    }
    from motifair.federation.transports.nvflare.kits import name_of

    _, own, _ = _prepared(name_of(kit), settings)
    tell(str(own.inputs))
    return settings


def make_handler(name: str, settings: dict[str, Any]) -> Callable[[bytes], bytes]:
    """Make the agent of a member; its model is exported when the run is finished."""
    torch.set_num_threads(1)
    keep_freed_memory()
    terms, own, seed = _prepared(name, settings)
    state = Path(settings["state"])
    key = read_key(Path(settings["kit"]) / "startup" / "client.key")
    site = Site(name, terms, own, state, sign=signer(key), seed=seed)

    def handle(task: bytes) -> bytes:
        began = time.monotonic()
        answer = site(task)
        download = Download.decode(task)
        with (state / "times.txt").open("a") as file:
            file.write(f"{download.round} {time.monotonic() - began:.4f}\n")
        if download.task == FINISH:
            _export(site, download, Upload.decode(unseal(answer)[0]))
        return answer

    return handle


def _prepared(name: str, settings: dict[str, Any]) -> tuple[Terms, Own, int]:
    kit = Path(settings["kit"])
    terms = read_terms(kit / "local" / "federation.toml")
    if name not in terms.members:
        raise MotifairError(f"The terms in {kit} do not name '{name}'; ask for the present ones.")
    seed = _secret(Path(settings["state"]))
    graphs = read_graphs(Path(settings["graphs"]))
    return terms, prepare_own(terms.config, terms.schema, name, graphs, seed), seed


def _secret(state: Path) -> int:
    """Return the member's own seed, which nobody else knows; it is drawn once."""
    path = state / "seed"
    state.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomic(path, _draw)
    return int(path.read_text())


def _draw(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(str(secrets.randbelow(2**31)))


def _export(site: Site, download: Download, upload: Upload) -> None:
    _, state = site.state(download.run)
    own = None
    if state.own is not None:
        own = state.own.weights[0], site.method.own_weight
    card = {
        "method": site.terms.config.method,
        "agent": site.name,
        "rounds": download.round - 1,
        "accuracy": upload.accuracy,
        "ledger_head": download.head,
        "classes": list(site.terms.schema.classes),
        "privacy": {
            **statement(site.terms.privacy, site.terms.config.rounds),
            "covers": "what was sent to the server, not this model",
        },
    }
    features = schema_features(site.terms.schema)
    folder = site.folder / download.run / "model"
    save_model(folder, state.weights[0], site.own.model, features, card, own)
