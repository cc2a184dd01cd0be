"""The oracles of the chain structure against enumeration: outputs, losses, levels, ties."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.slack_search import best_of_levels
from tests.chains.enumeration import COSTS, SETTINGS, N, T, enumerated, loss_in_numpy
from tests.chains.structure_cases import quick_jit

SCALES = np.array([0.0, 0.5, 1.0, 2.0])
LONGER = (SETTINGS[0], SETTINGS[4])
EACH = pytest.mark.parametrize("setting", SETTINGS, ids=[s.name for s in SETTINGS])


def of_one(problem, theta, y, scale, offsets, slopes):
    """All that the oracles of a problem say of one example."""
    found = {
        "decode": problem.model.decode(theta),
        "best_wrong": problem.oracles.best_wrong(theta, y),
    }
    if problem.oracles.loss_augmented_decode is not None:
        found["augmented"] = problem.oracles.loss_augmented_decode(theta, y, scale)
    if problem.oracles.best_by_level is not None:
        levels, outputs = best_of_levels(problem, theta, y)
        offsets, slopes = offsets[: len(levels)], slopes[: len(levels)]
        score = jax.vmap(problem.model.score, (None, 0))
        missing = jnp.all(outputs == y[None], axis=-1)
        found |= {
            "level_losses": levels,
            "best_level": problem.oracles.best_by_level(theta, y, offsets, slopes),
            "scores": jnp.where(missing, -jnp.inf, score(theta, outputs)),
            "outputs": outputs,
        }
    outputs = {k: v for k, v in found.items() if k in ("decode", "best_wrong", "augmented")}
    return found | {f"loss of {k}": problem.model.loss(y, v) for k, v in outputs.items()}


@quick_jit
def answers(problem, theta, y, scale, offsets, slopes):
    return jax.vmap(of_one, (None, 0, 0, 0, 0, 0))(problem, theta, y, scale, offsets, slopes)


def arguments(chains, dtype="float64"):
    """theta, y, scale, offsets, slopes of every chain; in quarters, so that ties are exact."""
    random = np.random.default_rng(3)
    most = 2 + int(COSTS.max()) * (T + 3)
    offsets = random.integers(-8, 9, (len(chains.y), most)) / 4
    offsets[random.random(offsets.shape) < 0.1] = -np.inf
    slopes = random.integers(0, 9, (len(chains.y), most)) / 4
    tables = SCALES[np.arange(len(chains.y)) % 4], offsets, slopes
    return chains.cast(dtype), chains.y, *(np.asarray(table, dtype) for table in tables)


def assert_maximal(group, tied, values, found, tolerance):
    """The outputs found attain the maximum of values [n, k], exactly where sums are exact."""
    best, reached = values.max(axis=1), group.at(values, found)
    np.testing.assert_allclose(reached, best, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(reached[tied], best[tied])


BY_COST = ("costs", "weights")


def levels_of(group, loss, delta, levels):
    """[n, k] the level of each output; the unit of costs is 1."""
    if loss in BY_COST:
        return np.where(group.level > 0, 1 + delta.astype(int), 0)
    return np.minimum(group.level, levels - 1)


def check_levels(group, loss, own_level, given, found, tolerance):
    """Scores, outputs and the best of the levels of one group."""
    offsets, slopes = (np.asarray(leaf, float)[group.rows] for leaf in given[3:])
    levels = found["level_losses"].shape[1]
    best = np.full((len(group.rows), levels), -np.inf)
    for level in range(1, levels):
        inside = own_level == level
        of_level = np.where(inside, group.F, -np.inf)
        best[:, level] = of_level.max(axis=1)
        exists = best[:, level] > -np.inf
        output = np.asarray(found["outputs"])[:, level]
        score = group.at(np.where(inside, group.F, -np.inf), output)
        np.testing.assert_allclose(score[exists], best[exists, level], rtol=0, atol=tolerance)
        assert (group.place(output)[~exists] == group.truth[~exists]).all()
        if loss not in ("zero_one", *BY_COST):
            np.testing.assert_array_equal(
                group.place(output)[exists], group.preferred(of_level)[exists]
            )
    assert (group.place(np.asarray(found["outputs"])[:, 0]) == group.truth).all()
    scores = np.asarray(found["scores"])[group.rows]
    np.testing.assert_allclose(scores, best, rtol=0, atol=tolerance)
    with np.errstate(invalid="ignore"):
        values = np.where(best > -np.inf, offsets[:, :levels] + slopes[:, :levels] * best, -np.inf)
    none = np.isneginf(values).all(axis=1)
    place = group.place(found["best_level"])
    assert (place[none] == group.truth[none]).all()
    own = np.take_along_axis(own_level, place[:, None], 1)[:, 0]
    rows = np.arange(len(place))
    assert (own[~none] > 0).all()
    np.testing.assert_allclose(
        (offsets[rows, own] + slopes[rows, own] * group.F[rows, place])[~none],
        values.max(axis=1)[~none],
        rtol=0,
        atol=tolerance,
    )
    np.testing.assert_array_equal(own[~none], values.argmax(axis=1)[~none])


@functools.cache
def found_by(number, dtype, more):
    """(chains, arguments of `answers`, what it says) of a setting, with so much longer padding."""
    with jax.enable_x64(dtype == "float64"):
        chains, problem = SETTINGS[number].chains().padded(more), SETTINGS[number].problem(dtype)
        given = arguments(chains, dtype)
        return chains, given, jax.tree.map(np.asarray, answers(problem, *given))


@EACH
def test_against_enumeration(x64, setting):
    """Two of them with longer padding, one with tables that vary and one without."""
    check(setting, "float64", 3 if setting in LONGER else 0, 1e-9)


def check(setting, dtype, more, tolerance):
    chains, given, found = found_by(SETTINGS.index(setting), dtype, more)
    problem, ties = setting.problem(dtype), 0
    for group in enumerated(chains):
        y_true, end = chains.y[group.rows], group.labels.shape[1]
        delta = loss_in_numpy(setting.loss, y_true[:, :end], group.labels)
        tied = chains.tied[group.rows]
        assert (group.place(found["decode"]) == group.preferred(group.F)).all()
        ties += (np.sum(group.F == group.F.max(axis=1, keepdims=True), axis=1) > 1).sum()
        wrong = np.where(group.level > 0, group.F, -np.inf)
        some = ~np.isneginf(wrong).all(axis=1)
        place = group.place(found["best_wrong"])
        assert (place[~some] == group.truth[~some]).all()
        wrong[~some, group.truth[~some]] = 0
        assert_maximal(group, tied, wrong, found["best_wrong"], tolerance)
        for name in ("decode", "best_wrong", "augmented"):
            if name in found:
                loss = np.asarray(found[f"loss of {name}"])[group.rows]
                assert loss.dtype == dtype
                np.testing.assert_allclose(loss, group.at(delta, found[name]), rtol=1e-6)
        if problem.oracles.loss_augmented_decode is not None:
            scale = np.asarray(given[2], float)[group.rows, None]
            exact = tied & (setting.loss != "normalised_hamming")
            assert_maximal(group, exact, group.F + scale * delta, found["augmented"], tolerance)
        if problem.oracles.best_by_level is not None:
            losses = np.asarray(found["level_losses"])[group.rows]
            own = levels_of(group, setting.loss, delta, losses.shape[1])
            check_levels(group, setting.loss, own, given, found, tolerance)
            assert losses.dtype == dtype
            wanted = np.take_along_axis(losses, own, axis=1)
            np.testing.assert_allclose(wanted, delta, rtol=1e-6)
    assert ties > N / 8


def test_float32():
    check(SETTINGS[4], "float32", 0, 1e-5)
