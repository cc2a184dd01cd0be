"""Graph labelling: its optimum against an independent QP, certificates against enumeration."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.graphs.inputs import graph_inputs
from jaxstruct.graphs.structure import graph_labelling
from tests.graphs.structure_cases import COSTS, Graphs, Options, flat, random_graphs

CLOSE = 1e-6
SEEDS = 16
pytestmark = pytest.mark.usefixtures("x64")


def _solved(given: Graphs, problem: js.Problem, formulation: str, C: float, **inputs: bool):
    return js.fit(
        problem, given.inputs(**inputs), given.outputs, formulation, C, tolerance=CLOSE,
        max_passes=3000, settings=js.Settings(variant="subspace"),
    )  # fmt: skip


def drawn(problem: js.Problem) -> dict[str, jax.Array]:
    """Random weights."""
    rng = np.random.default_rng(0)
    shapes = {name: leaf.shape for name, leaf in problem.initial_weights.items()}
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}


def _assert_optimal(solution: js.Solution, objective: float) -> None:
    assert solution.status == js.Status.CONVERGED, solution.message
    assert solution.primal == pytest.approx(objective, rel=2 * CLOSE)
    assert solution.dual == pytest.approx(objective, rel=2 * CLOSE)


@pytest.mark.parametrize("formulation", ["svm1_slack", "svm2_margin"])
def test_enumeration_serves_every_formulation(formulation: str) -> None:
    given = random_graphs(0, 10, "cycle")
    problem = given.problem(inference="enumeration")
    solution = _solved(given, problem, formulation, 3.0)
    _assert_optimal(solution, given.truth(formulation, 3.0, "hamming").objective)


@pytest.mark.parametrize("formulation", ["svm2"])
def test_zero_one_serves_every_formulation_by_elimination(formulation: str) -> None:
    given = random_graphs(1, 10, "tree", Options(1, 2))
    problem = given.problem(inference="elimination", loss="zero_one")
    solution = _solved(given, problem, formulation, 3.0, plans=True)
    _assert_optimal(solution, given.truth(formulation, 3.0, "zero_one").objective)


@pytest.mark.parametrize(
    ("options", "kind", "loss"),
    [
        (Options(1, 3), "cycle", COSTS),
        (Options(2, 0, True), "any", "normalised_hamming"),
    ],
)
def test_margin_rescaling_by_elimination(options: Options, kind: str, loss: object) -> None:
    S = 2 if isinstance(loss, str) else 3
    given = random_graphs(2, 8, kind, options, S=S)
    given = given._replace(y=[np.minimum(y, S - 1) for y in given.y])
    problem = given.problem(inference="elimination", loss=loss)
    solution = _solved(given, problem, "svm1_margin", 4.0, plans=True)
    _assert_optimal(solution, given.truth("svm1_margin", 4.0, loss).objective)


WEIGHTS = (0.0, 2.5)
"""Of nodes of class 1, to ignore, and 2."""


@pytest.mark.parametrize(
    ("inference", "loss", "formulation"),
    [
        ("elimination", "hamming", "svm1_margin"),
        ("enumeration", COSTS, "svm2_slack"),
        ("reweighted", "normalised_hamming", "svm1_margin"),
    ],
)
def test_nodes_weigh_in_the_loss_as_their_classes_say(
    inference: str, loss: str | np.ndarray, formulation: str
) -> None:
    S, rng = (2, 3)[not isinstance(loss, str)], np.random.default_rng(6)
    given = random_graphs(6, 9, "tree", S=S)
    classes = [rng.integers(0, 3, len(y)) for y in given.y]
    classes[0][:] = 1  # a graph of which nothing counts
    costs = 1 - np.eye(S) if isinstance(loss, str) else loss
    normalised = isinstance(loss, str) and loss == "normalised_hamming"

    def weighed(i: int, labels: np.ndarray) -> np.ndarray:
        weights = np.array([1.0, *WEIGHTS])[classes[i]]
        total = (weights * costs[given.y[i][None], labels]).sum(axis=1)
        return total / max(weights.sum(), 1e-9) if normalised else total

    problem = given.problem(inference=inference, loss=loss, node_weights=WEIGHTS, passes=400)
    x, y = given.inputs(plans=True), js.graphs.weighted_labels(given.y, classes, S)
    solution = js.fit(problem, x, y, formulation, 4.0, tolerance=CLOSE, max_passes=3000,
                      settings=js.Settings(variant="subspace"))  # fmt: skip
    truth = given.truth(formulation, 4.0, weighed)
    _assert_optimal(solution, truth.objective)
    assert abs(truth.objective / given.truth(formulation, 4.0, loss).objective - 1) > 0.01
    for own in js.predict(problem, solution, x):
        assert own.min() >= 0 and own.max() < S
    for i, told in enumerate(y):
        labels = given.psi(i)[0]
        losses = jax.vmap(problem.model.loss, (None, 0))(jnp.asarray(told), labels)
        np.testing.assert_allclose(losses, weighed(i, labels), atol=1e-12)
        assert problem.model.loss(jnp.asarray(told), jnp.asarray(told)) == 0


@pytest.mark.parametrize("formulation", ["svm1"])
def test_without_a_loss_weights_change_nothing(formulation: str) -> None:
    given = random_graphs(9, 6, "tree")
    classes = [np.full(len(y), 2) for y in given.y]
    y = js.graphs.weighted_labels(given.y, classes, 2)
    problem = given.problem(inference="elimination", node_weights=WEIGHTS)
    solution = js.fit(
        problem, given.inputs(plans=True), y, formulation, 2.0, tolerance=1e-5, max_passes=3000
    )
    plain = _solved(given, given.problem(inference="elimination"), formulation, 2.0, plans=True)
    assert solution.status == plain.status
    if plain.status.solved:
        assert solution.primal == pytest.approx(plain.primal, rel=3e-5)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([[0, 2]], [[0, 0]], r"labels must lie in 0..1 and classes be at least 0, got labels 0..2"),
        ([[0, 1]], [[0, -1]], "and classes from -1"),
        ([[0, 1]], [[0]], r"classes must have one for every label, got \[1\] of labels of \[2\]"),
        ([[0.5, 1]], [[0, 0]], "labels must be integers"),
    ],
)
def test_the_door_of_weighted_labels(labels: list, classes: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        js.graphs.weighted_labels(list(map(np.array, labels)), list(map(np.array, classes)), 2)


def test_a_bound_that_is_tight_certifies() -> None:
    """Trees: the relaxation is exact, so training with it converges to the same optimum."""
    given = random_graphs(3, 12, "tree")
    solution = _solved(given, given.problem(passes=400), "svm1_margin", 4.0)
    _assert_optimal(solution, given.truth("svm1_margin", 4.0, "hamming").objective)


@pytest.mark.parametrize("inference", ["reweighted", "modes"])
def test_certificates_never_lie(inference: str) -> None:
    """Complete graphs, whose relaxations are loose: the truth by enumeration."""
    seen, C = set(), 4.0
    for seed in range(SEEDS):
        given = random_graphs(seed, 5, "complete")
        problem = given.problem(inference=inference, dtype="float32", passes=20)
        inputs = given.inputs()
        solution = js.fit(
            problem, inputs, given.outputs, "svm1_margin", C, tolerance=1e-3, max_passes=300
        )
        w, certificate = flat(solution.weights).astype(float), solution.certificate
        true, optimum = given.primal(w, C, "hamming"), given.truth("svm1_margin", C, "hamming")
        room = 1e-4 * max(1, abs(true))
        seen.add(solution.status.name)
        assert not seed or not solution.statistics.compilations  # other graphs, the same programs
        assert solution.dual <= optimum.objective + room
        assert certificate.primal_found <= true + room
        assert solution.primal >= true - room
        if solution.status.solved:
            assert inference == "reweighted"
            assert true - optimum.objective <= 1e-3 * true + room
        elif inference != "reweighted":
            assert solution.primal == np.inf
    assert "INEXACT_ORACLE" in seen
    assert seen <= {"CONVERGED", "INEXACT_ORACLE", "PASS_LIMIT", "ROUNDING"}
    assert ("CONVERGED" in seen) == (inference == "reweighted")


def test_check_problem_finds_nothing_with_sparse_rows_and_kinds() -> None:
    given = random_graphs(4, 6, "tree", Options(2, 2))
    problem, x = given.problem(inference="elimination"), given.inputs(plans=True, sparse=True)
    report = js.check_problem(problem, x, given.outputs, draws=2, examples=2)
    assert max(report.excess.values()) < 1e-7
    served = {name for name, oracle in report.oracles.items() if "needs" not in oracle}
    assert served == {"svm0", "svm1", "svm2", "svm1_margin", "svm1_slack", "svm2_slack"}


def test_the_score_is_that_of_psi() -> None:
    for options in (Options(), Options(0, 3), Options(2, 2, True)):
        given = random_graphs(5, 6, "any", options, S=3)
        problem = given.problem()
        w = drawn(problem)
        for sparse in (False, True):
            x = given.inputs(sparse=sparse)
            for i in (int(np.argmax([len(e) for e in given.edges])),):
                own = jax.tree.map(
                    lambda leaf, i=i: leaf[i], x, is_leaf=lambda z: hasattr(z, "rows")
                )
                labels, psi = given.psi(i)
                theta = problem.model.potentials(w, own)
                found = jax.vmap(problem.model.score, (None, 0))(theta, labels)
                np.testing.assert_allclose(found, psi @ flat(w), atol=1e-10)


def test_predictions_are_ragged_and_best() -> None:
    given = random_graphs(7, 9, "any")
    problem = given.problem(inference="elimination")
    w = drawn(problem)
    found = js.predict(problem, w, given.inputs(plans=True))
    for i, own in enumerate(found):
        labels, psi = given.psi(i)
        np.testing.assert_array_equal(own, labels[np.argmax(psi @ flat(w))])


GIVEN = random_graphs(8, 4, "tree", Options(2, 2))
X, Y = GIVEN.inputs(), GIVEN.outputs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number_of_labels": 1}, "number_of_labels must be at least 2, got 1"),
        ({"edge_kinds": -1}, "edge_kinds must be at least 0, got -1"),
        ({"loss": "f1"}, "loss is 'f1'; choose one of"),
        ({"loss": np.ones((2, 2))}, "loss must be 0 on its diagonal"),
        ({"loss": np.ones((3, 3))}, r"loss must be \[S, S\] = \[2, 2\] finite costs"),
        ({"inference": "cut"}, "inference is 'cut'; choose one of"),
        ({"symmetric": 1}, "symmetric must be True or False"),
        ({"node_weights": (1, -2)}, "node_weights must be a list of finite numbers >= 0"),
        ({"node_weights": 2.0}, "node_weights must be a list of finite numbers >= 0, got 2.0"),
        ({"node_weights": (2,), "loss": "zero_one"}, 'node_weights: loss="zero_one" is of the'),
        ({"node_weights": (2,), "inference": "relaxed"}, 'node_weights: inference="relaxed" has'),
        ({"dtype": "float16"}, 'dtype must be "float32" or "float64"'),
    ],
)
def test_the_door_of_the_structure(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graph_labelling(**{"number_of_features": 2, "number_of_labels": 2} | options)


@pytest.mark.parametrize(
    ("inputs", "outputs", "options", "message"),
    [
        (X, Y, {"inference": "elimination"}, "inputs.plan is None, but inference=\"elimination\""),
        (X._replace(edge_features=None), Y, {}, "edge_features = 2, the inputs have none"),
        (X._replace(kinds=None), Y, {}, "inputs.kinds is None, but the problem has edge_kinds = 2"),
        (X.nodes, Y, {}, "inputs must be a GraphInput"),
        (X, js.ragged([y + 5 for y in GIVEN.y]), {}, r"is \d: expected labels 0..1 for the"),
        (X, js.ragged([y[:-1] for y in GIVEN.y]), {}, "is -1: expected labels 0..1 for the"),
        (X, js.ragged([y * 1.0 for y in GIVEN.y]), {}, "outputs must be integer labels"),
        (
            X, js.ragged([y + 6 for y in GIVEN.y]), {"node_weights": (0.0, 2.0)},
            r"expected labels 0..1, plus 2 times a class of node in 0..2 \(see weighted_labels\)",
        ),
    ],
)  # fmt: skip
def test_the_door_of_examples(inputs, outputs, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        js.fit(GIVEN.problem(**options), inputs, outputs)
    assert "\n" not in str(caught.value)


ROWS, EDGES = [np.zeros((2, 3))] * 2, [np.array([[0, 1]]), np.zeros((0, 2), int)]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "nodes: no graphs; a graph needs at least one node"),
        (([np.zeros((0, 3)), ROWS[0]], EDGES), {}, r"nodes: nodes\[0\] has no rows"),
        ((ROWS, EDGES[:1]), {}, "edges holds 1 graphs, nodes holds 2"),
        ((ROWS, [[[0, 2]], []]), {}, r"edges\[0\]\[0, 1\] is 2: expected a node 0..1"),
        ((ROWS, [[[1, 1]], []]), {}, r"edges\[0\]\[0\] joins node 1 to itself"),
        ((ROWS, [[[0, 1], [1, 0]], []]), {}, r"edges\[0\]\[0\] and edges\[0\]\[1\] both join"),
        ((ROWS, EDGES), {"kinds": [[0], [1]]}, r"kinds\[1\] has 1 rows, but edges\[1\] has 0"),
        ((ROWS, EDGES), {"kinds": [[0.5], []]}, "kinds must be integers"),
        (
            (ROWS, EDGES), {"edge_features": [np.zeros((2, 1)), np.zeros((0, 1))]},
            r"edge_features\[0\] has 2 rows, but edges\[0\] has 1",
        ),
        (([np.zeros(2)], EDGES[:1]), {}, r"nodes must be n arrays \[V, d\]"),
        ((ROWS, EDGES), {"plans": 1}, "plans must be True or False"),
    ],
)  # fmt: skip
def test_the_door_of_inputs(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        graph_inputs(*arguments, **options)
    assert "\n" not in str(caught.value)
