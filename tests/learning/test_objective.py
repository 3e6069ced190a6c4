"""The terms of the local objective, for a stack of agents, against the naive ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from stacks import HIDDEN, MOTIFS, SIZES, motif_members, stacked, unequal_shards
from torch import Tensor
from torch.nn import functional

from motifair.graphs.batch import Batch, Shard
from motifair.graphs.task import Task
from motifair.learning.objective import (
    SURE,
    ForwardPass,
    PrototypeTerm,
    discrimination,
    equally_sure,
    mean_loss,
    supervised,
)
from motifair.motifs.prototypes import local_prototypes

SHARDS = unequal_shards()
FORMS = pytest.mark.parametrize(
    ("distance", "reduce"), [("l2", "sum"), ("l2", "mean"), ("unit", "sum"), ("unit", "mean")]
)
ALL = torch.ones(sum(MOTIFS), dtype=torch.bool)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def forward_pass(
    batch: Batch, embedding: Tensor, prototypes: Tensor, active: Tensor = ALL
) -> ForwardPass:
    nothing = torch.zeros(batch.rows, 0, dtype=torch.float64)
    scores = torch.log_softmax(embedding[:, :, :2], dim=-1)
    return ForwardPass(batch, nothing, nothing, embedding, scores, prototypes, active)


def naive_term(
    shards: list[Shard],
    embedding: Tensor,
    prototypes: Tensor,
    active: Tensor,
    distance: str,
    reduce: str,
) -> Tensor:
    """Each agent by itself; its entries of `prototypes` follow those of the agent before."""
    options = naive.Options(prototype_distance=distance, prototype_reduce=reduce)
    terms, first = [], 0
    for row, shard in enumerate(shards):
        motifs = motif_members(shard)
        known = {k: prototypes[first + int(k)] for k in motifs if active[first + int(k)]}
        graphs = range(len(shard))
        own = embedding[row, : len(shard)]
        terms.append(naive.prototype_term(own, graphs, motifs, known, options))
        first += len(motifs)
    return torch.stack(terms)


def test_local_prototypes_are_means_over_the_graphs_with_the_motif() -> None:
    embedding = random(len(SIZES), max(SIZES), HIDDEN)
    found = local_prototypes(embedding, stacked(SHARDS))
    expected = [
        embedding[row, members].mean(dim=0)
        for row, shard in enumerate(SHARDS)
        for members in motif_members(shard).values()
    ]
    assert torch.allclose(found, torch.stack(expected), rtol=0, atol=1e-12)


def test_the_supervised_term_is_each_agents_mean_negative_log_likelihood() -> None:
    batch, embedding = stacked(SHARDS), random(len(SIZES), max(SIZES), HIDDEN)
    forward = forward_pass(batch, embedding, random(sum(MOTIFS), HIDDEN))
    for row, shard in enumerate(SHARDS):
        scores = forward.scores[row, : len(shard)]
        expected = functional.nll_loss(scores, torch.as_tensor(shard.graphs.target))
        assert torch.isclose(supervised(forward)[row], expected, rtol=0, atol=1e-12)


def test_prototypes_weigh_less_the_less_there_is_to_learn_of_an_answer() -> None:
    embedding, prototypes = random(len(SIZES), max(SIZES), HIDDEN), random(sum(MOTIFS), HIDDEN)
    even = forward_pass(stacked(SHARDS), embedding, prototypes)
    term = PrototypeTerm(0.1, "unit", "mean")
    rare = Task("binary", 1, ("toxic",), rates=(0.11,))  # half a bit
    assert torch.allclose(term(replace(even, bits=rare.bits)), term(even) / 2, rtol=1e-3)
    assert Task("binary", 1, ("toxic",)).bits == Task("classes", 2).bits == 1  # rates not known


@FORMS
def test_the_prototype_term_is_the_naive_one(distance: str, reduce: str) -> None:
    embedding = random(len(SIZES), max(SIZES), HIDDEN).requires_grad_()
    prototypes = random(sum(MOTIFS), HIDDEN, seed=1)
    term = PrototypeTerm(0.3, distance, reduce)
    found = term(forward_pass(stacked(SHARDS), embedding, prototypes))
    expected = 0.3 * naive_term(SHARDS, embedding, prototypes, ALL, distance, reduce)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    (ours,) = torch.autograd.grad(found.sum(), embedding)
    (theirs,) = torch.autograd.grad(expected.sum(), embedding)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@FORMS
def test_motifs_without_a_global_prototype_do_not_count(distance: str, reduce: str) -> None:
    active = ALL.clone()
    active[[0, 2, MOTIFS[0]]] = False  # the second agent is left without any
    embedding = random(len(SIZES), max(SIZES), HIDDEN)
    prototypes = random(sum(MOTIFS), HIDDEN, seed=1)
    found = PrototypeTerm(1.0, distance, reduce)(
        forward_pass(stacked(SHARDS), embedding, prototypes, active)
    )
    expected = naive_term(SHARDS, embedding, prototypes, active, distance, reduce)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    assert found[1] == 0


@FORMS
def test_motifs_in_no_graph_of_the_batch_do_not_count(distance: str, reduce: str) -> None:
    """The last motif of every agent is in its first graph only, which is left out here."""
    part = [s.select(torch.arange(1, len(s)).numpy()) for s in SHARDS]
    embedding = random(len(SIZES), max(SIZES) - 1, HIDDEN)
    prototypes = random(sum(MOTIFS), HIDDEN, seed=1)
    found = PrototypeTerm(1.0, distance, reduce)(forward_pass(stacked(part), embedding, prototypes))
    expected = naive_term(part, embedding, prototypes, ALL, distance, reduce)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    assert found[1] == 0


@FORMS
def test_prototypes_that_agree_cost_nothing_and_pull_nowhere(distance: str, reduce: str) -> None:
    batch = stacked(SHARDS)
    embedding = random(len(SIZES), max(SIZES), HIDDEN).requires_grad_()
    agreed = local_prototypes(embedding, batch).detach()
    found = PrototypeTerm(1.0, distance, reduce)(forward_pass(batch, embedding, agreed))
    (pull,) = torch.autograd.grad(found.sum(), embedding)
    assert found.abs().max() < 1e-12
    assert pull.abs().max() < 1e-12


@FORMS
def test_no_gradient_flows_into_the_global_prototypes(distance: str, reduce: str) -> None:
    embedding = random(len(SIZES), max(SIZES), HIDDEN).requires_grad_()
    prototypes = random(sum(MOTIFS), HIDDEN, seed=1).requires_grad_()
    term = PrototypeTerm(0.3, distance, reduce)
    found = term(forward_pass(stacked(SHARDS), embedding, prototypes)).sum()
    pull, leak = torch.autograd.grad(found, [embedding, prototypes], allow_unused=True)
    assert pull.abs().max() > 0
    assert leak is None or not leak.any()


@given(st.integers(0, 2**16), st.floats(1e-3, 1e3))
def test_models_are_judged_alike_however_sure_they_are(seed: int, by: float) -> None:
    batch, scores = stacked(SHARDS), random(3, len(SIZES), max(SIZES), 2, seed=seed)
    scores[..., 0] = 2 + scores[..., 1] + scores[..., 0].abs()  # all are sure of the first class
    both = []
    for k in (1.0, by):
        shown = [(f * s).log_softmax(dim=-1) for f, s in zip((1, k, 1), scores, strict=True)]
        both.append(equally_sure("classes", shown, batch))
    for before, after in zip(*both, strict=True):  # the others are sure enough, whatever it does
        for say in (mean_loss, discrimination):
            said = [say("classes", s, batch) for s in (before, after)]
            torch.testing.assert_close(*said, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("times", [1.0, 0.01])
def test_models_are_as_sure_of_the_median_graph_as_the_median_of_them(times: float) -> None:
    batch = stacked(SHARDS)
    scores = [
        (times * k * random(len(SIZES), max(SIZES), 3, seed=k)).log_softmax(dim=-1)
        for k in (1, 2, 3)
    ]
    found = equally_sure("classes", scores, batch)
    for k, size in enumerate(SIZES):  # rows are padded to the largest agent
        expected = naive.equally_sure([s[k, :size].tolist() for s in scores])
        for own, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(own[k, :size], torch.tensor(theirs).double())
        above = found[0][k, :size] - found[0][k, :size].mean(dim=-1, keepdim=True)
        sure = above.amax(dim=-1).median().item()
        assert sure == pytest.approx(SURE) if times == 1 else sure < SURE / 10
    same = torch.full_like(scores[0], 1 / 3).log()  # knows nothing, and says so
    torch.testing.assert_close(equally_sure("classes", [same], batch)[0], same)
    assert equally_sure("binary", scores, batch)[0] is scores[0]
