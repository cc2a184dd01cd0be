"""Dependency trees of which some heads and labels are known, against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.dependencies import Parse
from tests.dependencies.cases import prepared, treebank
from tests.dependencies.oracles.truth import labelled_trees
from tests.lib.incomplete import check_completions
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
LABELS = "pq"


def partly(trees: list, seed: int = 0) -> list:
    """Trees with None and sets among their heads and labels, and None in place of pairs."""
    random = np.random.default_rng(seed)

    def hidden(own: Any, others: Any) -> Any:
        return (own, None, {own, others[random.integers(len(others))]})[random.integers(3)]

    def of_word(one: Any, heads: list) -> Any:
        if not isinstance(one, tuple):
            return hidden(one, heads)
        return (hidden(one[0], heads), hidden(one[1], LABELS)) if random.random() < 0.8 else None

    return [[of_word(one, [*range(len(tree) + 1)]) for one in tree] for tree in trees]


def may(one: Any, found: Any) -> bool:
    return one is None or (found in one if isinstance(one, set) else found == one)


def outputs_of(known: list, labels: str, projective: bool, of_labels: bool):
    """All trees of each sentence, which agree, and Delta of each; see `tests.lib.incomplete`."""
    T = max(map(len, known))

    def of(i: int) -> tuple[Parse, np.ndarray, np.ndarray]:
        words = len(known[i])
        every = labelled_trees(words, len(labels) or 1, projective).reshape(-1, 2, words)
        right = np.zeros(every.shape, bool)
        for m, one in enumerate(known[i]):
            pair = (None, None) if one is None else one if isinstance(one, tuple) else (one, None)
            right[:, 0, m] = [may(pair[0], head) for head in every[:, 0, m].tolist()]
            right[:, 1, m] = [may(pair[1], (labels or "p")[r]) for r in every[:, 1, m]]
        agrees = right.all(axis=(1, 2))
        wrong = ~right.all(axis=1) if of_labels else ~right[:, 0]
        padded = np.full((len(every), 2, T), -1, np.int32)
        padded[:, :, :words] = every
        return Parse(padded[:, 0], padded[:, 1] if labels else None), agrees, wrong.sum(axis=1)

    return of


@pytest.mark.parametrize(
    ("projective", "labels", "dtype"), [(False, "", "float32"), (True, LABELS, "float64")]
)
def test_what_agrees_is_found_and_costs_nothing(projective: bool, labels: str, dtype: str) -> None:
    sentences, trees = treebank(1, 6, 3, labels=labels, projective=projective)
    known = partly(trees)
    options = {"loss": "labelled_hamming"} if labels else {}
    data = prepared(sentences, known, classes=LABELS, projective=projective, dtype=dtype, **options)
    assert isinstance(data.outputs, js.Incomplete)
    check_completions(data, outputs_of(known, labels, projective, bool(labels)))


def test_what_does_not_fit_is_refused() -> None:
    sentences, _ = treebank(3, 3, 3)
    for trees, words in (
        ([[0], [0, None], [2, 4, None]], r"trees\[2\]\[1\] has the head 4"),
        ([[0], [0, None], [{0, "a"}, 1, 1]], r"trees\[2\]\[0\] has the head"),
        ([[0], [0, None], [set(), 1, 1]], r"labels\[2\]\[0\] is an empty set"),
        ([[0], [None, (0, "p")], [1, 0, 2]], "all of pairs"),
    ):
        refused(words, prepared, sentences, trees)
    for trees in ([[0], [2, None], [0, 0, None]], [[0], [1, None], [0, 1, 1]]):
        data = prepared(sentences, trees)
        refused("does not agree with what is known of it", js.fit_latent, *data)
    crossing = prepared(sentences + sentences[2:], [[0], [0, None], [2, 0, None], [3, 0, 2]])
    assert isinstance(crossing.outputs, js.Incomplete)
    refused("outputs are Incomplete", js.fit, *crossing)
