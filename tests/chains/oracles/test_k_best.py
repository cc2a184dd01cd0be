"""The k best label sequences against enumeration."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.chains.oracles.decoding import Decoded, k_best, viterbi
from jaxstruct.chains.potentials import ChainPotentials
from tests.chains.oracles.truth import PAIRWISE, STRUCTURES, Cases, as_dtype, cases, listed
from tests.core.derivatives import assert_derivatives
from tests.lib.enumeration import check_k_best
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

FIRST, SECOND = STRUCTURES[0].values[0], STRUCTURES[4].values[0]


@cache
def _batched(k: int) -> Callable:
    return jax.jit(jax.vmap(partial(k_best, k=k)))


def _decoded(given: Cases, k: int, dtype: str = "float32") -> Decoded:
    return jax.tree.map(np.asarray, _batched(k)(as_dtype(given.potentials, dtype), given.length))


def _check(given: Cases, decoded: Decoded, tolerance: float) -> None:
    check_k_best(listed(given), decoded.labels, decoded.score, tolerance)


@pytest.mark.parametrize("structure", thorough_after(2, PAIRWISE))
def test_two_best(structure: dict[str, bool]) -> None:
    for draw in range(2):
        given = cases(structure, draw=draw)
        decoded = _decoded(given, 2)
        assert decoded.labels.dtype == np.int32 and decoded.score.dtype == np.float32
        assert decoded.labels.shape == (400, 2, 5) and decoded.score.shape == (400, 2)
        _check(given, decoded, 1e-5)


@pytest.mark.parametrize("structure", thorough_after(1, [PAIRWISE[0].values[0], SECOND]))
def test_five_best(structure: dict[str, bool]) -> None:
    """Also the first two of them are the two best, and the first is that of `viterbi`."""
    given = cases(structure)
    two, five = _decoded(given, 2), _decoded(given, 5)
    _check(given, five, 1e-5)
    np.testing.assert_array_equal(two.labels, five.labels[:, :2])
    np.testing.assert_array_equal(two.score, five.score[:, :2])
    best = jax.jit(jax.vmap(viterbi))(as_dtype(given.potentials, "float32"), given.length)
    np.testing.assert_array_equal(best.score, five.score[:, 0])
    possible = five.score[:, 0] > -np.inf
    np.testing.assert_array_equal(np.asarray(best.labels)[possible], five.labels[possible, 0])


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_equals_enumeration_in_float64() -> None:
    given = cases(FIRST)
    decoded = _decoded(given, 3, "float64")
    assert decoded.labels.dtype == np.int32 and decoded.score.dtype == np.float64
    _check(given, decoded, 1e-13)


def test_all_of_them() -> None:
    """More than there are: every label sequence that is not forbidden comes out once."""
    given = cases(SECOND, count=100, T=3, S=2)
    _check(given, _decoded(given, 9), 1e-5)


@pytest.mark.thorough
def test_many_labels() -> None:
    given = cases(FIRST, count=120, T=3, S=19)
    _check(given, _decoded(given, 3), 1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(("structure", "T", "S"), [(FIRST, 1, 3), (SECOND, 1, 3), (SECOND, 3, 1)])
def test_smallest_chains(structure: dict[str, bool], T: int, S: int) -> None:
    given = cases(structure | dict(varying=True, start_stop=True), count=40, T=T, S=S)
    _check(given, _decoded(given, 2), 1e-5)


@pytest.mark.thorough
def test_one_at_a_time_and_nested() -> None:
    given = cases(FIRST)
    potentials, length = as_dtype(given.potentials, "float32"), given.length
    together = _decoded(given, 2)
    one = partial(k_best, k=2)
    nested = jax.vmap(jax.vmap(one, (ChainPotentials(0, None), 0)))
    inner = np.stack([potentials.emissions[:3], potentials.emissions[3:6]], axis=1)
    lengths = np.stack([length[:3], length[3:6]], axis=1)
    decoded = jax.jit(nested)(ChainPotentials(inner, potentials.transitions[:3]), lengths)
    decoded, call = jax.tree.map(np.asarray, decoded), jax.jit(one)
    for i in range(3):  # `test_viterbi` runs the recursion without jit
        own = ChainPotentials(potentials.emissions[i], potentials.transitions[i])
        alone = call(own, length[i])
        np.testing.assert_array_equal(alone.labels, together.labels[i])
        np.testing.assert_array_equal(alone.labels, decoded.labels[i, 0])
        np.testing.assert_array_equal(alone.score, decoded.score[i, 0])


def test_k_must_be_positive() -> None:
    with refused("k must be at least 1, got 0"):
        k_best(ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3))), 4, 0)


@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    given = cases(SECOND, count=80)
    rows = np.flatnonzero(~given.tied)
    potentials = jax.tree.map(
        lambda leaf: np.nan_to_num(leaf[rows], neginf=-np.inf), given.potentials
    )
    length = given.length[rows]
    assert_derivatives(lambda p: _batched(3)(p, length).score, potentials)
