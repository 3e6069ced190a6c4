"""All coalitions trained as one stack, against a federation for each of them."""

from contextlib import closing

import numpy as np
import pytest
import torch
from targets_world import planted_numbers, planted_tasks
from worlds import small_config, small_split

from motifair.config import Config
from motifair.experiments.plan import make_plan, split_data
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.batch import collate, repeat
from motifair.mechanism.alignment import coalitions
from motifair.studies.harm import without
from motifair.studies.values.coalitions import Coalitions
from motifair.studies.values.training import uninformed_loss

CPU = torch.device("cpu")
ROUNDS = 4


@pytest.fixture(scope="module")
def federation() -> tuple[Config, Members]:
    options = {"method": "fedavg", "agents": 3, "hidden": 8, "rounds": ROUNDS, "batch_size": 1000}
    plan = make_plan("planted", {**options, "partition": "sizes", "seed": 5}, device="cpu")
    return plan.config, prepare(plan.config, split_data(plan, 0), seed=5)


@pytest.fixture(scope="module")
def trained(federation: tuple[Config, Members]) -> Coalitions:
    config, members = federation
    stack = Coalitions(
        config, members.model, members.split.names, members.train, seed=5, device=CPU
    )
    stack.run(ROUNDS)
    return stack


@pytest.mark.parametrize("number", range(1, 8))
def test_a_coalition_is_the_federation_without_the_others(
    federation: tuple[Config, Members], trained: Coalitions, number: int
) -> None:
    config, members = federation
    away = [i for i, inside in enumerate(coalitions(3, CPU)[number]) if not inside]
    simulation = Simulation(config, without(members, away), device=CPU)
    with closing(simulation):
        state = run_rounds(simulation, simulation.start(), simulation.histories())
        expected = simulation.global_weights(state)
    torch.testing.assert_close(trained.weights[number], expected[0], rtol=1e-4, atol=1e-6)


def test_nobody_stays_at_the_initial_weights(
    federation: tuple[Config, Members], trained: Coalitions
) -> None:
    _, members = federation
    assert torch.equal(trained.weights[0], members.model.layout.initial(5, torch.float32))


def test_the_loss_is_the_mean_cross_entropy_of_each_model(
    federation: tuple[Config, Members], trained: Coalitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, members = federation
    batch = collate([members.global_test], CPU, torch.float32)
    expected = []
    for row in trained.weights:
        scores = members.model.classify(row[None], members.model.embed(row[None], batch))[0]
        target = torch.as_tensor(members.global_test.graphs.target)
        expected.append(torch.nn.functional.nll_loss(scores, target).item())
    assert np.allclose(trained.losses(members.global_test), expected, atol=1e-6)
    # The same where only a few models are evaluated at a time.
    monkeypatch.setattr("motifair.studies.values.coalitions.TEST_ROWS", 3 * batch.nodes)
    assert np.allclose(trained.losses(members.global_test), expected, atol=1e-6)


def test_repeated_graphs_are_those_collated_again(federation: tuple[Config, Members]) -> None:
    _, members = federation
    shard, model = members.train[0], members.model
    weights = torch.stack([model.layout.initial(s, torch.float32) for s in range(3)])
    again = collate([shard] * 3, CPU, torch.float32)
    repeated = repeat(collate([shard], CPU, torch.float32), 3)
    leaf = weights.requires_grad_()
    for batch in (again, repeated):
        scores = model.classify(leaf, model.embed(leaf, batch))
        (gradient,) = torch.autograd.grad((scores * batch.label_weight).sum(), leaf)
        if batch is again:
            expected = scores, gradient
    assert torch.equal(scores, expected[0])
    assert torch.equal(gradient, expected[1])


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_losses_of_other_tasks_are_those_of_their_known_labels(kind: str) -> None:
    graphs = {"binary": planted_tasks, "regression": planted_numbers}[kind](holes=0.3)
    config = small_config(method="fedavg", agents=2, partition="iid", test_fraction=0.3, rounds=1)
    members = prepare(config, small_split(config, graphs), seed=5)
    model, test = members.model, members.global_test
    stack = Coalitions(config, model, members.split.names, members.train, seed=5, device=CPU)
    stack.run(1)
    batch = collate([test], CPU, torch.float32)
    y = torch.as_tensor(test.graphs.values, dtype=torch.float32)
    known, loss = ~y.isnan(), torch.nn.functional
    judge = loss.binary_cross_entropy_with_logits if kind == "binary" else loss.mse_loss
    for row, found in zip(stack.weights, stack.losses(test), strict=True):
        scores = model.classify(row[None], model.embed(row[None], batch))[0]
        assert found.item() == pytest.approx(judge(scores[known], y[known]).item(), abs=1e-6)
    mean = y.nanmean(dim=0).expand_as(y)
    usual = torch.logit(mean) if kind == "binary" else mean
    expected = judge(usual[known], y[known]).item()
    assert uninformed_loss(kind, test.graphs, test.graphs) == pytest.approx(expected, abs=1e-6)


def test_who_knows_frequencies_alone_has_their_entropy(
    federation: tuple[Config, Members],
) -> None:
    graphs = federation[1].global_test.graphs
    share = np.bincount(graphs.target) / len(graphs)
    entropy = -(share * np.log(share)).sum()
    assert uninformed_loss("classes", graphs, graphs) == pytest.approx(entropy)
