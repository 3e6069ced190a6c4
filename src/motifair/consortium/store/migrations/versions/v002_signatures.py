"""Add the operator's signature to each entry; entries of motifair 0.1 have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"


def upgrade() -> None:
    """Add the column."""
    op.add_column("entries", sa.Column("signature", sa.Text, nullable=False, server_default=""))
