"""A model in a folder: whole or not there, and refused when it is not what its card says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from export.samples import CARD, saved, trained
from models.random_graphs import random_graphs
from safetensors.torch import load_file, save_file

import motifair.export.model
from motifair.errors import MotifairError
from motifair.export import load_model, save_model
from motifair.export.model import NETWORKS
from motifair.graphs.schema import Schema
from motifair.models import GIN

GRAPHS = random_graphs(6, seed=1)


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


KINDS = pytest.mark.parametrize("kind", ["label", "degree", "attributes", "label+attributes"])


@KINDS
@pytest.mark.parametrize("network", NETWORKS)
def test_a_model_comes_back_as_it_was(network: str, kind: str, tmp_path: Path) -> None:
    model, weights, features = trained(GRAPHS, network, kind)
    save_model(tmp_path / "m", weights, model, features, CARD)
    found = load_model(tmp_path / "m")
    assert torch.equal(found.weights, weights)
    assert type(found.model) is type(model)
    assert found.model.layout == model.layout
    edges = "label" if network == "gine" else "ignore"
    assert found.schema == Schema.of(GRAPHS, kind, edges)
    encoded = [f.encode(GRAPHS).toarray() for f in (features, found.features)]
    assert np.array_equal(*encoded)


@pytest.mark.parametrize("network", NETWORKS)
def test_both_models_of_an_agent_come_back_as_they_were(network: str, tmp_path: Path) -> None:
    model, weights, features = trained(GRAPHS, network, "label")
    own = model.layout.initial(11, torch.float32)
    save_model(tmp_path / "m", weights, model, features, CARD, (own, 0.4))
    found = load_model(tmp_path / "m")
    assert torch.equal(found.weights, weights)
    assert found.own is not None
    assert torch.equal(found.own, own)
    assert not torch.equal(own, weights)
    assert (found.own_weight, found.card["own_weight"]) == (0.4, 0.4)
    tensors = load_file(tmp_path / "m" / "model.safetensors")
    assert set(tensors) == {f"{p}{n}" for n in model.layout.names for p in ("", "own.")}


def test_an_agent_with_one_model_has_none_of_its_own(tmp_path: Path) -> None:
    found = load_model(saved(tmp_path / "m", GRAPHS))
    assert found.own is None
    assert (found.own_weight, found.card["own_weight"]) == (0.0, 0.0)


@pytest.mark.parametrize("half", ["", "own."])
def test_half_of_two_models_is_refused(half: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS, own_weight=0.4)
    tensors = load_file(folder / "model.safetensors")
    kept = {n: t for n, t in tensors.items() if n.startswith("own.") == (half == "own.")}
    save_file(kept, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    change_card(folder, sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(MotifairError, match=r"does not describe the model in its folder"):
        load_model(folder)


@pytest.mark.parametrize("share", [1.1, 7, -0.1, float("nan"), None, "much"])
def test_a_share_of_the_own_model_that_is_none_is_refused(share: object, tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS, own_weight=0.4)
    change_card(folder, own_weight=share)
    with pytest.raises(MotifairError, match=r"does not describe the model in its folder"):
        load_model(folder)


def test_the_folder_holds_named_tensors_and_a_card_and_nothing_else(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    assert inside(tmp_path) == ["m"]
    assert inside(folder) == ["card.json", "model.safetensors"]
    model, weights, _ = trained(GRAPHS, "gin", "label")
    tensors = load_file(folder / "model.safetensors")
    assert set(tensors) == set(model.layout.names)
    assert torch.equal(
        tensors["readout.weight"].T, model.layout.unpack(weights[None])["readout.weight"][0]
    )
    card = json.loads((folder / "card.json").read_text())
    assert card | CARD == card
    assert card["ledger_head"] is None
    assert card["classes"] == [0, 1, 2]
    assert card["network"] == {"name": "gin", "hidden": 8, "layers": 2}
    assert card["features"]["columns"] == [0, 1, 2, 3]
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert card["sha256"] == digest


def test_a_card_cannot_pass_itself_off_as_another_format(tmp_path: Path) -> None:
    model, weights, features = trained(GRAPHS, "gin", "label")
    lies = {"format": "mine", "sha256": "0", "features": None, "note": "kept"}
    save_model(tmp_path / "m", weights, model, features, {**CARD, **lies})
    assert load_model(tmp_path / "m").card["note"] == "kept"


def test_classes_are_called_as_the_card_calls_them(tmp_path: Path) -> None:
    model, weights, features = trained(GRAPHS, "gin", "label")
    save_model(tmp_path / "m", weights, model, features, {**CARD, "classes": [-1, 4, 9]})
    assert load_model(tmp_path / "m").schema.classes == (-1, 4, 9)


def test_the_servers_weights_in_double_precision_are_stored_in_single(tmp_path: Path) -> None:
    model, weights, features = trained(GRAPHS, "gin", "label")
    save_model(tmp_path / "m", weights.double(), model, features, CARD)
    assert torch.equal(load_model(tmp_path / "m").weights, weights)


def test_a_model_is_replaced_and_anything_else_is_not(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    model, weights, features = trained(GRAPHS, "gin", "label")
    save_model(folder, weights + 1, model, features, CARD)
    assert torch.equal(load_model(folder).weights, weights + 1)
    assert inside(tmp_path) == ["m"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("")
    for other in ("mine", "file"):
        with pytest.raises(MotifairError, match="exists and holds no model; name another folder"):
            save_model(tmp_path / other, weights, model, features, CARD)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("part", ["write_atomic", "write_json", "_replace"])
def test_a_failure_while_writing_leaves_what_was_there(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    model, weights, features = trained(GRAPHS, "gin", "label")

    def full(*words: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(motifair.export.model, part, full)
    for place in ("m", "new"):
        with pytest.raises(OSError, match="No space left"):
            save_model(tmp_path / place, weights + 1, model, features, CARD)
    assert torch.equal(load_model(folder).weights, weights)
    assert inside(tmp_path) == ["m"]


def test_a_network_of_ones_own_is_refused(tmp_path: Path) -> None:
    class Mine(GIN):
        pass

    model, weights, features = trained(GRAPHS, "gin", "label")
    mine = Mine(model.width, model.classes, model.hidden, model.layers)
    with pytest.raises(
        MotifairError, match="Models of Mine cannot be written; use gin, gine, sage"
    ):
        save_model(tmp_path / "m", weights, mine, features, CARD)


def change_card(folder: Path, **changes: Any) -> None:
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, **changes}))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match=r"gone holds no model: card\.json cannot be read \(No"):
        load_model(tmp_path / "gone")
    folder = saved(tmp_path / "m", GRAPHS)
    (folder / "card.json").write_text("{")
    with pytest.raises(MotifairError, match=r"card\.json is not valid JSON; get the folder again"):
        load_model(folder)
    (folder / "card.json").write_text("[]")
    with pytest.raises(MotifairError, match="has format None"):
        load_model(folder)
    saved(folder, GRAPHS)
    (folder / "model.safetensors").unlink()
    with pytest.raises(MotifairError, match=r"m holds no model: model\.safetensors cannot be read"):
        load_model(folder)


def test_another_format_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    change_card(folder, format="motifair-model-9", motifair="9.1")
    with pytest.raises(
        MotifairError, match=r"format motifair-model-9, but .* reads motifair-model-2; .* \(9\.1\)"
    ):
        load_model(folder)


def test_a_changed_or_truncated_byte_is_noticed(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    whole = (folder / "model.safetensors").read_bytes()
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    for content in (bytes(flipped), whole[:-1], b""):
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(MotifairError, match=r"the SHA-256 differs\); get the folder again"):
            load_model(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"network": {"name": "gin", "hidden": 16, "layers": 2}},
        {"network": {"name": "sage", "hidden": 8, "layers": 2}},
        {"network": {"name": "mine", "hidden": 8, "layers": 2}},
        {"network": None},
        {"classes": [0, 1]},
        {"classes": [1, 0, 2]},
        {"classes": "many"},
        {"features": {"kind": "label", "width": 4, "columns": [0, 1, 2]}},
        {"features": {"kind": "label", "width": 4, "columns": [3, 1, 2, 0]}},
        {"features": {"kind": "colour", "width": 4}},
        {"features": {"kind": "attributes", "width": 4}},
        {"features": {}},
        {"features": None},
    ],
)
def test_a_card_of_another_model_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    change_card(folder, **change)
    with pytest.raises(
        MotifairError, match=r"card\.json does not describe the model in its folder"
    ):
        load_model(folder)


def test_a_file_that_holds_no_tensors_is_refused_whatever_its_digest(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", GRAPHS)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["post.bias"]
    save_file(tensors, path)
    for content in (path.read_bytes(), b"no tensors"):
        path.write_bytes(content)
        change_card(folder, sha256=hashlib.sha256(content).hexdigest())
        with pytest.raises(MotifairError, match="does not describe the model in its folder"):
            load_model(folder)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_numbers_are_refused(number: float, tmp_path: Path) -> None:
    model, weights, features = trained(GRAPHS, "gin", "label")
    weights[3] = number
    save_model(tmp_path / "m", weights, model, features, CARD)
    with pytest.raises(MotifairError, match="not all finite numbers"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(("hidden", "layers"), [(10**9, 3), (64, 10**9), (0, 3), (-4, -4)])
def test_a_card_of_a_network_that_cannot_be_is_refused_at_once(
    hidden: int, layers: int, tmp_path: Path
) -> None:
    save_model(tmp_path / "m", *_changed(trained(GRAPHS, "gin", "label")), CARD)
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    card["network"] |= {"hidden": hidden, "layers": layers}
    (tmp_path / "m" / "card.json").write_text(json.dumps(card))
    with pytest.raises(MotifairError, match="the tensors are not those of this network"):
        load_model(tmp_path / "m")


def _changed(made: Any) -> Any:
    model, weights, features = made
    return weights, model, features
