"""One method on one data split, all agents and the server in this process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.evaluation.accuracy import accuracy
from motifair.federation.agents import Agents
from motifair.federation.history import History
from motifair.federation.protocol import Uploads
from motifair.federation.server import Server
from motifair.federation.state import FederationState
from motifair.graphs.batch import Shard, collate, make_shard
from motifair.graphs.features import fit_features, motif_labels, resolve_features
from motifair.graphs.partition import holdout
from motifair.graphs.split import Split
from motifair.learning.randomness import DropoutMasks, derive_seed
from motifair.learning.training import LocalTraining
from motifair.methods import make_method
from motifair.motifs.extract import count_motifs
from motifair.motifs.vocabulary import MotifIndex, Vocabulary, select_vocabulary


class Simulation:
    """Builds agents and server from a split; `seed` drives initial weights and training.

    `stack` agents are trained at a time: one on a CPU, all on a GPU, unless it is given.
    """

    def __init__(
        self,
        config: Config,
        split: Split,
        *,
        seed: int,
        device: torch.device,
        threads: int = 1,
        stack: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config, self.split, self.seed, self.device = config, split, seed, device
        self.method = make_method(config)
        self.stack = stack or (1 if device.type == "cpu" else len(split.names))
        graphs, shares = split.graphs, split.partition
        self.train, self.lent = self._lend()
        features = fit_features(graphs, np.concatenate(self.train), config.features)
        vocabularies = self._vocabularies() if self.method.uses_motifs else None
        self.model = self.method.model(features.width, graphs.classes, config.hidden, config.layers)

        def shard(chosen: np.ndarray, motifs: sparse.csr_array | None = None) -> Shard:
            return make_shard(
                graphs.select(chosen),
                features,
                motifs,
                summed=self.model.summed_inputs,
                structure=self.model.structure,
            )

        train = [
            shard(t, None if vocabularies is None else vocabularies[k].incidence)
            for k, t in enumerate(self.train)
        ]
        test = [shard(t) for t in shares.test]
        self.global_test = collate([shard(shares.global_test)], device, dtype)
        self.validation = collate([shard(self.lent)], device, dtype) if len(self.lent) else None
        self.initial = self.model.layout.initial(seed, dtype).to(device)
        self.agents = self._agents(train, test, threads, dtype)
        self.index = None if vocabularies is None else MotifIndex.of([v.keys for v in vocabularies])
        self.server = self._server(train)

    def start(self) -> FederationState:
        """Return the state before the first round, initial prototypes included."""
        agents = self.agents.start(self.initial)
        server = self.server.start(self.initial[self.agents.shared])
        if self.method.uses_prototypes:
            prototypes, active = self.server.share_prototypes(
                self.agents.prototypes(agents), server.value, server.prototypes, server.active
            )
            server = replace(server, prototypes=prototypes, active=active)
        return FederationState(agents, server)

    def history(self) -> History:
        """Return an empty history for this run."""
        return History(self.split.names, self.config.rounds)

    def round(
        self, state: FederationState, *, measure: bool = False
    ) -> tuple[FederationState, dict[str, np.ndarray]]:
        """One round: agents train, the server values and rewards, agents adopt.

        `measure` adds to the record what each agent contributed to the server's model.
        """
        trained, uploads = self.agents.train(
            state.agents, state.round + 1, *self.server.for_agents(state.server)
        )
        server, downloads, record = self.server.step(state.server, uploads)
        agents = self.agents.adopt(state.agents, trained, downloads)
        new = FederationState(agents, server)
        if measure:
            record |= self.contributions(state, new, uploads)
        return new, record

    def contributions(
        self, before: FederationState, after: FederationState, uploads: Uploads
    ) -> dict[str, np.ndarray]:
        """Return (acc_N − acc_{−i}) / acc_{−i} of the server model on the global test set, where
        acc_{−i} is had without agent i in this round; and the Shapley value of its update.
        """
        without, exact = self.server.without_each(before.server, uploads)
        row = self.global_weights(after)
        reached = float(accuracy(self.model, row[None], self.global_test)[0])
        found = []
        for shared in without:
            other = row.clone()
            other[self.agents.shared] = shared.to(row.dtype)
            left = float(accuracy(self.model, other[None], self.global_test)[0])
            found.append((reached - left) / left if left > 0 else float("nan"))
        return {"contribution": np.array(found), "shapley": exact.cpu().numpy()}

    def evaluate(self, state: FederationState) -> tuple[np.ndarray, float]:
        """Return each agent's accuracy on its own test set, and the server model's on the global.

        Where only convolutions are shared, the server model is completed for this purpose by the
        mean of the agents' personal layers.
        """
        local = self.agents.accuracy(state.agents).cpu().numpy()
        if not self.method.global_model:
            return local, float("nan")
        row = self.global_weights(state)
        return local, float(accuracy(self.model, row[None], self.global_test)[0])

    def global_weights(self, state: FederationState) -> Tensor:
        """Return the server's model as a full row `(D,)`."""
        weights = state.agents.weights
        row = weights.double().mean(dim=0)
        row[self.agents.shared] = state.server.weights
        return row.to(weights.dtype)

    def _vocabularies(self) -> list[Vocabulary]:
        c, graphs = self.config, self.split.graphs
        labels = motif_labels(graphs, resolve_features(graphs, c.features))
        found = count_motifs(graphs, labels, rings=c.rings, max_ring=c.max_ring)
        chosen = []
        for name, train in zip(self.split.names, self.train, strict=True):
            vocabulary = select_vocabulary(
                found.counts[train], found.keys, fraction=c.vocabulary_fraction, form=c.tfidf
            )
            if not vocabulary.keys:
                raise MotifairError(
                    f"No training graph of agent '{name}' has an edge, so it has no motif; "
                    "give it graphs with edges."
                )
            chosen.append(vocabulary)
        return chosen

    def _agents(
        self, train: list[Shard], test: list[Shard], threads: int, dtype: torch.dtype
    ) -> Agents:
        c = self.config
        training = LocalTraining(
            model=self.model,
            terms=self.method.terms(self.model.layout.shared(self.method.share)),
            epochs=c.local_epochs,
            learning_rate=c.learning_rate,
            weight_decay=c.weight_decay,
            masks=DropoutMasks(c.dropout, dtype, self.device),
        )
        return Agents(
            self.split.names,
            train,
            test,
            self.method,
            training,
            batch_size=c.batch_size,
            seed=self.seed,
            stack=self.stack,
            threads=threads,
            device=self.device,
            dtype=dtype,
        )

    def _server(self, train: list[Shard]) -> Server:
        shared = self.agents.shared
        blocks: tuple[int, ...] = (shared.stop - shared.start,)
        if self.method.mask_scope == "layer":
            blocks = self.model.layout.tensor_sizes(shared)
        graphs = torch.tensor([len(s) for s in train], device=self.device)
        return Server(
            self.method,
            graphs,
            blocks,
            self.index,
            self.config.hidden,
            self._validate if self.validation is not None else None,
        )

    def _lend(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Return what each agent trains on, and what agents lend the server for validation."""
        train = list(self.split.partition.train)
        if not self.method.validation:
            return train, np.zeros(0, dtype=np.int64)
        lent = []
        for k, name in enumerate(self.split.names):
            rng = np.random.default_rng(derive_seed(self.seed, f"validation/{name}"))
            kept, held = holdout(self.split.graphs.target[train[k]], self.method.validation, rng)
            lent.append(train[k][held])
            train[k] = train[k][kept]
        return train, np.concatenate(lent)

    def _validate(self, weights: Tensor) -> Tensor:
        """Return how accurate each of some server models `(n, D)` is on lent graphs, `(n,)`."""
        assert self.validation is not None
        rows = weights.to(self.initial.dtype)
        return torch.cat([accuracy(self.model, row[None], self.validation) for row in rows])
