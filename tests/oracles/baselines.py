"""The baseline federations, one agent after the other, with plain PyG modules."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import networkx
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from .baseline_models import build_fedstar, build_sage, with_structure
from .naive import (
    GIN,
    Agent,
    Learner,
    MaskFn,
    Options,
    OrderFn,
    RoundRecord,
    accuracy,
    assign,
    build_model,
    collate,
    cosine,
    flatten,
    masked,
    normalised,
    relu,
    reward_ratios,
    shared_parameters,
    weighted_sum,
)

Gamma = float | Literal["auto"] | None
"""The norm of an upload: a number, 'auto' = mean norm of the round's updates, None = as it is."""


@dataclass
class ClusterRecord(RoundRecord):
    """clusters: the sorted agent indices of each cluster after the round's splits."""

    clusters: list[list[int]] = field(default_factory=list)


@dataclass
class RemovalRecord(RoundRecord):
    """removed: the sorted indices of all agents removed so far."""

    removed: list[int] = field(default_factory=list)


class BaselineLearner(Learner):
    """A learner with any model and any choice of the parameters that travel."""

    def __init__(
        self,
        agent: Agent,
        model: torch.nn.Module,
        travelling: list[Tensor],
        options: Options,
        dtype: torch.dtype,
    ) -> None:
        self.agent = agent
        self.model = model
        self.travelling = travelling
        self.options = options
        self.dtype = dtype
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        self.all_train = collate(agent.train, dtype)

    def shared(self) -> list[Tensor]:
        """The parameters that travel."""
        return self.travelling

    def fit(
        self, t: int, mu: float, mask_fn: MaskFn | None, order_fn: OrderFn | None
    ) -> tuple[float, Tensor]:
        """Local epochs of round t on L = NLL + (mu / 2) sum over shared (w - w_received)^2.

        Returns the mean over the steps of L, and the last step's gradient of L for the shared
        parameters (autograd's, before Adam adds the weight decay).
        """
        self.model.train()
        name, graphs = self.agent.name, len(self.agent.train)
        received = [parameter.detach().clone() for parameter in self.shared()]
        losses: list[float] = []
        for epoch in range(self.options.local_epochs):
            order = order_fn(name, t, epoch, graphs) if order_fn else range(graphs)
            for _, batch in self.batches(order):
                masks = self.masks(mask_fn, t, len(losses), batch) if mask_fn else None
                log_probs, _ = self.model(batch, masks, self.options.dropout)
                loss = functional.nll_loss(log_probs, batch.y.view(-1))
                for parameter, anchor in zip(self.shared(), received, strict=True):
                    loss = loss + mu / 2 * (parameter - anchor).square().sum()
                self.optimizer.zero_grad()
                loss.backward()
                losses.append(loss.item())
                self.optimizer.step()
        return sum(losses) / len(losses), flatten(p.grad for p in self.shared())


def gin_learners(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    dtype: torch.dtype,
    build: Callable[[Mapping[str, Tensor], torch.dtype], GIN] = build_model,
) -> list[BaselineLearner]:
    """One learner per agent, all from the same initial weights, sharing options.share."""
    learners = []
    for agent in agents:
        model = build(initial, dtype)
        travelling = shared_parameters(model, options.share)
        learners.append(BaselineLearner(agent, model, travelling, options, dtype))
    return learners


@dataclass
class LocalRound:
    """The agents' training in one round: shared weights before it and how they moved."""

    before: list[Tensor]
    updates: list[Tensor]
    losses: list[float]
    last_gradients: list[Tensor]


def train_all(
    learners: Sequence[BaselineLearner],
    t: int,
    mask_fn: MaskFn | None,
    order_fn: OrderFn | None,
    mu: float = 0.0,
) -> LocalRound:
    """Train every agent: Delta_i = trained - before, on the shared parameters."""
    local = LocalRound([], [], [], [])
    for learner in learners:
        before = flatten(learner.shared())
        loss, gradient = learner.fit(t, mu, mask_fn, order_fn)
        local.before.append(before)
        local.updates.append(flatten(learner.shared()) - before)
        local.losses.append(loss)
        local.last_gradients.append(gradient)
    return local


def all_weights(learners: Sequence[BaselineLearner]) -> dict[str, Tensor]:
    """All parameters of every agent."""
    return {learner.agent.name: flatten(learner.model.parameters()) for learner in learners}


def by_name(agents: Sequence[Agent], tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    """The tensors under the names of the agents they belong to."""
    return dict(zip([agent.name for agent in agents], tensors, strict=True))


def sizes_of(agents: Sequence[Agent]) -> list[float]:
    """|D_i|, the number of train graphs."""
    return [float(len(agent.train)) for agent in agents]


def norm(vector: Tensor) -> float:
    """The L2 norm."""
    return vector.double().norm().item()


def averaged(
    agents: Sequence[Agent],
    learners: Sequence[BaselineLearner],
    rounds: int,
    mask_fn: MaskFn | None,
    order_fn: OrderFn | None,
    mu: float = 0.0,
) -> list[RoundRecord]:
    """w_S = sum_i (|D_i| / |D|) w_i on the shared parameters, which then overwrites them."""
    weights = normalised(sizes_of(agents))
    records = []
    for t in range(1, rounds + 1):
        local = train_all(learners, t, mask_fn, order_fn, mu)
        server = weighted_sum(weights, [flatten(learner.shared()) for learner in learners])
        for learner in learners:
            assign(learner.shared(), server)
        updates = by_name(agents, local.updates)
        records.append(RoundRecord(all_weights(learners), local.losses, server, updates))
    return records


def fedprox(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    mu: float = 0.01,
) -> list[RoundRecord]:
    """FedAvg with local loss NLL + (mu / 2) sum over shared parameters (w - w_received)^2."""
    learners = gin_learners(agents, initial, options, dtype)
    return averaged(agents, learners, rounds, mask_fn, order_fn, mu)


def fedsage(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
) -> list[RoundRecord]:
    """FedAvg of SAGE models; `initial` is the state dict of a SAGE."""
    learners = gin_learners(agents, initial, options, dtype, build_sage)
    return averaged(agents, learners, rounds, mask_fn, order_fn)


def fedstar(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    n_rw: int = 16,
    n_dg: int = 16,
) -> list[RoundRecord]:
    """FedAvg of the structure parameters of FedStar models; all others are personal.

    `initial` is the state dict of a FedStar model; there is no global model.
    """
    learners = []
    for agent in agents:
        train = [with_structure(graph, n_rw, n_dg) for graph in agent.train]
        model = build_fedstar(initial, dtype)
        travelling = model.structure_parameters()
        learners.append(
            BaselineLearner(replace(agent, train=train), model, travelling, options, dtype)
        )
    records = averaged(agents, learners, rounds, mask_fn, order_fn)
    return [replace(record, server=torch.empty(0)) for record in records]


def dtw(a: Sequence[float], b: Sequence[float]) -> float:
    """Dynamic time warping: sqrt of the cheapest path from (0, 0) to the end of both sequences.

    cost(i, j) = (a_i - b_j)^2 + min(cost(i-1, j-1), cost(i-1, j), cost(i, j-1)).
    """
    cost = {(-1, -1): 0.0}
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            previous = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
            cost[i, j] = (x - y) ** 2 + min(cost.get(place, math.inf) for place in previous)
    return math.sqrt(cost[len(a) - 1, len(b) - 1])


def min_cut(members: Sequence[int], similarity: Mapping[tuple[int, int], float]) -> list[list[int]]:
    """The two sides of the global minimum cut of the members' complete graph.

    similarity[i, j], i < j, weighs the edges; the side with the smallest member comes first.
    """
    graph = networkx.Graph()
    graph.add_nodes_from(members)
    for (i, j), weight in similarity.items():
        graph.add_edge(i, j, weight=weight)
    _, sides = networkx.stoer_wagner(graph)
    return sorted(sorted(side) for side in sides)


def pairs_of(members: Sequence[int]) -> list[tuple[int, int]]:
    """All pairs i < j of the sorted members, in order."""
    return [(i, j) for i in members for j in members if i < j]


def update_similarity(
    members: Sequence[int], updates: Sequence[Tensor]
) -> dict[tuple[int, int], float]:
    """S_ij = max(0, 1 + cos(dW_i, dW_j)) (GCFL)."""
    return {(i, j): relu(1 + cosine(updates[i], updates[j])) for i, j in pairs_of(members)}


def sequence_similarity(
    members: Sequence[int], sequences: Sequence[Sequence[float]], length: int
) -> dict[tuple[int, int], float]:
    """S_ij = max over the pairs of D - D_ij, D = DTW of the last `length` values (GCFL+)."""
    distance = {
        (i, j): dtw(sequences[i][-length:], sequences[j][-length:]) for i, j in pairs_of(members)
    }
    return {pair: max(distance.values()) - d for pair, d in distance.items()}


def gcfl(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    eps1: float,
    eps2: float,
    first_split: int = 20,
    plus: bool = False,
    length: int = 5,
) -> list[ClusterRecord]:
    """Clustered averaging of the convolutions; options.share is not asked.

    A cluster c of more than two agents is cut in two (min cut of S) in a round t > first_split
    with |mean_i dW_i| < eps1 and max_i |dW_i| > eps2; GCFL+ (`plus`) also wants `length` gradient
    norms of every agent of c, and a cut clears the sequences of all agents. Then in every cluster
    convs_i <- before_i + sum_j |D_j| dW_j / sum_j |D_j|.
    """
    learners = gin_learners(agents, initial, replace(options, share="conv"), dtype)
    sizes = sizes_of(agents)
    sequences: list[list[float]] = [[] for _ in agents]
    clusters = [list(range(len(agents)))]
    records = []
    for t in range(1, rounds + 1):
        local = train_all(learners, t, mask_fn, order_fn)
        updates = local.updates
        if plus:
            for sequence, gradient in zip(sequences, local.last_gradients, strict=True):
                sequence.append(norm(gradient))

        parts: list[list[int]] = []
        for cluster in clusters:
            mean = sum(updates[i] for i in cluster) / len(cluster)
            split = (
                len(cluster) > 2
                and t > first_split
                and norm(mean) < eps1
                and max(norm(updates[i]) for i in cluster) > eps2
            )
            if plus:
                split = split and all(len(sequences[i]) >= length for i in cluster)
            if not split:
                parts.append(cluster)
            elif plus:
                parts += min_cut(cluster, sequence_similarity(cluster, sequences, length))
                sequences = [[] for _ in agents]
            else:
                parts += min_cut(cluster, update_similarity(cluster, updates))
        clusters = parts

        for cluster in clusters:
            weights = normalised([sizes[i] for i in cluster])
            step = weighted_sum(weights, [updates[i] for i in cluster])
            for i in cluster:
                assign(learners[i].shared(), local.before[i] + step)
        records.append(
            ClusterRecord(
                weights=all_weights(learners),
                loss=local.losses,
                updates=by_name(agents, updates),
                clusters=clusters,
            )
        )
    return records


def target_norm(gamma: Gamma, updates: Sequence[Tensor]) -> float | None:
    """Gamma of this round: 'auto' is the mean over all agents of |Delta_i|."""
    if gamma == "auto":
        return sum(norm(update) for update in updates) / len(updates)
    return gamma


def rescaled(update: Tensor, length: float | None) -> Tensor:
    """Gamma Delta / (|Delta| + 1e-7), or Delta if there is no Gamma."""
    return update if length is None else update * (length / (norm(update) + 1e-7))


def clipped(update: Tensor, length: float | None) -> Tensor:
    """Delta, shortened to norm Gamma if there is a Gamma and it is longer."""
    if length is None or norm(update) <= length:
        return update
    return update * (length / norm(update))


def closeness(upload: Tensor, everyone: Tensor) -> float:
    """1 - |u_i - u_N| / (|u_i| + |u_N|)."""
    return 1 - norm(upload - everyone) / (norm(upload) + norm(everyone))


def masked_per_tensor(update: Tensor, ratio: float, lengths: Sequence[int]) -> tuple[Tensor, int]:
    """Keep the ceil(ratio * length - 1e-9) largest magnitudes of each tensor.

    Ties go to the lower index. Returns the reward g_i and how many components it kept.
    """
    rewards, kept = [], 0
    for piece in update.split(list(lengths)):
        count = math.ceil(ratio * len(piece) - 1e-9)
        places = torch.sort(piece.abs(), descending=True, stable=True).indices[:count]
        reward = torch.zeros_like(piece)
        reward[places] = piece[places]
        rewards.append(reward)
        kept += count
    return torch.cat(rewards), kept


def cgsv(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    alpha: float = 0.95,
    beta: float = 1.0,
    gamma: Gamma = "auto",
    value: str = "cosine",
) -> list[RoundRecord]:
    """CGSV (value 'cosine'), EU ('euclidean') and DW ('size').

    u_i = Gamma Delta_i / (|Delta_i| + 1e-7), u_N = sum_i a_i u_i with a = |D_i| / |D| in round 1
    and a = r after it, w_S += u_N. With phi_i = cos(u_i, u_N) or 1 - |u_i - u_N| / (|u_i| + |u_N|),
    r <- alpha r + (1 - alpha) phi, r <- max(r, 1e-3), r <- r / sum r, from r = 0; DW has
    r_i = |D_i| / |D| always and no phi. q_i = tanh(beta r_i) / max_j tanh(beta r_j) of each tensor
    of u_N is the reward g_i, and w_i = before_i + g_i on the shared parameters.
    """
    if value not in ("cosine", "size", "euclidean"):
        raise ValueError(f"value must be cosine, size or euclidean, not {value!r}")
    learners = gin_learners(agents, initial, options, dtype)
    size_shares = normalised(sizes_of(agents))
    r = size_shares if value == "size" else [0.0] * len(agents)
    server = flatten(learners[0].shared())
    lengths = [parameter.numel() for parameter in learners[0].shared()]
    records = []
    for t in range(1, rounds + 1):
        local = train_all(learners, t, mask_fn, order_fn)
        length = target_norm(gamma, local.updates)
        uploads = [rescaled(update, length) for update in local.updates]
        everyone = weighted_sum(size_shares if t == 1 else r, uploads)
        server = server + everyone

        phi: list[float] = []
        if value != "size":
            measure = cosine if value == "cosine" else closeness
            phi = [measure(upload, everyone) for upload in uploads]
            r = [alpha * old + (1 - alpha) * new for old, new in zip(r, phi, strict=True)]
            r = normalised([max(number, 1e-3) for number in r])

        kept = []
        for i, ratio in enumerate(reward_ratios(r, beta)):
            reward, count = masked_per_tensor(everyone, ratio, lengths)
            kept.append(count)
            assign(learners[i].shared(), local.before[i] + reward)
        records.append(
            RoundRecord(
                weights=all_weights(learners),
                loss=local.losses,
                server=server,
                updates=by_name(agents, local.updates),
                phi=phi,
                value=r,
                kept=kept,
            )
        )
    return records


def rffl(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    alpha: float = 0.95,
    gamma: Gamma = "auto",
    threshold: float = 1 / 3,
    patience: int = 10,
) -> list[RemovalRecord]:
    """RFFL: u_i = Delta_i clipped to norm Gamma, u_N = sum_i a_i u_i, a as in CGSV, w_S += u_N.

    r <- alpha r + (1 - alpha) cos(u_i, u_N), 0 for the removed, r <- r / sum r, from r = 0. From
    round patience + 1 on every remaining i with r_i < threshold / |R| is removed for good: r_i = 0,
    r <- r / sum r. q_i = max(0, r_i / max_j r_j) of each tensor of u_N is the reward g_i, and
    w_i = before_i + u_i + g_i on the shared parameters.
    """
    learners = gin_learners(agents, initial, options, dtype)
    r = [0.0] * len(agents)
    removed: set[int] = set()
    server = flatten(learners[0].shared())
    lengths = [parameter.numel() for parameter in learners[0].shared()]
    records = []
    for t in range(1, rounds + 1):
        local = train_all(learners, t, mask_fn, order_fn)
        length = target_norm(gamma, local.updates)
        uploads = [clipped(update, length) for update in local.updates]
        everyone = weighted_sum(normalised(sizes_of(agents)) if t == 1 else r, uploads)
        server = server + everyone

        phi = [cosine(upload, everyone) for upload in uploads]
        r = [alpha * old + (1 - alpha) * new for old, new in zip(r, phi, strict=True)]
        r = normalised([0.0 if i in removed else number for i, number in enumerate(r)])
        if t > patience:
            bar = threshold / (len(agents) - len(removed))
            removed |= {i for i, number in enumerate(r) if number < bar}
            r = normalised([0.0 if i in removed else number for i, number in enumerate(r)])

        kept = []
        for i, learner in enumerate(learners):
            reward, count = masked_per_tensor(everyone, relu(r[i] / max(r)), lengths)
            kept.append(count)
            assign(learner.shared(), local.before[i] + uploads[i] + reward)
        records.append(
            RemovalRecord(
                weights=all_weights(learners),
                loss=local.losses,
                server=server,
                updates=by_name(agents, local.updates),
                phi=phi,
                value=r,
                kept=kept,
                removed=sorted(removed),
            )
        )
    return records


def cffl_lyu(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    validation: Sequence[Data],
    theta: float = 0.1,
    clip: float = 0.01,
    sinh: float = 5.0,
    threshold: float = 1 / 3,
    smoothing: float = 0.8,
) -> list[RemovalRecord]:
    """CFFL of Lyu et al.: mode sum, selection all, no growth of the sinh factor.

    c_i = Delta_i clipped elementwise to +-clip, f_i = its floor(theta D) largest magnitudes,
    v_i = accuracy of w_S + f_i on the validation graphs (`phi` of the record, 0 for the removed).
    rep_i <- smoothing rep_i + (1 - smoothing) v_i / sum_R v from rep = 1/N, then rep <-
    sinh(sinh rep) / sum_R; every i with rep_i < threshold / |R| is removed for good: rep_i = 0,
    rep <- rep / sum. U = sum_R f_i, w_S += U, and the download g_i keeps
    floor(rep_i / max rep * |D_i| / max_j |D_j| * D) components of U:
    w_i = before_i + c_i + g_i - f_i, without g_i - f_i for the removed.
    """
    if options.share != "all":
        raise ValueError("the validation accuracy needs the whole model: share must be 'all'")
    learners = gin_learners(agents, initial, options, dtype)
    sizes = sizes_of(agents)
    rep = [1 / len(agents)] * len(agents)
    remaining = list(range(len(agents)))
    server = flatten(learners[0].shared())
    everything = [len(server)]
    records = []
    for t in range(1, rounds + 1):
        local = train_all(learners, t, mask_fn, order_fn)
        steps = [update.clamp(-clip, clip) for update in local.updates]
        uploads = [masked(step, theta, everything)[0] for step in steps]

        worth = [0.0] * len(agents)
        for i in remaining:
            worth[i] = accuracy(server + uploads[i], initial, validation)
        share = normalised(worth) if sum(worth) > 0 else worth
        rep = [smoothing * old + (1 - smoothing) * new for old, new in zip(rep, share, strict=True)]
        rep = normalised(
            [math.sinh(sinh * number) if i in remaining else 0.0 for i, number in enumerate(rep)]
        )
        bar = threshold / len(remaining)
        remaining = [i for i in remaining if rep[i] >= bar]
        rep = normalised([number if i in remaining else 0.0 for i, number in enumerate(rep)])

        everyone = torch.zeros_like(server)
        for i in remaining:
            everyone = everyone + uploads[i]
        server = server + everyone

        kept = []
        for i, learner in enumerate(learners):
            ratio = rep[i] / max(rep) * sizes[i] / max(sizes)
            download, count = masked(everyone, ratio, everything)
            kept.append(count)
            adopted = local.before[i] + steps[i]
            if i in remaining:
                adopted = adopted + download - uploads[i]
            assign(learner.shared(), adopted)
        records.append(
            RemovalRecord(
                weights=all_weights(learners),
                loss=local.losses,
                server=server,
                updates=by_name(agents, local.updates),
                phi=worth,
                value=rep,
                kept=kept,
                removed=[i for i in range(len(agents)) if i not in remaining],
            )
        )
    return records
