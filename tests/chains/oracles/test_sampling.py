"""Samples of label sequences against their enumerated probabilities."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.chains.oracles.sums import marginals, sample
from jaxstruct.chains.potentials import PADDING, ChainPotentials
from tests.chains.oracles import truth as chain_truth
from tests.lib.enumeration import Listed, check_samples

S, T, CHAINS, DRAWS = 3, 4, 40, 4000


@jax.jit
def draws(potentials, lengths, keys):
    """[chains, DRAWS, T] samples of many chains."""
    many = jax.vmap(sample, (None, None, 0))
    return jax.vmap(many)(potentials, lengths, keys)


def drawn(chains, seed=0, dtype=np.float32):
    potentials, lengths = chain_truth.stacked(chains)
    potentials = jax.tree.map(lambda leaf: leaf.astype(dtype), potentials)
    keys = jax.random.split(jax.random.key(seed), (len(chains), DRAWS))
    return np.asarray(draws(potentials, lengths, keys))


@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("kind", [(False, False), (True, False), (True, True)])
def test_distribution(kind, scale) -> None:
    """Chi-square over all sequences of 40 chains; 60-fold scores need the logarithmic messages."""
    random = np.random.default_rng(1)
    names = dict(zip(("second_order", "varying"), kind, strict=True), start_stop=True)
    chains = [
        chain_truth.random_chain(random, T, S, forbidden=i % 2 == 0, **names) for i in range(CHAINS)
    ]
    if scale > 1:
        chains = [(with_equal_paths(p, scale), length) for p, length in chains]
    labels = drawn(chains)
    for of_one, (_, length) in zip(labels, chains, strict=True):
        assert np.all(of_one[:, length:] == PADDING)
        assert np.all((of_one[:, :length] >= 0) & (of_one[:, :length] < S))
    every = [chain_truth.all_labelings(S, length, T) for _, length in chains]
    F = [chain_truth.scores(p, rows) for (p, _), rows in zip(chains, every, strict=True)]
    check_samples(Listed(every, F, np.zeros(CHAINS, bool)), labels)


def with_equal_paths(potentials, scale):
    """Emissions moved by +-scale and the transitions against it: F up to an addend stays.

    Label 0 gets +scale at every position and transitions out of it -scale, stop +scale less.
    """
    emissions = np.array(potentials.emissions)
    emissions[:, 0] += scale
    transitions = np.array(potentials.transitions)
    transitions[..., 0, :] -= scale
    stop = np.array(potentials.stop)
    stop[0] -= scale
    return potentials._replace(emissions=emissions, transitions=transitions, stop=stop)


def test_rare_forbidden_labels_are_never_drawn() -> None:
    """160,000 sequences under transitions that only allow s -> s and s -> s + 1."""
    allowed = np.eye(S) + np.eye(S, k=1) > 0
    transitions = np.where(allowed, 0.0, -np.inf)
    random = np.random.default_rng(2)
    chains = [
        (ChainPotentials(random.normal(size=(T, S)), transitions, *np.zeros((2, S))), T)
        for _ in range(CHAINS)
    ]
    labels = drawn(chains)
    assert np.all(allowed[labels[..., :-1], labels[..., 1:]])
    moves = np.unique(labels[..., :-1] * S + labels[..., 1:])
    assert len(moves) == allowed.sum()


@pytest.mark.thorough
def test_frequencies_are_the_marginals_of_a_longer_chain() -> None:
    random = np.random.default_rng(3)
    length, labels = 30, 20  # more labels than are written out
    potentials = ChainPotentials(
        random.normal(size=(32, labels)).astype(np.float32),
        random.normal(size=(labels, labels)).astype(np.float32),
    )

    @jax.jit
    def answers(potentials: ChainPotentials) -> tuple:
        keys = jax.random.split(jax.random.key(4), 20000)
        drawn = jax.vmap(lambda key: sample(potentials, length, key))(keys)
        return drawn, marginals(potentials, length)

    drawn, tables = jax.tree.map(np.asarray, answers(potentials))
    bound = 5 * 0.5 / np.sqrt(len(drawn))
    frequency = np.mean(drawn[:, :length, None] == np.arange(labels), axis=0)
    assert np.abs(frequency - tables.labels[:length]).max() < bound
    pair = np.zeros((labels, labels))
    np.add.at(pair, (drawn[:, 7], drawn[:, 8]), 1 / len(drawn))
    assert np.abs(pair - tables.pairs[7]).max() < bound


@pytest.mark.thorough
def test_keys_decide_and_batching_does_not(x64) -> None:
    random = np.random.default_rng(5)
    chains = [chain_truth.random_chain(random, T, S, start_stop=True) for _ in range(6)]
    potentials, lengths = chain_truth.stacked(chains)
    keys, others = (jax.random.split(jax.random.key(seed), 6) for seed in (6, 7))
    call = jax.jit(jax.vmap(sample))
    batched = np.asarray(call(potentials, lengths, keys))
    flat = (potentials, lengths, keys)
    deep = jax.tree.map(lambda leaf: leaf.reshape(2, 3, *leaf.shape[1:]), flat)
    nested = np.asarray(jax.jit(jax.vmap(jax.vmap(sample)))(*deep))
    np.testing.assert_array_equal(nested.reshape(6, T), batched)
    np.testing.assert_array_equal(sample(*chains[1], keys[1]), batched[1])
    assert batched.dtype == np.int32
    assert np.any(np.asarray(call(potentials, lengths, others)) != batched)


def test_everything_forbidden_gives_valid_labels() -> None:
    potentials = ChainPotentials(np.zeros((T, S)), np.full((S, S), -np.inf), *np.zeros((2, S)))
    labels = drawn([(potentials, number % (T + 1)) for number in range(CHAINS)])
    for length in range(T + 1):
        assert np.all((labels[length, :, :length] >= 0) & (labels[length, :, :length] < S))
        assert np.all(labels[length, :, length:] == PADDING)
