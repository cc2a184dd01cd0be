"""The interval of a binary machine holds its optimum wherever its features lie."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.machines.binary import fit_binary
from experiments.machines.output_codes import fit_output_code, one_against_all_code
from jaxstruct.core.status import Status
from tests.experiments.machines.binary_certificate_runs import Case, judged, run

N = 16


def verdict(case):
    found = fit_binary(
        case.inputs(), case.signs, case.formulation, case.C, number_of_features=3,
        tolerance=case.tolerance, dtype=case.dtype,
    )  # fmt: skip
    return judged(case, found, 0)


def drawn(seed, mean, C, kind="dense", formulation="svm1", dtype="float32", tolerance=1e-3):
    random = np.random.default_rng(seed)
    spread = random.normal(size=(N, 3))
    signs = np.where(random.random(N) < 0.5, 1, -1)
    if formulation == "svm0":
        signs = np.where(spread[:, 0] > np.median(spread[:, 0]), 1, -1)
    x = (spread + mean).astype(dtype)
    return Case(x, signs[:, None], C, kind, formulation, dtype, tolerance, mean)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("mean, C", [(50, 512.0), (200, 512.0), (5, 8192.0)])
@pytest.mark.parametrize("formulation", ["svm1", "svm2"])
def test_the_interval_holds_the_optimum_where_the_mean_is_not_zero(kind, mean, C, formulation):
    for seed in range(4):
        said = verdict(drawn(seed, mean, C, kind, formulation))
        assert said == ("CONVERGED", 0, 0, 0, True), (seed, said)


@pytest.mark.thorough
def test_float64_holds_it_at_means_of_a_million(x64):
    for seed in range(4):
        said = verdict(drawn(seed, 1e6, 512.0, dtype="float64", tolerance=1e-6))
        assert said == ("CONVERGED", 0, 0, 0, True), (seed, said)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_example_that_lies_far_off_does_not_move_the_centre(kind):
    case = drawn(0, 0, 32.0, kind)
    case.x[0] = 1e6
    assert verdict(case) == ("CONVERGED", 0, 0, 0, True)


@pytest.mark.thorough
def test_far_kernel_values_are_not_said_to_be_inseparable(x64):
    for seed in range(3):
        case = drawn(seed, 1e6, 1.0, "kernel", "svm0", "float64")
        found = fit_binary(case.inputs(), case.signs, "svm0", dtype="float64")
        assert found.status in (Status.CONVERGED, Status.ROUNDING), (seed, found)


def test_numbers_beyond_the_dtype_are_said_to_be_so():
    case = drawn(0, 0, 32.0)
    found = fit_binary(1e25 * case.x.astype(float), case.signs)
    assert found.status is Status.NOT_FINITE and found.steps[0] == 0


@pytest.mark.parametrize("mean, wanted", [(0, "CONVERGED"), (5, "CONVERGED"), (200, "ROUNDING")])
def test_the_dtype_of_kernel_values_is_counted(mean, wanted):
    for seed in range(4):
        said = verdict(drawn(seed, mean, 32.0, "kernel"))
        assert said.status == wanted and not said.outside and not said.above, (seed, said)


@pytest.mark.parametrize("mean", [0, 20])
def test_a_hard_margin_is_scaled_to_one(mean):
    for seed in range(4):
        case = drawn(seed, mean, 1.0, formulation="svm0")
        found = fit_binary(case.x, case.signs, "svm0")
        w, b = (found.weights[name][..., 0].astype(float) for name in ("weights", "bias"))
        assert found.status is Status.CONVERGED
        assert np.min(case.signs[:, 0] * (case.x @ w + b)) >= 1
        np.testing.assert_allclose(w @ w / 2, found.primal[0], rtol=1e-12)
        assert judged(case, found, 0) == ("CONVERGED", 0, 0, 0, True)


@pytest.mark.parametrize("number", [524, 1810])
def test_a_hard_margin_is_scaled_again_where_rounding_takes_more(number):
    _, verdicts = run(7, number, most=40)
    assert set(verdicts) == {("CONVERGED", 0, 0, 0, True)}


def test_digits_of_a_code_at_a_large_constant():
    digits, C = load_digits(), 1e5
    x, y, code = digits.data[:600], digits.target[:600], one_against_all_code(10)
    found = fit_output_code(x.astype(np.float32), y, code, "svm1", C)
    w, b = (found.weights[name].astype(float) for name in ("weights", "bias"))
    slack = np.maximum(0, 1 - code[y] * (x @ w + b))
    primal = np.sum(w * w, axis=0) / 2 + C / 600 * np.sum(slack, axis=0)
    assert found.status is Status.CONVERGED
    assert np.all(primal <= found.primal + found.rounding)
    beta = found.alpha * code[y].T
    assert np.all((found.alpha >= 0) & (found.alpha <= C / 600))
    dual = np.sum(found.alpha, axis=1) - np.sum((beta @ (x - x.mean(0))) ** 2, axis=1) / 2
    assert np.all(np.abs(beta.sum(1)) <= 1e-12 * found.alpha.sum(1))
    assert np.all(found.dual - found.rounding <= dual * (1 + 1e-12))
