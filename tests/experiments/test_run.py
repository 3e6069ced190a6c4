"""Runs from Python: what comes back, what is written, what goes on, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import motifair
from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.plan import join_settings, make_plan, read_plan, split_data
from motifair.graphs.convert import from_objects
from motifair.graphs.tu import write_tu

QUICK = {"rounds": 3, "agents": 4, "hidden": 16, "threads": 1, "device": "cpu"}


def own_graphs(count: int = 40, seed: int = 0) -> list[nx.Graph]:
    """Cycles against paths, with a class and node labels."""
    rng = np.random.default_rng(seed)
    graphs = []
    for k in range(count):
        n = int(rng.integers(4, 9))
        graph = nx.cycle_graph(n) if k % 2 else nx.path_graph(n)
        graph.graph["y"] = k % 2
        nx.set_node_attributes(graph, {v: int(rng.integers(3)) for v in graph}, "label")
        graphs.append(graph)
    return graphs


def test_a_run_returns_a_result_worth_reading() -> None:
    result = motifair.run(splits=2, **QUICK)
    text = repr(result)
    assert text.startswith("motifair on planted: 4 agents, 3 rounds, 2 splits from seed 0")
    assert "fairness" in text
    assert "retest" in text
    frame = result.to_frame()
    assert len(frame) == 2 * 4
    assert set(frame["role"]) == {"good", "harmful", "late"}
    assert len(result.history) == 2 * 3 * 4
    assert np.allclose(frame.groupby("split")["payoff"].sum(), 3.0)
    assert set(result.mean) == set(result.ci95)


def test_places_may_be_text_or_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tu(from_objects("own", own_graphs()), tmp_path / "own")
    result = motifair.run(Path("own"), out="run", **QUICK)
    assert result.config.dataset == "own"
    assert repr(motifair.load_result("run")) == repr(motifair.load_result(Path("run")))
    result.save("new/copy")
    assert (tmp_path / "new/copy/agents.csv").read_bytes() == (
        tmp_path / "run/agents.csv"
    ).read_bytes()


def test_a_configuration_runs_as_its_options_do() -> None:
    result = motifair.run(beta=2.0, **QUICK)
    options = {k: v for k, v in QUICK.items() if k not in ("threads", "device")}
    where = {"threads": 1, "device": "cpu"}
    config = motifair.Config(beta=2.0, **{**options, "rounds": 9})
    for again in (
        motifair.run(config, rounds=3, **where),
        motifair.run("planted", config=config, rounds=3, **where),
        motifair.run(result.config, **where),
    ):
        assert again.config == result.config
        pd.testing.assert_frame_equal(again.history, result.history)


def test_what_a_configuration_sets_counts_and_what_it_does_not_is_as_usual() -> None:
    assert make_plan(*join_settings(Config(), None, {})).config.partition == "domains"
    chosen = Config(partition="chunks")
    assert make_plan(*join_settings(chosen, None, {})).config.partition == "chunks"
    with pytest.raises(MotifairError, match="fedavg does not use beta"):
        make_plan(*join_settings(Config(method="fedavg", beta=2), None, {}))
    with pytest.raises(MotifairError, match="Two configurations"):
        motifair.run(Config(), config=Config())
    with pytest.raises(MotifairError, match="give them as the dataset"):
        motifair.run(Config(dataset="own graphs"))


def test_what_python_is_given_wrongly_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MotifairError, match="There is no folder or zip at"):
        motifair.run(tmp_path / "nowhere")
    with pytest.raises(MotifairError, match="holds no run"):
        motifair.load_result(str(tmp_path / "nowhere"))
    for threads in (-3, 0):
        with pytest.raises(MotifairError, match=f"threads takes .* at least 1, not {threads}"):
            motifair.run(threads=threads)
    with pytest.raises(MotifairError, match="file/x/checkpoint cannot be used"):
        motifair.run(out=tmp_path / "file" / "x", **QUICK)
    with pytest.raises(MotifairError, match="file/x/baselines/checkpoint cannot be used"):
        motifair.compare(out=tmp_path / "file" / "x", methods="fedavg,motifair", **QUICK)
    result = motifair.run(**{**QUICK, "rounds": 1})
    with pytest.raises(MotifairError, match="cannot be used"):
        result.save(tmp_path / "file" / "x")


def test_the_folder_holds_what_is_promised_and_loads_back(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = motifair.run(out=out, splits=2, **QUICK)
    names = {p.name for p in out.iterdir()}
    assert {"config.json", "summary.json", "history.csv", "agents.csv", "checkpoint"} <= names
    summary = json.loads((out / "summary.json").read_text())
    assert {"method", "dataset", "splits", "mean", "ci95", "fairness_retest", "fairness_bound",
            "seconds", "versions", "layout"} <= set(summary)  # fmt: skip
    assert len(summary["splits"]) == 2
    assert {"seed", "personalised_accuracy", "global_accuracy", "fairness", "gain"} <= set(
        summary["splits"][0]
    )
    options = json.loads((out / "config.json").read_text())["options"]
    assert options["partition"] == "domains"
    assert options["own_weight"] == 0.3
    history = pd.read_csv(out / "history.csv")
    assert {"split", "round", "agent", "value", "alignment", "diversity", "kept", "payoff",
            "compensation", "update_norm", "loss"} <= set(history)  # fmt: skip
    loaded = motifair.load_result(out)
    assert repr(loaded) == repr(result)
    pd.testing.assert_frame_equal(loaded.to_frame(), result.to_frame())


def test_a_finished_run_is_not_done_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    motifair.run(out=out, **QUICK)
    before = (out / "summary.json").stat().st_mtime_ns
    again = motifair.run(out=out, **QUICK)
    assert (out / "summary.json").stat().st_mtime_ns == before
    assert again.config.rounds == 3


def test_deleting_one_finished_part_gives_the_same_result_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = motifair.run(out=out, splits=2, **QUICK)
    (out / "summary.json").unlink()
    (out / "checkpoint" / "split-001-method.safetensors").unlink()
    again = motifair.run(out=out, splits=2, **QUICK)
    pd.testing.assert_frame_equal(first.history, again.history)


def test_a_fixed_split_varies_training_only() -> None:
    plan = make_plan("planted", {"agents": 4, "splits": 2, "fixed_split": True}, device="cpu")
    first, second = split_data(plan, 0), split_data(plan, 1)
    assert first.graphs.digest() == second.graphs.digest()
    free = make_plan("planted", {"agents": 4, "splits": 2}, device="cpu")
    assert split_data(free, 0).graphs.digest() != split_data(free, 1).graphs.digest()
    result = motifair.run(splits=2, fixed_split=True, **QUICK)
    losses = [s.history.columns["loss"][0] for s in result.splits]
    assert not np.allclose(*losses)


def test_training_alone_is_measured_against_other_trainings_alone() -> None:
    result = motifair.run(method="self-train", **{**QUICK, "rounds": 25})
    split = result.splits[0]
    metrics = split.metrics()
    three = [split.accuracy, split.alone, split.alone_again]
    assert all(not np.array_equal(three[k - 1], three[k]) for k in range(3))
    assert metrics["fairness"] == pytest.approx(np.corrcoef(three[0], three[1])[0, 1])
    assert np.isnan(metrics["global_accuracy"])
    assert (split.history.columns["payoff"] == 0).all()


def test_own_graphs_run_from_lists_and_from_a_mapping_of_agents() -> None:
    listed = motifair.run(own_graphs(), partition="iid", **QUICK)
    assert listed.config.dataset == "own graphs"
    parties = {"bank-b": own_graphs(20, 1), "bank-a": own_graphs(24, 2), "lab": own_graphs(16, 3)}
    options = {k: v for k, v in QUICK.items() if k != "agents"}
    mapped = motifair.run(parties, **options)
    assert mapped.splits[0].names == ("bank-a", "bank-b", "lab")
    assert mapped.config.agents == 3


def rings(classes: tuple[int, ...], count: int = 30) -> list[nx.Graph]:
    """Rings whose size and label say their class."""
    graphs = []
    for k in range(count):
        y = classes[k % len(classes)]
        graph = nx.cycle_graph(3 + y, create_using=nx.Graph)
        graph.graph["y"] = y
        nx.set_node_attributes(graph, y, "label")
        graphs.append(graph)
    return graphs


def test_a_class_is_the_same_class_for_every_agent() -> None:
    parties = {"bank-a": rings((0, 1)), "bank-b": rings((1, 2)), "lab": rings((0, 2))}
    options = {k: v for k, v in QUICK.items() if k != "agents"} | {"rounds": 60}
    result = motifair.run(parties, method="fedavg", learning_rate=0.01, **options)
    frame = result.to_frame()
    assert frame["accuracy"].tolist() == [1.0, 1.0, 1.0]
    assert frame["alone"].tolist() == [1.0, 1.0, 1.0]


def triangles(width: int = 2, count: int = 40, seed: int = 0) -> list[Data]:
    """Equal triangles: only the attributes of their nodes say the class."""
    rng = np.random.default_rng(seed)
    edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    return [
        Data(
            x=torch.tensor(rng.normal(3 * (k % 2), 0.3, (3, width))),
            edge_index=edges,
            y=torch.tensor([k % 2]),
        )
        for k in range(count)
    ]


def test_a_class_that_only_attributes_say_is_learnt_without_setting_anything() -> None:
    options = {**QUICK, "rounds": 30, "learning_rate": 0.01, "method": "fedavg"}
    result = motifair.run(triangles(count=120), partition="iid", **options)
    assert result.config.features == "attributes"
    assert result.mean["personalised_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("parties", "sentence"),
    [
        (
            {"bank-a": triangles(2), "bank-b": triangles(2), "lab": triangles(3)},
            r"\(bank-a, bank-b: 2 attributes; lab: 3 attributes\); give .* use features=degree",
        ),
        (
            {
                "bank-a": own_graphs(20),
                "lab": [nx.Graph(g.edges, y=g.graph["y"]) for g in own_graphs(20)],
            },
            r"\(bank-a: labels; lab: neither labels nor attributes\); give .* use features=degree",
        ),
    ],
)
def test_agents_with_other_inputs_are_refused_unless_inputs_are_chosen(
    parties: dict[str, list[Any]], sentence: str
) -> None:
    for options in ({}, {"features": "auto"}):
        with pytest.raises(MotifairError, match=sentence):
            make_plan(parties, options, device="cpu")
    assert make_plan(parties, {"features": "degree"}, device="cpu").config.features == "degree"


def test_attributes_of_unequal_number_are_refused_unless_labels_are_chosen() -> None:
    parties: dict[str, list[Any]] = {"a": own_graphs(20, 1), "b": own_graphs(20, 2)}
    for width, graphs in enumerate(parties.values(), start=1):
        for graph in graphs:
            nx.set_node_attributes(graph, [0.5] * width, "x")
    for options in ({}, {"features": "attributes"}):
        with pytest.raises(MotifairError, match=r"a: labels and 1 attributes; b: labels and 2"):
            make_plan(parties, options, device="cpu")
    for chosen in ({"profile": "paper"}, {"features": "label"}):
        assert make_plan(parties, chosen, device="cpu").config.features == "label"


def test_the_folder_says_which_inputs_were_used(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = motifair.run("PROTEINS", data_dir=data_dir, out=out, **{**QUICK, "rounds": 1})
    stored, summary = (json.loads((out / f"{f}.json").read_text()) for f in ("config", "summary"))
    assert stored["options"]["features"] == read_plan(out).config.features
    assert stored["options"]["features"] == "label+attributes"
    assert (
        stored["inputs"] == summary["inputs"] == result.inputs == motifair.load_result(out).inputs
    )
    assert result.inputs == {
        "uses": ["node labels (3)", "node attributes (1, standardised)", "2 classes (1, 2)"],
        "ignores": [],
    }


def test_a_run_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """It read graphs and seeded models in another way, so it cannot go on as it began."""
    out = tmp_path / "run"
    motifair.run(out=out, **{**QUICK, "rounds": 1})
    content = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(
        json.dumps({k: content[k] for k in ("options", "environment")})
    )
    (out / "summary.json").unlink()
    with pytest.raises(MotifairError, match=r"written by motifair 0\.1.* another folder"):
        read_plan(out)


def test_two_real_datasets_are_two_agents(data_dir: Path) -> None:
    options = {k: v for k, v in QUICK.items() if k != "agents"}
    result = motifair.run(
        "MUTAG,PROTEINS", data_dir=data_dir, features="degree", share="conv", **options
    )
    assert result.splits[0].names == ("MUTAG", "PROTEINS")


@pytest.mark.parametrize("partition", ["chunks", "iid", "dirichlet", "sizes"])
def test_every_partition_runs_on_real_data(data_dir: Path, partition: str) -> None:
    skew = {"skew": 2.0} if partition in ("dirichlet", "sizes") else {}
    result = motifair.run(
        "MUTAG", data_dir=data_dir, partition=partition, perturbation="tiers", **skew, **QUICK
    )
    assert set(result.to_frame()["role"]) == {"low", "medium", "high"}


@pytest.mark.parametrize("scenario", ["duplicates", "twins"])
def test_a_scenario_with_repeated_graphs_runs_resumes_and_is_reported(
    tmp_path: Path, scenario: str
) -> None:
    result = motifair.run(scenario=scenario, method="cffl", out=tmp_path / "run", **QUICK)
    assert (result.config.partition, result.config.perturbation) == ("iid", scenario)
    assert len(set(result.to_frame()["role"])) == 2
    again = motifair.run(scenario=scenario, method="cffl", out=tmp_path / "run", **QUICK)
    assert again.to_frame().equals(result.to_frame())
    assert read_plan(tmp_path / "run").config == result.config
    assert scenario in result.report(tmp_path / "report.html").read_text()


def test_a_scenario_is_the_partition_and_perturbation_that_it_names() -> None:
    options = {**QUICK, "rounds": 2}
    named = motifair.run(scenario="inverted", **options)
    spelled = motifair.run(partition="iid", perturbation="inverted", **options)
    assert named.to_frame().equals(spelled.to_frame())
    assert named.history.equals(spelled.history)
    with pytest.raises(MotifairError, match="at least 3 classes, but planted has 2"):
        motifair.run(scenario="exclusive-class", **options)


def test_payoff_rules_pay_out_the_budget() -> None:
    for rule in ("equal", "union", "individual", "shapley"):
        result = motifair.run(payoff=rule, budget=7.0, **{**QUICK, "rounds": 1})
        assert np.isclose(result.to_frame()["payoff"].sum(), 7.0)


REFUSED = {
    "dataset": ({"dataset": "PROTEIN"}, "Did you mean PROTEINS"),
    "method": ({"method": "fedavgg"}, "Did you mean fedavg"),
    "option": ({"retntion": 1}, "Did you mean retention"),
    "unused option": ({"method": "fedavg", "beta": 2}, "fedavg does not use beta"),
    "skew": ({"partition": "iid", "skew": 1}, "does not use skew"),
    "agents": ({"dataset": [], "agents": 4}, "no graph"),
    "budget": ({"budget": -1}, "budget must be at least 0"),
    "beta": ({"beta": 0}, "beta must be greater than 0"),
    "device": ({"device": "tpu"}, "auto or cpu or cuda"),
    "domains": ({"dataset": own_graphs(), "partition": "domains"}, "join several"),
    "too many agents": ({"dataset": own_graphs(12), "agents": 40}, "use fewer agents"),
    "one owner": ({"dataset": {"a": own_graphs()}}, "at least two"),
    "owners": (
        {"dataset": {"a": own_graphs(), "b": own_graphs()}, "agents": 5},
        "belongs to 2 agents",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_a_sentence_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    options, sentence = REFUSED[case]
    out = tmp_path / "never"
    with pytest.raises(MotifairError, match=sentence):
        motifair.run(out=out, **options)  # type: ignore[arg-type]
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_asked_for_and_absent_is_refused() -> None:
    with pytest.raises(MotifairError, match="use --device cpu or auto"):
        motifair.run(device="cuda")


def test_a_folder_with_another_run_or_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    motifair.run(out=out, **QUICK)
    with pytest.raises(MotifairError, match=r"holds another run \(rounds=3\)"):
        motifair.run(out=out, **{**QUICK, "rounds": 4})
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    with pytest.raises(MotifairError, match="is not empty"):
        motifair.run(out=other, **QUICK)
    assert [p.name for p in other.iterdir()] == ["thesis.tex"]


def test_a_folder_whose_files_were_changed_is_refused_in_a_sentence(tmp_path: Path) -> None:
    out = tmp_path / "run"
    motifair.run(out=out, **QUICK)
    table = pd.read_csv(out / "history.csv").drop(columns="payoff")
    table.to_csv(out / "history.csv", index=False)
    with pytest.raises(MotifairError, match=r"payoff.*run again into another folder"):
        motifair.load_result(out)


def test_only_one_process_writes_a_folder(tmp_path: Path) -> None:
    import fcntl

    out = tmp_path / "run"
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(MotifairError, match="Another process"):
            motifair.run(out=out, **QUICK)


def test_resuming_needs_a_run_whose_graphs_can_be_found(tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match="holds no run"):
        read_plan(tmp_path)
    with pytest.raises(MotifairError, match="holds no run"):
        motifair.load_result(tmp_path)
    out = tmp_path / "own"
    motifair.run(own_graphs(), out=out, partition="iid", **QUICK)
    with pytest.raises(MotifairError, match="given in Python"):
        read_plan(out)
    (out / "summary.json").unlink()
    with pytest.raises(MotifairError, match="motifair resume"):
        motifair.load_result(out)


def test_importing_the_package_does_not_import_optional_engines() -> None:
    import subprocess
    import sys

    code = (
        "import sys, motifair; motifair.run; "
        "print([m for m in ('nvflare', 'sqlalchemy', 'fastapi', 'rdkit') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
