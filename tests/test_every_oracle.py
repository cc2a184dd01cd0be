"""Every oracle of every output type takes arrays of NumPy without jit.

`test_shapes` and `test_compiler_effort` ask the same oracles. Losses of padded potentials never
read what is padding; of oracles, the enumerations in their rooms have garbage there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import (
    alignments,
    assignments,
    chains,
    dependencies,
    graphs,
    losses,
    rankings,
    segments,
    trees,
)
from jaxstruct.alignments.oracles import pairwise
from jaxstruct.assignments.oracles.matching import (
    best_matching,
    best_wrong_matching,
    k_best_matchings,
)
from jaxstruct.assignments.potentials import MatchingTheta
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.oracles.hamming_levels import best_of_levels, hamming_levels
from jaxstruct.chains.structure import chain
from jaxstruct.core.semiring import Levels
from jaxstruct.core.types import BinaryTree
from jaxstruct.dependencies.potentials import Parse, real_arcs
from jaxstruct.dependencies.structure import TreeTheta
from jaxstruct.graphs.elimination import elimination
from jaxstruct.graphs.oracles import (
    belief_propagation,
    conditional_modes,
    enumeration,
    relaxation,
    reweighted,
    reweighted_marginals,
    variable_elimination,
)
from jaxstruct.graphs.oracles import k_best as graphs_k_best
from jaxstruct.rankings.oracles import contingency, orders
from jaxstruct.rankings.structure import SampleTheta
from jaxstruct.segments.oracles.decoding import forward
from jaxstruct.trees.oracles import inside_outside, k_best_trees
from tests.dependencies.cases import prepared, treebank
from tests.dependencies.oracles.truth import labelled_trees
from tests.graphs.random_graphs import stacked_plans
from tests.lib.enumeration import GARBAGE
from tests.lib.thorough import thorough_after
from tests.trees.structure_cases import grammar

T, N, S = 5, np.int32(3), 3
"""Positions with padding, real ones, and labels."""
KEY = np.array([3, 14], np.uint32)


class Case(NamedTuple):
    """potentials: a pytree. oracles: by name, functions of potentials."""

    potentials: Any
    oracles: dict[str, Callable]


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def _of_jax(potentials: Any) -> Any:
    return jax.tree.map(jnp.asarray, potentials)


def _slopes(value: Callable) -> Callable:
    """The gradient of a scalar, or of the score of what is found, beside it."""

    def score(potentials: Any) -> tuple:
        found = value(potentials)
        return getattr(found, "score", found), found

    def both(potentials: Any) -> tuple:
        (_, found), slope = jax.value_and_grad(score, has_aux=True)(potentials)
        return found, slope

    both.value = value
    return both


def _chains(second: bool, by_step: bool) -> Case:
    given = chains.ChainPotentials(
        _numbers(T, S), _numbers(T - 1, S, S) if by_step else _numbers(S, S), _numbers(S),
        _numbers(S), _numbers(S, S, S) if second else None,
    )  # fmt: skip
    y = np.array([1, 0, 2, -1, -1], np.int32)
    offsets, slopes = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    return Case(given, {
        "best": _slopes(lambda p: chains.viterbi(p, N)),
        "k best": lambda p: chains.k_best(p, N, 4),
        "levels": lambda p: hamming_levels(p, y, N, 4),
        "best of levels": lambda p: best_of_levels(p, y, N, offsets, slopes),
        "log Z": _slopes(lambda p: chains.log_partition(p, N)),
        "marginals": lambda p: chains.marginals(p, N),
        "sample": lambda p: chains.sample(p, N, KEY),
        "score": _slopes(lambda p: chains.score_labels(p, y, N)),
    })  # fmt: skip


def _segments() -> Case:
    L = 2
    given = segments.SegmentPotentials(_numbers(T, L, S), _numbers(S, S), _numbers(S), _numbers(S))
    steps, targets = jnp.ones((T, L, S), jnp.int32), np.array([[0, 1, 2], [1, 2, 3]])
    return Case(given, {
        "best": _slopes(lambda p: segments.viterbi(p, N)),
        "k best": lambda p: segments.k_best(p, N, 4),
        "levels": lambda p: forward(Levels(targets), _of_jax(p), N, steps).total,
        "log Z": _slopes(lambda p: segments.log_partition(p, N)),
        "marginals": lambda p: segments.marginals(p, N),
        "sample": lambda p: segments.sample(p, N, KEY),
    })  # fmt: skip


def _trees(by_span: bool) -> Case:
    own = grammar()
    rules = trees.GrammarRules(*own.binary_rules.T)
    R, symbols = len(rules.parents), 1 + int(max(map(np.max, rules)))
    counts = np.ones((T, T, symbols), int)
    given = trees.TreePotentials(
        _numbers(T, symbols), _numbers(R), _numbers(symbols),
        _numbers(T, T, symbols) if by_span else None,
    )  # fmt: skip
    nodes = (0, 1, 2, -1, -1), (0, 1, -1, -1), (0, 1, -1, -1), (1, 2, -1, -1), (3, 3, -1, -1)
    one = BinaryTree(*(np.array(leaf, np.int32) for leaf in nodes))
    return Case(given, {
        "best": _slopes(lambda p: k_best_trees.cky(rules, p, N)),
        "k best": lambda p: k_best_trees.k_best_trees(rules, p, N, 3),
        "log Z": _slopes(lambda p: inside_outside.log_partition(rules, p, N)),
        "marginals": lambda p: inside_outside.rule_marginals(rules, p, N),
        "sample": lambda p: inside_outside.sample_tree(rules, p, N, KEY),
        "levels": lambda p: k_best_trees.tree_levels(rules, p, counts, N, 4),
        "score": _slopes(lambda p: trees.score_tree(rules, p, one, N)),
    })  # fmt: skip


def _dependencies(projective: bool) -> Case:
    R = 2
    y = np.array([0, 1, 2, -1, -1], np.int32), np.array([0, 1, 1, -1, -1], np.int32)
    kind = {"projective": projective}
    return Case(_numbers(T + 1, T, R), {
        "best": _slopes(lambda p: dependencies.best_tree(p, N, **kind)),
        "k best": lambda p: dependencies.k_best_trees(p, N, 3, **kind),
        "best wrong": lambda p: dependencies.best_wrong_tree(p, y, N, **kind),
        "log Z": _slopes(lambda p: dependencies.log_partition(p, N, **kind)),
        "marginals": lambda p: dependencies.marginals(p, N, **kind),
        "sample": lambda p: dependencies.sample_tree(p, N, KEY, **kind),
        "score": _slopes(lambda p: dependencies.score_tree(p, *y, N)),
    })  # fmt: skip


def _alignments(local: bool) -> Case:
    sizes, kind = np.array([N, 2], np.int32), {"local": local}
    given = alignments.AlignmentPotentials(_numbers(T, T - 1), np.float32(1), np.float32(0.5))
    best = pairwise.local_alignment if local else pairwise.global_alignment
    k_best = alignments.k_best_local if local else alignments.k_best_global
    return Case(given, {
        "best": _slopes(lambda p: best(p, sizes)),
        "k best": lambda p: k_best(p, sizes, 3),
        "log Z": _slopes(lambda p: alignments.log_partition(p, sizes, **kind)),
        "marginals": lambda p: alignments.marginals(p, sizes, **kind),
        "sample": lambda p: alignments.sample(p, sizes, KEY, **kind),
    })  # fmt: skip


def _graphs(kinds: bool) -> Case:
    ends = np.array([(0, 1), (1, 2), (0, 2)])
    plan = jax.tree.map(lambda leaf: leaf[0], stacked_plans([elimination(N, ends)], T, 4))
    edges = np.array([*ends, (0, 0)], np.int32)
    whole = graphs.GraphPotentials(
        _numbers(T, S), edges, _numbers(2 if kinds else 4, S, S), np.int32(N), np.int32(3),
        np.array([0, 1, 1, 0], np.int32) if kinds else None,
    )  # fmt: skip

    def of(given: tuple) -> graphs.GraphPotentials:
        return whole._replace(nodes=given[0], pairs=given[1])

    y, exact = np.array([0, 1, 2, -1, -1], np.int32), variable_elimination
    return Case((whole.nodes, whole.pairs), {
        "best": _slopes(lambda p: exact.best_labelling(of(p), plan)),
        "best other": lambda p: exact.best_other(of(p), plan, y),
        "k best": lambda p: graphs_k_best.k_best_labellings(of(p), plan, 3),
        "log Z": _slopes(lambda p: exact.log_partition(of(p), plan)),
        "marginals": lambda p: exact.marginals(of(p), plan),
        "sample": lambda p: graphs_k_best.sample_labelling(of(p), plan, KEY),
        "all scores": lambda p: enumeration.all_scores(of(p)),
        "best of all": lambda p: enumeration.best_of_all(of(p)),
        "k best of all": lambda p: graphs_k_best.k_best_of_all(of(p), 3),
        "log Z of all": lambda p: enumeration.enumerated_log_partition(of(p)),
        "sample of all": lambda p: graphs_k_best.sample_of_all(of(p), KEY),
        "propagation": lambda p: belief_propagation.belief_propagation(of(p)),
        "relaxed": lambda p: relaxation.relaxed(of(p)),
        "reweighted": lambda p: reweighted.reweighted(of(p)),
        "bound of log Z": lambda p: reweighted.log_partition_bound(of(p)),
        "reweighted marginals": lambda p: reweighted_marginals.reweighted_marginals(of(p)),
        "modes": lambda p: conditional_modes.conditional_modes(of(p)),
        "score": _slopes(lambda p: graphs.score_labels(of(p), y)),
    })  # fmt: skip


def _assignments(complete: bool) -> Case:
    sizes, kind = np.array([N, 2], np.int32), {"complete": complete}
    y = np.array([0, 1, -1, -1, -1], np.int32)
    given = _numbers(T, T - 1), _numbers(T), _numbers(T - 1)

    def of(function: Callable, p: tuple, *more: Any) -> Any:
        return function(p[0], *more, rows=p[1], columns=p[2], **kind)

    return Case(given, {
        "best": _slopes(lambda p: of(best_matching, p, sizes)),
        "k best": lambda p: of(k_best_matchings, p, sizes, 3),
        "best wrong": lambda p: of(best_wrong_matching, p, y, sizes),
        "score of one": _slopes(lambda p: assignments.score_matching(p[0], y, sizes, p[1], p[2])),
    })  # fmt: skip


def _rankings() -> Case:
    truth, scale = np.array([2, 0, 1, -1, -1], np.int32), np.float32(1)
    labels = np.array([1, 0, 1, -1, -1], np.int32)
    augmented = {
        "ranked": lambda p: orders.ranked(p, N),
        "precision": lambda p: orders.average_precision_augmented(p, truth, N, scale),
        "area": lambda p: orders.roc_area_augmented(p, truth, N, scale),
        "ndcg": lambda p: orders.ndcg_augmented(p, truth, N, scale),
        "labels": lambda p: contingency.largest(p, N),
        "errors": lambda p: contingency.error_rate_augmented(p, labels, N, scale),
        "cell": lambda p: contingency.best_cell(p, labels, N, lambda a, b, F: F + a - b),
    }
    return Case(_numbers(T), augmented)


CASES = {
    "chains of triples": partial(_chains, True, False), "segments": _segments,
    "trees of spans": partial(_trees, True), "dependencies": partial(_dependencies, False),
    "projective": partial(_dependencies, True), "global alignments": partial(_alignments, False),
    "graphs": partial(_graphs, False), "matchings": partial(_assignments, False),
    "rankings": _rankings,
    "chains": partial(_chains, False, False), "chains of steps": partial(_chains, False, True),
    "trees": partial(_trees, False), "local alignments": partial(_alignments, True),
    "graphs of kinds": partial(_graphs, True), "complete matchings": partial(_assignments, True),
}  # fmt: skip


def _same(call: Callable, given: Any) -> bool:
    """Whether a trace with arrays of NumPy inside has the shapes of one with those of JAX: loops
    trace their bodies, where the former cannot be read at a traced place."""
    wanted = jax.eval_shape(lambda: call(_of_jax(given)))
    return jax.eval_shape(lambda: call(given)) == wanted


@pytest.mark.parametrize("name", thorough_after(9, CASES))
def test_arrays_of_numpy_are_taken(name: str) -> None:
    given = CASES[name]()
    for oracle, call in given.oracles.items():
        assert _same(getattr(call, "value", call), given.potentials), oracle


def test_the_best_wrong_tree_of_arrays_of_numpy_is_that_of_all_trees() -> None:
    heads, arcs = np.array([0, 1, 1, 3]), _numbers(5, 4, 2)
    y = np.stack([heads, heads % 2])
    found = jax.jit(lambda: dependencies.best_wrong_tree(arcs, (*y,), 4, projective=True))()
    every = labelled_trees(4, 2, True).reshape(-1, 2, 4)
    every = every[(every != y).any(axis=(1, 2))]
    F = arcs[every[:, 0], np.arange(4), every[:, 1]].sum(axis=1)
    np.testing.assert_array_equal(found[:2], every[F.argmax()])


def _layers(name: str) -> tuple[Any, Any, dict[str, Callable]]:
    """(potentials of one example, what of them is read, losses of them with slopes).

    What the perceptron asks, the perturbed loss asks of potentials with noise.
    y is its true output, `fixed` what is no potential.
    """
    y: Any = jnp.array([1, 0, 2, -1, -1])
    real, fixed = np.arange(T) < N, {"length": jnp.asarray(N)}
    if name == "chains":
        problem = chain(1, S)
        theta = ChainTheta(_numbers(T, S), _numbers(S, S), None, None, None, N)
        read = theta._replace(emissions=np.broadcast_to(real[:, None], (T, S)), transitions=True)
    elif name == "segments":
        problem, y = segments.segmenter(1, S, 2), jnp.array([3, 1, 2, -1, -1])
        theta = segments.SegmentTheta(
            _numbers(T, 3, S), _numbers(2, S), _numbers(S, S), None, None, None, N
        )
        read = theta._replace(
            tokens=np.broadcast_to(real[:, None, None], (T, 3, S)), lengths=True, transitions=True
        )
    elif name == "matchings":
        problem, pairs = assignments.assignment(1), np.outer(real, np.arange(T - 1) < 2)
        y = jnp.array([0, 1, -1, -1, -1])
        fixed = {"sizes": jnp.array([N, 2], jnp.int32), "allowed": jnp.asarray(pairs)}
        none = dict.fromkeys(("allowed", "rows", "columns", "sizes"))
        theta = MatchingTheta(pairs=_numbers(T, T - 1), **none)
        read = theta._replace(pairs=pairs)
    elif name == "rankings":
        problem = rankings.document_ranking(1)
        fixed |= {"relevance": y}
        theta = SampleTheta(_numbers(T), None)
        read = theta._replace(scores=real)
    else:
        sentences, parses = treebank(0, 4, 3, labels="xy")
        problem, R = prepared(sentences, parses, projective=False).problem, 2
        theta = TreeTheta(_numbers(T + 1, T, R), N)
        read = TreeTheta(
            np.broadcast_to(np.asarray(real_arcs(N, T))[..., None], (T + 1, T, R)), True
        )
        y = Parse(jnp.array([0, 1, 2, -1, -1]), jnp.array([0, 1, 1, -1, -1]))

    def of(loss: Callable, **more: Any) -> Callable:
        def value(potentials: Any) -> jax.Array:
            return loss(problem, potentials._replace(**fixed), y, **more)

        return jax.value_and_grad(value)

    theta, read = (one._replace(**dict.fromkeys(fixed)) for one in (theta, read))
    every = {"hinge": of(losses.structured_hinge), "perturbed": of(losses.perturbed, key=KEY)}
    if name not in ("matchings", "rankings"):
        every |= {
            "log loss": of(losses.log_loss),
            "entropy": of(losses.smoothed_hinge, smoothing="entropy"),
            "top k": of(losses.smoothed_hinge, smoothing="top_k"),
        }
    return theta, read, every


LAYERS = ["chains", "segments", "dependencies", "matchings", "rankings"]


@pytest.mark.parametrize("name", thorough_after(1, LAYERS))
def test_garbage_changes_no_bit_of_a_loss(name: str) -> None:
    """Nor of its slope, whatever stands in what they do not read."""
    potentials, read, every = _layers(name)
    run = jax.jit(lambda p: {name: call(p) for name, call in every.items()})

    def answers(number: float) -> dict[str, list[np.ndarray]]:
        filled = jax.tree.map(lambda a, b: jnp.where(b, a, jnp.float32(number)), potentials, read)
        found = run(filled)
        return {name: list(map(np.asarray, jax.tree.leaves(one))) for name, one in found.items()}

    plain = answers(0)
    assert not [name for name, leaves in plain.items() if any(np.isnan(x).any() for x in leaves)]
    for number in GARBAGE:
        found = answers(number)
        same = {name: [*map(np.ndarray.tobytes, leaves)] for name, leaves in plain.items()}
        failed = [name for name in same if same[name] != [*map(np.ndarray.tobytes, found[name])]]
        assert not failed, (number, failed)
