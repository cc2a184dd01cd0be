"""The most violated output against enumeration, on thousands of small cases full of ties."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty
from jaxstruct.solvers.objective.most_violated import most_violated


def required(formulation, loss, margins):
    """H(y) of algorithm 3, line 6 (and 1 - <w, dPsi> without a loss), written out."""
    root = np.sqrt(loss)
    return {
        "svm1_slack": (1 - margins) * loss,
        "svm1_margin": loss - margins,
        "svm2_slack": (1 - margins) * root,
        "svm2_margin": root - margins,
    }.get(formulation, 1 - margins)


def enumerated(formulation, loss, theta, y):
    """(argmax over y != y_i with ties to the lowest class, H of all classes)."""
    rows = np.arange(len(y))
    H = required(formulation, loss[y], theta[rows, y][:, None] - theta)
    H[rows, y] = -np.inf
    return H.argmax(axis=1), H


def compiled(k, dtype, formulation, loss):
    problem = multiclass(1, k, loss=loss, dtype=dtype)
    terms = penalty(FORMULATIONS[formulation], 1.0, np.ones(1), 1, dtype)

    def oracle(theta, y):
        found = most_violated(problem, "contenders", terms, theta, y)
        return found.output, found.loss, found.value

    return oracle


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_ties_go_to_the_lowest_class(x64, formulation, dtype):
    """Integer potentials and losses with integer roots: every H is exact, most cases tie."""
    random, ties = np.random.default_rng(0), 0
    for k in (2, 4, 5):
        loss = random.choice([0.0, 1.0, 4.0, 9.0], size=(k, k))
        np.fill_diagonal(loss, 0.0)
        theta = random.integers(-2, 3, (1500, k)).astype(dtype)
        y = random.integers(0, k, 1500).astype(np.int32)
        wanted, H = enumerated(formulation, loss, theta.astype(float), y)
        oracle = jax.jit(jax.vmap(compiled(k, dtype, formulation, loss)))
        found, its_loss, value = oracle(jnp.asarray(theta), jnp.asarray(y))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(its_loss, loss[y, wanted])
        np.testing.assert_array_equal(value, H.max(axis=1))
        assert (np.asarray(found) != y).all() and value.dtype == dtype
        ties += ((H == H.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum()
    assert ties > 200


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_real_potentials(x64, formulation):
    random = np.random.default_rng(1)
    loss = random.gamma(1.0, size=(6, 6))
    np.fill_diagonal(loss, 0.0)
    theta, y = random.normal(size=(2000, 6)), random.integers(0, 6, 2000).astype(np.int32)
    wanted, H = enumerated(formulation, loss, theta, y)
    oracle = jax.jit(jax.vmap(compiled(6, "float64", formulation, loss)))
    found, _, value = oracle(theta, y)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(value, H.max(axis=1), rtol=0, atol=1e-14)


@pytest.mark.smoke
def test_margins_and_slacks_choose_different_outputs():
    """(1 - m) Delta and Delta - m rank outputs differently: one oracle is not the other's."""
    loss = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    theta = jnp.asarray([2.0, 2.5, 0.0])
    slack = compiled(3, "float32", "svm1_slack", loss)(theta, jnp.int32(0))
    margin = compiled(3, "float32", "svm1_margin", loss)(theta, jnp.int32(0))
    assert (int(slack[0]), float(slack[2])) == (1, 1.5)
    assert (int(margin[0]), float(margin[2])) == (2, 2.0)
