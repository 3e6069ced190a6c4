"""Extend runs and comparisons: more rounds in the same folder, the same result as in one go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from motifair.errors import MotifairError
from motifair.experiments.comparison import is_comparison, read_compared
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
    if rounds != plan.config.rounds and (out.parent / "baselines").is_dir():
        instead = f"run that again with {rounds} rounds into another folder."
        if is_comparison(out.parent):
            instead = f"extend all of them: motifair resume {out.parent} --rounds {rounds}"
        raise MotifairError(
            f"{out} is part of the comparison or sweep in {out.parent}, whose runs have equally "
            f"many rounds; {instead}"
        )
    longer = _lengthen(plan, out, out, rounds)
    if longer is not plan:
        _write(longer, out)
    return longer


def extend_comparison(folder: Path, rounds: int | None = None) -> tuple[dict[str, Plan], str]:
    """Make the comparison in a folder one of `rounds` rounds; return its plans by method, and its
    baseline, for `execute_all`.

    Without `rounds` it continues an extension that was interrupted. All runs are checked before
    one is changed, and one that was extended already stays as it is.
    """
    methods, baseline = read_compared(folder)
    plans = {name: read_plan(folder / name) for name in methods}
    wanted = rounds or max(plan.config.rounds for plan in plans.values())
    longer = {
        name: _lengthen(plan, folder / name, folder / "baselines", wanted)
        for name, plan in plans.items()
    }
    for name, plan in longer.items():
        if plan is not plans[name]:
            _write(plan, folder / name)
    return longer, baseline


def _lengthen(plan: Plan, out: Path, baselines: Path, rounds: int) -> Plan:
    """Return the plan of a run with so many rounds; refuse one that cannot continue to there."""
    if rounds == plan.config.rounds:
        return plan
    if rounds < plan.config.rounds:
        raise MotifairError(
            f"The run in {out} has {plan.config.rounds} rounds; --rounds takes more, not {rounds}."
        )
    longer = replace(plan, config=replace(plan.config, rounds=rounds))
    judged, wanted = (make_method(p.config).trial_rounds for p in (plan, longer))
    if judged != wanted:
        raise MotifairError(
            f"Peers judged the agents of {out} after {judged} rounds alone, those of a run of "
            f"{rounds} rounds are judged after {wanted}; run again with {rounds} rounds into "
            "another folder."
        )
    for job in list_jobs(longer, out, baselines):
        if job.path is not None and job.path.exists() and not can_continue(job.path):
            raise MotifairError(
                f"{job.path} has models without the optimiser's moments, from which training "
                f"cannot continue; run again with {rounds} rounds into another folder."
            )
    return longer


def _write(longer: Plan, out: Path) -> None:
    with locked(out):
        for name in RESULTS:
            (out / name).unlink(missing_ok=True)
        write_config(out, longer.config, longer.environment(), longer.inputs.to_json())
