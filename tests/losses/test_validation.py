"""What every loss refuses, in one line."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.losses import log_loss, perceptron, smoothed_hinge, structured_hinge
from tests.alignments.structure_cases import padded_inputs, padded_outputs
from tests.lib.refusals import refused

LOSSES = (log_loss, perceptron, smoothed_hinge, structured_hinge)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_example_of_a_problem_is_wanted(loss) -> None:
    problem = js.multiclass.multiclass(2, 3)
    theta, y = np.zeros(3, np.float32), np.int32(1)
    assert jax.eval_shape(loss, problem, theta, y).shape == ()
    for wrong, message in [
        (("chain", theta, y), "problem must be a jaxstruct.Problem, got 'chain'"),
        ((problem, np.zeros(3, int), y), "theta must hold floating-point potentials"),
        ((problem, np.zeros((5, 3), np.float32), np.zeros(5, int)), r"ONE example.*\(5, 3\)"),
        ((problem, theta, np.zeros(5, int)), "mean_loss over a batch"),
        ((problem, {"theta": theta}, y), "theta and y must be those of ONE example"),
    ]:
        refused(message, loss, *wrong)


def test_a_batch_of_chains_without_vmap_is_refused() -> None:
    problem = js.chains.chain(2, 3)
    x = js.chains.ChainInput(jnp.zeros((5, 4, 2)), jnp.full(5, 4), None)
    theta = problem.model.potentials(problem.initial_weights, x)
    for loss in LOSSES:
        refused("of ONE example", loss, problem, theta, jnp.zeros((5, 4), jnp.int32))


def test_formulations_are_named() -> None:
    problem = js.multiclass.multiclass(2, 3)
    with refused("formulation is 'svm0'; choose one of"):
        structured_hinge(problem, jnp.zeros(3), jnp.int32(0), "svm0")
    alignments = js.alignments.pairwise_alignment(3)
    x = padded_inputs([np.array([0])], [np.array([1])], (2, 2))
    y = padded_outputs([np.array([0])], None, 4)
    x, y = jax.tree.map(lambda leaf: leaf[0], (x, y))
    theta = alignments.model.potentials(alignments.initial_weights, x)
    with refused("svm2_margin needs the loss levels"):
        structured_hinge(alignments, theta, y, "svm2_margin")
