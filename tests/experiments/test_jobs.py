"""Jobs side by side: the same result, whatever fits together and whenever a run was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from motifair.errors import MotifairError
from motifair.experiments import jobs as jobs_module
from motifair.experiments.jobs import list_jobs
from motifair.experiments.packing import memory_needed
from motifair.experiments.plan import Plan, alone, make_plan, split_data
from motifair.experiments.result import Result, load_result
from motifair.experiments.run import execute
from motifair.federation import callbacks
from motifair.federation.agents import own_seed
from motifair.federation.callbacks import Callback, Pace
from motifair.federation.history import History
from motifair.federation.loop import Stopped
from motifair.federation.members import prepare
from motifair.federation.state import FederationState, load_history

PLENTY = 2**33
OPTIONS = {
    "rounds": 4, "agents": 3, "hidden": 8, "layers": 2, "splits": 3, "eval_every": 2,
}  # fmt: skip
EXACT = ("accuracy", "one_class", "kept", "uploaded", "downloaded")

# A stop is also asked for in the rounds before the first, which begin anew: see test_progress.py.
UNJUDGED = {"trial_rounds": 0}


def quick(dataset: Any = "planted", *, memory: int = PLENTY, **options: Any) -> Plan:
    """A plan as on a GPU with so much memory, but for a CPU."""
    data_dir = options.pop("data_dir", None)
    given = {**OPTIONS, **options}
    plan = make_plan(dataset, given, device="cpu", threads=1, data_dir=data_dir)
    return replace(plan, memory=memory)


@dataclass
class Heard:
    """A progress that writes down what it hears."""

    stacks: list[int] = field(default_factory=list)
    begun: list[tuple[int, str]] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    rounds: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    ended: list[tuple[int, str]] = field(default_factory=list)

    def part(self, split: int, name: str) -> Callback:
        self.begun.append((split, name))
        return Listener(self, (split, name))

    def skip(self, split: int, name: str) -> None:
        self.skipped.append((split, name))

    def stacked(self, jobs: int) -> None:
        self.stacks.append(jobs)


class Listener(Callback):
    """Hears one job."""

    def __init__(self, heard: Heard, job: tuple[int, str]) -> None:
        self.heard, self.job = heard, job

    def on_round(self, state: FederationState, history: History) -> None:
        self.heard.rounds.setdefault(self.job, []).append(state.round)

    def on_end(self, state: FederationState, history: History) -> None:
        self.heard.ended.append(self.job)


@cache
def whole(memory: int = PLENTY, **options: Any) -> Result:
    """A run on the embedded dataset that nobody stopped; tests share it."""
    return execute(quick(memory=memory, **options))


def after(rounds: int) -> Callable[[], bool]:
    """Stop after so many rounds of whatever goes on."""
    asked = iter(range(1, 10**6))
    return lambda: next(asked) >= rounds


def assert_same(ours: Result, theirs: Result, close: float = 1e-5) -> None:
    """Compare all splits: what is counted exactly, the rest within single precision."""
    assert len(ours.splits) == len(theirs.splits)
    for a, b in zip(ours.splits, theirs.splits, strict=True):
        assert (a.seed, a.names, a.roles, a.graphs) == (b.seed, b.names, b.roles, b.graphs)
        assert np.array_equal(a.alone, b.alone)
        assert np.array_equal(a.alone_again, b.alone_again)
        assert np.array_equal(a.history.global_accuracy, b.history.global_accuracy, equal_nan=True)
        for column, values in b.history.columns.items():
            within = 0.0 if column in EXACT else close
            found = a.history.columns[column]
            assert np.allclose(found, values, rtol=within, atol=within, equal_nan=True), column


# The same result


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 40, "rounds": 1},
        {"method": "gcfl+", "rounds": 2},
        {"method": "cffl-lyu", "contribution": True, "rounds": 2},
    ],
    ids=["motifair", "mini-batches", "gcfl+", "cffl-lyu"],
)
def test_splits_side_by_side_give_what_they_give_one_after_another(
    options: dict[str, Any],
) -> None:
    heard = Heard()
    stacked = execute(quick(**options), progress=heard)
    one_by_one = whole(memory=0, **options)
    assert_same(stacked, one_by_one)
    assert heard.stacks == [6, 3]  # alone and alone again on three splits, then the method
    losses = [s.history.columns["loss"][0] for s in stacked.splits]
    assert not np.isclose(losses[0], losses[1]).any()


def test_splits_of_real_data_side_by_side_give_what_they_give_one_after_another(
    data_dir: Path,
) -> None:
    plan = quick("MUTAG", data_dir=data_dir, perturbation="tiers", rounds=2)
    heard = Heard()
    assert_same(execute(plan, progress=heard), execute(replace(plan, memory=0)))
    assert heard.stacks == [6, 3]


def test_a_fixed_split_varies_training_only_also_side_by_side() -> None:
    plan = quick(fixed_split=True, splits=2, rounds=2)
    stacked = execute(plan)
    assert_same(stacked, execute(replace(plan, memory=0)))
    first, second = (s.history.columns for s in stacked.splits)
    assert np.array_equal(first["diversity"], second["diversity"])
    assert not np.isclose(first["loss"], second["loss"]).any()


def test_training_alone_as_a_method_is_a_third_training_also_side_by_side() -> None:
    plan = quick(method="self-train", splits=2, rounds=2)
    heard = Heard()
    assert_same(execute(plan, progress=heard), execute(replace(plan, memory=0)))
    assert heard.stacks == [4, 2]


def test_a_single_split_has_its_baselines_side_by_side_each_with_its_own_seed() -> None:
    plan = quick(splits=1, rounds=2)
    groups = list(jobs_module._groups(plan, list_jobs(plan, None, None), {0: split_data(plan, 0)}))
    assert [len(g.jobs) for g in groups] == [2, 1]
    seeds = [m.seed for group in groups for m in group.members]
    assert seeds[-1] == plan.config.seed
    assert len({*seeds, own_seed(plan.config.seed)}) == 4  # nobody shares random bits
    assert_same(execute(plan), execute(replace(plan, memory=0)))


def test_files_of_jobs_side_by_side_are_those_of_jobs_one_after_another(tmp_path: Path) -> None:
    stacked, single = quick(splits=2, rounds=2), quick(splits=2, rounds=2, memory=0)
    execute(stacked, tmp_path / "stacked")
    execute(single, tmp_path / "single")
    # Either way goes on from the other's files.
    for job, other in zip(
        list_jobs(stacked, tmp_path / "stacked", tmp_path / "stacked"),
        list_jobs(single, tmp_path / "single", tmp_path / "single"),
        strict=True,
    ):
        about = partial(stacked.about, stacked.config.seed + job.number, job.part)
        ours, theirs = load_history(job.path, about), load_history(other.path, about)
        assert ours[0] == theirs[0] == 2
        assert np.allclose(ours[1].columns["loss"], theirs[1].columns["loss"], atol=1e-5)


# Stopped, and gone on


@pytest.mark.parametrize("rounds", [3, 5])
def test_a_stack_that_was_stopped_goes_on_as_if_it_had_not_been(
    tmp_path: Path, rounds: int
) -> None:
    # The baselines go first, and nobody is asked after their last round: the fourth question is
    # asked in the first round of the method.
    plan, out = quick(**UNJUDGED), tmp_path / "run"
    with pytest.raises(Stopped):
        execute(plan, out, stop=after(rounds))
    assert not (out / "summary.json").exists()
    heard = Heard()
    result = execute(plan, out, progress=heard)
    assert_same(result, whole(**UNJUDGED), close=0.0)
    assert heard.stacks == ([6, 3] if rounds < 4 else [3])
    assert len(heard.skipped) == (0 if rounds < 4 else 6)
    assert len(heard.ended) == 9 - len(heard.skipped)
    for number in range(3):
        if rounds < 4:
            assert heard.rounds[number, "alone"] == [4]
        assert heard.rounds[number, "method"] == ([1, 2, 3, 4] if rounds < 4 else [3, 4])
    assert_same(load_result(out), result, close=1e-12)


def test_a_stack_may_be_stopped_again_and_again(tmp_path: Path) -> None:
    plan, out = quick(splits=2, rounds=3, method="gcfl+"), tmp_path / "run"
    stops = 0
    while not (out / "summary.json").exists():
        try:
            execute(plan, out, stop=after(1))
        except Stopped:
            stops += 1
        assert stops < 20
    # After every round of both groups but their last.
    assert stops == 4
    assert_same(load_result(out), whole(splits=2, rounds=3, method="gcfl+"), close=1e-12)


def test_jobs_at_different_rounds_go_apart_and_all_finish(tmp_path: Path) -> None:
    plan, out = quick(**UNJUDGED), tmp_path / "run"
    with pytest.raises(Stopped):
        execute(plan, out, stop=after(3 + 2))
    # One method job begins anew, and one baseline too.
    (out / "checkpoint" / "split-001-method.safetensors").unlink()
    (out / "checkpoint" / "split-002-alone-again.safetensors").unlink()
    heard = Heard()
    assert_same(execute(plan, out, progress=heard), whole(**UNJUDGED))
    assert heard.stacks == [2]  # the methods of splits 0 and 2
    assert set(heard.begun) == {(2, "alone-again"), (0, "method"), (1, "method"), (2, "method")}
    assert sorted(heard.ended) == sorted(heard.begun)
    assert heard.rounds[0, "method"] == [3, 4]
    assert heard.rounds[1, "method"] == [1, 2, 3, 4]
    assert heard.rounds[2, "alone-again"] == [1, 2, 3, 4]


def test_a_run_begun_one_after_another_goes_on_side_by_side_and_back(tmp_path: Path) -> None:
    single = quick(memory=0, **UNJUDGED)
    stacked = replace(single, memory=PLENTY)
    # Stopped in the middle of the second split: in the last round but one of its method.
    out = tmp_path / "first"
    with pytest.raises(Stopped):
        execute(single, out, stop=after(3 * 3 + 2 * 3 + 2))
    heard = Heard()
    assert_same(execute(stacked, out, progress=heard), whole(memory=0, **UNJUDGED))
    assert heard.stacks == [2]  # alone and alone again on the third split
    assert len(heard.skipped) == 5
    # And the other way round.
    out = tmp_path / "second"
    with pytest.raises(Stopped):
        execute(stacked, out, stop=after(2))
    heard = Heard()
    assert_same(execute(single, out, progress=heard), whole(memory=0, **UNJUDGED))
    assert heard.stacks == []
    assert heard.rounds[0, "alone"] == [3, 4]


def test_a_broken_file_is_refused_before_the_other_jobs_go_on(tmp_path: Path) -> None:
    plan, out = quick(splits=2), tmp_path / "run"
    with pytest.raises(Stopped):
        execute(plan, out, stop=after(1))
    path = out / "checkpoint" / "split-001-alone-again.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    heard = Heard()
    with pytest.raises(MotifairError, match="delete it"):
        execute(plan, out, progress=heard)
    assert heard.begun == []
    path.unlink()
    assert_same(execute(plan, out), whole(splits=2))


class Killed(BaseException):
    """The process is gone."""


class KillingOne(Heard):
    """Kills the process when one job of a stack is told of a round, after others wrote theirs."""

    def __init__(self, job: tuple[int, str], round: int) -> None:
        super().__init__()
        self.job, self.round = job, round

    def part(self, split: int, name: str) -> Callback:
        listener = super().part(split, name)
        return Killer(self.round) if (split, name) == self.job else listener


class Killer(Callback):
    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, state: FederationState, history: History) -> None:
        if state.round == self.round:
            raise Killed


def test_a_stack_that_was_killed_while_it_wrote_its_files_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "SHARE", 1e9)  # a file in every round
    plan, out = quick(), tmp_path / "run"
    for part, round in (("alone", 2), ("method", 3)):
        with pytest.raises(Killed):
            execute(plan, out, progress=KillingOne((1, part), round))
    heard = Heard()
    assert_same(execute(plan, out, progress=heard), whole())
    # The file of split 0 was written in that round, those of splits 1 and 2 in the one before.
    assert heard.rounds[0, "method"] == [4]
    assert heard.rounds[1, "method"] == heard.rounds[2, "method"] == [3, 4]
    assert heard.stacks == [4, 2]  # four baselines are left of the first time


def test_files_of_one_stack_are_always_of_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a stack that was killed falls apart into jobs that go on one after another.
    now = [0.0]
    written: dict[int, set[str]] = {}

    def save(path: Path, state: FederationState, *_: object, final: bool) -> None:
        now[0] += 0.01 * (1 + int(path.name[6:9]))  # some files take longer than others
        if "method" in path.name and not final:
            written.setdefault(state.round, set()).add(path.name)

    class Tick(Listener):
        def on_round(self, state: FederationState, history: History) -> None:
            now[0] += 0.1

    monkeypatch.setattr(callbacks, "save_state", save)
    monkeypatch.setattr(callbacks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    heard = Heard()
    heard.part = lambda split, name: Tick(heard, (split, name))  # type: ignore[method-assign]
    execute(quick(rounds=15), tmp_path / "run", progress=heard)
    assert len(written) > 2
    assert {len(names) for names in written.values()} == {3}


# What goes together


def groups_of(plan: Plan) -> list[list[tuple[int, str]]]:
    """Which jobs would go side by side."""
    jobs = list_jobs(plan, None, None)
    splits = {k: split_data(plan, k) for k in range(plan.config.splits)}
    found = jobs_module._groups(plan, jobs, splits)
    return [[(j.number, j.part) for j in group.jobs] for group in found]


def stars(count: int = 60) -> list[nx.Graph]:
    """Cycles against paths without labels, and a single star whose degree is larger than any."""
    graphs = [
        nx.cycle_graph(4 + k % 4) if k % 2 else nx.path_graph(4 + k % 4) for k in range(count)
    ]
    graphs[7] = nx.star_graph(9)
    for k, graph in enumerate(graphs):
        graph.graph["y"] = k % 2
    return graphs


def widths_of(plan: Plan) -> list[int]:
    config = plan.config
    made = [prepare(config, split_data(plan, k), seed=0) for k in range(config.splits)]
    return [m.model.width for m in made]


def test_splits_with_other_inputs_are_not_put_into_one_stack() -> None:
    # Where the star is a test graph, training graphs have degrees up to 2 only.
    options = {"partition": "iid", "test_fraction": 0.3, "splits": 5, "rounds": 2, "seed": 1}
    plan = quick(stars(), **options)
    widths = widths_of(plan)
    assert set(widths) == {3, 10}
    for group in groups_of(plan):
        assert len({widths[number] for number, _ in group}) == 1
    heard = Heard()
    result = execute(plan, progress=heard)
    narrow, wide = widths.count(3), widths.count(10)
    assert sorted(heard.stacks) == sorted(n for n in (2 * narrow, 2 * wide, narrow, wide) if n > 1)
    assert_same(result, execute(replace(plan, memory=0)))


def test_degrees_of_real_data_are_not_put_into_one_stack_either(data_dir: Path) -> None:
    plan = quick("IMDB-BINARY", data_dir=data_dir, method="fedavg", splits=4)
    widths = widths_of(plan)
    found = groups_of(plan)
    assert len(set(widths)) > 1
    assert len(found) == 2 * len(set(widths))
    for group in found:
        assert len({widths[number] for number, _ in group}) == 1
    assert sorted(job for group in found for job in group) == sorted(
        (j.number, j.part) for j in list_jobs(plan, None, None)
    )


def needs(plan: Plan) -> dict[tuple[int, str], int]:
    """The memory each job needs."""
    found = {}
    for job in list_jobs(plan, None, None):
        config = plan.config if job.part == "method" else alone(plan.config)
        members = prepare(config, split_data(plan, job.number), seed=0)
        found[job.number, job.part] = memory_needed(config, members)
    return found


def test_a_budget_for_one_puts_one_job_in_each_stack_and_for_two_two() -> None:
    plan = quick(rounds=2, splits=2)
    need = needs(plan)
    assert min(need.values()) > 0
    for memory in (1, 2 * min(need.values()) - 1):
        found = groups_of(replace(plan, memory=memory))
        assert [len(g) for g in found] == [1] * 6
    two = sum(sorted(need.values())[-2:])
    found = groups_of(replace(plan, memory=two))
    assert max(len(g) for g in found) == 2
    for memory in (two, PLENTY):
        found = groups_of(replace(plan, memory=memory))
        assert sorted(job for g in found for job in g) == sorted(need)
        for group in found:
            assert len(group) == 1 or sum(need[job] for job in group) <= memory
            assert len({part == "method" for _, part in group}) == 1
    small = replace(plan, memory=1)
    heard = Heard()
    result = execute(small, progress=heard)
    assert heard.stacks == []
    assert result.environment["layout"]["jobs_in_a_stack"] == 1
    assert_same(result, whole(rounds=2, splits=2))


def test_more_units_graphs_and_agents_need_more_memory() -> None:
    def need(**options: Any) -> int:
        plan = quick(splits=1, **options)
        return needs(plan)[0, "method"]

    usual = need(own_weight=0.0)
    assert need(own_weight=0.0, hidden=32) > 1.5 * usual
    assert need(own_weight=0.0, layers=6) > 1.5 * usual
    assert need(own_weight=0.0, agents=6) > 1.5 * usual
    assert need(own_weight=0.0, batch_size=5) < usual
    # A second model beside shares the graphs: it adds its weights, moments and gradients.
    rows = 200 * 3 * prepare(quick().config, split_data(quick(), 0), seed=0).model.layout.size
    assert need(own_weight=0.5, own_prior="inf") - usual == rows
    assert need(own_weight=0.5) - usual > rows  # one that holds graphs back does not share them
    assert need(agents=6) > 1.4 * need()


# What is told and kept


def test_progress_hears_of_every_job_and_every_stack(tmp_path: Path) -> None:
    plan, out = quick(splits=2), tmp_path / "run"
    heard = Heard()
    execute(plan, out, progress=heard)
    every = [(j.number, j.part) for j in list_jobs(plan, None, None)]
    assert heard.stacks == [4, 2]
    assert sorted(heard.begun) == sorted(heard.ended) == sorted(every)
    assert heard.skipped == []
    assert heard.rounds == {job: [1, 2, 3, 4] for job in every}
    (out / "summary.json").unlink()
    again = Heard()
    execute(plan, out, progress=again)
    assert sorted(again.skipped) == sorted(every)
    assert (again.stacks, again.begun) == ([], [])


def test_each_job_hears_its_own_accuracy() -> None:
    plan = quick(splits=2)
    seen: dict[tuple[int, str], np.ndarray] = {}

    class Ends(Heard):
        def part(self, split: int, name: str) -> Callback:
            heard = self

            class End(Listener):
                def on_end(self, state: FederationState, history: History) -> None:
                    seen[self.job] = history.columns["accuracy"][-1].copy()
                    assert state.agents.weights.shape[0] == 3
                    assert state.server.value.shape == (3,)

            return End(heard, (split, name))

    result = execute(plan, progress=Ends())
    for k, split in enumerate(result.splits):
        assert np.array_equal(seen[k, "alone"], split.alone)
        assert np.array_equal(seen[k, "alone-again"], split.alone_again)
        assert np.array_equal(seen[k, "method"], split.history.columns["accuracy"][-1])


def test_how_many_jobs_went_side_by_side_is_kept_with_the_result(tmp_path: Path) -> None:
    plan, out = quick(splits=2, rounds=2), tmp_path / "run"
    result = execute(plan, out)
    assert result.environment["layout"]["jobs_in_a_stack"] == 4
    summary = json.loads((out / "summary.json").read_text())
    assert summary["layout"]["jobs_in_a_stack"] == 4
    stored = json.loads((out / "config.json").read_text())["environment"]
    assert stored["memory"] == PLENTY
    single = whole(memory=0)
    assert single.environment["layout"]["jobs_in_a_stack"] == 1


def test_the_layout_of_a_run_that_was_stopped_is_that_of_one_that_was_not(tmp_path: Path) -> None:
    plan, out = quick(splits=2), tmp_path / "run"
    with pytest.raises(Stopped):
        execute(plan, out, stop=after(5))
    result = execute(plan, out)
    assert result.environment["layout"] == whole(splits=2).environment["layout"]


@pytest.mark.parametrize("method", ["fedavg", "motifair"])
def test_a_last_step_that_overflows_is_a_sentence_and_no_result(
    method: str, tmp_path: Path
) -> None:
    plan = quick(rounds=1, splits=1, layers=3, learning_rate=1e6, method=method)
    with pytest.raises(
        MotifairError, match=r"predictions of agent-00 are not finite after round 1; lower learning"
    ):
        execute(plan, tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()
    assert not list((tmp_path / "run" / "checkpoint").glob("*"))
