"""experiments.decisions on small data sets: laws of costs, decision sets, rows, table, picture."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import decisions as command
from experiments.decisions import Options
from experiments.lib import common
from experiments.tasks.decision_data import Draw, Generator, tours
from jaxstruct import decisions
from tests.experiments.scripts import kept_settings, strict_json

KEYS = [(task, 0.5, 60, 4) for task in command.TASKS]


@pytest.mark.parametrize("degree", [1, 3])
@pytest.mark.parametrize("task", command.TASKS)
def test_costs_without_noise_are_polynomials_of_one_sum_of_features(task: str, degree: int) -> None:
    generator = Generator(Draw(task, 4, degree=degree), seed=1)
    x, c = generator(200)
    assert c.shape == (200, {"path": 24, "knapsack": 4, "salesman": 6}[task])
    root = np.cbrt if degree == 3 else np.asarray
    if task == "path":
        linear = root(c * 3.5**degree - 1)
    elif task == "salesman":
        linear = root((c - generator._base) / 3)
    else:
        assert (c == np.round(c)).all() and np.isin(generator.weights, range(3, 8)).all()
        return
    with_constant = np.hstack([x, np.ones((200, 1))])
    _, rest, _, _ = np.linalg.lstsq(with_constant, linear, rcond=None)
    np.testing.assert_allclose(rest, 0, atol=1e-12)


def test_noise_is_a_factor_within_its_width() -> None:
    quiet, loud = (Generator(Draw("path", 3, degree=2, noise=w), 5)(500)[1] for w in (0.0, 0.5))
    ratio = loud / quiet
    assert 0.5 <= ratio.min() < 0.51 and 1.49 < ratio.max() <= 1.5


def test_every_round_trip_is_listed_once() -> None:
    found = tours(5)
    assert found.shape == (12, 10) and len(np.unique(found, axis=0)) == 12
    first, second = np.triu_indices(5, 1)
    for town in range(5):  # comes and goes
        assert (found[:, (first == town) | (second == town)].sum(axis=1) == 2).all()


@pytest.mark.parametrize("key", KEYS)
def test_decisions_of_true_costs_have_no_regret(key: command.Key) -> None:
    found, train, test = command.drawn(Options(), "float32", key, 0)
    assert len(train.x) == 60 and len(test.x) == command.TEST and train.c.mean() == pytest.approx(1)
    assert decisions.regret(found, test.c, test.c) == 0
    assert decisions.regret(found, -test.c, test.c) > 0.2
    if key[0] == "salesman":
        listed = tours(command.SIZES["salesman"])
        best = (test.c @ listed.T).min(axis=1)
        np.testing.assert_allclose((test.c * test.y).sum(axis=1), best, rtol=1e-5)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> common.Outcome:
    options = Options(
        tasks=("path",), degrees=("4",), examples=("60",), noises=("0.5",), seeds=2,
        c_over_n=("1",), steps=300, output=str(tmp_path_factory.mktemp("decisions")),
        compilation_cache=False, progress=False,
    )  # fmt: skip
    with kept_settings():
        return command.run(options)


def test_every_method_learns_and_the_certified_optimum_is_one(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == 2 * list(command.METHODS)
    for own in (rows[:5], rows[5:]):
        of = {row["method"]: row for row in own}
        certified = of["certified"]
        assert certified["status"].name == "CONVERGED"
        assert all(row["regret"] < 40 for row in own)  # decisions of no features lose 50
        # C' = 1: the objective over n of any other W is not below the dual
        assert certified["dual"] <= certified["primal"]
        assert certified["train_spo_plus"] * 60 <= certified["primal"]
        assert of["spo_plus"]["train_spo_plus"] < of["squares"]["train_spo_plus"]


def test_table_and_picture_are_written(outcome: common.Outcome) -> None:
    names = {path.name for path in outcome.files}
    assert {"decisions.json", "decisions.csv", "decisions.png"} < names
    assert [row[:4] for row in outcome.table.rows] == [["path", 0.5, 60, 4]]
    assert sum("less spo_plus" in note for note in outcome.table.notes) == 4
    (path,) = (path for path in outcome.files if path.name == "decisions.json")
    assert len(strict_json(path)["rows"]) == 10


def test_pyepo_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.lib.peers.find_spec", lambda name: name == "torch" or None)
    with pytest.raises(ImportError, match="pip install pyepo ortools$"):
        command.run(Options(methods=[command.PYEPO]))
