"""What was paid and why: entries in a hash chain, their store, and their verification."""

from importlib.util import find_spec

from motifair.errors import MotifairError

for _needed in ("sqlalchemy", "alembic", "cryptography"):
    if find_spec(_needed) is None:
        raise MotifairError(
            f"A ledger needs {_needed}: install motifair with `pip install 'motifair[ledger]'`."
        )
