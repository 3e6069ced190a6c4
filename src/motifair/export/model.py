"""Save and load a trained model: a folder with its tensors and a card that describes it."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from motifair.errors import MotifairError
from motifair.files import file_errors, read_json, write_atomic, write_json
from motifair.graphs.features import Features
from motifair.graphs.schema import Schema
from motifair.graphs.task import CLASSES, Task
from motifair.models import GIN, GINE, SAGE, Model, Star
from motifair.models.factory import name_model
from motifair.version import __version__

FORMAT = "motifair-model-2"
OWN = "own."
TENSORS, CARD = "model.safetensors", "card.json"
ABOUT = ("method", "agent", "rounds", "accuracy", "ledger_head")
MODULE = "module"  # a module of the user, in the place of one of the networks
NETWORKS: dict[str, type[Model]] = {"gin": GIN, "gine": GINE, "sage": SAGE, "star": Star}


@dataclass(frozen=True)
class Exported:
    """A trained model: weights `(D,)`, input features, schema of its graphs, and card.

    An agent may predict with two models: `own` is the one it trained alone, `own_weight` its share.
    """

    model: Model
    weights: Tensor
    features: Features
    schema: Schema
    card: dict[str, Any]
    own: Tensor | None = None

    @property
    def own_weight(self) -> float:
        """Share of the own model in the probabilities [η]."""
        return float(self.card["own_weight"])

    def __repr__(self) -> str:
        c = self.card
        return f"Exported(method={c['method']}, agent={c['agent']}, rounds={c['rounds']})"


def save_model(
    folder: str | Path,
    weights: Tensor,
    model: Model,
    features: Features,
    card: Mapping[str, Any],
    own: tuple[Tensor, float] | None = None,
) -> None:
    """Write a model `(D,)` to a folder, atomically.

    `own` is the model that an agent trained alone, and its share in the predictions. `card`
    describes the training: the keys of `ABOUT` (null if missing; `agent` is `server` for the
    server's model; `accuracy` is its score by `metric`) and any others. Its `classes` are the class
    values as in the files, in the order of the outputs; default 0, 1, and so on. A model in the
    folder is replaced; a folder with anything else is refused.
    """
    folder = Path(folder)
    named = _named(model, weights)
    if own is not None:
        named |= {f"{OWN}{name}": tensor for name, tensor in _named(model, own[0]).items()}
    tensors = save(named)
    content = {
        **_card(model, features, card, 0.0 if own is None else own[1]),
        "sha256": hashlib.sha256(tensors).hexdigest(),
    }
    if folder.exists() and not (folder / CARD).exists():
        raise MotifairError(f"{folder} exists and holds no model; name another folder.")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    with file_errors():
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    try:
        write_atomic(temporary / TENSORS, tensors)
        write_json(temporary / CARD, content)
        _replace(folder, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def make_exported(
    weights: Tensor,
    model: Model,
    features: Features,
    card: Mapping[str, Any],
    own: tuple[Tensor, float] | None = None,
) -> Exported:
    """Return what `load_model` would read after `save_model` with the same arguments."""
    content = _card(model, features, card, 0.0 if own is None else own[1])
    _, schema = _read_schema(content)
    own_row = None if own is None else own[0].detach().cpu().float()
    return Exported(model, weights.detach().cpu().float(), features, schema, content, own_row)


def load_model(folder: str | Path, module: Any = None) -> Exported:
    """Load a model; refuse one that is damaged, incomplete, or of another version.

    Arguments:
        folder: holds `model.safetensors` and `card.json`, as `export_run` writes them.
        module: the user's own module that was trained, as given to `run` as `model`; for such
            models only.

    Returns:
        The model, its weights and its card, for `predict`.
    """
    folder = Path(folder)
    card, content = _read(folder)
    if hashlib.sha256(content).hexdigest() != card.get("sha256"):
        raise MotifairError(
            f"{folder / TENSORS} is not the file that its card describes (the SHA-256 differs); "
            "get the folder again."
        )
    _check_module(folder, card, module)
    try:
        features, schema = _read_schema(card)
        network = card["network"]
        sizes = [int(network["hidden"]), int(network["layers"])]
        if not 0 < sizes[0] * sizes[1] <= len(content):  # before a network of any size is made
            raise ValueError("the tensors are not those of this network")
        sizes += [features.edges] if features.edges else []
        task = schema.predicted
        if network["name"] == MODULE:
            model = _own_network(card, module, features, task)
        else:
            made: Any = NETWORKS[network["name"]]
            model = made(features.width, task.outputs, *sizes, task=task)
        tensors = load(content)
        weights = _row(model, {n: t for n, t in tensors.items() if not n.startswith(OWN)})
        own = None
        if not 0 <= float(card["own_weight"]) <= 1:
            raise ValueError("own_weight is not between 0 and 1")
        if float(card["own_weight"]) > 0:
            own = _row(
                model, {n.removeprefix(OWN): t for n, t in tensors.items() if n.startswith(OWN)}
            )
    except (
        LookupError, TypeError, ValueError, ArithmeticError, SafetensorError, MotifairError,
    ) as error:  # fmt: skip
        raise MotifairError(
            f"{folder / CARD} does not describe the model in its folder ({error}); "
            "get the folder again."
        ) from error
    return Exported(model, weights, features, schema, {**dict.fromkeys(ABOUT), **card}, own)


def _check_module(folder: Path, card: Mapping[str, Any], module: Any) -> None:
    """Refuse a card of a user's module without the module, or a module without such a card."""
    network = card.get("network")
    named = network.get("module") if isinstance(network, dict) else None
    if named is not None and module is None:
        raise MotifairError(
            f"The model in {folder} is the module {named}; give it as module= or --module, or load "
            f"{TENSORS} into it yourself."
        )
    if named is None and module is not None:
        raise MotifairError(f"The model in {folder} is none of your own; leave module out.")


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Return the card and the bytes of the tensors; refuse a card of another version."""
    try:
        card, content = read_json(folder / CARD), (folder / TENSORS).read_bytes()
    except OSError as error:
        missing = Path(str(error.filename)).name
        raise MotifairError(
            f"{folder} holds no model: {missing} cannot be read ({error.strerror}); give a folder "
            "that holds model.safetensors and card.json."
        ) from error
    except ValueError as error:
        raise MotifairError(f"{folder / CARD} is not valid JSON; get the folder again.") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        stored = card if isinstance(card, dict) else {}
        raise MotifairError(
            f"{folder} has format {stored.get('format')}, but motifair {__version__} reads "
            f"{FORMAT}; use the version that wrote it ({stored.get('motifair', 'unknown')})."
        )
    return card, content


def _card(
    model: Model, features: Features, about: Mapping[str, Any], own_weight: float
) -> dict[str, Any]:
    return {
        **dict.fromkeys(ABOUT),
        "classes": list(range(model.task.outputs)),
        **about,
        **({} if model.task.kind == CLASSES else {"classes": [], "task": model.task.to_json()}),
        "own_weight": own_weight,
        "format": FORMAT,
        "motifair": __version__,
        "network": _network(model),
        "features": _features_to_json(features),
    }


def _named(model: Model, weights: Tensor) -> dict[str, Tensor]:
    return model.layout.to_state_dict(weights.detach().cpu().float())


def _row(model: Model, tensors: dict[str, Tensor]) -> Tensor:
    """Return the tensors as a row `(D,)`; raise ValueError for those of another model."""
    layout = model.layout
    if {name: tuple(t.shape) for name, t in tensors.items()} != layout.state_shapes():
        raise ValueError("the tensors are not those of this network")
    row = layout.from_state_dict(tensors)
    if not torch.isfinite(row).all():
        raise ValueError("its weights are not all finite numbers")
    return row


def _network(model: Model) -> dict[str, Any]:
    """Return what of a card makes the network again."""
    about = model.about()
    if MODULE in about:
        return {"name": MODULE, **about}
    for name, kind in NETWORKS.items():
        if type(model) is kind:
            return {"name": name, **about}
    raise MotifairError(
        f"Models of {type(model).__name__} cannot be written; use {', '.join(NETWORKS)}."
    )


def _own_network(card: Mapping[str, Any], module: Any, features: Features, task: Task) -> Model:
    """Return the user's module that a card describes, from what the caller says that it is.

    A card may come from anywhere, so that what it names is not imported.
    """
    from motifair.models.module import ModuleModel  # importing PyG takes seconds

    network = card["network"]
    sizes = {name: network[name] for name in ("hidden", "layers", "dropout")}
    sizes |= {"width": features.width, "outputs": task.outputs, "edges": features.edges}
    return ModuleModel(name_model(module), sizes, task)


def _features_to_json(features: Features) -> dict[str, Any]:
    def plain(values: np.ndarray | None) -> list[Any] | None:
        return None if values is None else values.tolist()

    return {
        "kind": features.kind,
        "width": features.width,
        "columns": plain(features.columns),
        "mean": plain(features.mean),
        "scale": plain(features.scale),
        **({} if features.edge_columns is None else {"edges": plain(features.edge_columns)}),
    }


def _read_schema(card: Mapping[str, Any]) -> tuple[Features, Schema]:
    """Return the input features and the schema of the graphs from the card of a model."""
    content = card["features"]
    schema = Schema.from_json(
        {
            "features": content["kind"],
            "classes": card["classes"],
            "width": content["width"],
            **{name: content[name] or [] for name in ("columns", "mean", "scale")},
            "edges": content.get("edges", []),
            "task": card.get("task"),
        }
    )
    return schema.encoding(), schema


def _replace(folder: Path, temporary: Path) -> None:
    """Rename a finished folder to `folder`; move an existing one away first."""
    old = temporary.with_name(f"{temporary.name}.old")
    if folder.exists():
        folder.rename(old)
    temporary.rename(folder)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    shutil.rmtree(old, ignore_errors=True)
