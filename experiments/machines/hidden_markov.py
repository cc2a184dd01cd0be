"""Hidden Markov models of label sequences, by counting (slides "HMM Learning").

    P(x, y) = P(y^1) prod_t P(x^t | y^t) prod_{t<l} P(y^{t+1} | y^t) P(stop | y^l)

x^t is a symbol, a word for instance. With stop probabilities, those of all pairs (x, y) of all
lengths from 1 on sum to one. The slides have none (`stop=False`): then those of one length do, and
the last label counts for no transition.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.oracles.decoding import viterbi
from jaxstruct.chains.potentials import PADDING, ChainPotentials
from jaxstruct.core.contract import Padding
from jaxstruct.core.padding import bucketed, bucketed_inputs, restored
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.types import Array


class HiddenMarkov(NamedTuple):
    """Logarithms of the probabilities of S labels and V symbols; -inf for the probability 0.

    Fields:
      start: [S] log P(y^1 = s); sums to one over s.
      transitions: [S, S] log P(y^{t+1} = s' | y^t = s), the row is the earlier label.
      stop: [S] log P(stop | s); a row of transitions and its stop sum to one. 0 in a model
        without stop probabilities, whose rows of transitions sum to one.
      emissions: [S, V + 1] log P(o | s), in column V that of any unknown symbol; rows sum to one.
    """

    start: np.ndarray
    transitions: np.ndarray
    stop: np.ndarray
    emissions: np.ndarray


def _positions(symbols: np.ndarray) -> int:
    return symbols.shape[1]


_PADDING = Padding(output_sizes=_positions)


class _Counts(NamedTuple):
    """Counts [S], [S, S], [S] and [S, V + 1] of what occurs; the last column is 0."""

    start: np.ndarray
    transitions: np.ndarray
    stop: np.ndarray
    emissions: np.ndarray


def _count(counts: _Counts, symbols: np.ndarray, labels: np.ndarray) -> None:
    """Add the sequences of one bucket."""
    real = labels >= 0
    np.add.at(counts.emissions, (labels[real], symbols[real]), 1)
    followed = real[:, 1:]
    np.add.at(counts.transitions, (labels[:, :-1][followed], labels[:, 1:][followed]), 1)
    some = real.any(axis=1)
    last = np.maximum(real.sum(axis=1) - 1, 0)
    np.add.at(counts.start, labels[some, 0], 1)
    np.add.at(counts.stop, labels[np.arange(len(labels)), last][some], 1)


def _log_shares(counts: np.ndarray, smoothing: float) -> np.ndarray:
    """log (counts + smoothing), normalised over the last axis; -inf for a row without any mass."""
    mass = counts + smoothing
    total = mass.sum(axis=-1, keepdims=True)
    share = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
    return np.log(share, out=np.full_like(share, -np.inf), where=share > 0)


def fit_hidden_markov(
    symbols: np.ndarray | Ragged,
    labels: np.ndarray | Ragged,
    number_of_symbols: int,
    number_of_labels: int,
    *,
    smoothing: float = 1.0,
    stop: bool = True,
    dtype: str = "float32",
) -> HiddenMarkov:
    """Probabilities of the largest joint likelihood, with the Laplace correction.

    P(event | s) = (count of the event in s + c) / (count of s + c number of events), with c the
    smoothing: among S first labels, S + 1 successors of a label (one of them is to stop; S without
    stop probabilities), and V + 1 symbols (one of them unknown). At c = 0 this maximises
    prod_i P(x_i, y_i).

    Args:
      symbols: integers 0..V - 1, a `Ragged` store of n sequences, or [n, T], -1 on padding.
      labels: integers 0..S - 1, likewise. Empty sequences are ignored.
      number_of_symbols: V of the training set. number_of_labels: S.
      smoothing: c >= 0. At 0 an unknown symbol, and a label that never occurs, have probability 0.
      stop: whether to stop is a successor of a label; False counts as the slides do.
      dtype: of the result.

    Returns:
      A HiddenMarkov.

    Source: slides, "HMM Learning": a constant is added to the numerator and the denominator is
    changed so that probabilities add to one again.
    """
    V, S = number_of_symbols, number_of_labels
    counts = _Counts(np.zeros(S), np.zeros((S, S)), np.zeros(S), np.zeros((S, V + 1)))
    for x, y in _padded_parts(symbols, labels):
        _count(counts, x, y)
    ends = [counts.stop[:, None]] if stop else []
    after = _log_shares(np.concatenate([counts.transitions, *ends], axis=1), smoothing)
    model = HiddenMarkov(
        start=_log_shares(counts.start, smoothing),
        transitions=after[:, :S],
        stop=after[:, S] if stop else np.zeros(S),
        emissions=_log_shares(counts.emissions, smoothing),
    )
    return HiddenMarkov(*(leaf.astype(dtype) for leaf in model))


def _padded_parts(
    symbols: np.ndarray | Ragged, labels: np.ndarray | Ragged
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Both padded with -1, in buckets."""
    if isinstance(symbols, Ragged):
        symbols = ragged(symbols, PADDING)
    x, y = bucketed(_PADDING, symbols, labels)
    return list(zip(map(np.asarray, x.parts), map(np.asarray, y.parts), strict=True))


def sentence_potentials(model: HiddenMarkov, symbols: Array) -> ChainPotentials:
    """The chain of one sentence, F(y) = log P(x, y).

    Args:
      model: of S labels and V symbols.
      symbols: [T] int32; V or more is an unknown symbol, negative ones (padding) are never read.

    Returns:
      ChainPotentials for the oracles, whose length is the number of real symbols.
    """
    emissions = jnp.asarray(model.emissions)
    columns = jnp.clip(symbols, 0, emissions.shape[1] - 1)
    return ChainPotentials(
        emissions.T[columns],
        jnp.asarray(model.transitions),
        jnp.asarray(model.start),
        jnp.asarray(model.stop),
    )


@jax.jit
def _decode(model: HiddenMarkov, symbols: Array) -> Array:
    def of_one(x: Array) -> Array:
        return viterbi(sentence_potentials(model, x), jnp.sum(x >= 0)).labels

    return jax.vmap(of_one)(symbols)


def decode(model: HiddenMarkov, symbols: np.ndarray | Ragged) -> np.ndarray | Ragged:
    """argmax_y P(y | x) of each sentence, by Viterbi (slides, "Viterbi Algorithm").

    Args:
      model: of S labels and V symbols.
      symbols: integers, V or more where unknown, a `Ragged` store of n sentences, or [n, T], -1 on
        padding.

    Returns:
      int32 labels, a `Ragged` store, or [n, T], -1 on padding. Ties as in `viterbi`.
      Where all probabilities are 0 (smoothing 0) some labels.
    """
    if not isinstance(symbols, Ragged):
        return np.asarray(_decode(model, symbols.astype(np.int32)))
    buckets = bucketed_inputs(_PADDING, ragged(symbols, PADDING))
    found = tuple(np.asarray(_decode(model, part)) for part in buckets.parts)
    return restored(_PADDING, buckets, found)
