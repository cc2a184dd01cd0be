"""SPO+ of linear predictions as a structural SVM: margin re-scaling with costs as the loss.

    c^(x) = W' x  (or c^_j = <w, x_j>),    F(x, y; w) = 2 s <c^(x), y>,    Delta = s <c, y_i - y>

with s = -1 of "minimise" and 1 of "maximise". The slack of `svm1_margin` is then the SPO+ loss, and
its most violated decision one oracle call at s (2 c^ - c).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_flag, check_record, checked_dtype, checked_size
from jaxstruct.core.contract import Model, Oracles, Problem, Space, Truth
from jaxstruct.core.device import zeros_on_device
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import read_rows
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.problem import make_problem
from jaxstruct.core.spec import array, features, refuse
from jaxstruct.core.tables import Table, rankings_by_label
from jaxstruct.core.types import AnyArray, Array, PyTree, SparseFeatures, Static
from jaxstruct.decisions.sets import Decisions, checked_set, decide, inner

AGREES = 1e-4
"""Relative: a decision whose costs are within this of the best is a best one; float32 decides."""


class DecisionInput(NamedTuple):
    """The inputs of n examples.

    Fields:
      features: [n, p] of each example, dense or `SparseFeatures`, or dense [n, d, p] of each
        coordinate where weights are shared.
      instance: what differs from example to example, leaves [n, ..]; see the maker of the set.
    """

    features: AnyArray
    instance: PyTree = ()


class DecisionTheta(NamedTuple):
    """costs: [d] the predicted ones, c^. instance: of the example."""

    costs: Array
    instance: PyTree


def _potentials(w: PyTree, x: DecisionInput) -> DecisionTheta:
    X, weights = x.features, w["weights"]
    if isinstance(X, SparseFeatures):
        X, weights = X.values, weights.at[X.indices].get(mode="fill", fill_value=0)
    return DecisionTheta(X @ weights, x.instance)


def _gram_action(x: DecisionInput, u: DecisionTheta) -> DecisionTheta:
    X = x.features.values if isinstance(x.features, SparseFeatures) else x.features
    seen = X @ (X.T @ u.costs) if X.ndim == 2 else jnp.vdot(X, X) * u.costs
    return u._replace(costs=seen)


def _score(sign: Static[int], theta: DecisionTheta, y: Array) -> Array:
    return 2 * sign.value * jnp.vdot(theta.costs, y.astype(theta.costs.dtype))


def _decode(decisions: Decisions, theta: DecisionTheta) -> Array:
    return decisions.best(decisions.sign * theta.costs, theta.instance)


def _loss(sign: Static[int], y_true: Truth, y: Array) -> Array:
    costs = y_true.numbers
    return sign.value * jnp.vdot(costs, (y_true.output - y).astype(costs.dtype))


def _augmented(decisions: Decisions, theta: DecisionTheta, y_true: Truth, scale: Array) -> PyTree:
    spoilt = decisions.sign * (2 * theta.costs - scale * y_true.numbers)
    if decisions.bounded is None:
        return decisions.best(spoilt, theta.instance)
    found = decisions.bounded(spoilt, theta.instance)
    own = jnp.vdot(y_true.numbers, y_true.output.astype(spoilt.dtype))
    return found._replace(bound=found.bound + decisions.sign * scale * own)


def _check(
    decisions: Decisions, shape: tuple[int, ...], inputs: DecisionInput, outputs: Any = None
) -> None:
    check_record("inputs", inputs, DecisionInput, "jaxstruct.decisions.prepare")
    sizes = {"d": decisions.size.value, "p": shape[-1]}
    features("inputs.features", inputs.features, "n d" if len(shape) > 1 else "n", sizes, "p")
    decisions.check(inputs.instance, sizes["n"])
    if outputs is None:
        return
    check_record("outputs", outputs, Truth, "jaxstruct.Truth(decisions, costs)")
    y = array("outputs.output", outputs.output, "n d", "integers", sizes)
    costs = array("outputs.numbers", outputs.numbers, "n d", "floats", sizes)
    best = decide(decisions, costs, inputs.instance)
    given, wanted = (np.asarray(inner(costs, each)) for each in (y, best))
    most = AGREES * (1 + np.abs(costs * (best != 0)).sum(axis=1))
    refuse(
        "outputs.output", y, np.abs(given - wanted) > most,
        lambda i: f"a best decision of its costs, of {wanted[i]:g}, not of {given[i]:g}; "
        "jaxstruct.decisions.decide finds one",
    )  # fmt: skip


def problem(
    decisions: Decisions, number_of_features: int, *, shared: bool = False, dtype: str = "float32"
) -> Problem:
    """Learn to predict costs whose decisions are good; see the module.

    Weights are {"weights": W [p, d]}, or with shared weights {"weights": w [p]}; c^ = x.features @
    weights. A constant column of features is an intercept.

    Args:
      decisions: the set. number_of_features: p.
      shared: whether all coordinates share one vector of weights and have features of their own.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `DecisionInput`s, whose outputs are `Truth(y [n, d], costs [n, d])`; y are best
      decisions of the costs, as `decide` finds them. svm1_margin is SPO+; svm1_slack and svm2_slack
      are searched, with a bound on what the search may miss.

    Raises:
      ValueError: an argument does not fit.
    """
    decisions, p = checked_set(decisions), checked_size("number_of_features", number_of_features)
    check_flag("shared", shared)
    d, sign = decisions.size.value, Static(decisions.sign)
    zero = {"weights": zeros_on_device((p,) if shared else (p, d), jnp.dtype(checked_dtype(dtype)))}
    model = Model(
        _potentials, Partial(_score, sign), Partial(_decode, decisions), Partial(_loss, sign)
    )
    return make_problem(
        zero,
        model,
        Oracles(loss_augmented_decode=Partial(_augmented, decisions)),
        Space(gram_action=_gram_action),
        check=Partial(_check, decisions, (d, p) if shared else (p,)),
        tested=decisions.made.value is not None,
    )


def with_instances(data: Any) -> DecisionInput:
    """Rows of features with instances; rows alone have none."""
    found = data if isinstance(data, DecisionInput) else DecisionInput(data)
    return found._replace(features=held(found.features))


class DecisionEncoding(NamedTuple):
    """What the columns of features and the coordinates of decisions mean. Made by `prepare`.

    Fields:
      features: which feature is which column. decisions: the set.
    """

    features: FeatureEncoding
    decisions: Decisions
    structure = "decisions"

    def problem(self, **options: Any) -> Problem:
        """`problem` of these features and decisions; options are its own."""
        return problem(self.decisions, self.features.number_of_features, **options)

    def inputs(self, data: Any) -> DecisionInput:
        """The inputs of n rows, or of a `DecisionInput` of rows and instances.

        Raises:
          ValueError: they are none, or have other columns than those of training.
        """
        rows, instance = with_instances(data)
        read = read_rows("rows", rows)
        self.decisions.check(instance, read.count)
        return DecisionInput(inputs_of(dense_or_sparse(self.features, "rows", read)), instance)

    def decode(self, outputs: np.ndarray, data: Any = None) -> list[np.ndarray]:
        """The decisions of n rows, [d] each; data are not needed."""
        del data
        return list(np.asarray(outputs))

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of each coordinate's costs."""
        del options
        names = tuple(map(str, range(self.decisions.size.value)))
        return rankings_by_label(self.features.names, names, weights["weights"], largest)


def prepare(
    rows: Any,
    costs: AnyArray,
    decisions: Decisions,
    *,
    min_count: int = 1,
    constant: float = 1.0,
    **options: Any,
) -> Prepared:
    """A training set of decisions: `js.fit(*prepare(rows, costs, decisions), C=100.0)`.

    Args:
      rows: n rows of features: lists of names, mappings name -> number, bool or text, an array
        [n, p], a SciPy matrix or a pandas frame; or a `DecisionInput` of them and of instances.
      costs: [n, d] true costs, finite. decisions: the set.
      min_count: rows that must have a named feature for it to count.
      constant: value of a feature that every row has, which learns a mean of each cost (regularised
        as every weight); 0 for none.
      options: dtype of `problem`.

    Raises:
      ValueError: rows, costs or an option do not fit.
    """
    data, size = with_instances(rows), checked_set(decisions).size.value
    read = read_rows("rows", data.features)
    costs = array("costs", costs, "n d", "numbers", {"n": read.count, "d": size})
    costs = costs if costs.dtype.kind == "f" else costs.astype(np.float64)
    features = fit_features(read, min_count=min_count, constant=constant)
    outputs = Truth(decide(decisions, costs, data.instance), costs)
    return prepared(DecisionEncoding(features, decisions), data, outputs, options)
