"""A federation of graph classifiers, one agent after the other, with plain PyG modules."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool

from .games import shapley_by_subsets

MaskFn = Callable[[str, int, int, int, tuple[int, int]], Tensor]
"""(agent, round from 1, step in the round from 0, layer from 0, shape) -> scaled dropout mask."""

OrderFn = Callable[[str, int, int, int], Sequence[int]]
"""(agent, round from 1, epoch in the round from 0, train graphs) -> order of the train graphs."""

TINY_NORM = 1e-12


class GIN(torch.nn.Module):
    """pre -> layers x {GINConv, ReLU, dropout} -> sum pooling -> post, ReLU, dropout -> readout.

    GINConv(x)_v = MLP(x_v + sum of x_u over the neighbours u), MLP = Linear-ReLU-Linear.
    """

    def __init__(self, features: int, classes: int, hidden: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.pre = torch.nn.Linear(features, hidden)
        self.convs = torch.nn.ModuleList(
            GINConv(
                torch.nn.Sequential(
                    torch.nn.Linear(hidden, hidden),
                    torch.nn.ReLU(),
                    torch.nn.Linear(hidden, hidden),
                )
            )
            for _ in range(layers)
        )
        self.post = torch.nn.Linear(hidden, hidden)
        self.readout = torch.nn.Linear(hidden, classes)

    def forward(
        self, data: Batch, masks: Sequence[Tensor] | None = None, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities [graphs, classes] and graph embeddings [graphs, hidden].

        While training, dropout multiplies by masks[layer] if masks are given (already scaled:
        0 or 1/(1-p)), else it is random with probability `dropout`. In eval mode there is none.
        """

        def drop(x: Tensor, layer: int) -> Tensor:
            if self.training and masks is not None:
                return x * masks[layer]
            return functional.dropout(x, dropout, self.training)

        x = self.pre(data.x)
        for layer, conv in enumerate(self.convs):
            x = drop(functional.relu(conv(x, data.edge_index)), layer)
        embedding = global_add_pool(x, data.batch, size=data.num_graphs)
        x = drop(functional.relu(self.post(embedding)), len(self.convs))
        return functional.log_softmax(self.readout(x), dim=-1), embedding


@dataclass
class Agent:
    """An agent: its graphs, and for each motif of its vocabulary M_i the train graphs with it.

    believed: how many of the train graphs count where size is "believed"; judging: what each agent
    counts there as a judge of this one, 1 if empty.
    """

    name: str
    train: list[Data]
    test: list[Data]
    motifs: dict[str, list[int]]
    believed: float = math.nan
    judging: list[float] = field(default_factory=list)


CHOICES = {
    "share": ("all", "conv"),
    "alignment_of": ("update", "gradient"),
    "alignment_against": ("all", "others", "shapley", "peers", "peers-by-value", "coverage"),
    "evidence": ("sum", "judged"),
    "initial_value": ("equal", "evidence"),
    "moments": ("own", "common", "auto"),
    "value_update": ("additive", "ema"),
    "aggregation": ("value", "size", "trusted"),
    "size": ("claimed", "believed"),
    "aggregate_length": ("mean", "typical"),
    "mask_scope": ("global", "layer"),
    "reward_for": ("value", "relative-value"),
    "prototype_distance": ("l2", "unit"),
    "prototype_reduce": ("sum", "mean"),
}


@dataclass
class Options:
    """The options a round depends on; the defaults are the literal reading of the paper."""

    share: str = "all"
    local_epochs: int = 1
    batch_size: int = 128
    local_steps: int = 0
    learning_rate: float = 0.001
    weight_decay: float = 0.0005
    dropout: float = 0.5
    moments: str = "own"
    alignment_of: str = "update"
    alignment_against: str = "all"
    alignment_rate: float = 1.0
    corroboration: int = 1
    evidence: str = "sum"
    value_guard: bool = False
    initial_value: str = "equal"
    trial_rounds: int = 0
    value_update: str = "additive"
    value_rate: float = 0.05
    diversity_weight: float = 1.0
    aggregation: str = "value"
    size: str = "claimed"
    aggregate_length: str = "mean"
    beta: float = 1.0
    mask_scope: str = "global"
    retention: float = 0.0
    reward_step: float = 1.0
    reward_for: str = "value"
    own_weight: float = 0.0
    own_prior: float = math.inf
    prototype_distance: str = "l2"
    prototype_reduce: str = "sum"
    prototype_weight: float = 0.1
    budget: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a misspelt choice."""
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, not {getattr(self, name)!r}")


@dataclass
class RoundRecord:
    """What one round left behind; lists are in agent order, empty = the method has no such thing.

    weights: all parameters after adoption; server: shared parameters of the server model;
    updates: raw local updates of the shared parameters; kept: reward components each agent got;
    loss: mean total local loss over the round's steps; own: all parameters of the models that
    agents train alone beside; accuracy: on the agents' own test graphs.
    """

    weights: dict[str, Tensor]
    loss: list[float]
    server: Tensor = field(default_factory=lambda: torch.empty(0))
    updates: dict[str, Tensor] = field(default_factory=dict)
    phi: list[float] = field(default_factory=list)
    diversity: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    payoff: list[float] = field(default_factory=list)
    compensation: list[float] = field(default_factory=list)
    local_prototypes: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    global_prototypes: dict[str, Tensor] = field(default_factory=dict)
    own: dict[str, Tensor] = field(default_factory=dict)
    accuracy: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Start:
    """What a training starts from and draws: initial weights, dropout masks, orders of graphs, and
    which graphs of each agent it is not trained on.
    """

    initial: Mapping[str, Tensor]
    mask_fn: MaskFn | None
    order_fn: OrderFn | None
    held: Mapping[str, Sequence[int]] = field(default_factory=dict)


def flatten(tensors: Iterable[Tensor]) -> Tensor:
    """A copy of the tensors as one vector."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def assign(parameters: Iterable[Tensor], flat: Tensor) -> None:
    """Copy the vector into the parameters, in order."""
    start = 0
    with torch.no_grad():
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.copy_(flat[start:end].view_as(parameter))
            start = end


def build_model(initial: Mapping[str, Tensor], dtype: torch.dtype) -> GIN:
    """A GIN with the sizes and the parameters of the state dict `initial`."""
    hidden, features = initial["pre.weight"].shape
    classes = initial["readout.weight"].shape[0]
    layers = sum(name.endswith(".nn.0.weight") for name in initial)
    model = GIN(features, classes, hidden, layers).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(initial[name])
    return model


def shared_parameters(model: GIN, share: str) -> list[Tensor]:
    """The parameters that travel: all of them, or those of the convolutions."""
    return list(model.parameters()) if share == "all" else list(model.convs.parameters())


def accuracy(weights: Tensor, initial: Mapping[str, Tensor], graphs: Sequence[Data]) -> float:
    """Fraction of the graphs that the model with these flat weights classifies correctly."""
    return mixed_accuracy([(1.0, weights)], initial, graphs)


def mixed_accuracy(
    models: Sequence[tuple[float, Tensor]], initial: Mapping[str, Tensor], graphs: Sequence[Data]
) -> float:
    """Fraction of the graphs classified correctly by sum_m share_m p_m(class | graph)."""
    built = []
    for share, weights in models:
        model = build_model(initial, weights.dtype).eval()
        assign(model.parameters(), weights)
        built.append((share, model, weights.dtype))
    right = 0
    for graph in graphs:
        mixture = [0.0] * initial["readout.weight"].shape[0]
        for share, model, dtype in built:
            with torch.no_grad():
                log_probs, _ = model(collate([graph], dtype))
            for label, log_prob in enumerate(log_probs[0].tolist()):
                mixture[label] += share * math.exp(log_prob)
        right += mixture.index(max(mixture)) == int(graph.y)
    return right / len(graphs)


def chosen_share(
    together: Tensor,
    own: Tensor,
    initial: Mapping[str, Tensor],
    graphs: Sequence[Data],
    options: Options,
) -> float:
    """The eta of 0, 1/40, ..., 1 that maximises, over the graphs that were held back,

    sum log((1 - eta) p + eta p_own) + prior (eta_0 log eta + (1 - eta_0) log(1 - eta)).
    """
    chances = []
    for weights in (together, own):
        model = build_model(initial, weights.dtype).eval()
        assign(model.parameters(), weights)
        with torch.no_grad():
            logs = [model(collate([g], weights.dtype))[0][0, int(g.y)].item() for g in graphs]
        chances.append([math.exp(log) for log in logs])
    usual, prior = options.own_weight, options.own_prior
    scores = {}
    for k in range(1, 40):  # at the ends the prior is minus infinity
        eta = k / 40
        likelihood = sum(
            math.log(max((1 - eta) * p + eta * q, 1e-6)) for p, q in zip(*chances, strict=True)
        )
        expected = usual * math.log(eta) + (1 - usual) * math.log(1 - eta)
        scores[eta] = likelihood + prior * expected
    return max(scores, key=lambda eta: scores[eta])


def collate(graphs: Sequence[Data], dtype: torch.dtype) -> Batch:
    """The graphs as one batch with features of the given type."""
    batch = Batch.from_data_list(list(graphs))
    batch.x = batch.x.to(dtype)
    return batch


def prototype_term(
    embedding: Tensor,
    indices: Sequence[int],
    motifs: Mapping[str, Sequence[int]],
    prototypes: Mapping[str, Tensor],
    options: Options,
) -> Tensor:
    """R = sum or mean over motifs k of d(c_k, c_{N,k}); 0 if there is none.

    c_k is the mean embedding of the batch members that contain k, c_{N,k} the constant global
    prototype; d is the L2 distance, between the vectors (l2) or between their directions (unit).
    Motifs absent from the batch or without a global prototype are skipped.
    """
    distances = []
    for motif, owners in motifs.items():
        members = [place for place, graph in enumerate(indices) if graph in owners]
        if members and motif in prototypes:
            batch_prototype = embedding[members].mean(dim=0)
            global_prototype = prototypes[motif].detach()
            if options.prototype_distance == "unit":
                batch_prototype = functional.normalize(batch_prototype, dim=0, eps=TINY_NORM)
                global_prototype = functional.normalize(global_prototype, dim=0, eps=TINY_NORM)
            distances.append((batch_prototype - global_prototype).norm())
    if not distances:
        return embedding.new_zeros(())
    total = torch.stack(distances).sum()
    return total if options.prototype_reduce == "sum" else total / len(distances)


def discrimination(probabilities: Sequence[Sequence[float]], labels: Sequence[int]) -> float | None:
    """How well predictions tell classes apart: the mean over the classes c that some graphs have
    and some have not of (mean p_c of those of class c) - (mean p_c of the others), else None.
    """
    told = []
    for c in range(len(probabilities[0])):
        inside = [p[c] for p, y in zip(probabilities, labels, strict=True) if y == c]
        outside = [p[c] for p, y in zip(probabilities, labels, strict=True) if y != c]
        if inside and outside:
            told.append(sum(inside) / len(inside) - sum(outside) / len(outside))
    return sum(told) / len(told) if told else None


Rows = Sequence[Sequence[float]]


def equally_sure(models: Sequence[Rows]) -> list[list[list[float]]]:
    """Log-probabilities of some models with one temperature for each, at which the likeliest class
    of the median graph is as far above the mean of its classes as in the median model, and at most
    a half (the median of an even number is the lower of the middle two).
    """
    above = [[[x - sum(row) / len(row) for x in row] for row in rows] for rows in models]
    sure = [lower_median([max(row) for row in rows]) for rows in above]
    usual = min(0.5, lower_median(sure))
    found = []
    for rows, own in zip(above, sure, strict=True):
        by = usual / max(own, 1e-6)
        totals = [math.log(sum(math.exp(by * x) for x in row)) for row in rows]
        found.append([[by * x - t for x in row] for row, t in zip(rows, totals, strict=True)])
    return found


def lower_median(numbers: Sequence[float]) -> float:
    return sorted(numbers)[(len(numbers) - 1) // 2]


class Learner:
    """One agent with its model and its Adam optimiser, which keeps its moments over rounds."""

    def __init__(
        self, agent: Agent, initial: Mapping[str, Tensor], options: Options, dtype: torch.dtype
    ) -> None:
        self.agent = agent
        self.options = options
        self.dtype = dtype
        self.model = build_model(initial, dtype)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        self.all_train = collate(agent.train, dtype)

    def shared(self) -> list[Tensor]:
        """The parameters that travel."""
        return shared_parameters(self.model, self.options.share)

    def batches(self, order: Sequence[int]) -> Iterator[tuple[Sequence[int], Batch]]:
        """Cut the order into consecutive mini-batches: (train graph indices, their batch)."""
        natural = list(order) == list(range(len(self.agent.train)))
        starts = range(0, len(order), self.options.batch_size)
        for start in starts[: self.options.local_steps or None]:
            indices = order[start : start + self.options.batch_size]
            if natural and len(indices) == len(order):
                yield indices, self.all_train
            else:
                yield indices, collate([self.agent.train[i] for i in indices], self.dtype)

    def train(
        self,
        t: int,
        prototypes: Mapping[str, Tensor],
        prototype_weight: float,
        mask_fn: MaskFn | None,
        order_fn: OrderFn | None,
    ) -> tuple[float, Tensor]:
        """Local epochs of round t on L = NLL + lambda * R (E13).

        Returns the mean over the steps of L, and of its gradient for the shared parameters
        (autograd's, before Adam adds the weight decay).
        """
        self.model.train()
        name, graphs = self.agent.name, len(self.agent.train)
        losses: list[float] = []
        gradients: list[Tensor] = []
        for epoch in range(self.options.local_epochs):
            order = order_fn(name, t, epoch, graphs) if order_fn else range(graphs)
            for indices, batch in self.batches(order):
                masks = self.masks(mask_fn, t, len(losses), batch) if mask_fn else None
                log_probs, embedding = self.model(batch, masks, self.options.dropout)
                loss = functional.nll_loss(log_probs, batch.y.view(-1))
                if prototype_weight != 0:
                    loss = loss + prototype_weight * prototype_term(
                        embedding, indices, self.agent.motifs, prototypes, self.options
                    )
                self.optimizer.zero_grad()
                loss.backward()
                losses.append(loss.item())
                gradients.append(flatten(p.grad for p in self.shared()))
                self.optimizer.step()
        return sum(losses) / len(losses), torch.stack(gradients).mean(dim=0)

    def masks(self, mask_fn: MaskFn, t: int, step: int, batch: Batch) -> list[Tensor]:
        """The dropout masks of one step: node-level for the convolutions, the last graph-level."""
        hidden, layers = self.model.pre.out_features, len(self.model.convs)
        rows = [batch.num_nodes] * layers + [batch.num_graphs]
        return [
            mask_fn(self.agent.name, t, step, layer, (count, hidden)).to(self.dtype)
            for layer, count in enumerate(rows)
        ]

    def prototypes(self) -> dict[str, Tensor]:
        """c_{i,k} = mean of f(G) over the train graphs G that contain k, in eval mode (E10)."""
        self.model.eval()
        with torch.no_grad():
            _, embedding = self.model(self.all_train)
        return {k: embedding[members].mean(dim=0) for k, members in self.agent.motifs.items()}


def cosine(a: Tensor, b: Tensor) -> float:
    """<a, b> / (|a| |b|), 0 if either norm is below 1e-12."""
    a, b = a.double(), b.double()
    norm_a, norm_b = a.norm().item(), b.norm().item()
    if norm_a < TINY_NORM or norm_b < TINY_NORM:
        return 0.0
    return torch.dot(a, b).item() / (norm_a * norm_b)


def weighted_sum(weights: Sequence[float], vectors: Sequence[Tensor]) -> Tensor:
    """sum_i a_i v_i."""
    total = torch.zeros_like(vectors[0])
    for weight, vector in zip(weights, vectors, strict=True):
        total = total + weight * vector
    return total


def normalised(numbers: Sequence[float]) -> list[float]:
    """x_i / sum_j x_j."""
    return [number / sum(numbers) for number in numbers]


def relu(number: float) -> float:
    """max(x, 0)."""
    return max(number, 0.0)


def alignments(vectors: Sequence[Tensor], weights: Sequence[float], against: str) -> list[float]:
    """phi_i of the agents' vectors v_i with v_N = sum_i a_i v_i.

    all: cos(v_i, v_N) (E7); others: cos(v_i, v_N - a_i v_i);
    shapley: exact Shapley value of nu(S) = cos(sum_{j in S} a_j v_j, v_N) (E2, E6).
    """
    everyone = weighted_sum(weights, vectors)
    if against == "all":
        return [cosine(vector, everyone) for vector in vectors]
    if against == "others":
        return [cosine(v, everyone - a * v) for v, a in zip(vectors, weights, strict=True)]

    def coalition_worth(coalition: frozenset[int]) -> float:
        inside = [a if j in coalition else 0.0 for j, a in enumerate(weights)]
        return cosine(weighted_sum(inside, vectors), everyone)

    return shapley_by_subsets(coalition_worth, len(vectors))


def peer_alignments(
    steps: Sequence[Tensor],
    gradients: Sequence[Tensor],
    counts: Sequence[float] | None = None,
    reaches: Sequence[float] | None = None,
) -> list[float]:
    """phi_i = weighted mean over all j of v_ij, v_ij = c_i cos(step_i, -g_j) the vote of j on i,
    which counts as much as `counts` says (not at all where that is negative), by default the same.
    c_i is how far the agent went, by default 1.

    An agent has no vote on itself: v_ii is the mean of its votes on the others, v_ki for k != i
    (0 if there are none).
    """
    everyone = range(len(steps))
    far = reaches or [1.0] * len(steps)
    votes = {
        (i, j): far[i] * cosine(steps[i], -gradients[j])
        for i in everyone
        for j in everyone
        if i != j
    }
    for i in everyone:
        given = [votes[k, i] for k in everyone if k != i]
        votes[i, i] = sum(given) / len(given) if given else 0.0
    weight = [max(c, 0.0) for c in counts or [1.0] * len(steps)]
    return [sum(weight[j] * votes[i, j] for j in everyone) / sum(weight) for i in everyone]


def reaches(updates: Sequence[Tensor], steps: Sequence[float]) -> list[float]:
    """c_i = the length of an update over the root of its number of steps, beside the median agent's
    (the lower one of two), at most 1.
    """
    lengths = [float(u.double().norm()) / math.sqrt(n) for u, n in zip(updates, steps, strict=True)]
    usual = sorted(lengths)[(len(lengths) - 1) // 2]
    return [min(1.0, length / usual) if usual > 0 else float(length > 0) for length in lengths]


def trusts(
    numbers: Sequence[float], least: Sequence[float], presence: Sequence[float] | None = None
) -> list[float]:
    """(e_i + least_i) / (0.7 s + least_i), cut to 0 and 1, s what agents of more than one agent's
    presence show, so the second-largest e where all count 1; 1 if s <= 0.
    """
    scale = from_the_top(numbers, presence or [1.0] * len(numbers), 1.0)
    if scale <= 0:
        return [1.0] * len(numbers)
    return [
        min(1.0, max(0.0, (e + chance) / (0.7 * scale + chance)))
        for e, chance in zip(numbers, least, strict=True)
    ]


def from_the_top(numbers: Sequence[float], presence: Sequence[float], much: float) -> float:
    """Go down from the largest number until more than so much presence was passed."""
    passed = 0.0
    for number, here in sorted(zip(numbers, presence, strict=True), reverse=True):
        passed += here
        if passed > much * (1 + 1e-9):
            return number
    return 0.0


def class_trusts(
    told: Sequence[float | None], sizes: Sequence[float], presence: Sequence[float]
) -> list[float]:
    """Trust in the agents' classes, 1 / (4 sqrt(n)) being chance, n at least the median's; 1 where
    nobody could say.
    """
    known = [k for k, x in enumerate(told) if x is not None]
    least = [0.25 / math.sqrt(max(sizes[k], statistics.median(sizes), 1)) for k in known]
    found = trusts([told[k] for k in known], least, [presence[k] for k in known])
    trusted = dict(zip(known, found, strict=True))
    return [trusted.get(k, 1.0) for k in range(len(told))]


def coverages(
    updates: Sequence[Tensor], worth: Sequence[float], lengths: Sequence[float]
) -> list[float]:
    """phi_i = c^3 a_i min(1, max(10 n_i - 1, 0)) min(1, 2 l_i).

    a_i = w_i / sum_j w_j, and m_i the same with w_i at most the lower median of those above 0;
    e_i = u_i / |u_i|, c = |sum_j m_j e_j|^2, s_i = cos(e_i, sum of m_j e_j over j other than i),
    n_i = s_i / sum_j m_j max(s_j, 0).
    """
    units = [u.double() / u.double().norm() if u.norm() > 0 else 0 * u.double() for u in updates]
    share = normalised(worth)
    positive = sorted(w for w in worth if w > 0)
    most = positive[(len(positive) - 1) // 2]
    common = normalised([min(w, most) for w in worth])
    consensus = weighted_sum(common, units).norm().item() ** 2
    everyone = range(len(units))

    def agrees(i: int) -> float:
        if common[i] == 1:
            return units[i].norm().item()
        rest = weighted_sum([0.0 if j == i else common[j] for j in everyone], units)
        return torch.dot(units[i], rest).item() / rest.norm().item() if rest.norm() > 0 else 0.0

    cosines = [agrees(i) for i in everyone]
    average = sum(m * relu(s) for m, s in zip(common, cosines, strict=True))
    agreement = [s / average if average else 0.0 for s in cosines]
    return [
        consensus**3 * a * min(1.0, relu(10 * n - 1)) * min(1.0, 2 * length)
        for a, n, length in zip(share, agreement, lengths, strict=True)
    ]


def middle(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean of the values that lie between 0.4 and 0.6 of the weight."""
    total, below, result = sum(weights), 0.0, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        start, end = below / total, (below + weight) / total
        result += value * max(0.0, min(end, 0.6) - max(start, 0.4)) / 0.2
        below += weight
    return result


def judges(told: Sequence[Sequence[float | None]], presence: Sequence[float]) -> list[float]:
    """Weight of each judge: k_j of the fit told[i][j] = q_i k_j, squared, at most that of the one
    at the end of the best third; agents count by presence.
    """
    everyone = range(len(told))
    q, k = [1.0] * len(told), [0.0] * len(told)

    def slope(rows: Sequence[tuple[float | None, float]]) -> float:
        known = [(x, by, p) for (x, by), p in zip(rows, presence, strict=True) if x is not None]
        total = sum(p * by * by for _, by, p in known)
        return sum(p * x * by for x, by, p in known) / max(total, 1e-12)

    for _ in range(20):
        k = [slope([(told[i][j], q[i]) for i in everyone]) for j in everyone]
        q = [slope([(told[i][j], relu(k[j])) for j in everyone]) for i in everyone]
        q = [x / max(max(abs(y) for y in q), 1e-12) for x in q]
    most = from_the_top(k, presence, sum(presence) / 3)
    return [min(1.0, relu(x / most)) ** 2 if most > 0 else 1.0 for x in k]


def qualities(
    losses: Sequence[Sequence[float | None]],
    told: Sequence[Sequence[float | None]],
    sizes: Sequence[float],
    shares: Sequence[Sequence[float]],
) -> list[float]:
    """What a graph of each agent is worth: trust in its classes times (loss / usual)^(-1/4).

    shares[i][j] is what j counts as a judge of i, and its largest what its own model counts. Who
    has no judge is worth 0 if others have one.
    """
    everyone = range(len(losses))
    here = [max(row[j] for row in shares) for j in everyone]
    told = [[x if shares[i][j] > 0 else None for j, x in enumerate(r)] for i, r in enumerate(told)]
    weight = judges(told, here)
    logs = [
        [
            None if x is None or shares[i][j] <= 0 else math.log(max(x, 1e-3))
            for j, x in enumerate(r)
        ]
        for i, r in enumerate(losses)
    ]

    def typical(row: Sequence[float | None], by: Sequence[float]) -> float | None:
        pairs = [(x, by[j]) for j, x in enumerate(row) if x is not None and by[j] > 0]
        return middle(*zip(*pairs, strict=True)) if pairs else None

    usual = [typical([row[j] for row in logs], here) for j in everyone]

    def relative(row: Sequence[float | None]) -> list[float | None]:
        return [None if x is None or u is None else x - u for x, u in zip(row, usual, strict=True)]

    by = [[w * s for w, s in zip(weight, row, strict=True)] for row in shares]
    worse = [typical(relative(row), w) for row, w in zip(logs, by, strict=True)]
    trusted = class_trusts([typical(row, w) for row, w in zip(told, by, strict=True)], sizes, here)
    heard = [any(x is not None for x in row) for row in logs]
    return [
        t * math.exp(-(w or 0.0) / 2) if h or not any(heard) else 0.0
        for t, w, h in zip(trusted, worse, heard, strict=True)
    ]


def judged_qualities(learners: Sequence[Learner], alone: Sequence[Learner]) -> list[float]:
    """What the others say, on their training graphs, of the models that agents trained alone."""
    agents = [learner.agent for learner in learners]

    def judged_by(k: int) -> list[tuple[float | None, float | None]]:
        graphs = learners[k].all_train
        labels = graphs.y.view(-1).tolist()
        peers = [model for i, model in enumerate(alone) if i != k]
        with torch.no_grad():
            scores = [model.model.eval()(graphs)[0].tolist() for model in peers]
        told: dict[int, tuple[float, float | None]] = {}
        for model, rows in zip(peers, equally_sure(scores), strict=True):
            loss = -sum(row[y] for row, y in zip(rows, labels, strict=True)) / len(rows)
            chances = [[math.exp(x) for x in row] for row in rows]
            told[id(model)] = loss, discrimination(chances, labels)
        return [told.get(id(model), (None, None)) for model in alone]

    said = list(zip(*map(judged_by, range(len(agents))), strict=True))
    losses, told = ([[x[k] for x in row] for row in said] for k in (0, 1))
    shares = [agent.judging or [1.0] * len(agents) for agent in agents]
    return qualities(losses, told, [float(len(agent.train)) for agent in agents], shares)


def running_means(before: Sequence[float | None], phi: Sequence[float], rate: float) -> list[float]:
    """(1 - rate) old + rate new for each agent, the new one where there is none yet."""
    return [
        new if old is None else (1 - rate) * old + rate * new
        for old, new in zip(before, phi, strict=True)
    ]


def diversities(agents: Sequence[Agent], corroboration: int = 1) -> list[float]:
    """d_i = |M_i| / |union of all M_j| (E8), 0 if no agent has a motif.

    Motifs that fewer than `corroboration` agents hold are counted nowhere.
    """
    holders: dict[str, int] = {}
    for agent in agents:
        for motif in agent.motifs:
            holders[motif] = holders.get(motif, 0) + 1
    union = {motif for motif, count in holders.items() if count >= corroboration}
    return [len(union & set(agent.motifs)) / len(union) if union else 0.0 for agent in agents]


def evidence(phi: Sequence[float], diversity: Sequence[float], options: Options) -> list[float]:
    """What a round says of each agent.

    sum: x_i = phi_i + alpha2 d_i. judged: nothing (0 for all) if sum phi <= 0, else
    x_i = phi_i + alpha2 w_i d_i, where w_i is the mean of phi+, or 2 phi_i+ if that is less.
    """
    worth = [1.0] * len(phi)
    if options.evidence == "judged":
        if sum(phi) <= 0:
            return [0.0] * len(phi)
        usual = sum(relu(p) for p in phi) / len(phi)
        worth = [usual if 2 * relu(p) > usual else 2 * relu(p) for p in phi]
    return [
        p + options.diversity_weight * w * d for p, w, d in zip(phi, worth, diversity, strict=True)
    ]


def updated_values(
    values: Sequence[float],
    phi: Sequence[float],
    diversity: Sequence[float],
    options: Options,
    *,
    begin_with: Sequence[float] | None = None,
) -> list[float]:
    """r_i from its previous value and the evidence x_i (E9), or, for agents that begin, from the
    evidence alone, or what their graphs are worth where there is none.

    S = sum x, with the guard S = max(sum x, sum |x| / 2), x'_i = x_i + (S - sum x) / N, and
    additive: r_i <- (r_i + alpha1 x'_i) / (1 + alpha1 S)
    ema:      r_i <- ((1 - alpha1) r_i + alpha1 x'_i) / ((1 - alpha1) + alpha1 S)
    Where nothing is kept and nothing is known (alpha1 = 1, x = 0) values stay.
    """
    x = evidence(phi, diversity, options)
    total = sum(x)
    if options.value_guard:
        total = max(total, sum(abs(number) for number in x) / 2)
    lift = (total - sum(x)) / len(x)
    rate = options.value_rate
    old = 1.0 if options.value_update == "additive" else 1.0 - rate
    if begin_with is not None:
        if total <= 0:
            return [number / sum(begin_with) for number in begin_with]
        old = 0.0
    if old + rate * total == 0:
        return list(values)
    return [
        (old * value + rate * (number + lift)) / (old + rate * total)
        for value, number in zip(values, x, strict=True)
    ]


def usual_over_length(updates: Sequence[Tensor], steps: Sequence[float]) -> list[float]:
    """The usual length over the length of each update: the lower median of those above 0 or, if
    more, sqrt(steps) times the lower median of length / sqrt(steps).
    """

    def low(numbers: Sequence[float]) -> float:
        positive = sorted(n for n in numbers if n > 0)
        return positive[(len(positive) - 1) // 2] if positive else 0.0

    lengths = [u.double().norm().item() for u in updates]
    roots = [math.sqrt(max(k, 1)) for k in steps]
    each = low([n / r for n, r in zip(lengths, roots, strict=True)])
    return [
        max(low(lengths), r * each) / n if n > 0 else 1.0
        for n, r in zip(lengths, roots, strict=True)
    ]


def aggregation_weights(
    values: Sequence[float],
    sizes: Sequence[float],
    worth: Sequence[float],
    lengths: Sequence[float],
    options: Options,
    *,
    first: bool,
) -> list[float]:
    """a_i: shares of positive value (E12), of data (E1), or of data among positive values; with
    coverage data count min(1, usual length / length), and after the first round that times
    min(1, 4 (r_i / sum r) / (w_i / sum w)).
    """
    if options.aggregation == "trusted" and options.alignment_against == "coverage":
        known = [relu(r) / sum(map(relu, values)) for r in values]
        shares = [w / sum(worth) for w in worth]
        counted = [
            float(r > 0) if first else min(1.0, 4 * r / w) if w > 0 else 0.0
            for r, w in zip(known, shares, strict=True)
        ]
        return normalised(
            [c * n * min(1.0, x) for c, n, x in zip(counted, sizes, lengths, strict=True)]
        )
    if options.aggregation == "value":
        return normalised([relu(value) for value in values])
    if options.aggregation == "trusted":
        return normalised([n if r > 0 else 0.0 for r, n in zip(values, sizes, strict=True)])
    return normalised(sizes)


def stretched(
    update: Tensor,
    updates: Sequence[Tensor],
    weights: Sequence[float],
    steps: Sequence[float],
) -> Tensor:
    """The update, stretched by the n-th root of min(3, sum_i a_i |u_i| / its own length).

    n = sum_i a_i steps_i is how many steps agents took in the round.
    """
    length = update.norm().item()
    if length == 0:
        return update
    typical = sum(a * u.norm().item() for a, u in zip(weights, updates, strict=True))
    taken = sum(a * n for a, n in zip(weights, steps, strict=True))
    return update * min(typical / length, 3.0) ** (1 / taken)


def reward_ratios(values: Sequence[float], beta: float, *, relative: bool = False) -> list[float]:
    """q_i = max(0, tanh(beta r_i)) / max_j tanh(beta r_j); beta = inf: 1 iff r_i > 0.

    Relative to an equal share, 10 N r_i takes the place of r_i.
    """
    if math.isinf(beta):
        return [1.0 if value > 0 else 0.0 for value in values]
    if relative:
        values = [10 * len(values) * value for value in values]
    best = max(math.tanh(beta * value) for value in values)
    return [relu(math.tanh(beta * value)) / best for value in values]


def masked(update: Tensor, ratio: float, lengths: Sequence[int]) -> tuple[Tensor, int]:
    """Keep the floor(ratio * length) largest magnitudes of each consecutive piece (E3).

    Ties go to the lower index. Returns the reward g_i and how many components it kept.
    """
    reward = torch.zeros_like(update)
    start, kept = 0, 0
    for length in lengths:
        count = math.floor(ratio * length)
        magnitudes = update[start : start + length].abs()
        places = start + torch.sort(magnitudes, descending=True, stable=True).indices[:count]
        reward[places] = update[places]
        start, kept = start + length, kept + count
    return reward, kept


def compensations(values: Sequence[float], history: Sequence[Sequence[float]]) -> list[float]:
    """mu_i = max(r_i - mean of r_i over the earlier rounds, 0), 0 in the first round (E4)."""
    if not history:
        return [0.0] * len(values)
    means = [sum(past) / len(past) for past in zip(*history, strict=True)]
    return [relu(value - mean) for value, mean in zip(values, means, strict=True)]


def payoffs(values: Sequence[float], compensation: Sequence[float], budget: float) -> list[float]:
    """B p_i / sum_j p_j with p_i = r_i if r_i < 0 else r_i + mu_i (E5)."""
    raw = [r if r < 0 else r + mu for r, mu in zip(values, compensation, strict=True)]
    return [budget * share for share in normalised(raw)]


def aggregated_prototypes(
    local: Sequence[Mapping[str, Tensor]],
    values: Sequence[float],
    previous: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """c_{N,k} = sum_i ReLU(r_i) c_{i,k} / sum_i ReLU(r_i) over the owners i of k (E11).

    Where no owner has a positive value the previous prototype stays, if there is one.
    """
    result = dict(previous)
    for motif in {motif: None for prototypes in local for motif in prototypes}:
        owners = [i for i, prototypes in enumerate(local) if motif in prototypes]
        weights = [relu(values[i]) for i in owners]
        if sum(weights) > 0:
            total = weighted_sum(weights, [local[i][motif] for i in owners])
            result[motif] = total / sum(weights)
    return result


def federate(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
    own: Start,
) -> list[RoundRecord]:
    """The fair federation: train, aggregate, value, reward, pay, adopt; one record per round.

    Adoption is w_i = w_old + retention * Delta_i + reward_step * g_i on the shared parameters, or
    the trained weights where g_i keeps nothing; w_S += reward_step * u_N. If own_weight > 0 every
    agent trains another model alone, on the supervised loss, from another start, and predicts with
    (1 - own_weight) p + own_weight p_own; with a finite own_prior it trains it without the graphs
    that it holds back, and chooses the weight on these. With coverage, and all parameters shared, a
    graph is worth what the others say of its agent's own model, whose first rounds are therefore
    trained before the federation's, and not with them.
    """
    learners = [Learner(agent, initial, options, dtype) for agent in agents]
    held = [[agent.train[k] for k in own.held.get(agent.name, ())] for agent in agents]
    judged = options.alignment_against == "coverage" and options.share == "all"
    ahead = min(options.trial_rounds, rounds) if judged else 0
    alone = [
        Learner(without(agent, own.held.get(agent.name, ())), own.initial, options, dtype)
        for agent in agents
        if options.own_weight > 0 or ahead
    ]
    for t in range(1, ahead + 1):
        for learner in alone:
            learner.train(t, {}, 0.0, own.mask_fn, own.order_fn)
    sizes = [float(len(agent.train)) for agent in agents]
    believed = [agent.believed for agent in agents] if options.size == "believed" else sizes
    per_epoch = [math.ceil(len(agent.train) / options.batch_size) for agent in agents]
    if options.local_steps:
        per_epoch = [min(n, options.local_steps) for n in per_epoch]
    steps = [float(options.local_epochs * n) for n in per_epoch]
    diversity = diversities(agents, options.corroboration)
    worth = list(believed)
    if ahead:
        worth = [b * q for b, q in zip(believed, judged_qualities(learners, alone), strict=True)]
    if options.own_weight == 0:
        alone = []
    running: list[float | None] = [None] * len(agents)
    values = [1 / len(agents)] * len(agents)
    history: list[list[float]] = []
    server = flatten(learners[0].shared())
    lengths = [parameter.numel() for parameter in learners[0].shared()]
    if options.mask_scope == "global":
        lengths = [sum(lengths)]
    uses_prototypes = options.prototype_weight != 0
    prototypes: dict[str, Tensor] = {}
    if uses_prototypes:
        prototypes = aggregated_prototypes([ln.prototypes() for ln in learners], values, {})

    records = []
    for t in range(1, rounds + 1):
        before, updates, gradients, losses = [], [], [], []
        local: list[dict[str, Tensor]] = []
        for learner in learners:
            before.append(flatten(learner.shared()))
            loss, gradient = learner.train(
                t, prototypes, options.prototype_weight, mask_fn, order_fn
            )
            losses.append(loss)
            gradients.append(gradient)
            updates.append(flatten(learner.shared()) - before[-1])
            local.append(learner.prototypes() if uses_prototypes else {})

        for learner in alone if t > ahead else []:
            learner.train(t, {}, 0.0, own.mask_fn, own.order_fn)

        short = usual_over_length(updates, steps)
        weights = aggregation_weights(values, believed, worth, short, options, first=t == 1)
        update = weighted_sum(weights, updates)
        if options.aggregate_length == "typical":
            update = stretched(update, updates, weights, steps)
        server = server + options.reward_step * update
        aligned = updates if options.alignment_of == "update" else gradients
        if options.alignment_against in ("peers", "peers-by-value"):
            steps_taken = aligned if options.alignment_of == "update" else [-g for g in gradients]
            valued = options.alignment_against == "peers-by-value"
            far = reaches(updates, steps) if valued else None
            phi = peer_alignments(steps_taken, gradients, values if valued else None, far)
        elif options.alignment_against == "coverage":
            phi = coverages(updates, worth, reaches(updates, steps))
        else:
            phi = alignments(aligned, weights, options.alignment_against)
        if options.alignment_against == "shapley":  # on the scale of the cosines (A7)
            cosines = alignments(aligned, weights, "all")
            phi = [p * sum(cosines) / sum(phi) for p in phi]
        phi = running_means(running, phi, options.alignment_rate)
        running = list(phi)
        first = t == 1 and options.initial_value == "evidence"
        begin_with = worth if first else None
        values = updated_values(values, phi, diversity, options, begin_with=begin_with)
        compensation = compensations(values, history)
        history.append(values)
        prototypes = aggregated_prototypes(local, values, prototypes)

        kept = []
        relative = options.reward_for == "relative-value"
        for i, ratio in enumerate(reward_ratios(values, options.beta, relative=relative)):
            reward, count = masked(update, ratio, lengths)
            kept.append(count)
            if count > 0:
                adopted = before[i] + options.retention * updates[i] + options.reward_step * reward
                assign(learners[i].shared(), adopted)
        if options.moments == "common":
            make_moments_common(learners)

        names = [agent.name for agent in agents]
        records.append(
            RoundRecord(
                weights={ln.agent.name: flatten(ln.model.parameters()) for ln in learners},
                loss=losses,
                server=server,
                updates=dict(zip(names, updates, strict=True)),
                phi=phi,
                diversity=diversity,
                value=values,
                kept=kept,
                payoff=payoffs(values, compensation, options.budget),
                compensation=compensation,
                local_prototypes=dict(zip(names, local, strict=True)),
                global_prototypes=prototypes,
                own={ln.agent.name: flatten(ln.model.parameters()) for ln in alone},
                accuracy=[
                    mixed_accuracy(
                        predictors(i, learners, alone, options, initial, held[i]),
                        initial,
                        agent.test,
                    )
                    for i, agent in enumerate(agents)
                ],
            )
        )
    return records


def make_moments_common(learners: Sequence[Learner]) -> None:
    """Scale second moments so that their mean, over all weights of one input of a linear map or
    over a bias, bias-corrected, is that of the agent in the (lower) middle; no step becomes more
    than four times as long.
    """
    for parameters in zip(*(learner.shared() for learner in learners), strict=True):
        states = [ln.optimizer.state[p] for ln, p in zip(learners, parameters, strict=True)]
        grown = [1 - 0.999 ** float(state["step"]) for state in states]
        inputs = range(parameters[0].shape[1]) if parameters[0].dim() == 2 else [...]
        for unit in inputs:
            places = (slice(None), unit) if unit is not ... else unit
            means = [
                state["exp_avg_sq"][places].mean().item() / g
                for state, g in zip(states, grown, strict=True)
            ]
            usual = lower_median([m for m in means if m > 0] or [0.0])
            for state, mean, g in zip(states, means, grown, strict=True):
                if usual > 0 and mean > 0:
                    state["exp_avg_sq"][places] *= max(usual / mean, 4.0**-2)
                elif usual > 0:
                    state["exp_avg_sq"][places] = usual * g


def without(agent: Agent, held: Sequence[int]) -> Agent:
    """The agent without some of its train graphs, for a training that reads no motifs."""
    kept = [graph for k, graph in enumerate(agent.train) if k not in set(held)]
    return replace(agent, train=kept, motifs={})


def predictors(
    i: int,
    learners: Sequence[Learner],
    alone: Sequence[Learner],
    options: Options,
    initial: Mapping[str, Tensor],
    held: Sequence[Data],
) -> list[tuple[float, Tensor]]:
    """What agent i predicts with: (share, weights) of each of its models."""
    together = flatten(learners[i].model.parameters())
    if not alone:
        return [(1.0, together)]
    own = flatten(alone[i].model.parameters())
    share = options.own_weight
    if not math.isinf(options.own_prior):
        share = chosen_share(together, own, initial, held, options)
    return [(1 - share, together), (share, own)]


def self_train(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
) -> list[RoundRecord]:
    """Every agent trains alone on the supervised loss; nothing is exchanged."""
    learners = [Learner(agent, initial, options, dtype) for agent in agents]
    records = []
    for t in range(1, rounds + 1):
        losses = [learner.train(t, {}, 0.0, mask_fn, order_fn)[0] for learner in learners]
        weights = {ln.agent.name: flatten(ln.model.parameters()) for ln in learners}
        records.append(RoundRecord(weights, losses))
    return records


def fedavg(
    agents: Sequence[Agent],
    initial: Mapping[str, Tensor],
    options: Options,
    rounds: int,
    *,
    dtype: torch.dtype,
    mask_fn: MaskFn | None = None,
    order_fn: OrderFn | None = None,
) -> list[RoundRecord]:
    """Federated averaging: w_S = sum_i (|D_i| / |D|) w_i, which then overwrites the shared w_i."""
    learners = [Learner(agent, initial, options, dtype) for agent in agents]
    graphs = sum(len(agent.train) for agent in agents)
    records = []
    for t in range(1, rounds + 1):
        losses = []
        updates: dict[str, Tensor] = {}
        server = torch.zeros_like(flatten(learners[0].shared()))
        for learner in learners:
            before = flatten(learner.shared())
            losses.append(learner.train(t, {}, 0.0, mask_fn, order_fn)[0])
            trained = flatten(learner.shared())
            updates[learner.agent.name] = trained - before
            server = server + len(learner.agent.train) / graphs * trained
        for learner in learners:
            assign(learner.shared(), server)
        weights = {ln.agent.name: flatten(ln.model.parameters()) for ln in learners}
        records.append(RoundRecord(weights, losses, server, updates))
    return records
