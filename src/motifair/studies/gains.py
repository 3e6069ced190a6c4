"""What dishonest agents gain: tables, a figure and sentences, from the outcomes of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from motifair.config import Config
from motifair.mechanism.bounds import MAX_SIZE_RATIO
from motifair.statements.audits import AuditTerms
from motifair.studies import drawing
from motifair.studies.attacks import Attack
from motifair.studies.intervals import with_interval

ALL = "all"
AUDITED = "default"  # the rule with fingerprints, which an audit asks for
EQUAL_SHARE = 1 / Config().agents  # of the budget of a round, which is 1 in all cases
ABOUT = ("dataset", "attacker", "rule", "attack")
# Vertical offset, colour and marker of a rule's dots.
DRAWN = {"literal": (-0.15, drawing.RED, "s"), "default": (0.15, drawing.BLUE, "o")}
MEASURES = ("payoff", "reward", "accuracy", "others", "server", "backdoor")


def compared(outcomes: pd.DataFrame, attacks: Sequence[Attack]) -> pd.DataFrame:
    """Compare attacks with honest runs on the same splits: a row for each attack, case and rule.

    For every measure it has the honest mean, and the mean difference with its interval over splits;
    with the dataset `all`, over the splits of all datasets. `audited` is the payoff less the fine
    that is expected where claims are audited, which needs fingerprints.
    """
    honest_name = {a.name: a.baseline.name for a in attacks}
    fine = {a.name: AuditTerms().expected_fine(a.invented) for a in attacks}
    named = outcomes.set_index(outcomes["dataset"] + " " + outcomes["split"].astype(str))
    groups = pd.concat([named, named.assign(dataset=ALL)]).groupby(list(ABOUT), sort=False)
    runs = dict(iter(groups))
    rows = []
    for keys, own in runs.items():
        *scenario, attack = keys
        if attack not in honest_name:
            continue
        honest = runs[(*scenario, honest_name[attack])]
        row: dict[str, Any] = dict(zip(ABOUT, keys, strict=True)) | {"splits": len(own)}
        for measure in MEASURES:
            row[f"honest_{measure}"] = float(honest[measure].mean())
            row |= with_interval(measure, own[measure] - honest[measure])
        left = 1 - fine[attack] if row["rule"] == AUDITED else 1.0
        row |= with_interval("audited", left * own["payoff"] - honest["payoff"])
        rows.append(row)
    return pd.DataFrame(rows)


def verdict(low: float, high: float) -> str:
    """Classify the interval of a difference.

    >>> verdict(0.1, 0.2), verdict(-0.1, 0.2), verdict(-0.2, -0.1), verdict(float("nan"), 0.0)
    ('gains', 'no difference', 'loses', 'unknown')
    """
    if low != low or high != high:
        return "unknown"
    return "gains" if low > 0 else "loses" if high < 0 else "no difference"


def relative(table: pd.DataFrame, of: str = "payoff") -> pd.DataFrame:
    """Return mean, low and high of the gain, in percent of the absolute honest payoff.

    Where that is less than an equal share, as of an agent that is paid nothing, of the latter. The
    gain is that of the `payoff`, or of the `audited` one.
    """
    ends = {"mean": of, "low": f"{of}_low", "high": f"{of}_high"}
    size = table["honest_payoff"].abs().clip(lower=EQUAL_SHARE)
    return pd.DataFrame({name: 100 * table[column] / size for name, column in ends.items()})


def gain_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each attack on the attacker's payoff per round."""
    low, high = table["payoff_low"], table["payoff_high"]
    return table[["attack", *ABOUT[:3], "splits"]].assign(
        honest=table["honest_payoff"],
        attacked=table["honest_payoff"] + table["payoff"],
        difference=table["payoff"],
        low=low,
        high=high,
        percent=relative(table)["mean"],
        verdict=[verdict(*ends) for ends in zip(low, high, strict=True)],
    )


def cheats_table(table: pd.DataFrame, attacks: Sequence[Attack]) -> pd.DataFrame:
    """Return what each attack is, brings and does to the others, over all datasets.

    `motifair check` has a copy of it: consortium/cheats.csv.
    """
    table = table[table["dataset"] == ALL]
    gain, audited = relative(table), relative(table, "audited")
    about = {a.name: (a.about, a.invented) for a in attacks}
    return pd.DataFrame(
        {
            "rule": table["rule"],
            "attack": table["attack"],
            "about": [about[name][0] for name in table["attack"]],
            "attacker": table["attacker"],
            "splits": table["splits"],
            "gain": gain["mean"],
            "gain_low": gain["low"],
            "gain_high": gain["high"],
            "audited": audited["mean"],
            "audited_low": audited["low"],
            "audited_high": audited["high"],
            "others": table["others"],
            "others_low": table["others_low"],
            "others_high": table["others_high"],
            "verdict": gain_table(table)["verdict"],
            "invented": [about[name][1] for name in table["attack"]],
        }
    )


def effects_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each attack on the attacker's reward and accuracy, the others and the
    server.

    For each measure: the honest mean, and the difference with its interval.
    """
    columns = [name for m in MEASURES[1:] for name in (f"honest_{m}", m, f"{m}_low", f"{m}_high")]
    return table[["attack", *ABOUT[:3], *columns]]


def gain_figure(table: pd.DataFrame) -> Figure:
    """Draw the relative gain of every attack over all datasets with its interval, by rule."""
    table = table[table["dataset"] == ALL]
    names = list(dict.fromkeys(table["attack"]))
    cases = list(dict.fromkeys(zip(table["dataset"], table["attacker"], strict=True)))
    height = 1.5 + 0.32 * len(names)
    figure, panels = drawing.panels(len(cases), width=2.5 + 2.6 * len(cases), height=height)
    for axes, (dataset, attacker) in zip(panels, cases, strict=True):
        here = table[(table["dataset"] == dataset) & (table["attacker"] == attacker)]
        for rule, (shift, colour, marker) in DRAWN.items():
            part = here[here["rule"] == rule]
            places = [names.index(a) + shift for a in part["attack"]]
            gain = relative(part)
            drawing.dots(axes, places, gain, label=rule, colour=colour, marker=marker)
        axes.axvline(0, color=drawing.BLACK, lw=0.8)
        axes.set_title(f"{attacker} agent", fontsize=10)
        axes.set_xlabel("gain in % of the honest payoff\nor of an equal share, if more")
        drawing.name_rows(axes, names if axes is panels[0] else [""] * len(names))
    drawing.legend_outside(figure, *panels)
    return figure


def notes(table: pd.DataFrame, seed: int) -> list[str]:
    """Describe the comparison, and list the attacks that pay, and those that harm the others."""
    words = [
        "One agent cheats, or two or three together; all others are honest. Shown is the payoff a "
        "round of the attackers (budget 1 a round) less that of the same agents on the same splits "
        "when they are honest, with Student's 95 % interval over splits, in percent of the latter, "
        "or of an equal share where that is more; dataset `all` has the splits of all datasets. Of "
        "so many intervals about one in twenty misses. Splits from seed "
        f"{seed} on, which served to choose nothing.",
        "The server is that of a deployed federation: numbers of graphs count at most "
        f"{MAX_SIZE_RATIO:g} times the median's, updates over ten times as long as usual, or not a "
        "tenth as long, are rejected, and rounds without an update are not paid.",
        "`literal` is the profile `paper` with prototype_weight=0: with the literal prototype term "
        "nothing is learnt. An attacker that joins under several names is paid for all of them; "
        "share of the reward and accuracy are means over its names. Attacks on gradients need a "
        "rule that asks for them. `backdoor` is the share of unseen graphs of other classes that "
        "the server's model puts into the first class when they have the trigger.",
        "`audited` is the gain less the fine that is expected by the audit of claims that terms "
        "have unless it is removed, as a member that is drawn cannot show invented graphs.",
    ]
    together = table[table["dataset"] == ALL]
    for (rule, kind), part in together.groupby(["rule", "attacker"], sort=False):
        gain = gain_table(part)
        paying = gain[gain["verdict"] == "gains"]
        words.append(
            f"Under {rule}, {kind} agent, {len(paying)} of {len(part)} attacks pay"
            + _listed(paying["attack"], paying["percent"], "{:+.1f} %")
        )
        if rule == AUDITED:
            left = part[part["audited_low"] > 0]
            words.append(
                f"With audits {len(left)} of them are left"
                + _listed(left["attack"], relative(left, "audited")["mean"], "{:+.1f} %")
            )
        harm = part[part["others_high"] < 0]
        words.append(
            f"Under {rule}, {kind} agent, {len(harm)} attacks lower the others' accuracy"
            + _listed(harm["attack"], harm["others"], "{:+.3f}")
        )
    return words


def _listed(names: Iterable[str], numbers: Iterable[float], form: str) -> str:
    parts = [f"{n} ({form.format(x)})" for n, x in zip(names, numbers, strict=True)]
    return f": {'; '.join(parts)}." if parts else "."
