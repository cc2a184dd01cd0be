"""Training weighted grammars: the optimum against an independent QP with all trees."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np
import pytest

from jaxstruct import Settings, fit
from jaxstruct.core.buckets import Buckets
from jaxstruct.trees.structure import weighted_grammar
from tests.solvers.cases import assert_near, assert_optimal
from tests.trees.structure_cases import (
    T,
    all_trees,
    bound_by,
    examples,
    flat,
    grammar,
    loss,
    psi,
    row_of,
    same,
)
from tests.truth.quadratic_program import solve_primal

SUBSPACE = Settings(variant="subspace")
C = 5.0


@lru_cache
def planes(name, formulation):
    """([n, k, D] Psi, [n, k] Delta): y_i first, then all trees that bind, the last again."""
    x, y = examples(0)
    rows, deltas = [], []
    for i in range(len(x.length)):
        own, every = row_of(y, i), all_trees(0, i)
        delta = np.array([loss(name, 0, own, tree) for tree in every])
        wrong = np.array([not same(own, tree) for tree in every])
        kept = np.flatnonzero(bound_by(name, formulation, delta, wrong))
        rows.append(np.array([psi(0, i, tree) for tree in (own, *(every[at] for at in kept))]))
        deltas.append(np.array([0, *delta[kept]]))
    most = max(map(len, rows))
    fill = [np.minimum(np.arange(most), len(row) - 1) for row in rows]
    return tuple(
        np.array([part[index] for part, index in zip(parts, fill, strict=True)])
        for parts in (rows, deltas)
    )


@pytest.mark.parametrize(
    "formulation, name, bucketed",
    [
        ("svm2", "zero_one", False),
        ("svm2_margin", "node_f1", True),
        ("svm1_margin", "node_f1", False),
        ("svm1_slack", "f1", False),
        # Buckets know nothing of the loss: one case suffices, as each compiles its own programs.
        ("svm2_slack", "all_node_f1", False),
        ("svm2_margin", "all_node_f1", False),
        ("svm1_margin", "all_node_f1", False),
    ],
)
def test_optimum(x64, formulation, name, bucketed):
    features, losses = planes(name, formulation)
    n = len(features)
    several = (losses.max(axis=1) > 0).astype(float)
    truth = solve_primal(formulation, features, losses, np.zeros(n, int), C, several)
    problem = weighted_grammar(grammar(0), loss=name, longest=T, dtype="float64")
    x, y = examples(0)
    if bucketed:
        short = np.flatnonzero(x.length <= 3), np.flatnonzero(x.length > 3)
        x, y = (Buckets(tuple(cut(each, rows) for rows in short), short) for each in (x, y))
    solution = fit(problem, x, y, formulation, C, tolerance=1e-6, max_passes=3000,
                   settings=SUBSPACE, example_weights=several)  # fmt: skip
    assert_optimal(solution, truth, 2e-6)
    assert_near(flat(solution.weights), truth, 2e-6)


def cut(tree, rows):
    """Rows of a batch; short sentences padded to three tokens only."""
    T = int((np.asarray(tree[0])[rows] >= 0).sum(axis=1).max())
    leaves = []
    for name, leaf in zip(tree._fields, tree, strict=True):
        if name == "forest":  # padded as it is: nodes and edges, not tokens
            leaves.append(jax.tree.map(lambda each: np.asarray(each)[rows], leaf))
            continue
        leaf = None if leaf is None else np.asarray(leaf)[rows]
        if leaf is not None and leaf.ndim == 2:
            leaf = leaf[:, : T if name in ("terminals", "symbols") else T - 1]
        leaves.append(leaf)
    return type(tree)(*leaves)
