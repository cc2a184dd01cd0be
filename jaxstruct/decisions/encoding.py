"""Rows of features and costs as people hold them, as inputs and outputs of `problem`, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.contract import Problem, Truth
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import read_rows
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.spec import array
from jaxstruct.core.tables import Table, rankings_by_label
from jaxstruct.core.types import AnyArray
from jaxstruct.decisions.sets import Decisions, checked_set, decide
from jaxstruct.decisions.structure import DecisionInput, problem


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
