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
from tests.lib.enumeration import Listed, check_k_best, check_samples
from tests.lib.refusals import refused

T, N = 4, 2
CLOSE = {"float32": {"rtol": 2e-5, "atol": 2e-5}, "float64": {"rtol": 1e-12, "atol": 1e-14}}


class Labels(NamedTuple):
    """states [T, N], steps [N, N], and how many positions there are."""

    states: jax.Array
    steps: jax.Array
    length: jax.Array


def labels_total(rule, theta):
    """Label sequences of `length` positions, in a loop."""

    def step(rule, values, row):
        at, own = row
        onward = jax.tree.map(lambda leaf: leaf[..., None], values)
        moved = rule.times(rule.reduce(rule.times(onward, theta.steps)), own)
        return jax.tree.map(lambda a, b: jnp.where(at < theta.length, a, b), moved, values)

    first = rule.of(theta.states[0])
    return rule.reduce(rule.scan(step, first, (jnp.arange(1, T), theta.states[1:])))


def labels_output(parts):
    labels = jnp.argmax(parts.states, axis=1).astype(jnp.int32)
    return jnp.where(jnp.arange(T) < parts.length, labels, -1)


def labels_of(theta):
    """[outputs, T] all of them."""
    length = int(theta.length)
    every = itertools.product(range(N), repeat=length)
    return np.array([y + (-1,) * (T - length) for y in every], np.int32)


def brackets_total(rule, spans):
    """Binary trees over T leaves; spans [T, T] by the first and the last leaf."""
    found = {(t, t): rule.of(spans[t, t]) for t in range(T)}
    for width in range(1, T):
        for a, b in ((a, a + width) for a in range(T - width)):
            ways = [rule.product(found[a, m], found[m + 1, b]) for m in range(a, b)]
            found[a, b] = rule.times(rule.join(*ways), spans[a, b])
    return found[0, T - 1]


def bracketings(a, b):
    """The [T, T] spans of every tree over the leaves a..b."""
    own = np.zeros((T, T), np.int32)
    own[a, b] = 1
    if a == b:
        return [own]
    pairs = (itertools.product(bracketings(a, m), bracketings(m + 1, b)) for m in range(a, b))
    return [own + one + other for ways in pairs for one, other in ways]


CASES = {
    "labels": (js.Recursion(labels_total, labels_output), labels_of),
    "brackets": (
        js.Recursion(brackets_total, lambda parts: parts.astype(jnp.int32)),
        lambda theta: np.array(bracketings(0, T - 1)),
    ),
}


def drawn_theta(case, seed, dtype="float32"):
    """Potentials; of few values and some of them -inf for an odd seed."""
    random, odd = np.random.default_rng(seed), bool(seed % 2)

    def one(*shape):
        draw = random.integers(-1, 2, shape) if odd else random.normal(size=shape)
        return np.where((random.random(shape) < 0.1) & odd, -np.inf, draw).astype(dtype)

    length = np.int32(T - seed % 3 // 2)
    return one(T, T) if case == "brackets" else Labels(one(T, N), one(N, N), length)


def floats(tree):
    return jax.tree.leaves(tree)[:2]


def ones(theta, y):
    """[T, N] 1 where a position has the label, as an array of NumPy where y is one."""
    return (y[:, None] == np.arange(N)[None]).astype(theta.states.dtype)


def parts_of(theta, y):
    """The parts that an output uses, without those that are no potentials."""
    if not isinstance(theta, Labels):
        return [y]
    own = ones(theta, y)
    return [own, own[:-1].T @ own[1:]]


def score(theta, y):
    pairs = zip(floats(theta), parts_of(theta, y), strict=True)
    return sum(jnp.sum(jnp.where(n > 0, n * own, 0).astype(own.dtype)) for own, n in pairs)


def raised(theta, y_true):
    """Delta is the number of the positions, or of the spans of y, that y_true has not."""
    if not isinstance(theta, Labels):
        return theta + 1 - y_true
    return theta._replace(states=theta.states + 1 - ones(theta, y_true))


def all_parts(theta, outputs):
    return list(map(np.stack, zip(*(parts_of(theta, y) for y in outputs), strict=True)))


def by_list(theta, parts):
    """[outputs] F of each, in float64."""
    leaves = (np.asarray(own, float) for own in floats(theta))
    with np.errstate(invalid="ignore"):
        table = [np.where(n > 0, n * own, 0) for own, n in zip(leaves, parts, strict=True)]
    return sum(one.sum(axis=(1, 2)) for one in table)


def listed_of(outputs, F):
    return Listed([outputs.reshape(len(outputs), -1)], [F], np.zeros(1, bool))


def answers(recursion, k, theta, y):
    inference = recursion.inference(score, raised)
    return (
        recursion.decode(theta), inference.k_best(theta, k), inference.marginals(theta),
        jax.value_and_grad(inference.log_loss, allow_int=True)(theta, y),
        inference.softmax_margin(theta, y, 0.5), inference.augmented_k_best(theta, y, 3),
    )  # fmt: skip


@pytest.mark.parametrize("case, dtype", [("labels", "float32"), ("brackets", "float64")])
def test_all_answers_are_those_of_the_list(x64, case, dtype):
    """Sequences of two lengths in one program; some have no output at all."""
    recursion, outputs_of = CASES[case]
    thetas = [drawn_theta(case, seed, dtype) for seed in range(9)]
    lists = [outputs_of(theta) for theta in thetas]
    true = np.stack([every[n % len(every)] for n, every in enumerate(lists)])
    call = jax.vmap(partial(answers, recursion, max(map(len, lists)) + 2))
    every = jax.tree.map(lambda *rows: np.stack(rows), *thetas)
    found = jax.tree.map(np.asarray, jax.jit(call)(every, true))
    for n, (theta, outputs) in enumerate(zip(thetas, lists, strict=True)):
        one = jax.tree.map(lambda leaf, n=n: leaf[n], found)
        check(theta, outputs, true[n], one, partial(np.testing.assert_allclose, **CLOSE[dtype]))


def check(theta, outputs, y, found, same):
    best, (ranked, scores), mean, (loss, slope), margin, (augmented, there) = found
    parts = all_parts(theta, outputs)
    F = by_list(theta, parts)
    listed, total = listed_of(outputs, F), logsumexp(F)
    (true,) = listed.places(0, y.reshape(1, -1))
    empty = check_k_best(listed, ranked[None], scores[None], CLOSE[str(scores.dtype)]["rtol"])
    assert scores.dtype == floats(theta)[0].dtype
    same(mean.log_partition, total)
    same(loss, np.inf if empty else total - F[true])
    if F[true] == -np.inf:
        return
    np.testing.assert_array_equal(best, ranked[0])
    expected = [np.einsum("n,nij->ij", np.exp(F - total), one) for one in parts]
    for leaf, down, one, own in zip(
        floats(mean.probabilities), floats(slope), expected, parts, strict=True
    ):
        same(leaf, one)
        same(down, one - own[true])
    H = by_list(raised(theta, y), parts)
    same(margin, 0.5 * logsumexp(2 * (H - F[true])))
    chosen = listed.places(0, augmented[there].reshape(there.sum(), -1))
    same(H[chosen], np.sort(H[H > -np.inf])[::-1][:3])


@pytest.mark.parametrize("case", CASES)
def test_samples_are_those_of_the_list(case):
    (recursion, outputs_of), theta, draws = CASES[case], drawn_theta(case, 2), 20_000
    outputs = outputs_of(theta)
    F = by_list(theta, all_parts(theta, outputs))
    sample = partial(recursion.inference(score).sample, jax.tree.map(jnp.asarray, theta))
    found = jax.jit(jax.vmap(sample))(jax.random.split(jax.random.key(0), draws))
    check_samples(listed_of(outputs, F), found[None], freedom=len(F) - 2)


def test_a_loop_whose_draws_would_be_the_same_is_refused():
    def total(rule, theta):
        def step(values, own):
            return jnp.broadcast_to(rule.reduce(values), own.shape) + own, None

        return rule.reduce(jax.lax.scan(step, rule.of(theta[0]), theta[1:])[0])

    recursion = js.Recursion(total, lambda parts: jnp.argmax(parts, axis=1))
    sample = recursion.inference(lambda theta, y: theta[0, 0]).sample
    refused(r"total must loop by rule\.scan", sample, jnp.zeros((T, N)), jax.random.key(0))
