"""The perceptron's loss against every output of small examples."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.losses.one_call import perceptron
from tests.lib.thorough import thorough_after
from tests.losses.cases import OUTPUT_TYPES, answers, assert_among

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("output_type", thorough_after(2, OUTPUT_TYPES))
def test_values_and_gradients_are_those_of_enumeration(output_type: str) -> None:
    own, value, slope = answers(perceptron, output_type)
    excess = own.advantage.max(axis=1)
    assert (excess >= 0).all() and (excess > 0).sum() >= 3
    np.testing.assert_allclose(value, excess, rtol=1e-9, atol=1e-9)
    best = own.advantage >= excess[:, None] - 1e-9
    assert_among(slope, own, best, np.ones_like(own.delta) * (excess > 0)[:, None])
