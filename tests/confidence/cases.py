"""One small problem of every structure, with so few outputs that the k best are all of them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxstruct as js
from jaxstruct.alignments.potentials import DELETE, PAIR
from jaxstruct.alignments.structure import alignment_inputs, pairwise_alignment
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.data.trees import tags
from jaxstruct.graphs.inputs import graph_inputs
from jaxstruct.graphs.multi_label import multi_label
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.strings.inputs import feature_inputs
from jaxstruct.strings.structure import candidates
from jaxstruct.trees.structure import sentence_inputs, weighted_grammar
from tests.trees.structure_cases import all_trees, grammar, trees

MOST = {"tree": 4, "alignment": 5, "local": 5}
"""Outputs that an input has at most, 8 of other structures; of local alignments there are more."""
LOG_LINEAR = ("classes", "candidates", "chain", "graph", "sets", "tree", "alignment", "own")
S = 3
NUMBER = 400
"""Of outputs that are drawn."""


class Case(NamedTuple):
    """A problem with weights and inputs; `count` outputs of each input, None where not known."""

    problem: Problem
    weights: PyTree
    inputs: PyTree
    count: list[int] | None


def own_structure() -> Problem:
    """A pair of bits, (a, b), listed; theta [4] is an array, as that of classes is."""
    every = jnp.array([[0, 0], [0, 1], [1, 0], [1, 1]], jnp.int32)

    def place(y):
        return 2 * y[0] + y[1]

    def all_outputs(y_true):
        return jnp.roll(every, -place(y_true), axis=0)

    model = js.Model(
        lambda w, x: x @ w["weights"],
        lambda theta, y: theta[place(y)],
        lambda theta: every[jnp.argmax(theta)],
        lambda y_true, y: jnp.sum(y_true != y).astype(jnp.float32),
    )

    def contenders(theta, y_true):
        wrong = jnp.arange(4) != place(y_true)
        losses = jax.vmap(model.loss, (None, 0))(y_true, every)
        return js.Contenders(losses, jnp.where(wrong, theta, -jnp.inf), every)

    oracles = js.Oracles(contenders, lambda trace, level: trace[level], all_outputs=all_outputs)
    return js.make_problem({"weights": jnp.zeros((4, 4))}, model, oracles)


def _chains(random: np.random.Generator) -> tuple:
    lengths = [2, 0, 3, 1, 3]
    tokens = [random.normal(size=(length, 4)).astype(np.float32) for length in lengths]
    return chain(4, 2), chain_inputs(js.ragged(tokens)), [2**length for length in lengths]


def _graphs(random: np.random.Generator) -> tuple:
    edges = [[(0, 1), (1, 2), (2, 0)], [], [(1, 0)], [(0, 1), (0, 2)]]
    sizes = [3, 1, 2, 3]
    nodes = js.ragged([random.normal(size=(V, 4)).astype("f4") for V in sizes])
    ends = js.ragged([np.array(e, np.int32).reshape(-1, 2) for e in edges], -1)
    problem = graph_labelling(4, 2, inference="elimination")
    return problem, graph_inputs(nodes, ends, plans=True), [2**V for V in sizes]


def _trees(random: np.random.Generator) -> tuple:
    count = [len(all_trees(0, row)) for row in range(len(trees()))]
    few = [row for row, number in enumerate(count) if number <= MOST["tree"]]
    sentences = [tags(trees()[row]) for row in few]
    problem = weighted_grammar(grammar())
    return problem, sentence_inputs(grammar(), sentences), [count[row] for row in few]


def _alignments(random: np.random.Generator, mode: str) -> tuple:
    sizes = [(1, 2), (1, 1), (2, 1)]
    firsts, seconds = (
        [random.integers(0, S, n) for n in side] for side in zip(*sizes, strict=True)
    )
    count = [5, 3, 5] if mode == "global" else None
    return pairwise_alignment(S, mode=mode), alignment_inputs(firsts, seconds), count


def _candidates(random: np.random.Generator) -> tuple:
    lists = [np.array(own) for own in ([4, 1, 0], [2], [3, 5, 1, 0])]
    psi = random.normal(size=(8, 4)).astype("f4")
    return candidates(4), feature_inputs(lists, psi), [3, 1, 4]


@cache
def case(name: str) -> Case:
    """The case of a structure; weights are drawn."""
    random = np.random.default_rng(7)
    plain = random.normal(size=(5, 4)).astype(np.float32)
    problem, inputs, count = {
        "classes": lambda: (multiclass(4, S), plain, [S] * 5),
        "candidates": lambda: _candidates(random),
        "chain": lambda: _chains(random),
        "graph": lambda: _graphs(random),
        "sets": lambda: (multi_label(4, S), plain, [2**S] * 5),
        "tree": lambda: _trees(random),
        "alignment": lambda: _alignments(random, "global"),
        "local": lambda: _alignments(random, "local"),
        "own": lambda: (own_structure(), plain, [4] * 5),
    }[name]()
    draw = np.random.default_rng(1)
    weights = jax.tree.map(
        lambda leaf: jnp.asarray(draw.normal(size=leaf.shape), leaf.dtype), problem.initial_weights
    )
    return Case(problem, weights, inputs, count)


@cache
def ranked(name: str) -> js.confidence.KBest:
    """All outputs of the inputs of a case, the best first; of local alignments some."""
    given = case(name)
    call = given.problem, given.weights, given.inputs
    return js.confidence.k_best(*call, k=MOST.get(name, 8))


def one(outputs: PyTree, i: int) -> tuple:
    """Output i as numbers to compare; nothing but -1 at the end of each leaf."""
    rows = []
    for leaf in jax.tree.leaves(outputs):
        row = np.asarray(leaf[i]).reshape(-1)
        rows.append(tuple(row[: int(np.max(np.flatnonzero(row != -1), initial=-1)) + 1].tolist()))
    return tuple(rows)


def _of_labels(labels: np.ndarray, shape: tuple) -> np.ndarray:
    counts = np.zeros(shape)
    counts[np.arange(len(labels)), labels] = 1
    return counts


def _of_pairs(operations: tuple, begin: tuple, shape: tuple) -> np.ndarray:
    (i, j), used = (*begin, 0, 0)[:2], np.zeros(shape)
    for kind in operations:
        if kind == PAIR:
            used[i, j] = 1
        i, j = i + (kind in (PAIR, DELETE)), j + (kind != DELETE)
    return used


def parts(name: str, given: Case, output: PyTree, i: int, like: list) -> list[np.ndarray]:
    """What output i uses, shaped as its probabilities."""
    rows = [np.asarray(leaf[i]) for leaf in jax.tree.leaves(output)]
    if name == "classes":
        return [np.eye(S)[rows[0]]]
    if name == "own":  # parts are those of theta, one for each pair of bits
        return [np.eye(4)[2 * rows[0][0] + rows[0][1]]]
    if name == "candidates":
        return [(np.asarray(given.inputs.numbers[i]) == rows[0]).astype(float)[: len(like[0])]]
    if name in ("chain", "graph"):
        return [_of_labels(rows[0], like[0].shape)]
    if name == "sets":
        return [rows[0].astype(float)]
    if name in ("alignment", "local"):
        return [_of_pairs(tuple(rows[0]), tuple(rows[1]), like[0].shape)]
    symbols, rules, begins, _, ends = rows
    spans = np.zeros(like[1].shape)
    parents = np.asarray(grammar().binary_rules)[:, 0][rules]
    spans[begins, ends - 1, parents] = 1
    return [_of_labels(symbols, like[0].shape), spans]
