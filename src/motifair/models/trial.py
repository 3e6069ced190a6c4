"""Checks of a module of the user before it is trained: on small graphs, in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy
from torch_geometric.data import Batch as PygBatch

from motifair.errors import MotifairError

if TYPE_CHECKING:
    from motifair.models.module import ModuleModel


def trained_parameters(name: str, module: Module, again: Module) -> dict[str, Tensor]:
    """Return the parameters with gradient; `again` is the module made with the same seed."""
    trained: dict[str, Tensor] = {n: p for n, p in module.named_parameters() if p.requires_grad}
    if any(is_lazy(p) for p in trained.values()):
        raise MotifairError(
            f"The model {name} does not know its sizes before it is called; use its argument width "
            "in place of -1 or a lazy layer."
        )
    if not trained:
        raise MotifairError(f"The model {name} has no parameters to train; give one that has.")
    second = dict(again.named_parameters())
    if any(n not in second or not torch.equal(p, second[n]) for n, p in trained.items()):
        raise MotifairError(
            f"The model {name} begins with other weights each time it is made; draw them by "
            "torch's random numbers alone."
        )
    return trained


def try_module(model: ModuleModel) -> int:
    """Call a module on small graphs; return the width of its embeddings, 0 if it has none."""
    dtype = next(p.dtype for p in model.module.parameters() if p.requires_grad)
    pair, single = (
        sample_graphs(nodes, model.width, int(model.sizes["edges"]), dtype)
        for nodes in ([3, 2], [2])
    )
    weights = model.layout.initial(0, dtype).requires_grad_()
    before = {n: t.clone() for n, t in model.constants().items()}
    try:
        still = [  # no seed must matter
            model.call(weights, data, key, training=False)
            for key, data in enumerate((pair, single, pair))
        ]
        moving = [model.call(weights, pair, 0, training=True)[0] for _ in range(3)]
    except MotifairError:
        raise
    except Exception as error:
        edges = "" if pair.edge_attr is None else f", edge_attr of {pair.edge_attr.shape[1]}"
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise MotifairError(
            f"The model {model.name} fails on graphs with x of {model.width} columns{edges} "
            f"({first[:200]}); its forward takes one argument, a torch_geometric.data.Batch."
        ) from error
    if not still[0][0].requires_grad:
        raise MotifairError(
            f"The scores of the model {model.name} do not depend on its parameters; remove "
            "detach() or no_grad()."
        )
    if any(not torch.equal(t, before[n]) for n, t in model.constants().items()):
        raise MotifairError(
            f"The model {model.name} keeps statistics of what it has seen (as BatchNorm does), "
            "which agents do not exchange; use GraphNorm or LayerNorm, or "
            "track_running_stats=False."
        )
    if not _all_equal([still[0][0], still[2][0]]) or not _all_equal(moving):
        raise MotifairError(
            f"The model {model.name} does not return the same for the same graphs and seed; it "
            "must take random numbers from torch alone, and only in training mode."
        )
    return still[0][1].shape[1]


def check_shapes(name: str, graphs: int, outputs: int, scores: Any, embedding: Any) -> None:
    """Refuse what a module returned unless it has a row for each graph, and so many outputs."""
    of_scores, of_embedding = (
        tuple(x.shape) if isinstance(x, Tensor) else (type(x).__name__,)
        for x in (scores, embedding)
    )
    if of_scores == (graphs, outputs) and of_embedding[:1] == (graphs,) and len(of_embedding) == 2:
        return
    given = [of_scores] if of_embedding == (graphs, 0) else [of_scores, of_embedding]
    raise MotifairError(
        f"The model {name} returned {' and '.join(map(str, given))} for {graphs} graphs; it must "
        f"return scores ({graphs}, {outputs}), or a pair of these and embeddings ({graphs}, H)."
    )


def sample_graphs(nodes: list[int], width: int, edges: int, dtype: torch.dtype) -> PygBatch:
    """Return complete graphs with so many nodes, of all kinds of nodes and edges in turn."""
    graph = torch.repeat_interleave(torch.arange(len(nodes)), torch.tensor(nodes))
    edge_index = (graph[:, None] == graph).fill_diagonal_(False).nonzero().T.contiguous()
    parts = {
        "x": F.one_hot(torch.arange(len(graph)) % width, width).to(dtype),
        "edge_index": edge_index,
        "batch": graph,
        "ptr": torch.tensor([0, *nodes]).cumsum(0),
    }
    if edges:
        label = torch.arange(edge_index.shape[1]) % edges
        parts["edge_attr"] = F.one_hot(label, edges).to(dtype)
    return PygBatch(**parts)


def _all_equal(tensors: list[Tensor]) -> bool:
    return all(torch.equal(tensors[0], other) for other in tensors[1:])
