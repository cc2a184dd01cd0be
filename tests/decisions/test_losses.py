"""SPO+, perturbed losses and layers of decision sets: values by listing, slopes by differences."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from scipy.stats import norm

import jaxstruct as js
from tests.decisions.cases import cases, instance_of
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
SIGNS = {"minimise": -1, "maximise": 1}


def one_of(name, sense, i=2):
    decisions, instances, listed = cases(sense)[name]
    return decisions, instance_of(instances, i), listed[i]


def slope_by_differences(value, at, step=1e-6):
    moves = step * np.eye(len(at))
    return np.array([(value(at + move) - value(at - move)) / (2 * step) for move in moves])


@pytest.mark.parametrize(("name", "sense"), [("open", "minimise"), ("bounded", "maximise")])
def test_spo_plus_is_its_formula(name, sense):
    decisions, instance, listed = one_of(name, sense)
    random, s = np.random.default_rng(0), SIGNS[sense]
    costs, predicted = random.normal(size=(2, decisions.size.value))
    true = listed[np.argmax(s * listed @ costs)]
    spoilt = s * (2 * predicted - costs)
    spo_plus = partial(js.decisions.spo_plus, decisions)

    @jax.jit
    def said(c):
        known = spo_plus(c, costs, instance, y=true)
        return *jax.value_and_grad(spo_plus)(c, costs, instance), known

    value, slope, known = said(predicted)
    assert value == pytest.approx((listed @ spoilt).max() - true @ spoilt, abs=1e-9)
    own = listed[np.argmax(s * listed @ predicted)]
    assert value >= s * costs @ (true - own) - 1e-9
    assert said(costs)[0] == pytest.approx(0.0, abs=1e-9)
    assert known == pytest.approx(float(value), abs=1e-9)
    by_differences = slope_by_differences(lambda c: float(said(c)[0]), predicted)
    np.testing.assert_allclose(slope, by_differences, atol=1e-6)


@pytest.mark.parametrize("sense", SIGNS)
def test_the_slack_of_the_problem_is_spo_plus(sense):
    decisions, instance, listed = one_of("paths", sense, 0)
    random, s = np.random.default_rng(0), SIGNS[sense]
    costs, predicted = random.normal(size=(2, decisions.size.value))
    problem = js.decisions.problem(decisions, 3, dtype="float64")
    true = js.Truth(listed[np.argmax(s * listed @ costs)].astype(np.int32), costs)

    @jax.jit
    def both(predicted):
        theta = js.decisions.DecisionTheta(predicted, instance)
        loss = js.decisions.spo_plus(decisions, predicted, costs, instance)
        return js.losses.structured_hinge(problem, theta, true), loss

    slack, loss = both(predicted)
    assert slack == pytest.approx(float(loss), rel=1e-12)


NOISES = ("gaussian", "multiplicative")


def two_best(noise, sense):
    """One of two: (the set, c^, P of the first), in closed form."""
    decisions, s, scale = js.decisions.top_k(2, 1, sense=sense), SIGNS[sense], 0.7
    predicted = np.array([0.8, 1.1])
    if noise == "gaussian":
        ahead = s * (predicted[0] - predicted[1]) / (scale * np.sqrt(2))
    else:  # of two lognormal numbers
        ahead = s * (np.log(predicted[0]) - np.log(predicted[1])) / (scale * np.sqrt(2))
    return decisions, predicted, norm.cdf(ahead), scale


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sense", SIGNS)
def test_perturbed_decisions_in_closed_form(noise, sense):
    decisions, predicted, first, scale = two_best(noise, sense)
    options = {"samples": 200_000, "scale": scale, "noise": noise}
    layer = partial(js.decisions.perturbed_argmax, decisions, key=jax.random.key(0), **options)
    made, jacobian = jax.jit(lambda c: (layer(c), jax.jacrev(layer)(c)))(predicted)
    np.testing.assert_allclose(made, [first, 1 - first], atol=0.005)
    density = norm.pdf(norm.ppf(first)) / (scale * np.sqrt(2)) * SIGNS[sense]
    by = np.ones(2) if noise == "gaussian" else predicted
    wanted = density * np.array([[1, -1], [-1, 1]]) / by[None]
    np.testing.assert_allclose(jacobian, wanted, atol=0.02)


@pytest.mark.parametrize(
    ("noise", "name", "sense"),
    [(NOISES[0], "grid", "minimise"), (NOISES[1], "bounded", "maximise"),
     (NOISES[1], "matchings", "minimise")],
)  # fmt: skip
def test_fenchel_young_is_the_mean_of_its_draws(noise, name, sense):
    """For one key value and slope are of one convex function; its slope is that of differences."""
    decisions, instance, listed = one_of(name, sense)
    random, s = np.random.default_rng(1), SIGNS[sense]
    predicted, y = random.normal(size=decisions.size.value), listed[1]
    key, M, scale = jax.random.key(3), 5, 0.5
    options = {"samples": M, "scale": scale, "noise": noise}
    given = y, key, instance
    loss = partial(js.decisions.fenchel_young, decisions, **options)

    @jax.jit
    def said(c):
        noise = jax.random.normal(key, (M, decisions.size.value), float)
        return *jax.value_and_grad(loss)(c, *given), noise

    value, slope, Z = map(np.asarray, said(predicted))
    theta = s * predicted
    moved = theta[None] + scale * Z
    if noise == "multiplicative":
        moved = theta[None] * np.exp(scale * Z - scale**2 / 2)
    wanted = (moved @ listed.T).max(axis=1).mean() - theta @ y
    assert value == pytest.approx(wanted, abs=1e-9)
    by_differences = slope_by_differences(lambda c: float(said(c)[0]), predicted)
    np.testing.assert_allclose(slope, by_differences, atol=1e-6)


def test_fenchel_young_is_least_where_decisions_are_made_so_often():
    """Its expected slope is the mean decision less y: 0 where y is the mean."""
    decisions, predicted, first, scale = two_best("gaussian", "minimise")
    y, key = np.array([first, 1 - first]), jax.random.key(0)
    loss = partial(js.decisions.fenchel_young, decisions, samples=200_000, scale=scale)
    slope = jax.jit(jax.grad(loss))(predicted, y, key)
    np.testing.assert_allclose(slope, 0, atol=0.005)


@pytest.mark.parametrize(("name", "sense"), [*zip(["grid", "knapsack"], SIGNS, strict=True)])
def test_blackbox_interpolates(name, sense):
    """The formula of the paper, for costs that are minimised."""
    decisions, instance, listed = one_of(name, sense)
    random, s, step = np.random.default_rng(2), SIGNS[sense], 3.0
    predicted, g = random.normal(size=(2, decisions.size.value))

    def cheapest(costs):
        return listed[np.argmin(listed @ costs)]

    def along(c):
        made = js.decisions.blackbox(decisions, c, instance, step=step)
        return made @ g, made

    slope, y = jax.jit(jax.grad(along, has_aux=True))(predicted)
    costs = -s * predicted
    assert np.array_equal(y, cheapest(costs))
    of_costs = -(cheapest(costs) - cheapest(costs + step * g)) / step
    np.testing.assert_allclose(slope, -s * of_costs, atol=1e-12)
    assert np.abs(of_costs).sum() > 0


LAYERS = {
    "perturbed": lambda d, c, key, x: js.decisions.perturbed_argmax(d, c, key, x),
    "blackbox": lambda d, c, key, x: js.decisions.blackbox(d, c, x),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_a_batch_under_jit_and_in_float32(layer):
    decisions, instances, _ = cases("minimise")["paths"]
    predicted = np.random.default_rng(0).uniform(size=(6, decisions.size.value)).astype("float32")
    keys = jax.random.split(jax.random.key(0), 6)
    one = partial(LAYERS[layer], decisions)

    def spread(c):
        many = jax.vmap(one)(c, keys, instances)
        return many.var(), many

    slope, many = jax.jit(jax.grad(spread, has_aux=True))(predicted)
    assert many.dtype == np.float32
    for i in range(6):
        own = jax.jit(one)(predicted[i], keys[i], instance_of(instances, i))
        np.testing.assert_allclose(many[i], own, atol=1e-6)
    assert np.isfinite(slope).all() and slope.dtype == np.float32


def test_regret_is_normalised():
    for sense, s in SIGNS.items():
        decisions = js.decisions.top_k(3, 1, sense=sense)
        costs, predicted = np.array([[1.0, 2, 4], [3, 1, 5]]), np.array([[1.0, 1, 0], [0, 1, 2]])
        made = [costs[0, 2 if s < 0 else 0], costs[1, 0 if s < 0 else 2]]
        best = costs.min(axis=1) if s < 0 else costs.max(axis=1)
        wanted = np.abs(made - best).sum() / best.sum()
        assert js.decisions.regret(decisions, predicted, costs) == pytest.approx(wanted)
        assert js.decisions.regret(decisions, costs, costs) == 0
    nothing = np.zeros((1, 3))
    assert js.decisions.regret(decisions, nothing, nothing) == 0
    assert js.decisions.regret(decisions, [[1.0, 0, 0]], [[-1.0, 0, 0]]) == np.inf


def test_what_does_not_fit_is_refused():
    grid, c, key = js.decisions.grid_paths(2, 2), np.ones(4), jax.random.key(0)
    refused("predicted must be", js.decisions.spo_plus, grid, np.ones((2, 4)), c)
    refused("costs must be", js.decisions.spo_plus, grid, c, np.ones(3))
    refused("noise is 'gumbel'", js.decisions.perturbed_argmax, grid, c, key, noise="gumbel")
    refused("samples must be", js.decisions.fenchel_young, grid, c, c, key, samples=0)
    refused("scale must be", js.decisions.fenchel_young, grid, c, c, key, scale=0)
    refused("step must be", js.decisions.blackbox, grid, c, step=-1)
    refused("must be a Decisions", js.decisions.blackbox, None, c)
