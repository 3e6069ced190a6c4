"""Configuration: what parses, what the profiles are, and what a mistake is told."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError
from motifair.methods import find_method, make_method, refuse_unused
from motifair.options import parse_assignments, read_settings
from motifair.profiles import PROFILES, SCENARIOS

PAPER: dict[str, Any] = {
    "agents": 10,
    "rounds": 200,
    "local_epochs": 1,
    "batch_size": 128,
    "local_steps": 0,
    "learning_rate": 0.001,
    "weight_decay": 0.0005,
    "hidden": 64,
    "layers": 3,
    "dropout": 0.5,
    "moments": "own",
    "partition": "chunks",
    "test_fraction": 0.1,
    "share": "all",
    "rings": "basis",
    "max_ring": 0,
    "chance": False,
    "vocabulary_fraction": 0.9,
    "tfidf": "paper",
    "alignment_of": "update",
    "alignment_against": "all",
    "alignment_rate": 1.0,
    "corroboration": 1,
    "evidence": "sum",
    "value_guard": False,
    "value_update": "additive",
    "value_rate": 0.05,
    "diversity_weight": 1.0,
    "aggregation": "value",
    "aggregate_length": "mean",
    "beta": 1.0,
    "reward_for": "value",
    "mask_scope": "global",
    "retention": 0.0,
    "reward_step": 1.0,
    "own_weight": 0.0,
    "own_prior": math.inf,
    "prototype_distance": "l2",
    "prototype_reduce": "sum",
    "prototype_weight": 0.1,
    "budget": 1.0,
    "payoff": "paper",
}
DEFAULT_DIFFERS: dict[str, Any] = {
    "features": "auto",
    "rings": "chordless",
    "max_ring": 4,
    "chance": True,
    "vocabulary_fraction": 1.0,
    "alignment_against": "coverage",
    "size": "believed",
    "initial_value": "evidence",
    "trial_rounds": 100,
    "bounded": True,
    "moments": "auto",
    "corroboration": 2,
    "value_guard": True,
    "value_rate": 0.2,
    "diversity_weight": 0.0,
    "aggregation": "trusted",
    "aggregate_length": "typical",
    "reward_for": "relative-value",
    "own_weight": 0.3,
    "own_prior": 4.0,
    "prototype_distance": "unit",
    "prototype_reduce": "mean",
}
# Every option, as a word on the command line and as what it must become; none is a default.
TEXTS: dict[str, tuple[str, Any]] = {
    "dataset": ("DD,PROTEINS", "DD,PROTEINS"),
    "smiles": ("SMILES", "SMILES"),
    "targets": ("NR-AR,SR-p53", "NR-AR,SR-p53"),
    "method": ("fedavg", "fedavg"),
    "profile": ("paper", "paper"),
    "splits": ("20", 20),
    "seed": ("2147483647", 2147483647),
    "fixed_split": ("true", True),
    "rounds": ("7", 7),
    "eval_every": ("1", 1),
    "contribution": ("true", True),
    "incentives": ("true", True),
    "agents": ("5", 5),
    "scenario": ("twins", "twins"),
    "partition": ("dirichlet", "dirichlet"),
    "spaces": ("own", "own"),
    "skew": (".25", 0.25),
    "test_fraction": ("0.2", 0.2),
    "perturbation": ("tiers", "tiers"),
    "features": ("degree", "degree"),
    "local_epochs": ("3", 3),
    "batch_size": ("16", 16),
    "local_steps": ("5", 5),
    "learning_rate": ("1e-2", 0.01),
    "weight_decay": ("0", 0.0),
    "model": ("package.module:name", "package.module:name"),
    "hidden": ("32", 32),
    "layers": ("1", 1),
    "dropout": ("0", 0.0),
    "moments": ("common", "common"),
    "share": ("conv", "conv"),
    "rings": ("basis", "basis"),
    "max_ring": ("8", 8),
    "chance": ("no", False),
    "edges": ("auto", "auto"),
    "task": ("binary", "binary"),
    "metric": ("pr-auc", "pr-auc"),
    "vocabulary_fraction": (".5", 0.5),
    "tfidf": ("smooth", "smooth"),
    "alignment_of": ("gradient", "gradient"),
    "alignment_against": ("others", "others"),
    "alignment_rate": (".5", 0.5),
    "corroboration": ("3", 3),
    "evidence": ("judged", "judged"),
    "value_guard": ("no", False),
    "initial_value": ("equal", "equal"),
    "trial_rounds": ("0", 0),
    "value_update": ("ema", "ema"),
    "value_rate": ("1", 1.0),
    "diversity_weight": ("8", 8.0),
    "aggregation": ("size", "size"),
    "size": ("claimed", "claimed"),
    "bounded": ("false", False),
    "aggregator": ("median", "median"),
    "valuation": ("equal", "equal"),
    "aggregate_length": ("mean", "mean"),
    "beta": ("inf", math.inf),
    "reward_for": ("value", "value"),
    "mask_scope": ("layer", "layer"),
    "mask_by": ("length", "length"),
    "retention": ("1", 1.0),
    "reward_step": ("0.5", 0.5),
    "own_weight": ("0", 0.0),
    "own_prior": ("inf", math.inf),
    "prototype_distance": ("l2", "l2"),
    "prototype_reduce": ("sum", "sum"),
    "prototype_weight": ("0", 0.0),
    "budget": ("0", 0.0),
    "payoff": ("shapley", "shapley"),
}


def test_every_option_is_tried_below() -> None:
    assert set(TEXTS) == set(OPTIONS)


@pytest.mark.parametrize("name", TEXTS)
def test_an_option_parses_from_text_to_its_own_type(name: str) -> None:
    text, expected = TEXTS[name]
    found = getattr(make_config({name: text}), name)
    assert found == expected
    assert type(found) is type(expected)
    assert found != getattr(make_config({}), name)


@pytest.mark.parametrize("name", TEXTS)
def test_an_option_given_as_its_own_type_stays_as_it_is(name: str) -> None:
    _, expected = TEXTS[name]
    found = getattr(make_config({name: expected}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("text", ["true", "True", "yes", "1", "false", "FALSE", "no", "0"])
def test_a_switch_says_yes_or_no_in_several_ways(text: str) -> None:
    expected = text.lower() in ("true", "yes", "1")
    assert make_config({"fixed_split": text}).fixed_split is expected


@pytest.mark.parametrize("text", ["10", "10.0", "1e1", " 10 "])
def test_a_whole_number_may_be_written_in_several_ways(text: str) -> None:
    assert make_config({"rounds": text}).rounds == 10


def test_the_paper_profile_is_the_literal_reading_of_the_paper() -> None:
    found = asdict(make_config({"profile": "paper"}))
    assert {name: found[name] for name in PAPER} == PAPER


def test_the_default_profile_differs_from_the_paper_in_exactly_these_options() -> None:
    paper, default = asdict(make_config({"profile": "paper"})), asdict(make_config({}))
    assert default == {**paper, **DEFAULT_DIFFERS, "profile": "default"}
    assert set(PROFILES) == {"paper", "default"}


def test_an_option_that_is_gone_is_read_where_it_says_what_is_done_anyway() -> None:
    assert make_config({"report": "final", "rounds": 3}) == make_config({"rounds": 3})
    with pytest.raises(MotifairError, match=r"report=best_on_test .*; leave it out"):
        make_config({"report": "best_on_test"})


def test_a_configuration_made_by_hand_is_what_a_run_takes() -> None:
    assert Config() == make_config({})
    assert asdict(Config(profile="paper"))["own_weight"] == 0.0
    assert Config(beta="2", rings="basis") == make_config({"beta": 2, "rings": "basis"})
    assert Config(beta=2).given == {"beta"}
    assert replace(Config(beta=2), rounds=3) == Config(beta=2, rounds=3)
    with pytest.raises(MotifairError, match="Did you mean rounds"):
        Config(round=3)


def test_what_is_set_by_hand_wins_over_the_profile() -> None:
    config = make_config({"profile": "default", "reward_step": 2, "rings": "basis"})
    assert (config.reward_step, config.rings, config.max_ring) == (2.0, "basis", 4)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_sets_partition_and_perturbation_and_nothing_else(scenario: str) -> None:
    usual, config = asdict(Config()), Config(scenario=scenario)
    assert asdict(config) == {**usual, **SCENARIOS[scenario], "scenario": scenario}
    assert make_config(config.to_json()) == config
    given = Config(scenario=scenario, partition="sizes")
    assert (given.partition, given.perturbation) == ("sizes", config.perturbation)
    assert config.given == {"scenario"}


def test_without_a_scenario_a_configuration_is_written_as_before_there_were_any() -> None:
    assert "scenario" not in Config().to_json()
    assert Config(scenario="iid").to_json()["scenario"] == "iid"
    with pytest.raises(MotifairError, match=r"'twin'.*Did you mean twins\?"):
        Config(scenario="twin")


def test_with_whole_epochs_a_configuration_is_written_as_before_there_were_others() -> None:
    assert "local_steps" not in Config().to_json()
    few = Config(local_steps=5)
    assert few.to_json()["local_steps"] == 5
    assert make_config(few.to_json()) == few
    assert few.digest() != Config().digest() == Config(local_steps=0).digest()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beta": 0}, "beta"),
        ({"beta": -1}, "beta"),
        ({"beta": "-inf"}, "beta"),
        ({"budget": -0.01}, "budget"),
        ({"budget": "inf"}, "budget"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"rounds": "1.5"}, "rounds"),
        ({"rounds": "inf"}, "rounds"),
        ({"rounds": "many"}, "rounds"),
        ({"rounds": ""}, "rounds"),
        ({"rounds": None}, "rounds"),
        ({"rounds": [3]}, "rounds"),
        ({"rounds": True}, "rounds"),
        ({"agents": 1}, "agents"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "seed"),
        ({"splits": 0}, "splits"),
        ({"eval_every": 0}, "eval_every"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": "inf"}, "learning_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"dropout": 1}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
        ({"test_fraction": 0}, "test_fraction"),
        ({"test_fraction": 1}, "test_fraction"),
        ({"skew": 0}, "skew"),
        ({"hidden": 7}, "hidden"),
        ({"layers": 0}, "layers"),
        ({"batch_size": 0}, "batch_size"),
        ({"local_epochs": 0}, "local_epochs"),
        ({"vocabulary_fraction": 0}, "vocabulary_fraction"),
        ({"vocabulary_fraction": 1.01}, "vocabulary_fraction"),
        ({"alignment_rate": 0}, "alignment_rate"),
        ({"alignment_rate": 1.01}, "alignment_rate"),
        ({"corroboration": 0}, "corroboration"),
        ({"corroboration": 1.5}, "corroboration"),
        ({"own_weight": 1}, "own_weight"),
        ({"own_weight": -0.1}, "own_weight"),
        ({"own_prior": -1}, "own_prior"),
        ({"own_weight": "inf"}, "own_weight"),
        ({"chance": "perhaps"}, "chance"),
        ({"value_rate": 0}, "value_rate"),
        ({"value_rate": 1.01}, "value_rate"),
        ({"diversity_weight": -1}, "diversity_weight"),
        ({"retention": 1.01}, "retention"),
        ({"reward_step": 0}, "reward_step"),
        ({"prototype_weight": -0.1}, "prototype_weight"),
        ({"max_ring": 9}, "max_ring"),
        ({"max_ring": -1}, "max_ring"),
        ({"rings": "basis", "max_ring": 1}, "max_ring"),
        ({"rings": "basis", "max_ring": 2}, "max_ring"),
        ({"rings": "chordless", "max_ring": 0}, "max_ring"),
        ({"rings": "chordless", "max_ring": 2}, "max_ring"),
        ({"profile": "paper", "rings": "chordless"}, "max_ring"),
        ({"alignment_against": "shapley", "agents": 13}, "alignment_against"),
        ({"fixed_split": "maybe"}, "fixed_split"),
        ({"fixed_split": 2}, "fixed_split"),
        *(
            ({name: "nonsense"}, name)
            for name in OPTIONS
            if OPTIONS[name].metadata["choices"] and name not in ("profile", "partition")
        ),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_by_the_name_of_its_option(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(MotifairError, match=rf"\b{named}\b"):
        make_config(settings)


@pytest.mark.parametrize(
    "name",
    [n for n, (_, v) in TEXTS.items() if isinstance(v, float | int) and v not in (True, False)],
)
@pytest.mark.parametrize("value", ["nan", math.nan])
def test_no_number_may_be_undefined(name: str, value: object) -> None:
    with pytest.raises(MotifairError, match=rf"\b{name}\b"):
        make_config({name: value})


@pytest.mark.parametrize(
    "settings",
    [
        {"alignment_against": "shapley", "agents": 12},
        {"payoff": "shapley", "agents": 14},
        {"rings": "chordless", "max_ring": 3},
        {"rings": "basis", "max_ring": 3},
        {"max_ring": 8},
        {"beta": 1e-9},
        {"alignment_rate": 1e-9},
        {"corroboration": 1},
        {"own_weight": 0.0},
        {"own_weight": 0.999},
        {"agents": 2},
        {"seed": 0},
    ],
    ids=str,
)
def test_a_value_at_the_edge_is_taken(settings: dict[str, Any]) -> None:
    config = asdict(make_config(settings))
    assert {name: config[name] for name in settings} == settings


def test_a_configuration_cannot_be_changed_to_a_bad_one() -> None:
    with pytest.raises(MotifairError, match="agents"):
        replace(make_config({}), agents=1)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("bta", "beta"), ("agent", "agents"), ("Rounds", "rounds"), ("max-ring", "max_ring")],
)
def test_an_unknown_option_names_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(MotifairError, match=rf"'{wrong}'.*Did you mean .*\b{meant}\b"):
        make_config({wrong: 1})


def test_an_option_like_no_other_lists_them_all() -> None:
    with pytest.raises(MotifairError) as refusal:
        make_config({"zzzzzz": 1})
    assert all(name in str(refusal.value) for name in OPTIONS)


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(MotifairError, match=r"'papers'.*Did you mean paper\?"):
        make_config({"profile": "papers"})


def test_an_unknown_method_names_the_nearest() -> None:
    with pytest.raises(MotifairError, match=r"'fedavgs'.*Did you mean fedavg or fedavg-own\?"):
        find_method("fedavgs")
    with pytest.raises(MotifairError, match=r"'Motifairr'.*Did you mean motifair"):
        make_method(make_config({"method": "Motifairr"}))


@pytest.mark.parametrize("method", ["motifair", "fedavg", "self-train"])
def test_a_method_is_found_by_its_own_name(method: str) -> None:
    made = make_method(make_config({"method": method}))
    assert made.name == method
    assert made.config.method == method


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"method": "fedavg", "beta": 2}, "beta"),
        ({"method": "self-train", "share": "conv"}, "share"),
        ({"method": "fedavg", "own_weight": 0.2}, "own_weight"),
        ({"method": "fedavg-own", "aggregate_length": "mean"}, "aggregate_length"),
        ({"skew": 0.3}, "skew"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(MotifairError, match=rf"does not use {named}\b"):
        refuse_unused(make_config(settings), settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "fedavg", "share": "conv", "rounds": 3},
        {"method": "motifair", "beta": 2},
        {"skew": 0.3, "partition": "dirichlet"},
        {"method": "fedavg", "beta": 1.0, "own_weight": 0.3},  # as the profile has them
        {"method": "fedavg-own", "own_weight": 0.2},
    ],
)
def test_an_option_that_is_used_or_repeats_the_profile_is_taken(settings: dict[str, Any]) -> None:
    refuse_unused(make_config(settings), settings)


@pytest.mark.parametrize(
    "settings", [{}, {"profile": "paper"}, {name: text for name, (text, _) in TEXTS.items()}]
)
def test_a_configuration_survives_the_way_through_json(settings: dict[str, Any]) -> None:
    config = make_config(settings)
    text = json.dumps(config.to_json(), allow_nan=False)
    assert make_config(json.loads(text)) == config


def test_an_infinite_beta_is_written_by_name() -> None:
    assert make_config({"beta": math.inf}).to_json()["beta"] == "inf"


def test_every_option_that_decides_a_result_is_part_of_the_digest() -> None:
    base = make_config({})
    digests = {make_config({name: text}).digest() for name, (text, _) in TEXTS.items()}
    assert len(digests) == len(TEXTS)
    assert base.digest() not in digests
    assert make_config({"profile": "default", "rounds": "200"}).digest() == base.digest()


def test_every_option_says_what_it_means() -> None:
    assert all(option.metadata["help"] for option in OPTIONS.values())
    assert all(isinstance(getattr(Config, name), bool | int | float | str) for name in OPTIONS)


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_settings_are_read_from_toml(tmp_path: Path) -> None:
    path = written(tmp_path, "a.toml", 'beta = inf\nrounds = 5 # few\nrings = "basis"\n')
    assert read_settings(path) == {"beta": math.inf, "rounds": 5, "rings": "basis"}


def test_settings_are_read_from_json(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", '{"beta": "inf", "rounds": 5}')
    assert read_settings(path) == {"beta": "inf", "rounds": 5}


def test_settings_of_an_earlier_run_are_read_from_what_it_stored(tmp_path: Path) -> None:
    config = make_config({"beta": "inf", "agents": 4})
    stored = {"options": config.to_json(), "environment": {"device": "cpu"}}
    settings = read_settings(written(tmp_path, "config.json", json.dumps(stored)))
    assert make_config(settings) == config


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.toml", "beta = "),
        ("a.toml", '{"beta": 1}'),
        ("a.json", '{"beta": 1'),
        ("a.json", "beta = 1"),
        ("a.json", ""),
        ("a.json", "[1, 2]"),
        ("a.json", "null"),
        ("a.json", '{"options": 3}'),
        ("a.json", '{"options": ["beta"]}'),
    ],
)
def test_a_broken_file_is_refused_by_its_name(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(MotifairError, match=r"--config .*a\.(toml|json)"):
        read_settings(path)


@pytest.mark.parametrize("name", ["a.toml", "a.json"])
def test_a_file_that_is_not_text_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xff\xfe\x00beta")
    with pytest.raises(MotifairError, match=r"--config .*a\.(toml|json)"):
        read_settings(path)


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match=r"--config .*none\.toml cannot be read"):
        read_settings(tmp_path / "none.toml")
    with pytest.raises(MotifairError, match=r"--config .* cannot be read"):
        read_settings(tmp_path)


def test_assignments_are_split_at_the_first_equals_sign() -> None:
    found = parse_assignments(["beta=2", " rounds = 3 ", "dataset=/a=b", "features="])
    assert found == {"beta": "2", "rounds": "3", "dataset": "/a=b", "features": ""}


def test_the_last_of_two_assignments_wins() -> None:
    assert parse_assignments(["beta=2", "beta=3"]) == {"beta": "3"}


@pytest.mark.parametrize("word", ["beta", "=2", "", "beta:2"])
def test_a_word_that_assigns_nothing_is_refused(word: str) -> None:
    with pytest.raises(MotifairError, match=r"--set takes key=value"):
        parse_assignments(["rounds=3", word])


@pytest.mark.parametrize(
    ("idle", "by"),
    [
        ({"tfidf": "smooth"}, "vocabulary_fraction"),
        ({"prototype_distance": "l2", "prototype_weight": 0}, "prototype_weight"),
        ({"prototype_reduce": "sum", "prototype_weight": 0}, "prototype_weight"),
        ({"corroboration": 3}, "diversity_weight"),
        ({"alignment_of": "gradient"}, "alignment_against"),
    ],
)
def test_an_option_that_another_one_takes_out_of_force_is_refused(
    idle: dict[str, object], by: str
) -> None:
    with pytest.raises(MotifairError, match=rf"With {by}=\S+ {next(iter(idle))} changes nothing"):
        refuse_unused(make_config(idle), idle)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "options", [{}, {"trial_rounds": 0}, {"initial_value": "equal"}, {"trial_rounds": 7}]
)
def test_options_that_are_left_out_where_the_paper_has_them_are_read_back(
    profile: str, options: dict[str, Any]
) -> None:
    config = make_config({"profile": profile, **options})
    again = make_config(config.to_json())
    assert (again.trial_rounds, again.initial_value) == (config.trial_rounds, config.initial_value)
    assert again.digest() == config.digest()
