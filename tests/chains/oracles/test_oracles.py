"""All that oracles say of a chain, one program, against every label sequence of small chains."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.hamming_levels import best_of_levels, hamming_levels
from jaxstruct.chains.oracles.sums import log_partition, marginals, sample
from jaxstruct.chains.potentials import PADDING, ChainPotentials, score_labels
from tests.chains.oracles.truth import STRUCTURES, Cases, as_dtype, cases, listed, scores
from tests.core.derivatives import assert_derivatives
from tests.lib.enumeration import (
    Listed,
    check_best,
    check_k_best,
    check_samples,
    check_sums,
    check_used,
    flat,
    row,
)
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

FIRST = STRUCTURES[0].values[0]
K, CAP, DRAWS = 5, 3, 100


class Given(NamedTuple):
    """What the oracles are asked of each chain, beside potentials: leaves [N, ..].

    Fields:
      length, y_true: those of `Cases`.
      offsets, slopes, valid: [N, T + 2] of levels, one more than there are; some are left out.
    """

    length: np.ndarray
    y_true: np.ndarray
    offsets: np.ndarray
    slopes: np.ndarray
    valid: np.ndarray
    key: np.ndarray


def asked(given: Cases, dtype: str) -> Given:
    """Small integers, so that ties stay ties."""
    random, (N, T, _) = np.random.default_rng(0), given.potentials.emissions.shape
    shape = (N, T + 2)
    offsets = np.where(random.random(shape) < 0.1, -np.inf, random.integers(-2, 3, shape))
    slopes, valid = random.integers(0, 3, shape), random.random(shape) < 0.85
    lines = offsets.astype(dtype), slopes.astype(dtype), valid
    keys = jax.random.split(jax.random.key(1), N)
    return Given(given.length, given.y_true, *lines, keys)


def answers(potentials: ChainPotentials, given: Given) -> dict:
    """Of one chain."""
    y, length, lines = given.y_true, given.length, given[2:5]
    draw = jax.vmap(sample, (None, None, 0))

    def best(potentials: ChainPotentials) -> tuple:
        found = viterbi(potentials, length)
        return found.score, found

    (_, of_best), used = jax.value_and_grad(best, has_aux=True)(potentials)
    return {
        "best": of_best,
        "again": jax.value_and_grad(score_labels)(potentials, of_best.labels, length),
        "used": used,
        "k best": k_best(potentials, length, K),
        "levels": hamming_levels(potentials, y, length, len(lines[0])),
        "exact": best_of_levels(potentials, y, length, *lines),
        "capped": best_of_levels(potentials, y, length, *(line[:CAP] for line in lines)),
        "sums": jax.value_and_grad(log_partition)(potentials, length),
        "marginals": marginals(potentials, length),
        "drawn": draw(potentials, length, jax.random.split(given.key, DRAWS)),
    }


together = jax.jit(jax.vmap(answers))


def moved(given: Cases, by: float) -> ChainPotentials:
    """Label 0 gets more at each position but the last, transitions out of it less: F stays.

    Plain numbers underflow where it is much: sums need logarithms.
    """
    emissions, transitions = (np.array(leaf) for leaf in given.potentials[:2])
    emissions[..., 0] += by * (np.arange(emissions.shape[1]) < given.length[:, None] - 1)
    transitions[..., 0, :] -= by
    return given.potentials._replace(emissions=emissions, transitions=transitions)


def uses_of(shapes: ChainPotentials, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([K, P] how often labels [K, length] use each potential, the same of pairs at each step)."""
    at = np.arange(len(labels))
    found = jax.tree.map(lambda leaf: np.zeros((len(at), *leaf.shape)), shapes)
    T, S = shapes.emissions.shape
    pairs = np.zeros((len(at), T - 1, S, S))
    for t, own in enumerate(labels.T):
        found.emissions[at, t, own] += 1
        for order, table in ((1, pairs), (1, found.transitions), (2, found.triples)):
            if table is not None and t >= order:
                window = tuple(labels.T[t - order : t + 1])
                table[(at, t - order, *window) if table.ndim > order + 2 else (at, *window)] += 1
    if found.start is not None and len(labels.T):
        found.start[at, labels[:, 0]] += 1
        found.stop[at, labels[:, -1]] += 1
    return flat(found, 1), flat(pairs, 1)


def check_uses(given: Cases, every: Listed, found: dict, dtype: str, scale: float) -> None:
    """log Z, its gradient and the marginals; the gradient of the best score counts its labels."""
    single, known = dtype == "float32", {}
    for length in set(given.length.tolist()):
        i = int(np.argmax(given.length == length))
        known[length] = uses_of(row(given.potentials, 0), every.outputs[i][:, :length])

    def uses(i: int) -> np.ndarray:
        return known[int(given.length[i])][0]

    def of_pairs(i: int) -> np.ndarray:
        return known[int(given.length[i])][1]

    tables, size = found["marginals"], found["marginals"].labels[0].size
    atol = scale * (5e-6 if single else 1e-12)
    for of, log_z, slope in (
        (uses, *found["sums"]), (of_pairs, tables.log_partition, tables.pairs),
        (lambda i: uses(i)[:, :size], tables.log_partition, tables.labels),
    ):  # fmt: skip
        check_sums(every, of, log_z, slope, 1e-5 if single else 1e-12, atol, atol)
    check_used(every, uses, found["best"].labels, found["used"])
    assert any((F == -np.inf).all() for F in every.scores)


def check_levels(given: Cases, asks: Given, found: dict, name: str, close: dict) -> None:
    """The best level of those that are in; ties go to the lowest, then as `viterbi` has them."""
    own, levels = found[name], CAP if name == "capped" else asks.offsets.shape[1]
    every = listed(given)
    for i, (y, F) in enumerate(zip(every.outputs, every.scores, strict=True)):
        level = np.minimum((y != given.y_true[i]).sum(axis=1), levels - 1)
        best = np.array([F[level == x].max(initial=-np.inf) for x in range(levels)])
        if name == "exact":
            np.testing.assert_allclose(found["levels"][i], best, **close)
        offsets, slopes, valid = (leaf[i, :levels] for leaf in asks[2:5])
        usable = valid & (best > -np.inf)
        values = np.where(usable, offsets + slopes * np.where(usable, best, 0), -np.inf)
        one = row(own, i)
        np.testing.assert_allclose(one.value, values.max(), **close)
        if values.max() == -np.inf:
            assert one.level == 0
            np.testing.assert_array_equal(one.labels, given.y_true[i])
            continue
        (at,) = every.places(i, one.labels[None])
        assert level[at] == one.level
        np.testing.assert_allclose(values[one.level], values.max(), **close)
        np.testing.assert_allclose([F[at], one.score], best[one.level], **close)
        if given.tied[i]:
            assert one.level == values.argmax()
            if name == "exact":
                assert at == np.where(level == one.level, F, -np.inf).argmax()


def check(given: Cases, dtype: str, scale: float = 0.0, freedom: int = 100) -> None:
    """All answers, of potentials moved by so much; see `check_samples` for freedom."""
    asks, room = asked(given, dtype), max(1.0, scale / 5)
    tolerance = room * (1e-5 if dtype == "float32" else 1e-13)
    found = together(as_dtype(moved(given, scale), dtype), asks)
    found = jax.tree.map(np.asarray, found)
    names = set(found) - {"drawn"}
    types = {leaf.dtype for name in names for leaf in jax.tree.leaves(found[name])}
    assert types == {np.dtype(dtype), np.dtype(np.int32)} and found["drawn"].dtype == np.int32
    every, best = listed(given), found["best"]
    check_best(every, best.labels, best.score, tolerance, none=None)
    there = best.score > -np.inf
    score, slope = found["again"]
    np.testing.assert_allclose(score[there], best.score[there], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(flat(slope, 1)[there], flat(found["used"], 1)[there])
    real = np.arange(best.labels.shape[1]) < given.length[:, None]
    for labels in (best.labels, *np.moveaxis(found["drawn"], 1, 0)):
        assert ((labels >= 0) == real).all() and (labels[~real] == PADDING).all()
    check_k_best(every, found["k best"].labels, found["k best"].score, tolerance)
    check_uses(given, every, found, dtype, room)
    for name in ("exact", "capped"):
        check_levels(given, asks, found, name, dict(rtol=tolerance, atol=tolerance))
    check_samples(every, found["drawn"], freedom)


EACH = [
    (STRUCTURES[7].values[0], "float32", dict(count=200, T=5, S=3)),
    (FIRST, "float64", dict(count=20, T=3, S=17)),
]
"""With all three options and with none: `oracles.recursion` alone reads them, which all oracles
share, and `test_structure_oracles` has others. The second has more labels than are written out:
loops with a remainder."""


@pytest.mark.parametrize(("structure", "dtype", "sizes"), thorough_after(1, EACH))
def test_against_enumeration(structure: dict[str, bool], dtype: str, sizes: dict) -> None:
    given = cases(structure, **sizes)
    assert set(given.length) == set(range(sizes["T"] + 1))
    with jax.enable_x64(dtype == "float64"):
        for scale in (0.0, 100.0 if dtype == "float32" else 800.0):
            check(given, dtype, scale, sizes["count"] // 2)


@pytest.mark.smoke
def test_one_position() -> None:
    check(cases(STRUCTURES[7].values[0], count=20, T=1), "float32", freedom=5)


def test_without_jit() -> None:
    potentials = ChainPotentials(np.array([[0.0, 1], [2, 0], [0, 0]]), np.array([[1.0, 0], [3, 0]]))
    found = viterbi(jax.tree.map(np.float32, potentials), 2)
    assert (found.labels.tolist(), float(found.score)) == ([1, 0, -1], 6)


@pytest.mark.thorough
def test_tables_that_many_labels_share_are_matrices(x64) -> None:
    """The gradient of a sum over chains adds up in tables of theirs, plain and in logarithms."""
    given = cases(FIRST, count=12, T=3, S=17)
    emissions, table = (
        np.nan_to_num(given.potentials.emissions, neginf=-9.0),
        given.potentials.transitions[3],
    )

    @jax.jit
    def summed(potentials: ChainPotentials) -> tuple:
        each = jax.vmap(log_partition, (ChainPotentials(0, *(None,) * 4), 0))
        return jax.value_and_grad(lambda p: jnp.sum(each(p, given.length)))(potentials)

    @jax.jit
    def apart(potentials: ChainPotentials) -> tuple:
        return jax.vmap(jax.value_and_grad(log_partition))(potentials, given.length)

    for scale in (1.0, 600.0):
        with np.errstate(over="ignore"):  # garbage beyond the lengths
            shared = ChainPotentials(scale * emissions, scale * table)
        value, slope = summed(shared)
        values, slopes = apart(shared._replace(transitions=np.stack([shared.transitions] * 12)))
        np.testing.assert_allclose(value, values.sum(), rtol=1e-12)
        np.testing.assert_allclose(slope.emissions, slopes.emissions, atol=1e-9)
        np.testing.assert_allclose(slope.transitions, slopes.transitions.sum(axis=0), atol=1e-9)


def test_float32_is_right_at_every_scale() -> None:
    """One kind of potentials is up to 100 times larger than the others: plain numbers underflow in
    some chains, each of which is alone in its call so that it decides."""
    given = cases(STRUCTURES[4].values[0], count=120)
    random, large = np.random.default_rng(4), np.arange(120) % 3
    scale = np.exp(random.uniform(0, np.log(100), 120))
    emissions, transitions, _, _, triples = given.potentials
    only = np.where(np.eye(3) > 0, transitions, -np.inf)  # what was small may yet win
    transitions = np.where(large[:, None, None] == 0, only, transitions)
    parts = []
    for kind, leaf in enumerate((emissions, transitions, triples)):
        by = np.where(large == kind, scale, 1).reshape(-1, *(1,) * (leaf.ndim - 1))
        with np.errstate(over="ignore"):  # garbage beyond the lengths
            parts.append((leaf * by).astype(np.float32))
    potentials = ChainPotentials(parts[0], parts[1], None, None, parts[2])
    one = jax.value_and_grad(log_partition)
    value, slope = jax.jit(lambda *all_: jax.lax.map(lambda own: one(*own), all_))(
        potentials, given.length
    )
    found = flat(slope, 1)
    for i, length in enumerate(given.length):
        labels = given.labelings[i][:, :length]
        F = scores(row(potentials, i), labels).astype(float) if labels.size else np.zeros(1)
        np.testing.assert_allclose(value[i], logsumexp(F), rtol=1e-5, atol=1e-5)
        p = np.exp(F - logsumexp(F)) if logsumexp(F) > -np.inf else np.zeros(len(F))
        wanted = p @ uses_of(row(potentials, i), labels)[0]
        np.testing.assert_allclose(found[i], wanted, rtol=0, atol=2e-4)


def slow_forward_backward(emissions: np.ndarray, transitions: np.ndarray) -> tuple:
    """log Z and label marginals of a full chain in float64 logarithms."""
    forward, backward = [emissions[0]], [np.zeros(emissions.shape[1])]
    for own in emissions[1:]:
        forward.append(own + logsumexp(forward[-1][:, None] + transitions, axis=0))
    for own in emissions[:0:-1]:
        backward.append(logsumexp(transitions + (own + backward[-1])[None], axis=1))
    both = np.stack(forward) + np.stack(backward[::-1])
    total = logsumexp(forward[-1])
    return total, np.exp(both - total)


@pytest.mark.thorough
def test_long_chains_keep_their_digits_in_float32() -> None:
    """Samples, too: label frequencies and those of a pair are within five deviations."""
    random, T, S, draws = np.random.default_rng(5), 1000, 5, 200
    parts = random.uniform(-1, 1, (T, S)), random.uniform(-1, 1, (S, S))

    @jax.jit
    def said(potentials: ChainPotentials) -> tuple:
        keys = jax.random.split(jax.random.key(4), draws)
        drawn = jax.vmap(lambda key: sample(potentials, T, key))(keys)
        return marginals(potentials, T), jax.value_and_grad(log_partition)(potentials, T), drawn

    for size in (1.0, 50.0):
        given = [(size * part).astype(np.float32) for part in parts]
        total, labels = slow_forward_backward(*(part.astype(float) for part in given))
        tables, (value, slope), drawn = jax.tree.map(np.asarray, said(ChainPotentials(*given)))
        np.testing.assert_allclose([tables.log_partition, value], total, rtol=2e-6)
        for found in (tables.labels, slope.emissions):
            np.testing.assert_allclose(found, labels, atol=1e-4)
        np.testing.assert_allclose(slope.transitions.sum(), T - 1, rtol=1e-5)
        seen, bound = np.mean(drawn[:, :, None] == np.arange(S), axis=0), 2.5 / np.sqrt(draws)
        assert np.abs(seen - labels).max() < bound
        pair = np.zeros((S, S))
        np.add.at(pair, (drawn[:, 7], drawn[:, 8]), 1 / draws)
        assert np.abs(pair - tables.pairs[7]).max() < bound


@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    """Of second order with ends: all levels, and the best one by offset and slope; k best."""
    given = cases(STRUCTURES[5].values[0])
    rows = np.flatnonzero(~given.tied)
    potentials = jax.tree.map(
        lambda leaf: np.nan_to_num(leaf[rows], neginf=-np.inf), given.potentials
    )
    length, y = given.length[rows], given.y_true[rows]
    random, shape = np.random.default_rng(0), (len(rows), CAP)
    offsets, slopes = random.normal(size=shape), random.random(shape)
    offsets[random.random(shape) < 0.2] = -np.inf

    @jax.vmap
    def of_one(p: ChainPotentials, y: jax.Array, length: jax.Array, *lines: jax.Array) -> tuple:
        best = best_of_levels(p, y, length, *lines)
        levels = hamming_levels(p, y, length, CAP)
        return best.score, best.value, levels, k_best(p, length, 2).score

    assert_derivatives(
        lambda given: of_one(given[0], y, length, *given[1:]), (potentials, offsets, slopes)
    )


def test_labels_have_no_derivative() -> None:
    potentials = ChainPotentials(np.ones((4, 3), np.float32), np.ones((3, 3), np.float32))

    def moved_labels(potentials: ChainPotentials) -> jax.Array:
        return jax.jvp(lambda p: viterbi(p, 4).labels, (potentials,), (potentials,))[1]

    assert jax.eval_shape(moved_labels, potentials).dtype == jax.dtypes.float0


ZEROS = ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3)))
WHOLE = jax.tree.map(lambda leaf: leaf.astype(int), ZEROS)
Y = jnp.zeros(4, int)
WRONG = [
    (viterbi, (ZEROS._replace(emissions=jnp.zeros((2, 4, 3))), 4), "emissions must be"),
    (viterbi, (ZEROS._replace(transitions=jnp.zeros((4, 3, 3))), 4), "transitions must be"),
    (viterbi, (ZEROS, jnp.ones(4, int)), "length must be a scalar"),
    (viterbi, (WHOLE, 4), "floating-point"),
    (k_best, (ZEROS, 4, 0), "k must be at least 1, got 0"),
    (hamming_levels, (ZEROS, Y, 4, 0), "levels must be at least 1, got 0"),
    (best_of_levels, (ZEROS, Y, 4, jnp.zeros(1), jnp.zeros(1)), "levels must be at least 2, got 1"),
    (best_of_levels, (ZEROS, Y, 4, jnp.zeros(3), jnp.zeros(2)), r"must all be \[levels\]"),
    (best_of_levels, (ZEROS, Y, 4, jnp.zeros(6), jnp.ones(6), None, jnp.ones(3), (1,)),
     r"costs must be \[T, S\]"),
    (hamming_levels, (ZEROS, Y[:3], 4, 2), r"y_true must be \[T = 4\] integers, got"),
]  # fmt: skip


@pytest.mark.parametrize(("oracle", "arguments", "message"), WRONG)
def test_what_does_not_fit_is_named(oracle, arguments: tuple, message: str) -> None:
    refused(message, oracle, *arguments)
