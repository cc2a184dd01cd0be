"""`fit_latent` against enumeration: every output, every completion, and the global optimum."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Incomplete, Truth
from jaxstruct.solvers.latent.completion import anchored, complete, some_that_agree
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, bucket_of
from tests.lib.equality import assert_same
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

pytestmark = pytest.mark.usefixtures("x64")
C, D, S, TOLERANCE = 10.0, 3, 2, 1e-6
SLOTS = js.Settings(capacity=8)
"""Room for every labelling of three tokens: sweeps go over all of them."""
features = jax.jit(jax.vmap(jax.vmap(js.joint_feature, (None, None, 0)), (None, 0, 0)))


class Case(NamedTuple):
    """Sequences with labels, of which some are None or sets; whole: all labels."""

    sequences: list
    labels: list
    whole: list

    def prepared(self, labels: list | None = None, **options: Any) -> js.Prepared:
        given = self.labels if labels is None else labels
        return js.chains.prepare(self.sequences, given, classes=range(S), **options)


def case(seed: int, n: int = 16, hidden: float = 0.5) -> Case:
    """Labels at random, so that the problem has many critical points; all share programs."""
    random = np.random.default_rng(seed)
    lengths = 2 + np.arange(n) % 2
    sequences = [random.normal(size=(length, D)) for length in lengths]
    whole = [random.integers(0, S, length).tolist() for length in lengths]
    labels = [[None if random.random() < hidden else y for y in own] for own in whole]
    labels[0] = [whole[0][0], None, *whole[0][2:]]
    return Case(sequences, labels, whole)


def scores(w: Any, x: np.ndarray) -> dict[tuple[int, ...], float]:
    """F of every label sequence, in float64."""
    emissions, transitions = (np.asarray(w[name], float) for name in ("emissions", "transitions"))
    found = {}
    for y in itertools.product(range(S), repeat=len(x)):
        steps = sum(transitions[a, b] for a, b in itertools.pairwise(y))
        found[y] = float((x @ emissions)[np.arange(len(x)), list(y)].sum() + steps)
    return found


def errors(labels: list, y: tuple[int, ...]) -> int:
    """Known labels that y has otherwise."""
    return sum(label is not None and label != own for label, own in zip(labels, y, strict=True))


def objective(own: Case, w: Any) -> float:
    """J(w) by its definition."""
    total = sum(float(np.sum(np.asarray(leaf, float) ** 2)) for leaf in jax.tree.leaves(w)) / 2
    for x, labels in zip(own.sequences, own.labels, strict=True):
        found = scores(w, x)
        agree = max(value for y, value in found.items() if not errors(labels, y))
        worst = max(value + errors(labels, y) for y, value in found.items())
        total += C / len(own.sequences) * (worst - agree)
    return total


FEW = {"C": C, "tolerance": TOLERANCE, "settings": SLOTS,
       "example_weights": np.where(np.arange(16) < 3, 16 / 3, 0.0)}  # fmt: skip
"""Options with which three examples of sixteen are all that count."""


def global_optimum(own: Case, data: js.Prepared) -> float:
    """The least optimum of the convex problems of all completions of three examples."""
    best = np.inf
    hidden = [(i, t) for i in range(3) for t, one in enumerate(own.labels[i]) if one is None]
    for filled in itertools.product(range(S), repeat=len(hidden)):
        labels = [list(y) for y in own.whole]
        for (i, t), label in zip(hidden, filled, strict=True):
            labels[i][t] = label
        truth = Truth(own.prepared(labels).outputs, data.outputs.known)
        best = min(best, js.fit(data.problem, data.inputs, truth, **FEW).primal)
    return best


@pytest.mark.thorough
def test_brackets_the_global_optimum_and_restarts_come_nearer() -> None:
    own = case(0)
    data = own.prepared(own.labels[:3] + own.whole[3:], dtype="float64")
    optimum, one = global_optimum(own, data), js.fit_latent(*data, **FEW)
    more = js.fit_latent(*data, **FEW, restarts=6)
    assert one.status is js.Status.CONVERGED and one.dual <= optimum * (1 + TOLERANCE)
    assert one.primal >= more.primal >= optimum * (1 - TOLERANCE)
    assert more.primal <= 1.2 * optimum, "of seven starts one is near"
    assert more.details.seeds == tuple(range(7)) and min(more.details.objectives) == more.primal


@pytest.mark.parametrize("seed", thorough_after(1, [1, 3]))
def test_the_objective_is_as_defined_and_never_rises(seed: int) -> None:
    own = case(seed)
    data = own.prepared(dtype="float64")
    found = js.fit_latent(*data, C=C, settings=SLOTS)
    trace = found.details.trace
    course = trace.objective[~trace.warm]
    assert found.status is js.Status.CONVERGED
    assert (np.diff(course) <= 0).all() and len(course)
    moved = (trace.changed > 0) & ~trace.warm  # better completions take off what they gain
    assert moved.any() and (trace.objective[moved] < trace.primal[moved]).all()
    assert found.primal == pytest.approx(objective(own, found.weights), rel=1e-5)
    assert found.details.critical_gap <= 1e-3 * found.primal
    fresh = Truth(found.details.completions, data.outputs.known)
    options = {"tolerance": 1e-4, "settings": SLOTS}
    convex = js.fit(data.problem, data.inputs, fresh, C=C, **options)
    assert convex.primal >= found.primal * (1 - 1.1e-3), "a critical point"
    for x, labels, h in zip(own.sequences, own.labels, found.details.completions, strict=True):
        values = {y: F for y, F in scores(found.weights, x).items() if not errors(labels, y)}
        assert values[tuple(h.tolist())] == pytest.approx(max(values.values()), abs=1e-4)


def test_complete_labels_give_the_weights_of_fit() -> None:
    own = case(1)
    data = own.prepared(own.whole, dtype="float64")
    y = data.outputs
    known = js.Ragged(np.eye(S, dtype=bool)[y.rows], y.offsets)
    options = {"C": C, "tolerance": 1e-9, "settings": SLOTS}
    found = js.fit_latent(*data[:2], Incomplete(y, known), **options)
    wanted = js.fit(*data, **options)
    for mine, other in zip(*map(jax.tree.leaves, (found.weights, wanted.weights)), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12)
    assert found.dual == pytest.approx(wanted.dual, rel=1e-8), "the optimum itself is bounded"


def classes(seed: int) -> js.Prepared:
    """Points of five classes, of which None or two or more are possible."""
    random = np.random.default_rng(seed)
    kinds = [None, {0, 1, 2}, 3, {1, 4}, 2]
    labels = [kinds[k] for k in random.integers(0, 5, 70)]
    return js.multiclass.prepare(
        random.normal(size=(70, D)), labels, classes=range(5), dtype="float64"
    )


def planes(problem: js.Problem, x: Any, own: WorkingSets) -> np.ndarray:
    """[n, K, weights] Psi(h) - Psi(y_k) of each example, 0 where no plane is held."""
    leaves = jax.tree.leaves(features(problem, x, own.outputs))
    flat = np.concatenate([np.reshape(leaf, (*leaf.shape[:2], -1)) for leaf in leaves], axis=2)
    return np.where(np.asarray(own.occupied)[..., None], flat[:, :1] - flat, 0)


@pytest.mark.parametrize("kind", ["chain", "classes"])
def test_moved_planes_are_those_of_the_new_completions(kind: str) -> None:
    data = case(5).prepared(dtype="float64") if kind == "chain" else classes(5)
    problem, inputs, outputs = data
    x, y = some_that_agree(problem, inputs, outputs, None, seed=3)
    found = js.fit(problem, x, y, C=C, settings=SLOTS)
    other = complete(problem, found.weights, x, y).outputs
    moved, before = anchored(problem, found, x, other), found.state.sets
    changed = 0
    for number, index in enumerate(y.index):
        old, new = (bucket_of(sets, number) for sets in (before, moved.state.sets))
        given = jax.tree.map(np.asarray, (old, new, x.parts[number]))
        old, new, own = jax.tree.map(partial(np.take, indices=np.arange(len(index)), axis=0), given)
        phi = planes(problem, own, new)
        changed += np.any((old.outputs != new.outputs)[:, 0].reshape(len(index), -1), axis=1).sum()
        np.testing.assert_allclose(new.norms, (phi**2).sum(axis=2), atol=1e-9)
        if new.gram.shape[1]:
            np.testing.assert_allclose(new.gram, phi @ phi.swapaxes(1, 2), atol=1e-9)
    assert changed > 5
    again = js.fit(problem, x, other, C=C, settings=SLOTS, start=moved)
    wanted = js.fit(problem, x, other, C=C, settings=SLOTS)
    assert again.primal == pytest.approx(wanted.primal, rel=1e-3)
    assert again.statistics.passes < wanted.statistics.passes + found.statistics.passes


def test_a_run_that_was_killed_goes_on_to_the_same_bits(tmp_path) -> None:
    data = case(7).prepared(dtype="float64")
    path = tmp_path / "a" / "run.npz"
    given = {"C": C, "restarts": 1, "seed": 2, "settings": SLOTS}
    options = given | {"checkpoint": path}
    whole, seen = js.fit_latent(*data, **given), []

    def killed(row: Any) -> None:
        seen.append(row)
        if len(seen) in (2, 5, 9):
            raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            js.fit_latent(*data, **options, callback=killed, resume=True)
    for _ in range(2):  # the second time of a run that has ended
        again = js.fit_latent(*data, **options, resume=True)
        assert_same(*(
            (run.weights, run.primal, run.dual, run.state.sets, run.details.completions.rows,
             run.details.trace.objective) for run in (again, whole)
        ))  # fmt: skip
        assert (again.status, again.message) == (whole.status, whole.message)
    other = options | {"seed": 3, "resume": True}
    refused("another run: seed was 2, is 3", js.fit_latent, *data, **other)
    refused("needs checkpoint", js.fit_latent, *data, resume=True)
    path.write_bytes(path.read_bytes()[:-99])
    refused("does not end in its digest", js.fit_latent, *data, **options, resume=True)


def test_options_of_a_start() -> None:
    data = case(8, hidden=0.1).prepared(dtype="float64")
    plain = js.fit_latent(*data, C=C, settings=SLOTS)
    again = js.fit_latent(*data, C=C, settings=SLOTS, start=plain)
    assert again.primal <= plain.primal * (1 + 6e-4) and len(again.details.trace.start) <= 3
    annealed = js.fit_latent(*data, C=C, settings=SLOTS, anneal=(0.01, 0.1)).details.trace
    paced = js.fit_latent(*data, C=C, settings=SLOTS, self_paced=True).details.trace
    assert annealed.warm.sum() == plain.details.trace.warm.sum() + 2
    assert (np.diff(annealed.primal[annealed.warm][-2:]) > 0).all(), "C rises"
    assert paced.warm.sum() > plain.details.trace.warm.sum() and not paced.warm[-1]
    other = js.fit_latent(*data, C=C, settings=SLOTS, seed=5, restarts=2)
    assert other.details.seeds == (5, 6, 7) and len(set(other.details.objectives)) > 1
    weighted = np.array([2.0, *[1.0] * 14, 0.0])
    twice = js.fit_latent(*data, C=C, settings=SLOTS, example_weights=weighted)
    assert twice.status is js.Status.CONVERGED and twice.primal != plain.primal


def test_a_stopped_run_says_so_and_what_does_not_fit_is_refused() -> None:
    own = case(0)
    data = own.prepared(dtype="float64")
    stopped = js.fit_latent(*data, C=C, settings=SLOTS, callback=lambda row: True)
    assert stopped.status is js.Status.STOPPED and "callback" in stopped.message
    limited = js.fit_latent(*data, C=C, settings=SLOTS, max_rounds=1)
    assert limited.status is js.Status.PASS_LIMIT and "max_rounds" in limited.message
    for formulation in ("svm1_slack", "svm2_margin", "svm0"):
        refused('must be "svm1_margin"', js.fit_latent, *data, formulation)
    refused("outputs are Incomplete", js.fit, *data)
    refused("must be jaxstruct.Incomplete", js.fit_latent, *own.prepared(own.whole))
    refused("does not add up", js.fit_latent, *own.prepared(loss="zero_one", dtype="float64"))
    refused("anneal must be shares", js.fit_latent, *data, anneal=(2.0,))
    refused("self_paced must be True or False", js.fit_latent, *data, self_paced=1)
    refused("restarts", js.fit_latent, *data, restarts=-1)
    plain = data.problem._replace(model=data.problem.model._replace(complete=None))
    refused("restrict, agrees or complete", js.fit_latent, plain, *data[1:])
