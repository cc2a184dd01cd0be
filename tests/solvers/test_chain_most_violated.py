"""The most violated label sequence of every formulation and loss, against enumeration."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from jaxstruct.chains.losses import label_weights
from jaxstruct.chains.structure import chain
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty
from jaxstruct.solvers.objective.most_violated import most_violated, oracle_for
from tests.chains.enumeration import SETTINGS, N, enumerated, loss_in_numpy
from tests.chains.structure_cases import quick_jit
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.test_oracle import required

EACH = pytest.mark.parametrize(
    "setting", thorough_after(2, SETTINGS), ids=[s.name for s in SETTINGS]
)
WITHOUT_LOSS = ("svm0", "svm1", "svm2")
ADDITIVE = [SETTINGS[0], SETTINGS[1], SETTINGS[3], SETTINGS[5]]


@functools.partial(quick_jit, static_argnums=1)
def called(problem, oracle, terms, theta, y):
    call = functools.partial(most_violated, problem, oracle, terms)
    return jax.vmap(call)(theta, y)


def answers(problem, oracle, formulation, chains, dtype="float64"):
    terms = penalty(FORMULATIONS[formulation], 1.0, np.ones(1), 1, dtype)
    found = called(problem, oracle, terms, chains.cast(dtype), chains.y)
    assert found.value.dtype == found.bound.dtype == found.loss.dtype == dtype
    return jax.tree.map(np.asarray, found)


def groups(setting, formulation, costs=None):
    """Of each length: (group, Delta [n, k], H [n, k], -inf where forbidden)."""
    chains = setting.chains()
    for group in enumerated(chains):
        y_true = chains.y[group.rows, : group.labels.shape[1]]
        if costs is None:
            delta = loss_in_numpy(setting.loss, y_true, group.labels)
        else:
            delta = costs[y_true[:, None], group.labels].sum(axis=2)
        margins = group.F[np.arange(len(group.rows)), group.truth][:, None] - group.F
        with np.errstate(invalid="ignore"):
            H = required(formulation, delta, margins)
        yield group, delta, np.where(group.F > -np.inf, H, -np.inf)


def check_exact(setting, oracle, formulation, found, tolerance=1e-9):
    """The output attains max H over y != y_i (or over all, y_i with H = 0, if augmented)."""
    for group, delta, H in groups(setting, formulation):
        truth = 0.0 if oracle == "loss_augmented_decode" else -np.inf
        H = np.where(group.level > 0, H, truth)
        value, reached = found.value[group.rows], group.at(H, found.output)
        np.testing.assert_allclose(value, H.max(axis=1), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(reached, H.max(axis=1), rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(found.bound[group.rows], value)
        np.testing.assert_allclose(found.loss[group.rows], group.at(delta, found.output), rtol=1e-6)


@EACH
def test_every_formulation(x64, setting):
    problem, oracles = setting.problem(), set()
    for formulation, numbers in FORMULATIONS.items():
        oracle = oracle_for(problem, numbers)
        oracles.add(oracle)
        check_exact(
            setting, oracle, formulation, answers(problem, oracle, formulation, setting.chains())
        )
    assert ("loss_augmented_decode" in oracles) == (setting in ADDITIVE)
    assert "best_by_level" in oracles


def bracketed(found, group, H):
    """[n] (max H, the bound less it, whether the value is exact): value <= max H <= bound."""
    truth, value, bound = H.max(axis=1), found.value[group.rows], found.bound[group.rows]
    some = truth > -np.inf
    assert (value <= truth + 1e-9).all() and (np.isneginf(value) == ~some).all()
    assert (truth[some] <= bound[some] + 1e-9).all()
    np.testing.assert_allclose(group.at(H, found.output)[some], value[some], rtol=0, atol=1e-9)
    return truth, np.where(some, bound - np.where(some, truth, 0), 0), value >= truth - 1e-9


def searching(problem):
    """Without loss levels, so that slack re-scaling is searched for."""
    return problem._replace(oracles=problem.oracles._replace(level_losses=None, best_by_level=None))


@pytest.mark.parametrize("setting", ADDITIVE, ids=[s.name for s in ADDITIVE])
def test_search_brackets_the_truth(x64, setting):
    """value <= max H <= bound, for both slack re-scalings; most are exact."""
    problem = searching(setting.problem())
    for formulation in ("svm1_slack", "svm2_slack"):
        assert oracle_for(problem, FORMULATIONS[formulation]) == "searched"
        found, exact, tight = answers(problem, "searched", formulation, setting.chains()), 0, 0
        for group, delta, H in groups(setting, formulation):
            H[np.arange(len(H)), group.truth] = 0.0
            loss = group.at(delta, found.output)
            np.testing.assert_allclose(found.loss[group.rows], loss, rtol=1e-9)
            _, above, right = bracketed(found, group, H)
            exact, tight = exact + right.sum(), tight + (above <= 1e-9).sum()
        assert exact >= 0.95 * N and tight >= 0.5 * N


REALS = {
    "weights": label_weights(np.array([1.0, 2.718281, 6.1234])),
    "costs": np.random.default_rng(5).uniform(0.2, 3, (3, 3)) * (1 - np.eye(3)),
    "some of no cost": np.array([[0, 0.31, 0], [1.7, 0, 1.1], [0, 0.83, 0]]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("costs", REALS.values(), ids=REALS)
def test_levels_of_any_costs_bracket_the_truth(x64, costs):
    """value <= max H <= bound where costs are no multiples of a unit; most are exact."""
    setting = SETTINGS[3]
    chains = setting.chains().padded(2)
    problem = chain(1, 3, loss=costs, dtype="float64", constraints=chains.constraints)
    for formulation in ("svm1_slack", "svm2_slack"):
        assert oracle_for(problem, FORMULATIONS[formulation]) == "best_by_level"
        found = answers(problem, "best_by_level", formulation, chains)
        excess, exact = [], 0
        for group, _, H in groups(setting, formulation, costs):
            wrong = np.where(group.level > 0, H, -np.inf)
            truth, above, right = bracketed(found, group, wrong)
            exact += right.sum()
            excess += list(above[truth > 0] / truth[truth > 0])
        assert exact >= 0.95 * N and np.mean(excess) < 1e-2 and np.median(excess) < 1e-9


def test_the_shortest_way_is_chosen():
    """By what the structure offers; no decode and no search serves svm2_margin, sqrt(Delta) - m."""
    S, costs = 3, 1.5 * (1 - np.eye(3))

    def chosen(problem, name):
        return oracle_for(problem, FORMULATIONS[name])

    for name in FORMULATIONS:
        assert chosen(multiclass(2, 3), name) == "contenders"
        additive = dict.fromkeys(WITHOUT_LOSS, "best_wrong")
        additive["svm1_margin"] = "loss_augmented_decode"
        assert chosen(chain(2, S), name) == additive.get(name, "best_by_level")
        assert chosen(chain(2, S, loss=costs), name) == additive.get(name, "best_by_level")
        searched = searching(chain(2, S))
        if name == "svm2_margin":
            refused("svm2_margin needs the loss levels", chosen, searched, name)
            continue
        assert chosen(searched, name) == additive.get(name, "searched")
        zero_one = chain(2, S, loss="zero_one")
        assert chosen(zero_one, name) == ("best_wrong" if name in WITHOUT_LOSS else "best_by_level")
