"""All oracle kinds find the same H: label sequences, which have every hook, by enumeration."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.potentials import PADDING
from jaxstruct.chains.structure import Constraints, chain
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty
from jaxstruct.solvers.objective.most_violated import most_violated, oracle_for
from tests.chains.oracles.truth import all_labelings
from tests.lib.refusals import refused

T, S, CASES = 3, 3, 240
EXACT = ("best_wrong", "loss_augmented_decode", "best_by_level")
WITHOUT_LOSS = ("svm0", "svm1", "svm2")
SLACK = ("svm1_slack", "svm2_slack")
NO_TURNING_BACK = Constraints(
    np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], bool), np.array([0, 0, 1], bool), np.zeros(S, bool)
)
SERVES = {
    "best_wrong": WITHOUT_LOSS,
    "loss_augmented_decode": ("svm1_margin",),
    "best_by_level": tuple(FORMULATIONS),
    "searched": SLACK,
}


def permitted(labels):
    """[M] whether NO_TURNING_BACK allows a sequence."""
    pairs = NO_TURNING_BACK.transitions[labels[:, :-1], labels[:, 1:]] & (labels[:, 1:] >= 0)
    return ~(pairs.any(axis=1) | ((labels[:, 0] >= 0) & NO_TURNING_BACK.start[labels[:, 0]]))


class Cases:
    """Random potentials and true outputs of every length, and H of all other outputs by hand."""

    def __init__(self, constrained, ties=True, dtype="float64"):
        random = np.random.default_rng(7)

        def drawn(*shape):
            return random.integers(-2, 3, shape) if ties else random.normal(size=shape)

        length = np.arange(CASES) % (T + 1)
        emissions = drawn(CASES, T, S) * (np.arange(T) < length[:, None])[..., None]
        tables = (emissions, drawn(CASES, S, S), drawn(CASES, S), drawn(CASES, S))
        tables = [jnp.asarray(table, dtype) for table in tables]
        self.theta = ChainTheta(*tables, None, jnp.asarray(length, jnp.int32))
        self.every = {n: all_labelings(S, n, T) for n in range(T + 1)}
        if constrained:
            self.every = {n: rows[permitted(rows)] for n, rows in self.every.items()}
        self.length = length
        self.truth = np.array([random.integers(len(self.every[n])) for n in length])
        self.y = np.stack([self.every[n][i] for n, i in zip(length, self.truth, strict=True)])
        self.scores = [self._scores(i) for i in range(CASES)]

    def _scores(self, i):
        """F of every output of one example."""
        e, t, start, stop = (np.asarray(table[i], float) for table in self.theta[:4])
        n, rows = self.length[i], self.every[self.length[i]]
        total = np.zeros(len(rows))
        for p in range(n):
            total += e[p, rows[:, p]]
            total += t[rows[:, p], rows[:, p + 1]] if p + 1 < n else 0.0
        return total + (start[rows[:, 0]] + stop[rows[:, n - 1]] if n else 0.0)

    def required(self, i, formulation):
        """H of every output of one example, -inf at the true one."""
        rows, f, form = self.every[self.length[i]], self.scores[i], FORMULATIONS[formulation]
        delta = (rows != self.y[i]).sum(axis=1).astype(float)
        f = f - f[self.truth[i]]
        H = delta**form.bound_power + delta**form.scale_power * f
        H[self.truth[i]] = -np.inf
        return H

    def index_of(self, i, output):
        return int(np.flatnonzero((self.every[self.length[i]] == output).all(axis=1))[0])


def problem_of(constrained, dtype="float64"):
    constraints = NO_TURNING_BACK if constrained else None
    return chain(2, S, start_stop=True, loss="hamming", constraints=constraints, dtype=dtype)


def found_by(kind, problem, cases, dtype="float64"):
    """formulation -> Found of all cases, in numpy; one program for all formulations."""

    def batched(terms, theta, y):
        return jax.vmap(lambda *example: most_violated(problem, kind, terms, *example))(theta, y)

    run, y = jax.jit(batched), jnp.asarray(cases.y)
    for name in SERVES[kind]:
        terms = penalty(FORMULATIONS[name], 1.0, np.ones(1), 1, dtype)
        yield name, jax.tree.map(np.asarray, run(terms, cases.theta, y))


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("kind", EXACT)
def test_the_exact_kinds_find_the_maximum(x64, kind, constrained):
    """Integer potentials, so that H is exact and many outputs tie; lengths 0 to T."""
    cases, problem = Cases(constrained), problem_of(constrained)
    for name, found in found_by(kind, problem, cases):
        for i in range(CASES):
            H = cases.required(i, name)
            best, at = H.max(), cases.index_of(i, found.output[i])
            if kind == "loss_augmented_decode":  # y_i itself where nothing is violated
                best, H[cases.truth[i]] = max(best, 0.0), 0.0
            assert found.value[i] == pytest.approx(best, abs=1e-12), (name, i)
            assert found.bound[i] == found.value[i]
            if np.isfinite(best):
                assert H[at] == pytest.approx(best, abs=1e-12)
                assert found.loss[i] == (found.output[i] != cases.y[i]).sum()
        assert (found.output[cases.length == 0] == PADDING).all()
        if kind != "loss_augmented_decode":
            assert (np.isneginf(found.value) == (found.loss == 0)).all()


@pytest.mark.parametrize("constrained", [False, True])
def test_the_search_brackets_the_maximum(x64, constrained):
    """value <= max H <= bound, and value is H of the output; mostly they meet."""
    cases, problem, met = Cases(constrained, ties=False), problem_of(constrained), []
    for name, found in found_by("searched", problem, cases):
        for i in range(CASES):
            H = cases.required(i, name)
            H[cases.truth[i]] = 0.0
            at = cases.index_of(i, found.output[i])
            assert H[at] == pytest.approx(found.value[i], abs=1e-12)
            assert found.value[i] - 1e-12 <= H.max() <= found.bound[i] + 1e-12, (name, i)
            assert found.loss[i] == (found.output[i] != cases.y[i]).sum()
            met.append(found.value[i] >= H.max() - 1e-12 or H.max() == 0.0)
    assert 0.9 < np.mean(met)


@pytest.mark.thorough
def test_float32_agrees_with_float64():
    """Integer potentials are exact in both; the root of a loss is not."""
    cases, problem = Cases(False, dtype="float32"), problem_of(False, "float32")
    for kind in ("best_by_level", "loss_augmented_decode"):
        for name, found in found_by(kind, problem, cases, "float32"):
            assert found.value.dtype == found.loss.dtype == np.float32
            best = np.array([cases.required(i, name).max() for i in range(CASES)])
            best = np.maximum(best, 0) if kind == "loss_augmented_decode" else best
            np.testing.assert_allclose(found.value, best, rtol=0, atol=2e-6)


def test_the_shortest_way_is_chosen():
    """By what the structure offers, formulation by formulation."""
    costs = 1.5 * (1 - np.eye(S))

    def chosen(problem, name):
        return oracle_for(problem, FORMULATIONS[name])

    for name in FORMULATIONS:
        assert chosen(multiclass(2, 3), name) == "contenders"
        additive = dict.fromkeys(WITHOUT_LOSS, "best_wrong")
        additive["svm1_margin"] = "loss_augmented_decode"
        assert chosen(chain(2, S), name) == additive.get(name, "best_by_level")
        assert chosen(chain(2, S, loss=costs), name) == additive.get(name, "best_by_level")
        searching = chain(2, S, slack_search=True)
        if name == "svm2_margin":
            refused("svm2_margin needs the loss levels", chosen, searching, name)
            continue
        assert chosen(searching, name) == additive.get(name, "searched")
        zero_one = chain(2, S, loss="zero_one")
        assert chosen(zero_one, name) == ("best_wrong" if name in WITHOUT_LOSS else "best_by_level")
