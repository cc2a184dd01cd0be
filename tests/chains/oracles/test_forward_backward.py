"""Log-partition function, gradients and marginals against enumeration of all label sequences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from jaxstruct.chains.oracles.sums import log_partition, marginals
from jaxstruct.chains.potentials import ChainPotentials, score_labels
from tests.chains.oracles import truth as chain_truth
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

# Second order, varying tables, start and stop.
KINDS = [(False, False, True), (False, True, True), (True, False, False), (True, True, True)]
value_and_gradient = jax.value_and_grad(log_partition)


@jax.jit
def gradients(potentials: ChainPotentials, lengths):
    return jax.vmap(value_and_gradient)(potentials, lengths)


@jax.jit
def tables(potentials: ChainPotentials, lengths):
    return jax.vmap(marginals)(potentials, lengths)


def true_counts(potentials, length):
    """log Z, expected counts shaped as the potentials, and pair marginals, by enumeration."""
    T, S = potentials.emissions.shape
    rows = chain_truth.all_labelings(S, length, T)
    scores = chain_truth.scores(potentials, rows) if length else np.zeros(1)
    total = logsumexp(scores) if scores.max() > -np.inf else -np.inf
    weights = np.exp(scores - total) if np.isfinite(total) else np.zeros(len(rows))
    counts = jax.tree.map(lambda part: np.zeros(part.shape), potentials)
    pairs = np.zeros((T - 1, S, S))
    for t in range(length):
        np.add.at(counts.emissions, (t, rows[:, t]), weights)
    for t in range(length - 1):
        np.add.at(pairs, (t, rows[:, t], rows[:, t + 1]), weights)
    counts.transitions[...] = pairs if counts.transitions.ndim == 3 else pairs.sum(0)
    if counts.triples is not None:
        for t in range(length - 2):
            index = (rows[:, t], rows[:, t + 1], rows[:, t + 2])
            np.add.at(counts.triples, index if counts.triples.ndim == 3 else (t, *index), weights)
    if counts.start is not None and length:
        np.add.at(counts.start, rows[:, 0], weights)
        np.add.at(counts.stop, rows[:, length - 1], weights)
    return total, counts, pairs


def as_dtype(tree, dtype):
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), tree)


def close(a, b, tolerance):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_gradients(chains, found, relative, absolute):
    """log Z to a relative tolerance, probabilities to an absolute one."""
    values, slopes = jax.tree.map(np.asarray, found)
    for i, (potentials, length) in enumerate(chains):
        total, counts, _ = true_counts(potentials, length)
        close(values[i], total, relative)
        slope = jax.tree.map(lambda leaf, i=i: leaf[i], slopes)
        jax.tree.map(lambda a, b: close(a, b, absolute), slope, counts)


def check_tables(chains, found, relative, absolute):
    found = jax.tree.map(np.asarray, found)
    for i, (potentials, length) in enumerate(chains):
        total, counts, pairs = true_counts(potentials, length)
        close(found.log_partition[i], total, relative)
        close(found.labels[i], counts.emissions, absolute)
        close(found.pairs[i], pairs, absolute)
        real = np.arange(len(found.labels[i])) < length
        close(found.labels[i].sum(1)[real], float(np.isfinite(total)), 1e-5)
        assert np.all(found.labels[i][~real] == 0) and np.all(found.pairs[i][~real[1:]] == 0)


def random_chains(kind, T, S, count):
    """Lengths 0..T, integer potentials and forbidden ones among them; nan beyond the lengths."""
    random = np.random.default_rng(0)
    names = dict(zip(("second_order", "varying", "start_stop"), kind, strict=True))
    return [
        chain_truth.random_chain(random, T, S, ties=i % 3 == 0, forbidden=i % 2 == 0, **names)
        for i in range(count)
    ]


def enlarged(chains, scale):
    return [(jax.tree.map(lambda leaf: leaf * scale, p), length) for p, length in chains]


@pytest.mark.parametrize(("kind",), thorough_after(2, [(kind,) for kind in reversed(KINDS)]))
def test_against_enumeration(x64, kind) -> None:
    """Also with potentials so large that products of plain numbers underflow."""
    chains = random_chains(kind, 4, 3, 80)
    for batch in (chains, enlarged(chains, 600.0)):
        stack = chain_truth.stacked(batch)
        check_gradients(batch, gradients(*stack), 1e-12, 1e-9)
        if kind in ((False, False, True), (True, True, True)):
            check_tables(batch, tables(*stack), 1e-12, 1e-9)


def test_float32_against_enumeration() -> None:
    chains = [(as_dtype(p, np.float32), n) for p, n in random_chains((True,) * 3, 4, 3, 80)]
    for scale, absolute in ((1.0, 5e-6), (60.0, 2e-4)):
        batch = enlarged(chains, np.float32(scale))
        found = gradients(*chain_truth.stacked(batch))
        assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(found))
        check_gradients(batch, found, 1e-5, absolute)


@pytest.mark.thorough
@pytest.mark.parametrize("T, kind", [(1, (True,) * 3), (2, (True,) * 3), (1, (False,) * 3)])
def test_shortest_chains(x64, T, kind) -> None:
    chains = random_chains(kind, T, 3, 20)
    check_gradients(chains, gradients(*chain_truth.stacked(chains)), 1e-12, 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("second_order", [False, True])
def test_many_labels_and_shared_tables(x64, second_order) -> None:
    """17 labels: loops instead of written-out sums, matrix products where tables are shared."""
    T, S, count = 3, 17, 12
    chains = random_chains((second_order, False, True), T, S, count)
    shared = chains[0][0]
    chains = [(shared._replace(emissions=p.emissions), n) for p, n in chains]
    emissions = np.stack([p.emissions for p, _ in chains])
    lengths = np.asarray([n for _, n in chains])
    axes = ChainPotentials(0, *(None,) * 4)

    @jax.jit
    def summed(potentials, lengths):
        def total(potentials):
            return jnp.sum(jax.vmap(log_partition, (axes, 0))(potentials, lengths))

        return jax.value_and_grad(total)(potentials)

    for scale in (1.0, 600.0):
        tables = jax.tree.map(lambda leaf: leaf * scale, shared)  # noqa: B023
        batch = [(tables._replace(emissions=scale * p.emissions), n) for p, n in chains]
        value, slope = summed(tables._replace(emissions=scale * emissions), lengths)
        truth = [true_counts(*chain)[:2] for chain in batch]
        close(value, sum(total for total, _ in truth), 1e-12)
        counts = chain_truth.stacked([(counts, 0) for _, counts in truth])[0]
        whole = jax.tree.map(lambda leaf: leaf.sum(0), counts)
        close(slope.emissions, counts.emissions, 1e-9)
        jax.tree.map(lambda a, b: close(a, b, 1e-9), slope[1:], whole[1:])


def test_gradient_equals_finite_differences(x64) -> None:
    """All of one chain's potentials one by one, 80 at a time as in `test_against_enumeration`."""
    random = np.random.default_rng(3)
    kind = dict(second_order=True, varying=True, start_stop=True)
    length = 0
    while length < 4:
        potentials, length = chain_truth.random_chain(random, 4, 3, **kind)
    shapes, step, count = [leaf.shape for leaf in potentials], 1e-5, 80
    flat = np.concatenate([np.ravel(leaf) for leaf in potentials])

    def gradients_of(rows: np.ndarray) -> tuple:
        leaves = np.split(rows, np.cumsum([np.prod(shape) for shape in shapes])[:-1], axis=1)
        leaves = [leaf.reshape(-1, *shape) for leaf, shape in zip(leaves, shapes, strict=True)]
        found = gradients(ChainPotentials(*leaves), np.full(count, 4, np.int32))
        return jax.tree.map(np.asarray, found)

    values, moves = [], np.concatenate([step * np.eye(flat.size), -step * np.eye(flat.size)])
    for first in range(0, len(moves), count):
        rows = np.zeros((count, flat.size))
        rows[: len(moves[first : first + count])] = moves[first : first + count]
        values.append(gradients_of(flat + rows)[0])
    ahead, behind = np.concatenate(values)[: len(moves)].reshape(2, -1)
    slopes = gradients_of(np.tile(flat, (count, 1)))[1]
    gradient = np.concatenate([np.ravel(leaf[0]) for leaf in slopes])
    assert np.abs(gradient).max() > 0.1
    close((ahead - behind) / (2 * step), gradient, 1e-8)


@pytest.mark.parametrize("large", ["emissions", "transitions", "triples"])
def test_float32_is_right_at_every_scale(x64, large) -> None:
    """One kind of potentials is up to 100 times larger than the others: plain numbers underflow
    in some chains, each of which is alone in its call so that it decides."""
    random = np.random.default_rng(4)
    chains = []
    for i in range(60):
        p, length = chain_truth.random_chain(
            random, 4, 3, forbidden=i % 2 == 0, second_order=True, varying=large == "triples"
        )
        scale = np.exp(random.uniform(0, np.log(100)))
        if large == "emissions":  # only label sequences that stay: what was small may yet win
            p = p._replace(transitions=np.where(np.eye(3) > 0, p.transitions, -np.inf))
        chains.append((p._replace(**{large: getattr(p, large) * scale}), length))
    one = jax.jit(value_and_gradient)
    for p, length in chains:
        value, slope = jax.tree.map(np.asarray, one(as_dtype(p, np.float32), np.int32(length)))
        total, counts, _ = true_counts(p, length)
        close(value, total, 1e-5)
        jax.tree.map(lambda a, b: close(a, b, 2e-4), slope, counts)


def slow_forward_backward(potentials):
    """log Z and label marginals of a full chain in float64 logarithms."""
    emissions, transitions = potentials.emissions, potentials.transitions
    forward, backward = [emissions[0]], [np.zeros(emissions.shape[1])]
    for row in emissions[1:]:
        forward.append(row + logsumexp(forward[-1][:, None] + transitions, axis=0))
    for row in emissions[:0:-1]:
        backward.append(logsumexp(transitions + (row + backward[-1])[None], axis=1))
    both = np.stack(forward) + np.stack(backward[::-1])
    total = logsumexp(forward[-1])
    return total, np.exp(both - total)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1.0, 50.0])
def test_long_chains_keep_their_digits_in_float32(size) -> None:
    random = np.random.default_rng(5)
    emissions = (size * random.uniform(-1, 1, (1000, 5))).astype(np.float32)
    transitions = (size * random.uniform(-1, 1, (5, 5))).astype(np.float32)
    potentials = ChainPotentials(emissions, transitions)
    total, labels = slow_forward_backward(as_dtype(potentials, np.float64))
    found = jax.tree.map(np.asarray, jax.jit(marginals)(potentials, 1000))
    np.testing.assert_allclose(found.log_partition, total, rtol=2e-6)
    np.testing.assert_allclose(found.labels, labels, atol=1e-4)
    np.testing.assert_allclose(found.labels.sum(1), 1, atol=1e-5)
    value, slope = jax.tree.map(np.asarray, jax.jit(value_and_gradient)(potentials, 1000))
    np.testing.assert_allclose(value, total, rtol=2e-6)
    np.testing.assert_allclose(slope.emissions, labels, atol=1e-4)
    np.testing.assert_allclose(slope.transitions.sum(), 999, rtol=1e-5)


def test_everything_forbidden() -> None:
    tables = np.zeros((3, 2)), np.full((2, 2), -np.inf), np.zeros(2)
    potentials = ChainPotentials(*(table.astype(np.float32) for table in tables))
    stack = chain_truth.stacked([(potentials, length) for length in range(4)])
    found = jax.tree.map(np.asarray, gradients(*stack))
    np.testing.assert_allclose(found[0], [0, np.log(2), -np.inf, -np.inf], rtol=1e-6)
    assert all(np.all(leaf[2:] == 0) for leaf in jax.tree.leaves(found[1]))
    np.testing.assert_allclose(found[1].start[1], 0.5)


@pytest.mark.thorough
def test_jit_and_nested_vmap_give_the_same(x64) -> None:
    chains = random_chains((False, False, True), 4, 3, 80)
    potentials, lengths = chain_truth.stacked(chains)
    flat = gradients(potentials, lengths)
    deep = jax.tree.map(lambda leaf: leaf.reshape(20, 4, *leaf.shape[1:]), (potentials, lengths))
    nested = jax.jit(jax.vmap(jax.vmap(value_and_gradient)))(*deep)
    nested, flat = jax.tree.map(np.asarray, (nested, flat))
    jax.tree.map(lambda a, b: close(a.reshape(b.shape), b, 1e-12), nested, flat)
    close(log_partition(*chains[2]), flat[0][2], 1e-12)


def test_likelihood_of_a_conditional_random_field_has_a_finite_gradient(x64) -> None:
    """log Z - F(y) with forbidden transitions, as training differentiates it."""
    forbidden = np.where(np.eye(3), -np.inf, 0.1)
    potentials = ChainPotentials(np.random.default_rng(6).normal(size=(4, 3)), forbidden)
    labels = np.asarray([0, 1, 2, 0])
    loss = jax.jit(jax.grad(lambda p: log_partition(p, 4) - score_labels(p, labels, 4)))
    slope = jax.tree.map(np.asarray, loss(potentials))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slope))
    _, counts, _ = true_counts(potentials, 4)
    counts.emissions[np.arange(4), labels] -= 1
    close(slope.emissions, counts.emissions, 1e-12)
    assert np.all(np.diag(slope.transitions) == 0)


def test_one_program_for_all_values_and_lengths() -> None:
    chains = [(as_dtype(p, np.float32), n) for p, n in random_chains((False,) * 3, 4, 3, 80)]
    run = jax.jit(lambda p, n: jax.vmap(log_partition)(p, n))
    for batch in (chains, enlarged(chains, np.float32(60))):
        run(*chain_truth.stacked(batch))
    assert run._cache_size() == 1


def test_integers_are_refused() -> None:
    potentials = ChainPotentials(jnp.zeros((3, 2), jnp.int32), jnp.zeros((2, 2), jnp.int32))
    refused("potentials must be floating-point numbers, got int32", log_partition, potentials, 3)
