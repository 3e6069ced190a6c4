"""Federations side by side compute what each of them computes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from worlds import CPU, small_config, small_graphs, small_split

from motifair import methods
from motifair.config import Config
from motifair.federation.agents import similar_sizes
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_state, save_state
from motifair.graphs.dataset import Dataset
from motifair.graphs.features import structure_inputs
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.split import make_split
from motifair.methods import METHODS, Memory, Method, Seen
from motifair.methods.cffl_lyu import CFFLLyu
from motifair.methods.fedavg import FedAvg
from motifair.methods.motifair import Motifair

pytestmark = pytest.mark.slow  # tests/experiments/test_jobs.py has quick ones of whole runs
FEDERATIONS = 3
CLOSE = 1e-9
COUNTED = ("kept", "accuracy", "uploaded", "downloaded")

OPTIONS: Mapping[str, dict[str, Any]] = {
    "masks tensor by tensor": {"mask_scope": "layer"},
    "exact Shapley values": {"alignment_against": "shapley"},
    "alignment with the others": {"alignment_against": "others"},
    "alignment of gradients": {"alignment_of": "gradient", "alignment_against": "all"},
    "gradients of convolutions": {"alignment_against": "peers-by-value", "share": "conv"},
    "payoff by Shapley value": {"payoff": "shapley"},
    "payoff by union": {"payoff": "union"},
    "payoff by individual": {"payoff": "individual"},
    "convolutions shared": {"share": "conv"},
    "contributions": {"contribution": True},
    "contributions to convolutions": {"contribution": True, "share": "conv"},
    "contributions to a sum": {"contribution": True, "method": "cffl-lyu"},
    "contributions to scaled updates": {"contribution": True, "method": "cgsv"},
    "mini-batches": {"batch_size": 7},
    "several epochs": {"local_epochs": 2},
    "size weights and smoothed values": {"aggregation": "size", "value_update": "ema"},
    "everything for the positive": {"beta": "inf"},
    "votes of gradients": {
        "alignment_of": "gradient", "alignment_against": "peers-by-value", "alignment_rate": 0.5,
    },
    "votes that count alike": {"alignment_against": "peers", "value_rate": 0.5},
    "alignment with all": {"alignment_against": "all", "alignment_rate": 1.0},
    "value weights": {"aggregation": "value", "aggregate_length": "mean"},
    "diversity as evidence": {"diversity_weight": 1.0, "corroboration": 3, "chance": False},
    "diversity that is judged": {"diversity_weight": 8.0, "evidence": "judged"},
    "no model of one's own": {"own_weight": 0.0},
    "a model of one's own in mini-batches": {"own_weight": 0.7, "batch_size": 7, "share": "conv"},
    "contributions to a sum of its own length": {"contribution": True, "aggregate_length": "mean"},
    "the paper's profile": {"profile": "paper"},
    "judged after three rounds alone": {"rounds": 3, "trial_rounds": 3},
    "fifteen agents": {"agents": 15, "partition": "iid", "payoff": "shapley", "contribution": True},
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A simulation that was run to its end, from its first state to its last."""

    simulation: Simulation
    first: FederationState
    last: FederationState
    histories: list[History]

    def parts(self) -> list[tuple[FederationState, FederationState, History]]:
        """First and last state and history of each federation."""
        part = self.simulation.part
        return [
            (part(self.first, f), part(self.last, f), history)
            for f, history in enumerate(self.histories)
        ]


def different_members(config: Config, federations: int = FEDERATIONS) -> list[Members]:
    """Federations with other graphs, other shares of them and another seed each."""
    return [
        prepare(config, small_split(config, some_graphs(config.agents, f), f), seed=5 + f)
        for f in range(federations)
    ]


@cache
def some_graphs(agents: int, f: int) -> GraphSet:
    """Graphs for one of the federations."""
    return small_graphs(11 * agents + 6 * f, seed=3 + f)


def run(config: Config, members: Members | Sequence[Members], rows: int | None = None) -> Run:
    """Take all rounds in double precision, evaluating in each."""
    simulation = Simulation(config, members, device=CPU, rows=rows, dtype=torch.float64)
    first, histories = simulation.start(), simulation.histories()
    return Run(simulation, first, run_rounds(simulation, first, histories), histories)


def tensors(tree: object, name: str = "state") -> dict[str, Tensor]:
    """Every tensor of a state, by name."""
    if isinstance(tree, Tensor):
        return {name: tree}
    if tree is None:
        return {}
    parts = tree if isinstance(tree, dict) else vars(tree)
    return {k: t for n, part in parts.items() for k, t in tensors(part, f"{name}.{n}").items()}


def assert_equal_states(ours: FederationState, theirs: FederationState, close: float) -> None:
    """Compare agents' weights and moments, and all that the server holds."""
    found, wanted = tensors(ours), tensors(theirs)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].shape == tensor.shape, name
        assert found[name].dtype == tensor.dtype, name
        same = torch.allclose(found[name].double(), tensor.double(), 0, close, equal_nan=True)
        assert same, name


def assert_equal_histories(ours: History, theirs: History, close: float) -> None:
    """Compare every column; what is counted must be equal to the last bit."""
    assert ours.names == theirs.names
    for column, wanted in theirs.columns.items():
        within = 0.0 if column in COUNTED else close
        found = ours.columns[column]
        assert np.allclose(found, wanted, rtol=0, atol=within, equal_nan=True), column
    assert np.array_equal(ours.global_accuracy, theirs.global_accuracy, equal_nan=True)


def assert_as_if_alone(
    config: Config, rows: int | None = None, close: float = CLOSE, federations: int = FEDERATIONS
) -> Run:
    """Run federations in a stack and each alone, and compare; return the stack."""
    members = different_members(config, federations)
    together = run(config, members, rows)
    alone = [run(config, m) for m in members]
    for ours, theirs in zip(together.parts(), alone, strict=True):
        assert_equal_states(ours[0], theirs.first, close)
        assert_equal_states(ours[1], theirs.last, close)
        assert_equal_histories(ours[2], theirs.histories[0], close)
    # It would prove nothing if the federations were all the same.
    for first, second in pairwise(h.columns["loss"] for h in together.histories):
        assert not np.isclose(first, second).any()
    return together


@pytest.mark.parametrize("method", METHODS)
def test_federations_in_a_stack_compute_what_each_computes_alone(method: str) -> None:
    assert_as_if_alone(small_config(method=method))


@pytest.mark.parametrize("case", OPTIONS)
def test_federations_in_a_stack_agree_whatever_the_server_is_asked_to_do(case: str) -> None:
    together = assert_as_if_alone(small_config(**{"rounds": 2} | OPTIONS[case]), federations=2)
    measured = [np.isfinite(h.columns["contribution"]).any() for h in together.histories]
    assert measured == [OPTIONS[case].get("contribution", False)] * 2


@pytest.mark.parametrize(("rows", "batch_size"), [(5, 128), (5, 7), (12, 7)])
def test_agents_of_several_federations_may_be_trained_at_a_time(rows: int, batch_size: int) -> None:
    # Five rows at a time: stacks of agents that end in the middle of a federation.
    assert_as_if_alone(
        small_config(batch_size=batch_size, local_epochs=2, rounds=2), rows=rows, close=1e-8
    )


def test_a_stack_of_one_is_that_federation() -> None:
    config = small_config(contribution=True)
    (members, *_) = different_members(config)
    together, alone = run(config, [members]), run(config, members)
    assert_equal_states(together.simulation.part(together.last, 0), alone.last, CLOSE)
    assert_equal_histories(together.histories[0], alone.histories[0], CLOSE)


def test_one_federation_may_remove_agents_that_another_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Larger steps, judged on more graphs, so that some are better than others.
    monkeypatch.setattr(CFFLLyu, "validation", 0.4)
    own = {
        "cffl": {"patience": 1, "threshold": 0.8},
        "cffl-lyu": {"threshold": 0.8, "clip": 1.0},
    }
    for method, options in own.items():
        config = small_config(method=method, rounds=5, learning_rate=0.02, **options)
        together = assert_as_if_alone(config)
        gone = [tuple(h.columns["value"][-1] == 0) for h in together.histories]
        assert any(map(any, gone))
        assert len(set(gone)) > 1


# Clusters


@pytest.mark.parametrize("method", ["gcfl", "gcfl+"])
def test_federations_in_a_stack_are_split_each_when_its_own_updates_disagree(method: str) -> None:
    lengths = mean_lengths(small_config(method="gcfl", rounds=8))
    # Between the smallest mean updates of two federations: one is split that the other is not.
    threshold = float(np.sort(lengths[:, 2:].min(axis=1))[:2].mean())
    own = {"epsilon1": threshold, "epsilon2": 1e-12, "patience": 2}
    own |= {"sequence": 2} if method == "gcfl+" else {}
    together = assert_as_if_alone(small_config(method=method, rounds=8, **own))
    clusters = together.last.server.memory["cluster"]
    assert clusters.shape == (FEDERATIONS, 4)
    split = [bool(c > 0) for c in clusters.amax(dim=1)]
    assert any(split)
    assert not all(split)


def mean_lengths(config: Config) -> np.ndarray:
    """The length of the mean update of each federation in each round."""
    found = []
    for members in different_members(config):
        simulation = Simulation(config, members, device=CPU, dtype=torch.float64)
        state, lengths = simulation.start(), []
        for _ in range(config.rounds):
            _, uploads = simulation.agents.train(state.agents, state.server.round + 1, None, None)
            lengths.append(float(uploads.update.mean(dim=0).norm()))
            state, _ = simulation.round(state)
        found.append(lengths)
    return np.array(found)


# Methods of one's own


class Proportional(Motifair):
    """Written for one federation, as a user would: no axis is named."""

    name = "proportional"

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Add the alignment and normalise."""
        value = seen.value + alignment.clamp(min=0)
        return value / value.sum()

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Give everything to the best."""
        return value / value.max()

    def settle(self, seen: Seen, value: Tensor) -> tuple[Tensor, Tensor]:
        """Pay the best agent alone."""
        paid = torch.zeros_like(value)
        paid[int(value.argmax())] = self.config.budget
        return paid, torch.zeros_like(value)


class Remembering(FedAvg):
    """Keeps a number, a row and a table; weighs pairs of agents."""

    name = "remembering"
    global_model = False

    def remember(self, seen: Seen) -> Memory:
        """Count rounds, add up lengths and inner products."""
        agents = len(seen.graphs)
        before = seen.memory or {
            "rounds": torch.zeros((), dtype=torch.int64),
            "lengths": torch.zeros(agents, dtype=torch.float64),
            "products": torch.zeros(agents, agents, dtype=torch.float64),
        }
        return {
            "rounds": before["rounds"] + 1,
            "lengths": before["lengths"] + seen.updates.norm(dim=1),
            "products": before["products"] + seen.updates @ seen.updates.T,
        }

    def weigh(self, seen: Seen) -> Tensor:
        """Weigh the updates that point the same way."""
        near = seen.memory["products"].clamp(min=0) + torch.eye(len(seen.graphs))
        return near / near.sum(dim=1, keepdim=True)

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Return the lengths so far."""
        return seen.memory["lengths"]


class Levelled(FedAvg):
    """Agents shorten their updates to the mean length."""

    name = "levelled"

    def limit(self, updates: Tensor) -> Tensor:
        """Scale every update."""
        norm = updates.norm(dim=1, keepdim=True)
        return updates * norm.mean() / norm


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a method known for the length of a test."""

    def know(method: type[Method]) -> str:
        monkeypatch.setitem(methods.REGISTRY.given, method.name, method)
        return method.name

    return know


@pytest.mark.parametrize("method", [Proportional, Remembering])
def test_a_method_written_for_one_federation_is_right_in_a_stack(
    own: Any, method: type[Method]
) -> None:
    together = assert_as_if_alone(small_config(method=own(method), rounds=4))
    if method is Proportional:
        values = np.stack([h.columns["value"] for h in together.histories])
        assert np.allclose(values.sum(axis=2), 1)
        paid = np.stack([h.columns["payoff"] for h in together.histories])
        assert (np.sort(paid, axis=2)[:, :, :-1] == 0).all()
    else:
        assert together.last.server.memory["rounds"].tolist() == [4] * FEDERATIONS
        assert together.last.server.memory["products"].shape == (FEDERATIONS, 4, 4)


def test_a_limit_written_for_one_federation_is_right_in_a_stack(own: Any) -> None:
    assert_as_if_alone(small_config(method=own(Levelled), rounds=2))


def test_contributions_to_a_method_written_for_one_federation_are_its_own(own: Any) -> None:
    assert_as_if_alone(small_config(method=own(Proportional), rounds=2, contribution=True))


@pytest.mark.parametrize("name", ["self-train", "fedavg", "cgsv", "cffl-lyu", "motifair"])
def test_a_subclass_is_asked_federation_by_federation_and_answers_the_same(
    own: Any, name: str
) -> None:
    shapes = []

    class Asked(METHODS[name]):  # type: ignore[misc]
        def weigh(self, seen: Seen) -> Tensor:
            shapes.append(seen.graphs.shape)
            assert all(
                t.shape[0] == 4 for t in vars(seen).values() if isinstance(t, Tensor) and t.dim()
            )
            return super().weigh(seen)

    Asked.name = "asked"
    config = small_config(method=name, rounds=2)
    members = different_members(config)
    stacked = run(config, members)
    apart = run(small_config(method=own(Asked), rounds=2), members)
    assert shapes == [(4,)] * (2 * FEDERATIONS)
    assert not apart.simulation.recordable
    assert_equal_states(apart.last, stacked.last, CLOSE)
    for ours, theirs in zip(apart.histories, stacked.histories, strict=True):
        assert_equal_histories(ours, theirs, CLOSE)


# Parts


@pytest.mark.parametrize("method", ["motifair", "gcfl+", "cffl-lyu", "self-train"])
def test_taking_a_stack_apart_and_joining_it_again_changes_nothing(
    method: str, tmp_path: Path
) -> None:
    config = small_config(method=method, rounds=4)
    members = different_members(config)
    together = Simulation(config, members, device=CPU, dtype=torch.float64)
    state = together.start()
    for _ in range(2):
        state, _ = together.round(state)
    parts = [together.part(state, f) for f in range(FEDERATIONS)]
    assert [p.round for p in parts] == [2] * FEDERATIONS
    assert_equal_states(together.join(parts), state, 0.0)
    # Through files, and in another order.
    order = [2, 0, 1]
    loaded = []
    for f in order:
        path = tmp_path / str(f)
        save_state(path, parts[f], together.histories()[f], {}, final=False)
        loaded.append(load_state(path, CPU))
    other = Simulation(config, [members[f] for f in order], device=CPU, dtype=torch.float64)
    on, end = other.join(loaded), state
    for _ in range(2):
        on, end = other.round(on)[0], together.round(end)[0]
    for place, f in enumerate(order):
        assert_equal_states(other.part(on, place), together.part(end, f), CLOSE)
        # One that leaves the stack goes on as it would have in it.
        simulation = Simulation(config, members[f], device=CPU, dtype=torch.float64)
        single = simulation.join([parts[f]])
        assert simulation.part(single, 0) is parts[f]
        for _ in range(2):
            single, _ = simulation.round(single)
        assert_equal_states(single, together.part(end, f), CLOSE)


def test_a_part_of_a_stack_is_shaped_as_the_state_of_one_federation() -> None:
    config = small_config(rounds=1)
    members = different_members(config)
    together = Simulation(config, members, device=CPU)
    state, record = together.round(together.start())
    single = Simulation(config, members[1], device=CPU)
    wanted, alone = single.round(single.start())
    assert record["value"].shape == (FEDERATIONS, 4)
    assert alone["value"].shape == (4,)
    assert state.agents.weights.shape[0] == FEDERATIONS * 4
    found = {name: t.shape for name, t in tensors(together.part(state, 1)).items()}
    assert found == {name: t.shape for name, t in tensors(wanted).items()}
    # Motifs differ from federation to federation, so prototypes are one after another.
    motifs = [len(m.index.keys) for m in members if m.index is not None]
    assert len(set(motifs)) > 1
    assert [len(together.part(state, f).server.prototypes) for f in range(FEDERATIONS)] == motifs


# Rows of similar size


def padded(sizes: Sequence[int], stack: Sequence[int]) -> int:
    """The size of a stack with every row as large as its largest."""
    return max(sizes[r] for r in stack) * len(stack)


many_sizes = st.lists(st.integers(1, 20_000), min_size=1, max_size=60)


@example([10_000] * 7, 0, 30_000)
@given(many_sizes, st.integers(0, 50_000), st.sampled_from([30_000, 200_000, 2**31]))
def test_every_row_is_in_one_stack_and_little_of_a_stack_is_padding(
    sizes: list[int], overhead: int, most: int
) -> None:
    stacks = similar_sizes(sizes, most=most, overhead=overhead)
    assert sorted(r for stack in stacks for r in stack) == list(range(len(sizes)))
    in_order = [sizes[r] for stack in stacks for r in stack]
    assert in_order == sorted(sizes, reverse=True)
    for stack in stacks:
        real, full = sum(sizes[r] for r in stack), padded(sizes, stack)
        assert full - real <= max(0.1 * real, overhead)
        assert full <= most or len(stack) == 1


@given(many_sizes, st.integers(0, 50_000))
def test_no_stack_ends_before_it_must(sizes: list[int], overhead: int) -> None:
    most = 100_000
    stacks = similar_sizes(sizes, most=most, overhead=overhead)
    for stack, following in pairwise(stacks):
        longer = [*stack, following[0]]
        real, full = sum(sizes[r] for r in longer), padded(sizes, longer)
        assert full > most or full - real > max(0.1 * real, overhead)


@given(st.integers(1, 20_000), st.integers(1, 60))
def test_rows_of_equal_size_are_one_stack(size: int, count: int) -> None:
    assert similar_sizes([size] * count, most=2**31, overhead=0) == [list(range(count))]


@pytest.mark.parametrize("federations", [1, 20])
def test_an_agent_with_most_of_the_graphs_does_not_make_the_others_its_size(
    federations: int,
) -> None:
    sizes = ([9000] + [111] * 9) * federations
    stacks = similar_sizes(sizes, most=2**31, overhead=500)
    assert len(stacks) <= 3
    assert sum(padded(sizes, s) for s in stacks) <= 1.2 * sum(sizes)


@given(many_sizes, st.integers(0, 20_000))
def test_padding_is_a_tenth_of_everything_or_what_the_stacks_would_cost(
    sizes: list[int], overhead: int
) -> None:
    stacks = similar_sizes(sizes, most=2**31, overhead=overhead)
    total = sum(padded(sizes, s) for s in stacks)
    assert total <= 1.1 * sum(sizes) + overhead * len(stacks)


def test_stacks_of_similar_size_compute_what_single_rows_compute() -> None:
    # As on a GPU: rows out of order, and agents of several federations in one stack.
    config = small_config(rounds=2)
    members = different_members(config)
    sizes = [len(s.kind) for m in members for s in m.train]
    stacks = similar_sizes(sizes, most=2**31, overhead=0)
    assert 1 < len(stacks) < len(sizes)
    assert [r for s in stacks for r in s] != sorted(r for s in stacks for r in s)
    plain = run(config, members)
    arranged = Simulation(config, members, device=CPU, dtype=torch.float64)
    agents = arranged.agents
    assert agents.alone is not None
    arranged.agents = type(agents)(
        agents.keys,
        agents.alone.keys,
        [s for m in members for s in m.train],
        [s for m in members for s in m.test],
        arranged.method,
        agents.training,
        batch_size=config.batch_size,
        local_steps=config.local_steps,
        stacks=stacks,
        threads=1,
        federations=len(members),
        dtype=torch.float64,
    )
    histories = arranged.histories()
    last = run_rounds(arranged, arranged.start(), histories)
    assert_equal_states(last, plain.last, 1e-8)
    for ours, theirs in zip(histories, plain.histories, strict=True):
        assert_equal_histories(ours, theirs, 1e-8)


def test_splits_of_a_dataset_share_its_random_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def counted(graphs: GraphSet) -> np.ndarray:
        taken.append(graphs)
        return structure_inputs(graphs)

    monkeypatch.setattr("motifair.federation.members.structure_inputs", counted)
    data = Dataset(small_graphs())
    options = {"partition": "iid", "agents": 3, "test_fraction": 0.2, "skew": 0.5}
    config = small_config(method="fedstar")
    for seed in range(3):
        prepare(config, make_split(data, **options, perturbation="none", seed=seed), seed=seed)
    assert len(taken) == 1
