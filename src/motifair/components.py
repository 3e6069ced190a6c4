"""Parts of a method that are chosen by name: methods, aggregations, valuations, data sources.

A component declares its options as annotated attributes, which become arguments of its constructor;
the command line, configuration files and `motifair.run` set them by name. Packages bring components
of their own by entry points.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from dataclasses import Field, dataclass, field, fields
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

from motifair.config import OPTIONS, Config, option
from motifair.errors import MotifairError, nearest
from motifair.options import check_range


@dataclass_transform(kw_only_default=True, field_specifiers=(option, field))
class Component:
    """A part that is chosen by its `name`, with options of its own.

    >>> class Shrink(Component):
    ...     name = "shrink"
    ...     summary = "halves everything"
    ...     rate: float = option(0.5, "by how much", above=0, most=1)
    >>> Shrink().rate, Shrink(rate=0.1).rate
    (0.5, 0.1)
    >>> Shrink(rate=2)
    Traceback (most recent call last):
    motifair.errors.MotifairError: rate must be greater than 0 and at most 1, not 2.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    stacked: ClassVar[bool] = False
    config: Config = field(init=False, repr=False)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclass(kw_only=True, eq=False)(cls)
        for name in cls.own_options():
            if name in OPTIONS:
                raise MotifairError(
                    f"{cls.__name__} declares the option {name}, which every run has; "
                    "give it another name."
                )

    def __post_init__(self) -> None:
        for name, rule in self.own_options().items():
            check_range(name, getattr(self, name), rule.metadata)

    @classmethod
    def own_options(cls) -> dict[str, Field[Any]]:
        """Return the options that the component declares, by name."""
        return {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]

    @classmethod
    def declares_stacked(cls) -> bool:
        """Whether this class, not one it inherits from, says that it takes stacked tensors."""
        return bool(cls.__dict__.get("stacked", False))

    def bind(self, config: Config) -> Self:
        """Return the same component for a run with this configuration."""
        bound = copy(self)
        bound.config = config
        return bound


def offered(group: str) -> EntryPoints:
    """Return the entry points of a group in all installed packages, such as `motifair.methods`."""
    return _read_once(group, tuple(sys.path))


@cache
def _read_once(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Read the entry points of the packages on a path, which takes a twentieth of a second."""
    return entry_points(group=group)


C = TypeVar("C", bound=Component)


class Registry(Generic[C]):
    """Components of one kind: built in, given in Python, or offered by installed packages.

    `group` names the entry points, such as `motifair.methods`.
    """

    def __init__(self, kind: str, group: str, built_in: Mapping[str, type[C]]) -> None:
        self.kind, self.group, self.built_in = kind, group, built_in
        self.given: dict[str, type[C]] = {}

    def all(self) -> dict[str, type[C]]:
        """Return every component by name."""
        installed = {e.name: e.load() for e in offered(self.group)}
        return {**installed, **self.given, **self.built_in}

    def find(self, name: str) -> type[C]:
        """Look a component up; built-in ones first, since reading entry points takes long."""
        known = self.built_in.get(name) or self.given.get(name)
        if known is not None:
            return known
        every = self.all()
        if name not in every:
            raise MotifairError(f"There is no {self.kind} '{name}'. {nearest(name, every)}")
        return every[name]

    def add(self, component: type[C]) -> str:
        """Make a class known for this process, and return its name."""
        if self.built_in.get(component.name, component) is not component:
            raise MotifairError(
                f"A {self.kind} called '{component.name}' exists; give yours another name."
            )
        self.given[component.name] = component
        return component.name

    def make(self, name: str, config: Config) -> C:
        """Return a component with the options that the configuration has for it."""
        cls, values = self.find(name), dict(config.component_options)
        return cls(**{n: values[n] for n in cls.own_options() if n in values}).bind(config)
