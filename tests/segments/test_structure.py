"""The problem of segments: potentials, losses, levels against enumeration, its optimum, a QP."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.segments import SegmentPotentials, SegmentTheta, segment_inputs, segmenter
from tests.lib.enumeration import row
from tests.lib.refusals import refused
from tests.lib.structures import Every, check_oracles
from tests.segments.oracles.truth import L, S, T, codes, delta, divisions, level, scores

M, PHRASES, D = 2, 3, 2


def problem(loss="hamming", outside=None, **options):
    options = dict(number_of_phrases=PHRASES, start_stop=True) | options
    return segmenter(D, S, L, outside=outside, loss=loss, **options)


def thetas(seed, n, tied=True):
    """Potentials of n sequences of all lengths, half of small integers."""
    random = np.random.default_rng(seed)

    def drawn(*shape):
        whole = (np.arange(n) % 2 == 0).reshape(n, *(1,) * len(shape)) & tied
        values = np.where(whole, random.integers(-2, 3, (n, *shape)),
                          random.normal(size=(n, *shape)))  # fmt: skip
        return values.astype(np.float32)

    return SegmentTheta(
        drawn(T, 3, S), drawn(L, S), drawn(S, S), drawn(S), drawn(S), drawn(T, M, S),
        (np.arange(n) // 2 % (T + 1)).astype(np.int32),
    )  # fmt: skip


def all_scores(theta, outside):
    """[n] of [K] F by loops over the tokens of segments, and not by `segment_potentials`."""
    n = len(theta.length)
    table = np.zeros((n, T, L, S))
    for t in range(T):
        for size in range(1, min(L, T - t) + 1):
            own = table[:, t, size - 1]
            for at in range(t, t + size):
                own += theta.tokens[:, at, 0]
            own += theta.tokens[:, t, 1] + theta.tokens[:, t + size - 1, 2]
            own += theta.lengths[:, size - 1]
            if size <= M:
                own += theta.phrases[:, t, size - 1]
    parts = SegmentPotentials(table, theta.transitions, theta.start, theta.stop)
    return scores(parts, theta.length, outside)


@functools.cache
def drawn(loss, outside, seed, n=900):
    """(thetas, true outputs [n, T], of each F, levels and losses of all outputs)."""
    theta, random = thetas(seed, n), np.random.default_rng([seed, 1])
    values = all_scores(theta, outside)
    true, found = [], []
    for length, F in zip(theta.length.tolist(), values, strict=True):
        at = int(random.integers(len(F)))
        true.append(codes(length, outside)[at])
        found.append((F, *_levels(loss, outside, length, at), np.arange(len(F)) == at))
    return theta, np.array(true), found


@functools.cache
def _levels(loss, outside, length, at):
    every = divisions(length, outside)
    own = [level(loss, every[at], other, outside) for other in every]
    return own, np.array([delta(loss, one, length) for one in own])


@pytest.mark.parametrize(
    ("loss", "outside"), [("normalised_hamming", None), ("zero_one", 1), ("f1", 1)]
)
def test_oracles_are_the_best_of_all_segmentations(loss, outside):
    """Of each level, of margin and slack re-scaling, and without the loss."""
    theta, true, found = drawn(loss, outside, 0, 300)

    def every(i):
        F, _, Delta, same = found[i]
        return Every(codes(int(theta.length[i]), outside), F, Delta, int(same.argmax()))

    check_oracles(problem(loss, outside), theta, true, every, 2e-5)


@pytest.mark.thorough
def test_few_segments_bound_the_others():
    """N = 2 of up to five: the output is the best of those below, the bound above all of them."""
    outside = 1
    theta, true, found = drawn("f1", outside, 4, 600)
    made = problem("f1", outside, most_segments=2)

    def run(theta, y):
        truth, Delta = made.model.score(theta, y), made.oracles.level_losses(y)
        margin = made.oracles.best_by_level(theta, y, Delta - truth, jnp.ones_like(Delta))
        slack = made.oracles.best_by_level(theta, y, Delta * (1 - truth), Delta)
        return margin, slack, truth

    margin, slack, truth = jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(theta, true))
    known = []
    for i, (values, levels, each, same) in enumerate(found):
        few = np.array([one[1] < 2 for one in levels]) & ~same
        if levels[0][0] >= 2 or not few.any():  # example_checks refuses more than N true ones
            continue
        gap = np.where(same, -np.inf, values) - truth[i]
        at = (codes(int(theta.length[i]), outside) == margin.output[i]).all(axis=1)
        assert abs((each + gap)[at][0] - (each + gap)[few].max()) < 2e-5
        assert margin.bound[i] >= (each + gap).max() - 2e-5
        best = (each[~same] * (1 + gap[~same])).max()
        assert slack.bound[i] >= best - 2e-5 or best < 0
        known.append(abs(margin.bound[i] - (each + gap).max()) < 1e-4)
    assert len(known) > 200 and sum(known) > 30


def listed(length=T, outside=None):
    return codes(length, outside)


def training_set(n=9, outside=None, dtype="float32", seed=0):
    """Inputs of lengths 2..T with phrases, and outputs."""
    random = np.random.default_rng(seed)
    length = 2 + np.arange(n) % (T - 1)
    real = np.arange(T) < length[:, None]
    features = (random.normal(size=(n, T, D)) * real[..., None]).astype(dtype)
    phrases = random.integers(0, PHRASES + 1, (n, T, M, 2)).astype(np.int32)
    y = np.array([random.choice(listed(int(m), outside)) for m in length])
    return segment_inputs(features, length, phrases), y


def psi(features, phrases, segments, window):
    """[D'] counted by hand from the definition of F."""
    w = [np.zeros(((2 * window + 1) * D, 3, S)), np.zeros((L, S)), np.zeros((S, S)),
         np.zeros((PHRASES, S)), np.zeros(S), np.zeros(S)]  # fmt: skip
    for begin, size, label in segments:
        for t in range(begin, begin + size):
            near = [features[t + o] if 0 <= t + o < len(features) else np.zeros(D)
                    for o in range(-window, window + 1)]  # fmt: skip
            for part, counts in enumerate((True, t == begin, t == begin + size - 1)):
                w[0][:, part, label] += counts * np.concatenate(near)
        w[1][size - 1, label] += 1
        for q in phrases[begin, size - 1] if size <= M else ():
            if q < PHRASES:
                w[3][q, label] += 1
    labels = [label for *_, label in segments]
    for pair in zip(labels, labels[1:], strict=False):
        w[2][pair] += 1
    w[4][labels[0]] += 1
    w[5][labels[-1]] += 1
    return np.concatenate([one.ravel() for one in w])


def test_inner_products_are_counts_by_hand(x64):
    x, _ = training_set(dtype="float64")
    made, count = problem(window=1, dtype="float64"), 6

    @jax.jit
    def run(x, outputs):
        gram = made.space.plane_gram(x, outputs[0], outputs, outputs[-1])
        return gram, js.joint_feature(made, x, outputs[-1])

    for i in (0, 3, 5, 6):
        length = int(x.length[i])
        places = np.linspace(0, len(listed(length)) - 1, count).astype(int)
        gram, joint = run(row(x, i), listed(length)[places])
        every, parts = divisions(length), (x.features[i][:length], x.phrases[i])
        table = np.array([psi(*parts, every[place], 1) for place in places])
        np.testing.assert_allclose(gram, (table[0] - table) @ (table[0] - table[-1]), atol=1e-9)
        flat = [joint[name].ravel() for name in
                ("tokens", "lengths", "transitions", "phrases", "start", "stop")]  # fmt: skip
        np.testing.assert_allclose(np.concatenate(flat), table[-1], atol=1e-12)


def test_refusals_name_the_example():
    x, y = training_set()
    made = problem(outside=1)
    wrong = y.copy()
    wrong[2, :2] = [1, 2]
    refused(r"outputs\[2, 1\] is 2: .* but none of 1 is open", js.fit, made, x, wrong, C=1.0)
    wrong[2, :2] = [3, 2]
    refused(r"outputs\[2, 1\] is 2: expected a segment of label 1 of at most 1", js.fit, made, x,
            wrong, C=1.0)  # fmt: skip
    x, y = training_set(3, 1)
    y[:, :2] = 1
    refused(r"most_segments is 2, but outputs\[", js.fit, problem("f1", 1, most_segments=2), x, y,
            C=1.0)  # fmt: skip
    other = x._replace(phrases=x.phrases + 1)
    refused(r"phrases\[0, 0, 0, 0\] is \d: expected 0..3, 3 for no phr", js.fit, made, other, y)
    refused("loss", problem, "f2")
    refused("outside", problem, outside=2)
    refused("longest", segmenter, 2, 2, 0)
    refused("phrases must be of the tokens", segment_inputs, x.features, x.length, x.phrases[:, 1:])
    with refused("does not add up over tokens"):
        made = problem("f1")
        made.inference.softmax_margin(row(thetas(0, 4), 1), jnp.asarray(y[0]), 1.0)
