"""Matching of two sets, rectangular, complete or with items that are matched to nothing.

    F(x, y; w) = sum over matched (i, j) of <w, Phi(i, j)>
                 + sum over unmatched i of <w', Psi(i)> + sum over unmatched j of <w'', Psi''(j)>

The argmax is a linear assignment (T. Caetano, J. McAuley, L. Cheng, Q. Le and A. Smola, "Learning
graph matching", PAMI 31, 2009, section 4, learn it so). The losses add up over pairs and unmatched
items, so that the most violated matching of margin re-scaling is one more assignment, and slack
re-scaling searches with those. The best matching of one value of the loss would be an exact
matching, for which no fast exact algorithm is known: so there are no loss levels.

Besides training a matching can be asked for the k best; sums over matchings are permanents.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.assignments import example_checks
from jaxstruct.assignments.losses import MatchingLoss, delta, item_costs, matching_loss
from jaxstruct.assignments.oracles.matching import (
    best_matching,
    best_wrong_matching,
    k_best_matchings,
)
from jaxstruct.assignments.potentials import (
    MatchingInput,
    MatchingTheta,
    oracle_arguments,
    score_matching,
    store_of,
)
from jaxstruct.core.checks import check_flag, checked_dtype, checked_size
from jaxstruct.core.contract import Inference, InferenceFacts, Model, Oracles, Padding, Problem
from jaxstruct.core.derived_inference import with_raised
from jaxstruct.core.feature_scores import feature_scores
from jaxstruct.core.problem import make_problem
from jaxstruct.core.types import Array, PyTree, Static, static

ADVICE = (
    "the sum over all matchings is a permanent, which cannot be computed but for a few items; "
    "jaxstruct.losses.perturbed, structured_hinge and perceptron need the best matching alone, and "
    "jaxstruct.confidence.k_best shows how far the next ones are"
)


def _k_best(
    complete: Static, theta: MatchingTheta, k: int, above: Array | float = -jnp.inf
) -> tuple[Array, Array]:
    arguments = *oracle_arguments(theta), k, theta.rows, theta.columns, above
    found = k_best_matchings(*arguments, complete=complete.value)
    return found.columns, found.score


def number_of_matchings(r: int, c: int, complete: bool) -> int:
    """Matchings of r rows and c columns where no pair is forbidden."""
    if complete:
        return math.perm(max(r, c), min(r, c))
    return sum(math.comb(r, m) * math.perm(c, m) for m in range(min(r, c) + 1))


def _most_outputs(complete: Static, inputs: PyTree) -> int:
    sizes = np.unique(np.asarray(inputs.sizes).reshape(-1, 2), axis=0).tolist()
    return max((number_of_matchings(r, c, complete.value) for r, c in sizes), default=1)


def matching_inference(complete: bool, raised: Partial) -> Inference:
    """The inference of matchings.

    Args:
      complete: of `best_matching`.
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y).
    """
    own = Inference(
        k_best=Partial(_k_best, Static(complete)),
        most_outputs=Partial(_most_outputs, Static(complete)),
        facts=InferenceFacts(advice=ADVICE),
    )
    return with_raised(own, raised)


@static
class _Kind:
    """What the functions of a problem are bound to.

    Fields:
      complete: whether all of the smaller set is matched. widths: d, e, f.
    """

    complete: bool
    widths: tuple[int, int, int]
    loss: MatchingLoss


def _places(x: MatchingInput, P: int) -> Array:
    """[R, C] where each pair stands in the list of P pairs; P where it is forbidden."""
    i, j = jnp.arange(store_of(x.rows).shape[0])[:, None], jnp.arange(store_of(x.columns).shape[0])
    if x.pairs is None:  # all of them, row by row
        r, c = x.sizes[0], x.sizes[1]
        return jnp.where((i < r) & (j[None] < c), i * c + j[None], P)
    at = jnp.where(x.pairs[:, 0] >= 0, x.pairs[:, 0], len(i)), jnp.maximum(x.pairs[:, 1], 0)
    nowhere = jnp.full((len(i), len(j)), P, jnp.int32)
    return nowhere.at[at].set(jnp.arange(P, dtype=jnp.int32), mode="drop")


def _potentials(kind: _Kind, w: PyTree, x: MatchingInput) -> MatchingTheta:
    scores = feature_scores(w["pairs"], x.features)
    places = _places(x, len(scores))
    pairs = scores.at[places].get(mode="fill", fill_value=0)
    rows = None if kind.complete else feature_scores(w["rows"], x.rows)
    columns = None if kind.complete else feature_scores(w["columns"], x.columns)
    sizes = jnp.asarray(x.sizes, jnp.int32)
    return MatchingTheta(pairs, places < len(scores), rows, columns, sizes)


def _score(theta: MatchingTheta, y: Array) -> Array:
    return score_matching(theta.pairs, y, theta.sizes, theta.rows, theta.columns)


def _decode(kind: _Kind, theta: MatchingTheta) -> Array:
    given = *oracle_arguments(theta), theta.rows, theta.columns
    return best_matching(*given, complete=kind.complete).columns


def _raised(
    kind: _Kind, theta: MatchingTheta, y_true: Array, scale: Array | float = 1
) -> MatchingTheta:
    """theta whose score is F(y) + scale Delta(y_true, y)."""
    costs = item_costs(kind.loss, y_true, theta.pairs.shape[1])
    rows = 0 if theta.rows is None else theta.rows
    columns = 0 if theta.columns is None else theta.columns
    return theta._replace(
        pairs=theta.pairs + scale * costs.pairs,
        rows=rows + scale * costs.rows,
        columns=columns + scale * costs.columns,
    )


def _loss_augmented(kind: _Kind, theta: MatchingTheta, y_true: Array, scale: Array) -> Array:
    return _decode(kind, _raised(kind, theta, y_true, scale))


def _best_wrong(kind: _Kind, theta: MatchingTheta, y_true: Array) -> Array:
    pairs, sizes = oracle_arguments(theta)
    given = pairs, y_true, sizes, theta.rows, theta.columns
    found = best_wrong_matching(*given, complete=kind.complete)
    return jnp.where(found.score > -jnp.inf, found.columns, y_true).astype(jnp.int32)


def _output_sizes(x: MatchingInput) -> int:
    return np.shape(store_of(x.rows))[1]


def assignment(
    number_of_features: int,
    *,
    unmatched: bool = False,
    row_features: int = 1,
    column_features: int = 1,
    loss: str = "rows",
    dtype: str = "float32",
) -> Problem:
    """Learn to match; see the module for F.

    Weights are w = {"pairs": [d]}, with unmatched items also {"rows": [e], "columns": [f]}.

    Args:
      number_of_features: d, of pairs.
      unmatched: whether any item may be matched to nothing; else a matching is complete, all of the
        smaller set is matched, and what is left of the larger one counts nothing.
      row_features, column_features: e and f, of items; 1 of the constant one. Complete matchings
        have no weights of them.
      loss: "rows" (rows with a wrong column), "items" (rows and columns with a wrong partner), or
        one of these as "normalised_..", divided by the true pairs or by the items in them.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `MatchingInput`s, whose outputs [R] are the column of each row, -1 for none.
      svm1_margin, svm0, svm1 and svm2 are exact; svm1_slack and svm2_slack are searched, and what
      the search may have missed is listed or bounded. Ties as in `best_matching`.

    Raises:
      ValueError: an argument does not fit.
    """
    check_flag("unmatched", unmatched)
    dtype = checked_dtype(dtype)
    widths = (
        checked_size("number_of_features", number_of_features),
        checked_size("row_features", row_features),
        checked_size("column_features", column_features),
    )
    errors = matching_loss(loss, dtype)
    kind = _Kind(not unmatched, widths, errors)
    names = ("pairs", "rows", "columns") if unmatched else ("pairs",)
    zero = {name: np.zeros(width, dtype) for name, width in zip(names, widths, strict=False)}
    inference = matching_inference(kind.complete, Partial(_raised, kind))
    return make_problem(
        jax.device_put(zero),
        Model(Partial(_potentials, kind), _score, Partial(_decode, kind), Partial(delta, errors)),
        Oracles(
            loss_augmented_decode=Partial(_loss_augmented, kind),
            best_wrong=Partial(_best_wrong, kind),
            best_above=inference.augmented_k_best,
        ),
        check=Partial(_check, kind),
        padding=Padding(output_sizes=_output_sizes),
        inference=inference,
        tested=True,
    )


def _check(kind: _Kind, inputs: MatchingInput, outputs: Any = None) -> None:
    """All checks of values; outputs are given for training only."""
    example_checks.check_inputs(inputs, kind.widths, kind.complete)
    if outputs is not None:
        example_checks.check_matchings(inputs, outputs, kind.complete)
