"""Migrations of a ledger's tables, with alembic."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from motifair.errors import MotifairError

READABLE = ("001", "002")  # older schemas that can be read without migration


def upgrade(connection: Connection, name: str) -> str:
    """Migrate the tables in the caller's transaction; return their revision."""
    context = MigrationContext.configure(connection)
    steps = _steps()
    current = context.get_current_revision()
    ahead = _ahead(steps, current, name)
    try:
        with Operations.context(context):
            for revision in ahead:
                steps.get_revision(revision).module.upgrade()
                context.stamp(steps, revision)
    except ProgrammingError as error:
        if current is None:
            raise
        raise MotifairError(
            f"The ledger {name} was made by an older motifair (schema {current}), and this user of "
            "the database may not change its tables. Start the run once with the URL of the owner "
            "of the tables in federation.toml, which migrates it."
        ) from error
    return str(steps.get_current_head())


def check(connection: Connection, name: str) -> str:
    """Refuse tables that this version cannot read; return their revision."""
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        raise MotifairError(f"There is no ledger in {name}. Check the name.")
    if _ahead(_steps(), current, name) and current not in READABLE:
        raise MotifairError(
            f"The ledger {name} was made by an older motifair (schema {current}). "
            "Start its server once with this version, which migrates it."
        )
    return current


def _steps() -> ScriptDirectory:
    return _steps_in(Path(__file__).parent)


@cache  # who waits for a run opens its ledger again and again
def _steps_in(folder: Path) -> ScriptDirectory:
    return ScriptDirectory(folder)


def _ahead(steps: ScriptDirectory, current: str | None, name: str) -> list[str]:
    """Return the pending migrations, in order."""
    known = [step.revision for step in steps.walk_revisions()][::-1]
    if current is not None and current not in known:
        raise MotifairError(
            f"The ledger {name} was made by a newer motifair (schema {current}; this version knows "
            f"up to {known[-1]}). Update motifair."
        )
    return known if current is None else known[known.index(current) + 1 :]
