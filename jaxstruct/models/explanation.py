"""What a model has learned, by name: features of labels, transitions, rules, costs, support.

print(explain(model))                                      the largest weights
print(explain(model, solution=solution, example=3))        what holds example 3 in place
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np

from jaxstruct.core.checks import checked_size, text_of
from jaxstruct.core.padding import unpadded
from jaxstruct.core.tables import Explanation, Support, ranking
from jaxstruct.models.trained import TrainedModel, trained_model
from jaxstruct.solvers.solution import Solution, check_of_fit, support_outputs

_OUTPUT = 80  # letters of an output


def explain(
    model: TrainedModel | Any,
    *,
    largest: int = 8,
    solution: Solution | None = None,
    example: int | None = None,
    data: Any = None,
) -> Explanation:
    """What a model has learned, by the names of features, labels, rules and letters.

    Weights are shown as F counts them: of classes with output features W Lambda', of symmetric
    tables their symmetric part, of sets of labels t_11 + t_00 - t_01 - t_10 of each pair.

    Args:
      model: of `trained` or `load`, or a fitted estimator.
      largest: how many weights are shown, the largest above 0 and the smallest below.
      solution: of `fit`, of the model's own training, to show an example's support outputs; an
        estimator has its own.
      example: which one, counted from 0 in the order of training; of an estimator in that of X.
      data: the training data, whose words, sequences or candidates the outputs are written with
        (trees, alignments, graphs of named nodes and candidates).

    Returns:
      An Explanation: of the weights, or of the example where one is named.

    Raises:
      ValueError: an argument does not fit; solution and example do not come together.
    """
    estimator: Any = model
    model = trained_model(model)
    largest = checked_size("largest", largest)
    if example is not None and solution is None and hasattr(type(estimator), "training_example"):
        solution, example = estimator.solution_, estimator.training_example(example)
    if (solution is None) != (example is None):
        raise ValueError("solution and example come together: give both, or neither")
    if solution is not None and example is not None:
        check_of_fit("solution", solution, whole=False)
        table = _support(model, solution, checked_size("example", example, 0), data)
        return Explanation(repr(model), (table,))
    own = getattr(model.encoding, "tables", None)
    if own is not None:
        tables = own(model.weights, model.options, largest)
    else:
        tables = [
            ranking(name, (str(list(place)) for place in np.ndindex(leaf.shape)), leaf, largest)
            for name, leaf in model.weights.items()
        ]
    return Explanation(repr(model), tuple(tables))


def _support(model: TrainedModel, solution: Solution, example: int, data: Any) -> Support:
    """The outputs of one example with alpha > 0."""
    if example >= len(solution.slack):
        raise ValueError(f"example is {example}, of {len(solution.slack)} (counted from 0)")
    found = support_outputs(solution)
    if isinstance(data, str):
        raise ValueError("data must be a list of examples, got one text: trees.read_trees makes it")
    own = None if data is None else [*itertools.islice(data, example, example + 1)]
    if own == []:
        raise ValueError(f"data must hold example {example}, got fewer examples")
    which = np.flatnonzero(found.example == example)
    which = which[np.argsort(-found.alpha[which], kind="stable")]
    several = found.buckets > 1
    outputs = [_output(found.output if several else (found.output,), at) for at in which]
    texts = [text_of(_decoded(model, output, own), _OUTPUT) for output in outputs]
    title = f"support outputs of example {example}, slack {float(solution.slack[example]):.4g}"
    return Support(title, tuple(texts), found.alpha[which], found.loss[which])


def _output(buckets: tuple, at: int) -> Any:
    """Output number `at` of all buckets together, with a leading axis of 1."""
    for bucket in buckets:
        size = len(jax.tree.leaves(bucket)[0])
        if at < size:
            return jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at : at + 1], bucket)
        at -= size
    raise AssertionError("support outputs are those of the buckets")


def _decoded(model: TrainedModel, output: Any, data: list | None) -> Any:
    """What one padded output stands for."""
    own = getattr(model.encoding, "unpadded", None)
    if own is not None:
        output = own(output)
    elif model.problem.padding.output_sizes is not None:
        output = jax.tree.map(unpadded, output)
    (one,) = model.encoding.decode(output, data)
    return one
