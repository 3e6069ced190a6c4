"""Small federations for tests, as ours and as the oracle's."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from graphs.graph_samples import to_networkx
from oracles import belief, naive
from torch_geometric.data import Data

from motifair.config import Config, make_config
from motifair.evaluation.own_weight import held_back
from motifair.federation.agents import own_seed
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.graphs.dataset import Dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.perturb import randomise_edges
from motifair.graphs.planted import planted
from motifair.graphs.split import Split, make_split
from motifair.learning.loader import _SHUFFLE
from motifair.learning.randomness import DropoutBits, fold, order, stream_keys
from motifair.learning.training import _DROPOUT
from motifair.motifs.wiring import SEED

CPU = torch.device("cpu")
_BELIEVED: dict[
    tuple[str, ...], tuple[list[float], list[list[float]]]
] = {}  # most federations have the same graphs


def small_graphs(count: int = 60, seed: int = 3) -> GraphSet:
    """Planted graphs of one good and one late agent: quick to train on, two classes."""
    graphs = planted(4, seed).graphs
    rng = np.random.default_rng(seed)
    return graphs.select(np.sort(rng.permutation(len(graphs))[:count]))


def small_split(config: Config, graphs: GraphSet | None = None, seed: int = 0) -> Split:
    return make_split(
        Dataset(small_graphs() if graphs is None else graphs),
        partition=config.partition,
        agents=config.agents,
        test_fraction=config.test_fraction,
        skew=config.skew,
        perturbation=config.perturbation,
        seed=seed,
    )


def small_config(**options: object) -> Config:
    """Few rounds, a single one before them for judgement: else it takes as long as all others."""
    base: dict[str, object] = {
        "agents": 4, "rounds": 3, "partition": "sizes", "skew": 3.0, "hidden": 16, "seed": 5,
        "trial_rounds": 1,
    }  # fmt: skip
    return make_config({**base, **options})


def simulate(
    config: Config,
    split: Split,
    *,
    dtype: torch.dtype = torch.float64,
    seed: int = 5,
    threads: int = 1,
) -> tuple[Simulation, list[FederationState], History]:
    """Run all rounds and keep every state."""
    members = prepare(config, split, seed=seed)
    simulation = Simulation(config, members, device=CPU, threads=threads, dtype=dtype)
    states = [simulation.start()]
    (history,) = simulation.histories()

    class Keep:
        def on_round(self, state: FederationState, history: History) -> None:
            states.append(state)

        on_end = on_stop = lambda *_: None

    run_rounds(simulation, states[0], [history], callbacks=[[Keep()]])  # type: ignore[list-item]
    return simulation, states, history


def oracle_agents(simulation: Simulation) -> list[naive.Agent]:
    """The same agents as the oracle wants them: PyG objects and motif → graphs."""
    members = simulation.members[0]
    split, index = members.split, members.index
    agents = []
    for k, name in enumerate(split.names):
        shard = members.train[k]
        columns = shard.motifs.tocsc()
        entries = simulation.agents.entries[k]
        keys = []
        if index is not None:
            keys = [index.keys[m] for m in index.motif[entries]]
        motifs = {
            key: columns.indices[columns.indptr[c] : columns.indptr[c + 1]].tolist()
            for c, key in enumerate(keys)
        }
        agents.append(
            naive.Agent(
                name,
                to_pyg(split.graphs, members.numbers[k]),
                to_pyg(split.graphs, split.partition.test[k]),
                motifs,
            )
        )
    if simulation.config.size == "believed":
        for agent, *said in zip(agents, *oracle_believed(simulation), strict=True):
            agent.believed, agent.judging = said
    return agents


def oracle_believed(simulation: Simulation) -> tuple[list[float], list[list[float]]]:
    """How many of the agents' graphs the oracle believes, beside our random copies of them, and
    what the others count as judges of each agent.
    """
    members = simulation.members[0]
    own = [members.split.graphs.select(chosen) for chosen in members.numbers]
    assert all(graphs.attribute is None for graphs in own)  # digests are without attributes
    key = tuple(graphs.digest() for graphs in own)
    if key not in _BELIEVED:
        copies = [randomise_edges(graphs, graphs.node_label, SEED) for graphs in own]
        _BELIEVED[key] = belief.believed(
            [to_networkx(g) for g in own], [to_networkx(g) for g in copies]
        )
    return _BELIEVED[key]


def to_pyg(graphs: GraphSet, chosen: np.ndarray) -> list[Data]:
    """One-hot labels over the whole dataset's alphabet (degrees where there are no labels)."""
    labels = graphs.degree if graphs.node_label is None else graphs.node_label
    columns = np.arange(labels.max() + 1) if graphs.node_label is None else np.unique(labels)
    found = []
    for g in chosen:
        one = graphs.select([g])
        nodes = slice(graphs.node_start[g], graphs.node_start[g + 1])
        source = np.repeat(np.arange(len(one.degree)), one.degree)
        x = (labels[nodes][:, None] == columns).astype(float)
        found.append(
            Data(
                x=torch.tensor(x),
                edge_index=torch.tensor(np.stack([source, one.neighbour])),
                y=torch.tensor([int(one.target[0])]),
            )
        )
    return found


def oracle_options(config: Config) -> naive.Options:
    known = naive.Options.__dataclass_fields__
    return naive.Options(**{k: v for k, v in vars(config).items() if k in known})


def oracle_mask(config: Config, seed: int, dtype: torch.dtype):  # type: ignore[no-untyped-def]
    """Our keyed dropout masks, in the form the oracle asks for."""
    dropout = DropoutBits(config.dropout, CPU)

    def mask(name: str, round: int, step: int, layer: int, shape: tuple[int, int]) -> torch.Tensor:
        keys = fold(stream_keys(seed, [name], CPU), round, _DROPOUT, step)
        bits = dropout(keys, [shape[0] * shape[1]] * (layer + 1))[layer]
        return unpack_bits(bits, shape)[0].to(dtype) * dropout.scale

    return mask


def unpack_bits(bits: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Bits in words `(R, words)` as zeros and ones `(R, *shape)`."""
    single = (bits[:, :, None] >> torch.arange(64)) & 1
    return single.view(len(bits), -1)[:, : shape[0] * shape[1]].view(len(bits), *shape)


def pack_bits(mask: torch.Tensor) -> torch.Tensor:
    """The inverse: which units `(R, n, H)` are not zero, in words."""
    flat = (mask != 0).flatten(1).to(torch.int64)
    padded = torch.nn.functional.pad(flat, (0, -flat.shape[1] % 64)).view(len(mask), -1, 64)
    return (padded << torch.arange(64)).sum(dim=-1)


def oracle_order(config: Config, seed: int):  # type: ignore[no-untyped-def]
    """Our keyed shuffling, in the form the oracle asks for."""

    def shuffled(name: str, round: int, epoch: int, n: int) -> list[int]:
        if n <= config.batch_size:
            return list(range(n))
        key = fold(stream_keys(seed, [name], CPU), round, _SHUFFLE, epoch)
        return order(key[0], n).tolist()

    return shuffled


def oracle_run(simulation: Simulation, kind: str, dtype: torch.dtype) -> list[naive.RoundRecord]:
    """The oracle's trajectory of the same federation, from the same initial weights."""
    config, seed = simulation.config, simulation.members[0].seed
    together = oracle_start(simulation, simulation.initial[0], seed, dtype)
    run = {
        "motifair": partial(
            naive.federate,
            own=oracle_own(simulation, own_seed(seed), dtype),
        ),
        "fedavg": naive.fedavg,
        "self-train": naive.self_train,
    }[kind]
    return run(
        oracle_agents(simulation),
        together.initial,
        oracle_options(config),
        config.rounds,
        dtype=dtype,
        mask_fn=together.mask_fn,
        order_fn=together.order_fn,
    )


def oracle_own(simulation: Simulation, seed: int, dtype: torch.dtype) -> naive.Start:
    """What own models start from and draw, and the graphs that are held back from them."""
    start = oracle_start(simulation, simulation.own_initial[0], seed, dtype)
    if simulation.config.own_prior == math.inf:
        return start
    members = simulation.members[0]
    names = members.split.names
    each = zip(names, stream_keys(seed, names, CPU), members.train, strict=True)
    held = {name: held_back(key, len(shard))[0].tolist() for name, key, shard in each}
    return replace(start, held=held)


def oracle_start(
    simulation: Simulation, row: torch.Tensor, seed: int, dtype: torch.dtype
) -> naive.Start:
    """What a training with this seed starts from and draws."""
    config = simulation.config
    return naive.Start(
        simulation.model.layout.to_state_dict(row),
        oracle_mask(config, seed, dtype) if config.dropout else None,
        oracle_order(config, seed),
    )
