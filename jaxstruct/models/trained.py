"""A trained model: what the data mean, the structure, the weights, and how they were found."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.checks import NoOutput, check_choice, check_record, collected, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.known import known_inputs
from jaxstruct.core.prepared import Encoding, Prepared, held, problem_of
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.predict import predict


class Training(NamedTuple):
    """How weights were found; None where the solver does not say.

    Fields:
      solver: the name of the record that the solver returned. status: how the run ended.
      formulation, C: what was solved. primal, dual, gap: what was certified.
    """

    solver: str | None = None
    status: str | None = None
    formulation: str | None = None
    C: float | None = None
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None


class ModelWeights(NamedTuple):
    """The weights of a model. solver: the record that they were found in, None where unknown."""

    weights: dict[str, np.ndarray]
    solver: str | None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """All that predicting needs. Made by `trained` or `load`.

    Fields:
      encoding: of the training data, see `prepare` of each output type.
      options: of `encoding.problem`, that make the problem that was trained.
      weights: w, a dict of NumPy arrays as problem.initial_weights.
      training: how they were found.
      version: of jaxstruct that trained it.
    """

    encoding: Encoding
    options: Mapping[str, Any]
    weights: Mapping[str, np.ndarray]
    training: Training
    version: str

    @functools.cached_property
    def problem(self) -> Problem:
        """The structure; ValueError where options or weights do not fit the encoding."""
        _check_precision(self.weights)
        problem = problem_of(self.encoding, self.options)
        _check_weights(problem, self.weights)
        return problem

    def on(self, data: Any, known: Any = None) -> tuple[Problem, ModelWeights, PyTree]:
        """(problem, weights, inputs) of n examples, which `predict` and `confidence` take first.

        A model that was trained beside known potentials takes those of these examples, too.

        best = js.confidence.k_best(*model.on(rows), k=3)
        labels = model.decode(best.outputs[1], rows)
        """
        weights = ModelWeights(dict(self.weights), self.training.solver)
        inputs = self.encoding.inputs(held(data))
        if known is not None:
            inputs = known_inputs(self.problem, inputs, known)
        return self.problem, weights, inputs

    def decode(self, outputs: Any, data: Any = None) -> list:
        """Outputs, such as `jaxstruct.predict` and `confidence` return them, in labels of data."""
        return self.encoding.decode(outputs, data)

    def predict(self, data: Any, *, batch: int = 1024, no_output: str = "none") -> list:
        """The outputs of n inputs, in the caller's labels and order.

        Args:
          data: n inputs as the encoding takes them. batch: inputs decoded together, at most.
          no_output: what becomes of an input that has no output at all: a sentence without a tree
            of the grammar, a sequence of a length for which the constraints allow no labels, sets
            whose pairs allow no complete matching. "none": None stands in the place of its output.
            "raise": a ValueError (`NoOutput`) names it and says why.

        Returns:
          What `encoding.decode` makes of the argmax of each: labels, lists of labels, trees, rows
          with gaps, sets of labels or candidates.

        Raises:
          ValueError: data do not fit the encoding; as no_output says.
        """
        check_choice("no_output", no_output, ("none", "raise"))
        data = held(data)
        if isinstance(data, (list, tuple)) and not data:
            return []
        try:
            found = self.decode(predict(*self.on(data), batch=batch), data)
        except NoOutput as error:
            if no_output == "raise":
                raise
            none = set(error.which.tolist())
            kept = [x for i, x in enumerate(data) if i not in none]
            with collected(UnseenFeatures):  # reported before
                others = iter(self.predict(kept, batch=batch))
            return [None if i in none else next(others) for i in range(len(data))]
        none = [i for i, one in enumerate(found) if one is None]
        if none and no_output == "raise":
            raise NoOutput(none, ["no tree of the grammar has its tokens"] * len(none))
        return found

    def __repr__(self) -> str:
        """One line without the arrays."""
        size = sum(leaf.size for leaf in self.weights.values())
        facts = [
            f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.training._asdict().items()
            if value is not None
        ]
        return f"TrainedModel({', '.join([self.encoding.structure, f'{size} weights', *facts])})"


def _check_precision(weights: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError where jax is not set to hold the weights as they are."""
    for name, leaf in weights.items():
        if jax.dtypes.canonicalize_dtype(leaf.dtype) != leaf.dtype:
            raise ValueError(
                f"weights[{name!r}] is {leaf.dtype}, which jax is not set to hold: enable its x64 "
                "mode, as when it was trained"
            )


def _check_weights(problem: Problem, weights: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless weights are those of a problem, in shape and dtype."""
    wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in problem.initial_weights.items()}
    found = {name: (leaf.shape, leaf.dtype) for name, leaf in weights.items()}
    if set(wanted) != set(found):
        raise ValueError(f"weights are {sorted(found)}, the structure has {sorted(wanted)}")
    for name, (shape, dtype) in found.items():
        if shape != wanted[name][0]:
            raise ValueError(
                f"weights[{name!r}] is of shape {shape}, the structure's of {wanted[name][0]}"
            )
        if dtype != wanted[name][1]:
            raise ValueError(
                f"weights[{name!r}] is {dtype}, the structure's {wanted[name][1]}: its option "
                "dtype says which"
            )
    wrong = [name for name, leaf in weights.items() if not np.isfinite(leaf).all()]
    if wrong:
        raise ValueError(f"weights[{wrong[0]!r}] is not finite")


def _training_of(solution: Any) -> Training:
    """What a solution says of itself; weights say nothing."""
    if not isinstance(solution, tuple) or not hasattr(solution, "weights"):
        return Training()

    def read(name: str, kind: type) -> Any:
        value = getattr(solution, name, None)
        return None if value is None or np.ndim(value) else kind(value)

    status = getattr(solution, "status", None)
    return Training(
        type(solution).__name__,
        None if status is None else str(getattr(status, "name", status)),
        read("formulation", str),
        *(read(name, float) for name in ("C", "primal", "dual", "gap")),
    )


def trained_model(model: Any) -> TrainedModel:
    """The trained model given, or that of the fitted estimator given, its `model_`.

    Raises:
      ValueError: it is neither, or the estimator is not fitted.
    """
    model = model.model_ if hasattr(type(model), "model_") else model
    maker = "jaxstruct.trained; fitted estimators of jaxstruct.estimators are taken, too"
    check_record("model", model, TrainedModel, maker)
    return model


def trained(data: Prepared, solution: PyTree) -> TrainedModel:
    """A model of what was trained: to predict with, to `save` and to `explain`.

    Args:
      data: the training set, of `prepare` of an output type.
      solution: of `fit`, or of any solver or baseline whose record has weights; or weights alone.

    Raises:
      ValueError: data is no `Prepared`, or weights are not those of its problem.
    """
    check_record("data", data, Prepared, "prepare of an output type")
    return model_of(data.problem, data.encoding, data.options, solution)


def model_of(
    problem: Problem, encoding: Encoding, options: Mapping[str, Any], solution: PyTree
) -> TrainedModel:
    """The model of a problem that is `encoding.problem(**options)`; see `trained`."""
    weights = getattr(solution, "weights", solution) if isinstance(solution, tuple) else solution
    if not isinstance(weights, Mapping):
        raise ValueError(f"solution must hold weights, got {text_of(type(solution).__name__)}")
    arrays = {name: np.asarray(leaf) for name, leaf in weights.items()}
    from jaxstruct import __version__

    _check_precision(arrays)
    _check_weights(problem, arrays)
    model = TrainedModel(encoding, dict(options), arrays, _training_of(solution), __version__)
    vars(model)["problem"] = problem  # what the property would make anew
    return model
