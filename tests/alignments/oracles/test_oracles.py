"""All that oracles say of a pair, one program, against every alignment of short sequences."""

from __future__ import annotations

from functools import cache, partial

import jax
import numpy as np
import pytest

from jaxstruct.alignments.oracles.k_best import FEW, k_best_global, k_best_local
from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.oracles.sums import log_partition, marginals, sample
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
from tests.lib.enumeration import (
    Listed,
    check_alone,
    check_best,
    check_k_best,
    check_samples,
    check_sums,
    check_used,
    flat,
    row,
    with_garbage,
)
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

M, N = 4, 3
CASES, K, DRAWS = 600, 7, 100
BEST = {True: local_alignment, False: global_alignment}


@cache
def counts(m, n, local):
    """([A, M N + 2] how often all alignments use each potential, [A, M + N + 2] what they are)."""
    rows, outputs = [], []
    for operations, begin in every(m, n, local):
        used, opened, later, before = np.zeros((M, N)), 0, 0, None
        i, j = begin
        for kind in operations:
            if kind == PAIR:
                used[i, j] += 1
            else:
                opened, later = opened + (kind != before), later + (kind == before)
            i, j, before = i + STEP[kind][0], j + STEP[kind][1], kind
        rows.append([*used.ravel(), -opened, -later])
        outputs.append([*operations, *[PADDING] * (M + N - len(operations)), *begin])
    return np.array(rows, float), np.array(outputs)


def listed(potentials, lengths, local):
    """(all alignments of all pairs, any of equals; a case -> its counts)."""
    each = [counts(*size, local) for size in lengths.tolist()]
    w = flat(potentials, 1).astype(float)
    w[w == -np.inf] = -1e9  # of a pair that is forbidden
    F = [used @ own for own, (used, _) in zip(w, each, strict=True)]
    F = [np.where(one < -1e8, -np.inf, one) for one in F]
    outputs = [every for _, every in each]
    return Listed(outputs, F, np.zeros(len(F), bool)), lambda i: each[i][0]


def cases(dtype, integers, linear=False, seed=0, count=CASES):
    """(potentials of pairs, lengths): gap costs of any sign and order, and all lengths."""
    random = np.random.default_rng(seed)
    pairs = random.normal(size=(count, M, N)) + 0.2
    gaps = random.normal(0.4, 0.5, size=(count, 2))
    if integers:
        pairs = random.integers(-2, 3, pairs.shape)
        gaps = random.integers(-1, 3, gaps.shape)
    gaps = gaps.astype(dtype)
    lengths = np.stack([random.integers(0, M + 1, count), random.integers(0, N + 1, count)], 1)
    opened = gaps[:, 0] if linear else gaps[:, 1]
    return AlignmentPotentials(pairs.astype(dtype), opened, gaps[:, 0]), lengths


@cache
def together(local):
    def answers(potentials, lengths, key):
        """All that is said of one pair."""
        best, ranked = BEST[local], k_best_local if local else k_best_global
        draw = jax.vmap(partial(sample, local=local), (None, None, 0))

        def score_of_best(potentials):
            found = best(potentials, lengths)
            return found.score, found

        (_, found), used = jax.value_and_grad(score_of_best, has_aux=True)(potentials)
        return {
            "best": found,
            "again": score_operations(potentials, found.operations, found.begin),
            "used": used,
            "k best": ranked(potentials, lengths, K),
            "sums": jax.value_and_grad(partial(log_partition, local=local))(potentials, lengths),
            "marginals": marginals(potentials, lengths, local=local),
            "drawn": draw(potentials, lengths, jax.random.split(key, DRAWS)),
        }

    return jax.jit(jax.vmap(answers))


EACH = [
    ("float64", False, False, False), ("float32", True, True, True),
    ("float64", True, True, False), ("float32", False, False, True),
]  # fmt: skip
"""The last two by the programs of the first two."""


def test_counts_are_the_scores_letter_by_letter():
    """What `counts` counts, against `score`."""
    potentials, _ = cases("float64", False)
    one = jax.tree.map(lambda leaf: leaf[0], potentials)
    w = np.array([*one.pairs.ravel(), one.gap_open, one.gap_extend])
    for m, n, local in ((M, N, True), (M, N, False), (2, 0, True)):
        wanted = [score(*one, *output) for output in every(m, n, local)]
        np.testing.assert_allclose(counts(m, n, local)[0] @ w, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype, integers, linear, local", thorough_after(2, EACH))
def test_scores_and_alignments_are_the_best(x64, dtype, integers, linear, local):
    """And the k best, sums, marginals and samples; gradients count what is used; garbage where no
    pairs are. Of some nothing but gaps is left, of others a third of the pairs is forbidden."""
    potentials, lengths = cases(dtype, integers, linear)
    potentials.pairs[::5][np.random.default_rng(1).random((CASES // 5, M, N)) < 0.3] = -np.inf
    potentials.pairs[::40] = -np.inf
    keys = jax.random.split(jax.random.key(0), CASES)
    real = np.arange(M)[:, None] < lengths[:, :1, None], np.arange(N) < lengths[:, 1:, None]
    given = potentials._replace(pairs=with_garbage(potentials.pairs, real[0] & real[1]))
    found = jax.device_get(together(local)(given, lengths, keys))
    everything, uses = listed(potentials, lengths, local)
    best, ranked, tables = found["best"], found["k best"], found["marginals"]
    assert best.score.dtype == ranked.score.dtype == dtype
    assert best.operations.dtype == best.begin.dtype == np.int32
    close = 1e-12 if dtype == "float64" else 0 if integers else 1e-5
    check_best(everything, (best.operations, best.begin), best.score, close)
    np.testing.assert_allclose(found["again"], best.score, rtol=0, atol=close)
    check_k_best(everything, (ranked.operations, ranked.begin), ranked.score, close)
    if integers:  # sums are exact: of equals both take the same
        for one, many in zip(best[:2], ranked[:2], strict=True):
            np.testing.assert_array_equal(one, many[:, 0])
    assert {PAIR, DELETE, INSERT} <= set(np.unique(best.operations))
    check_used(everything, uses, (best.operations, best.begin), found["used"])
    own = AlignmentPotentials(tables.pairs, -tables.opened, -tables.later)
    close = 1e-10 if dtype == "float64" else 2e-4
    for log_z, slope in (found["sums"], (tables.log_partition, own)):
        check_sums(everything, uses, log_z, slope, close, close, close)
    check_samples(everything, found["drawn"])


@cache
def alone(local):
    return jax.jit(BEST[local])


def test_batched_nested_and_alone(x64):
    """Of one of the two: the recursion is shared."""
    given, align, jitted = cases("float64", True, count=4), local_alignment, alone(True)
    batched = jax.jit(jax.vmap(align))(*given)
    check_alone(jitted, given, batched, range(4))
    folded = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), given)
    nested = jax.jit(jax.vmap(jax.vmap(align)))(*folded)
    nested = jax.tree.map(lambda leaf: np.reshape(leaf, (4, *leaf.shape[2:])), nested)
    jax.tree.map(np.testing.assert_array_equal, nested, batched)
    one = jax.tree.map(lambda leaf: leaf[0], given[0])
    shared = jax.jit(jax.vmap(partial(align, one)))(given[1])  # one table, several lengths
    check_alone(jitted, lambda i: (one, given[1][i]), shared, range(4))


@pytest.mark.smoke
def test_ties(x64):
    """The rules of the docstring on cases made by hand."""

    def operations(align, pairs, opened, extended):
        lengths = np.shape(pairs)
        pairs = np.pad(np.array(pairs, float), ((0, M - lengths[0]), (0, N - lengths[1])))
        potentials = AlignmentPotentials(pairs, np.float64(opened), np.float64(extended))
        found = alone(align is local_alignment)(potentials, np.array(lengths))
        return [int(o) for o in np.asarray(found.operations) if o != PADDING], found.begin.tolist()

    # two equal pairs: the one on the earlier anti-diagonal, there the smaller i
    assert operations(local_alignment, [[0, 1], [1, 0]], 1.0, 1.0) == ([PAIR], [0, 1])
    # nothing is gained by a pair of score 0 in front
    assert operations(local_alignment, [[0, -9], [-9, 1]], 1.0, 1.0) == ([PAIR], [1, 1])
    assert operations(local_alignment, [[0.0]], 1.0, 1.0) == ([], [0, 0])
    # a pair of -2 costs as much as two gaps; going back the pair comes first, then DELETE
    assert operations(global_alignment, [[-2.0]], 1.0, 1.0) == ([PAIR], [0, 0])
    assert operations(global_alignment, [[-3.0]], 1.0, 1.0) == ([INSERT, DELETE], [0, 0])


def test_derivatives_against_differences(x64):
    """Of one of the two, too: slopes of both count what is used."""
    potentials, lengths = cases("float64", False, count=300)
    call = jax.jit(jax.vmap(lambda *pair: global_alignment(*pair).score))
    assert_derivatives(lambda p: call(p, lengths), potentials)


@jax.jit
@jax.vmap
def more_than_few(potentials, lengths):
    """((the score of the sixth of more than are merged, all of them), its slope)."""

    def sixth(potentials):
        found = k_best_global(potentials, lengths, FEW + 6)
        return found.score[5], found

    return jax.value_and_grad(sixth, has_aux=True)(potentials)


@pytest.mark.thorough
def test_fewer_are_the_first_of_more(x64):
    """Also where many scores are equal; more than `FEW` are sorted."""
    given = cases("float64", True, seed=1)
    few = together(False)(*given, jax.random.split(jax.random.key(0), CASES))["k best"]
    (_, more), _ = more_than_few(*given)
    for a, b in zip(few, more, strict=True):
        np.testing.assert_array_equal(a, b[:, :K])


def test_a_forbidden_pair_is_never_used(x64):
    pairs = np.full((CASES, M, N), 2.0)  # as many as the program has
    pairs[:, 0, 0] = -np.inf
    potentials = AlignmentPotentials(pairs, np.full(CASES, 0.5), np.full(CASES, 0.25))
    (value, found), used = row(more_than_few(potentials, np.full((CASES, 2), 2)), 0)
    real = np.asarray(found.score) > -np.inf
    assert real.sum() == 13 - 3, "all strings of 2 and 2 letters that leave (0, 0) unpaired"
    assert used.pairs[0, 0] == 0
    total = 2.0 * np.sum(used.pairs) + 0.5 * used.gap_open + 0.25 * used.gap_extend
    assert float(total) == pytest.approx(float(value))


def test_arguments_that_do_not_fit():
    potentials, ones = AlignmentPotentials(np.zeros((2, 2)), 1.0, 1.0), np.array([1, 1])
    whole = AlignmentPotentials(np.zeros((2, 2), int), 1, 1)
    for given, lengths, message in (
        (potentials._replace(pairs=np.zeros(3)), ones, "pairs must be \\[M, N\\]"),
        (potentials._replace(pairs=np.zeros((2, 0))), ones, "pairs must be \\[M, N\\]"),
        (potentials._replace(gap_open=np.zeros(2)), ones, "gap_open must be a scalar"),
        (whole, ones, "floating"),
        (potentials, ones[:1], "lengths must be \\[2\\]"),
        (potentials, 1.0 * ones, "lengths must be \\[2\\] integers"),
    ):
        for function in (local_alignment, global_alignment):
            refused(message, function, given, lengths)
    refused("k must be", k_best_global, potentials, ones, k=0)
    refused(r"lengths must be in 0\.\.\(M, N\)", k_best_local, potentials, 9 * ones, k=1)
