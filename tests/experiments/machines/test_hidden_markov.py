"""Hidden Markov models against counts by hand, enumeration and perturbed likelihoods."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from experiments.machines import hidden_markov
from experiments.machines.hidden_markov import HiddenMarkov, decode, fit_hidden_markov
from jaxstruct import Ragged, ragged
from jaxstruct.chains.potentials import score_labels

SYMBOLS = np.array([[0, 1, 1], [2, 0, -1], [1, -1, -1]])
LABELS = np.array([[0, 1, 1], [1, 0, -1], [0, -1, -1]])
V, S, T = 3, 2, 4


def random_corpus(seed: int, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of lengths 0..T, padded."""
    random = np.random.default_rng(seed)
    real = np.arange(T) < random.integers(0, T + 1, n)[:, None]
    draw = [random.integers(0, bound, (n, T)) for bound in (V, S)]
    return tuple(np.where(real, values, -1) for values in draw)


def probability(model: HiddenMarkov, x: np.ndarray, y: np.ndarray) -> float:
    """log P(x, y) as a product along the chain; unknown symbols are in column V."""
    if not len(y):
        return 0.0
    total = model.start[y[0]] + model.stop[y[-1]]
    total += sum(model.transitions[a, b] for a, b in itertools.pairwise(y))
    return float(total + sum(model.emissions[s, min(o, V)] for s, o in zip(y, x, strict=True)))


def test_counts_by_hand_with_the_laplace_correction() -> None:
    model = fit_hidden_markov(SYMBOLS, LABELS, V, S, smoothing=1)
    expected = HiddenMarkov(
        np.array([3, 2]) / 5, np.array([[1, 2], [2, 2]]) / 6, np.array([3, 2]) / 6,
        np.array([[3, 2, 1, 1], [1, 3, 2, 1]]) / 7,
    )  # fmt: skip
    for found, shares in zip(model, expected, strict=True):
        np.testing.assert_allclose(np.exp(found), shares, rtol=1e-6)


def test_the_count_of_the_slides() -> None:
    """a_ij is a share of the transitions from i: the last label of a sequence counts for none."""
    for smoothing, first in ((0.0, [0, 1]), (1.0, [1 / 3, 2 / 3])):
        model = fit_hidden_markov(SYMBOLS, LABELS, V, S, smoothing=smoothing, stop=False)
        np.testing.assert_allclose(np.exp(model.transitions), [first, [0.5, 0.5]], rtol=1e-6)
        ends = fit_hidden_markov(SYMBOLS, LABELS, V, S, smoothing=smoothing)
        same = ends._replace(transitions=model.transitions, stop=np.zeros(S))
        jax.tree.map(np.testing.assert_array_equal, model, same)


def test_probabilities_of_one_length_sum_to_one_without_stops() -> None:
    model = fit_hidden_markov(*random_corpus(1), V, S, smoothing=0.5, stop=False, dtype="float64")
    for length in (1, 2, 3):
        symbols, labels = (itertools.product(range(k), repeat=length) for k in (V + 1, S))
        pairs = itertools.product(symbols, labels)
        total = sum(np.exp(probability(model, x, y)) for x, y in pairs)
        np.testing.assert_allclose(total, 1, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_probabilities_sum_to_one(smoothing: float) -> None:
    model = fit_hidden_markov(*random_corpus(1), V, S, smoothing=smoothing, dtype="float64")
    probabilities = HiddenMarkov(*(np.exp(leaf) for leaf in model))
    np.testing.assert_allclose(probabilities.start.sum(), 1, rtol=1e-12)
    after = probabilities.transitions.sum(axis=1) + probabilities.stop
    np.testing.assert_allclose(after, 1, rtol=1e-12)
    np.testing.assert_allclose(probabilities.emissions.sum(axis=1), 1, rtol=1e-12)
    # All lengths together: start (I + A + A A + ..) stop.
    visits = np.linalg.solve(np.eye(S) - probabilities.transitions, probabilities.stop)
    np.testing.assert_allclose(probabilities.start @ visits, 1, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_without_smoothing_it_maximises_the_joint_likelihood(seed: int) -> None:
    symbols, labels = random_corpus(seed)
    model = fit_hidden_markov(symbols, labels, V, S, smoothing=0, dtype="float64")
    random = np.random.default_rng(seed)

    def likelihood(model: HiddenMarkov) -> float:
        pairs = zip(symbols, labels, strict=True)
        return sum(probability(model, x[y >= 0], y[y >= 0]) for x, y in pairs)

    def moved(row: np.ndarray, share: float) -> np.ndarray:
        """Mixed with a random distribution on the same support."""
        other = random.dirichlet(np.ones(row.size)) * (row > 0)
        return (1 - share) * row + share * other / other.sum()

    best = likelihood(model)
    after = np.exp(np.concatenate([model.transitions, model.stop[:, None]], axis=1))
    assert np.isfinite(best)
    for share in (1e-3, 0.1, 0.5, 1.0):
        rows = np.stack([moved(row, share) for row in after])
        emissions = np.stack([moved(row, share) for row in np.exp(model.emissions)])
        start = moved(np.exp(model.start), share)
        with np.errstate(divide="ignore"):
            tables = start, rows[:, :S], rows[:, S], emissions
            assert likelihood(HiddenMarkov(*map(np.log, tables))) < best


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_decoding_is_the_most_probable_label_sequence(smoothing: float) -> None:
    model = fit_hidden_markov(*random_corpus(2, n=12), V, S, smoothing=smoothing, dtype="float64")
    known = V + (smoothing > 0)  # with a column for unknown symbols
    sentences = [
        list(x) + [-1] * (T - length)
        for length in range(T + 1)
        for x in itertools.product(range(known), repeat=length)
    ]
    decoded = decode(model, np.array(sentences))
    for x, y in zip(np.array(sentences), decoded, strict=True):
        length = int(np.sum(x >= 0))
        assert np.all(y[length:] == -1)
        best = max(
            probability(model, x[:length], np.array(other, int))
            for other in itertools.product(range(S), repeat=length)
        )
        if np.isfinite(best):
            found = probability(model, x[:length], y[:length])
            np.testing.assert_allclose(found, best, rtol=1e-6, atol=1e-6)


def test_the_potentials_score_the_joint_probability(x64: None) -> None:
    model = fit_hidden_markov(*random_corpus(3), V, S, dtype="float64")
    x, y = (np.array(values, np.int32) for values in ([2, 7, 0, -1], [1, 0, 0, -1]))

    @jax.jit
    def scored(model: HiddenMarkov, x: np.ndarray, y: np.ndarray) -> jax.Array:
        potentials = hidden_markov.sentence_potentials(model, x)
        assert potentials.emissions.shape == (T, S) and potentials.emissions.dtype == "float64"
        return score_labels(potentials, y, 3)

    np.testing.assert_allclose(scored(model, x, y), probability(model, x[:3], y[:3]), rtol=1e-12)


def test_stores_and_padding_change_nothing() -> None:
    symbols, labels = random_corpus(4)
    real = labels >= 0
    x, y = (
        ragged([row[own] for row, own in zip(values, real, strict=True)])
        for values in (symbols, labels)
    )
    wide = [np.pad(values, ((0, 0), (0, 3)), constant_values=-1) for values in (symbols, labels)]
    model = fit_hidden_markov(symbols, labels, V, S)
    for pair in ((x, y), wide):
        jax.tree.map(np.testing.assert_array_equal, fit_hidden_markov(*pair, V, S), model)
    plain, decoded = decode(model, symbols), decode(model, x)
    assert isinstance(decoded, Ragged)
    np.testing.assert_array_equal(decoded.lengths, y.lengths)
    np.testing.assert_array_equal(decoded.rows, plain[real])
    np.testing.assert_array_equal(decode(model, wide[0])[:, T:], -1)
