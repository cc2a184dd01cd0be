"""The best label sequence at every Hamming distance against enumeration, exact and capped."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.hamming_levels import BestLevel, best_of_levels, hamming_levels
from jaxstruct.chains.potentials import ChainPotentials
from tests.chains.oracles.truth import PAIRWISE, STRUCTURES, Cases, as_dtype, cases, preferred
from tests.core.derivatives import assert_derivatives
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

FIRST, SECOND = STRUCTURES[0].values[0], STRUCTURES[4].values[0]
best = jax.jit(jax.vmap(best_of_levels))


def _levels_of(given: Cases, i: int, levels: int) -> np.ndarray:
    """The level of every label sequence of chain i."""
    return np.minimum((given.labelings[i] != given.y_true[i]).sum(axis=1), levels - 1)


def _truth(given: Cases, levels: int) -> np.ndarray:
    def best_score(i: int, level: int) -> float:
        return given.scores[i][_levels_of(given, i, levels) == level].max(initial=-np.inf)

    return np.asarray([[best_score(i, x) for x in range(levels)] for i in range(len(given.length))])


def _check_scores(given: Cases, levels: int, dtype: str, tolerance: float) -> None:
    oracle = jax.jit(jax.vmap(partial(hamming_levels, levels=levels)))
    found = oracle(as_dtype(given.potentials, dtype), given.y_true, given.length)
    assert found.dtype == dtype and found.shape == (len(given.length), levels)
    np.testing.assert_allclose(found, _truth(given, levels), rtol=tolerance, atol=tolerance)


def _random_lines(given: Cases, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """offsets, slopes and valid of every chain: small integers, and some levels excluded."""
    random = np.random.default_rng(levels)
    shape = (len(given.length), levels)
    offsets = np.where(random.random(shape) < 0.1, -np.inf, random.integers(-2, 3, shape))
    return offsets, random.integers(0, 3, shape).astype(float), random.random(shape) < 0.85


def _check_best(given: Cases, levels: int, dtype: str, tolerance: float) -> None:
    offsets, slopes, valid = _random_lines(given, levels)
    potentials = as_dtype(given.potentials, dtype)
    found = best(potentials, given.y_true, given.length, offsets, slopes, valid)
    assert found.labels.dtype == found.level.dtype == jnp.int32
    assert found.score.dtype == found.value.dtype == dtype
    found, truth = jax.tree.map(np.asarray, found), _truth(given, levels)
    usable = valid & (truth > -np.inf)
    values = np.where(usable, offsets + slopes * np.where(usable, truth, 0), -np.inf)
    for i in range(len(given.length)):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], found)
        _check_one(given, i, one, levels, values[i], tolerance)


def _check_one(
    given: Cases, i: int, one: BestLevel, levels: int, values: np.ndarray, tolerance: float
) -> None:
    np.testing.assert_allclose(one.value, values.max(), rtol=tolerance, atol=tolerance)
    if values.max() == -np.inf:
        assert one.level == 0
        np.testing.assert_array_equal(one.labels, given.y_true[i])
        return
    y, F, level = given.labelings[i], given.scores[i], _levels_of(given, i, levels)
    np.testing.assert_allclose(values[one.level], values.max(), rtol=tolerance, atol=tolerance)
    own = (y == one.labels).all(axis=1)
    assert own.sum() == 1 and level[own] == one.level
    np.testing.assert_allclose(F[own], F[level == one.level].max(), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.score, F[own][0], rtol=tolerance, atol=tolerance)
    if given.tied[i]:
        assert one.level == values.argmax()
        if one.level < levels - 1 or levels > y.shape[1]:
            here = level == one.level
            np.testing.assert_array_equal(one.labels, y[here][preferred(y[here], F[here])[0]])


EXACT = [(PAIRWISE[0].values[0], 8), *((each.values[0], 6) for each in PAIRWISE[1:])]
"""Once more levels than positions."""


@pytest.mark.parametrize(("structure", "levels"), thorough_after(2, EXACT))
def test_exact_levels(structure: dict[str, bool], levels: int) -> None:
    for draw in range(2):
        _check_best(cases(structure, draw=draw), levels, "float32", 1e-5)


@pytest.mark.parametrize("structure", thorough_after(1, STRUCTURES[::3]))
def test_capped_at_one(structure: dict[str, bool]) -> None:
    _check_best(cases(structure), 2, "float32", 1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(("structure", "levels"), [(FIRST, 6), (SECOND, 3), (SECOND, 8)])
def test_scores_alone(structure: dict[str, bool], levels: int) -> None:
    _check_scores(cases(structure), levels, "float32", 1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("structure", [FIRST, SECOND])
def test_cap_in_the_middle_in_float64(structure: dict[str, bool]) -> None:
    _check_best(cases(structure), 3, "float64", 1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize(("S", "levels"), [(1, 2), (2, 4), (19, 3)])
def test_few_and_many_labels(S: int, levels: int) -> None:
    _check_best(cases(FIRST, count=120, T=3, S=S), levels, "float32", 1e-5)


@pytest.mark.parametrize("structure", [FIRST, SECOND])
def test_one_position(structure: dict[str, bool]) -> None:
    given = cases(structure | dict(varying=True, start_stop=True), count=40, T=1, S=3)
    _check_best(given, 2, "float32", 1e-5)


def test_one_level_is_viterbi() -> None:
    given = cases(SECOND)
    potentials = as_dtype(given.potentials, "float32")
    oracle = jax.jit(jax.vmap(partial(hamming_levels, levels=1)))
    (found,) = np.asarray(oracle(potentials, given.y_true, given.length)).T
    np.testing.assert_array_equal(found, jax.jit(jax.vmap(viterbi))(potentials, given.length).score)


@pytest.mark.thorough
def test_zero_one_oracle_is_the_best_or_second_best() -> None:
    """Two levels without the first: the best y != y_true, from the two best of all."""
    given = cases(FIRST)
    potentials = as_dtype(given.potentials, "float32")
    lines = np.asarray([[-np.inf, 0], [0.0, 1]], np.float32)
    oracle = jax.jit(jax.vmap(best_of_levels, (0, 0, 0, None, None)))
    found = oracle(potentials, given.y_true, given.length, *lines)
    two = jax.jit(jax.vmap(partial(k_best, k=2)))(potentials, given.length)
    found, two = jax.tree.map(np.asarray, (found, two))
    is_true = np.all(two.labels[:, 0] == given.y_true, axis=1)
    expected = np.where(is_true, two.score[:, 1], two.score[:, 0])
    np.testing.assert_allclose(found.value, expected, rtol=1e-5, atol=1e-5)
    assert is_true.sum() > 10
    wrong = np.any(np.asarray(found.labels) != given.y_true, axis=1)
    np.testing.assert_array_equal(wrong, found.value > -jnp.inf)


@pytest.mark.thorough
def test_one_at_a_time_and_nested() -> None:
    given = cases(FIRST)
    emissions, transitions = as_dtype(given.potentials, "float32")[:2]
    rows = np.argsort(given.length)[-6:]  # the longest
    y, length = given.y_true, given.length
    offsets, slopes = np.asarray([[-np.inf, 0, 0, 0.5], [0.0, 1, 2, 3]], np.float32)
    together = best_of_levels
    for axes in ((ChainPotentials(0, None), None, 0, None, None), (0, 0, 0, None, None)):
        together = jax.vmap(together, axes)
    rows = rows.reshape(2, 3)
    outer = ChainPotentials(emissions[rows], transitions[rows[:, 0]])
    found = jax.jit(together)(outer, y[rows[:, 0]], length[rows], offsets, slopes)
    found = jax.tree.map(np.asarray, found)
    alone = jax.jit(best_of_levels)
    for i, j in np.ndindex(2, 3):
        own = ChainPotentials(emissions[rows[i, j]], transitions[rows[i, 0]])
        one = alone(own, y[rows[i, 0]], length[rows[i, j]], offsets, slopes)
        jax.tree.map(lambda a, b, at=(i, j): np.testing.assert_array_equal(a, b[at]), one, found)
    unjitted = best_of_levels(own, y[rows[1, 0]], length[rows[1, 2]], offsets, slopes)
    jax.tree.map(np.testing.assert_array_equal, unjitted, one)


def test_errors_say_what_was_expected() -> None:
    potentials, y = ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3))), jnp.zeros(4, int)
    refused("at least 1 levels", hamming_levels, potentials, y, 4, 0)
    refused("at least 2 levels", best_of_levels, potentials, y, 4, jnp.zeros(1), jnp.zeros(1))
    refused(r"must all be \[levels\]", best_of_levels, potentials, y, 4, jnp.zeros(3), jnp.zeros(2))
    refused("y_true must be .T = 4., got", hamming_levels, potentials, y[:3], 4, 2)
    refused("integer labels", hamming_levels, potentials, jnp.zeros(4), 4, 2)


@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    """Of all levels, and of the best one with its offset and slope: exact ones and a capped one."""
    given, levels = cases(STRUCTURES[2].values[0], count=80), 3
    rows = np.flatnonzero(~given.tied)
    potentials = jax.tree.map(
        lambda leaf: np.nan_to_num(leaf[rows], neginf=-np.inf), given.potentials
    )
    y_true, length = given.y_true[rows], given.length[rows]
    of_levels = jax.vmap(partial(hamming_levels, levels=levels))
    random = np.random.default_rng(0)
    offsets, slopes = random.normal(size=(len(rows), levels)), random.random((len(rows), levels))
    offsets[random.random(offsets.shape) < 0.2] = -np.inf

    def scores(given: tuple) -> tuple:
        found = best(given[0], y_true, length, *given[1:])
        return found.score, found.value, of_levels(given[0], y_true, length)

    assert_derivatives(scores, (potentials, offsets, slopes))
