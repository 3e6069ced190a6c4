"""Sentences of a statement: how members are paid, what is unknown, how to verify it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from statistics import median_low

from motifair.evaluation.metrics import find_metric
from motifair.statements.attribution import valued_by
from motifair.statements.entry import AgreedTerms

# By what the alignments of a ledger are: what they add to a value, and what a `lean` is.
ALIGNED = {
    "alignment": "agreement of its updates with the members' data",
    "coverage": "what its graphs are worth to the others, as far as its updates stand for them",
}
LEANED_ON = {
    "alignment": (
        "Its share of the aligned part of the aggregated update: the weight of its update times "
        "the alignment of that update where it is positive, divided by the sum of this over all "
        "members."
    ),
    "coverage": (
        "Its share of the round's coverage: what its graphs are worth to the others as far as its "
        "update is of the usual length and near enough to everybody's, divided by the sum of this "
        "over all members."
    ),
}
NEVER_LEANED_ON = {
    "alignment": "In no round: none of its updates was aligned with the others'.",
    "coverage": "In no round: its graphs brought the others nothing, or no update stood for them.",
}

LATE = "late:"  # begins the reason of an absence: an answer came, after most others
LIMITED = "penalty limited by what the terms allow"  # and then "per round" or "in total"


def alignment_kind(terms: AgreedTerms) -> str:
    """Return what the alignments under these terms are: `coverage` or `alignment`."""
    rule = valued_by(terms)
    covers = rule is not None and rule.config.alignment_against == "coverage"
    return "coverage" if covers else "alignment"


def is_judged(terms: AgreedTerms) -> bool:
    """Return whether peers judged a model of each member before its first round."""
    rule = valued_by(terms)
    return rule is not None and rule.trial_rounds > 0


def how_paid(terms: AgreedTerms) -> str:
    """Explain how members are paid under these terms."""
    if terms.pays == "equal":
        return (
            f"Under {terms.method} all members present are paid the same, so the whole payoff is "
            "an equal share."
        )
    rule = valued_by(terms)
    if rule is None:
        return (
            f"Method {terms.method} values members by its own rule, so a payoff is divided into "
            "value and compensation only."
        )
    judged = (
        "Before its first round each member's peers judged a model that it trained alone: with the "
        "number of its graphs that count, this says what they are worth. "
    )
    first = rule.config.initial_value == "evidence"
    start = (
        "with what a member's first round shows, for who joins later also with what its graphs are "
        "worth"
        if first
        else "equal for all"
    )
    added = alignment_kind(terms)
    if rule.config.diversity_weight > 0:
        added += " and diversity"
    return (
        f"{judged if is_judged(terms) else ''}A round pays its budget in proportion to value and "
        f"compensation. The value is carried from round to round: it starts {start}, each round "
        f"adds {added}, and all values are scaled to add up to 1. Each part is carried in the same "
        "way. A negative amount is a part that lowered the value. In a round without an accepted "
        "upload nothing is learned about a member, and its value stays as it was."
    )


def what_limits_changed(
    rounds: Sequence[tuple[str, str]], graphs: int | None, counted: float | None
) -> Iterator[str]:
    """Yield a sentence for each defence of the terms that changed what a member was paid.

    `rounds` has its status and the note of each round, `graphs` and `counted` how many graphs it
    has and how many of them count.

    >>> list(what_limits_changed([("rejected", ""), ("present", "")], 40, 40.0))
    ['Uploads of 1 round were rejected by the limits on uploads, which is not paid.']
    """
    statuses = [status for status, _ in rounds]
    late = sum(f"({LATE}" in note for _, note in rounds)
    for count, why in (
        (statuses.count("rejected"), "rejected by the limits on uploads"),
        (statuses.count("absent") - late, "missing"),
        (late, "late by the terms' max_time_ratio"),
    ):
        if count:
            word = "round" if count == 1 else "rounds"
            yield f"Uploads of {count} {word} were {why}, which is not paid."
    if limited := sum(LIMITED in note for _, note in rounds):
        word = "round" if limited == 1 else "rounds"
        yield f"The terms' limits on penalties reduced those of {limited} {word}."
    if graphs is not None and counted is not None and counted < 0.995 * graphs:
        yield (
            f"Of its {graphs} graphs {counted:.1f} count in weights and values: no member's count "
            "more than the terms' max_size_ratio times the median's and, with size = believed, "
            "copies, graphs that others have too, and graphs wired as by chance count less."
        )


def what_was_withheld(amount: str, terms: AgreedTerms) -> Iterator[str]:
    """Yield where the share of rounds went in which a member was not paid, if to a reserve."""
    if terms.reserve and Decimal(amount):
        yield (
            f"Its share of rounds without an accepted upload, {amount} {terms.currency}, went to "
            f"the reserve, which {terms.reserve} holds by the terms."
        )


def what_an_audit_said(notes: Sequence[str], terms: AgreedTerms, last: str) -> Iterator[str]:
    """Yield what the audit of claims found, or that it is to come; `last` is the last entry's
    kind.
    """
    for note in notes:
        yield f"{note[0].upper()}{note[1:]}."
    if terms.audit and last != "audit":
        yield (
            "What was paid is due after the audit of claims that the terms agree on, which is not "
            "recorded yet."
        )


def how_long(agent: str, seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield how long a member's answers took beside everybody's, from the median of each member.

    >>> list(how_long("c", {"a": 2.0, "b": 3.0, "c": 41.23}))
    ["Its answers took 41.2 s in the median round, the median member's 3.0 s."]
    """
    if agent in seconds:
        yield (
            f"Its answers took {seconds[agent]:.1f} s in the median round, the median member's "
            f"{median_low(seconds.values()):.1f} s."
        )


def what_is_unknown(
    members: Sequence[str], graphs: Mapping[str, int], alignments: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence about members whose numbers of graphs are unknown."""
    missing = [name for name in members if name not in graphs]
    if missing:
        of = "members" if len(missing) == len(members) else ", ".join(missing)
        weighted = ", and updates are weighted by value" if "alignment" in alignments else ""
        yield (
            f"The numbers of graphs of {of} are unknown here, so there is no payoff by the "
            f"Shapley rule{weighted}."
        )


def how_to_verify(
    run: str, agent: str, ledger: str | None, folder: str | None
) -> tuple[tuple[str, str], ...]:
    """Return (command, what it does) by which a reader can verify the statement."""
    # A member gets this: it has no use for the folders of the operator's machine.
    where = ledger or "LEDGER"
    where = shlex.quote(without_password(where) if "://" in where else Path(where).name)
    place = shlex.quote(Path(folder).resolve().name if folder else "FOLDER")
    about = f"--name {shlex.quote(run)} --agent {shlex.quote(agent)}"
    return (
        (
            f"motifair ledger verify --ledger {where} --heads HEADS --operator-key KEY",
            "Recomputes chain, payoffs and signatures. HEADS is the file of heads that your agent "
            "kept, KEY is local/operator.pub of your kit; the head must be the one below.",
        ),
        (
            f"motifair ledger audit --folder {place} --run {shlex.quote(run)}",
            "For those who have the uploads: recomputes every value from what members sent.",
        ),
        (
            f"motifair statement --ledger {where} {about} --format json",
            "Makes this statement again, with the hash of each round's entry.",
        ),
    )


def how_to_repeat(agent: str, folder: str | None, split: int) -> tuple[tuple[str, str], ...]:
    """Return the command that repeats the statement of a simulated run, which has no ledger."""
    place = shlex.quote(folder or "FOLDER") + (f" --split {split}" if split else "")
    return (
        (
            f"motifair statement --run {place} --agent {shlex.quote(agent)} --format json",
            "This run was simulated: there is no ledger, and all of this follows from the values "
            "that the run recorded. The command gives the same numbers and the same head again.",
        ),
    )


def besides_money(received: float | None, accuracy: float | None, metric: str) -> str:
    """Say what a member got in addition to its payoff; '' where nothing is known.

    `accuracy` is the score of its model by the `metric`.

    >>> besides_money(0.25, 0.9, "accuracy")
    "Besides money you got 25 % of the federation's updates and a model of accuracy 0.900."
    """
    got = [] if received is None else [f"{100 * received:.0f} % of the federation's updates"]
    judged = find_metric(metric)
    got += [] if accuracy is None else [f"a model of {judged.words} {judged.sign * accuracy:.3f}"]
    return f"Besides money you got {' and '.join(got)}." if got else ""


def without_password(ledger: str) -> str:
    """Return a ledger's URL without its password.

    >>> without_password("postgresql://server:secret@host/db"), without_password("ledger.sqlite")
    ('postgresql://server@host/db', 'ledger.sqlite')
    """
    plain = re.sub(r"^([a-z+0-9]+://[^:/@]*):.*@", r"\1@", ledger)
    return re.sub(r"([?&])password=[^&]*&?", r"\1", plain).rstrip("?&")
