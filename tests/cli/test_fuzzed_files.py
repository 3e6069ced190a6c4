"""Files that are damaged or odd in any way are read, or refused in one sentence: no traceback."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from books import RUN, make_run, write
from deployed import content_of, graphs_of
from fuzzing import CASES, mangled, refused_or_read
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.config import make_config
from motifair.consortium.store.export import balance, overview, to_frame, to_json
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.template import federation_toml, members_toml
from motifair.consortium.terms import make_terms, read_terms
from motifair.errors import MotifairError
from motifair.export import load_model, predict
from motifair.export.model import NETWORKS, save_model
from motifair.graphs.features import fit_features
from motifair.graphs.read import read_graphs
from motifair.graphs.schema import Schema
from motifair.graphs.tu import write_tu
from motifair.options import read_settings
from motifair.statements.verification import Head, verify_run

CONFIGURATION = {
    "method": "motifair", "profile": "default", "agents": 4, "rounds": 3, "beta": 2.5,
    "partition": "iid", "local_epochs": 2, "hidden": 16, "chance": True, "size": "claimed",
}  # fmt: skip
CELLS = (
    None, "", "x", "{}", "[]", "null", "\x00", "9" * 30, -1, 0, 1, 2, 2**63 - 1, -(2**63), 1.5,
    float("inf"), b"\xff\x00", "ü" * 500, '{"members": {"a": 1}}', "[" * 5000, "ab" * 32,
)  # fmt: skip


def command(*words: object) -> bool:
    """Return whether a command succeeded; no exception but its own may reach the user."""
    ended = CliRunner().invoke(app, [str(word) for word in words])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit | MotifairError):
        raise ended.exception
    return ended.exit_code == 0


def test_graphs_in_the_tu_format(tmp_path: Path) -> None:
    write_tu(graphs_of("bank-a").select(range(4)), tmp_path / "X")  # type: ignore[arg-type]
    whole = {path: path.read_bytes() for path in sorted((tmp_path / "X").iterdir())}
    random, read = Random(1), 0
    for _ in range(CASES):
        path = random.choice(list(whole))
        path.write_bytes(mangled(whole[path], random))
        read += refused_or_read(lambda: Schema.of(read_graphs(tmp_path / "X"), "auto"))
        path.write_bytes(whole[path])
    assert 0 < read < CASES


def test_terms(tmp_path: Path) -> None:
    terms = make_terms(content_of())
    texts = [federation_toml("trial", terms.members, terms.schema), members_toml(content_of())]
    random, path, read = Random(2), tmp_path / "federation.toml", 0
    for text in texts:
        for _ in range(CASES // 2):
            path.write_bytes(mangled(text.encode(), random))
            read += refused_or_read(lambda: read_terms(path))
    content = tomllib.loads(texts[0])
    for section, options in content.items():  # any value of another type or size
        for name, odd in ((n, odd) for n in options for odd in (-1, 10**30, 1e300, "x", [], {})):
            changed = content | {section: options | {name: odd}}
            read += refused_or_read(lambda c=changed: make_terms(c))
    assert read > 0


def test_configuration_files(tmp_path: Path) -> None:
    random, read = Random(5), 0
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in CONFIGURATION.items())
    for name, content in (("x.toml", text), ("x.json", json.dumps(CONFIGURATION))):
        path = tmp_path / name
        for _ in range(CASES // 2):
            path.write_bytes(mangled(content.encode(), random))
            read += refused_or_read(lambda path=path: make_config(read_settings(path)))
    assert 0 < read < CASES


def test_folders_of_models(tmp_path: Path) -> None:
    """Also where the digest in the card is that of the damaged tensors."""
    graphs = graphs_of("bank-a").select(np.arange(4))
    features = fit_features(graphs, np.arange(4), "first", "ignore")
    model = NETWORKS["gin"](features.width, graphs.classes, 8, 2)
    save_model(tmp_path / "m", model.layout.initial(3, torch.float32), model, features, {})
    card, tensors = tmp_path / "m" / "card.json", tmp_path / "m" / "model.safetensors"
    whole = {path: path.read_bytes() for path in (card, tensors)}
    digest = sha256(whole[tensors]).hexdigest()
    random, read = Random(6), 0
    for case in range(CASES):
        path = (card, tensors)[case % 2]
        content = mangled(whole[path], random)
        path.write_bytes(content)
        if path == tensors and case % 4 == 1:
            card.write_text(card.read_text().replace(digest, sha256(content).hexdigest()))
        read += refused_or_read(lambda: predict(load_model(tmp_path / "m"), graphs))
        for again, bytes_ in whole.items():
            again.write_bytes(bytes_)
    assert 0 < read < CASES


def use(place: Path) -> None:
    """Read all of a ledger; each way of using it may refuse it."""
    with open_ledger(place, write=False) as ledger:
        for run in ledger.runs():
            refused_or_read(lambda run=run: verify_run(ledger, run, [Head(0, "x", "")]).to_json())
        ways: list[Callable[[], Any]] = [
            lambda: balance(ledger), lambda: overview(ledger), lambda: to_frame(ledger),
            lambda: json.dumps(to_json(e for r in ledger.runs() for e in ledger.entries(r))),
        ]  # fmt: skip
        for way in ways:
            refused_or_read(way)


@pytest.mark.slow
def test_cells_of_a_ledger(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    write(str(place), make_run(2, operator="operator"))
    _without_triggers(place)
    whole, random = place.read_bytes(), Random(3)
    for case in range(CASES):
        place.write_bytes(whole)
        _forge(place, random)
        refused_or_read(lambda: use(place))
        if case % 10 == 0:
            command("ledger", "verify", "--ledger", place)
            command("statement", "--ledger", place, "--agent", "bank-a", "--run", RUN)


def test_bytes_of_a_ledger(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    write(str(place), make_run(2))
    whole, random = place.read_bytes(), Random(4)
    for _ in range(CASES):
        place.write_bytes(mangled(whole, random))
        refused_or_read(lambda: use(place))


def _without_triggers(place: Path) -> None:
    with sqlite3.connect(place) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            raw.execute(f"DROP TRIGGER {name}")


def _forge(place: Path, random: Random) -> None:
    """Put an odd value into a random cell."""
    with sqlite3.connect(place) as raw:
        table = random.choice(("entries", "lines"))
        columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
        (row,) = random.choice(raw.execute(f"SELECT rowid FROM {table}").fetchall())
        cell = (random.choice(CELLS), row)
        try:
            raw.execute(f"UPDATE {table} SET {random.choice(columns)} = ? WHERE rowid = ?", cell)
        except sqlite3.IntegrityError:
            return  # a constraint of the table refuses it
