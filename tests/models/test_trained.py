"""A model predicts in the caller's labels, and is only made of parts that belong together."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import Prepared, chains, fit, multiclass
from jaxstruct.baselines import perceptron
from jaxstruct.models.trained import trained
from tests.lib.refusals import refused
from tests.models.model_cases import ROWS, SEQUENCES, TAGS, model_of

LABELS = ["u", 1.5, "u"]
DATA = multiclass.prepare(ROWS, LABELS, classes=["u", 1.5])


@pytest.mark.smoke
def test_a_solution_says_how_it_was_found() -> None:
    solution = fit(*DATA, "svm2", C=10.0)
    model = trained(DATA, solution)
    assert model.predict(ROWS) == LABELS and model.problem is DATA.problem
    found = model.training
    assert (found.solver, found.status, found.formulation) == ("Solution", "CONVERGED", "svm2")
    assert (found.C, found.primal, found.dual, found.gap) == (
        solution.C, solution.primal, solution.dual, solution.gap,
    )  # fmt: skip
    assert "multiclass" in repr(model) and "status=CONVERGED" in repr(model)
    assert len(repr(model)) < 200


def test_baselines_and_weights_alone_make_models_too() -> None:
    model = trained(DATA, perceptron(*DATA))
    assert model.predict(ROWS) == LABELS and model.training.solver != "Solution"
    bare = trained(DATA, dict(model.weights))
    assert bare.predict(iter(ROWS)) == LABELS and set(bare.training) == {None}


def test_no_data_no_outputs() -> None:
    assert model_of("chain").predict([]) == [] and model_of("chain").predict([[]]) == [[]]


W = {"weights": np.zeros((5, 2), np.float32)}
WRONG = {
    "no data": (
        lambda: trained(DATA.problem, W), r"data must be a Prepared \(see prepare of an",
    ),
    "no encoding": (
        lambda: Prepared(DATA.problem, *DATA[1:], {}), "encoding must be that of prepare",
    ),
    "no weights": (lambda: trained(DATA, 3), "solution must hold weights, got 'int'"),
    "other names": (lambda: trained(DATA, {"w": W["weights"]}), "weights are"),
    "shape": (
        lambda: trained(DATA, {"weights": np.zeros((4, 2), np.float32)}),
        r"weights\['weights'\] is of shape \(4, 2\), the structure's of \(5, 2\)",
    ),
    "dtype": (
        lambda: trained(DATA, {"weights": np.zeros((5, 2), np.int32)}),
        r"weights\['weights'\] is int32, the structure's float32: its option dtype says which",
    ),
    "precision": (
        lambda: trained(DATA, {"weights": np.zeros((5, 2))}),
        r"weights\['weights'\] is float64, which jax is not set to hold: enable its x64 mode",
    ),
    "nan": (
        lambda: trained(DATA, {"weights": np.full((5, 2), np.nan, np.float32)}),
        r"weights\['weights'\] is not finite",
    ),
    "unknown option": (
        lambda: multiclass.prepare(ROWS, [1, 2, 1], los=1), "options .*unexpected keyword",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_parts_that_do_not_belong_together_are_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)


@pytest.mark.smoke
def test_prepared_data_are_what_trainers_take_and_keep_their_options() -> None:
    data = chains.prepare(iter(SEQUENCES), iter(TAGS), eta=0.5)
    problem, inputs, outputs = data
    assert (problem, inputs, outputs) == (data.problem, data.inputs, data.outputs)
    assert repr(data) == "Prepared(chain, eta=0.5)" and len(outputs) == len(SEQUENCES)
    model = trained(data, problem.initial_weights)
    assert model.options == {"eta": 0.5} and len(model.predict(SEQUENCES)) == len(SEQUENCES)
