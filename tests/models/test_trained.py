"""A model predicts in the caller's labels, and is only made of parts that belong together."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import chains, fit, multiclass
from jaxstruct.baselines import perceptron
from jaxstruct.models import trained
from tests.lib.refusals import refused
from tests.models.model_cases import ROWS, SEQUENCES, TAGS, model_of

LABELS = ["u", 1.5, "u"]
ENCODING = multiclass.fit_encoding(ROWS, LABELS, classes=["u", 1.5])
PROBLEM = ENCODING.problem()


@pytest.mark.smoke
def test_a_solution_tells_how_it_was_found() -> None:
    x, y = ENCODING.inputs(ROWS), ENCODING.outputs(LABELS)
    solution = fit(PROBLEM, x, y, "svm2", C=10.0)
    model = trained(ENCODING, PROBLEM, solution)
    assert model.predict(ROWS) == LABELS
    told = model.training
    assert (told.solver, told.status, told.formulation) == ("Solution", "CONVERGED", "svm2")
    assert (told.C, told.primal, told.dual, told.gap) == (
        solution.C, solution.primal, solution.dual, solution.gap,
    )  # fmt: skip
    assert "multiclass" in repr(model) and "status=CONVERGED" in repr(model)
    assert len(repr(model)) < 200


def test_baselines_and_weights_alone_make_models_too() -> None:
    x, y = ENCODING.inputs(ROWS), ENCODING.outputs(LABELS)
    model = trained(ENCODING, PROBLEM, perceptron(PROBLEM, x, y))
    assert model.predict(ROWS) == LABELS and model.training.solver != "Solution"
    bare = trained(ENCODING, PROBLEM, dict(model.weights))
    assert bare.predict(ROWS) == LABELS and set(bare.training) == {None}


def test_no_data_no_outputs() -> None:
    assert model_of("chain").predict([]) == [] and model_of("chain").predict([[]]) == [[]]


W = {"weights": np.zeros((5, 2), np.float32)}
WRONG = {
    "no encoding": (lambda: trained(PROBLEM, PROBLEM, W), "encoding must be made by fit_encoding"),
    "the order": (lambda: trained(ENCODING, W, PROBLEM), "problem must be that of encoding.prob"),
    "no weights": (lambda: trained(ENCODING, PROBLEM, 3), "solution must hold weights, got 'int'"),
    "other names": (lambda: trained(ENCODING, PROBLEM, {"w": W["weights"]}), "weights are"),
    "shape": (
        lambda: trained(ENCODING, PROBLEM, {"weights": np.zeros((4, 2), np.float32)}),
        r"weights\['weights'\] is of shape \(4, 2\), the structure's of \(5, 2\)",
    ),
    "dtype": (
        lambda: trained(ENCODING, PROBLEM, {"weights": np.zeros((5, 2), np.int32)}),
        r"weights\['weights'\] is int32, the structure's float32: its option dtype says which",
    ),
    "precision": (
        lambda: trained(ENCODING, PROBLEM, {"weights": np.zeros((5, 2))}),
        r"weights\['weights'\] is float64, which jax is not set to hold: enable its x64 mode",
    ),
    "nan": (
        lambda: trained(ENCODING, PROBLEM, {"weights": np.full((5, 2), np.nan, np.float32)}),
        r"weights\['weights'\] is not finite",
    ),
    "options": (
        lambda: trained(ENCODING, PROBLEM, W, loss=2 * (1 - np.eye(2))),
        "problem is not what encoding.problem makes with the options",
    ),
    "unknown option": (lambda: trained(ENCODING, PROBLEM, W, los=1), "options .*unexpected keywor"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_parts_that_do_not_belong_together_are_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)


def test_options_that_change_no_shape_must_be_told() -> None:
    """eta scales what predictions see of the transitions."""
    encoding = chains.fit_encoding(SEQUENCES, TAGS)
    problem = encoding.problem(eta=0.5)
    w = {key: np.zeros(leaf.shape, np.float32) for key, leaf in problem.initial_weights.items()}
    refused("problem is not what encoding.problem makes", trained, encoding, problem, w)
    assert trained(encoding, problem, w, eta=0.5).options == {"eta": 0.5}
