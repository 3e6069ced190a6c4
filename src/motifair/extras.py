"""Optional dependencies: which extra installs a package, and the error if it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from motifair.errors import MotifairError

_LEDGER = ("sqlalchemy", "alembic", "cryptography")
# Packages that every use of an extra needs: not psycopg and pyarrow, which only some ledgers need.
MODULES = {
    "ledger": _LEDGER,
    "federation": ("nvflare", "psutil", *_LEDGER),
    "web": ("fastapi", "uvicorn", *_LEDGER),
    "pdf": ("weasyprint",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "privacy": ("opacus",),
    "studies": ("sklearn",),
    "chem": ("rdkit",),
}


def require(extra: str, what: str, *modules: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Args:
        extra: Name of the extra, a key of `MODULES`.
        what: Subject of the error sentence, in the singular: the feature that was asked for.
        modules: Top-level modules to check; by default all of `MODULES[extra]`.

    Raises:
        MotifairError: If a module is missing; the sentence names the command that installs it.
    """
    for module in modules or MODULES[extra]:
        if find_spec(module) is None:
            raise missing(extra, what, module)


def missing(extra: str, what: str, module: str | None) -> MotifairError:
    """Return the error for a module that is not installed and that `extra` would install.

    `module` may be the `name` of a `ModuleNotFoundError`.

    >>> print(missing("web", "The page", "fastapi"))
    The page needs fastapi; run pip install 'motifair[web]', or pip install '.[web]' in a checkout.
    """
    package = (module or extra).partition(".")[0]
    return MotifairError(f"{what} needs {package}; run {install(extra)}.")


def install(extra: str) -> str:
    """Return the commands that install an extra, from a package index and from a checkout."""
    return f"pip install 'motifair[{extra}]', or pip install '.[{extra}]' in a checkout"
