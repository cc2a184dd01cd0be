"""What `chain` and `chain_inputs` refuse: one line that names the argument."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import fit
from jaxstruct.chains.structure import Constraints, chain, chain_inputs
from jaxstruct.core.types import SparseFeatures
from tests.lib.refusals import refused

N, T, D, S = 4, 3, 5, 2
RANDOM = np.random.default_rng(0)
TOKENS = RANDOM.normal(size=(N, T, D)).astype(np.float32)
LENGTH = np.array([3, 2, 3, 1])
TOKENS[np.arange(T) >= LENGTH[:, None]] = 0
Y = np.where(np.arange(T) < LENGTH[:, None], 1, -1)


@pytest.mark.parametrize(
    "arguments, options, match",
    [
        ((3.0, 3), {}, r"number_of_features must be .* Python integer, got 3.0 \(float\)"),
        ((3, 3.0), {}, "number_of_labels must be .* got 3.0"),
        ((True, 3), {}, "number_of_features must be .* got True"),
        ((0, 3), {}, "number_of_features must be at least 1, got 0"),
        ((3, 1), {}, "number_of_labels must be at least 2, got 1"),
        ((TOKENS, 3), {}, r"number_of_features must be .* got ndarray float32 of shape"),
        ((3, 3), {"eta": -1.0}, "eta must be finite and >= 0, got -1.0"),
        ((3, 3), {"eta": "1"}, "eta must be finite and >= 0, one number, got '1'"),
        ((3, 3), {"order": 3}, "order must be 1 or 2"),
        ((3, 3), {"order": 1.0}, "order must be 1 or 2"),
        ((3, 3), {"start_stop": "no"}, "start_stop must be True or False, got 'no'"),
        ((3, 3), {"dtype": "int32"}, 'dtype must be "float32" or "float64", got .int32.'),
        ((3, 3), {"dtype": 3}, "dtype must be"),
        ((3, 3), {"loss": "hamming loss"}, "loss is 'hamming loss'; choose one of"),
        ((3, 3), {"loss": lambda level, length: jnp.eye(3)}, "loss must be a function .*matrix"),
        (
            (3, 3),
            {"loss": lambda level, length: [[0, 1], [1, 0]]},
            "loss must be a function .*matrix",
        ),
        ((3, 3), {"loss": lambda level: level}, "loss must be a function .* it raised TypeError"),
        (
            (3, 3),
            {"loss": lambda level, length: 1.0 if level > 0 else 0.0},
            "loss must be .*jnp.where",
        ),
        ((3, 3), {"loss": lambda level, length: "one"}, "loss must be a function"),
        ((3, 3), {"loss": [[0, 1], [1]]}, r"loss must be \[S = 3, S = 3\] numbers, .* give a name"),
        ((3, 3), {"loss": [["0", "1"], ["1", "0"]]}, "loss must be .* numbers, got <U1"),
        ((3, 3), {"loss": np.ones((3, 3))}, r"loss\[0, 0\] is 1.0: expected 0 on the diagonal"),
        ((3, 3), {"loss": None}, "loss must be"),
        ((3, 3), {"constraints": np.zeros((3, 3), bool)}, "constraints must be a Constraints .see"),
        (
            (3, 3),
            {"constraints": Constraints(np.zeros((3, 3)), np.zeros(3, bool), np.zeros(3, bool))},
            "constraints.transitions must be .S = 3, S = 3. bools, got float64",
        ),
    ],
)
def test_options(arguments, options, match):
    refused(match, chain, *arguments, **options)


@pytest.mark.parametrize(
    "arguments, match",
    [
        ((LENGTH, TOKENS), r"features must be .* of shape \(4,\): chain_inputs\(feat"),
        ((TOKENS[0], LENGTH), r"features must be \[n, T, d\], got .* of shape \(3, 5\)"),
        (([[[1.0]], [[1.0], [2.0]]], [1, 2]), "features must be"),
        (("tokens", LENGTH), "features must be"),
        ((TOKENS, LENGTH.astype(float)), r"length must be \[n = 4\] integers, got float64"),
        ((TOKENS, LENGTH + 2**32), r"length\[0\] is 4294967299: expected 0..3"),
        ((TOKENS, LENGTH - 2), r"length\[3\] is -1: expected 0..3"),
        ((TOKENS, LENGTH + 1), r"length\[0\] is 4: expected 0..3, the padded length \(2 such\)"),
        ((TOKENS, LENGTH[:2]), r"length must be \[n = 4\] integers, got int64 of shape \(2,\)"),
        ((TOKENS, 3), r"length must be \[n = 4\] integers"),
        ((TOKENS, None), "length must be"),
        ((TOKENS, LENGTH, np.ones((N, T))), "gram must be .n = 4, T = 3, T = 3., got"),
    ],
)
def test_inputs(arguments, match):
    refused(match, chain_inputs, *arguments)


def test_lengths_that_wrap_are_refused_by_fit():
    """Also where the record was made by hand."""
    x = chain_inputs(TOKENS, LENGTH)
    problem = chain(D, S)
    refused(r"inputs.length\[0\] is 4294967299", fit, problem, x._replace(length=LENGTH + 2**32), Y)
    refused(
        "inputs.length must be .* got float64",
        fit,
        problem,
        x._replace(length=LENGTH.astype(float)),
        Y,
    )


def sparse(tokens):
    indices = np.broadcast_to(np.arange(D, dtype=np.int32), tokens.shape)
    return SparseFeatures(np.where(tokens != 0, indices, D).astype(np.int32), tokens)


def changed(gram, *place):
    gram = np.array(gram)
    gram[place] += 0.5
    return gram


@pytest.mark.parametrize("kind", [lambda tokens: tokens, sparse])
def test_gram_matrices_of_other_tokens(kind):
    problem, x = chain(D, S), chain_inputs(kind(TOKENS), LENGTH)
    gram = x.gram
    stale = {
        "of rows in another order": gram[::-1],
        "of scaled tokens": 4 * gram,
        "of one entry": changed(gram, 2, 1, 1),
    }
    for wrong in stale.values():
        refused(
            r"inputs.gram\[\d, \d, \d\] is .* leave gram out",
            fit,
            problem,
            x._replace(gram=wrong),
            Y,
        )
    # equal norms on the diagonal, other products beside it: row i % length of each is compared
    refused(r"inputs.gram\[2, 2, 0\] is", fit, problem, x._replace(gram=changed(gram, 2, 2, 0)), Y)
    problem.check(x._replace(gram=changed(gram, 1, 2, 2)), Y)  # padding is never read


def test_features_named_twice():
    x = chain_inputs(sparse(TOKENS), LENGTH)
    indices = np.array(x.features.indices)
    indices[2, 1, 3] = indices[2, 1, 0]
    twice = SparseFeatures(indices, x.features.values)
    message = r"inputs.features.indices\[2\]\[1\] names feature 0 twice: add the values"
    refused(message, fit, chain(D, S), chain_inputs(twice, LENGTH), Y)
