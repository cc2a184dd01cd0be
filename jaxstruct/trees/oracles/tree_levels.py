"""The best tree at every number of matched nodes, and at every pair of matched and predicted ones.

A node is a symbol over a span. The caller chooses what it adds to the counts (`NodeCounts`):

- 1 for each node of the true tree: m is the number of matched nodes, as 1 - F1 needs it.
- 1 for each node that the true tree lacks: m is the number of misses. Capped at 1 it separates the
  true tree from all others, as the zero-one loss does.

For a loss that is a function of the counts, slack and margin re-scaling are exact maxima over the
levels (thesis 4.5).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.types import Array, BinaryTree, PyTree
from jaxstruct.trees.oracles.chart_levels import LevelSizes, NodeCounts
from jaxstruct.trees.oracles.charts import Layout, layout
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.recursion import Best, Charts, Sentences, charts, sentences
from jaxstruct.trees.oracles.traceback import first_best, pick, top_node, trees_below
from jaxstruct.trees.potentials import GrammarRules, Parsed, TreePotentials, score_tree


class BestTreeLevel(NamedTuple):
    """The best tree of the best level.

    Fields:
      tree: BinaryTree, PADDING throughout if no level qualifies.
      matched: int32, its m; the last value stands for all larger ones.
      predicted: int32, its p; 0 where p is not counted.
      score: F of the tree.
      value: offsets + slopes F at its level.
    """

    tree: BinaryTree
    matched: Array
    predicted: Array
    score: Array
    value: Array


def _shape(sizes: LevelSizes) -> tuple[int, ...]:
    matched = (sizes.matched[-1],)
    return matched if sizes.predicted is None else (sizes.predicted[-1], *matched)


class _Filled(NamedTuple):
    """Charts of a batch, and what is asked of them."""

    layout: Layout
    given: Sentences
    counts: NodeCounts | None
    charts: Charts


def _fill(
    sizes: LevelSizes, keep: bool, rules: GrammarRules, potentials: TreePotentials,
    counts: NodeCounts | None, length: Array, others: PyTree = None,
) -> _Filled:  # fmt: skip
    given, plan = sentences(rules, potentials, length, (counts, others)), layout(*sizes)
    if counts is not None and counts.predicted is not None:
        if counts.predicted.shape[-1] != 1:
            raise ValueError(
                "counts.predicted must be shared by all sentences of a batch: use jax.vmap with "
                "None for it"
            )
        counts = counts._replace(predicted=counts.predicted[..., 0])
    return _Filled(plan, given, counts, charts(Best(), plan, given, counts, keep))


def _top_scores(filled: _Filled) -> tuple[Array, Array]:
    """([P M, S, B] scores of whole trees by level and top symbol, [P M, B] level in the charts)."""
    plan, given = filled.layout, filled.given
    index = jnp.asarray(plan.index.reshape(plan.tokens + 1, -1))[given.length].T
    rows = plan.row(given.length, 0)[None] + jnp.maximum(index, 0)
    symbols = jnp.arange(filled.charts.cells.shape[1], dtype=jnp.int32)[None, :, None]
    scores = pick(filled.charts.cells, rows[:, None], symbols) + given.potentials.root[None]
    return jnp.where((index >= 0)[:, None], scores, -jnp.inf), index


def _trees(filled: _Filled, symbol: Array, level: Array, found: Array) -> BinaryTree:
    """The trees of top nodes, leaves [.., B], at levels of the charts."""
    plan, given, counts, chart = filled
    return trees_below(plan, given, chart, top_node(given, symbol, level), found, counts=counts)


def scores_kernel(sizes: LevelSizes, *arguments: Any) -> Array:
    """The best score of every level; see `tree_levels`."""
    scores = jnp.max(_top_scores(_fill(sizes, False, *arguments))[0], axis=1)
    return scores.reshape(*_shape(sizes), -1)


def trees_kernel(sizes: LevelSizes, *arguments: Any) -> Parsed:
    """The best tree of every level; see `level_trees`."""
    filled = _fill(sizes, True, *arguments)
    tops, levels = _top_scores(filled)
    score, symbol = first_best(jnp.swapaxes(tops, 0, 1))
    tree = _trees(filled, symbol, jnp.maximum(levels, 0), score > -jnp.inf)
    tree = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), tree)
    shape = _shape(sizes)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), Parsed(tree, score))


def _best_kernel(sizes: LevelSizes, *arguments: Any) -> BestTreeLevel:
    *sentence, offsets, slopes, valid = arguments
    filled = _fill(sizes, True, *sentence, others=(offsets, slopes, valid))
    tops, levels = _top_scores(filled)
    scores = jnp.max(tops, axis=1)
    offsets, slopes, valid = (leaf.reshape(-1, leaf.shape[-1]) for leaf in arguments[-3:])
    usable = valid & (scores > -jnp.inf)
    values = jnp.where(usable, offsets + slopes * jnp.where(usable, scores, 0), -jnp.inf)
    value, best = first_best(values)
    score, symbol = first_best(jnp.take_along_axis(tops, best[None, None], axis=0)[0])
    found = value > -jnp.inf
    tree = _trees(filled, symbol, jnp.maximum(pick(levels, best), 0), found)
    predicted, matched = jnp.divmod(jnp.where(found, best, 0), sizes.matched[-1])
    return BestTreeLevel(tree, matched, predicted, jnp.where(found, score, -jnp.inf), value)


def _scores_of_trees(sizes: LevelSizes, found: Parsed, *arguments: Any) -> Array:
    rules, potentials, _, length = arguments
    score = partial(score_tree, rules, potentials, length=length)
    for _ in _shape(sizes):
        score = jax.vmap(score)
    return score(found.tree)


def _scores_alone(sizes: LevelSizes, found: Array, *arguments: Any) -> Array:
    """The scores of `tree_levels` from the trees of `level_trees`."""
    del found
    held = jax.lax.stop_gradient(arguments)
    return _scores_of_trees(sizes, oracle(trees_kernel, sizes)(*held), *arguments)


def _score_and_value(
    sizes: LevelSizes, found: BestTreeLevel, *arguments: Any
) -> tuple[Array, Array]:
    """The leaves `score` and `value` of `found`, from the arguments of `_best_kernel`."""
    rules, potentials, _, length, offsets, slopes, _ = arguments
    score = score_tree(rules, potentials, found.tree, length)
    score = jnp.where(found.score > -jnp.inf, score, 0)
    level = (found.predicted, found.matched)[-len(_shape(sizes)) :]
    return score, offsets[level] + slopes[level] * score


_SCORES = {
    scores_kernel: _scores_alone, trees_kernel: _scores_of_trees, _best_kernel: _score_and_value
}  # fmt: skip


@cache
def oracle(kernel: Callable, sizes: LevelSizes) -> Callable:
    """The function of one sentence: (rules, potentials, counts, length and what else)."""
    return of_one_example(partial(kernel, sizes), partial(_SCORES[kernel], sizes))


def _checked_sizes(sizes: LevelSizes, tokens: int) -> LevelSizes:
    sizes = LevelSizes._make(None if part is None else tuple(map(int, part)) for part in sizes)
    for name, part in zip(LevelSizes._fields, sizes, strict=True):
        if part is None:  # as predicted may be
            continue
        if len(part) != tokens or min(part) < 1 or list(part) != sorted(part):
            raise ValueError(
                f"sizes.{name} must be T = {tokens} rising numbers of at least 1, one for each "
                f"count of tokens, got {part}"
            )
    return sizes


def _checked_counts(
    counts: NodeCounts, sizes: LevelSizes, potentials: TreePotentials
) -> NodeCounts:
    T, S = potentials.lexical.shape
    if (counts.predicted is None) != (sizes.predicted is None):
        raise ValueError("counts.predicted and sizes.predicted must both be given, or both be None")
    expected = {"matched": (T, T, S), "predicted": (S,)}
    found = {}
    for name, shape in expected.items():
        leaf = getattr(counts, name)
        if leaf is None:
            found[name] = None
            continue
        leaf = jnp.asarray(leaf)
        if leaf.shape != shape:
            raise ValueError(f"counts.{name} must be {list(shape)}, got shape {leaf.shape}")
        if leaf.dtype == bool:
            leaf = leaf.astype(jnp.int8)
        if not jnp.issubdtype(leaf.dtype, jnp.integer):
            raise ValueError(f"counts.{name} must be integers or bool, got {leaf.dtype}")
        found[name] = leaf
    return NodeCounts(**found)


def _checked(
    rules: GrammarRules, potentials: TreePotentials, counts: NodeCounts, length: Array,
    sizes: LevelSizes,
) -> tuple[LevelSizes, tuple]:  # fmt: skip
    rules, potentials, length = checked_sentence(rules, potentials, length)
    sizes = _checked_sizes(sizes, potentials.lexical.shape[0])
    return sizes, (rules, potentials, _checked_counts(counts, sizes, potentials), length)


def tree_levels(
    rules: GrammarRules, potentials: TreePotentials, counts: NodeCounts, length: Array,
    sizes: LevelSizes,
) -> Array:  # fmt: skip
    """The best score at every level: F_m = max F(y) over trees whose nodes match m in all.

    CKY with a cell for every level of a span, filled from all pairs of levels of its two parts.

    Args:
      rules, potentials, length: as in `cky`.
      counts: what each node adds.
      sizes: static, how many levels there are (`inner_sizes`, `capped_sizes`).

    Returns:
      [M] scores, or [P, M] by (p, m) where p is counted, M and P being the sizes of T tokens; -inf
      where no tree has the level. The derivative of a score counts what the best tree of its level
      uses; it takes `level_trees`.

    Raises:
      ValueError: as `cky`; sizes or counts do not fit.
    """
    sizes, arguments = _checked(rules, potentials, counts, length, sizes)
    return oracle(scores_kernel, sizes)(*arguments)


def level_trees(
    rules: GrammarRules, potentials: TreePotentials, counts: NodeCounts, length: Array,
    sizes: LevelSizes,
) -> Parsed:  # fmt: skip
    """The best tree of every level, with its score.

    Args:
      As `tree_levels`.

    Returns:
      Parsed whose leaves have a leading axis [M], or [P, M]; PADDING where no tree has the level.
      Ties within a level go to the lowest top symbol. Below that they go, node by node in
      preorder, to the lowest rule, then split, then level of the left part. Within a capped last
      level any of the best may be returned.
    """
    sizes, arguments = _checked(rules, potentials, counts, length, sizes)
    return oracle(trees_kernel, sizes)(*arguments)


def best_of_tree_levels(
    rules: GrammarRules, potentials: TreePotentials, counts: NodeCounts, length: Array,
    sizes: LevelSizes, offsets: Array, slopes: Array, valid: Array | None = None,
) -> BestTreeLevel:  # fmt: skip
    """The tree of the level that maximises offsets[m] + slopes[m] F_m, F_m as in `tree_levels`.

    It finds the most violated constraint of slack and of margin re-scaling. With Delta_m the loss
    of level m:

      slack re-scaling    slopes Delta_m, offsets Delta_m - Delta_m F(y_true)
      margin re-scaling   slopes 1,       offsets Delta_m - F(y_true)
      zero-one loss       misses capped at 1, slopes (0, 1), offsets (-inf, 0): the best y != y_true

    One program does it all. Only the best level is traced back.

    Args:
      rules, potentials, counts, length, sizes: as in `tree_levels`.
      offsets: [M] or [P, M]; -inf excludes a level. slopes: the same shape, >= 0.
      valid: the same shape, bool, False excludes a level; None for all.

    Returns:
      BestTreeLevel. Ties go to the lowest p, then the lowest m, within a level as in `level_trees`.
      If no level qualifies the value is -inf and the tree PADDING.

    Raises:
      ValueError: as `tree_levels`; offsets, slopes and valid have not the levels' shape.
    """
    sizes, arguments = _checked(rules, potentials, counts, length, sizes)
    dtype = arguments[1].lexical.dtype
    offsets, slopes = jnp.asarray(offsets, dtype), jnp.asarray(slopes, dtype)
    valid = jnp.ones(offsets.shape, bool) if valid is None else jnp.asarray(valid, bool)
    shape = _shape(sizes)
    if not shape == offsets.shape == slopes.shape == valid.shape:
        raise ValueError(
            f"offsets, slopes and valid must all be {list(shape)}, one for each level, got shapes "
            f"{offsets.shape}, {slopes.shape} and {valid.shape}"
        )
    return oracle(_best_kernel, sizes)(*arguments, offsets, slopes, valid)
