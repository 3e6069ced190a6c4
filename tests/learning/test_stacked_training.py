"""An agent trains the same in a stack as alone, and sees each of its graphs once an epoch."""

from __future__ import annotations

import pytest
import torch
from stacks import HIDDEN, MOTIFS, SIZES, model_for, unequal_shards
from torch import Tensor
from worlds import CPU

from motifair.graphs.batch import Shard
from motifair.learning.adam import Adam, Moments
from motifair.learning.loader import Loader
from motifair.learning.objective import PrototypeTerm, supervised
from motifair.learning.randomness import DropoutBits, stream_keys
from motifair.learning.training import LocalTraining, Trained

SHARDS = unequal_shards()
NAMES = ("a", "b", "c")
MODEL = model_for(SHARDS)
FIRST = [0, *torch.tensor(MOTIFS).cumsum(0).tolist()]


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


WEIGHTS = torch.stack([MODEL.layout.initial(seed, torch.float64) for seed in range(3)])
PROTOTYPES = random(sum(MOTIFS), HIDDEN, seed=1)


def trained(rows: list[int], batch_size: int, epochs: int, rate: float) -> Trained:
    """Train some of the agents together."""
    training = LocalTraining(
        MODEL,
        (supervised, PrototypeTerm(0.1, "unit", "mean")),
        epochs=epochs,
        adam=Adam(0.01, weight_decay=0.0005),
        dropout=DropoutBits(rate, CPU),
    )
    entries = torch.cat([torch.arange(FIRST[r], FIRST[r + 1]) for r in rows])
    return training(
        WEIGHTS[rows],
        Moments.zero(WEIGHTS[rows]),
        Loader([SHARDS[r] for r in rows], batch_size, CPU, torch.float64),
        stream_keys(3, [NAMES[r] for r in rows], CPU),
        PROTOTYPES[entries],
        torch.ones(len(entries), dtype=torch.bool),
    )


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5])
@pytest.mark.parametrize(
    ("batch_size", "epochs"), [(128, 1), (128, 3), (4, 1), (4, 2)], ids=lambda n: str(n)
)
def test_an_agent_trains_in_a_stack_as_it_does_alone(
    batch_size: int, epochs: int, rate: float
) -> None:
    together = trained([0, 1, 2], batch_size, epochs, rate)
    for row in range(3):
        alone = trained([row], batch_size, epochs, rate)
        assert torch.allclose(together.weights[row], alone.weights[0], rtol=0, atol=1e-12)
        assert torch.allclose(together.gradient[row], alone.gradient[0], rtol=0, atol=1e-12)
        assert torch.isclose(together.loss[row], alone.loss[0], rtol=0, atol=1e-12)
        assert together.moments.steps[row] == alone.moments.steps[0]


def test_training_lowers_the_loss() -> None:
    first, later = trained([0, 1, 2], 128, 1, 0.0), trained([0, 1, 2], 128, 60, 0.0)
    assert (later.loss < first.loss).all()


def seen(shards: list[Shard], batch_size: int, epoch: int, steps: int = 0) -> list[list[int]]:
    """The node counts of the graphs each agent sees in an epoch, in order."""
    loader = Loader(shards, batch_size, CPU, torch.float64, steps=steps)
    found: list[list[int]] = [[] for _ in shards]
    for batch, moving in loader.epoch(stream_keys(3, NAMES, CPU), epoch):
        ones = torch.ones(batch.rows * batch.nodes, 1, dtype=torch.float64)
        nodes = batch.pool(ones).view(batch.rows, -1)
        for row in range(batch.rows):
            present = nodes[row][batch.graph_weight[row] > 0].int().tolist()
            assert bool(moving[row]) == bool(present)
            assert len(present) <= batch_size
            found[row] += present
    return found


@pytest.mark.parametrize("batch_size", [1, 2, 4, 9, 128])
def test_an_epoch_shows_every_graph_once(batch_size: int) -> None:
    for found, shard in zip(seen(SHARDS, batch_size, 0), SHARDS, strict=True):
        assert sorted(found) == sorted(shard.graphs.nodes.tolist())


def test_graphs_are_shuffled_anew_in_each_epoch() -> None:
    assert seen(SHARDS, 4, 0)[0] != seen(SHARDS, 4, 1)[0]
    assert seen(SHARDS, 4, 1) == seen(SHARDS, 4, 1)


def test_graphs_that_fit_one_batch_keep_their_order() -> None:
    assert seen(SHARDS, 4, 3)[1] == SHARDS[1].graphs.nodes.tolist()


@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_an_epoch_of_few_steps_is_the_beginning_of_a_whole_one(steps: int) -> None:
    whole, cut = seen(SHARDS, 2, 1), seen(SHARDS, 2, 1, steps)
    assert cut == [graphs[: 2 * steps] for graphs in whole]
    assert [len(graphs) for graphs in cut] == [min(n, 2 * steps) for n in SIZES]
