"""The k best alignments against the enumeration of all of them on short sequences."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.alignments.oracles.k_best import FEW, k_best_global, k_best_local
from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.potentials import PADDING, AlignmentPotentials, score_operations
from tests.alignments.oracles.test_pairwise import CASES, M, N, by_size, cases
from tests.lib.refusals import refused

K = 7


@cache
def _ways(local):
    ranked = k_best_local if local else k_best_global
    best = local_alignment if local else global_alignment
    return jax.jit(jax.vmap(partial(ranked, k=K))), jax.jit(jax.vmap(best))


def _of_all(potentials, lengths, local):
    """[CASES, K] the K largest F by enumeration, -inf beyond the last alignment."""
    top = np.full((CASES, K), -np.inf)
    for _, rows, F, _ in by_size(potentials, lengths, local):
        every = -np.sort(-F, axis=1)[:, :K]
        top[rows, : every.shape[1]] = every
    return top


@pytest.mark.parametrize(
    "dtype, integers, local",
    [("float64", False, True), ("float64", True, True), ("float32", True, False)],
)
def test_scores_are_the_k_largest_of_all(x64, dtype, integers, local):
    """Alignments are distinct, their scores in falling order; the first is the best one's own."""
    potentials, lengths = cases(dtype, integers)
    ranked, best = _ways(local)
    found = jax.tree.map(np.asarray, ranked(potentials, lengths))
    expected = _of_all(potentials, lengths, local)
    falls = np.diff(np.nan_to_num(found.score, neginf=-99)) <= 0
    assert found.score.dtype == dtype and found.begin.dtype == np.int32 and falls.all()
    np.testing.assert_allclose(found.score, expected, atol=0 if integers else 1e-12)
    own = jax.jit(jax.vmap(jax.vmap(score_operations, (None, 0, 0))))(
        potentials, found.operations, found.begin
    )
    real = expected > -np.inf
    np.testing.assert_allclose(np.asarray(own)[real], expected[real], atol=1e-12)
    assert (found.operations[~real] == PADDING).all() and (found.begin[~real] == PADDING).all()
    whole = np.concatenate([found.operations, found.begin], axis=2)
    same = (whole[:, :, None] == whole[:, None]).all(axis=3) & real[:, :, None] & real[:, None]
    assert (same.sum(axis=2) <= 1).all(), "no alignment twice"
    first = best(potentials, lengths)
    np.testing.assert_array_equal(found.operations[:, 0], first.operations)
    np.testing.assert_array_equal(found.begin[:, 0], first.begin)


@pytest.mark.thorough
def test_fewer_are_the_first_of_more(x64):
    """Also where many scores are equal; more than `FEW` are sorted."""
    potentials, lengths = cases("float32", True, seed=1)
    few = _ways(False)[0](potentials, lengths)
    more = jax.jit(jax.vmap(partial(k_best_global, k=FEW + 2)))(potentials, lengths)
    for a, b in zip(few, more, strict=True):
        np.testing.assert_array_equal(a, b[:, :K])


def test_a_forbidden_pair_is_never_used_and_derivatives_count(x64):
    pairs = np.full((M, N), 2.0)
    pairs[0, 0] = -np.inf
    potentials = AlignmentPotentials(jnp.asarray(pairs), jnp.float64(0.5), jnp.float64(0.25))
    lengths = jnp.array([2, 2])

    def last(potentials):
        found = k_best_global(potentials, lengths, 14)
        return found.score[5], found.score

    (value, scores), counts = jax.jit(jax.value_and_grad(last, has_aux=True))(potentials)
    real = np.asarray(scores) > -np.inf
    assert real.sum() == 13 - 3, "all strings of 2 and 2 letters that leave (0, 0) unpaired"
    assert counts.pairs[0, 0] == 0
    total = 2.0 * jnp.sum(counts.pairs) + 0.5 * counts.gap_open + 0.25 * counts.gap_extend
    assert float(total) == pytest.approx(float(value))


def test_arguments_are_checked():
    potentials, lengths = cases("float32", True)
    one = jax.tree.map(lambda leaf: leaf[0], (potentials, lengths))
    refused("k must be", k_best_global, *one, k=0)
    refused(r"lengths must be in 0\.\.\(M, N\)", k_best_local, one[0], np.array([9, 9]), k=1)
