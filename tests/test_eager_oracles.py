"""Every public oracle, called eagerly with arrays of NumPy, answers as with those of JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
    rankings,
    segments,
    trees,
)
from jaxstruct.trees.oracles.chart_levels import LevelSizes, NodeCounts

_random = np.random.default_rng(0)


def _drawn(*shape: int) -> np.ndarray:
    return _random.normal(size=shape).astype(np.float32)


CHAIN = chains.ChainPotentials(_drawn(4, 3), _drawn(3, 3), _drawn(3))
SEGMENTS = segments.SegmentPotentials(_drawn(4, 2, 3), _drawn(3, 3))
ARCS, HEADS = _drawn(5, 4, 2), np.array([0, 1, 1, 3])
COSTS = alignments.AlignmentPotentials(_drawn(3, 4), np.float32(1), np.float32(0.5))
GRAPH = graphs.GraphPotentials(
    _drawn(3, 2), np.array([[0, 1], [1, 2]]), _drawn(2, 2, 2), np.int32(3), np.int32(2)
)
PLAN = graphs.elimination(3, GRAPH.edges)
FOUR = jnp.int32(4)
RULES = trees.GrammarRules(np.array([0, 1]), np.array([1, 0]), np.array([1, 2]))
CHART = trees.TreePotentials(_drawn(4, 3), _drawn(2), _drawn(3))
TREE = jax.tree.map(np.asarray, trees.cky(RULES, jax.tree.map(jnp.asarray, CHART), FOUR).tree)
COUNTS = NodeCounts(_random.integers(0, 2, (4, 4, 3)))
LEVELS = LevelSizes((2, 4, 6, 8))
LABELS, ONES, KEY = np.array([0, 2, 1, 0]), np.ones(4, np.float32), np.array([0, 7], np.uint32)
GRID, ITEMS, SCORES, GRADES = _drawn(3, 4), np.array([3, 4]), _drawn(4), np.array([2, 0, 1, 0])
LEVEL = np.zeros(5, np.float32), np.ones(5, np.float32)


def _f1(*cells: jax.Array) -> jax.Array:
    return 2 * cells[0] / jnp.maximum(1, 2 * cells[0] + cells[1] + cells[2])


CASES: dict[str, tuple[Callable, tuple]] = {
    "chains.viterbi": (chains.viterbi, (CHAIN, 4)),
    "chains.k_best": (partial(chains.k_best, k=2), (CHAIN, 4)),
    "chains.log_partition": (chains.log_partition, (CHAIN, 4)),
    "chains.marginals": (chains.marginals, (CHAIN, 4)),
    "chains.sample": (chains.sample, (CHAIN, 4, KEY)),
    "chains.hamming_levels": (partial(chains.hamming_levels, levels=5), (CHAIN, LABELS, 4)),
    "chains.best_of_levels": (chains.best_of_levels, (CHAIN, LABELS, 4, *LEVEL)),
    "chains.loss_augmented": (chains.loss_augmented, (CHAIN, LABELS, 4, ONES, 1.0)),
    "chains.score_labels": (chains.score_labels, (CHAIN, LABELS, 4)),
    "segments.viterbi": (segments.viterbi, (SEGMENTS, 4)),
    "segments.k_best": (partial(segments.k_best, k=2), (SEGMENTS, 4)),
    "segments.log_partition": (segments.log_partition, (SEGMENTS, 4)),
    "segments.marginals": (segments.marginals, (SEGMENTS, 4)),
    "segments.sample": (segments.sample, (SEGMENTS, 4, KEY)),
    "trees.cky": (trees.cky, (RULES, CHART, 4)),
    "trees.cky_score": (trees.cky_score, (RULES, CHART, 4)),
    "trees.k_best_trees": (partial(trees.k_best_trees, k=2), (RULES, CHART, 4)),
    "trees.log_partition": (trees.log_partition, (RULES, CHART, 4)),
    "trees.rule_marginals": (trees.rule_marginals, (RULES, CHART, 4)),
    "trees.sample_tree": (trees.sample_tree, (RULES, CHART, 4, KEY)),
    "trees.score_tree": (trees.score_tree, (RULES, CHART, TREE, 4)),
    "trees.tree_levels": (partial(trees.tree_levels, sizes=LEVELS), (RULES, CHART, COUNTS, 4)),
    "alignments.global_alignment": (alignments.global_alignment, (COSTS, ITEMS)),
    "alignments.global_score": (alignments.global_score, (COSTS, ITEMS)),
    "alignments.local_alignment": (alignments.local_alignment, (COSTS, ITEMS)),
    "alignments.local_score": (alignments.local_score, (COSTS, ITEMS)),
    "alignments.k_best_global": (partial(alignments.k_best_global, k=2), (COSTS, ITEMS)),
    "alignments.k_best_local": (partial(alignments.k_best_local, k=2), (COSTS, ITEMS)),
    "alignments.log_partition": (partial(alignments.log_partition, local=True), (COSTS, ITEMS)),
    "alignments.marginals": (partial(alignments.marginals, local=False), (COSTS, ITEMS)),
    "alignments.sample": (partial(alignments.sample, local=True), (COSTS, ITEMS, KEY)),
    "rankings.ranked": (rankings.ranked, (SCORES, 4)),
    "rankings.average_precision": (
        rankings.average_precision_augmented, (SCORES, GRADES > 0, 4, 1.0),
    ),
    "rankings.ndcg_augmented": (rankings.ndcg_augmented, (SCORES, GRADES, 4, 1.0)),
    "rankings.roc_area_augmented": (rankings.roc_area_augmented, (SCORES, GRADES, 4, 1.0)),
    "rankings.best_cell": (partial(rankings.best_cell, value=_f1), (SCORES, GRADES > 0, 4)),
    "assignments.score_matching": (assignments.score_matching, (GRID, LABELS[:3], ITEMS)),
    "graphs.score_labels": (graphs.score_labels, (GRAPH, LABELS[:3] % 2)),
    "graphs.best_other": (graphs.best_other, (GRAPH, PLAN, LABELS[:3] % 2)),
    "graphs.sample_labelling": (graphs.sample_labelling, (GRAPH, PLAN, KEY)),
    "graphs.sample_of_all": (graphs.sample_of_all, (GRAPH, KEY)),
    "graphs.k_best_labellings": (partial(graphs.k_best_labellings, k=2), (GRAPH, PLAN)),
    "graphs.k_best_of_all": (partial(graphs.k_best_of_all, k=2), (GRAPH,)),
}  # fmt: skip
for _name in ("best_labelling", "log_partition", "marginals"):
    CASES[f"graphs.{_name}"] = getattr(graphs, _name), (GRAPH, PLAN)
for _name in ("best_of_all", "belief_propagation", "conditional_modes", "log_partition_bound",
              "enumerated_log_partition", "relaxed", "reweighted", "reweighted_marginals",
              "all_scores"):  # fmt: skip
    CASES[f"graphs.{_name}"] = getattr(graphs, _name), (GRAPH,)
for _kind in (True, False):
    for _name, _more in {"best_tree": (4,), "log_partition": (4,), "marginals": (4,),
                         "sample_tree": (4, KEY), "k_best_trees": (4,),
                         "best_wrong_tree": ((HEADS, HEADS % 2), 4)}.items():  # fmt: skip
        _options = {"projective": _kind} | ({"k": 2} if _name == "k_best_trees" else {})
        CASES[f"dependencies.{_name} {_kind}"] = (
            partial(getattr(dependencies, _name), **_options), (ARCS, *_more),
        )  # fmt: skip
    for _name, _more in {"best_matching": (ITEMS,), "k_best_matchings": (ITEMS,),
                         "best_wrong_matching": (LABELS[:3], ITEMS)}.items():  # fmt: skip
        _options = {"complete": _kind} | ({"k": 2} if _name == "k_best_matchings" else {})
        CASES[f"assignments.{_name} {_kind}"] = (
            partial(getattr(assignments, _name), **_options), (GRID, *_more),
        )  # fmt: skip
"""name -> (oracle, arguments of NumPy)."""


@pytest.mark.parametrize("name", CASES)
def test_arrays_of_numpy_are_taken(name: str) -> None:
    """Loops inside trace their bodies, where an array of NumPy cannot be read at a traced place.

    Tracing finds that without compiling the oracles.
    """
    oracle, given = CASES[name]
    wanted = jax.eval_shape(lambda: oracle(*jax.tree.map(jnp.asarray, given)))
    assert jax.eval_shape(lambda: oracle(*given)) == wanted


def test_the_best_wrong_tree_of_arrays_of_numpy_is_that_of_arrays_of_jax() -> None:
    oracle, given = CASES["dependencies.best_wrong_tree True"]
    wanted, found = oracle(*jax.tree.map(jnp.asarray, given)), oracle(*given)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
