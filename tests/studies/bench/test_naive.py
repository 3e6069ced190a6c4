"""The naive federation does the work that it is compared for."""

from __future__ import annotations

import torch
from worlds import CPU, small_config, small_split

from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.studies.bench.naive import NaiveFederation, naive_federation


def federation(**options: object) -> tuple[NaiveFederation, Simulation]:
    config = small_config(**options)
    members: Members = prepare(config, small_split(config), seed=5)
    naive = naive_federation(config, members, CPU)
    ours = Simulation(config, members, device=CPU)
    start = ours.model.layout.to_state_dict(ours.initial[0])
    for agent in naive.agents:
        agent.model.load_state_dict(start, strict=False)
    return naive, ours


def weights(naive: NaiveFederation) -> torch.Tensor:
    return torch.stack(
        [torch.nn.utils.parameters_to_vector(a.model.parameters()) for a in naive.agents]
    ).detach()


def test_its_prototypes_are_ours() -> None:
    naive, ours = federation(batch_size=5)
    found = torch.cat([a.prototypes() for a in naive.agents])
    torch.testing.assert_close(found, ours.agents.prototypes(ours.start().agents))


def test_without_dropout_its_federated_averaging_is_ours() -> None:
    naive, ours = federation(method="fedavg", dropout=0.0)
    state = ours.start()
    for _ in range(3):
        naive.round()
        state, _ = ours.round(state)
    found = weights(naive)
    torch.testing.assert_close(found, found[:1].expand_as(found))
    server = ours.model.layout.to_state_dict(ours.global_weights(state)[0])
    for name, tensor in naive.agents[0].model.state_dict().items():
        if name in server:
            torch.testing.assert_close(tensor, server[name], rtol=1e-3, atol=1e-5)


def test_with_values_agents_part_and_values_add_up_to_one() -> None:
    naive, _ = federation(batch_size=5)
    naive.round()
    naive.round()
    assert len(weights(naive).unique(dim=0)) == len(naive.agents)
    assert torch.isfinite(weights(naive)).all()
    torch.testing.assert_close(naive.value.sum(), torch.ones((), dtype=torch.float64))
