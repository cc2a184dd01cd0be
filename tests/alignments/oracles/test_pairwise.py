"""Alignments against the enumeration of all of them on short sequences."""

from __future__ import annotations

from functools import cache, partial

import jax
import numpy as np
import pytest

from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.potentials import (
    DELETE,
    INSERT,
    PADDING,
    PAIR,
    AlignmentPotentials,
    score_operations,
)
from tests.alignments.oracles.truth import STEP, every, score
from tests.core.derivatives import assert_derivatives
from tests.lib.refusals import refused

M, N = 4, 3
CASES = 3000


@cache
def features(m, n, local):
    """([A, M N] pairs, [A] runs, [A] later letters of runs) of all alignments."""
    rows = []
    for operations, (i, j) in every(m, n, local):
        used, opened, later, before = np.zeros((M, N)), 0, 0, None
        for kind in operations:
            if kind == PAIR:
                used[i, j] += 1
            else:
                opened, later = opened + (kind != before), later + (kind == before)
            i, j, before = i + STEP[kind][0], j + STEP[kind][1], kind
        rows.append([*used.ravel(), opened, later])
    return np.array(rows, float)


def by_size(potentials, lengths, local):
    """Of each size (m, n): it, the rows of its cases, F [rows, K] of all alignments, features."""
    pairs, opened, later = (np.asarray(leaf, float) for leaf in potentials)
    w = np.concatenate([pairs.reshape(CASES, -1), -opened[:, None], -later[:, None]], axis=1)
    for m, n in np.ndindex(M + 1, N + 1):
        rows, used = np.flatnonzero((lengths == (m, n)).all(axis=1)), features(m, n, local)
        assert len(rows) > 100
        yield (m, n), rows, w[rows] @ used.T, used


@cache
def place_of(m, n, local):
    """{(operations, begin): its row of `features`}."""
    return {output: row for row, output in enumerate(every(m, n, local))}


def cases(dtype, integers, linear=False, seed=0):
    """(potentials of CASES pairs, lengths): gap costs of any sign and order, and all lengths."""
    random = np.random.default_rng(seed)
    pairs = random.normal(size=(CASES, M, N)) + 0.2
    gaps = random.normal(0.4, 0.5, size=(CASES, 2))
    if integers:
        pairs = random.integers(-2, 3, pairs.shape)
        gaps = random.integers(-1, 3, gaps.shape)
    gaps = gaps.astype(dtype)
    lengths = np.stack([random.integers(0, M + 1, CASES), random.integers(0, N + 1, CASES)], 1)
    opened = gaps[:, 0] if linear else gaps[:, 1]
    return AlignmentPotentials(pairs.astype(dtype), opened, gaps[:, 0]), lengths


BATCHED = {
    oracle: jax.jit(jax.vmap(oracle))
    for oracle in (local_alignment, global_alignment, score_operations)
}


def test_features_are_the_scores_letter_by_letter():
    """What `features` counts, against `score`."""
    potentials, _ = cases("float64", False)
    one = jax.tree.map(lambda leaf: leaf[0], potentials)
    w = np.array([*one.pairs.ravel(), -one.gap_open, -one.gap_extend])
    for m, n, local in ((M, N, True), (M, N, False), (2, 0, True)):
        wanted = [score(*one, *output) for output in every(m, n, local)]
        np.testing.assert_allclose(features(m, n, local) @ w, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    "dtype, integers, linear",
    [
        ("float64", False, False),
        ("float64", True, False),
        ("float32", True, True),
        ("float64", False, True),
    ],
)
def test_scores_and_alignments_are_the_best(x64, dtype, integers, linear, local):
    potentials, lengths = cases(dtype, integers, linear)
    found = BATCHED[local_alignment if local else global_alignment](potentials, lengths)
    assert found.score.dtype == dtype and found.operations.dtype == np.int32
    again = BATCHED[score_operations](potentials, found.operations, found.begin)
    close = dict(rtol=0, atol=1e-12 if dtype == "float64" else 0)
    np.testing.assert_allclose(again, found.score, **close)
    found = jax.tree.map(np.asarray, found)
    real = found.operations != PADDING
    assert (real[:, 1:] <= real[:, :-1]).all()
    for size, rows, F, _ in by_size(potentials, lengths, local):
        place = place_of(*size, local)
        outputs = [
            (tuple(found.operations[c][real[c]].tolist()), tuple(found.begin[c].tolist()))
            for c in rows
        ]
        reached = F[np.arange(len(rows)), [place[output] for output in outputs]]
        np.testing.assert_allclose(found.score[rows], F.max(axis=1), rtol=0, atol=1e-12)
        np.testing.assert_allclose(reached, F.max(axis=1), rtol=0, atol=1e-12)
    assert (found.score > 0).any()
    assert {PAIR, DELETE, INSERT} <= set(np.unique(found.operations))


@pytest.mark.parametrize("align", [local_alignment, global_alignment])
def test_batched_nested_jitted_and_alone(x64, align):
    """One of the two without jit as well: the recursion is shared."""
    potentials, lengths = cases("float64", True)
    batched = jax.tree.map(lambda leaf: np.asarray(leaf)[:4], BATCHED[align](potentials, lengths))
    potentials, lengths = jax.tree.map(lambda leaf: leaf[:4], (potentials, lengths))
    rows = [jax.tree.map(lambda leaf, c=c: leaf[c], (potentials, lengths)) for c in range(4)]
    jitted = jax.jit(align)
    wanted = jax.tree.map(lambda *leaves: np.stack(leaves), *(jitted(*row) for row in rows))
    folded = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), (potentials, lengths))
    nested = jax.jit(jax.vmap(jax.vmap(align)))(*folded)
    nested = jax.tree.map(lambda leaf: np.reshape(leaf, (4, *leaf.shape[2:])), nested)
    for found in (batched, nested):
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
    if align is local_alignment:
        jax.tree.map(np.testing.assert_array_equal, align(*rows[0]), jitted(*rows[0]))
    shared = jax.jit(jax.vmap(partial(align, rows[0][0])))(lengths)  # one table, several lengths
    shared = jax.tree.map(np.asarray, shared)
    for c in range(4):
        own = jax.tree.map(lambda leaf, c=c: leaf[c], shared)
        jax.tree.map(np.testing.assert_array_equal, own, jitted(rows[0][0], lengths[c]))


def test_ties(x64):
    """The rules of the docstring on cases made by hand."""

    jitted = {align: jax.jit(align) for align in (local_alignment, global_alignment)}

    def operations(align, pairs, opened, extended):
        pairs = np.asarray(pairs, float)
        found = jitted[align](AlignmentPotentials(pairs, opened, extended), np.array(pairs.shape))
        return [int(o) for o in np.asarray(found.operations) if o != PADDING], found.begin.tolist()

    # two equal pairs: the one on the earlier anti-diagonal, there the smaller i
    assert operations(local_alignment, [[0, 1], [1, 0]], 1.0, 1.0) == ([PAIR], [0, 1])
    # nothing is gained by a pair of score 0 in front
    assert operations(local_alignment, [[0, -9], [-9, 1]], 1.0, 1.0) == ([PAIR], [1, 1])
    assert operations(local_alignment, [[0.0]], 1.0, 1.0) == ([], [0, 0])
    # a pair of -2 costs as much as two gaps; going back the pair comes first, then DELETE
    assert operations(global_alignment, [[-2.0]], 1.0, 1.0) == ([PAIR], [0, 0])
    assert operations(global_alignment, [[-3.0]], 1.0, 1.0) == ([INSERT, DELETE], [0, 0])


@pytest.mark.parametrize("align", [local_alignment, global_alignment])
def test_derivatives_against_differences(x64, align):
    potentials, lengths = jax.tree.map(lambda leaf: leaf[:300], cases("float64", False))
    call = jax.jit(jax.vmap(lambda *pair: align(*pair).score))
    assert_derivatives(lambda p: call(p, lengths), potentials)


@pytest.mark.smoke
def test_forbidden_pairs(x64):
    """Only gaps are left: m + n of them."""
    potentials, lengths = cases("float64", False)
    potentials = AlignmentPotentials(
        np.full_like(potentials.pairs, -np.inf), np.full(CASES, 1.0), np.full(CASES, 0.5)
    )
    opened, later = (lengths > 0).sum(axis=1), np.maximum(lengths - 1, 0).sum(axis=1)
    found = BATCHED[global_alignment](potentials, lengths)
    np.testing.assert_array_equal(found.score, -(1.0 * opened + 0.5 * later))
    assert (np.asarray(BATCHED[local_alignment](potentials, lengths).score) == 0).all()


@pytest.mark.parametrize(
    "change, lengths, message",
    [
        ({"pairs": np.zeros(3)}, [1, 1], "pairs must be \\[M, N\\]"),
        ({"pairs": np.zeros((2, 0))}, [1, 1], "pairs must be \\[M, N\\]"),
        ({"gap_open": np.zeros(2)}, [1, 1], "gap_open must be a scalar"),
        (dict(pairs=np.zeros((2, 2), int), gap_open=1, gap_extend=1), [1, 1], "floating"),
        ({}, [1], "lengths must be \\[2\\]"),
        ({}, [1.0, 1.0], "lengths must be \\[2\\] integers"),
    ],
)
def test_arguments_that_do_not_fit(change, lengths, message):
    potentials = AlignmentPotentials(np.zeros((2, 2)), 1.0, 1.0)._replace(**change)
    for function in (local_alignment, global_alignment):
        refused(message, function, potentials, np.array(lengths))
