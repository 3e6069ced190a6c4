"""The ledger's database: SQLite or PostgreSQL through SQLAlchemy, and its exports."""
