"""Add the hash of the server's position to each entry; older entries have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "003"
down_revision = "002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("entries", sa.Column("position", sa.Text, nullable=False, server_default=""))
