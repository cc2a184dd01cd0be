"""SPO+ of linear predictions as a structural SVM: margin re-scaling with costs as the loss.

    c^(x) = W' x  (or c^_j = <w, x_j>),    F(x, y; w) = 2 s <c^(x), y>,    Delta = s <c, y_i - y>

with s = -1 of "minimise" and 1 of "maximise". The slack of `svm1_margin` is then the SPO+ loss, and
its most violated decision one oracle call at s (2 c^ - c).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_flag, check_record, checked_dtype, checked_size
from jaxstruct.core.contract import Model, Oracles, Problem, Space, Truth
from jaxstruct.core.device import zeros_on_device
from jaxstruct.core.problem import make_problem
from jaxstruct.core.spec import array, features, refuse
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
