"""Trees of which some brackets are known, against every tree of small grammars."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Truth
from jaxstruct.core.padding import padded
from jaxstruct.core.types import BinaryTree
from jaxstruct.trees import Brackets, constituents, read_trees, tags
from jaxstruct.trees.phrases.integer_trees import decode
from tests.lib.incomplete import check_completions
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.trees.structure_cases import T, all_trees, grammar, inner_nodes, nodes, trees

pytestmark = pytest.mark.usefixtures("x64")


def partly(seed: int) -> list[Any]:
    """The trees that the grammar is read off, and some brackets of each, some without label."""
    random = np.random.default_rng(seed)
    known = []
    for tree in trees(seed=seed):
        some = [one for one in constituents(tree) if random.random() < 0.5]
        label = [(one, None, {one, "V"})[random.integers(3)] for one, *_ in some]
        spans = [(begin, end, own) for (_, begin, end), own in zip(some, label, strict=True)]
        known.append(Brackets(tags(tree), spans))
    return [*trees(seed=seed), *known]


def missed(seed: int, known: Any, tree: Any) -> set[tuple[int, int]]:
    """The spans of known constituents that a tree has not."""
    there = {}
    for label, *span in constituents(tree):
        there.setdefault(tuple(span), set()).add(label)
    lacking = set()
    for begin, end, label in known:
        own = there.get((begin, end), set())
        may = own if label is None else label if isinstance(label, set) else {label}
        if not own & may:
            lacking.add((begin, end))
    return lacking


def outputs_of(seed: int, loss: str, given: list):
    """All trees of each sentence, which agree, and Delta of each; see `tests.lib.incomplete`."""

    def of(i: int) -> tuple[BinaryTree, np.ndarray, np.ndarray]:
        own, row = grammar(seed), i % len(trees(seed=seed))
        every = all_trees(seed, row)
        length = len(tags(trees(seed=seed)[row]))
        named = [decode(own, tree, tags(trees(seed=seed)[row])) for tree in every]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves).astype(np.int32), *every)
        tokens = loss == "all_node_f1"
        own_nodes = nodes if tokens else inner_nodes
        if not isinstance(given[i], Brackets):
            agrees = np.array([tree == given[i] for tree in named])
            true = own_nodes(seed, every[int(agrees.argmax())])
            lacking = [len(true - own_nodes(seed, tree)) for tree in every]
        else:
            spans = [missed(seed, given[i].known, tree) for tree in named]
            agrees = np.array([not one for one in spans])
            lacking = [sum(tokens or end - begin > 1 for begin, end in one) for one in spans]
        count = 2 * length - 1 if tokens else length - 1
        return stacked, agrees, np.array(lacking) / max(count, 1)

    return of


@pytest.mark.parametrize(
    ("loss", "charts", "dtype"),
    thorough_after(1, [("node_f1", False, "float32"), ("all_node_f1", True, "float64")]),
)
def test_what_agrees_is_found_and_costs_nothing(loss: str, charts: bool, dtype: str) -> None:
    given = partly(0)
    data = js.trees.prepare(given, loss=loss, dtype=dtype)
    assert isinstance(data.outputs, js.Incomplete) and max(map(len, data.inputs.terminals)) == T
    if charts:
        inputs = data.inputs._replace(forest=None)
        data = js.Prepared(data.encoding, inputs, data.outputs, data.options)
    check_completions(data, outputs_of(0, loss, given))


TREES = "(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat)))) (S (NP (N dogs)) (VP (V bark)))"
MORE = (
    "(S (NP (N a)) (VP (V b) (NP (NP (N c)) (PP (P d) (NP (N e))))))"
    "(S (NP (N a)) (VP (VP (V b)) (PP (P d) (NP (N e)))))"
    "(S (NP (N a)) (VP (VP (V b) (NP (N c))) (PP (P d) (NP (N e)))))"
    "(S (NP (N a)) (VP (V b) (NP (N c))))"
)
KNOWN: list[Any] = [
    *read_trees(TREES + MORE),
    Brackets(["D", "N", "V", "D", "N"], [(0, 2, "NP"), (3, 5, None)]),
    Brackets(["N", "V", "N"], [(1, 3, {"VP"})]),
    Brackets(["N", "V", "N", "P", "N"], [(2, 5, "NP")]),
    Brackets(["N", "V"], []),
]


@pytest.mark.thorough
def test_the_parser_learns_from_some_brackets() -> None:
    model = js.estimators.TreeParser(C=10.0, objective="svm1_margin").fit(KNOWN, KNOWN)
    assert model.status_ is js.Status.CONVERGED
    assert model.score(KNOWN[:2], KNOWN[:2]) == 1


def test_what_does_not_fit_is_refused() -> None:
    whole, sentence = list(read_trees(TREES)), ["D", "N", "V", "D", "N"]
    for known, words in (
        ([(0, 2, "NP"), (1, 3, None)], r"trees\[2\] has constituents that cross"),
        ([(0, 6, "NP")], r"trees\[2\] has \(0, 6, 'NP'\): expected triples"),
        ([(0, 2)], r"trees\[2\] has \(0, 2\): expected triples"),
        ([(0, 2, "PP")], "has the label 'PP', which no constituent"),
    ):
        refused(words, js.trees.prepare, [*whole, Brackets(sentence, known)])
    data = js.trees.prepare([*KNOWN[:-1], Brackets(["N", "V"], [(0, 2, "PP")])])
    refused(r"outputs\[9\] does not agree with what is known", js.fit_latent, *data)
    problem, x, y = js.trees.prepare([*whole, Brackets(sentence, [])], loss="zero_one")
    refused("does not add up over nodes", problem.check, *padded(problem.padding, x, Truth(*y)))
    refused("expected at least one to read a grammar", js.trees.prepare, [Brackets(sentence, [])])
