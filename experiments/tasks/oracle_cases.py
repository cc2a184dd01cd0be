"""Batches of random potentials and the oracles that read them, beside other programs."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.alignments.costs import AlignmentCosts, alignment_potentials
from jaxstruct.alignments.oracles.pairwise import local_alignment
from jaxstruct.assignments import best_matching
from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.sums import log_partition
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.types import Array, PyTree
from jaxstruct.dependencies import best_tree
from jaxstruct.dependencies import log_partition as log_partition_of_trees
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.potentials import grid_edges
from jaxstruct.kernels import encode_strings, gram_matrix, linear, subsequences
from jaxstruct.kernels.substrings import subsequence_features
from jaxstruct.trees.oracles.inside_outside import rule_marginals
from jaxstruct.trees.oracles.k_best_trees import cky, k_best_trees
from jaxstruct.trees.potentials import GrammarRules, TreePotentials

AMINO_ACIDS = "ARNDCQEGHILKMFPSTWYV"
PEER_ITEMS = 200
"""Most items of one call of a program that takes them one by one."""


class Case(NamedTuple):
    """Programs that take turns on the same data.

    Fields:
      count: items in a call of ours. data: what ours are called with.
      ours: name -> a function of `data` that jax compiles.
      others: name -> (a call of another program, items in it).
    """

    count: int
    data: tuple[PyTree, ...]
    ours: Mapping[str, Callable[..., PyTree]]
    others: Mapping[str, tuple[Callable[[], Any], int]] = {}


def _chains(random: np.random.Generator, batch: int, dtype: str, labels: int, length: int) -> Case:
    """Chains that share their transitions."""
    axes = ChainPotentials._make((0, None, None, None, None))  # vmap over emissions alone
    emissions = random.normal(size=(batch, length, labels)).astype(dtype)
    transitions = random.normal(size=(labels, labels)).astype(dtype)
    potentials = ChainPotentials(jnp.asarray(emissions), jnp.asarray(transitions))
    return Case(batch, (potentials, np.full(batch, length, np.int32)), {
        "Viterbi": jax.vmap(viterbi, (axes, 0)),
        "2 best": jax.vmap(partial(k_best, k=2), (axes, 0)),
        "log Z and gradient": jax.vmap(jax.value_and_grad(log_partition), (axes, 0)),
    })  # fmt: skip


def _trees(
    random: np.random.Generator, batch: int, dtype: str, symbols: int, rules: int, tokens: int
) -> Case:
    """Sentences under a grammar whose rules are as unevenly spread over symbols as a treebank's."""
    weights = np.arange(1, symbols + 1) ** -1.2
    found: set[int] = set()
    while len(found) < rules:
        parents = random.choice(symbols, rules, p=weights / weights.sum())
        children = random.integers(0, symbols**2, rules)
        found |= set((parents * symbols**2 + children).tolist()[: rules - len(found)])
    parts = np.unravel_index(sorted(found), (symbols,) * 3)
    grammar = GrammarRules(*(jnp.asarray(part, jnp.int32) for part in parts))
    shapes = (batch, tokens, symbols), (rules,), (symbols,)
    theta = TreePotentials(*(jnp.asarray(random.normal(size=shape), dtype) for shape in shapes))
    axes = None, TreePotentials._make((0, None, None, None)), 0
    oracles = {"CKY": cky, "2 best": partial(k_best_trees, k=2), "marginals": rule_marginals}
    ours = {name: jax.vmap(oracle, axes) for name, oracle in oracles.items()}
    return Case(batch, (grammar, theta, jnp.full(batch, tokens, jnp.int32)), ours)


def _dependencies(random: np.random.Generator, batch: int, dtype: str, words: int) -> Case:
    """Sentences with random scores of arcs."""
    arcs = random.normal(size=(batch, words + 1, words)).astype(dtype)

    def best(arcs: Array, projective: bool) -> Array:
        return best_tree(arcs[:, :, None], jnp.int32(words), projective=projective).heads

    def sums(arcs: Array, projective: bool) -> Array:
        return log_partition_of_trees(arcs[:, :, None], jnp.int32(words), projective=projective)

    others = {}
    with contextlib.suppress(ImportError):
        decode = importlib.import_module("ufal.chu_liu_edmonds").chu_liu_edmonds
        scores = np.zeros((batch, words + 1, words + 1))  # of [word, head]
        scores[:, 1:] = arcs.transpose(0, 2, 1)
        scores[:, 1:, 0] -= 1e6  # so that one word hangs on the root
        others["ufal.chu_liu_edmonds"] = lambda: [decode(one) for one in scores], batch
    programs = {}
    for kind, projective in (("projective", True), ("any", False)):
        programs[kind] = jax.vmap(partial(best, projective=projective))
        slopes = jax.value_and_grad(partial(sums, projective=projective))
        programs[f"{kind}, log Z and gradient"] = jax.vmap(slopes)
    return Case(batch, (arcs,), programs, others)


def _alignments(random: np.random.Generator, batch: int, dtype: str, M: int, N: int) -> Case:
    """Pairs of sequences, affine gaps, under one matrix of scores."""
    size = len(AMINO_ACIDS)
    matrix = random.normal(-0.5, 1.5, (size, size)).astype(dtype)
    costs = AlignmentCosts(jnp.asarray(matrix), jnp.asarray(1.3, dtype), jnp.asarray(0.4, dtype))
    first, second = (random.integers(0, size, (batch, n)).astype(np.int32) for n in (M, N))

    def of_one(oracle: Callable, costs: AlignmentCosts, first: Array, second: Array) -> PyTree:
        lengths = jnp.asarray([first.shape[0], second.shape[0]])
        return oracle(alignment_potentials(costs, first, second), lengths)

    batched = jax.vmap(partial(of_one, local_alignment), (None, 0, 0))
    ours = {"local score": lambda *given: batched(*given).score, "local alignment": batched}
    there = importlib.util.find_spec("Bio")
    others = _biopython(matrix, first[:PEER_ITEMS], second[:PEER_ITEMS]) if there else {}
    return Case(batch, (costs, first, second), ours, others)


def _biopython(
    matrix: np.ndarray, first: np.ndarray, second: np.ndarray
) -> dict[str, tuple[Callable[[], Any], int]]:
    from Bio.Align import PairwiseAligner, substitution_matrices

    aligner = PairwiseAligner(mode="local", open_gap_score=-1.3, extend_gap_score=-0.4)
    aligner.substitution_matrix = substitution_matrices.Array(
        alphabet=AMINO_ACIDS, dims=2, data=matrix.astype(float)
    )
    texts = [["".join(AMINO_ACIDS[i] for i in row) for row in rows] for rows in (first, second)]
    pairs = list(zip(*texts, strict=True))
    return {
        "Biopython, score": (lambda: [aligner.score(a, b) for a, b in pairs], len(pairs)),
        "Biopython, alignment": (
            lambda: [next(iter(aligner.align(a, b))) for a, b in pairs], len(pairs)
        ),
    }  # fmt: skip


def _matchings(random: np.random.Generator, batch: int, dtype: str, R: int, C: int) -> Case:
    """Complete matchings of two sets."""
    pairs, sizes = random.normal(size=(batch, R, C)).astype(dtype), jnp.array([R, C], jnp.int32)
    ours: dict[str, Callable[..., PyTree]] = {
        "jaxstruct": jax.vmap(lambda own: best_matching(own, sizes, complete=True).columns)
    }
    if importlib.util.find_spec("optax"):
        solve = importlib.import_module("optax").assignment.hungarian_algorithm
        ours["optax"] = jax.vmap(lambda own: solve(-own))
    from scipy.optimize import linear_sum_assignment

    def scipy() -> list[Any]:
        return [linear_sum_assignment(own, maximize=True) for own in pairs]

    return Case(batch, (pairs,), ours, {"SciPy": (scipy, batch)})


def _graphs(random: np.random.Generator, batch: int, dtype: str, side: int, labels: int) -> Case:
    """Grids; an item is one update of one message of an edge, both ways, in belief propagation."""
    passes, edges = 10, np.concatenate(grid_edges(side, side))
    pairs = 0.3 * random.normal(size=(len(edges), labels, labels))
    graph = graph_potentials(np.zeros((side**2, labels)), edges, pairs, dtype=dtype)
    nodes = random.normal(size=(batch, side**2, labels)).astype(dtype)

    def of_one(nodes: Array, kind: str) -> Array:
        # a negative tolerance: no pass is the last one before the time
        given = graph._replace(nodes=nodes)
        return belief_propagation(given, kind=kind, passes=passes, tolerance=-1.0).nodes

    kinds = {kind: jax.vmap(partial(of_one, kind=kind)) for kind in ("max", "sum")}
    return Case(2 * len(edges) * batch * passes, (nodes,), kinds)


def _strings(random: np.random.Generator, batch: int, dtype: str, letters: int) -> Case:
    """The kernel matrix of gapped subsequences; an item is a pair of its upper half."""
    del dtype
    alphabet = "abcd"
    texts = ["".join(random.choice(list(alphabet), letters)) for _ in range(batch)]
    strings = encode_strings(texts, alphabet, letters)
    return Case(batch * (batch + 1) // 2, (strings,), {
        "by pairs": lambda X: gram_matrix(subsequences(3, 0.5), X),
        "by explicit features": lambda X: gram_matrix(
            linear(), subsequence_features(X, 3, 0.5, len(alphabet))
        ),
    })  # fmt: skip


FAMILIES: dict[str, tuple[Callable[..., Case], tuple[tuple[int, ...], ...], str]] = {
    "chains": (_chains, ((9, 50), (26, 50), (50, 100)), "labels x length"),
    "trees": (_trees, ((60, 2000, 10), (60, 2000, 20)), "symbols x rules x tokens"),
    "dependencies": (_dependencies, ((10,), (20,), (40,)), "words"),
    "alignments": (_alignments, ((50, 50), (200, 200)), "letters x letters"),
    "matchings": (_matchings, ((10, 10), (20, 20), (20, 30)), "rows x columns"),
    "graphs": (_graphs, ((20, 2), (20, 5)), "side x labels"),
    "strings": (_strings, ((20,), (50,)), "letters"),
}
"""Family -> its cases, their sizes, and what the numbers of a size are."""
