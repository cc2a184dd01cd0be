"""Sets of labels as graphs: every label is a node of two values, every pair of labels an edge.

F(x, y; w) = sum_l <u_l, Phi(x)> [l in y] + sum_{k < l} t^{kl}_{y_k y_l}

(Finley and Joachims 2008, section 5: "each label is a node in a fully connected graph"). Up to
about 14 labels all 2^L sets are enumerated, so that every loss and every formulation is exact.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_choice, check_flag, checked_dtype, checked_size
from jaxstruct.core.contract import (
    Inference,
    InferenceFacts,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
    Truth,
    output_of,
)
from jaxstruct.core.device import zeros_on_device
from jaxstruct.core.labels import checked_completion
from jaxstruct.core.loss_functions import sum_of_costs
from jaxstruct.core.problem import make_problem
from jaxstruct.core.spec import array, features
from jaxstruct.core.transposition import sum_of_squares
from jaxstruct.core.types import Array, PyTree, Static, static
from jaxstruct.graphs import decoding as graph_decoding
from jaxstruct.graphs.decoding import Decoding, View, decode, labelling_oracles, score
from jaxstruct.graphs.elimination import Elimination, elimination
from jaxstruct.graphs.inference import SetTheta, graph_inference
from jaxstruct.graphs.marginals import check_marginals, labels_of, relaxed_parts
from jaxstruct.graphs.oracles.enumeration import MOST_LABELLINGS, number_of_labellings
from jaxstruct.graphs.oracles.reweighted import PASSES
from jaxstruct.graphs.potentials import GraphPotentials, complete_edges
from jaxstruct.graphs.set_visits import (
    SET_DIFFERENCES,
    add_rows,
    plane_gram,
    row_scores,
    squared_norm_of,
)

LOSSES = ("hamming", "normalised_hamming", "zero_one", "f1", "ranking")
ADDITIVE = ("hamming", "normalised_hamming", "ranking")
INFERENCE = (
    "enumeration", *graph_decoding.BOUNDED, *graph_decoding.UNBOUNDED, graph_decoding.RELAXED,
)  # fmt: skip
_PADDING = Padding(price=1_000_000)
"""A position is one feature of one input, of little work."""


@static
class _Kind:
    """What a program of label sets depends on."""

    labels: int
    loss: str
    pairs: bool
    decoding: Decoding


def set_losses(loss: str, y_true: Array, y: Array) -> Array:
    """[..] Delta of sets of labels, 0/1 along the last axis of y [.., L].

    hamming: labels in one set alone; normalised_hamming: the same over L; zero_one: whether the
    sets differ; f1: 1 - 2 |both| / (|y_true| + |y|), 0 where both are empty.

    Args:
      loss: static, one of `LOSSES`. y_true: [L].
    """
    wrong = jnp.sum(y != y_true, axis=-1)
    if loss == "hamming":
        return wrong
    if loss == "normalised_hamming":
        return wrong / y_true.shape[-1]
    if loss == "zero_one":
        return wrong > 0
    if loss == "ranking":
        return jnp.sum((y != y_true) * _of_ranking(_right(y_true)), axis=-1)
    return wrong / jnp.maximum(jnp.sum(y_true) + jnp.sum(y, axis=-1), 1)


def _right(y_true: Array | Truth) -> Array:
    """[.., L, 2] bool: the true value of each label, or those that it may have."""
    if isinstance(y_true, Truth):
        return y_true.numbers
    return jnp.stack([y_true == 0, y_true == 1], axis=-1)


def _of_ranking(right: Array) -> Array:
    """[.., L] what each label wrong adds to the ranking loss: those whose value is known count."""
    inside, rest = jnp.moveaxis(jnp.sum(~right, axis=-2, keepdims=True), -1, 0)
    each = 0.5 / jnp.maximum(jnp.where(right[..., 1], inside, rest), 1)
    return jnp.where((inside > 0) & (rest > 0), each, 0)


def _potentials(kind: _Kind, w: PyTree, x: PyTree) -> SetTheta:
    row = jax.tree.map(lambda leaf: leaf[None], x)
    return SetTheta(row_scores(w["labels"], row)[0], w["pairs"] if kind.pairs else None)


def _add(w: PyTree, x: PyTree, u: SetTheta) -> PyTree:
    """w + A' u of a batch."""
    rows = jax.tree.map(lambda leaf: leaf[:, None], x)
    new = {"labels": add_rows(w["labels"], rows, u.labels[:, None])}
    if u.pairs is not None:
        new["pairs"] = w["pairs"] + jnp.sum(u.pairs, axis=0)
    return new


def _gram_action(x: PyTree, u: SetTheta) -> SetTheta:
    return u._replace(labels=squared_norm_of(x) * u.labels)


def _of_values(theta: SetTheta) -> Array:
    """[L, 2] what each value of each label adds."""
    if theta.labels.ndim == 2:
        return theta.labels
    return jnp.stack([jnp.zeros_like(theta.labels), theta.labels], axis=1)


def _restrict(theta: SetTheta, possible: Array) -> SetTheta:
    """theta without the values of labels that are not possible [L, 2]."""
    return theta._replace(labels=jnp.where(possible, _of_values(theta), -jnp.inf))


def _graph(kind: _Kind, theta: SetTheta) -> GraphPotentials:
    """The graph of one input; without pairs it has no edges."""
    L, nodes = kind.labels, _of_values(theta)
    edges, pairs = jnp.zeros((0, 2), jnp.int32), jnp.zeros((0, 2, 2), nodes.dtype)
    if theta.pairs is not None:
        edges, pairs = jnp.asarray(complete_edges(L)), theta.pairs
    return GraphPotentials(nodes, edges, pairs, jnp.int32(L), jnp.int32(len(edges)))


def _seen(kind: _Kind, theta: SetTheta) -> tuple[GraphPotentials, Elimination | None]:
    """The graph of one input; without pairs any number of labels can be eliminated."""
    L = kind.labels
    listed = 2**L <= MOST_LABELLINGS
    return _graph(kind, theta), None if listed else elimination(L, np.zeros((0, 2), np.int32))


def _loss(kind: _Kind, like: Array, y_true: Array | Truth, y: Array) -> Array:
    if isinstance(y_true, Truth):
        return sum_of_costs(_costs(kind, like, y_true), y)
    return set_losses(kind.loss, y_true, y).astype(like.dtype)


def _plain(y_true: Array | Truth) -> Array:
    return output_of(y_true)


def _check_additive(loss: str) -> None:
    if loss not in ADDITIVE:
        raise ValueError(f'loss="{loss}" does not add up over labels: take one of {ADDITIVE}')


def _costs(kind: _Kind, like: Array, y_true: Array | Truth) -> Array:
    """[L, 2] what each value of each label costs, of an additive loss."""
    _check_additive(kind.loss)
    each, right = jnp.ones(kind.labels, like.dtype), _right(y_true)
    if kind.loss == "normalised_hamming":
        each = each / kind.labels
    elif kind.loss == "ranking":
        each = _of_ranking(right).astype(like.dtype)
    return each[:, None] * ~right


def _check(d: int, kind: _Kind, inputs: PyTree, outputs: Any = None) -> None:
    """Validation; outputs are given for training only."""
    L = kind.labels
    sizes = {"number_of_features": d, "L": L}
    features("inputs", inputs, "n", sizes)
    if outputs is None:
        return
    if kind.decoding.name == graph_decoding.RELAXED:
        check_marginals(outputs, "graphs.set_marginals")
        outputs = labels_of(jax.tree.map(np.asarray, outputs))
    if isinstance(outputs, Truth):
        _check_additive(kind.loss)
        outputs = checked_completion(outputs, 2, np.full(sizes["n"], L))
    array("outputs", outputs, "n L", "zeros and ones", sizes, range(2))


def _parts(kind: _Kind, like: Array) -> tuple[Model, Oracles, Inference]:
    """What differs between sets and their marginals.

    Raises:
      ValueError: what is relaxed has no pairs, or the loss does not add up and not all are listed.
    """
    potentials, costs = Partial(_potentials, kind), Partial(_costs, kind, like)
    measured = Partial(_loss, kind, like)
    view = View(Partial(_seen, kind), costs, measured, Partial(_plain), kind.decoding)
    additive, name = kind.loss in ADDITIVE, kind.decoding.name
    if not additive and name != "enumeration":
        raise ValueError(
            f'loss="{kind.loss}" needs inference="enumeration": it does not add up over labels, as '
            f"{ADDITIVE} do"
        )
    if name != graph_decoding.RELAXED:
        model = Model(
            potentials, Partial(score, view), Partial(decode, view), measured, restrict=_restrict
        )
        return model, labelling_oracles(view, additive, None), _inference(kind, costs)
    if not kind.pairs:
        raise ValueError(
            'inference="relaxed" needs pairs=True and two labels: without pairs nothing is relaxed'
        )
    advice = Inference(facts=InferenceFacts(advice=graph_decoding.OF_RELAXED))
    return *relaxed_parts(potentials, view), advice


def _inference(kind: _Kind, costs: Partial) -> Inference:
    if kind.pairs and 2**kind.labels > MOST_LABELLINGS:
        advice = (
            f"problem has {kind.labels} labels with pairs, more sets than the {MOST_LABELLINGS} "
            "that are listed: pairs=False has no such limit"
        )
        return Inference(facts=InferenceFacts(advice=advice))
    return graph_inference(Partial(_seen, kind), costs, of_sets=True)


def multi_label(
    number_of_features: int,
    number_of_labels: int,
    *,
    pairs: bool = True,
    loss: str = "hamming",
    inference: str = "enumeration",
    passes: int = PASSES,
    dtype: str = "float32",
) -> Problem:
    """Learning which labels an input has; see the module for F.

    Weights w = {"labels": u [d, L], "pairs": t [P, 2, 2]} with P = L (L - 1) / 2 pairs k < l in
    lexicographic order.

    Args:
      number_of_features: d. Inputs are dense [d] or `SparseFeatures` padded with index d.
      number_of_labels: L >= 1; enumeration takes up to 17.
      pairs: whether pairs of labels have weights; without them labels are independent.
      loss: "hamming", "normalised_hamming", "zero_one", "f1" or "ranking".
      inference: "enumeration", exact; "reweighted", with a bound; "modes" and "propagation" without
        one; "relaxed", marginals in place of sets, whose outputs are those of `set_marginals`
        (`marginals` says what its certificate means). All but the first take additive losses.
      passes: of message passing, at most.
      dtype: "float32" or "float64".

    Returns:
      A Problem on arrays [n, d]. Outputs are [L] int32, 1 for the labels of the set. Enumeration
      serves all seven formulations with any loss, the others svm1_margin and both slack
      re-scalings. Ties go to the lexicographically lowest set, where all are enumerated.

    Raises:
      ValueError: an argument does not fit.

    Source: T. Finley and T. Joachims, "Training structural SVMs when exact inference is
    intractable", ICML 2008.
    """
    d = checked_size("number_of_features", number_of_features)
    L = checked_size("number_of_labels", number_of_labels)
    check_flag("pairs", pairs)
    check_choice("loss", loss, LOSSES)
    check_choice("inference", inference, INFERENCE)
    dtype = checked_dtype(dtype)
    if inference == "enumeration":
        number_of_labellings(L, 2)
    way = Decoding(inference, checked_size("passes", passes))
    kind = _Kind(L, loss, bool(pairs) and L > 1, way)
    zero = {"labels": zeros_on_device((d, L), dtype)}
    if kind.pairs:
        zero["pairs"] = zeros_on_device((L * (L - 1) // 2, 2, 2), dtype)
    relaxed = inference == graph_decoding.RELAXED
    model, oracles, asked = _parts(kind, jnp.zeros((), dtype))
    space = Space(add=_add, gram_action=_gram_action, squared_norm=sum_of_squares)
    if not relaxed:
        space = space._replace(
            plane_gram=Partial(plane_gram, Static(kind.pairs)), differences=SET_DIFFERENCES
        )
    check = Partial(_check, d, kind)
    return make_problem(zero, model, oracles, space, check, _PADDING, asked, tested=True)
