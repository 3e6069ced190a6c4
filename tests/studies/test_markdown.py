"""Tables for people: nothing of the numbers is lost, and what belongs together stands together."""

from __future__ import annotations

import math

import pandas as pd

from motifair.studies.markdown import markdown


def rows(text: str) -> list[list[str]]:
    """Return the cells of all lines but those that rule off headers."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_whole_numbers_have_no_digits_even_beside_others() -> None:
    table = pd.DataFrame({"splits": [20, 30], "mean": [0.5, math.nan]})
    assert rows(markdown(table))[1:] == [["20", "0.500"], ["30", "-"]]


def test_intervals_stand_behind_their_numbers() -> None:
    table = pd.DataFrame(
        {
            "who": ["a", "b"],
            "pay": [0.25, math.nan],
            "pay_low": [-0.0001, math.nan],
            "pay_high": [0.5, math.nan],
            "lost": [1.0, 2.0],
            "lost_low": [0.5, math.nan],
            "mean": [3.0, 4.0],
            "low": [2.0, 3.0],
            "high": [4.0, 5.0],
            "p": [0.0004, 0.25],
            "holds": [True, False],
        }
    )
    assert rows(markdown(table)) == [
        ["who", "pay", "lost", "mean", "p", "holds"],
        ["a", "0.250 [0.000, 0.500]", "1.000 [0.500, …]", "3.000 [2.000, 4.000]", "< 0.001", "yes"],
        ["b", "-", "2.000", "4.000 [3.000, 5.000]", "0.250", "no"],
    ]


def test_tiers_called_low_and_high_are_no_interval() -> None:
    table = pd.DataFrame({"variant": ["a"], "low": [0.1], "medium": [0.2], "high": [0.3]})
    assert rows(markdown(table))[1] == ["a", "0.100", "0.200", "0.300"]


def long_table() -> pd.DataFrame:
    """Two methods by two metrics, as studies make them; one metric is defined on fewer splits."""
    content = [
        # method, metric, splits, mean, difference, p, published
        ("fedavg", "accuracy", 20, 0.70, 0.00, math.nan, 0.75),
        ("fedavg", "fairness", 19, 0.50, 0.00, math.nan, math.nan),
        ("ours", "accuracy", 20, 0.72, 0.02, 0.2, math.nan),
        ("ours", "fairness", 18, 0.80, 0.30, 0.01, 0.78),
    ]
    names = ["method", "metric", "splits", "mean", "difference", "p_holm", "published"]
    table = pd.DataFrame(content, columns=names)
    for number, prefix in (("mean", ""), ("difference", "difference_")):
        at = table.columns.get_loc(number)
        table.insert(at + 1, f"{prefix}low", table[number] - 0.1)
        table.insert(at + 2, f"{prefix}high", table[number] + 0.1)
    return table.assign(published_std=0.1)


def test_metrics_stand_side_by_side_in_a_table_for_each_number() -> None:
    found = markdown(long_table())
    assert rows(found) == [
        ["method", "accuracy", "fairness"],
        ["fedavg", "0.700 [0.600, 0.800] (0.750)", "0.500 [0.400, 0.600]"],
        ["ours", "0.720 [0.620, 0.820]", "0.800 [0.700, 0.900] (0.780)"],
        ["method", "accuracy", "fairness"],
        ["fedavg", "0.000 [-0.100, 0.100]", "0.000 [-0.100, 0.100]"],
        ["ours", "0.020 [-0.080, 0.120]", "0.300 [0.200, 0.400]*"],
    ]
    assert found.startswith("Mean, by metric (in parentheses: published):")
    assert "Difference, by metric (* p < 0.05 after Holm's correction):" in found


def test_another_column_may_be_spread_and_what_is_missing_is_a_dash() -> None:
    table = pd.DataFrame(
        {
            "rule": ["a", "a", "b"],
            "tier": ["low", "high", "high"],
            "pay": [0.1, 0.2, 0.3],
            "pay_low": [0.0, 0.1, 0.2],
            "pay_high": [0.2, 0.3, 0.4],
        }
    )
    assert rows(markdown(table, "tier")) == [
        ["rule", "low", "high"],
        ["a", "0.100 [0.000, 0.200]", "0.200 [0.100, 0.300]"],
        ["b", "-", "0.300 [0.200, 0.400]"],
    ]
