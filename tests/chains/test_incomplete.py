"""Label sequences of which a part is known, against enumeration."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.chains.inputs import Constraints
from jaxstruct.core.contract import Incomplete, Truth
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
S, T, D = 3, 4, 2
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
RULES = Constraints(np.eye(S, dtype=bool)[[1, 2, 0]], np.zeros(S, bool), np.arange(S) == 2)
"""Some pairs, and the last label at the end, are forbidden."""


def drawn(seed: int, order: int, rules: Constraints | None, loss: object) -> tuple:
    """(problem, theta, possible [T, S], length, the sequences that are outputs [k, T])."""
    random = np.random.default_rng(seed)
    options = {"order": order, "start_stop": True, "constraints": rules, "loss": loss}
    problem = js.chains.chain(D, S, dtype="float64", **options)
    length = 3
    w = jax.tree.map(lambda leaf: jnp.asarray(random.normal(size=leaf.shape)),
                     problem.initial_weights)  # fmt: skip
    x = js.chains.chain_inputs(random.normal(size=(1, T, D)), np.array([length], np.int32))
    theta = problem.model.potentials(w, jax.tree.map(lambda leaf: leaf[0], x))
    outputs = [y for y in itertools.product(range(S), repeat=length) if allowed(rules, y)]
    true = outputs[random.integers(len(outputs))]
    possible = np.zeros((T, S), bool)
    possible[:length] = random.random((length, S)) < 0.5
    possible[np.arange(length), true] = True
    every = np.full((len(outputs), T), -1)
    every[:, :length] = outputs
    return problem, theta, possible, length, every


def allowed(rules: Constraints | None, y: tuple[int, ...]) -> bool:
    if rules is None:
        return True
    pairs = any(rules.transitions[a, b] for a, b in itertools.pairwise(y))
    return not (pairs or rules.start[y[0]] or rules.stop[y[-1]])


@pytest.mark.parametrize(
    "loss", ["hamming", "normalised_hamming", COSTS], ids=["0/1", "n", "costs"]
)
@pytest.mark.parametrize("rules", [None, RULES], ids=["free", "rules"])
@pytest.mark.parametrize("order", [1, 2])
def test_what_agrees_is_found_and_costs_nothing(order: int, rules, loss) -> None:
    for seed in range(8):
        problem, theta, possible, length, every = drawn(seed, order, rules, loss)
        F = np.array([float(problem.model.score(theta, y)) for y in every])
        agrees = possible[np.arange(length), every[:, :length]].all(axis=1)
        h = np.asarray(problem.model.complete(theta, possible))
        best = every[agrees][np.argmax(F[agrees])]
        np.testing.assert_array_equal(h[:length], best[:length])

        truth = Truth(jnp.asarray(best, jnp.int32), jnp.asarray(possible))
        table = COSTS if loss is COSTS else 1 - np.eye(S)
        cheapest = [table[own].min(axis=0) for own in possible[:length]]
        wanted = np.array([sum(c[s] for c, s in zip(cheapest, y, strict=False)) for y in every])
        wanted = wanted / length if loss is not COSTS and loss[0] == "n" else wanted
        delta = jax.vmap(partial(problem.model.loss, truth))(jnp.asarray(every, jnp.int32))
        np.testing.assert_allclose(delta, wanted, atol=1e-12)
        assert not delta[agrees].any()

        worst = np.asarray(problem.oracles.loss_augmented_decode(theta, truth, jnp.ones(())))
        place = int(np.flatnonzero((every[:, :length] == worst[:length]).all(axis=1))[0])
        assert F[place] + wanted[place] == pytest.approx((F + wanted).max(), abs=1e-9)


@pytest.mark.parametrize("rules", [None, RULES], ids=["free", "rules"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_likelihood_is_that_of_all_that_agree(order: int, rules) -> None:
    for seed in range(4):
        problem, theta, possible, length, every = drawn(seed, order, rules, "hamming")
        agrees = possible[np.arange(length), every[:, :length]].all(axis=1)
        truth = Truth(problem.model.complete(theta, possible), jnp.asarray(possible))

        def listed(emissions, theta=theta, every=every, agrees=agrees, problem=problem):
            own = theta._replace(emissions=emissions)
            F = jnp.stack([problem.model.score(own, y) for y in every])
            return jax.nn.logsumexp(F) - jax.nn.logsumexp(jnp.where(agrees, F, -jnp.inf))

        def own(emissions, theta=theta, truth=truth, problem=problem):
            return problem.inference.log_loss(theta._replace(emissions=emissions), truth)

        found, wanted = (jax.value_and_grad(each)(theta.emissions) for each in (own, listed))
        np.testing.assert_allclose(found[0], wanted[0], atol=1e-10)
        np.testing.assert_allclose(found[1][:length], wanted[1][:length], atol=1e-10)
        assert np.isfinite(found[1]).all()


SEQUENCES = [[["a"], ["b"], ["a"]], [["b"]], [["c"], ["a"]]]


def test_none_and_sets_of_labels_are_tables_of_what_is_possible() -> None:
    data = js.chains.prepare(SEQUENCES, [["x", None, {"x", "z"}], ["y"], [{"z"}, "y"]])
    assert data.encoding.codec.classes == ("x", "y", "z")
    assert isinstance(data.outputs, Incomplete)
    np.testing.assert_array_equal(
        data.outputs.known.rows,
        [[1, 0, 0], [1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 1], [0, 1, 0]],
    )
    assert data.outputs.known.offsets.tolist() == data.outputs.output.offsets.tolist()
    whole = js.chains.prepare(SEQUENCES, [["x", "y", "z"], ["y"], ["z", "y"]])
    assert isinstance(whole.outputs, js.Ragged)
    for labels, words in (
        ([["x", set(), "y"], ["y"], ["z", "y"]], r"labels\[0\]\[1\] is an empty set"),
        ([["x", None, "y"], [{"q"}], ["z", "y"]], r"labels\[1\]\[0\]: 'q' is none of the 3"),
        ([["x", np.nan, None], ["y"], ["z", "y"]], "got nan, a missing label"),
        ([[None] * 3, [None], [None] * 2], "got none"),
    ):
        known = "xyz" if "none of" in words else None
        refused(words, js.chains.prepare, SEQUENCES, labels, classes=known)


def test_what_no_output_agrees_with_is_refused() -> None:
    rules = Constraints(np.array([[0, 1], [0, 0]], bool), np.zeros(2, bool), np.zeros(2, bool))
    labels = [["x", None, "y"], ["y"], ["y", None]]  # x is never before y
    data = js.chains.prepare(SEQUENCES, labels, constraints=rules)
    refused(r"outputs\[0\] does not agree with what is known", js.fit_latent, *data)
