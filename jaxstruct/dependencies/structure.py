"""Dependency trees: every word has a head, and every arc may have a label.

    F(x, y; w) = sum_m <w, Phi(x, y_m, m)> + <w_{r_m}, Phi'(x, y_m, m)>

Phi and Phi' are the features of arcs, see `features`. One word hangs on the root. Trees are
projective (no two arcs cross: J. Eisner, COLING 1996) or any (R. McDonald, F. Pereira, K. Ribarov
and J. Hajic, HLT 2005). The losses add up over arcs, so that the most violated tree of margin
re-scaling is one plain decode. Slack re-scaling has the best projective tree of every number of
errors; among trees of any kind it searches with plain decodes.

P(y | x) = exp(F(x, y)) / Z(x) over all trees with one word on the root, projective or not.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_flag, checked_dtype
from jaxstruct.core.contract import (
    Inference,
    Marginals,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
    Truth,
)
from jaxstruct.core.derived_inference import positions, with_raised
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree, static
from jaxstruct.dependencies import example_checks
from jaxstruct.dependencies.differences import tree_differences
from jaxstruct.dependencies.features import ArcFeatures, arc_places, over_slots, sentence_tables
from jaxstruct.dependencies.losses import ArcLoss, agreeing, arc_costs, arc_loss, delta, of_count
from jaxstruct.dependencies.oracles import sums
from jaxstruct.dependencies.oracles.decoding import (
    best_of_errors,
    best_tree,
    best_wrong_tree,
    k_best_trees,
)
from jaxstruct.dependencies.oracles.sums import sample_tree
from jaxstruct.dependencies.potentials import PADDING, Decoded, Parse, TreeKind, is_word, score_tree


def _log_loss(trees: TreeKind, theta: PyTree, y: Parse) -> Array:
    """-log P(y | x) of one tree.

    The potentials of the arcs of y are taken off those into the same words before the sum over all
    trees: log Z and F(y) would be large and nearly equal.
    """
    potentials, length = theta
    _, T, R = potentials.shape
    labels = jnp.clip(y.labels, 0, R - 1) if trees.labelled else jnp.zeros(T, jnp.int32)
    own = potentials[jnp.maximum(y.heads, 0), jnp.arange(T), labels]
    moved = potentials - own[None, :, None]
    return sums.log_partition(moved, length, projective=trees.projective)


def _marginals(trees: TreeKind, theta: PyTree) -> Marginals:
    """[T + 1, T, R] P(y_m = h, r_m = r), or [T + 1, T] without labels."""
    found, total = sums.marginals(theta.potentials, theta.length, projective=trees.projective)
    sizes = positions(theta.length + 1, theta.length)
    return Marginals(found if trees.labelled else found[..., 0], total, sizes)


def _k_best(
    trees: TreeKind, theta: PyTree, k: int, above: Array | float = -jnp.inf
) -> tuple[Parse, Array]:
    found = k_best_trees(theta.potentials, theta.length, k, above, projective=trees.projective)
    return trees.parse(found.heads, found.labels), found.score


def _sample(trees: TreeKind, theta: PyTree, key: Array) -> Parse:
    given = theta.potentials, theta.length, key
    return trees.parse(*sample_tree(*given, projective=trees.projective))


def number_of_trees(words: int, projective: bool) -> int:
    """Trees of so many words with one word on the root: 1, 2, 7, 30 .. projective ones, else
    words^(words - 1)."""
    if not projective:
        return words ** (words - 1)
    return math.comb(3 * words - 2, words - 1) // words


def _most_trees(trees: TreeKind, inputs: PyTree) -> int:
    longest = max(int(np.max(inputs.length, initial=1)), 1)
    return number_of_trees(longest, trees.projective) * trees.labels**longest


def tree_inference(trees: TreeKind, raised: Partial) -> Inference:
    """The inference of dependency trees.

    Args:
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y).
    """
    named = (_log_loss, _marginals, _k_best, _sample)
    own = Inference(
        *(Partial(one, trees) for one in named), most_outputs=Partial(_most_trees, trees)
    )
    return with_raised(own, raised)


class SentenceInput(NamedTuple):
    """One sentence, padded; `sentence_inputs` makes a batch.

    Fields:
      tokens: [T, columns] int32 as `ArcFeatures` says, 0 on padding; or `Ragged`.
      length: int32 scalar.
    """

    tokens: AnyArray
    length: AnyArray


class TreeTheta(NamedTuple):
    """Potentials [T + 1, T, R] of one sentence, entries beyond its length never read."""

    potentials: Array
    length: Array


PRICE = 3000
"""Padded positions that a further bucket must save: the time of a sentence grows with the square
and the cube of its positions."""


@static
class _Tables:
    """What the functions of a problem are bound to."""

    features: ArcFeatures
    loss: ArcLoss
    trees: TreeKind


def _arc_scores(tables: _Tables, weights: Array, tokens: Array) -> Array:
    """[T + 1, T, R] the potentials of all arcs."""
    T, R = tokens.shape[0], tables.features.labels
    heads, children = jnp.meshgrid(jnp.arange(T + 1), jnp.arange(T), indexing="ij")
    arcs = sentence_tables(tables.features, tokens), heads[:, :, None], children[:, :, None]

    def add(total: Array, places: Array, active: Array) -> tuple[Array, None]:
        own = weights.at[places].get(mode="promise_in_bounds")
        return total + jnp.where(active, own, 0), None

    zeros = jnp.zeros((T + 1, T, 1), weights.dtype)
    found = over_slots(tables.features, arcs, None, add, zeros)[0]
    if tables.trees.labelled:
        rows = jnp.broadcast_to(found, (T + 1, T, R))
        found = over_slots(tables.features, arcs, jnp.arange(R)[None, None], add, rows)[0]
    return found


def _potentials(tables: _Tables, w: PyTree, x: SentenceInput) -> TreeTheta:
    potentials = _arc_scores(tables, w["features"], x.tokens)
    return TreeTheta(potentials, jnp.asarray(x.length, jnp.int32))


def _plane_places(tables: _Tables, tokens: Array, y: Parse) -> Array:
    """[S, K, T] of the arcs of trees [K, T]."""
    sentence, words = sentence_tables(tables.features, tokens), jnp.arange(y.heads.shape[1])[None]
    return arc_places(tables.features, sentence, y.heads, words, y.labels)


def _plane_values(tables: _Tables, w: PyTree, x: SentenceInput, y: Parse) -> Array:
    """[B, K] F of the planes."""
    weights = w["features"]

    def of_one(tokens: Array, y: Parse) -> Array:
        places = _plane_places(tables, tokens, y)
        own = weights.at[jnp.maximum(places, 0)].get(mode="promise_in_bounds")
        return jnp.sum(jnp.where(places >= 0, own, 0), axis=(0, 2))

    return jax.vmap(of_one)(x.tokens, y)


def _add_planes(tables: _Tables, w: PyTree, x: SentenceInput, y: Parse, c: Array) -> PyTree:
    """w + sum c Psi of a batch of planes [B, K]."""
    places, weights = jax.vmap(partial(_plane_places, tables))(x.tokens, y), w["features"]
    parts = jnp.broadcast_to(c[:, None, :, None], places.shape).reshape(-1)
    places = jnp.where(places >= 0, places, weights.shape[0]).reshape(-1)
    return {"features": weights.at[places].add(parts, mode="drop")}


def _plane_gram(
    tables: _Tables, x: SentenceInput, y_true: Parse, outputs: Parse, y: Parse
) -> Array:
    """[K] <delta Psi(y_k), delta Psi(y)>: features that arcs of both share, word by word of y."""
    first = jax.tree.map(lambda *two: jnp.stack(two), y_true, y)
    trees = jax.tree.map(lambda *two: jnp.concatenate(two), first, outputs)
    arcs = _plane_places(tables, x.tokens, trees)  # [S, 2 + K, T], the true tree and y first

    def with_word(m: Array, total: Array) -> Array:
        into = jax.lax.dynamic_slice_in_dim(arcs, m, 1, axis=2)
        same = (arcs == into[:, :1]).astype(jnp.int32) - (arcs == into[:, 1:2]).astype(jnp.int32)
        return total + jnp.sum(jnp.where(arcs >= 0, same, 0), axis=(0, 2), dtype=jnp.int32)

    total = jax.lax.fori_loop(0, x.length, with_word, jnp.zeros(arcs.shape[1], jnp.int32))
    return (total[0] - total[2:]).astype(tables.loss.dtype)


def _score(theta: TreeTheta, y: Parse) -> Array:
    return score_tree(theta.potentials, y.heads, y.labels, theta.length)


def _or_true(tables: _Tables, found: Decoded, y_true: Parse) -> Parse:
    """What was found; the true tree where it was none."""
    some, y = found.score > -jnp.inf, tables.trees.parse(found.heads, found.labels)
    return jax.tree.map(lambda own, true: jnp.where(some, own, true), y, y_true)


def _decode(tables: _Tables, theta: TreeTheta) -> Parse:
    found = best_tree(*theta, projective=tables.trees.projective)
    return tables.trees.parse(found.heads, found.labels)


def _restrict(theta: TreeTheta, known: Parse) -> TreeTheta:
    """theta without the arcs that do not agree with what is known; padding stays as it is."""
    T = theta.potentials.shape[1]
    kept = agreeing(known, T) | ~is_word(theta.length, T)[None, :, None]
    return theta._replace(potentials=jnp.where(kept, theta.potentials, -jnp.inf))


def _loss_augmented(
    tables: _Tables, theta: TreeTheta, y_true: Parse | Truth, scale: Array
) -> Parse:
    return _decode(tables, _raised(tables, theta, y_true, scale))


def _raised(
    tables: _Tables, theta: TreeTheta, y_true: Parse | Truth, scale: Array | float = 1
) -> TreeTheta:
    """theta whose score is F(y) + scale Delta(y_true, y)."""
    costs = arc_costs(tables.loss, y_true, theta.potentials.shape)
    return theta._replace(potentials=theta.potentials + scale * costs)


def _best_wrong(tables: _Tables, theta: TreeTheta, y_true: Parse) -> Parse:
    labels = y_true.labels if tables.trees.labelled else jnp.minimum(y_true.heads, 0)
    given = theta.potentials, (y_true.heads, labels), theta.length
    found = best_wrong_tree(*given, projective=tables.trees.projective)
    return _or_true(tables, found, y_true)


def _level_losses(tables: _Tables, y_true: Parse) -> Array:
    """[T + 1] the loss of every number of wrong words."""
    return of_count(tables.loss, y_true, jnp.arange(len(y_true.heads) + 1))


def _with_other_labels(theta: TreeTheta, y_true: Parse) -> Decoded:
    """The best of the true heads with other labels than the true ones; -inf where R = 1."""
    _, T, R = theta.potentials.shape
    real = is_word(theta.length, T)
    own = theta.potentials[jnp.maximum(y_true.heads, 0), jnp.arange(T)]
    other = jnp.where(jnp.arange(R)[None] == y_true.labels[:, None], -jnp.inf, own)
    word = jnp.argmax(jnp.where(real, jnp.max(other, axis=1) - jnp.max(own, axis=1), -jnp.inf))
    labels = jnp.argmax(own, axis=1).at[word].set(jnp.argmax(other[word]))
    labels = jnp.where(real, labels, PADDING).astype(jnp.int32)
    score = score_tree(theta.potentials, y_true.heads, labels, theta.length)
    return Decoded(y_true.heads, labels, jnp.where(R > 1, score, -jnp.inf))


def _best_by_level(
    tables: _Tables, theta: TreeTheta, y_true: Parse, offsets: Array, slopes: Array
) -> Parse:
    """Level 0 is the true tree alone, or its heads with other labels where these cost nothing."""
    wrong = arc_costs(tables.loss, y_true, theta.potentials.shape) > 0
    but_right = offsets.at[0].set(-jnp.inf)
    found = best_of_errors(theta.potentials, wrong, theta.length, but_right, slopes)
    if tables.trees.labelled and not tables.loss.of_labels:
        right = _with_other_labels(theta, y_true)

        def value(tree: Decoded, level: Array | int) -> Array:
            some = tree.score > -jnp.inf
            own = offsets[level] + slopes[level] * jnp.where(some, tree.score, 0)
            return jnp.where(some, own, -jnp.inf)

        of_right, errors = value(right, 0), jnp.sum(found.heads != y_true.heads)
        first = (of_right > -jnp.inf) & (of_right >= value(found, errors))
        found = jax.tree.map(lambda a, b: jnp.where(first, a, b), right, found)
    return _or_true(tables, found, y_true)


@static
class _OutputSizes:
    """To how many positions outputs are padded, see `Padding`."""

    labelled: bool

    def __call__(self, x: SentenceInput) -> Parse:
        T = np.shape(x.tokens)[1]
        return Parse(T, T if self.labelled else None)


def sentence_inputs(tokens: Any, length: AnyArray | None = None) -> SentenceInput:
    """A batch of sentences.

    Args:
      tokens: a `Ragged` store of rows [columns] of integers; or [n, T, columns], 0 on padding.
      length: [n] of an array; a store knows its own.

    Raises:
      ValueError: a length is missing, or one too many.
    """
    if isinstance(tokens, Ragged) != (length is None):
        raise ValueError("length must be given of arrays [n, T, columns], and not of Ragged stores")
    length = tokens.lengths if length is None else length
    return SentenceInput(tokens, np.asarray(length, np.int32))


def dependency_parser(
    features: ArcFeatures,
    *,
    labelled: bool = False,
    projective: bool = True,
    loss: str = "hamming",
    dtype: str = "float32",
) -> Problem:
    """Learn to parse; see the module for F.

    Weights are w = {"features": [features.size]}: of each slot of `features.slots` its range.

    Args:
      features: of arcs; made by `prepare`, or written down.
      labelled: whether outputs have labels, 0..R - 1 with R = features.labels.
      projective: whether outputs are projective trees; those of training have to be.
      loss: "hamming" (words with a wrong head), "labelled_hamming" (with a wrong head or label), or
        one of these as "normalised_..", divided by the length.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `SentenceInput`s, whose outputs are `Parse`s. Of projective trees all
      formulations are exact, those that neither svm1_margin nor `best_wrong_tree` serves by the
      best tree of every number of errors: .4 ms a call of 12 words, 69 of 40. Of any trees
      svm2_margin is none, and svm1_slack and svm2_slack are searched; what the search may have
      missed is listed or bounded. Ties as in `best_tree`.

    Raises:
      ValueError: an argument does not fit.
    """
    dtype = checked_dtype(dtype)
    check_flag("labelled", labelled)
    check_flag("projective", projective)
    example_checks.check_features(features, labelled)
    kind, trees = arc_loss(loss, labelled, dtype), TreeKind(labelled, projective, features.labels)
    tables = _Tables(features, kind, trees)
    zero = {"features": jax.device_put(np.zeros(features.size, dtype))}
    inference = tree_inference(trees, Partial(_raised, tables))
    by_errors = dict(best_above=inference.augmented_k_best)
    if projective:
        by_errors = dict(
            level_losses=Partial(_level_losses, tables),
            best_by_level=Partial(_best_by_level, tables),
        )
    return make_problem(
        zero,
        Model(
            Partial(_potentials, tables), _score, Partial(_decode, tables),
            Partial(delta, kind), restrict=_restrict,
        ),
        Oracles(
            loss_augmented_decode=Partial(_loss_augmented, tables),
            best_wrong=Partial(_best_wrong, tables),
            **by_errors,
        ),
        Space(
            plane_values=Partial(_plane_values, tables), add_planes=Partial(_add_planes, tables),
            plane_gram=Partial(_plane_gram, tables), differences=tree_differences(features),
        ),
        Partial(_check, tables),
        Padding(price=PRICE, output_sizes=_OutputSizes(labelled)),
        inference,
        tested=True,
    )  # fmt: skip


def _check(tables: _Tables, inputs: SentenceInput, outputs: Parse | Truth | None = None) -> None:
    """All checks of values; outputs are given for training only."""
    example_checks.check_sentences(tables.features, inputs, SentenceInput)
    if outputs is not None:
        if isinstance(outputs, Truth):
            labels = tables.features.labels if tables.trees.labelled else None
            outputs = example_checks.checked_completions(inputs.length, outputs, labels)
        example_checks.check_trees(inputs.length, outputs, tables.trees)
