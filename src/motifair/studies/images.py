"""The contrast on images: FedAvg of a small network on handwritten digits, for CIFAR-10.

The 1797 digits of 8 x 8 pixels that come with scikit-learn stand in for the paper's CIFAR-10, which
is no part of this project. All federations are trained side by side, as rows of the same tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from motifair.extras import require

AGENTS, HIDDEN, BATCH, TEST = 5, 64, 128, 0.1
RATE, DECAY = 1e-3, 5e-4

Weights = list[Tensor]  # a matrix and a bias of each of two layers, all with a row for each model


def digits() -> tuple[Tensor, Tensor]:
    """Return pixels between 0 and 1, `(n, 64)`, and which digit it is, `(n,)`."""
    require("studies", "The contrast on images")
    from sklearn.datasets import load_digits

    loaded = load_digits()
    pixels = torch.tensor(loaded.data, dtype=torch.float32) / 16
    return pixels, torch.tensor(loaded.target)


def image_contributions(
    images: Tensor,
    labels: Tensor,
    *,
    seeds: Sequence[int],
    rounds: int,
    every: int,
    device: torch.device,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what each agent contributes `(S, measured rounds, A)`, and final accuracies `(S,)`.

    A federation for each seed: a tenth of the images is the server's test set, the rest is shared
    out in equal parts; in a round every agent trains one epoch. c_i = (acc_N − acc_{−i}) / acc_{−i}
    as on graphs: the same round with and without the update of agent i.
    """
    shares = [_shared_out(len(labels), seed) for seed in seeds]
    train = torch.cat([own for own, _ in shares])
    test = torch.stack([held for _, held in shares])
    own, unseen = [(images[s].to(device), labels[s].to(device)) for s in (train, test)]
    source = torch.Generator().manual_seed(seeds[0])
    server = [p.to(device) for p in _initial(images.shape[1], int(labels.max()) + 1, seeds)]
    agents = [_each(p).requires_grad_() for p in server]
    adam = torch.optim.Adam(agents, lr=RATE, weight_decay=DECAY)
    measured = []
    for round in range(1, rounds + 1):
        _epoch(agents, adam, *own, torch.randperm(train.shape[1], generator=source))
        with torch.no_grad():
            moved = [
                a.view(len(s), AGENTS, *s.shape[1:]) - s[:, None]
                for a, s in zip(agents, server, strict=True)
            ]
            before, server = server, _added(server, [m.mean(dim=1) for m in moved])
            if round % every == 0 or round == rounds:
                measured.append(_contributions(before, server, moved, *unseen))
            for old, new in zip(agents, server, strict=True):
                old.copy_(_each(new))
    return torch.stack(measured, dim=1).cpu().numpy(), _accuracy(server, *unseen).cpu().numpy()


def _epoch(
    agents: Weights, adam: torch.optim.Adam, images: Tensor, labels: Tensor, order: Tensor
) -> None:
    for batch in torch.split(order.to(labels.device), BATCH):
        scores = _scores(agents, images[:, batch])
        loss = F.cross_entropy(scores.mT, labels[:, batch], reduction="none").mean(dim=1).sum()
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()


def _each(rows: Tensor) -> Tensor:
    """Give every agent of a federation what its server has."""
    return rows.repeat_interleave(AGENTS, dim=0)


def _contributions(
    before: Weights, after: Weights, moved: Weights, images: Tensor, labels: Tensor
) -> Tensor:
    reached = _accuracy(after, images, labels)
    contributions = []
    for i in range(AGENTS):
        others = [(m.sum(dim=1) - m[:, i]) / (AGENTS - 1) for m in moved]
        left = _accuracy(_added(before, others), images, labels)
        contributions.append((reached - left) / left)
    return torch.stack(contributions, dim=1)


def _accuracy(weights: Weights, images: Tensor, labels: Tensor) -> Tensor:
    return (_scores(weights, images).argmax(dim=-1) == labels).double().mean(dim=1)


def _scores(weights: Weights, images: Tensor) -> Tensor:
    first, first_bias, second, second_bias = weights
    x = torch.baddbmm(first_bias[:, None], images, first).relu()
    return torch.baddbmm(second_bias[:, None], x, second)


def _added(weights: Weights, update: Weights) -> Weights:
    return [w + u for w, u in zip(weights, update, strict=True)]


def _initial(pixels: int, classes: int, seeds: Sequence[int]) -> Weights:
    """Draw weights as `torch.nn.Linear` does, uniform within ±1/√inputs, for each seed."""
    shapes = ((pixels, HIDDEN), (HIDDEN,), (HIDDEN, classes), (classes,))
    inputs = (pixels, pixels, HIDDEN, HIDDEN)
    drawn = []
    for seed in seeds:
        source = torch.Generator().manual_seed(seed)
        rows = [torch.rand(s, generator=source) * 2 - 1 for s in shapes]
        drawn.append([r / n**0.5 for r, n in zip(rows, inputs, strict=True)])
    return [torch.stack(parts) for parts in zip(*drawn, strict=True)]


def _shared_out(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return which images each agent trains on `(A, m)`, and which the server holds out."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held = round(TEST * count)
    each = (count - held) // AGENTS
    return order[held : held + each * AGENTS].view(AGENTS, each), order[:held]
