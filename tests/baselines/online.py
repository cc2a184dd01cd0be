"""The online perceptron in plain numpy, over outputs that are all written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.baselines.perceptron import epoch_order
from jaxstruct.chains.structure import Constraints
from tests.baselines.sequences import Sequences, random_sequences


class Outputs(NamedTuple):
    """Every output of every example, sorted so that the first of equal scores is decoded.

    Fields:
      labels: n arrays [k, ..]. psi: n arrays [k, D], the joint features. true: [n] places of y_i.
    """

    labels: Sequence[np.ndarray]
    psi: Sequence[np.ndarray]
    true: np.ndarray


class Online(NamedTuple):
    """Where the run ends.

    Fields:
      weights: [D]. averaged: [D] the mean of w over all visits, w after each.
      mistakes: one number an epoch.
    """

    weights: np.ndarray
    averaged: np.ndarray
    mistakes: list[int]


def online_perceptron(outputs: Outputs, epochs: Iterable[Sequence[int]]) -> Online:
    """Visit the examples in the given orders until an epoch has no mistake."""
    w = np.zeros(outputs.psi[0].shape[1])
    after, mistakes = [], []
    for order in epochs:
        mistakes.append(0)
        for i in order:
            best, true = int(np.argmax(outputs.psi[i] @ w)), outputs.true[i]
            if best != true:
                w = w + outputs.psi[i][true] - outputs.psi[i][best]
                mistakes[-1] += 1
            after.append(w)
        if not mistakes[-1]:
            break
    return Online(w, np.mean(after, axis=0), mistakes)


def orders(index: Sequence[np.ndarray], chunk: int, seed: int, epochs: int) -> list[list[int]]:
    """Examples in the order in which `perceptron` visits them, epoch by epoch."""
    return [
        [
            int(index[bucket][row])
            for bucket, rows in epoch_order(tuple(index), chunk, seed, epoch)
            for row in rows
            if row >= 0
        ]
        for epoch in range(epochs)
    ]


def chain_outputs(data: Sequences, model: dict, constraints: Constraints | None = None) -> Outputs:
    """Label sequences; among equal scores the lowest last label wins, and so on backward."""
    labels, psi, true = [], [], []
    for i, y in enumerate(data.y):
        every = data.outputs(i, constraints)
        labels.append(every[np.lexsort(every.T)])
        psi.append(data.psi(model, i, labels[i]))
        true.append(int(np.flatnonzero((labels[i] == y).all(axis=1))[0]))
    return Outputs(labels, psi, np.array(true))


def class_outputs(x: np.ndarray, y: np.ndarray, k: int) -> Outputs:
    """Classes; Psi(x, y) holds x in column y of [d, k]."""
    psi = [np.stack([np.outer(row, unit).ravel() for unit in np.eye(k)]) for row in x]
    return Outputs([np.arange(k)] * len(x), psi, y)


def differences(outputs: Outputs) -> np.ndarray:
    """[m, D] Psi(x_i, y_i) - Psi(x_i, y) of all i and all y != y_i."""
    pairs = zip(outputs.psi, outputs.true, strict=True)
    return np.concatenate([np.delete(psi[true] - psi, true, axis=0) for psi, true in pairs])


def integer_sequences(seed: int, n: int, separable: bool, d: int = 3) -> Sequences:
    """Sequences of tokens of small integers, so that float32 makes no rounding errors.

    Labels are drawn, or those of a random w where `separable`.
    """
    data, random = random_sequences(seed, n=n, T=4, d=d, S=3), np.random.default_rng(seed)
    real = np.arange(4) < data.length[:, None]
    tokens = np.where(real[:, :, None], random.integers(-2, 3, data.tokens.shape), 0).astype(float)
    data = data._replace(tokens=tokens)
    if not separable:
        return data
    w = random.normal(size=3 * d + 9)
    best = []
    for i in range(n):
        every = data.outputs(i)
        best.append(every[np.argmax(data.psi({"eta": 1.0}, i, every) @ w)])
    return data._replace(y=np.stack(best).astype(np.int32))
