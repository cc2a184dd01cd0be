"""The rows of table 4.5 on a small draw: what each predicts, and the kernels that they see."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.string_mapping.generator import Pairs
from experiments.string_mapping.methods import METHODS, Kernels, Machine, kernels_of, predicted

MACHINE = Machine(C=1000.0, sigma=0.0, tolerance=1e-2, seed=0, dtype="float32")
INPUTS = ["abcabcabca", "cdcdcdcdcd", "aaaaaaaaaa", "abcabcabcc", "cdcdcdcddd", "aaaaaaaaab"] * 3
OUTPUTS = ["abad", "aabc", "bbbb", "abad", "aabc", "bbbb"] * 3
PAIRS = Pairs(INPUTS, OUTPUTS, np.array([0, 1, 2] * 6))
TRAIN, TEST = np.arange(12), np.arange(12, 18)


@pytest.fixture(scope="module")
def own() -> Kernels:
    return kernels_of(PAIRS, 0.01, (3, 3), "own")


@pytest.mark.parametrize("name", METHODS)
def test_strings_that_are_told_apart_are_read(own: Kernels, name: str) -> None:
    found, detail = predicted(name, own, TRAIN, TEST, MACHINE)
    want = own.numbers[TEST]
    if name == "baseline":
        assert (found == own.numbers[0]).all()
    else:
        np.testing.assert_array_equal(found, want)
        assert detail


def test_another_training_set_of_the_same_sizes_compiles_nothing(own: Kernels) -> None:
    predicted("SVM2", own, TRAIN, TEST, MACHINE)
    detail = predicted("SVM2", own, TRAIN + 3, TEST, MACHINE)[1]
    assert detail["compilations"] == 0


def test_a_gaussian_serves_the_machines_too(own: Kernels) -> None:
    machine = MACHINE._replace(sigma=1.0)
    found, detail = predicted("SVM2 Δm", own, TRAIN, TEST, machine)
    np.testing.assert_array_equal(found, own.numbers[TEST])
    plain = predicted("SVM2 Δm", own, TRAIN, TEST, MACHINE)[1]
    assert detail["status"] == "CONVERGED" and detail["primal"] != plain["primal"]


def test_short_outputs_are_like_themselves_or_like_nothing() -> None:
    pairs = Pairs(["abcabcabca"] * 3, ["ab", "abad", "ba"], np.zeros(3, int))
    own, none = (kernels_of(pairs, 0.01, (3, 3), short) for short in ("own", "none"))
    np.testing.assert_allclose(np.diag(own.outputs)[:3], 1, rtol=1e-6)
    np.testing.assert_allclose(np.diag(none.outputs)[:3], [0, 1, 0], rtol=1e-6)
    for kernels in (own, none):
        assert kernels.loss[0, 2] == 1 and not np.diag(kernels.loss).any()
        assert not kernels.outputs[3:].any()
