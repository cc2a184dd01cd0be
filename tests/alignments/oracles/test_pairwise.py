"""Alignments against the enumeration of all of them on short sequences."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.alignments.oracles.pairwise import (
    global_alignment,
    global_score,
    local_alignment,
    local_score,
)
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


def best(pairs, gap_open, gap_extend, lengths, local):
    """max F by enumeration."""
    w = np.concatenate([pairs.ravel(), [-gap_open, -gap_extend]])
    return (features(*lengths, local) @ w).max()


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
    align, alone = (local_alignment, local_score) if local else (global_alignment, global_score)
    found = jax.jit(jax.vmap(align))(potentials, lengths)
    assert found.score.dtype == dtype and found.operations.dtype == np.int32
    np.testing.assert_array_equal(jax.jit(jax.vmap(alone))(potentials, lengths), found.score)
    again = jax.jit(jax.vmap(score_operations))(potentials, found.operations, found.begin)
    close = dict(rtol=0, atol=1e-12 if dtype == "float64" else 0)
    np.testing.assert_allclose(again, found.score, **close)
    operations, begins = np.asarray(found.operations), np.asarray(found.begin)
    for c in range(CASES):
        one = jax.tree.map(lambda leaf, c=c: leaf[c].astype(float), potentials)
        wanted = best(*one, tuple(lengths[c]), local)
        assert abs(found.score[c] - wanted) <= 1e-12
        real = tuple(operations[c][operations[c] != PADDING])
        assert (operations[c][len(real) :] == PADDING).all()
        assert abs(score(*one, real, begins[c]) - wanted) <= 1e-12
        used = begins[c] + np.sum([STEP[kind] for kind in real], axis=0) if real else begins[c]
        assert (begins[c] >= 0).all() and (used <= lengths[c]).all()
        if not local:
            np.testing.assert_array_equal((begins[c], used), ((0, 0), lengths[c]))
    assert (np.asarray(found.score) > 0).any()
    assert {PAIR, DELETE, INSERT} <= set(np.unique(operations))


def test_what_is_beyond_the_lengths_is_never_read(x64):
    potentials, lengths = cases("float64", False)
    inside = (np.arange(M)[:, None] < lengths[:, 0, None, None]) & (
        np.arange(N) < lengths[:, 1, None, None]
    )
    jitted = [jax.jit(jax.vmap(align)) for align in (local_alignment, global_alignment)]
    for junk in (np.nan, np.inf, -np.inf, 1e9):
        spoiled = potentials._replace(pairs=np.where(inside, potentials.pairs, junk))
        for align in jitted:
            jax.tree.map(
                np.testing.assert_array_equal, align(spoiled, lengths), align(potentials, lengths)
            )


@pytest.mark.parametrize("align", [local_alignment, global_alignment])
def test_batched_nested_jitted_and_alone(x64, align):
    potentials, lengths = cases("float64", True)
    potentials, lengths = jax.tree.map(lambda leaf: leaf[:4], (potentials, lengths))
    rows = [jax.tree.map(lambda leaf, c=c: leaf[c], (potentials, lengths)) for c in range(4)]
    jitted = jax.jit(align)
    wanted = jax.tree.map(lambda *leaves: np.stack(leaves), *(jitted(*row) for row in rows))
    folded = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), (potentials, lengths))
    nested = jax.tree.map(
        lambda leaf: leaf.reshape(4, *leaf.shape[2:]), jax.jit(jax.vmap(jax.vmap(align)))(*folded)
    )
    for found in (jax.vmap(align)(potentials, lengths), nested):
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
    jax.tree.map(np.testing.assert_array_equal, align(*rows[0]), jitted(*rows[0]))
    shared = jax.jit(jax.vmap(partial(align, rows[0][0])))(lengths)  # one table, several lengths
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


def test_gradients_count_what_is_used(x64):
    """d F / d potentials of the best alignment is its Psi."""
    potentials, lengths = cases("float64", False)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[7]), potentials)
    found = jax.jit(local_alignment)(one, np.array([M, N]))
    counts = jax.jit(jax.grad(score_operations))(one, found.operations, found.begin)
    kinds = np.asarray(found.operations)
    assert counts.pairs.sum() == (kinds == PAIR).sum() and set(np.unique(counts.pairs)) <= {0, 1}
    gaps = np.isin(kinds, (DELETE, INSERT)).sum()
    assert -(counts.gap_open + counts.gap_extend) == gaps
    total = sum(jnp.vdot(a, b) for a, b in zip(counts, one, strict=True))
    assert total == pytest.approx(float(found.score), abs=1e-12)
    for best in (lambda *pair: local_alignment(*pair).score, local_score):
        gradient = jax.jit(jax.grad(best))(one, np.array([M, N]))
        jax.tree.map(np.testing.assert_array_equal, gradient, counts)


@pytest.mark.parametrize(
    "oracle",
    [
        local_score,
        global_score,
        lambda *pair: local_alignment(*pair).score,
        lambda *pair: global_alignment(*pair).score,
    ],
)
def test_derivatives_against_differences(x64, oracle):
    potentials, lengths = jax.tree.map(lambda leaf: leaf[:300], cases("float64", False))
    call = jax.jit(jax.vmap(oracle))
    assert_derivatives(lambda p: call(p, lengths), potentials)


def test_forbidden_pairs(x64):
    """Only gaps are left: m + n of them."""
    pairs, lengths = np.full((M, N), -np.inf), np.array([M, N])
    found = global_alignment(AlignmentPotentials(pairs, 1.0, 0.5), lengths)
    assert found.score == -(1 + 0.5 * (M - 1) + 1 + 0.5 * (N - 1))
    assert local_alignment(AlignmentPotentials(pairs, 1.0, 0.5), lengths).score == 0


@pytest.mark.parametrize(
    "change, lengths, error, message",
    [
        ({"pairs": np.zeros(3)}, [1, 1], ValueError, "pairs must be \\[M, N\\]"),
        ({"pairs": np.zeros((2, 0))}, [1, 1], ValueError, "pairs must be \\[M, N\\]"),
        ({"gap_open": np.zeros(2)}, [1, 1], ValueError, "gap_open must be a scalar"),
        (
            dict(pairs=np.zeros((2, 2), int), gap_open=1, gap_extend=1),
            [1, 1],
            ValueError,
            "floating",
        ),
        ({}, [1], ValueError, "lengths must be \\[2\\]"),
        ({}, [1.0, 1.0], ValueError, "lengths must be integers"),
    ],
)
def test_arguments_that_do_not_fit(change, lengths, error, message):
    potentials = AlignmentPotentials(np.zeros((2, 2)), 1.0, 1.0)._replace(**change)
    for function in (local_alignment, global_alignment, local_score, global_score):
        with pytest.raises(error, match=message):
            function(potentials, np.array(lengths))
