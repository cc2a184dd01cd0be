"""The perturbed loss: exactly the mean that it says for a key, and what its mean over keys is."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.assignments.potentials import MatchingTheta
from jaxstruct.losses.one_call import perturbed
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.losses.cases import B, assert_slopes, case, differentiated, flat, softmax_truth
from tests.losses.cases import truth as enumerated

pytestmark = pytest.mark.usefixtures("x64")


def keys() -> jax.Array:
    return jax.random.split(jax.random.key(3), B)


@pytest.mark.parametrize(
    "output_type", thorough_after(2, ["classes", "chains", "alignments", "graphs"])
)
def test_the_gradient_is_that_of_the_mean_for_a_key(output_type: str) -> None:
    given = case(output_type)
    loss = partial(perturbed, samples=3, scale=0.5)
    run = differentiated(loss, given.problem, key=keys())
    value, _ = run(given.theta, given.y)
    assert (np.asarray(value) >= 0).all() and np.asarray(value).max() > 0.5
    assert_slopes(run, given)


def test_classes_have_the_log_loss_in_the_mean() -> None:
    given, own = case("classes"), enumerated("classes")
    value, gradient = differentiated(partial(perturbed, samples=20_000), given.problem, key=keys())(
        given.theta, given.y
    )
    wanted, slope = softmax_truth(own, own.advantage)
    np.testing.assert_allclose(value, wanted, rtol=0, atol=0.05)
    np.testing.assert_allclose(flat(gradient), slope, rtol=0, atol=0.02)


def test_outputs_of_more_potentials_are_not_preferred() -> None:
    """Of two items matched, or of both alone: one noisy potential or two, all of mean 0."""
    both = js.assignments.assignment(1, unmatched=True, dtype="float64")
    theta = MatchingTheta(
        np.zeros((1, 1)), np.ones((1, 1), bool), *np.zeros((2, 1)), np.ones(2, int)
    )
    run = jax.jit(partial(perturbed, both, theta, key=jax.random.key(0), samples=4000))
    matched, alone = (run(y=np.array([y], np.int32)) for y in (0, -1))
    assert abs(matched - alone) < 0.15 and matched > 0.5


def test_another_key_is_another_sample() -> None:
    given = case("classes")
    of = jax.jit(partial(perturbed, given.problem, given.theta[1], jnp.asarray(given.y[1])))
    one, again, other = (of(jax.random.key(seed)) for seed in (0, 0, 1))
    assert one == again != other
    assert of(jax.random.PRNGKey(0)) > 0  # keys of the old kind, too


def test_what_does_not_fit_is_refused_in_one_line() -> None:
    given = case("classes")
    of = partial(perturbed, given.problem, given.theta[1], jnp.asarray(given.y[1]))
    key = jax.random.key(0)
    refused("key must be ONE key", of, 0)
    refused("use jax.vmap", lambda: of(jax.random.split(key, 3)))
    refused("samples", of, key, samples=0)
    refused("scale", of, key, scale=-1.0)
