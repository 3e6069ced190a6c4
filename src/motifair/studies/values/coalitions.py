"""Federated averaging among every coalition of some members, as rows of one stack.

What an agent contributes is what the others' model would be without it. This trains all of these
models: for A agents 2^A − 1 federations, from the same initial weights and with the same random
bits for an agent in every coalition. Each agent takes one step on all its graphs in a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from motifair.config import Config
from motifair.federation.agents import local_training
from motifair.graphs.batch import Shard, collate, repeat
from motifair.learning.adam import Moments
from motifair.learning.loader import Loader
from motifair.learning.objective import mean_loss
from motifair.learning.randomness import fold, stream_keys
from motifair.mechanism.alignment import coalitions
from motifair.methods import make_method
from motifair.models import Model

TEST_ROWS = 2**22  # nodes of the test graphs of all models that are evaluated at a time


class Coalitions:
    """The models of all coalitions, `(2^A, D)`: bit i of a row's number says that agent i is in it.

    Row 0, the coalition of nobody, keeps the initial weights.
    """

    def __init__(
        self,
        config: Config,
        model: Model,
        names: Sequence[str],
        train: Sequence[Shard],
        *,
        seed: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        agents = len(train)
        self.model, self.device, self.dtype = model, device, dtype
        self.training = local_training(config, make_method(config), model, device)
        self.keys = stream_keys(seed, names, device)
        member = coalitions(agents, device)
        self.rows = [member[:, i].nonzero().squeeze(1) for i in range(agents)]
        self.graphs = torch.tensor([len(s) for s in train], device=device, dtype=torch.float64)
        total = (member * self.graphs).sum(dim=1)
        self.share = [n / total[rows] for n, rows in zip(self.graphs, self.rows, strict=True)]
        copies = 2 ** (agents - 1)
        self.loaders = [
            Loader([s], batch_size=len(s), device=device, dtype=dtype, copies=copies) for s in train
        ]
        self.weights = model.layout.initial(seed, dtype).to(device).repeat(2**agents, 1)
        self.moments = [Moments.zero(self.weights[rows]) for rows in self.rows]
        self.round = torch.zeros((), dtype=torch.int64, device=device)

    def run(self, rounds: int) -> None:
        """Train all coalitions for so many rounds; on a GPU a round is recorded and replayed."""
        step = self._recorded() if self.device.type == "cuda" else self.step
        for _ in range(rounds):
            step()

    def step(self) -> None:
        """Run one round, in place."""
        self.round += 1
        mean = torch.zeros_like(self.weights, dtype=torch.float64)
        mean[0] = self.weights[0]
        for i, rows in enumerate(self.rows):
            keys = fold(self.keys[i : i + 1], self.round).expand(len(rows))
            received = self.weights[rows]
            done = self.training(received, self.moments[i], self.loaders[i], keys, None, None)
            for old, new in zip(_tensors(self.moments[i]), _tensors(done.moments), strict=True):
                old.copy_(new)
            mean.index_add_(0, rows, self.share[i][:, None] * done.weights)
        self.weights.copy_(mean)

    def _recorded(self) -> Callable[[], None]:
        """Return what runs a round: as it is the first time, then as a recorded CUDA graph."""
        graph: torch.cuda.CUDAGraph | None = None
        warm = False

        def step() -> None:
            nonlocal graph, warm
            if not warm:  # caches are filled, and all kernels compiled
                warm = True
                self.step()
                return
            if graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self.step()
            graph.replay()

        return step

    @torch.no_grad()
    def losses(self, test: Shard) -> Tensor:
        """Return the mean loss of every coalition's model on the test graphs, `(2^A,)`."""
        one = collate([test], self.device, self.dtype)
        at_once = max(1, TEST_ROWS // max(one.nodes, 1))
        parts = []
        for weights in torch.split(self.weights, at_once):
            batch = repeat(one, len(weights))
            _, scores = self.model.forward(weights, batch)
            parts.append(mean_loss(self.model.task.kind, scores, batch))
        return torch.cat(parts).double()


def _tensors(moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
    return moments.first, moments.second, moments.steps
