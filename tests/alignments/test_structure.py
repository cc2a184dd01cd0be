"""Supervised alignment against the enumeration of all alignments of short sequences."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import fit
from jaxstruct.alignments import structure
from jaxstruct.alignments.losses import NAMES, AlignmentOutput, alignment_loss, delta, pair_costs
from jaxstruct.alignments.structure import alignment_inputs, alignment_outputs, pairwise_alignment
from tests.alignments.structure_cases import (
    aligned_pairs,
    flat_weights,
    padded_inputs,
    padded_outputs,
    used,
)
from tests.lib.enumeration import flat, row
from tests.lib.refusals import refused
from tests.lib.structures import Every, check_oracles

M, N, n = 4, 3, 60
LOCAL = {"global": False, "local": True}


def weights_of(problem, seed, shift=0.5):
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: random.normal(shift, 1, leaf.shape).astype(leaf.dtype), problem.initial_weights
    )


def output_of(y):
    """(operations, begin) of one padded output as the enumeration has them."""
    operations = np.asarray(y.operations)
    return tuple(operations[operations >= 0].tolist()), tuple(np.asarray(y.begin).tolist())


def batch_of(data, i):
    """All outputs of pair i, padded."""
    outputs = data.outputs(i)
    return padded_outputs([np.array(o, int) for o, _ in outputs], [b for _, b in outputs], M + N)


@pytest.mark.parametrize("mode", LOCAL)
def test_losses_of_all_alignments(x64, mode):
    """By definition, and as one constant and a sum over pairs."""
    data = aligned_pairs(12, M, N, LOCAL[mode])
    for name in NAMES:
        kind, seen = alignment_loss(name, "float64"), set()
        losses = jax.jit(jax.vmap(partial(delta, kind), (None, 0)))
        costs_of = jax.jit(lambda y_true, kind=kind: pair_costs(kind, y_true, M, N))
        for i in range(12):
            y_true, wanted = row(data.y, i), data.losses(i, name)
            outputs = batch_of(data, i)
            padded = jax.tree.map(lambda leaf: np.resize(leaf, (2000, *leaf.shape[1:])), outputs)
            found = np.asarray(losses(y_true, padded))[: len(wanted)]
            np.testing.assert_allclose(found, wanted, atol=1e-15)
            costs = np.asarray(costs_of(y_true))
            sums = [sum(costs[pair] for pair in used(*y)[0]) for y in data.outputs(i)]
            nothing = wanted - np.array(sums)
            np.testing.assert_allclose(nothing, nothing[0], atol=1e-12)
            assert wanted[data.truths[i]] == 0
            seen |= set(wanted)
        assert len(seen) > (1 if "pairs" in name else 3)
        assert max(seen) <= 1 or mode == "local" or "normalised" not in name


@pytest.mark.parametrize(
    "mode, gaps, symmetric, loss",
    [("global", "affine", True, "positions"), ("local", "linear", False, "normalised_pairs")],
)
def test_oracles_are_the_best_of_all_alignments(x64, mode, gaps, symmetric, loss):
    data, options = aligned_pairs(n, M, N, LOCAL[mode]), dict(symmetric=symmetric, loss=loss)
    problem = pairwise_alignment(3, mode=mode, gaps=gaps, dtype="float64", **options)
    w = weights_of(problem, 1)
    theta = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))(w, data.x)

    def every(i):
        F = data.psi(i, gaps, symmetric) @ flat_weights(w)
        return Every(flat(batch_of(data, i), 1), F, data.losses(i, loss), data.truths[i])

    check_oracles(problem, theta, data.y, every, 1e-12, scales=(0.4, 3.0))


@pytest.mark.parametrize(
    "mode, gaps, loss, dtype",
    [
        ("global", "affine", "positions", "float64"),
        ("local", "linear", "normalised_pairs", "float32"),
    ],
)
def test_alignments_above_are_the_best_of_each_loss(x64, mode, gaps, loss, dtype):
    """Down to a value that is drawn, or as many as asked for."""
    data, k = aligned_pairs(n, M, N, LOCAL[mode]), 3
    problem = pairwise_alignment(3, mode=mode, gaps=gaps, loss=loss, dtype=dtype)
    w, random, cut = weights_of(problem, 6), np.random.default_rng(7), 0
    above = np.where(np.arange(n) % 3 > 0, random.normal(1, 2, n), -np.inf).astype(dtype)

    @jax.jit
    @jax.vmap
    def listed(x, y, above):
        theta = problem.model.potentials(w, x)
        found, real = problem.oracles.best_above(theta, y, k, above)
        F = jax.vmap(problem.model.score, (None, 0))(theta, found)
        return found, real, F + jax.vmap(problem.model.loss, (None, 0))(y, found)

    found, real, values = jax.tree.map(np.asarray, listed(data.x, data.y, above))
    assert found.operations.dtype == found.begin.dtype == np.int32
    for i in range(n):
        every, best = data.psi(i, gaps, True) @ flat_weights(w), {}
        for F, loss_of_one in zip(every, data.losses(i, loss), strict=True):
            key = round(loss_of_one, 6)
            best[key] = max(F + loss_of_one, best.get(key, -np.inf))
        wanted = np.sort([value for value in best.values() if value > above[i]])[::-1]
        count = min(k, len(wanted))
        assert real[i].tolist() == [True] * count + [False] * (k - count)
        np.testing.assert_allclose(values[i, :count], wanted[:count], rtol=1e-5, atol=1e-5)
        own = [row(row(found, i), j) for j in range(count)]
        places = [data.outputs(i).index(output_of(y)) for y in own]
        assert len({round(data.losses(i, loss)[place], 6) for place in places}) == count
        cut += len(wanted) > k
    assert cut > 3 or "pairs" in loss  # a local alignment has few


def test_of_long_sequences_the_best_alignment_stands_for_all(monkeypatch):
    """As a list that is cut off, which proves nothing."""
    monkeypatch.setattr(structure, "MOST_CELLS", 0)
    data, problem = aligned_pairs(n, M, N, False), pairwise_alignment(3)
    w = weights_of(problem, 8)

    @jax.jit
    @jax.vmap
    def both(x, y):
        theta = problem.model.potentials(w, x)
        listed = problem.oracles.best_above(theta, y, 2, jnp.float32(0))
        return *listed, problem.oracles.loss_augmented_decode(theta, y, jnp.float32(1))

    found, real, best = both(data.x, data.y)
    assert real.shape == (n, 2) and real.all()
    for one, wanted in zip(found, best, strict=True):
        np.testing.assert_array_equal(one, jnp.stack([wanted, wanted], axis=1))


@pytest.mark.parametrize("gaps", ["linear", "affine"])
def test_linear_maps(x64, gaps):
    """<delta Psi, delta Psi'> and A A' u from the hooks, against Psi written down."""
    data = aligned_pairs(n, M, N, False)
    problem = pairwise_alignment(3, gaps=gaps, dtype="float64")
    w = weights_of(problem, 4)

    @jax.jit
    def summed(x, outputs, coefficients):
        u = problem.space.combine(problem.model.potentials(w, x), outputs, coefficients)
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (x, u))
        added = problem.space.add(problem.initial_weights, *one)
        return added, problem.model.potentials(added, x), problem.space.gram_action(x, u)

    plane_gram = jax.jit(problem.space.plane_gram)
    for i in (0, 7):
        x, y_true, outputs = row(data.x, i), row(data.y, i), batch_of(data, i)
        psi = data.psi(i, gaps, True)
        dpsi = psi[data.truths[i]] - psi
        outputs = jax.tree.map(lambda leaf: np.resize(leaf, (200, *leaf.shape[1:])), outputs)
        for k in (0, len(psi) - 1):
            found = np.asarray(plane_gram(x, y_true, outputs, row(outputs, k)))
            np.testing.assert_allclose(found[: len(psi)], dpsi @ dpsi[k], atol=1e-12)
        coefficients = np.zeros(200)
        coefficients[: len(psi)] = np.random.default_rng(5).normal(size=len(psi))
        added, through, action = summed(x, outputs, coefficients)
        np.testing.assert_allclose(flat_weights(added), coefficients[: len(psi)] @ psi, atol=1e-12)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), through, action)


@pytest.mark.smoke
@pytest.mark.parametrize("gaps", ["linear", "affine"])
def test_sparseness_of_alignments(gaps):
    """JMLR 4.4.3: |Psi(x, y, a)|_1 <= 2 N and |Psi(x, y, a) - Psi(x, y', a')| <= 2 sqrt(2) N."""
    data = aligned_pairs(6, 3, 3, local=True)
    for i in range(6):
        N = max(len(data.firsts[i]), len(data.seconds[i]))
        counts = data.psi(i, gaps, False)
        assert np.abs(counts).sum(axis=1).max() <= 2 * N
        squares = ((counts[:, None] - counts) ** 2).sum(axis=2)
        assert N**2 <= squares.max() <= 8 * N**2
    ends = [data.psi(i, gaps, False)[[0, -1]] for i in range(6)]
    assert any(np.any(first != last) for first, last in ends)


def check(change, mode="global"):
    """What `fit` asks first, of two pairs with something changed."""
    firsts, seconds = [np.array([0, 1]), np.array([2, 2, 0])], [np.array([1]), np.array([0, 2])]
    x = padded_inputs(firsts, seconds, (3, 2))
    y = padded_outputs([np.array([1, 0]), np.array([0, 0, 1])], None, 5)
    x, y = change(jax.tree.map(np.array, x), jax.tree.map(np.array, y))
    pairwise_alignment(3, mode=mode).check(x, y)


def test_training_sets_that_do_not_fit():
    def late(x, y):
        y.operations[0], y.begin[0] = [0, -1, -1, -1, -1], [1, 0]
        return x, y

    refused("covers the 2 letters of the first sequence; it covers 1..1", check, late)
    check(late, mode="local")  # need not begin at the first letters
    for name, place, value, message in (
        ("first", (0, 1), 3, r"inputs.first\[0, 1\] is 3: expected 0..2, the"),
        ("second", (1, 0), -1, r"inputs.second\[1, 0\] is -1: expected 0..2"),
        ("lengths", (1, 0), 0, r"inputs.lengths\[1\] is .0, 2.: expected 1..3"),
        ("operations", (0, 1), 1, "covers the 1 letters .*; it covers 0..-1"),
        ("operations", (1, 3), 2, "the 2 letters of the second .* 0..2"),
        ("operations", (0, 4), 0, r"ions\[0, 4\] is 0: expected .* then PADDING"),
        ("operations", (0, 0), 7, r"outputs.operations\[0, 0\] is 7: expected"),
    ):

        def change(x, y, name=name, place=place, value=value):
            getattr(x if name in x._fields else y, name)[place] = value
            return x, y

        refused(message, check, change)
    cut = lambda x, y: (x, y._replace(operations=y.operations[:, :4]))  # noqa: E731
    refused("n = 2, width = 5", check, cut)
    refused("must be an AlignmentInput", check, lambda x, y: (tuple(x), y))
    refused("AlignmentOutput", check, lambda x, y: (x, (y.operations, y.begin)))


def test_options_that_do_not_fit():
    for options, message in (
        ({"mode": "semi"}, "mode is 'semi'"), ({"gaps": "log"}, "gaps is 'log'"),
        ({"loss": "hamming"}, "loss is 'hamming'"), ({"alphabet_size": 0}, "alphabet_size"),
        ({"symmetric": None}, "symmetric must be True or False, got None"),
        ({"dtype": int}, 'dtype must be "float32" or "float64"'),
    ):  # fmt: skip
        refused(message, pairwise_alignment, **{"alphabet_size": 3} | options)


def test_builders_name_what_does_not_fit():
    one, two = np.array([0]), np.array([0, 1])
    refused("seconds must be of n = 2 firsts, got 1", alignment_inputs, [one, two], [one])
    refused(r"seconds\[1\] is empty", alignment_inputs, [one, two], [one, one[:0]])
    refused("must be .* got 'AC'.*alignments.encode", alignment_inputs, ["AC"], [two])
    refused(r"firsts\[0\] must be .* got float64", alignment_inputs, [[0.5]], [two])
    refused(r"begin must be \[n = 1, 2\] integers", alignment_outputs, [[0]], [0, 1])
    refused("operations must be a list", alignment_outputs, "PDI")
    refused("inputs must be an AlignmentInput", pairwise_alignment(2).check, [two])


def test_formulations_without_an_oracle_are_refused():
    data = aligned_pairs(n, M, N, False)
    for name in ("svm0", "svm1", "svm2", "svm2_margin"):
        with refused(f"{name} needs the loss levels"):
            fit(pairwise_alignment(3), data.x, data.y, name, 1.0)
    assert isinstance(data.y, AlignmentOutput)
