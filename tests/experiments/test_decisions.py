"""experiments.decisions on small data sets: laws of costs, decision sets, rows, table, picture."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize

from experiments import decisions as command
from experiments.decisions import Options
from experiments.lib import common
from experiments.tasks import decisions as tasks
from experiments.tasks.decisions import PARTS, RISK, TRIPS, Draw, Generator, tours
from jaxstruct import decisions
from tests.experiments.scripts import options_of

KEYS = [(task, 0.5, 60, 4) for task in command.TASKS]


@pytest.mark.parametrize("degree", [1, 3])
@pytest.mark.parametrize("task", command.TASKS)
def test_costs_without_noise_are_polynomials_of_one_sum_of_features(task: str, degree: int) -> None:
    generator = Generator(Draw(task, 4, degree=degree), seed=1)
    x, c = generator(200)
    assert c.shape == (200, {"path": 24, "knapsack": 4, "portfolio": 4}.get(task, 6))
    root = np.cbrt if degree == 3 else np.asarray
    if task == "path":
        linear = root(c * 3.5**degree - 1)
    elif task == "portfolio":
        linear = root(c)
    elif task in TRIPS:
        linear = root((c - generator._base) / 3)
    else:
        assert (c == np.round(c)).all() and np.isin(generator.weights, range(3, 8)).all()
        return
    with_constant = np.hstack([x, np.ones((200, 1))])
    _, rest, _, _ = np.linalg.lstsq(with_constant, linear, rcond=None)
    np.testing.assert_allclose(rest, 0, atol=1e-12)


def test_noise_of_portfolios_has_the_covariance_of_their_risk() -> None:
    quiet, loud = (Generator(Draw("portfolio", 4, noise=w), 5) for w in (0.0, 0.5))
    noise, A = loud(40_000)[1] - quiet(40_000)[1], np.asarray(loud.weights)
    np.testing.assert_allclose(np.cov(noise.T) / 1e-4, A @ A.T + np.eye(4), atol=0.03)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_portfolios_are_the_best_and_their_bounds_hold(dtype: str, x64: None) -> None:
    random, d = np.random.default_rng(0), 8
    A = random.uniform(-0.25, 0.25, (d, 3))
    risk, found = A @ A.T + np.eye(d), tasks.portfolios(A)
    values = random.normal(0.3, 1, (6, d))
    values[0] = -1
    values[1] = 1  # money is left over where no risk is worth it
    bounded = jax.jit(lambda v: found.bounded(v, ()))
    near = 2e-4 if dtype == "float32" else 1e-7
    for v in values:
        answer = bounded(v.astype(dtype))
        y = np.asarray(answer.output) / PARTS
        assert (y >= 0).all() and y.sum() <= 1 and y @ risk @ y <= RISK * risk.mean()
        held = [
            NonlinearConstraint(lambda y: RISK * risk.mean() - y @ risk @ y, 0, np.inf),
            LinearConstraint(np.ones(d), ub=1),
        ]  # fmt: skip
        right = minimize(lambda y, v=v: -(v @ y), np.full(d, 1 / d), bounds=[(0, 1)] * d,
                         constraints=held, method="SLSQP", options={"ftol": 1e-12})  # fmt: skip
        assert v @ y == pytest.approx(-right.fun, abs=near)
        assert v @ y * (1 - 1e-9) <= answer.bound / PARTS <= v @ y + near


@pytest.mark.parametrize("towns", [3, 6])
def test_round_trips_of_the_dynamic_program_are_the_best_of_all(towns: int) -> None:
    every, c = tours(towns), np.random.default_rng(0).normal(size=(20, towns * (towns - 1) // 2))
    found = decisions.decide(tasks.round_trips(towns), c)
    assert all((own == every).all(axis=1).any() for own in found)
    np.testing.assert_allclose((c * found).sum(axis=1), (c @ every.T).min(axis=1), atol=1e-6)


@pytest.mark.parametrize("key", KEYS)
def test_decisions_of_true_costs_have_no_regret(key: command.Key, monkeypatch) -> None:
    """As many examples test as train, so that one program decides both."""
    monkeypatch.setattr(command, "TEST", 60)
    found, train, test = command.drawn(Options(), "float32", key, 0)
    assert len(train.x) == len(test.x) == 60
    assert train.c.mean() == pytest.approx(command.UNITS.get(key[0], 1))
    assert decisions.regret(found, test.c, test.c) == 0
    assert decisions.regret(found, -test.c, test.c) > 0.2
    if key[0] in TRIPS and command.SIZES[key[0]] < 9:
        listed = tours(command.SIZES[key[0]])
        best = (test.c @ listed.T).min(axis=1)
        np.testing.assert_allclose((test.c * test.y).sum(axis=1), best, rtol=1e-5)


options = options_of(
    Options, tasks=("path",), degrees=("4",), examples=("60",), noises=("0.5",), seeds=2,
    c_over_n=("0.1",), steps=300,
)  # fmt: skip


def test_every_method_learns_and_the_certified_optimum_is_one(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == 2 * list(command.METHODS)
    for own in (rows[:5], rows[5:]):
        of = {row["method"]: row for row in own}
        certified = of["certified"]
        assert certified["status"].name == "CONVERGED"
        assert all(row["regret"] < 40 for row in own)  # decisions of no features lose 50
        # C' = 1/10: C is 6, of the mean loss
        assert certified["dual"] <= certified["primal"]
        assert certified["train_spo_plus"] * 6 <= certified["primal"]
        assert of["spo_plus"]["train_spo_plus"] < of["squares"]["train_spo_plus"]


def test_the_table_has_a_column_of_each_ratio() -> None:
    """A point in its name is no path into a row."""
    row = {"task": "path", "noise": 0.5, "examples": 60, "degree": 4, "seed": 0, "status": None}
    row |= {"method": command.CERTIFIED, "seconds": 2.0, "compile_seconds": 1.0}
    rows = [row | {"c_over_n": c, "regret": 10 * c, "train_spo_plus": c} for c in (0.1, 1.0)]
    table = command._table(Options(), rows)
    assert table.rows == [["path", 0.5, 60, 4, "1.00", "10.00"]]
    assert table.columns[-2:] == [("regret in %", f"certified {c}") for c in ("0.1", "1")]
