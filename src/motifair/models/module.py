"""`ModuleModel`: a PyG module of the user as a model, one agent after another by `torch.func`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module
from torch_geometric.data import Batch as PygBatch

from motifair.errors import MotifairError
from motifair.graphs.batch import Batch
from motifair.graphs.task import CLASSES, Task
from motifair.models.base import Model, Noise, of_own_classes
from motifair.models.factory import GENERATOR, find_factory
from motifair.models.layout import Layout
from motifair.models.pyg_data import as_pyg
from motifair.models.trial import check_shapes, trained_parameters, try_module


@dataclass(frozen=True)
class ModuleLayout(Layout):
    """The parameters of a module in the order of `named_parameters`, in their own shapes.

    `make` returns a new module for a seed.
    """

    make: Callable[[int], Module] = Module

    def initial(self, seed: int, dtype: torch.dtype) -> Tensor:
        """Return the weights `(D,)` with which the module begins for this seed."""
        made = dict(self.make(seed).named_parameters())
        return torch.cat([made[name].detach().flatten() for name in self.names]).to(dtype)

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters by name."""
        return dict(zip(self.names, self.shapes, strict=True))

    def turned(self, parameter: Tensor) -> Tensor:
        """Return the parameter as it is."""
        return parameter


class ModuleModel(Model):
    """A module that maps a PyG `Batch` to scores `(graphs, outputs)`, or to scores and embeddings.

    Scores are logits of classes or binary tasks, or standardised numbers. Random numbers of a
    training pass (dropout) follow from the agent's key, so that an agent computes the same in any
    company. Buffers, and parameters without gradient, are constants that all agents have in common.

    Args:
        name: Name of the factory (`find_factory`), with `#` and a digest where members agreed on
            one.
        sizes: The arguments that a factory may take, by the names of `factory.SIZES`.
        task: What it predicts.
        seed: Seed of the initial weights that the digest covers.

    Raises:
        MotifairError: If the module cannot be made, or does not do what is said above.
    """

    recordable = False  # it is called by the host, which seeds each call

    def __init__(self, name: str, sizes: Mapping[str, float], task: Task, seed: int = 0) -> None:
        path, _, agreed = name.partition("#")
        self.name, self.factory = path, find_factory(path)
        self.sizes, self.task, self.width = dict(sizes), task, int(sizes["width"])
        self.module = self._make(0)
        trained = trained_parameters(path, self.module, self._make(0))
        shapes = tuple(tuple(p.shape) for p in trained.values())
        self.layout: Layout = ModuleLayout(tuple(trained), shapes, make=self._make)
        self.hidden = try_module(self)
        if agreed and agreed != self.digest(seed):
            raise MotifairError(
                f"The model {path} has other parameters here, or other weights to begin with, than "
                "where the terms were made; install the same versions of its package, torch and "
                "torch_geometric."
            )

    def digest(self, seed: int) -> str:
        """Return a hash of the parameters' names, shapes and initial weights for a seed."""
        about = repr((self.layout.names, self.layout.shapes)).encode()
        weights = self.layout.initial(seed, torch.float32).numpy().tobytes()
        return hashlib.sha256(about + weights).hexdigest()[:16]

    def forward(
        self, weights: Tensor, batch: Batch, noise: Noise | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """Return graph embeddings `(R, G, H)`, if it has any, and scores `(R, G, outputs)`."""
        keys = [0] * batch.rows if noise is None else noise.keys.tolist()
        data = as_pyg(batch, self.width, weights.dtype)
        padded = batch.graph_weight.shape[1]
        rows = [
            self._row(*each, padded, training=noise is not None)
            for each in zip(weights, data, keys, strict=True)
        ]
        scores = torch.stack([s for s, _ in rows])
        if self.task.kind == CLASSES:
            scores = torch.log_softmax(of_own_classes(scores, batch.allowed), dim=-1)
        return torch.stack([e for _, e in rows]) if self.hidden else None, scores

    def about(self) -> dict[str, Any]:
        """Return its name and the sizes that a configuration gives."""
        return {"module": self.name, **{n: self.sizes[n] for n in ("hidden", "layers", "dropout")}}

    def embed(self, weights: Tensor, batch: Batch) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`."""
        embedding, _ = self.forward(weights, batch)
        assert embedding is not None, "without embeddings there are no prototypes"
        return embedding

    def call(
        self, weights: Tensor, data: PygBatch, key: int, *, training: bool
    ) -> tuple[Tensor, Tensor]:
        """Return scores and embeddings (of width 0 if there are none) by one agent's weights.

        Random numbers that the module draws follow from the key.
        """
        parts = self.layout.unpack(weights[None])
        state = {
            n: t.to(weights) if t.is_floating_point() else t.to(weights.device)
            for n, t in self.constants().items()
        }
        state |= {name: part[0] for name, part in parts.items()}
        where = [weights.device] if weights.is_cuda else []
        # The lock is for the one module, too, into which a call puts an agent's weights.
        with GENERATOR, torch.random.fork_rng(devices=where, device_type=weights.device.type):
            self.module.train(training)
            torch.manual_seed(key)
            result = functional_call(self.module, state, (data,))
        scores, embedding = result if isinstance(result, tuple) else (result, None)
        if embedding is None:
            embedding = weights.new_zeros(data.num_graphs, 0)
        check_shapes(self.name, data.num_graphs, self.task.outputs, scores, embedding)
        return scores, embedding

    def constants(self) -> dict[str, Tensor]:
        """Return what is no part of a row: buffers, and parameters without gradient."""
        frozen = {n: p for n, p in self.module.named_parameters() if not p.requires_grad}
        return {**frozen, **dict(self.module.named_buffers())}

    def _make(self, seed: int) -> Module:
        return self.factory(seed, self.sizes)

    def _row(
        self, weights: Tensor, data: PygBatch, key: int, padded: int, *, training: bool
    ) -> tuple[Tensor, Tensor]:
        """Return scores and embeddings of one agent, padded to so many graphs."""
        count = data.num_graphs
        if count:
            scores, embedding = self.call(weights, data, key, training=training)
        else:  # an agent with fewer mini-batches than others in its stack
            scores, embedding = (weights.new_zeros(0, n) for n in (self.task.outputs, self.hidden))
        rest = (0, 0, 0, padded - count)
        return F.pad(scores, rest), F.pad(embedding, rest)
