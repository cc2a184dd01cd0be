"""Which effort and how many slots shapes predict."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings
from jaxstruct.core import work
from jaxstruct.core.compiling import EFFORTS
from jaxstruct.core.work import Work
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.n_slack import cost_model
from jaxstruct.solvers.n_slack.cost_model import (
    capacity_of,
    effort_for,
    efforts_of,
    predicted_calls,
)
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty
from jaxstruct.solvers.settings import Efforts

ORACLE = "contenders"


def _of(*shape, dtype=np.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


def _classes(n=16, d=5, k=4):
    """(problem, task) of n rows in one bucket; inputs and outputs are shapes alone."""
    terms = penalty(FORMULATIONS["svm1_margin"], 1.0, np.ones(1), 1, "float32")
    return multiclass(d, k), Task((_of(n, d, dtype=np.float32),), (_of(n),), terms)


def _unlisted(k=4):
    """A problem that cannot list its outputs."""
    problem = multiclass(5, k)
    return problem._replace(oracles=problem.oracles._replace(all_outputs=None))


@pytest.fixture
def seven(monkeypatch):
    """Every oracle call of a batch of 16 computes seven numbers, in a program of usual size."""
    monkeypatch.setattr(cost_model, "work_of", lambda *_: Work(16 * 7.0, cost_model.EQUATIONS))
    monkeypatch.setattr(work, "_known", {})


@pytest.mark.parametrize("calls", [cost_model.CALLS, 3])
@pytest.mark.parametrize("buckets", [1, 3])
def test_the_effort_changes_at_each_threshold(seven, monkeypatch, buckets, calls):
    """At so many numbers the lesser effort still, beyond them the next; buckets add up."""
    problem, task = _classes(n=16)
    task = task._replace(inputs=task.inputs * buckets, outputs=task.outputs * buckets)
    total = calls * buckets * 16 * (7.0 + cost_model.SWEEPS)
    for quick, fair, good, wanted in (
        (total, 2 * total, 3 * total, "quick"),
        (total - 1, 2 * total, 3 * total, "fair"),
        (total / 2, total, 3 * total, "fair"),
        (total / 2, total - 1, 3 * total, "good"),
        (total / 3, total / 2, total, "good"),
        (total / 3, total / 2, total - 1, "full"),
    ):
        for name, most in (("QUICK", quick), ("FAIR", fair), ("GOOD", good)):
            monkeypatch.setattr(cost_model, name, most)
        assert efforts_of(problem, Settings(), ORACLE, task, calls).sweeps == wanted


def test_larger_programs_must_run_for_longer():
    """They compile for longer: twice the equations, twice the numbers that are quick; few equations
    count as the usual ones."""
    usual, quick = cost_model.EQUATIONS, cost_model.QUICK
    fair, good = cost_model.FAIR, cost_model.GOOD
    for equations, times in ((1, 1), (usual, 1), (2 * usual, 2), (5 * usual, 5)):
        for numbers, wanted in (
            (times * quick, "quick"), (1.01 * times * quick, "fair"), (fair, "fair"),
            (1.01 * fair, "good"), (good, "good"), (1.01 * good, "full"),
        ):  # fmt: skip
            assert effort_for(numbers, equations) == wanted


def test_the_rule_of_epsilon_alone_makes_few_calls():
    """And no rule more than its passes, each with a certificate, allow."""
    for tolerance, max_passes, wanted in (
        (1e-3, 500, cost_model.CALLS), (None, 500, cost_model.FEW_CALLS), (None, 3, 6),
        (1e-3, 3, 6), (1e-3, 1, 2), (None, 1, 2),
    ):  # fmt: skip
        assert predicted_calls(tolerance, max_passes) == wanted
    assert cost_model.FEW_CALLS < cost_model.CALLS


def test_larger_tasks_are_worth_more_effort():
    """The thresholds as they are: more rows, and more classes, never less effort."""
    for sizes in (
        [{"n": n, "d": 100, "k": 20} for n in (16, 2_000, 10**5, 10**7)],
        [{"n": 1000, "d": d, "k": k} for d, k in ((5, 3), (100, 100), (1000, 1000), (1000, 10**4))],
    ):
        tasks = [_classes(**size) for size in sizes]
        found = [efforts_of(problem, Settings(), ORACLE, task).sweeps for problem, task in tasks]
        assert found == ["quick", "fair", "good", "full"]


def test_work_is_that_of_the_named_oracle_on_one_example(monkeypatch):
    """The scores of k classes multiply k d numbers, and there is little besides."""
    problem, task = _classes(n=16, d=1000, k=50)
    per_call = 50 * 1000
    for slack, wanted in ((1.1, "quick"), (0.9, "fair")):
        wanted_calls = cost_model.CALLS * 16 * (per_call + cost_model.SWEEPS)
        monkeypatch.setattr(cost_model, "QUICK", slack * wanted_calls)
        assert efforts_of(problem, Settings(), ORACLE, task).sweeps == wanted


def test_what_is_known_is_not_counted_again(monkeypatch):
    """Another oracle, or an example of another shape, is."""
    counted = []
    monkeypatch.setattr(cost_model, "work_of", lambda *given: counted.append(given) or Work(1.0, 1))
    monkeypatch.setattr(work, "_known", {})
    for oracle, d, n, wanted in (
        (ORACLE, 5, 64, 1), (ORACLE, 5, 64, 1), (ORACLE, 5, 128, 1),
        ("best_wrong", 5, 64, 2), (ORACLE, 6, 64, 3), (ORACLE, 5, 64, 3),
    ):  # fmt: skip
        problem, task = _classes(n=n, d=d)
        efforts_of(problem, Settings(), oracle, task)
        assert len(counted) == wanted


@pytest.mark.parametrize("effort", EFFORTS)
def test_an_effort_of_the_settings_wins(effort, monkeypatch):
    monkeypatch.setattr(cost_model, "work_of", lambda *_: pytest.fail("counted for nothing"))
    monkeypatch.setattr(work, "_known", {})
    for n in (16, 10**7):
        problem, task = _classes(n=n)
        assert set(efforts_of(problem, Settings(effort=effort), ORACLE, task)) == {effort}
        each = Efforts(effort, "fair", "quick")
        assert efforts_of(problem, Settings(effort=each), ORACLE, task) == each


def test_programs_of_one_run_have_efforts_of_their_own(seven, monkeypatch):
    """Enumerated sets call the oracle to certify alone, Newton steps evaluate all planes; sweeps,
    and the oracle of grown sets, count both."""
    problem, task = _classes(n=16)
    certifying, newton = cost_model.CALLS * 16 * 7.0, cost_model.EVALUATIONS * 16 * 7.0
    monkeypatch.setattr(cost_model, "NEWTON_EQUATIONS", cost_model.EQUATIONS)
    for quick, sets, wanted in (
        (certifying, "auto", Efforts("quick", "fair", "fair")),
        (certifying - 1, "auto", Efforts("fair", "fair", "fair")),
        (newton, "auto", Efforts("quick", "fair", "quick")),
        (newton, "grown", Efforts("fair", "fair", "quick")),
    ):
        monkeypatch.setattr(cost_model, "QUICK", quick)
        found = efforts_of(problem, Settings(working_sets=sets), ORACLE, task)
        assert found == wanted


def test_a_capacity_of_the_settings_wins():
    for capacity in (2, 100, 512):
        assert capacity_of(_unlisted(), Settings(capacity=capacity), (_of(9),), 4) == capacity


def _slots(problem, n, itemsize=4, length=(), **settings):
    return capacity_of(problem, Settings(**settings), (_of(n, *length),), itemsize)


def _fits(slots, n, itemsize, integers=1):
    """Whether the planes and Gram blocks of n examples stay within the room."""
    return n * (slots * 4 * integers + slots**2 * itemsize) <= cost_model.FIRST_BYTES


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("length", [1, 50, 1000])
def test_slots_are_what_the_room_holds(length, itemsize):
    """The largest power of two from 8 to 64 that fits; 8 where none does."""
    random, seen = np.random.default_rng(0), set()
    for n in (10 ** random.uniform(0, 7, 60)).astype(int).tolist():
        sizes = [s for s in (64, 32, 16) if _fits(s, n, itemsize, length)]
        wanted = sizes[0] if sizes else 8
        assert _slots(_unlisted(), n, itemsize, (length,)) == wanted
        seen.add(wanted)
    assert seen == {8, 16, 32, 64}


def test_room_is_kept_to_the_byte(monkeypatch):
    monkeypatch.setattr(cost_model, "FIRST_BYTES", 100 * (64 * 4 + 64 * 64 * 4))
    assert _slots(_unlisted(), 100) == 64
    assert _slots(_unlisted(), 101) == 32


def test_buckets_share_the_room(monkeypatch):
    monkeypatch.setattr(cost_model, "FIRST_BYTES", 100 * (64 * 4 * 1000 + 64 * 64 * 4))
    for sizes, wanted in (((50, 50), 64), ((50, 51), 32), ((51, 50), 32)):
        buckets = tuple(_of(n, 1000) for n in sizes)
        assert capacity_of(_unlisted(), Settings(), buckets, 4) == wanted


def test_no_more_slots_than_hold_every_output():
    """The least power of two that does, where the structure lists its outputs, but at least 8."""
    for k, wanted in ((2, 8), (8, 8), (9, 16), (16, 16), (17, 32), (33, 64), (64, 64), (1000, 64)):
        assert _slots(multiclass(5, k), 10) == wanted
        assert _slots(_unlisted(k), 10) == 64


def test_no_more_slots_than_they_may_become():
    for most, wanted in ((2, 2), (5, 5), (32, 32), (64, 64), (512, 64)):
        assert _slots(_unlisted(), 10, max_capacity=most) == wanted
    assert _slots(_unlisted(), 10**7, max_capacity=4) == 4
    assert _slots(multiclass(5, 3), 10, max_capacity=4) == 4


def test_outputs_of_several_leaves_are_all_counted():
    n = next(n for n in range(1000, 10**6, 1000) if not _fits(64, n, 4, 30))
    pair = {"one": _of(n, 10), "two": _of(n, 20)}
    assert capacity_of(_unlisted(), Settings(), (pair,), 4) == 32
    assert capacity_of(_unlisted(), Settings(), ({"one": pair["one"]},), 4) == 64
