"""Extend a run: more rounds in the same folder, equal to a run of so many from the start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from motifair.errors import MotifairError
from motifair.experiments.jobs import list_jobs
from motifair.experiments.plan import Plan, read_plan, write_config
from motifair.experiments.run import locked
from motifair.federation.state import can_continue
from motifair.methods import make_method

RESULTS = ("summary.json", "overview.png")  # of the shorter run; tables are written over


def extend(out: Path, rounds: int) -> Plan:
    """Make the run in a folder one of `rounds` rounds, and return its plan, for `execute`.

    The result of the shorter run goes first, so that a folder whose extension is interrupted at
    any instant is an unfinished run, of the old or of the new number of rounds.
    """
    plan = read_plan(out)
    if rounds == plan.config.rounds:
        return plan
    _check(plan, out, rounds)
    longer = replace(plan, config=replace(plan.config, rounds=rounds))
    judged, wanted = (make_method(p.config).trial_rounds for p in (plan, longer))
    if judged != wanted:
        raise MotifairError(
            f"Peers judged the agents of {out} after {judged} rounds alone, those of a run of "
            f"{rounds} rounds are judged after {wanted}; run again with {rounds} rounds into "
            "another folder."
        )
    with locked(out):
        for job in list_jobs(longer, out, out):
            if job.path is not None and job.path.exists() and not can_continue(job.path):
                raise MotifairError(
                    f"{job.path} has models without the optimiser's moments, from which training "
                    f"cannot continue; run again with {rounds} rounds into another folder."
                )
        for name in RESULTS:
            (out / name).unlink(missing_ok=True)
        write_config(out, longer.config, longer.environment(), longer.inputs.to_json())
    return longer


def _check(plan: Plan, out: Path, rounds: int) -> None:
    if rounds < plan.config.rounds:
        raise MotifairError(
            f"The run in {out} has {plan.config.rounds} rounds; --rounds takes more, not {rounds}."
        )
    if (out.parent / "baselines").is_dir():
        raise MotifairError(
            f"{out} is part of the comparison or sweep in {out.parent}, whose runs have equally "
            f"many rounds; run that again with {rounds} rounds into another folder."
        )
