"""The attacks of the study of manipulation, each in a few lines."""

from __future__ import annotations

from functools import partial

import motifair.studies.attacks.claims as claims
import motifair.studies.attacks.graphs as graphs
import motifair.studies.attacks.judging as judging
import motifair.studies.attacks.rounds as rounds
import motifair.studies.attacks.uploads as uploads
from motifair.studies.attacks.contract import Attack


def _names(names: int, word: str, *, same: bool) -> Attack:
    how = "all of them with the same graphs" if same else "each with a part of its graphs"
    return Attack(
        f"join as {word}{', same graphs' if same else ''}",
        f"joins under {word} names, {how}",
        split=partial(graphs.under_names, names=names, same=same),
    )


ATTACKS = (
    # Graphs
    Attack("renumber nodes", "numbers the nodes of its graphs anew", split=graphs.renumbered),
    Attack(
        "10 % more edges",
        "adds a tenth of random edges to its graphs",
        split=partial(graphs.with_edges, more=0.1),
    ),
    Attack(
        "50 % more edges",
        "adds half as many random edges to its graphs",
        split=partial(graphs.with_edges, more=0.5),
    ),
    Attack("duplicate graphs", "trains on each of its graphs twice", split=graphs.duplicated),
    Attack(
        "duplicate graphs, new fingerprints",
        "the same, and says that they are different graphs",
        split=graphs.duplicated,
        members=claims.with_new_fingerprints,
        invented=1.0,
    ),
    Attack(
        "made-up graphs, all reports false",
        "has random graphs and classes, and reports another's wiring and new fingerprints",
        split=graphs.made_up,
        members=claims.with_wiring_of_other,
        invented=1.0,
    ),
    Attack(
        "backdoor",
        "puts a clique of five nodes into half of its graphs, with the first class on them",
        split=graphs.backdoored,
    ),
    # Names
    *(_names(k, word, same=False) for k, word in ((2, "two"), (3, "three"), (5, "five"))),
    *(_names(k, word, same=True) for k, word in ((2, "two"), (3, "three"), (5, "five"))),
    Attack(
        "join as two, invent keys",
        "joins under two names that confirm each other's invented motifs",
        split=partial(graphs.under_names, names=2, same=False),
        members=claims.inventing,
    ),
    Attack(
        "come back under a new name",
        "leaves after each third of the rounds and joins again under a new name",
        server=rounds.renamed,
    ),
    # Claims
    Attack("invent keys", "claims motifs that nobody has", members=claims.inventing),
    Attack("claim all keys", "claims all motifs that anybody has", members=claims.claiming_all),
    Attack(
        "claim ten times the graphs",
        "claims ten times the graphs, with invented fingerprints",
        members=partial(claims.claiming, times=10),
        invented=0.9,
    ),
    Attack(
        "claim ten times the graphs, send nothing",
        "the same, without ever sending an update",
        members=partial(claims.claiming, times=10),
        invented=0.9,
        away=rounds.always,
    ),
    Attack(
        "fingerprints of another",
        "says that its graphs are those of another agent",
        members=claims.with_fingerprints_of_other,
        invented=1.0,
    ),
    Attack(
        "fingerprints of all others",
        "claims all others' graphs beside its own, so that no stranger can judge its model",
        members=claims.with_fingerprints_of_all,
    ),
    # Judgements
    *(
        Attack(
            f"show a model {times} as sure",
            f"multiplies the log-odds of the model that peers judge by {by:g}",
            shown=partial(judging.surer, by=by),
        )
        for times, by in (("two thirds", 2 / 3), ("half", 0.5), ("a quarter", 0.25), ("twice", 2))
    ),
    Attack("run down all others", "says that all others' models swap classes",
           judgement=judging.running_down),
    Attack("praise all models", "says that all models are excellent", judgement=judging.praising),
    # Updates
    Attack("update × 10", "sends ten times its update", uploads=partial(uploads.scaled, by=10.0)),
    Attack("update × 0.5", "sends half its update", uploads=partial(uploads.scaled, by=0.5)),
    Attack("update × 0.1", "sends a tenth of it", uploads=partial(uploads.scaled, by=0.1)),
    Attack(
        "update × 100", "sends a hundred times its update", uploads=partial(uploads.scaled, by=100)
    ),
    Attack("update reversed", "reverses its update", uploads=partial(uploads.scaled, by=-1.0)),
    Attack(
        "update reversed, length 999, in the last round",
        "sends the reverse of its update at length 999 when nothing can follow",
        uploads=uploads.only(rounds.last_round, partial(uploads.reversed_far, length=999.0)),
    ),
    Attack(
        "update reversed, length 999",
        "the same in all rounds",
        uploads=partial(uploads.reversed_far, length=999.0),
    ),
    Attack(
        "update reversed after a third",
        "is honest for a third of the rounds, and reverses its updates then",
        uploads=uploads.only(rounds.after_a_third, partial(uploads.scaled, by=-1.0)),
    ),
    # Updates without work
    Attack("replay the first upload", "sends its first upload again", uploads=uploads.replayed),
    Attack("copy another", "sends another's upload of the same round", uploads=uploads.copied),
    Attack(
        "copy another, a round late",
        "sends another's upload of the round before",
        uploads=uploads.copied_late,
    ),
    Attack(
        "echo the reward",
        "sends what it received in the round before, without training",
        uploads=uploads.echoed,
    ),
    Attack(
        "mix in the reward",
        "sends the mean of its update and of what it received, to be nearer to the aggregate",
        uploads=uploads.mixed,
    ),
    Attack("send noise", "sends random numbers of the usual length", uploads=uploads.noise),
    Attack("send noise, half as long", "sends random numbers of half the usual length",
           uploads=partial(uploads.noise, by=0.5)),
    Attack("send noise after a third", "is honest for a third of the rounds, and sends noise then",
           uploads=uploads.only(rounds.after_a_third, uploads.noise)),
    # Attendance
    Attack("send nothing", "never sends anything", away=rounds.always),
    Attack("send nothing every other round", "is there in every other round only",
           away=rounds.every_other),
    Attack("hold back for a third", "joins in after a third of the rounds",
           away=rounds.first_third),
    Attack("send nothing after a third", "stops after a third of the rounds",
           away=rounds.after_a_third),
    Attack("leave halfway", "takes the model and leaves after half of the rounds",
           away=rounds.second_half),
    Attack("stay away after bad rounds", "is absent after each round with a negative alignment",
           away=rounds.after_a_bad_round),
    # Collusion
    Attack("two average their updates", "two agents send the mean of their updates",
           uploads=uploads.averaged, partners=1),
    Attack("three average their updates", "three agents do so",
           uploads=uploads.averaged, partners=2),
    Attack("two run down all others", "two agents say so, and praise each other's models",
           judgement=judging.running_down, partners=1),
    Attack("three run down all others", "three agents do so",
           judgement=judging.running_down, partners=2),
    Attack("two praise each other", "two agents say that all models are excellent, theirs most",
           judgement=judging.praising, partners=1),
    Attack("three praise each other", "three agents do so",
           judgement=judging.praising, partners=2),
    Attack("two reverse their updates", "two agents send the reverse of their updates",
           uploads=partial(uploads.scaled, by=-1.0), partners=1),
    # Votes
    Attack("gradient of another", "votes with another's gradient",
           uploads=uploads.gradient_of_other, by_gradient=True),
    Attack("gradient negated", "votes against agents like itself",
           uploads=uploads.gradient_negated, by_gradient=True),
    Attack("gradient for the aggregate", "votes for agents near the aggregate",
           uploads=partial(uploads.gradient_of_aggregate, sign=-1.0), by_gradient=True),
    Attack("gradient against the aggregate", "votes against agents near the aggregate",
           uploads=partial(uploads.gradient_of_aggregate, sign=1.0), by_gradient=True),
)  # fmt: skip
