"""Networks of the user, by name: functions or classes that make a `torch.nn.Module`.

A configuration, a run's folder and the terms of a federation hold a name, `package.module:name`.
What was given in Python and cannot be imported has a name that this process alone knows.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import Module

from motifair.errors import MotifairError

SIZES = ("width", "outputs", "edges", "hidden", "layers", "dropout")  # what a factory may ask for
PYTHON = "python"  # in the place of the module of what cannot be imported
# Held while torch's one generator has the seed of a module or of a pass.
GENERATOR = threading.Lock()
_GIVEN: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Factory:
    """Makes a network of the user.

    Attributes:
        name: `package.module:name`, or `python:name-digest` of what was given in Python.
        make: The function or class.
        takes: Which of `SIZES` are its arguments.
    """

    name: str
    make: Callable[..., Any]
    takes: tuple[str, ...]

    def __call__(self, seed: int, sizes: Mapping[str, float]) -> Module:
        """Make the module with initial weights that follow from the seed."""
        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                made = self.make(**{name: sizes[name] for name in self.takes})
            except MotifairError:
                raise
            except Exception as error:
                raise MotifairError(
                    f"The model {self.name} cannot be made ({_words(error)}); it was called with "
                    f"{', '.join(f'{n}={sizes[n]}' for n in self.takes) or 'nothing'}."
                ) from error
        if not isinstance(made, Module):
            raise MotifairError(
                f"The model {self.name} made a {type(made).__name__}; it must return a "
                "torch.nn.Module."
            )
        return made


def find_factory(name: str) -> Factory:
    """Return the factory of a name in a configuration; import it unless it was given in Python."""
    name = name.partition("#")[0]
    make = _GIVEN.get(name)
    return _factory(name, make if make is not None else _import(name))


def name_model(model: Any) -> str:
    """Return the name of a model for a configuration, and remember what cannot be imported.

    Args:
        model: A name; a class or function that makes a module; or a module, whose weights are then
            drawn again for each seed.

    >>> name_model("torch_geometric.nn:MLP")
    'torch_geometric.nn:MLP'
    """
    if isinstance(model, str):
        return model
    if not callable(model):
        raise MotifairError(
            f"model takes a torch.nn.Module, a class or function that makes one, or its name "
            f"package.module:name, not {type(model).__name__}."
        )
    about = type(model) if isinstance(model, Module) else model
    called = getattr(about, "__qualname__", type(about).__name__)
    path = f"{getattr(about, '__module__', PYTHON)}:{called}"
    if about is model and not path.startswith("__main__") and _imports(path, model):
        return path
    digest = hashlib.sha256(_description(model, about).encode()).hexdigest()[:8]
    name = f"{PYTHON}:{called.rpartition('.')[2]}-{digest}"
    _GIVEN[name] = _redrawn(model, called) if isinstance(model, Module) else model
    return name


def is_known(name: str) -> bool:
    """Whether a model can be made in this process: it can be imported, or was given here."""
    return not name.startswith(f"{PYTHON}:") or name in _GIVEN


def _factory(name: str, make: Callable[..., Any]) -> Factory:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError) as error:
        raise MotifairError(f"The model {name} is no class or function with arguments.") from error
    for p in parameters:
        required = p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if required and (p.name not in SIZES or p.kind is p.POSITIONAL_ONLY):
            raise MotifairError(
                f"The model {name} needs the argument {p.name}; give it a default. By name it is "
                f"given {', '.join(SIZES)}, as far as it has such arguments."
            )
    return Factory(name, make, tuple(p.name for p in parameters if p.name in SIZES))


def _import(name: str) -> Callable[..., Any]:
    """Import what `package.module:name` names."""
    module, _, path = name.partition(":")
    if module == PYTHON:
        raise MotifairError(
            f"The model {name} was given in Python; call motifair.run with the same model again, "
            "or put it into a package."
        )
    if not path or not all(part.isidentifier() for part in (module + "." + path).split(".")):
        raise MotifairError(f"model takes package.module:name, not '{name}'.")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise MotifairError(
            f"The model {name} cannot be imported ({_words(error)}); install its package in this "
            "Python, or correct the name."
        ) from error
    if not callable(found):
        raise MotifairError(f"The model {name} is no class or function; name one that makes it.")
    return _redrawn(found, name) if isinstance(found, Module) else found


def _imports(path: str, model: Any) -> bool:
    """Whether a name leads to this very object."""
    try:
        return _import(path) is model
    except MotifairError:
        return False


def _description(model: Any, about: Any) -> str:
    """Return what tells models apart that have the same name and cannot be imported.

    That is their source, where Python knows it, and numbers and words that they are bound to.
    """
    try:
        parts = [inspect.getsource(about)]
    except (OSError, TypeError):
        parts = []
    if isinstance(model, Module):
        parts += [str(model), *(f"{n} {tuple(p.shape)}" for n, p in model.named_parameters())]
    cells = [c.cell_contents for c in getattr(model, "__closure__", None) or ()]
    bound = [*cells, *(getattr(model, "__defaults__", None) or ())]
    bound += [*getattr(model, "args", ()), *sorted(getattr(model, "keywords", {}).items())]
    return "\n".join(
        [*parts, *(repr(v) for v in bound if isinstance(v, int | float | str | tuple))]
    )


def _redrawn(module: Module, name: str) -> Callable[[], Module]:
    """Return what copies a module and draws its parameters again by `reset_parameters`."""
    try:
        template = deepcopy(module)
    except Exception as error:
        raise MotifairError(
            f"The model {name} cannot be copied ({_words(error)}); give the class or a function "
            "that makes it."
        ) from error

    def make() -> Module:
        copy = deepcopy(template)
        trained = {n: p for n, p in copy.named_parameters() if p.requires_grad}
        frozen = {n: p.clone() for n, p in copy.named_parameters() if not p.requires_grad}
        with torch.no_grad():
            for parameter in trained.values():
                parameter.fill_(torch.nan)  # so that what nobody draws is seen
            for part in reversed(list(copy.modules())):
                if callable(draw := getattr(part, "reset_parameters", None)):
                    draw()
            for name_, parameter in copy.named_parameters():
                if name_ in frozen:
                    parameter.copy_(frozen[name_])
        for name_, parameter in trained.items():
            if parameter.isnan().any():
                raise MotifairError(
                    f"No reset_parameters of the model {name} draws {name_}, so that it would "
                    "begin alike for every seed; give the class or a function that makes it."
                )
        return copy

    return make


def _words(error: Exception) -> str:
    """Return the first line of an error."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
