"""A trained model: what the data mean, the structure, the weights, and how they were found."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jaxstruct.core.checks import check_record, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.encoding import Encoding, check_encoding
from jaxstruct.core.types import PyTree
from jaxstruct.models.training import Training
from jaxstruct.solvers.predict import predict


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """All that predicting needs. Made by `trained` or `load`.

    Fields:
      encoding: of the training data, see `fit_encoding` of each output type.
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
        try:
            problem = self.encoding.problem(**self.options)
        except TypeError as error:  # an option that there is not
            raise ValueError(f"options {text_of(dict(self.options))}: {error}") from None
        _check_weights(problem, self.weights)
        return problem

    def predict(self, data: Any, *, batch: int = 1024) -> list:
        """The outputs of n inputs, in the caller's labels and order.

        Args:
          data: n inputs as the encoding takes them. batch: inputs decoded together, at most.

        Returns:
          What `encoding.decode` makes of the argmax of each: labels, lists of labels, trees, rows
          with gaps, sets of labels or candidates.

        Raises:
          ValueError: data do not fit the encoding.
        """
        data = list(data) if isinstance(data, Iterator) else data
        if isinstance(data, (list, tuple)) and not data:
            return []
        outputs = predict(self.problem, dict(self.weights), self.encoding.inputs(data), batch=batch)
        return self.encoding.decode(outputs, data)

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


def _same(one: Problem, other: Problem) -> bool:
    """Whether two problems are of the same functions, options and tables."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a is b or np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


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


def trained(encoding: Encoding, problem: Problem, solution: PyTree, **options: Any) -> TrainedModel:
    """A model of what was trained: to predict with, to `save` and to `explain`.

    Args:
      encoding: of the training data.
      problem: that was trained.
      solution: of `fit`, or of any solver or baseline whose record has weights; or weights alone.
      options: those that `encoding.problem(**options)` made the problem with.

    Raises:
      ValueError: encoding is none, options make another problem, or weights are of another one.
    """
    check_encoding(encoding)
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be that of encoding.problem(), got {type(problem).__name__}: the order "
            "is trained(encoding, problem, solution)"
        )
    weights = getattr(solution, "weights", solution) if isinstance(solution, tuple) else solution
    if not isinstance(weights, Mapping):
        raise ValueError(f"solution must hold weights, got {text_of(type(solution).__name__)}")
    arrays = {name: np.asarray(leaf) for name, leaf in weights.items()}
    from jaxstruct import __version__

    model = TrainedModel(encoding, dict(options), arrays, _training_of(solution), __version__)
    if not _same(model.problem, problem):
        raise ValueError(
            "problem is not what encoding.problem makes with the options "
            f"{text_of(options)}: give trained the options that it was made with (an estimator has "
            "its model as model_)"
        )
    return model
