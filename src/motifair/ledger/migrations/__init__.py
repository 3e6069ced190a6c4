"""The tables of a ledger, brought up to date step by step with alembic."""

from __future__ import annotations

from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from motifair.errors import MotifairError


def upgrade(connection: Connection, name: str) -> None:
    """Bring the tables up to date, in the caller's transaction."""
    context = MigrationContext.configure(connection)
    steps = _steps()
    ahead = _ahead(steps, context.get_current_revision(), name)
    with Operations.context(context):
        for revision in ahead:
            steps.get_revision(revision).module.upgrade()
            context.stamp(steps, revision)


def check(connection: Connection, name: str) -> None:
    """Refuse tables that this version cannot read."""
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        raise MotifairError(f"There is no ledger in {name}. Check the name.")
    if _ahead(_steps(), current, name):
        raise MotifairError(
            f"The ledger {name} was made by an older motifair (schema {current}). "
            "Start its server once with this version, which brings it up to date."
        )


def _steps() -> ScriptDirectory:
    return ScriptDirectory(Path(__file__).parent)


def _ahead(steps: ScriptDirectory, current: str | None, name: str) -> list[str]:
    """Return the steps that are still to be taken, first one first."""
    known = [step.revision for step in steps.walk_revisions()][::-1]
    if current is not None and current not in known:
        raise MotifairError(
            f"The ledger {name} was made by a newer motifair (schema {current}; this version knows "
            f"up to {known[-1]}). Update motifair."
        )
    return known if current is None else known[known.index(current) + 1 :]
