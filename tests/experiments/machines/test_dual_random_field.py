"""Random fields trained in the dual: its value, its optimum, what ends a run and what is refused.

The optimum is scipy's on all outputs written down, as in test_conditional_random_field.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, xlogy
from sklearn.linear_model import LogisticRegression

import jaxstruct as js
from experiments.machines import field_multipliers
from experiments.machines.dual_random_field import DualProgress, dual_random_field
from experiments.machines.field_multipliers import FieldExamples, collect, first_multipliers
from jaxstruct import Status
from jaxstruct.baselines import fit_random_field
from jaxstruct.trees.structure import weighted_grammar
from tests.baselines.sequences import BARRED, PLAIN, RICH, flat, like, random_sequences
from tests.baselines.test_conditional_random_field import Enumerated, barred_sequences
from tests.graphs.structure_cases import Options, random_graphs
from tests.lib.refusals import refused
from tests.trees import structure_cases as trees

SMALL = random_sequences(0, n=8, T=4, d=3, S=3)


@pytest.mark.parametrize("rich", [False, True], ids=["plain-dense", "rich-sparse-constrained"])
def test_the_dual_is_that_of_enumeration(x64: None, rich: bool) -> None:
    """-H and w(mu) of mu_i = P(. | x_i; w) from every output written down."""
    model, constraints = (RICH, BARRED) if rich else (PLAIN, None)
    data = barred_sequences(1)
    problem = data.problem(model, constraints=constraints, dtype="float64")
    x = data.sparse_inputs() if rich else data.inputs()
    truth = Enumerated(data, model, constraints)
    w = np.random.default_rng(2).normal(size=truth.true.shape[1])
    fixed = FieldExamples(problem, jnp.asarray(0.3), x._replace(gram=None), jnp.asarray(data.y))
    fixed = jax.tree.map(jnp.asarray, fixed)
    rows = jnp.arange(9, dtype=jnp.int32)
    weights = like(w, problem.initial_weights)
    multipliers = first_multipliers(fixed, weights, jnp.asarray(0.0), rows)
    found = collect(fixed, multipliers, jax.tree.map(jnp.zeros_like, weights), rows)
    entropies, expected = [], np.zeros_like(w)
    for psi, true in zip(truth.wrong, truth.true, strict=True):
        mu = np.exp(psi @ w - logsumexp(psi @ w))
        entropies.append(-xlogy(mu, mu).sum())
        expected += 0.3 * (true - mu @ psi)
    np.testing.assert_allclose(-multipliers.conjugate, entropies, atol=1e-10)
    np.testing.assert_allclose(flat(found), expected, atol=1e-10)
    assert np.linalg.norm(expected) > 1


@pytest.mark.thorough
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_the_gap_closes_and_the_dual_is_never_above_the_optimum(x64: None, C: float) -> None:
    """In one bucket and in two, to 1e-8 of the optimum."""
    truth, problem = Enumerated(SMALL, PLAIN), SMALL.problem(PLAIN, dtype="float64")
    w, objective = truth.optimum(C)
    for x, y in ((SMALL.inputs(), SMALL.y), SMALL.in_buckets()):
        found = dual_random_field(problem, x, y, C, tolerance=1e-8, group=3)
        assert found.status is Status.CONVERGED
        assert 0 <= found.gap <= 1e-8 * found.primal
        assert found.dual <= objective * (1 + 1e-12) and objective <= found.primal * (1 + 1e-12)
        np.testing.assert_allclose(flat(found.weights), w, atol=1e-3 * np.abs(w).max())
        seconds, passes, primal, dual = found.history.T
        assert (dual <= objective + 1e-10).all() and (primal >= objective - 1e-10).all()
        assert (np.diff(dual) > 0).all() and (np.diff(seconds) >= 0).all()
        assert passes[-1] == found.passes and found.oracle_calls >= 2 * 8 * found.passes
        value, _ = truth.objective(flat(found.weights), C)
        np.testing.assert_allclose(found.primal, value, rtol=1e-12)


@pytest.mark.thorough
def test_constraints_label_triples_and_sparse_tokens(x64: None) -> None:
    data = barred_sequences(1)
    problem = data.problem(RICH, constraints=BARRED, dtype="float64")
    _, objective = Enumerated(data, RICH, BARRED).optimum(5.0)
    found = dual_random_field(
        problem, data.sparse_inputs(), data.y, 5.0, tolerance=1e-8, group=3, positions=16
    )  # blocks of 4 rows, the last with three of padding
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose([found.primal, found.dual], objective, rtol=1e-8)


def test_float32_and_another_C_compiles_nothing() -> None:
    problem, truth = SMALL.problem(PLAIN), Enumerated(SMALL, PLAIN)
    counts = []
    for C in (2.0, 10.0):
        found = dual_random_field(problem, SMALL.inputs(), SMALL.y, C, tolerance=1e-4, group=3)
        _, objective = truth.optimum(C)
        assert found.status is Status.CONVERGED and found.dual <= objective * (1 + 1e-5)
        np.testing.assert_allclose([found.primal, found.dual], objective, rtol=2e-4)
        counts.append(field_multipliers.visit_groups._cache_size())
    assert counts[0] == counts[1]


@pytest.mark.thorough
def test_classes_are_logistic_regression(x64: None) -> None:
    random = np.random.default_rng(7)
    x = random.normal(size=(30, 4))
    y = np.argmax(x[:, :3] + random.gumbel(size=(30, 3)), axis=1)
    problem = js.multiclass.multiclass(4, 3, dtype="float64")
    found = dual_random_field(problem, x, y, 60.0, tolerance=1e-10, group=4, max_passes=900)
    assert found.status is Status.CONVERGED
    reference = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(found.weights["weights"].T, reference.coef_, atol=1e-4)


@pytest.mark.thorough
def test_trees_and_graphs(x64: None) -> None:
    """The primal is that of enumeration; its gradient there bounds the optimum independently."""
    given, sentences = random_graphs(4, 10, "any", Options(1, 2)), trees.examples(0)
    of_trees = [
        (trees.psi(0, i, trees.row_of(sentences[1], i)),
         np.stack([trees.psi(0, i, tree) for tree in trees.all_trees(0, i)]))
        for i in range(10)
    ]  # fmt: skip
    every = [given.psi(i)[1] for i in range(10)]
    of_graphs = [(psi[given.place(i)], psi) for i, psi in enumerate(every)]
    grammar = weighted_grammar(trees.grammar(0), dtype="float64")
    cases: tuple[tuple[Any, ...], ...] = (
        (grammar, *sentences, of_trees),
        (given.problem(), given.inputs(plans=True), given.outputs, of_graphs),
    )
    for problem, x, y, features in cases:
        found = dual_random_field(problem, x, y, 5.0, tolerance=1e-8, group=5, max_passes=400)
        assert found.status is Status.CONVERGED and 0 <= found.gap <= 1e-8 * found.primal
        w = flat(found.weights)
        value, gradient = w @ w / 2, w.copy()
        for true, psi in features:
            log_z = logsumexp(psi @ w)
            value += 0.5 * (log_z - true @ w)
            gradient += 0.5 * (np.exp(psi @ w - log_z) @ psi - true)
        np.testing.assert_allclose(found.primal, value, rtol=1e-10)
        assert found.dual >= value - gradient @ gradient / 2 - 1e-7 and gradient @ gradient < 1e-4


@pytest.mark.thorough
def test_a_start_at_the_optimum_certifies_it(x64: None) -> None:
    problem = SMALL.problem(PLAIN, dtype="float64")
    best = fit_random_field(problem, SMALL.inputs(), SMALL.y, 20.0, tolerance=1e-9)
    found = dual_random_field(
        problem, SMALL.inputs(), SMALL.y, 20.0, tolerance=1e-8, group=3, start=best.weights
    )
    assert found.status is Status.CONVERGED and found.passes == 0
    np.testing.assert_allclose(found.dual, best.objective, rtol=1e-10)


def test_the_other_ways_a_run_ends() -> None:
    problem, x = SMALL.problem(PLAIN), SMALL.inputs()
    seen: list[DualProgress] = []
    short = dual_random_field(problem, x, SMALL.y, 50.0, max_passes=2, group=3)
    assert short.status is Status.PASS_LIMIT and short.passes == 2 and short.gap > 0
    stopped = dual_random_field(
        problem, x, SMALL.y, 50.0, tolerance=1e-5, group=3,
        callback=lambda progress: seen.append(progress) or progress.passes == 3,
    )  # fmt: skip
    assert stopped.status is Status.STOPPED and stopped.passes == 3
    assert [one.passes for one in seen] == [1, 2, 3] and seen[0].estimate > seen[2].estimate > 0
    for solution in (short, stopped):
        assert solution.message and np.isfinite(flat(solution.weights)).all()
    gram = np.asarray(x.gram, float) * 1e76
    huge = x._replace(features=(x.features * 1e38).astype(np.float32), gram=gram)
    assert dual_random_field(problem, huge, SMALL.y).status is Status.NOT_FINITE


def test_the_gap_that_a_pass_meets_is_the_one_it_begins_with() -> None:
    """All examples in one group see the first w: their KL divergences add up to P - D there."""
    seen: list[DualProgress] = []
    found = dual_random_field(
        SMALL.problem(PLAIN), SMALL.inputs(), SMALL.y, 5.0, max_passes=1, group=8,
        callback=seen.append,
    )  # fmt: skip
    _, _, primal, dual = found.history[0]
    np.testing.assert_allclose(seen[0].estimate * abs(dual), primal - dual, rtol=1e-4)
    assert seen[0].primal == primal and found.oracle_calls > 3 * 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(C=0.0), "C must be"),
        (dict(tolerance=1e-7), "below what float32 certifies"),
        (dict(max_passes=0), "max_passes must be"),
        (dict(start={"emissions": np.zeros((3, 3))}), "start must be"),
    ],
)
def test_errors_name_the_argument(options: dict, message: str) -> None:
    with refused(message):
        dual_random_field(SMALL.problem(PLAIN), SMALL.inputs(), SMALL.y, **options)


def test_a_log_loss_that_is_not_convex_has_no_dual(x64: None) -> None:
    given = random_graphs(0, 2, "tree")
    problem = js.graphs.with_log_loss(given.problem(), "bethe")
    with refused("log loss is not convex and has no dual"):
        dual_random_field(problem, given.inputs(), given.outputs)
