"""Structures written as one recursion, against the list of their outputs."""

from __future__ import annotations

import itertools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jaxstruct as js
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

T, N = 4, 2


class Labels(NamedTuple):
    """states [T, N], steps [N, N], and how many positions there are."""

    states: jax.Array
    steps: jax.Array
    length: jax.Array


def labels_total(rule, theta: Labels):
    """Label sequences of `length` positions, in a loop."""

    def step(rule, values, row):
        at, own = row
        onward = jax.tree.map(lambda leaf: leaf[..., None], values)
        moved = rule.times(rule.reduce(rule.times(onward, theta.steps)), own)
        return jax.tree.map(lambda a, b: jnp.where(at < theta.length, a, b), moved, values)

    first = rule.of(theta.states[0])
    return rule.reduce(rule.scan(step, first, (jnp.arange(1, T), theta.states[1:])))


def labels_output(parts: Labels) -> jax.Array:
    labels = jnp.argmax(parts.states, axis=1).astype(jnp.int32)
    return jnp.where(jnp.arange(T) < parts.length, labels, -1)


def labels_parts(y: np.ndarray) -> Labels:
    own, length = np.eye(N)[y], int((y >= 0).sum())
    own[length:] = 0
    return Labels(own, np.einsum("ti,tj->ij", own[:-1], own[1:]), length)


def brackets_total(rule, spans: jax.Array):
    """Binary trees over T leaves; spans [T, T] by the first and the last leaf."""
    found = {(t, t): rule.of(spans[t, t]) for t in range(T)}
    for width in range(1, T):
        for a in range(T - width):
            b = a + width
            ways = [rule.product(found[a, m], found[m + 1, b]) for m in range(a, b)]
            found[a, b] = rule.times(rule.join(*ways), spans[a, b])
    return found[0, T - 1]


def brackets_output(parts: jax.Array) -> jax.Array:
    return parts.astype(jnp.int32)


def bracketings(a: int, b: int) -> list[np.ndarray]:
    own = np.zeros((T, T), np.int32)
    own[a, b] = 1
    if a == b:
        return [own]
    pairs = (itertools.product(bracketings(a, m), bracketings(m + 1, b)) for m in range(a, b))
    return [own + one + other for ways in pairs for one, other in ways]


def of_length(length: int) -> list[np.ndarray]:
    padding = (-1,) * (T - length)
    return [np.array(y + padding) for y in itertools.product(range(N), repeat=length)]


LABELS = js.Recursion(labels_total, labels_output)
BRACKETS = js.Recursion(brackets_total, brackets_output)
CASES = {
    "labels": (LABELS, of_length(T), labels_parts, T),
    "padded": (LABELS, of_length(T - 1), labels_parts, T - 1),
    "brackets": (BRACKETS, bracketings(0, T - 1), np.asarray, None),
}


def drawn_theta(seed: int, dtype: str, length: int | None):
    """Potentials; of few values and some of them -inf for an odd seed."""
    random = np.random.default_rng(seed)

    def one(*shape: int) -> np.ndarray:
        draw = random.integers(-1, 2, shape) if seed % 2 else random.normal(size=shape)
        barred = (random.random(shape) < 0.1) & bool(seed % 2)
        return np.where(barred, -np.inf, draw).astype(dtype)

    return one(T, T) if length is None else Labels(one(T, N), one(N, N), np.int32(length))


def parts_in(theta, y):
    if not isinstance(theta, Labels):
        return y
    own = jax.nn.one_hot(y, N, dtype=theta.states.dtype)
    return Labels(own, jnp.einsum("ti,tj->ij", own[:-1], own[1:]), theta.length)


def score(theta, y):
    pairs = zip(floats(theta), floats(parts_in(theta, y)), strict=True)
    return sum(jnp.sum(jnp.where(n > 0, n * own, 0).astype(own.dtype)) for own, n in pairs)


def raised(theta, y_true):
    """Delta is the number of the positions, or of the spans of y, that y_true has not."""
    if not isinstance(theta, Labels):
        return theta + 1 - y_true
    return theta._replace(states=theta.states + 1 - jax.nn.one_hot(y_true, N))


def floats(tree) -> list:
    return jax.tree.leaves(tree)[:2]


def by_list(theta, parts: list[np.ndarray]) -> np.ndarray:
    """[outputs] F of each."""
    table = zip(floats(theta), parts, strict=True)
    products = (np.where(n > 0, n * np.asarray(own, float), 0) for own, n in table)
    with np.errstate(invalid="ignore"):
        return sum(one.sum(axis=(1, 2)) for one in products)


@pytest.mark.parametrize(
    "dtype, jitted", thorough_after(2, [("float32", True), ("float64", False), ("float64", True)])
)
@pytest.mark.parametrize("case", CASES)
def test_all_answers_are_those_of_the_list(x64: None, case: str, dtype: str, jitted: bool) -> None:
    recursion, outputs, parts_of, length = CASES[case]
    inference, k = recursion.inference(score, raised), len(outputs) + 2
    listed = np.array(outputs, np.int32)
    parts = [np.stack(one) for one in zip(*(floats(parts_of(y)) for y in outputs), strict=True)]

    def answers(theta, y):
        return (
            recursion.decode(theta),
            inference.k_best(theta, k),
            inference.marginals(theta),
            jax.value_and_grad(inference.log_loss, allow_int=True)(theta, y),
            inference.softmax_margin(theta, y, 0.5),
            inference.augmented_k_best(theta, y, 3),
        )

    thetas = [drawn_theta(seed, dtype, length) for seed in (range(8) if jitted else (1,))]
    true = [seed % len(outputs) for seed in range(len(thetas))]
    every = jax.tree.map(lambda *rows: np.stack(rows), *thetas)
    of_all = jax.jit(jax.vmap(answers))(every, listed[true]) if jitted else None
    same = partial(np.testing.assert_allclose, **{
        "float32": {"rtol": 2e-5, "atol": 2e-5}, "float64": {"rtol": 1e-12, "atol": 1e-14},
    }[dtype])  # fmt: skip
    places = {y.tobytes(): n for n, y in enumerate(listed)}
    for n, (own, i) in enumerate(zip(thetas, true, strict=True)):
        theta = jax.tree.map(jnp.asarray, own)
        found = jax.tree.map(lambda leaf, n=n: leaf[n], of_all) or answers(theta, listed[i])
        best, (ranked, scores), mean, (loss, slope), margin, (augmented, there) = found
        F = by_list(theta, parts)
        real = int((F > -np.inf).sum())
        same(scores[: len(F)], np.sort(F)[::-1])
        assert scores.dtype == dtype and (np.asarray(scores)[real:] == -np.inf).all()
        assert (np.asarray(ranked)[real:] == -1).all()
        if not real:
            assert mean.log_partition == -np.inf and loss == np.inf
            continue
        chosen = [places[np.asarray(y).tobytes()] for y in ranked[:real]]
        assert len(set(chosen)) == real
        same(F[chosen], scores[:real])
        np.testing.assert_array_equal(best, ranked[0])
        total = logsumexp(F)
        same(mean.log_partition, total)
        same(loss, total - F[i])
        expected = [np.einsum("n,nij->ij", np.exp(F - total), one) for one in parts]
        for leaf, one in zip(floats(mean.probabilities), expected, strict=True):
            same(leaf, one)
        if F[i] == -np.inf:
            continue
        for leaf, one, own in zip(floats(slope), expected, parts, strict=True):
            same(leaf, one - own[i])
        H = by_list(raised(theta, listed[i]), parts)
        same(margin, 0.5 * logsumexp(2 * (H - F[i])))
        chosen = [places[np.asarray(y).tobytes()] for y in augmented[there]]
        same(H[chosen], np.sort(H[H > -np.inf])[::-1][:3])


@pytest.mark.parametrize("case", CASES)
def test_samples_are_those_of_the_list(case: str) -> None:
    """By chi squared, which has the mean df and the standard deviation sqrt(2 df)."""
    recursion, outputs, parts_of, length = CASES[case]
    theta, draws = jax.tree.map(jnp.asarray, drawn_theta(0, "float32", length)), 20_000
    parts = [np.stack(one) for one in zip(*(floats(parts_of(y)) for y in outputs), strict=True)]
    F = by_list(theta, parts)
    sample = jax.jit(jax.vmap(partial(recursion.inference(score).sample, theta)))
    found = np.asarray(sample(jax.random.split(jax.random.key(0), draws)))
    places = {y.tobytes(): n for n, y in enumerate(np.array(outputs, np.int32))}
    count = np.bincount([places[y.tobytes()] for y in found], minlength=len(F))
    expected = draws * np.exp(F - logsumexp(F))
    freedom = len(F) - 1
    assert np.sum((count - expected) ** 2 / expected) < freedom + 4 * np.sqrt(2 * freedom)


def test_a_loop_whose_draws_would_be_the_same_is_refused() -> None:
    def total(rule, theta):
        def step(values, own):
            return jnp.broadcast_to(rule.reduce(values), own.shape) + own, None

        return rule.reduce(jax.lax.scan(step, rule.of(theta[0]), theta[1:])[0])

    recursion = js.Recursion(total, lambda parts: jnp.argmax(parts, axis=1))
    sample = recursion.inference(lambda theta, y: theta[0, 0]).sample
    refused(r"total must loop by rule\.scan", sample, jnp.zeros((T, N)), jax.random.key(0))
