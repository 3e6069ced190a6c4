"""Modules of the user that cannot be trained are refused in a sentence, and named."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from own_modules import GCN, Bare
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import BatchNorm, GCNConv, GraphNorm, Linear

from motifair.errors import MotifairError
from motifair.graphs.task import Task
from motifair.models.factory import find_factory, is_known, name_model
from motifair.models.module import ModuleModel

SIZES = {"width": 4, "outputs": 2, "edges": 0, "hidden": 8, "layers": 2, "dropout": 0.5}
Change = Callable[[Any, Batch, Tensor], Any]


def with_scores(change: Change) -> type[GCN]:
    """A module whose scores are changed."""

    class Changed(GCN):
        def forward(self, data: Batch) -> Any:
            return change(self, data, super().forward(data)[0])

    return Changed


class Normed(GCN):
    """A layer in front that keeps, or does not keep, statistics."""

    def __init__(self, width: int, outputs: int, *, norm: Callable[[int], Any] = BatchNorm) -> None:
        super().__init__(width, outputs)
        self.norm = norm(width)

    def forward(self, data: Batch) -> Tensor | tuple[Tensor, Tensor]:
        return super().forward(Batch(**{**data.to_dict(), "x": self.norm(data.x)}))


class Lazy(GCN):
    def __init__(self, outputs: int) -> None:
        super().__init__(4, outputs)
        self.readout = Linear(-1, outputs)


class Cached(GCN):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.convs[0] = GCNConv(width, 8, cached=True)


class RandomStart(GCN):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        torch.nn.init.constant_(self.readout.weight, random.random())


class Frozen(GCN):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.requires_grad_(False)


class Locked(GCN):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.lock = threading.Lock()


class Undrawn(GCN):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.scale = torch.nn.Parameter(torch.ones(1))


def needs_more(width: int, heads: int) -> torch.nn.Module:
    raise AssertionError((width, heads))


def broken(width: int) -> torch.nn.Module:
    raise ValueError(f"no such width: {width}")


REFUSED: dict[str, tuple[Any, str]] = {
    "one output too many": (lambda width: GCN(width, 3), r"returned \(2, 3\) .* scores \(2, 2\)"),
    "one row for all graphs": (
        with_scores(lambda self, data, scores: scores.sum(dim=0, keepdim=True)),
        r"returned \(1, 2\) for 2 graphs",
    ),
    "embeddings of nodes": (
        with_scores(lambda self, data, scores: (scores, data.x)),
        r"returned \(2, 2\) and \(5, 4\) for 2 graphs; .* embeddings \(2, H\)",
    ),
    "no tensor": (with_scores(lambda self, data, scores: None), r"returned \('NoneType',\)"),
    "another width": (GCN(7, 2), r"fails on graphs with x of 4 columns \(mat1 and mat2"),
    "other arguments": (
        type("Net", (GCN,), {"forward": lambda self, x, edge_index: x}),
        "its forward takes one argument, a torch_geometric.data.Batch",
    ),
    "running statistics": (Normed, "keeps statistics .* use GraphNorm or LayerNorm"),
    "a cache": (Cached, "fails on graphs"),
    "random in evaluation": (
        with_scores(lambda self, data, scores: scores + torch.rand(1)),
        "does not return the same .* only in training mode",
    ),
    "random by Python": (
        with_scores(lambda self, data, scores: scores * random.random()),
        "random numbers from torch alone",
    ),
    "random by Python in training": (
        with_scores(
            lambda self, data, scores: scores * (random.random() if self.training else 1.0)
        ),
        "random numbers from torch alone",
    ),
    "detached": (
        with_scores(lambda self, data, scores: scores.detach()),
        "do not depend on its parameters; remove detach",
    ),
    "lazy": (Lazy, "use its argument width"),
    "another start each time": (RandomStart, "begins with other weights each time"),
    "nothing to train": (Frozen, "no parameters to train"),
    "a lock": (Locked(4, 2), r"cannot be copied \(cannot pickle .* give the class or a function"),
    "a parameter that nobody draws": (Undrawn(4, 2), "No reset_parameters .* draws scale"),
    "an argument that nobody knows": (needs_more, "needs the argument heads; give it a default"),
    "an error of its own": (broken, r"cannot be made \(no such width: 4\); .* with width=4"),
    "no module": (lambda width: width, "made a int; it must return a torch.nn.Module"),
    "no module by name": ("math:sqrt", "needs the argument x"),
    "no name": ("gcn", "model takes package.module:name, not 'gcn'"),
    "no package": ("nowhere.nets:GCN", r"cannot be imported \(No module named 'nowhere'\)"),
    "no such name": ("own_modules:GIN2", "cannot be imported .* has no attribute 'GIN2'"),
    "no callable": ("math:pi", "is no class or function"),
    "a number": (7, "model takes a torch.nn.Module, a class or function .*, not int"),
    "given elsewhere": ("python:GCN-00000000", "was given in Python; call motifair.run with"),
    "another digest": (
        "own_modules:GCN#0123456789abcdef",
        "other parameters here, or other weights to begin with",
    ),
}


def made(model: Any) -> ModuleModel:
    return ModuleModel(name_model(model), SIZES, Task("classes", 2))


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_cannot_be_trained_is_refused(name: str) -> None:
    model, words = REFUSED[name]
    with pytest.raises(MotifairError, match=words) as caught:
        made(model)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "norm",
    [
        GraphNorm,
        torch.nn.LayerNorm,
        functools.partial(torch.nn.BatchNorm1d, track_running_stats=False),
    ],
)
def test_norms_without_statistics_and_constant_buffers_are_taken(norm: Any) -> None:
    def make(width: int, outputs: int) -> torch.nn.Module:
        module = Normed(width, outputs, norm=norm)
        module.register_buffer("constant", torch.ones(3))
        module.readout.bias.requires_grad_(False)
        return module

    model = made(make)
    assert "constant" in model.constants()
    assert "readout.bias" not in model.layout.names


def test_the_digest_of_the_terms_is_of_names_shapes_and_first_weights() -> None:
    name = f"own_modules:GCN#{made(GCN).digest(3)}"
    assert ModuleModel(name, SIZES, Task("classes", 2), seed=3).name == "own_modules:GCN"
    for sizes, seed in (({**SIZES, "hidden": 9}, 3), (SIZES, 4)):
        with pytest.raises(MotifairError, match="install the same versions"):
            ModuleModel(name, sizes, Task("classes", 2), seed)


def test_what_can_be_imported_has_a_name_that_others_can_import() -> None:
    assert name_model(GCN) == "own_modules:GCN"
    assert find_factory("own_modules:GCN").make is GCN
    assert find_factory("own_modules:GCN").takes == ("width", "outputs", "hidden", "dropout")
    assert find_factory("own_modules:Bare").takes == ("width", "outputs")
    assert name_model("own_modules:Bare") == "own_modules:Bare"


def test_what_cannot_be_imported_is_told_apart_by_what_it_is() -> None:
    def sized(hidden: int) -> Callable[..., Any]:
        return lambda width, outputs: GCN(width, outputs, hidden)

    given: list[Any] = [
        sized(8), sized(9), GCN(4, 2, 8), GCN(4, 2, 9), GCN(4, 2, 8, 0.1),
        functools.partial(GCN, hidden=8), functools.partial(GCN, hidden=9), with_scores(max),
    ]  # fmt: skip
    names = [name_model(model) for model in given]
    assert len(set(names)) == len(given)
    assert names[:2] == [name_model(sized(8)), name_model(sized(9))]
    assert names[2] == name_model(GCN(4, 2, 8))
    assert all(name.startswith("python:") and is_known(name) for name in names)
    assert not is_known("python:GCN-00000000")


def test_a_module_is_drawn_again_for_each_seed_but_for_what_is_frozen() -> None:
    module = GCN(4, 2)
    module.convs[1].bias.requires_grad_(False).fill_(0.5)
    model = made(module)
    first, other = (model.layout.initial(seed, torch.float32) for seed in (1, 2))
    assert not torch.equal(first, other)
    assert torch.equal(first, model.layout.initial(1, torch.float32))
    assert (model.constants()["convs.1.bias"] == 0.5).all()
    assert model.hidden == 8
    assert made(Bare).hidden == 0


def test_modules_may_be_made_and_called_in_several_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        digests = list(pool.map(lambda seed: made(GCN).digest(seed % 2), range(12)))
    assert len(set(digests)) == 2
