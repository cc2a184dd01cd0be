"""Viterbi against enumeration, on chains of every kind, however it is called."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.chains.oracles.decoding import Decoded, viterbi
from jaxstruct.chains.potentials import PADDING, ChainPotentials, score_labels
from tests.chains.oracles.truth import STRUCTURES, Cases, as_dtype, cases, listed
from tests.core.derivatives import assert_derivatives
from tests.lib.enumeration import check_alone, check_best
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

FIRST, SECOND = STRUCTURES[0].values[0], STRUCTURES[4].values[0]
SHARED = ChainPotentials(0, None)  # vmap over emissions, one table of transitions
alone = jax.jit(viterbi)
batched = jax.jit(jax.vmap(viterbi))


def _check(given: Cases, decoded: Decoded, tolerance: float) -> None:
    """Labels are right where every sequence is forbidden, too."""
    check_best(listed(given), decoded.labels, decoded.score, tolerance, none=None)
    labels = np.asarray(decoded.labels)
    real = np.arange(labels.shape[1]) < given.length[:, None]
    assert (labels[real] >= 0).all() and (labels[~real] == PADDING).all()


@pytest.mark.parametrize("structure", thorough_after(4, STRUCTURES))
def test_equals_enumeration(structure: dict[str, bool]) -> None:
    given = cases(structure)
    assert set(given.length) == set(range(6))
    decoded = batched(as_dtype(given.potentials, "float32"), given.length)
    assert decoded.labels.dtype == jnp.int32 and decoded.score.dtype == jnp.float32
    _check(given, decoded, 1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("structure", STRUCTURES[3:5])
def test_equals_enumeration_in_float64(structure: dict[str, bool]) -> None:
    given = cases(structure)
    decoded = batched(as_dtype(given.potentials, "float64"), given.length)
    assert decoded.labels.dtype == jnp.int32 and decoded.score.dtype == jnp.float64
    _check(given, decoded, 1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("structure", "dtype", "tolerance"), [(FIRST, "float32", 1e-5), (SECOND, "float64", 1e-13)]
)
def test_many_labels(structure: dict[str, bool], dtype: str, tolerance: float) -> None:
    """More labels than are written out: loops over labels with a remainder."""
    given = cases(structure, count=120, T=3, S=19)
    with jax.enable_x64(dtype == "float64"):
        decoded = batched(as_dtype(given.potentials, dtype), given.length)
        assert decoded.score.dtype == dtype
        _check(given, decoded, tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize("S", [2, 9, 17])
def test_every_number_of_labels(S: int) -> None:
    given = cases(FIRST, count=300, T=2, S=S)
    _check(given, batched(as_dtype(given.potentials, "float32"), given.length), 1e-5)


@pytest.mark.smoke
@pytest.mark.parametrize("structure", [FIRST, SECOND])
@pytest.mark.parametrize(("T", "S"), [(1, 3), (4, 1)])
def test_smallest_chains(structure: dict[str, bool], T: int, S: int) -> None:
    given = cases(structure | dict(varying=True, start_stop=True), count=40, T=T, S=S)
    _check(given, batched(as_dtype(given.potentials, "float32"), given.length), 1e-5)


@pytest.mark.parametrize("structure", [FIRST, SECOND])
def test_one_chain_at_a_time(structure: dict[str, bool]) -> None:
    given = cases(structure)
    potentials = as_dtype(given.potentials, "float32")
    together = jax.tree.map(np.asarray, batched(potentials, given.length))
    check_alone(alone, (potentials, given.length), together, range(12))
    if structure is SECOND:
        check_alone(viterbi, (potentials, given.length), together, [0])


@pytest.mark.parametrize("structure", [FIRST, SECOND])
def test_nested_vmap_and_shared_tables(structure: dict[str, bool]) -> None:
    """Transitions of the outer batch, emissions of both, lengths of the inner one."""
    given = cases(structure | dict(start_stop=True))
    potentials = as_dtype(given.potentials, "float32")
    emissions = np.nan_to_num(potentials.emissions[:12]).reshape(3, 4, 5, 3)
    lengths = np.asarray([5, 0, 2, 4], np.int32)
    outer = jax.tree.map(lambda leaf: leaf[:3], potentials)._replace(emissions=emissions)
    inner_axes = ChainPotentials(0, None, None, None, None)
    decode = jax.vmap(jax.vmap(viterbi, (inner_axes, 0)), (0, None))
    together = jax.tree.map(np.asarray, jax.jit(decode)(outer, lengths))
    assert together.labels.shape == (3, 4, 5)
    for i, j in np.ndindex(3, 4):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], outer)
        decoded = alone(own._replace(emissions=emissions[i, j]), lengths[j])
        np.testing.assert_array_equal(decoded.labels, together.labels[i, j])
        np.testing.assert_array_equal(decoded.score, together.score[i, j])


@pytest.mark.smoke
def test_shared_transitions_many_labels() -> None:
    """Of the shapes of `test_many_labels`, whose program decodes the tables apart."""
    random = np.random.default_rng(0)
    potentials = ChainPotentials(
        random.integers(-2, 3, (120, 3, 19)).astype(np.float32),
        random.integers(-2, 3, (19, 19)).astype(np.float32),
    )
    lengths = random.integers(0, 4, 120).astype(np.int32)
    shared = jax.jit(jax.vmap(viterbi, (SHARED, 0)))(potentials, lengths)
    own = np.broadcast_to(potentials.transitions, (120, 19, 19))
    apart = batched(potentials._replace(transitions=own), lengths)
    np.testing.assert_array_equal(shared.labels, apart.labels)
    np.testing.assert_array_equal(shared.score, apart.score)
    again = jax.jit(jax.vmap(score_labels, (SHARED, 0, 0)))(potentials, shared.labels, lengths)
    np.testing.assert_array_equal(again, shared.score)


@pytest.mark.thorough
def test_one_potential_of_the_batch_is_enough() -> None:
    """Only the lengths, or only the transitions, differ between examples."""
    given = cases(FIRST)
    full = int(np.argmax(given.length == 5))
    one = jax.tree.map(lambda leaf: np.asarray(leaf[full], np.float32), given.potentials)
    lengths = np.arange(6, dtype=np.int32)
    together = jax.jit(jax.vmap(viterbi, (None, 0)))(one, lengths)
    tables = np.stack([one.transitions, -one.transitions.T])
    decode = jax.jit(jax.vmap(viterbi, (ChainPotentials(None, 0), None)))
    moved = np.asarray(decode(one._replace(transitions=tables), np.int32(5)).labels)
    for i, labels in enumerate(np.asarray(together.labels)):
        np.testing.assert_array_equal(alone(one, lengths[i]).labels, labels)
    for i in range(2):
        decoded = alone(one._replace(transitions=tables[i]), np.int32(5))
        np.testing.assert_array_equal(decoded.labels, moved[i])


@pytest.mark.thorough
@pytest.mark.parametrize("structure", STRUCTURES[:6:5])
def test_padding_changes_nothing(structure: dict[str, bool]) -> None:
    given = cases(structure)
    potentials = as_dtype(given.potentials, "float32")
    pads = ((0, 0), (0, 3))
    emissions = np.pad(potentials.emissions, (*pads, (0, 0)), constant_values=7)
    padded = potentials._replace(emissions=emissions)
    if potentials.transitions.ndim == 4:
        table = np.pad(potentials.transitions, (*pads, *2 * ((0, 0),)), constant_values=7)
        triples = np.pad(potentials.triples, (*pads, *3 * ((0, 0),)), constant_values=7)
        padded = padded._replace(transitions=table, triples=triples)
    short, long = (
        jax.tree.map(np.asarray, batched(each, given.length)) for each in (potentials, padded)
    )
    np.testing.assert_array_equal(short.labels, long.labels[:, :5])
    np.testing.assert_array_equal(short.score, long.score)
    assert (long.labels[:, 5:] == PADDING).all()


WRONG = {
    "emissions must be": ChainPotentials(jnp.zeros((2, 4, 3)), jnp.zeros((3, 3))),
    "transitions must be": ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((4, 3, 3))),
    "start must be": ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3)), start=jnp.zeros(4)),
    "stop must be": ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3)), stop=jnp.zeros((1, 3))),
    "triples must be": ChainPotentials(
        jnp.zeros((4, 3)), jnp.zeros((3, 3)), triples=jnp.zeros((3, 3, 3, 3))
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_shapes_are_named(message: str) -> None:
    refused(message, viterbi, WRONG[message], 4)


def test_wrong_dtypes_and_lengths_are_named() -> None:
    potentials = ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3)))
    refused("length must be a scalar", viterbi, potentials, jnp.ones(4, int))
    refused("length must be an integer", viterbi, potentials, 4.0)
    integers = jax.tree.map(lambda leaf: leaf.astype(int), potentials)
    refused("floating-point", viterbi, integers, 4)


def _counts(potentials: ChainPotentials, labels: np.ndarray, length: int) -> ChainPotentials:
    """What one label sequence uses of every potential, counted one by one."""
    parts = ChainPotentials(*(None if p is None else np.zeros(np.shape(p)) for p in potentials))
    emissions, transitions, start, stop, triples = parts
    for t, s in enumerate(labels[:length]):
        emissions[t, s] += 1
        for table, order in ((transitions, 1), (triples, 2)):
            if table is not None and t >= order:
                window = tuple(labels[t - order : t + 1])
                table[window if table.ndim == order + 1 else (t - order, *window)] += 1
    if start is not None and length:
        start[labels[0]] += 1
        stop[labels[length - 1]] += 1
    return parts


@pytest.mark.parametrize("structure", STRUCTURES[::7])
def test_the_gradient_of_the_score_counts_the_labels(structure: dict[str, bool]) -> None:
    """Ties, forbidden labels, lengths 0 to T and nan beyond them; one by one and under vmap."""
    given = cases(structure, count=40)
    potentials = as_dtype(given.potentials, "float32")

    def score(potentials: ChainPotentials, length: jax.Array) -> jax.Array:
        return viterbi(potentials, length).score

    def total(potentials: ChainPotentials) -> jax.Array:
        scores = jax.vmap(score)(potentials, given.length)
        return jnp.sum(jnp.where(scores > -jnp.inf, scores, 0))

    found = jax.jit(jax.vmap(jax.grad(score)))(potentials, given.length)
    together = jax.jit(jax.grad(total))(potentials)
    decoded = batched(potentials, given.length)
    found, together, decoded = jax.tree.map(np.asarray, (found, together, decoded))
    for i, length in enumerate(given.length):
        labels, own = decoded.labels[i], jax.tree.map(lambda x, i=i: x[i], potentials)
        wanted = _counts(own, labels, int(length))
        if not decoded.score[i] > -np.inf:
            wanted = jax.tree.map(np.zeros_like, wanted)
        for gradient in (found, together):
            of_one = jax.tree.map(lambda leaf, i=i: leaf[i], gradient)
            jax.tree.map(np.testing.assert_array_equal, of_one, wanted)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    """In second order with ends; `test_the_gradient_...` counts in the other structures."""
    given = cases(STRUCTURES[5].values[0], count=200)
    rows = np.flatnonzero(~given.tied)
    potentials = jax.tree.map(
        lambda leaf: np.nan_to_num(leaf[rows], neginf=-np.inf), given.potentials
    )
    length = given.length[rows]
    assert_derivatives(lambda p: batched(p, length).score, potentials)


def test_labels_have_no_derivative() -> None:
    potentials = ChainPotentials(np.ones((4, 3), np.float32), np.ones((3, 3), np.float32))

    @jax.jit
    def moved_score(potentials: ChainPotentials) -> jax.Array:
        _, moved = jax.jvp(lambda p: viterbi(p, 4), (potentials,), (potentials,))
        assert moved.labels.dtype == jax.dtypes.float0
        return moved.score

    assert moved_score(potentials) == 7
