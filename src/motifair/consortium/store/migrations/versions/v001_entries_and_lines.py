"""Create the tables, and triggers that refuse to change rows.

The triggers protect against mistakes. Against those who may drop them there is the hash chain,
which `motifair ledger verify` checks.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "001"
down_revision = None

KEYS = {"entries": ("run", "number"), "lines": ("run", "number", "agent")}
REFUSAL = "a ledger is only ever added to"


def upgrade() -> None:
    """Create both tables."""
    _table(
        "entries",
        _text("run"),
        _whole("number"),
        _text("kind"),
        _whole("round"),
        _whole("settled"),
        _whole("budget"),
        _text("terms"),
        _text("previous"),
        _text("hash"),
    )
    _table(
        "lines",
        _text("run"),
        _whole("number"),
        _text("agent"),
        _text("status"),
        _text("reason"),
        _whole("value"),
        _whole("alignment", nullable=True),
        _whole("diversity", nullable=True),
        _whole("compensation"),
        _whole("kept"),
        _whole("payoff"),
        _text("upload"),
        _text("signature"),
        _text("hash"),
        sa.ForeignKeyConstraint(["run", "number"], ["entries.run", "entries.number"]),
    )
    for table in KEYS:
        _refuse_changes(table)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _whole(name: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=nullable)


def _table(name: str, *columns: sa.schema.SchemaItem) -> None:
    # STRICT: without it SQLite would accept a float or a text in a column of whole numbers.
    op.create_table(name, *columns, sa.PrimaryKeyConstraint(*KEYS[name]), sqlite_strict=True)


def _refuse_changes(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        there = " AND ".join(f"{key} = NEW.{key}" for key in KEYS[table])
        for event, when in {
            "UPDATE": "",
            "DELETE": "",
            # INSERT OR REPLACE deletes without firing a trigger for DELETE
            "INSERT": f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {there})",
        }.items():
            op.execute(
                f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table} {when} "
                f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            )
        return
    op.execute(
        f"CREATE OR REPLACE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
    )
