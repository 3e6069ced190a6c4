"""On a GPU: recorded rounds are the rounds, runs repeat, a stack is its federations to the bit."""

from __future__ import annotations

import pytest
import torch
from worlds import CPU, small_config, small_graphs, small_split

from motifair.config import Config
from motifair.federation.cuda_graph import Rounds
from motifair.federation.members import Members, prepare
from motifair.federation.offer import Offer
from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.federation.withholding import Withholding
from motifair.methods import METHODS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CUDA = torch.device("cuda")
ROUNDS = 6


def members_of(config: Config) -> list[Members]:
    return [prepare(config, small_split(config, seed=k), seed=k) for k in range(3)]


def run(
    config: Config,
    members: Members | list[Members],
    *,
    record: bool,
    device: torch.device = CUDA,
    kind: type[Simulation] = Simulation,
) -> tuple[FederationState, list[Record]]:
    simulation = kind(config, members, device=device)
    take = Rounds(simulation) if record else simulation.round
    state, records = simulation.start(), []
    for _ in range(ROUNDS):
        state, found = take(state)
        records.append({name: tensor.clone().cpu() for name, tensor in found.items()})
    return state, records


@pytest.mark.parametrize("method", METHODS)
def test_recorded_rounds_are_the_rounds_and_repeat_to_the_bit(method: str) -> None:
    config = small_config(method=method, rounds=ROUNDS)
    members = members_of(config)
    once, again, eager = (run(config, members, record=r) for r in (True, True, False))
    for other, records in (again, eager):
        assert torch.equal(once[0].agents.weights, other.agents.weights)
        ours, theirs = once[0].agents.own, other.agents.own
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert torch.equal(ours.weights, theirs.weights)
        for ours, theirs in zip(once[1], records, strict=True):
            assert all(torch.equal(ours[n].nan_to_num(), theirs[n].nan_to_num()) for n in ours)


OPTIONS = [{}, {"batch_size": 5, "hidden": 64}]
WHOLE_OR_BATCHES = pytest.mark.parametrize("options", OPTIONS, ids=["whole", "batches"])


@pytest.mark.parametrize("method", METHODS)
@WHOLE_OR_BATCHES
def test_a_federation_is_the_same_alone_and_in_any_stack(method: str, options: dict) -> None:
    config = small_config(method=method, rounds=ROUNDS, **options)
    members = members_of(config)
    # More graphs beside it: other shapes, tiles and padding.
    larger = prepare(config, small_split(config, small_graphs(150), seed=3), seed=3)
    one, agents = members[1], len(members[1].train)
    alone, expected = run(config, one, record=True)
    for beside in ([one], [one, members[0], members[2]], [larger, one]):
        at = [m is one for m in beside].index(True)
        state, records = run(config, beside, record=True)
        rows = slice(at * agents, (at + 1) * agents)
        assert torch.equal(state.agents.weights[rows], alone.agents.weights)
        if alone.agents.own is not None and state.agents.own is not None:
            assert torch.equal(state.agents.own.weights[rows], alone.agents.own.weights)
        for ours, theirs in zip(records, expected, strict=True):
            for name, column in theirs.items():
                assert torch.equal(ours[name][at].nan_to_num(), column.nan_to_num()), name


@pytest.mark.parametrize("method", METHODS)
@WHOLE_OR_BATCHES
def test_a_stack_on_a_gpu_is_its_federations_on_a_cpu(method: str, options: dict) -> None:
    config = small_config(method=method, rounds=ROUNDS, **options)
    members = members_of(config)
    _, stacked = run(config, members, record=True)
    for f, one in enumerate(members):
        _, alone = run(config, one, record=False, device=CPU)
        for ours, theirs in zip(stacked[:3], alone[:3], strict=True):
            assert (ours["value"][f] - theirs["value"]).abs().max() < 1e-4
            # A mask may take one of two components that are as good as equal.
            assert torch.allclose(ours["loss"][f], theirs["loss"], rtol=5e-3)


@pytest.mark.parametrize("method", ["fedavg", "motifair", "gcfl+"])
def test_with_a_member_that_withholds_recorded_rounds_are_the_rounds_too(method: str) -> None:
    config = small_config(method=method, rounds=ROUNDS, features="degree")
    split = small_split(config)
    members = [prepare(config, split, seed=5, offer=Offer(1, c)) for c in (0.0, 0.5)]
    recorded, eager = (run(config, members, record=r, kind=Withholding) for r in (True, False))
    assert torch.equal(recorded[0].agents.weights, eager[0].agents.weights)
    for f, one in enumerate(members):
        _, alone = run(config, one, record=False, device=CPU, kind=Withholding)
        for ours, theirs in zip(recorded[1][:3], alone[:3], strict=True):
            assert (ours["value"][f] - theirs["value"]).abs().max() < 1e-4
            assert (ours["update_norm"][0, 1] == 0).all()
