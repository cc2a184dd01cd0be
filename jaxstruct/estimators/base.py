"""What the estimators share: how they train, and what they say of it."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, compute_class_weight
from sklearn.utils.validation import check_is_fitted

from jaxstruct.baselines import RandomField, fit_random_field
from jaxstruct.core.checks import (
    check_choice,
    check_one_each,
    checked_example_weights,
    checked_number,
    checked_size,
    text_of,
    warn,
)
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.labels import check_known, flat_labels
from jaxstruct.core.prepared import Prepared, held
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.models.trained import TrainedModel, model_of
from jaxstruct.solvers.fit import fit as fit_solution
from jaxstruct.solvers.latent.fit_latent import LatentDetails, fit_latent
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.solution import Solution, support_outputs
from jaxstruct.solvers.validation.checks import check_certifiable

_MESSAGES = {
    Status.PASS_LIMIT: (
        "max_iter was reached first: raise it, loosen tol, or scale the features alike "
        "(StandardScaler)"
    ),
    Status.ROUNDING: (
        "rounding hides whether the gap is within tol, and more rounds would not help: scale the "
        "features alike (StandardScaler), lower C, or loosen tol"
    ),
    Status.NOT_SEPARABLE: (
        'the training set cannot be separated: take a soft margin, such as objective="svm1_margin"'
    ),
    Status.NOT_FINITE: "the weights are not finite: scale the features alike (StandardScaler)",
    Status.WORKING_SET_FULL: "a working set is full: loosen tol, or lower C",
}
"""In the parameters of the estimators; other messages of the solvers name none of theirs."""
LOG_LOSS = "log_loss"
OBJECTIVES = (*FORMULATIONS, LOG_LOSS)


class Training(NamedTuple):
    """What one training gets.

    Fields:
      problem, inputs, outputs: of the n examples, as `jaxstruct.fit` takes them.
      weights: [n] of the examples, of mean 1.
      rows: [n] where each of them stands in the caller's training set.
    """

    problem: Problem
    inputs: PyTree
    outputs: PyTree
    weights: np.ndarray
    rows: np.ndarray


def is_log_linear(estimator: Any) -> bool:
    """Whether an estimator has probabilities, as its parameters stand."""
    return estimator.objective == LOG_LOSS


def example_weights(sample_weight: Any, n: int) -> np.ndarray:
    """[n] weights of examples: ones for None, all alike for a number.

    Raises:
      ValueError: they are not [n] finite numbers >= 0, or all are 0.
    """
    alike = isinstance(sample_weight, numbers.Real)
    given = np.full(n, sample_weight) if alike else sample_weight
    return checked_example_weights(given, n, "sample_weight")


def class_weights(
    class_weight: Any, classes: np.ndarray, y: np.ndarray, sample_weight: np.ndarray
) -> np.ndarray:
    """[k] what each class weighs; see `sklearn.utils.class_weight.compute_class_weight`.

    Raises:
      ValueError: class_weight is none of None, "balanced" and {label: number >= 0} of all classes.
    """
    if isinstance(class_weight, Mapping):
        wrong = [one for one in class_weight.values()
                 if not isinstance(one, numbers.Real) or not 0 <= float(one) < np.inf]  # fmt: skip
        if wrong or not any(class_weight.values()):
            raise ValueError(
                "class_weight must be finite numbers >= 0 that are not all zero, got "
                f"{text_of(dict(class_weight))}"
            )
    return compute_class_weight(class_weight, classes=classes, y=y, sample_weight=sample_weight)


def label_array(classes: Sequence[Hashable]) -> np.ndarray:
    """Labels of any kind as an array [k]: of texts or numbers of one type, else of objects."""
    if len({type(one) for one in classes}) == 1 and isinstance(classes[0], (str, bool, int, float)):
        return np.array(classes)
    array = np.empty(len(classes), object)
    array[:] = classes
    return array


def check_as_many(x: int, y: int, of_x: str = "examples", of_y: str = "") -> None:
    """Raise ValueError unless X and y have as many entries."""
    if x != y:
        raise ValueError(f"X has {x} {of_x}, but y has {y}{of_y}")


def weighted_f1(found: Sequence[set], true: Sequence[set], weights: np.ndarray) -> float | None:
    """F1 of the members of n pairs of sets, those of pair i v_i times; None where there is none."""
    counts = [(2 * len(a & b), len(a) + len(b)) for a, b in zip(found, true, strict=True)]
    right, every = weights @ counts
    return float(right / every) if every else None


def share_right(
    predicted: Sequence[Any], y: Any, classes: Sequence[Hashable], sample_weight: Any
) -> float:
    """The share of parts labelled right, those of example i counting v_i times.

    Args:
      predicted, y: n lists of labels, or mappings part -> label; of a list in place of a mapping in
        the order of the parts. classes: of training.

    Raises:
      ValueError: they are of different numbers, parts or kinds of labels.
    """
    y, made = held(y), []
    check_as_many(len(predicted), len(y))
    wanted = []
    for i, (found, true) in enumerate(zip(predicted, y, strict=True)):
        if isinstance(true, Mapping):
            if not isinstance(found, Mapping) or set(found) != set(true):
                raise ValueError(
                    f"y[{i}] labels {text_of([*true])}: these are not the parts of X[{i}]"
                )
            true = [true[part] for part in found]
        wanted.append(true)
        made += found.values() if isinstance(found, Mapping) else found
    labels, bounds = flat_labels(wanted, "y")
    check_known("y", labels, classes)
    check_one_each("y", np.diff(bounds), "X", np.array([*map(len, predicted)], int))
    weights = np.repeat(example_weights(sample_weight, len(y)), np.diff(bounds))
    right = weights @ np.array([a == b for a, b in zip(made, labels, strict=True)], float)
    return float(right / weights.sum()) if weights.any() else 0.0


def of_mean_one(weights: np.ndarray) -> np.ndarray:
    """The weights divided by their mean: `C` is then divided by their sum in place of n."""
    return weights * (len(weights) / weights.sum())


def _shortfall(found: Solution | RandomField) -> str:
    """How far a training is from its goal, in the numbers that its stopping rule compares."""
    if isinstance(found, RandomField):
        return f"|gradient| is {found.gradient_norm:.2g}, its goal is tol max(1, |w|)"
    scale = max(abs(found.primal), 1e-300) if np.isfinite(found.primal) else 1.0
    if isinstance(found.details, LatentDetails):
        return f"a critical point is known to {found.details.critical_gap / scale:.2g}, relative"
    gap, rounding = found.gap / scale, found.certificate.rounding / scale
    return f"the relative gap is {gap:.2g}, known up to a rounding of {rounding:.2g}"


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class WithParameters(BaseEstimator):
    """The fields of a subclass are the parameters of its `__init__`, which keeps them as given.

    `fit` checks them. They are keywords but for those of which the field says otherwise.
    """

    encoding_: Any  # what is there once it has been trained, no parameter
    weights_: PyTree

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the fields parameters."""
        super().__init_subclass__(**options)
        dataclass(kw_only=True, repr=False, eq=False)(cls)


class StructuralEstimator(WithParameters):
    """An estimator over one structure; a subclass says how its examples become a `Training`.

    It minimises, over the weights w,

        1/2 |w|^2 + C / (sum_i v_i) sum_i v_i xi_i

    with v_i the weights of the examples, 1 without any, and xi_i the slack of `objective`, squared
    and halved in its SVM2s, or -log P(y_i | x_i) of "log_loss".

    Attributes:
      encoding_: what data and outputs mean.
      problem_: the structure, `encoding_.problem(**options_)`. options_: the options it has.
      weights_: w of problem_.
      solution_: of `jaxstruct.fit`, or the `RandomField` of `jaxstruct.baselines.fit_random_field`,
        its weights those of problem_, for `jaxstruct.predict` and `jaxstruct.confidence`. Its
        examples are those of `training_example`; its state holds their support outputs alone, and
        none in pickles and copies of the estimator.
      model_: the `TrainedModel` of all these; what takes one takes the estimator, too.
      status_: the `Status` that training ended with. n_iter_: rounds.
      primal_, dual_, gap_: the certificate, primal_ >= optimum >= dual_ up to rounding.
      support_: [s] the positions in the training set of the examples that carry support outputs;
        those of a positive dual variable. There is none of "log_loss", where all of them do.
    """

    C: float = field(default=100.0, kw_only=False)
    objective: str = "svm1_margin"
    tol: float = 1e-3
    max_iter: int = 500

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: without support outputs, which may be far larger than weights."""
        whole: Any = super().__getstate__()
        state: dict[str, Any] = {**whole}
        solution = state.get("solution_")
        if isinstance(solution, Solution):
            state["solution_"] = solution._replace(state=None)
        return state

    def _check_options(self) -> None:
        """Raise ValueError where a number or a name that all estimators share does not fit."""
        checked_number("C", self.C, strict=True)
        checked_number("tol", self.tol, strict=True)
        checked_size("max_iter", self.max_iter)
        check_choice("objective", self.objective, OBJECTIVES)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """The training set, checked; sets what does not depend on C."""
        raise NotImplementedError

    def _set_problem(self, **options: Any) -> None:
        """Sets the problem of the encoding, and the options that make it."""
        self.options_, self.problem_ = options, self.encoding_.problem(**options)

    def _finish(self, weights: PyTree) -> None:
        """Sets `weights_`, those of `problem_`, and what follows from them."""
        self.weights_ = weights

    @property
    def model_(self) -> TrainedModel:
        """The trained model, to save, to explain and to predict with in the caller's labels."""
        check_is_fitted(self)
        if self._model is None:
            whole = self.problem_, self.encoding_, self.options_
            self._model = model_of(*whole, self.solution_)
        return self._model

    def training_example(self, i: int) -> int:
        """The example of `solution_` that X[i] of the training set is.

        Raises:
          ValueError: X[i] took no part: its weight is 0, or it equals an earlier row.
        """
        check_is_fitted(self)
        found = np.flatnonzero(self._rows == i)
        if not found.size:
            raise ValueError(
                f"X[{i}] took no part of its own in training: its weight is 0, it equals an "
                "earlier row, which stands for both, or there is no such row"
            )
        return int(found[0])

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Training:
        self._check_options()
        X, y = held(X), held(y)
        if isinstance(X, (list, tuple)) and not X:
            raise ValueError("X is empty: there is no example to train on")
        return self._prepare(X, y, sample_weight)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on n examples.

        Args:
          X, y: see the class; iterators are read once.
          sample_weight: [n] v_i >= 0, or None for ones.

        Returns:
          self.

        Raises:
          ValueError: an argument does not fit; the message names it.
        """
        self._train(self._checked(X, y, sample_weight), None)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How good the predictions of n examples are, the larger the better; see the class."""
        raise NotImplementedError

    def _path(self, X: Any, y: Any, sample_weight: Any, Cs: Sequence[float]) -> Iterator[Self]:
        """self, trained with each C in turn, each from the solution before."""
        training, before = self._checked(X, y, sample_weight), None
        for C in Cs:
            self.C = C
            self._check_options()
            before = self._train(training, before)
            yield self

    def _train(self, training: Training, before: Any) -> Solution | RandomField:
        """Train from a solution of the same examples, or from the start, and set the attributes."""
        found = (
            self._field(training, before)
            if self.objective == LOG_LOSS
            else self._machine(training, before)
        )
        self.status_, self._rows = found.status, training.rows
        self.primal_, self.dual_, self.gap_ = found.primal, found.dual, found.gap
        self._finish(jax.tree.map(np.asarray, found.weights))
        self.solution_, self._model = self.solution_._replace(weights=self.weights_), None
        if not found.status.solved:
            warn(
                f"{type(self).__name__}: {found.status.name} at C={self.C:g}, {_shortfall(found)}, "
                f"tol is {self.tol:g}: {_MESSAGES.get(found.status, found.message)}",
                ConvergenceWarning,
            )
        return found

    def _machine(self, training: Training, before: Solution | None) -> Solution:
        dtype = jnp.result_type(*jax.tree.leaves(training.problem.initial_weights))
        check_certifiable("tol", self.tol, dtype)
        train = fit_latent if isinstance(training.outputs, Incomplete) else fit_solution
        found = train(
            training.problem, training.inputs, training.outputs, self.objective, float(self.C),
            tolerance=self.tol, max_passes=self.max_iter, example_weights=training.weights,
            start=before,
        )  # fmt: skip
        self.n_iter_ = found.statistics.passes
        support = support_outputs(found)
        self.support_ = np.sort(training.rows[np.unique(support.example)])
        self.solution_ = found._replace(state=support)  # not the planes, by far the largest part
        return found

    def _field(self, training: Training, before: RandomField | None) -> RandomField:
        if training.problem.inference.log_loss is None:
            raise ValueError(
                f'objective="log_loss" is none of {type(self).__name__}: take one of '
                f"{tuple(FORMULATIONS)}"
            )
        found = fit_random_field(
            training.problem, training.inputs, training.outputs, float(self.C),
            tolerance=self.tol, max_iterations=self.max_iter,
            start=None if before is None else before.weights, example_weights=training.weights,
        )  # fmt: skip
        self.n_iter_ = max(found.iterations, 1)
        self.solution_ = found
        return found


class ListEstimator(StructuralEstimator):
    """An estimator whose X is a list of examples of their own kind, no array [n, d].

    _read: `prepare` of its output type, which takes X, y and the parameters of its own.
    """

    _read: ClassVar[Callable[..., Prepared]]

    def __sklearn_tags__(self) -> Tags:
        """X is a list, no array."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        shared = {one.name for one in fields(StructuralEstimator)}
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in shared}
        data = self._read(X, y, **own)
        weights = example_weights(sample_weight, len(y))
        self.encoding_, self.options_, self.problem_ = data.encoding, data.options, data.problem
        return Training(*data, of_mean_one(weights), np.arange(len(weights)))

    def predict(self, X: Any, *, no_output: str = "none") -> list:
        """The outputs of n examples, in the kind of y.

        Args:
          no_output: of an example that has none, "none" or "raise": see `TrainedModel.predict`.
        """
        return self.model_.predict(X, no_output=no_output)
