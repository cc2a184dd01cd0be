"""The slack search against enumeration of random points (Delta, f)."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.contract import Contenders, Oracles
from jaxstruct.core.slack_search import (
    SlackSearch,
    best_of_levels,
    slack_search,
    tangent,
    with_listed,
)
from tests.lib.refusals import refused

POWERS = (1.0, 0.5)


def oracle(points):
    """The lambda oracle of points [M, 2] = (Delta, f); y is the index, twice, as a pytree."""

    def augmented(slope):
        index = jnp.argmax(points[:, 1] + slope * points[:, 0]).astype(jnp.int32)
        return {"index": index, "pair": (index, -index)}, points[index, 1], points[index, 0]

    return augmented


@jax.jit
def searched(points, delta_max, power, steps) -> SlackSearch:
    """Many sets of points [N, M, 2] at once."""

    def one(points, delta_max):
        return slack_search(oracle(points), delta_max, power, steps)

    return jax.vmap(one)(points, delta_max)


def values(points, power):
    loss, advantage = points[..., 0], points[..., 1]
    return np.where(loss > 0, loss**power * (1 + advantage), 0)


def is_extreme(points, index):
    """Whether a point is a strict vertex of the upper hull: no weights of the others reach it.

    In the plane it suffices to look at segments between a point to the left and one to the right.
    """
    loss, advantage = points[index]
    left, right = (points[side] for side in (points[:, 0] < loss, points[:, 0] > loss))
    if points[points[:, 0] == loss, 1].max() > advantage:
        return False
    if not len(left) or not len(right):
        # An end of the hull; of the left end only lambda >= 0 matters.
        return bool(len(left)) or advantage > points[:, 1].max() - 1e-12
    share = (loss - left[:, None, 0]) / (right[None, :, 0] - left[:, None, 0])
    chord = left[:, None, 1] + share * (right[None, :, 1] - left[:, None, 1])
    level = points[points[:, 0] > loss, 1].max()  # lambda >= 0: also above what lies right of it
    return bool(chord.max() < advantage - 1e-12 and level < advantage - 1e-12)


def clouds(random, count, points):
    loss = random.random((count, points))
    spread, drift = random.choice([0.1, 1, 3], (2, count, 1))
    advantage = spread * random.normal(size=(count, points)) - drift * loss
    return np.stack([loss, advantage], -1), np.ones(count)


def levels(random, count, points):
    """Integer losses, several outputs a level, most of them better the smaller the loss is."""
    loss = random.integers(1, 7, (count, points)).astype(float)
    advantage = random.normal(size=(count, points)) - random.choice([0, 0.3, 1], (count, 1)) * loss
    return np.stack([loss, advantage], -1), np.full(count, 6.0)


def ties(random, count, points):
    """Integers and halves: collinear points, equal points, equal values."""
    loss = random.integers(1, 5, (count, points)).astype(float)
    advantage = random.integers(-4, 2, (count, points)) / 2
    return np.stack([loss, advantage], -1), np.full(count, 4.0)


def concave(random, count, points):
    """One output a level and a concave frontier, as additive scores without transitions give."""
    drops = np.sort(random.exponential(size=(count, points)) - 0.3, axis=1)
    loss = np.broadcast_to(np.arange(1.0, points + 1), (count, points))
    scale = random.choice([0.03, 0.3, 1], (count, 1))
    return np.stack([loss, -scale * drops.cumsum(1)], -1), np.full(count, float(points))


MAKERS = (clouds, levels, ties, concave)


def with_true_output(points):
    return np.concatenate([np.zeros((len(points), 1, 2)), points], axis=1)


def test_of_equal_values_the_one_found_first_is_kept():
    """1 (1 + 1) = 2 (1 + 0): lambda = 0 finds the second point, lambda = 1 the first."""
    found = slack_search(oracle(jnp.asarray([[2.0, 0.0], [1.0, 1.0]])), 2.0)
    assert (found.y["index"], found.value) == (1, 2) and found.calls > 1


@pytest.mark.parametrize("with_true", [True, False])
@pytest.mark.parametrize("make", MAKERS)
def test_value_and_bound_enclose_the_maximum(x64, make, with_true) -> None:
    points, delta_max = make(np.random.default_rng(0), 1500, 11 + (not with_true))
    points = with_true_output(points) if with_true else points
    for power in POWERS:
        truth = values(points, power)
        for steps in (1, 3, 24):
            found = searched(points, delta_max, power, steps)
            assert np.all(found.value <= truth.max(1) + 1e-12)
            assert np.all(found.bound >= truth.max(1) - 1e-12)
            assert np.all(found.bound >= np.maximum(found.value, 0))
            assert np.all((found.calls >= 1) & (found.calls <= steps))
            row = np.arange(len(points))
            index = np.asarray(found.y["index"])
            np.testing.assert_array_equal(found.y["pair"][1], -index)
            np.testing.assert_array_equal(found.loss, points[row, index, 0])
            np.testing.assert_array_equal(found.advantage, points[row, index, 1])
            np.testing.assert_allclose(found.value, truth[row, index], atol=1e-14)


@pytest.mark.parametrize("make", MAKERS)
def test_exact_where_the_best_output_is_an_extreme_point(x64, make) -> None:
    points, delta_max = make(np.random.default_rng(1), 1500, 11)
    points = with_true_output(points)
    for power in POWERS:
        truth = values(points, power)
        best = zip(points, truth.argmax(1), strict=True)
        extreme = np.array([is_extreme(*case) for case in best])
        assert 200 < extreme.sum()
        found = searched(points, delta_max, power, 40)
        ended = np.asarray(found.calls < 40)
        assert ended.mean() > 0.5
        exact = np.abs(np.asarray(found.value) - truth.max(1)) < 1e-12
        assert np.all(exact[extreme & ended])
    if make is clouds:
        assert not np.all(exact)  # the others are out of reach of every lambda: the bound says so


def test_concave_levels_are_found_with_few_calls(x64) -> None:
    points, delta_max = concave(np.random.default_rng(2), 3000, 30)
    points = with_true_output(points)
    for power in POWERS:
        truth = values(points, power).max(1)
        found = searched(points, delta_max, power, 16)
        np.testing.assert_allclose(found.value, truth, atol=1e-12)
        assert np.all(np.asarray(found.bound) >= truth - 1e-9)
        assert np.mean(np.asarray(found.bound) < truth + 1e-9) > 0.1
        assert np.mean(found.calls) < 12


def test_more_steps_never_loosen(x64) -> None:
    points, delta_max = clouds(np.random.default_rng(3), 1500, 11)
    points = with_true_output(points)
    for power in POWERS:
        truth = values(points, power).max(1)
        runs = [searched(points, delta_max, power, steps) for steps in range(1, 9)]
        for fewer, more in zip(runs, runs[1:], strict=False):
            assert np.all(more.value >= fewer.value)
            assert np.all(np.asarray(more.bound) <= np.asarray(fewer.bound) * (1 + 1e-12) + 1e-12)
        gaps = [np.mean(run.bound - np.maximum(truth, 0)) for run in (runs[0], runs[-1])]
        assert gaps[1] < gaps[0] / 3


@partial(jax.jit, static_argnums=3)
def listed(points, delta_max, power, k) -> SlackSearch:
    """Searches of many sets of points, each with k at most of those above its tangent."""

    def one(points, delta_max):
        found = slack_search(oracle(points), delta_max, power, 3)
        slope, height = tangent(found, power)
        heights = points[:, 1] + slope * points[:, 0]
        order = jnp.argsort(-heights)[:k].astype(jnp.int32)
        y = {"index": order, "pair": (order, -order)}
        return with_listed(found, y, *points[order].T, heights[order] > height, power)

    return jax.vmap(one)(points, delta_max)


@pytest.mark.parametrize("make", MAKERS)
def test_a_list_of_what_is_above_the_tangent_closes_the_search(x64, make) -> None:
    """The maximum lies between value and bound whatever k is, and is found where all are listed."""
    points, delta_max = make(np.random.default_rng(7), 1500, 11)
    points = with_true_output(points)
    row = np.arange(len(points))
    for power in POWERS:
        truth, closed = values(points, power).max(1), []
        before = searched(points, delta_max, power, 3)
        for k in (1, 3, 12):
            found = listed(points, delta_max, power, k)
            index = np.asarray(found.y["index"])
            np.testing.assert_allclose(found.value, values(points, power)[row, index], atol=1e-14)
            np.testing.assert_array_equal(found.loss, points[row, index, 0])
            assert np.all((before.value <= found.value) & (found.bound <= before.bound))
            assert np.all(found.value <= truth + 1e-12) and np.all(found.bound >= truth - 1e-12)
            closed.append(np.mean(found.bound <= np.maximum(found.value, 0) + 1e-9))
        assert closed[0] <= closed[1] <= closed[2] == 1 and closed[0] < 1


def test_bound_where_the_best_output_is_below_the_hull(x64) -> None:
    # The chord from (0, 0) to (2, -1) passes above (1, -0.6): no lambda returns the best output.
    points = jnp.asarray([[0, 0], [1, -0.6], [2, -1]], jnp.float64)
    found = slack_search(oracle(points), 2.0)
    assert float(found.value) == 0 and int(found.calls) <= 4
    np.testing.assert_allclose(found.bound, 0.5)  # 1 (1 - 0.5) on the chord; the truth is 0.4


@pytest.mark.parametrize("power", POWERS)
def test_equal_scores_give_the_largest_loss(power) -> None:
    points = np.asarray([[[0, 0], [1, 0], [2, 0], [3, 0]]], np.float32)  # w = 0
    found = searched(points, np.full(1, 3, np.float32), power, 16)
    assert int(found.y["index"][0]) == 3 and int(found.calls[0]) == 2
    np.testing.assert_allclose([found.value[0], found.bound[0]], 3**power, rtol=1e-6)


def test_nothing_to_gain() -> None:
    only_true = [[0, 0]] * 3
    satisfied = [[0, 0], [1, -1.5], [2, -2.5]]
    only_wrong = [[1, -1.5], [2, -2.5], [2, -3]]
    impossible = [[1, -np.inf]] * 3
    points = jnp.asarray([only_true, satisfied, only_wrong, impossible], jnp.float32)
    found = searched(points, jnp.asarray([0, 2, 2, 1.0]), 1.0, 10)
    np.testing.assert_array_equal(found.value, [0, 0, -0.5, -np.inf])
    # Under the chord from (0, 0) to (2, -2.5) the value D (1 - 1.25 D) is largest at D = 0.4.
    np.testing.assert_allclose(found.bound, [0, 0.2, 0, 0], rtol=1e-6)


def test_steps_must_be_positive() -> None:
    refused("steps: got 0", lambda: slack_search(oracle(jnp.zeros((1, 2))), 1.0, steps=0))


def test_a_level_without_an_output_has_the_true_one() -> None:
    found = Contenders(jnp.array([1.0, 2.0]), jnp.array([0.5, -jnp.inf]), trace=None)
    oracles = Oracles(lambda theta, y: found, lambda trace, level: level + 7)
    losses, outputs = best_of_levels(SimpleNamespace(oracles=oracles), None, jnp.int32(3))
    assert losses.tolist() == [1, 2] and outputs.tolist() == [7, 3]
