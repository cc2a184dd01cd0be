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
from jaxstruct.core.spec import one_example
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.chart_levels import LevelSizes, NodeCounts
from jaxstruct.trees.oracles.charts import layout
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.recursion import Best, charts, sentences
from jaxstruct.trees.oracles.traceback import first_best, lift, pick, top_node, trees_below
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


def _trees_kernel(
    sizes: LevelSizes, rules: GrammarRules, potentials: TreePotentials, counts: NodeCounts | None,
    length: Array, *lines: Array,
) -> tuple[Array, Parsed]:  # fmt: skip
    """(levels, the trees of these): of every level, or of the best one of lines."""
    given, plan = sentences(rules, potentials, length, (counts, lines)), layout(*sizes)
    if counts is not None and counts.predicted is not None:
        if counts.predicted.shape[-1] != 1:
            raise ValueError(
                "counts.predicted must be shared by all sentences of a batch: use jax.vmap with "
                "None for it"
            )
        counts = counts._replace(predicted=counts.predicted[..., 0])
    found = charts(Best(), plan, given, counts)
    index = jnp.asarray(plan.index.reshape(plan.tokens + 1, -1))[given.length].T
    row = plan.row(given.length, 0)[None] + jnp.maximum(index, 0)
    symbols = jnp.arange(found.cells.shape[1], dtype=jnp.int32)[None, :, None]
    tops = pick(found.cells, row[:, None], symbols) + given.potentials.root[None]
    tops = jnp.where((index >= 0)[:, None], tops, -jnp.inf)
    score, symbol = first_best(jnp.swapaxes(tops, 0, 1))  # [P M, B]
    level = jnp.broadcast_to(lift(jnp.arange(len(score), dtype=jnp.int32), score[0]), score.shape)
    if lines:
        offsets, slopes, valid = (leaf.reshape(-1, leaf.shape[-1]) for leaf in lines)
        usable = valid & (score > -jnp.inf)
        values = jnp.where(usable, offsets + slopes * jnp.where(usable, score, 0), -jnp.inf)
        value, best = first_best(values)
        score = jnp.where(value > -jnp.inf, score, -jnp.inf)
        level, score, symbol, index = (
            jnp.take_along_axis(each, best[None], axis=0)
            for each in (level, score, symbol, jnp.broadcast_to(index, score.shape))
        )
    top, there = top_node(given, symbol, jnp.maximum(index, 0)), score > -jnp.inf
    tree = trees_below(plan, given, found, top, there, counts=counts)
    return level, Parsed(jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), tree), score)


def _scores(found: tuple[Array, Parsed], *arguments: Any) -> Array:
    rules, potentials, _, length, *_ = arguments
    score = partial(score_tree, rules, potentials, length=length)
    return jax.vmap(score)(found[1].tree)


@cache
def oracle(sizes: LevelSizes) -> Callable:
    """(levels, trees) of one sentence, from (rules, potentials, counts, length and lines)."""
    return of_one_example(partial(_trees_kernel, sizes), _scores)


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
    counts = jax.tree.map(lambda leaf: leaf * 1 if leaf.dtype == bool else leaf,
                          jax.tree.map(jnp.asarray, counts))  # fmt: skip
    axes = {"matched": "T T S", "predicted": "S"}
    return one_example("counts", counts, {"T": T, "S": S}, NodeCounts._fields, **axes)


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
      uses.

    Raises:
      ValueError: as `cky`; sizes or counts do not fit.
    """
    return level_trees(rules, potentials, counts, length, sizes).score


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
    _, found = oracle(sizes)(*arguments)
    return jax.tree.map(lambda leaf: leaf.reshape(*_shape(sizes), *leaf.shape[1:]), found)


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
    level, found = oracle(sizes)(*arguments, offsets, slopes, valid)
    (level,), (tree, score) = level, jax.tree.map(lambda leaf: leaf[0], found)
    there = score > -jnp.inf
    place = jnp.divmod(jnp.where(there, level, 0), shape[-1])
    at = place[-len(shape) :]
    value = jnp.where(there, offsets[at] + slopes[at] * jnp.where(there, score, 0), -jnp.inf)
    return BestTreeLevel(tree, place[1], place[0], score, value)
