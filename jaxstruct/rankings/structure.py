"""Rankings of the documents of a query, and labels of a sample, each as ONE output.

A ranking (Yue, Finley, Radlinski and Joachims 2007), with P pairs of documents of different
relevance and y_ij = 1 where i stands before j, else -1:

    F(x, y; w) = 1/P sum over these pairs of y_ij (<w, x_i> - <w, x_j>)

so that its argmax sorts by <w, x_i>, whatever the relevance is. Labels of n examples (Joachims
2005), with y_i in {0, 1}:

    F(x, y; w) = 1/n sum_i y_i <w, x_i>

so that y_i = [<w, x_i> > 0]. Divided by n, the error rate of one sample gives the binary SVM, its
mean hinge max(0, 1 - z_i <w, x_i>) with z_i = 1 or -1; the paper's F is a constant times this one.
Losses are of the whole ranking or sample, see `losses`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_choice, checked_dtype, checked_size, text_of
from jaxstruct.core.contract import Inference, InferenceFacts, Model, Oracles, Padding, Problem
from jaxstruct.core.feature_scores import feature_scores
from jaxstruct.core.loss_functions import OF_JAX, check_loss_function
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree, SparseFeatures
from jaxstruct.rankings import example_checks
from jaxstruct.rankings.inputs import SampleInput, SampleTheta
from jaxstruct.rankings.losses import (
    MEASURES,
    OF_PLACES,
    RANKINGS,
    Measure,
    labels_loss,
    ranking_loss,
    table_loss,
)
from jaxstruct.rankings.oracles.contingency import best_cell, error_rate_augmented, largest
from jaxstruct.rankings.oracles.listing import rankings_above
from jaxstruct.rankings.oracles.orders import (
    average_precision_augmented,
    ndcg_augmented,
    ranked,
    roc_area_augmented,
)

PRICE = 20_000
"""Padded positions that a further bucket must save: a position is one row of features."""


def sample_inputs(
    rows: Any, relevance: AnyArray | Ragged | None = None, length: AnyArray | None = None
) -> SampleInput:
    """A batch of queries or samples.

    Args:
      rows: a `Ragged` store of rows [d], `SparseFeatures` of such stores; or arrays [n, k, d],
        [n, k, m].
      relevance: ragged or [n, k], -1 on padding, of queries to train a ranking on; None else.
      length: [n] of arrays; stores know their own.

    Raises:
      ValueError: a length is missing, or one too many.
    """
    first = rows.indices if isinstance(rows, SparseFeatures) else rows
    if isinstance(first, Ragged) != (length is None):
        raise ValueError("length must be given of arrays [n, k, ..], and not of Ragged stores")
    length = first.lengths if length is None else length
    return SampleInput(rows, np.asarray(length, np.int32), relevance)


def _potentials(w: PyTree, x: SampleInput) -> SampleTheta:
    relevance = None if x.relevance is None else jnp.asarray(x.relevance, jnp.int32)
    return SampleTheta(
        feature_scores(w["weights"], x.rows), jnp.asarray(x.length, jnp.int32), relevance
    )


def _compared(theta: SampleTheta) -> Array:
    """[k, k] whether two documents are compared."""
    real = jnp.arange(len(theta.scores)) < theta.length
    both = real[:, None] & real[None]
    if theta.relevance is None:
        return both & ~jnp.eye(len(real), dtype=bool)
    return both & (theta.relevance[:, None] != theta.relevance[None])


def _pairs(theta: SampleTheta) -> Array:
    return jnp.maximum(jnp.sum(_compared(theta), dtype=theta.scores.dtype) / 2, 1)


def _score_ranking(theta: SampleTheta, y: Array) -> Array:
    # all k^2 pairs: XLA's sort of k numbers takes longer up to some hundred documents
    sign = jnp.sign(y[:, None] - y[None]).astype(theta.scores.dtype)
    won = jnp.sum(jnp.where(_compared(theta), sign, 0), axis=1)
    return jnp.sum(jnp.where(won != 0, theta.scores, 0) * won) / _pairs(theta)


def _decode_ranking(theta: SampleTheta) -> Array:
    return ranked(theta.scores, theta.length)


def _ranking_augmented(
    measure: Measure, theta: SampleTheta, y_true: Array, scale: Array | float
) -> Array:
    scores = theta.scores / _pairs(theta)
    given = scores, y_true, theta.length, scale
    if measure.name == "ndcg":
        return ndcg_augmented(*given, at=measure.at)
    oracle = roc_area_augmented if measure.name == "roc_area" else average_precision_augmented
    return oracle(*given)


def _rankings_above(
    measure: Measure, theta: SampleTheta, y_true: Array, number: int, above: Array
) -> tuple[Array, Array]:
    def value(y: Array) -> Array:
        return _score_ranking(theta, y) + ranking_loss(measure, y_true, y)

    means = theta._replace(scores=theta.scores / _pairs(theta))
    return rankings_above(measure, means, y_true, value, number, above)


def _means(theta: SampleTheta) -> Array:
    """[n] <w, x_i> / n."""
    return theta.scores / jnp.maximum(theta.length, 1).astype(theta.scores.dtype)


def _score_labels(theta: SampleTheta, y: Array) -> Array:
    return jnp.sum(jnp.where(y > 0, _means(theta), 0))


def _decode_labels(measure: Measure, theta: SampleTheta) -> Array:
    return largest(theta.scores, theta.length, measure.at)


def _table(measure: Measure, y_true: Array, tp: Array, fp: Array) -> Array:
    return table_loss(measure, tp, fp, jnp.sum(y_true > 0), jnp.sum(y_true >= 0))


def _labels_augmented(
    measure: Measure, theta: SampleTheta, y_true: Array, scale: Array | float
) -> Array:
    scores, at = _means(theta), measure.at
    if measure.name == "error_rate":
        return error_rate_augmented(scores, y_true, theta.length, jnp.asarray(scale, scores.dtype))

    def value(tp: Array, fp: Array, F: Array) -> Array:
        return (F + scale * _table(measure, y_true, tp, fp)).astype(scores.dtype)

    y, found = best_cell(scores, y_true, theta.length, value, at)
    if at is None:
        return y
    return jnp.where(found > _score_labels(theta, y_true), y, y_true)


def _level_losses(measure: Measure, y_true: Array) -> Array:
    """Of every number tp of true positives (and fp of false ones, where they are free)."""
    cells = jnp.arange(len(y_true) + 1)
    if measure.at is not None:
        most = jnp.minimum(measure.at, jnp.sum(y_true >= 0))
        return jnp.clip(_table(measure, y_true, cells, most - cells), 0, 1)
    return _table(measure, y_true, cells[:, None], cells[None]).reshape(-1)


def _best_by_level(
    measure: Measure, theta: SampleTheta, y_true: Array, offsets: Array, slopes: Array
) -> Array:
    at, P = measure.at, jnp.sum(y_true > 0)
    shape = (-1,) if at is not None else (len(y_true) + 1, len(y_true) + 1)
    offsets, slopes = offsets.reshape(shape), slopes.reshape(shape)

    def value(tp: Array, fp: Array, F: Array) -> Array:
        own = (offsets, slopes) if at is not None else (offsets[tp], slopes[tp])
        truth = (tp == P) & (fp == 0)
        found = jnp.where(own[0] > -jnp.inf, own[0] + own[1] * F, -jnp.inf)
        return jnp.where(truth, -jnp.inf, found).astype(theta.scores.dtype)

    y, found = best_cell(_means(theta), y_true, theta.length, value, at)
    return jnp.where(found > -jnp.inf, y, y_true)


def _output_sizes(x: SampleInput) -> int:
    return np.shape(jax.tree.leaves(x.rows)[0])[1]


_PADDING = Padding(price=PRICE, output_sizes=_output_sizes)


def _checked_function(loss: Callable) -> Callable:
    """A loss of counts, or ValueError where it takes others or cannot be compiled."""
    expected = f"loss must be a function (tp, fp, fn, tn) -> a scalar Delta of counts, {OF_JAX}"
    expected = f"{expected}: 1 - tp / jnp.maximum(tp + fn, 1), say; F1 is loss='f1'"
    check_loss_function(loss, expected, *[np.float32] * 4)
    return loss


def _measure(name: Any, names: tuple[str, ...], at: int | None, dtype: str) -> Measure:
    """A loss of these names, or a function.

    Raises:
      ValueError: there is none, or `at` does not go with it.
    """
    if names is MEASURES and callable(name):
        name = _checked_function(name)
    else:
        check_choice("loss", name, names)
    if at is not None:
        at = checked_size("at", at)
        if name not in ("ndcg", *OF_PLACES):
            raise ValueError(f"at must be None for loss={text_of(name)}, got {at}")
    elif name in OF_PLACES:
        raise ValueError(f"at must say how many examples are labelled positive, for loss={name!r}")
    return Measure(name, at, checked_dtype(dtype))


def _problem(
    d: int, measure: Measure, model: Model, oracles: Oracles, check: Partial, advice: str
) -> Problem:
    return make_problem(
        {"weights": jax.device_put(np.zeros(d, measure.dtype))}, model, oracles, check=check,
        padding=_PADDING, inference=Inference(facts=InferenceFacts(advice=advice)), tested=True,
    )  # fmt: skip


def document_ranking(
    number_of_features: int, *, loss: str = "ndcg", at: int | None = None, dtype: str = "float32"
) -> Problem:
    """Learn to rank the documents of queries; see the module for F.

    Weights are w = {"weights": [d]}.

    Args:
      number_of_features: d.
      loss: "ndcg", "average_precision" or "roc_area".
      at: places that count, of "ndcg" alone; None for all.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `SampleInput`s. Outputs are [k] int32, larger ones first: of the truth the
      relevance of each document, of what is found the number of documents that it stands before; -1
      on padding. Inputs to train on hold the relevance, too, which says what pairs F compares.
      svm1_margin is exact; svm1_slack and svm2_slack are searched, and what the search may have
      missed is listed or bounded; the others need loss levels, which this structure has not. Of
      equal scores the first document stands first.

    Raises:
      ValueError: an argument does not fit.
    """
    d = checked_size("number_of_features", number_of_features)
    measure = _measure(loss, RANKINGS, at, dtype)
    advice = (
        "sums over rankings are not computed: losses.perturbed and structured_hinge need the "
        "argmax alone"
    )
    return _problem(
        d, measure,
        Model(_potentials, _score_ranking, _decode_ranking, Partial(ranking_loss, measure)),
        Oracles(
            loss_augmented_decode=Partial(_ranking_augmented, measure),
            best_above=Partial(_rankings_above, measure),
        ),
        Partial(example_checks.check_rankings, d), advice,
    )  # fmt: skip


def sample_labels(
    number_of_features: int,
    *,
    loss: str | Callable = "f1",
    at: int | None = None,
    dtype: str = "float32",
) -> Problem:
    """Learn to label samples for a measure of whole samples; see the module for F.

    Weights are w = {"weights": [d]}. An example of a training is a sample of n labelled rows; often
    there is one.

    Args:
      number_of_features: d.
      loss: "f1", "error_rate", "precision_at" or "recall_at"; or a function (tp, fp, fn, tn) ->
        Delta >= 0 of arrays of counts, 0 where fp and fn are, made of jax.numpy. A function that is
        another object compiles anew and its programs stay in memory (12 MB a fit): define it once.
      at: of the last two, how many examples are labelled positive.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `SampleInput`s, whose outputs are [n] int32 zeros and ones, -1 on padding. All
      seven formulations are exact: every cell of the contingency table is a level. With `at`,
      outputs have that many ones; the truth, which may have others, is not predicted then.

    Raises:
      ValueError: an argument does not fit.
    """
    d = checked_size("number_of_features", number_of_features)
    measure = _measure(loss, MEASURES, at, dtype)
    advice = (
        "labels of a sample have no probabilities here: logistic regression has them, example by "
        "example"
    )
    return _problem(
        d, measure,
        Model(
            _potentials, _score_labels, Partial(_decode_labels, measure),
            Partial(labels_loss, measure),
        ),
        Oracles(
            loss_augmented_decode=Partial(_labels_augmented, measure),
            level_losses=Partial(_level_losses, measure),
            best_by_level=Partial(_best_by_level, measure),
        ),
        Partial(example_checks.check_labels, d, measure), advice,
    )  # fmt: skip
