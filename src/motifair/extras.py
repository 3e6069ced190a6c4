"""Optional dependencies: which extra brings a package, and the one sentence for a missing one."""

from __future__ import annotations

from importlib.util import find_spec

from motifair.errors import MotifairError

_LEDGER = ("sqlalchemy", "alembic", "cryptography")
# What an extra is useless without: not psycopg and pyarrow, which only some ledgers need.
MODULES = {
    "ledger": _LEDGER,
    "federation": ("nvflare", "psutil", *_LEDGER),
    "web": ("fastapi", "uvicorn", *_LEDGER),
    "pdf": ("weasyprint",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "privacy": ("opacus",),
    "studies": ("sklearn",),
}


def require(extra: str, what: str, *modules: str) -> None:
    """Raise unless `modules` (default: all that `extra` brings) can be imported; import none.

    `what` begins the sentence: what the user asked for, in the singular.
    """
    for module in modules or MODULES[extra]:
        if find_spec(module) is None:
            raise missing(extra, what, module)


def missing(extra: str, what: str, module: str | None) -> MotifairError:
    """Return the error for a module that is not installed and that `extra` would bring.

    `module` may be the `name` of a ModuleNotFoundError.

    >>> print(missing("web", "The page", "fastapi"))
    The page needs fastapi; run pip install 'motifair[web]', or pip install '.[web]' in a checkout.
    """
    package = (module or extra).partition(".")[0]
    return MotifairError(f"{what} needs {package}; run {install(extra)}.")


def install(extra: str) -> str:
    """Return the command that installs an extra, from an index and from a checkout."""
    return f"pip install 'motifair[{extra}]', or pip install '.[{extra}]' in a checkout"
