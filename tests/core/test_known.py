"""Known potentials of every structure: what is learned beside them, predicted and refused."""

from functools import partial
from itertools import pairwise, product

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.padding import padded
from jaxstruct.core.problem import joint_feature
from tests.lib.refusals import refused
from tests.trees import structure_cases as tree_cases
from tests.truth.proven_optimum import Exact, Machine

C = 5.0
LENGTHS = (2, 3, 1, 4, 2)
pytestmark = pytest.mark.usefixtures("x64")


def _padded(y, size):
    return np.pad(np.asarray(y, np.int32), (0, size - len(y)), constant_values=-1)


def _chains(random):
    """(problem, inputs, outputs, known, i -> (every output, its K))."""
    tokens = [random.normal(size=(length, 2)) for length in LENGTHS]
    labels = [random.integers(0, 2, length).tolist() for length in LENGTHS]
    data = js.chains.prepare(tokens, labels, classes=[0, 1], start_stop=True, dtype="float64")
    known = {
        "emissions": [random.normal(size=(length, 2)) for length in LENGTHS],
        "transitions": [random.normal(size=(2, 2)) for _ in LENGTHS],
        "stop": [random.normal(size=2) for _ in LENGTHS],
    }

    def listed(i, size):
        every = list(product(range(2), repeat=LENGTHS[i]))
        e, t, stop = (known[name][i] for name in known)
        values = [
            sum(e[j, s] for j, s in enumerate(y)) + stop[y[-1]]
            + sum(t[a, b] for a, b in pairwise(y)) for y in every
        ]  # fmt: skip
        return [_padded(y, size) for y in every], values

    return *data, known, listed


def _trees(random):
    grammar, x, y = tree_cases.grammar(), *tree_cases.examples()
    problem = js.trees.weighted_grammar(grammar, loss="zero_one", dtype="float64")
    names = {name: np.shape(leaf) for name, leaf in sorted(problem.initial_weights.items())}
    n = len(y.symbols)
    known = {name: [random.normal(size=size) for _ in range(n)] for name, size in names.items()}

    def listed(i, size):
        del size
        every = tree_cases.all_trees(0, i)
        of_example = tree_cases.flat({name: leaves[i] for name, leaves in known.items()})
        return every, [tree_cases.psi(0, i, tree) @ of_example for tree in every]

    return problem, x, y, known, listed


def _graphs(random):
    graphs = [
        (random.normal(size=(V, 2)), [(v, v + 1) for v in range(V - 1)]) for V in (2, 3, 1, 4)
    ]
    labels = [random.integers(0, 2, len(nodes)).tolist() for nodes, _ in graphs]
    data = js.graphs.prepare(
        graphs, labels, classes=[0, 1], inference="enumeration", dtype="float64"
    )
    known = {
        "nodes": [random.normal(size=(len(nodes), 2)) for nodes, _ in graphs],
        "pairs": [random.normal(size=(len(edges), 2, 2)) for _, edges in graphs],
    }

    def listed(i, size):
        nodes, pairs = (known[name][i] for name in known)
        every = list(product(range(2), repeat=len(nodes)))
        values = [
            sum(nodes[v, s] for v, s in enumerate(y))
            + sum(pairs[e, y[e], y[e + 1]] for e in range(len(pairs))) for y in every
        ]  # fmt: skip
        return [_padded(y, size) for y in every], values

    return *data, known, listed


def _assignments(random):
    sizes = (2, 3), (3, 2), (1, 2), (3, 3)
    examples = [random.normal(size=(*size, 2)) for size in sizes]
    matchings = [[(i, i) for i in range(min(size))] for size in sizes]
    data = js.assignments.prepare(examples, matchings, dtype="float64")
    known = {"pairs": [random.normal(size=size) for size in sizes]}

    def listed(i, size):
        r, c = sizes[i]
        every = [
            y for y in product(range(-1, c), repeat=r)
            if sum(j >= 0 for j in y) == min(r, c) == len({j for j in y if j >= 0})
        ]  # fmt: skip
        pairs = known["pairs"][i]
        values = [sum(pairs[row, j] for row, j in enumerate(y) if j >= 0) for y in every]
        return [_padded(y, size) for y in every], values

    return *data, known, listed


CASES = {case.__name__[1:]: case for case in (_chains, _trees, _graphs, _assignments)}


def _flat(tree):
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])


def _optimum(lists, outputs):
    """(lower, upper) of svm1_margin: <w, dPsi> >= Delta - dK - xi over all listed sequences."""
    a, b, slack_of = [], [], []
    for i, (every, values, psi) in enumerate(lists):
        loss = [np.sum(y[: len(outputs[i])] != outputs[i]) for y in every]
        (true,) = np.flatnonzero(np.equal(loss, 0))
        for k in set(range(len(every))) - {true}:
            a.append(psi[true] - psi[k])
            b.append(loss[k] - (values[true] - values[k]))
            slack_of.append(i)
    cost = np.full(len(lists), Exact(C) / len(lists))
    return Machine(np.array(a, Exact), np.array(b, Exact), np.array(slack_of), cost, False).bounds()


def _asked(name):
    """(problem, inputs, outputs, of each example (every output, K, Psi of each))."""
    base, inputs, outputs, known, listed = CASES[name](np.random.default_rng(0))
    problem, (x, y) = js.known_problem(base), padded(base.padding, inputs, outputs)
    size = jax.tree.leaves(y)[0].shape[1]
    feature, lists = jax.jit(partial(joint_feature, base)), []
    for i in range(len(jax.tree.leaves(y)[0])):
        every, values = listed(i, size)
        one = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], x)
        psi = np.array([_flat(feature(one, output)) for output in every])
        lists.append((every, np.array(values), psi))
    return problem, js.known_inputs(problem, inputs, known), outputs, lists


def _check_predictions(problem, weights, inputs, lists):
    found = js.predict(problem, weights, inputs)
    for i, (every, values, psi) in enumerate(lists):
        best = jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), found)
        unpadded = [leaf[leaf >= 0] for leaf in map(np.asarray, jax.tree.leaves(best))]
        right = jax.tree.leaves(every[int(np.argmax(psi @ _flat(weights) + values))])
        np.testing.assert_array_equal(
            np.concatenate(unpadded), np.concatenate([leaf[leaf >= 0] for leaf in right])
        )


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_those_of_all_outputs(name):
    problem, inputs, _, lists = _asked(name)
    random = np.random.default_rng(1)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    _check_predictions(problem, w, inputs, lists)


def test_a_training_of_chains_has_the_optimum_of_all_outputs():
    """Training of others reads theta alone, as predictions do."""
    problem, inputs, outputs, lists = _asked("chains")
    solution = js.fit(problem, inputs, outputs, "svm1_margin", C, tolerance=1e-6)
    low, high = _optimum(lists, outputs)
    assert solution.status is js.Status.CONVERGED
    assert solution.dual <= high * (1 + 1e-9) and low * (1 - 1e-9) <= solution.primal
    _check_predictions(problem, solution.weights, inputs, lists)


def test_a_model_of_prepare_keeps_that_it_takes_known_potentials(tmp_path):
    tokens = [np.ones((length, 1)) for length in LENGTHS]
    labels = [[0, 1, 0, 1][:length] for length in LENGTHS]
    known = {"emissions": [9.0 * np.eye(2)[own] for own in labels]}
    data = js.chains.prepare(tokens, labels, classes=[0, 1], known=known, dtype="float64")
    js.save(js.trained(data, data.problem.initial_weights), tmp_path / "model.npz")
    model = js.load(tmp_path / "model.npz")
    found = model.decode(js.predict(*model.on(tokens, known=known)))
    assert [list(one) for one in found] == labels
    refused("inputs must be a Known", model.predict, tokens)


def test_refusals():
    random = np.random.default_rng(0)
    base, inputs, _, known, _ = _chains(random)
    problem = js.known_problem(base)

    def of(name, leaves):
        return js.known_inputs, problem, inputs, known | {name: leaves}

    refused("potentials: give the problem", js.known_problem, problem)
    refused("must be of jaxstruct.known_problem", js.known_inputs, base, inputs, known)
    refused("theta of this problem has", *of("nodes", known["stop"]))
    refused(r"\[0\] must be \[length, 2\] numbers", *of("emissions", [np.ones((2, 3))] * 5))
    refused("entries in axis 0", *of("emissions", [np.ones((2, 2))] * 5))
    refused("4 examples, inputs have 5", *of("stop", known["stop"][:4]))
    refused(r"\[0\]\[0\] is nan: expected finite", *of("stop", [np.full(2, np.nan)] * 5))
    refused("inputs must be a Known", js.predict, problem, base.initial_weights, inputs)
