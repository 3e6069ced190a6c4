"""Members with iid graphs against one plain PyG network trained on all their graphs together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from motifair.evaluation.metrics import score
from motifair.evaluation.statistics import paired_difference
from motifair.experiments.plan import Plan, split_data
from motifair.export.pyg import GINEModule, GINModule, Network
from motifair.federation.loop import Stopped, run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.files import read_json, write_json
from motifair.graphs.batch import Shard
from motifair.graphs.task import CLASSES, REGRESSION
from motifair.graphs.tu import data_folder
from motifair.studies.study import Settings, Study, StudyResult

FIRST, ROUNDS = 240_000, 50  # docs/results/seeds.toml
METHODS = ("fedavg", "motifair")
TRAINING: dict[str, Any] = {
    "agents": 5, "partition": "iid", "features": "auto", "edges": "auto", "hidden": 32,
    "layers": 3, "dropout": 0.0, "batch_size": 13, "local_steps": 5, "learning_rate": 0.002,
}  # fmt: skip
MOLECULES = {
    "BBBP": ("BBBP.csv", "p_np"),
    "ESOL": ("ESOL_delaney-processed.csv", "measured log solubility in mols per litre"),
    "Lipophilicity": ("Lipophilicity.csv", "exp"),
}
DATASETS = (*MOLECULES, "Mutagenicity", "AIDS", "BZR")
SPLITS = 3


def run(settings: Settings) -> StudyResult:
    """Train federations and pooled networks on the same splits; finished splits are read."""
    rows = [
        _split_row(settings, dataset, FIRST + k)
        for k in range(settings.splits or SPLITS)  # all datasets have a split before the next one
        for dataset in settings.datasets or DATASETS
    ]
    raw = pd.DataFrame(rows)
    return StudyResult(
        "iid members against a pooled PyG network",
        {"pooled": summary(raw)},
        notes=[_note(settings.rounds)],
        raw={"splits": raw},
    )


def summary(raw: pd.DataFrame) -> pd.DataFrame:
    """Return means over splits, and each method's server minus pooled with a bootstrap interval.

    Errors are shown as errors, differences as scores: positive where the federation is better.
    """
    rows = []
    for dataset, part in raw.groupby("dataset", sort=False):
        measure, network = part["measure"].iloc[0], part["network"].iloc[0]
        sign = -1 if measure in ("rmse", "mae") else 1
        row = {"dataset": dataset, "splits": len(part), "measure": measure, "network": network}
        row["rounds"] = part["rounds"].max()
        row["pooled"] = sign * part["pooled"].mean()
        for method in METHODS:
            pair = paired_difference(part[method].tolist(), part["pooled"].tolist())
            name = f"{method}_minus_pooled"
            row |= {method: sign * part[method].mean(), name: pair.mean}
            row |= {f"{name}_low": pair.low, f"{name}_high": pair.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _note(passes: int) -> str:
    t = TRAINING
    all_members = t["agents"] * t["batch_size"]
    return (
        "Scores on the graphs that no member holds: the server's model against a network of PyG's "
        "GINConv, or GINEConv where edges have labels, trained by torch.optim.Adam on all members' "
        f"training graphs. {t['agents']} members, hidden {t['hidden']}, {t['layers']} layers, no "
        f"dropout, learning rate {t['learning_rate']}. A member's step is on {t['batch_size']} "
        f"graphs, the network's on {all_members}, as many as all members' together: both take as "
        f"many steps, {passes} epochs of the network, and see as many graphs. Members' models are "
        f"averaged after every {t['local_steps']} steps, which is a round: the further they go "
        "apart before, the slower they learn. The batches were chosen on splits 245000 and 245001 "
        "of ESOL and BZR, how often models are averaged on the same of ESOL, Lipophilicity, "
        f"Mutagenicity and BBBP. Splits from {FIRST}; differences are paired, positive where the "
        "federation is better, with 95 % bootstrap intervals over splits."
    )


def _split_row(settings: Settings, dataset: str, seed: int) -> dict[str, Any]:
    """Return the scores of one split, from an earlier call if there was one."""
    steps = f"{TRAINING['batch_size']}-{TRAINING['local_steps']}"
    name = f"{dataset}-{seed}-{settings.rounds}-{steps}.json"
    path = settings.out / "runs" / "pooled" / name
    if path.exists():
        stored: dict[str, Any] = read_json(path)
        return stored
    row: dict[str, Any] = {"dataset": dataset, "seed": seed}
    for method in METHODS:
        plan = _plan(settings, dataset, seed, method)
        members = prepare(plan.config, split_data(plan, 0), seed=seed)
        plan = with_passes(plan, members, settings.rounds)
        row[method] = _federated(plan, members, settings.stop)
    row |= {
        "rounds": plan.config.rounds,
        "measure": members.model.task.metric,
        "network": "GINE" if members.features.edges else "GIN",
    }
    row["pooled"] = train_pooled(members, plan, epochs=settings.rounds, stop=settings.stop)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, row)
    return row


def _plan(settings: Settings, dataset: str, seed: int, method: str) -> Plan:
    options = {**TRAINING, "method": method}
    if dataset in MOLECULES:
        file, targets = MOLECULES[dataset]
        folder = data_folder(settings.data_dir) or Path()
        dataset = str(folder / "molecules" / file)
        options |= {"smiles": "smiles", "targets": targets}
    return replace(settings, splits=1).plan(dataset, seed=seed, splits=1, **options)


def with_passes(plan: Plan, members: Members, passes: int) -> Plan:
    """Return the plan with as many rounds as give members the steps of so many passes over their
    graphs.
    """
    config = plan.config
    a_pass = math.ceil(max(len(shard) for shard in members.train) / config.batch_size)
    rounds = math.ceil(passes * a_pass / min(config.local_steps or a_pass, a_pass))
    return replace(plan, config=replace(config, rounds=rounds))


def _federated(plan: Plan, members: Members, stop: Callable[[], bool]) -> float:
    """Return the score of the server's model after the last round."""
    simulation = Simulation(plan.config, members, device=plan.device, threads=plan.threads)
    histories = simulation.histories()
    with closing(simulation):
        run_rounds(
            simulation, simulation.start(), histories, stop=stop, eval_every=plan.config.rounds
        )
    return float(histories[0].global_accuracy[-1])


def train_pooled(members: Members, plan: Plan, *, epochs: int, stop: Callable[[], bool]) -> float:
    """Train a PyG network on all members' training graphs; return its score on unseen graphs.

    Its batches are as large as those of all members together. With batches of one member's size it
    would take as many more steps in an epoch as there are members.
    """
    config, task = plan.config, members.model.task
    torch.manual_seed(members.seed)
    kind = GINEModule if members.features.edges else GINModule
    # Inputs and targets are standardised already.
    features, outputs = replace(members.features, mean=None, scale=None), task
    if task.kind == REGRESSION:
        outputs = replace(task, mean=(0.0,) * task.outputs, scale=(1.0,) * task.outputs)
    network = kind(features, outputs, config.hidden, config.layers)
    optimiser = torch.optim.Adam(
        network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    graphs = [g for shard in members.train for g in as_data(shard, members)]
    batches = DataLoader(graphs, config.batch_size * len(members.train), shuffle=True)
    for _ in range(epochs):
        if stop():
            raise Stopped
        for batch in batches:
            optimiser.zero_grad()
            scores = _scores(network, batch)
            loss = F.nll_loss if task.kind == CLASSES else F.mse_loss
            loss(scores, batch.y).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    with torch.no_grad():
        held_out = list(as_data(members.global_test, members))
        scores = torch.cat([_scores(network, b) for b in DataLoader(held_out, 256)])
    target = members.global_test.graphs
    known = target.target if task.kind == CLASSES else target.values
    assert known is not None
    return score(task, known, members.model.predicted(scores).double().numpy())


def _scores(network: Network, batch: Any) -> Tensor:
    """Return log-probabilities of classes, or standardised numbers."""
    scores: Tensor = network(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
    return scores


def as_data(shard: Shard, members: Members) -> Iterator[Data]:
    """Yield graphs as PyG has them, inputs as the members' networks read them."""
    graphs, features = shard.graphs, members.features
    x = torch.tensor(features.encode(graphs).toarray(), dtype=torch.float32)
    source = np.repeat(np.arange(len(graphs.degree)), graphs.degree)
    edges = torch.tensor(np.stack([graphs.neighbour, source]))
    labels = None
    if features.edge_columns is not None:
        column = np.searchsorted(features.edge_columns, np.asarray(graphs.edge_label))
        labels = F.one_hot(torch.tensor(column), features.edges).float()
    classes = graphs.values is None
    y = torch.tensor(graphs.target) if classes else torch.tensor(graphs.values).float()
    for g in range(len(graphs)):
        first, stop = int(graphs.node_start[g]), int(graphs.node_start[g + 1])
        own = slice(int(graphs.edge_start[first]), int(graphs.edge_start[stop]))
        edge_attr = None if labels is None else labels[own]
        yield Data(x[first:stop], edges[:, own] - first, edge_attr, y[g : g + 1])


STUDY = Study("pooled", "iid members against one PyG network on all graphs", run)
