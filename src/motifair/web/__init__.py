"""The dashboard: a federation in a browser."""

from importlib.util import find_spec

from motifair.errors import MotifairError

for _needed in ("fastapi", "uvicorn"):
    if find_spec(_needed) is None:
        raise MotifairError(
            f"The dashboard needs {_needed}: install motifair with `pip install 'motifair[web]'`."
        )
