"""Dtypes of examples on the device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.baselines.examples import on_device, without_gram
from jaxstruct.baselines.perceptron import perceptron
from tests.baselines.sequences import PLAIN, random_sequences


def test_floats_follow_the_run_and_integers_are_int32(x64: None) -> None:
    tree = np.ones(2), np.ones(2, np.float32), np.arange(2), np.array([True, False])
    for dtype in (jnp.float32, jnp.float64):
        found = on_device(tree, jnp.dtype(dtype))
        assert [leaf.dtype for leaf in found] == [dtype, dtype, jnp.int32, bool]
        jax.tree.map(np.testing.assert_array_equal, found, tree)


def test_a_chain_loses_its_gram_and_others_lose_nothing() -> None:
    x = random_sequences(0, n=3, T=2, d=2, S=2).inputs()
    lean = without_gram(x)
    assert lean.gram is None and lean.features is x.features and lean.length is x.length
    assert without_gram(x.features) is x.features


def test_float64_tokens_train_a_float32_problem_where_float64_is_on(x64: None) -> None:
    data = random_sequences(1, n=4, T=3, d=2, S=2)
    assert data.tokens.dtype == np.float64
    for found in (
        fit_random_field(data.problem(PLAIN), data.inputs(), data.y, max_iterations=2),
        perceptron(data.problem(PLAIN), data.inputs(), data.y, max_epochs=2),
    ):
        assert {leaf.dtype for leaf in jax.tree.leaves(found.weights)} == {jnp.dtype("float32")}
