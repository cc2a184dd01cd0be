"""The best tree at every number of counted nodes.

A node is a symbol over a span. The caller chooses what it adds to the level of its tree:

- 1 for each node of the true tree: the level is the number of matched nodes, as 1 - F1 needs it.
- 1 for each node that the true tree lacks: the level is the number of misses. With two levels it
  separates the true tree from all others, as the zero-one loss does.

For a loss that is a function of the level, slack and margin re-scaling are exact maxima over the
levels (thesis 4.5).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import checked_size
from jaxstruct.core.spec import array
from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.forest_trees import chart_of, forest_level_trees, of_rows
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.potentials import GrammarRules, Parsed, TreePotentials, score_tree


def tree_levels(
    rules: GrammarRules, potentials: TreePotentials, counts: Array, length: Array, levels: int
) -> Parsed:
    """The best tree of every level: argmax F(y) over trees whose nodes count m in all.

    CKY with a cell for every level of a symbol over a span, filled from all pairs of levels of its
    two parts (`oracles.forest_trees`).

    Args:
      rules, potentials, length: as in `cky`.
      counts: [T, T, S] integers >= 0, or bool, what a node adds: (first token, last token, symbol),
        single tokens included. Two counts are one: p L + m, where every m is less than L.
      levels: L, a Python integer: m is one of 0..L - 1, and L - 1 stands for all larger ones.

    Returns:
      Parsed whose leaves have a leading axis [L]; PADDING and -inf where no tree has the level.
      Ties within a level go to the lowest top symbol, below that, node by node in preorder, to the
      lowest rule, then split, then level of the left part. Within the last level any of the best
      may be returned. The derivative of a score counts what its tree uses.

    Raises:
      ValueError: as `cky`; levels < 1; counts do not fit.
    """
    rules, potentials, length = checked_sentence(rules, potentials, length)
    levels, (T, S) = checked_size("levels", levels), potentials.lexical.shape
    counts = jnp.asarray(counts)
    counts = counts.astype(jnp.int32) if counts.dtype == bool else counts
    array("counts", counts, "T T S", sizes={"T": T, "S": S}, advice="; use jax.vmap for a batch")
    chart, scores = chart_of(rules, potentials, length)
    tree = forest_level_trees(chart, scores, T, of_rows(counts).astype(jnp.int32), levels)
    return Parsed(tree, jax.vmap(partial(score_tree, rules, potentials, length=length))(tree))
