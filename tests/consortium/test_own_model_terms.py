"""Members that agree on a PyG module of their own: the terms hold its name and its digest."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from deployed import content_of, terms_of
from own_modules import GCN

from motifair.consortium.template import members_toml
from motifair.consortium.terms import FederationTerms, make_terms
from motifair.errors import MotifairError

MODEL = {"model": "own_modules:GCN"}


def in_the_kit(terms: FederationTerms) -> FederationTerms:
    """The terms as a member reads them."""
    return make_terms(tomllib.loads(members_toml(terms.given)))


def test_members_read_the_terms_of_the_operator_with_the_digest() -> None:
    terms = terms_of(**MODEL)
    name, digest = terms.config.model.split("#")
    assert (name, len(digest)) == ("own_modules:GCN", 16)
    assert terms.given["training"]["model"] == terms.config.model
    assert in_the_kit(terms).digest == terms.digest
    assert terms_of(**MODEL, seed=6).config.model != terms.config.model  # other first weights


def test_a_member_with_another_version_of_the_module_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terms = terms_of(**MODEL)
    original = GCN.__init__

    def newer(self: Any, width: int, outputs: int, hidden: int) -> None:
        original(self, width, outputs, hidden + 1)

    monkeypatch.setattr(GCN, "__init__", newer)
    with pytest.raises(MotifairError, match=r"The model own_modules:GCN has other parameters here"):
        in_the_kit(terms)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nowhere.nets:GCN", r"cannot be imported \(No module named 'nowhere'\); install"),
        ("python:GCN-00000000", "was given in Python"),
        ("own_modules:Bare", "has no argument hidden"),
    ],
)
def test_a_module_that_a_member_cannot_make_is_refused(model: str, words: str) -> None:
    with pytest.raises(MotifairError, match=words):
        terms_of(model=model)


def test_without_embeddings_the_terms_have_no_prototypes() -> None:
    content = content_of(model="own_modules:Bare")
    del content["training"]["hidden"]
    terms = make_terms(content)
    assert terms.config.prototype_weight == 0
    assert in_the_kit(terms).digest == terms.digest
    content["training"]["prototype_weight"] = 0.1
    with pytest.raises(MotifairError, match="returns no embeddings"):
        make_terms(content)
