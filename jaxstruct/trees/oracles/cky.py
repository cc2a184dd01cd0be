"""CKY: the best tree of a sentence under a weighted grammar in Chomsky normal form."""

from __future__ import annotations

import jax

from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.chart_levels import capped_sizes
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.tree_levels import oracle
from jaxstruct.trees.potentials import GrammarRules, Parsed, TreePotentials


def cky(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Parsed:
    """The tree of the largest score: argmax_y F(y) of one sentence, F of `tree_potentials`.

    Bottom up it finds the best score of every symbol over every span. Top down, from the best top
    node, it finds the best rule and split of each node again (thesis 4.5, algorithm 5).

    Args:
      rules: the grammar; all sentences of a batch share it, so that its axis under `vmap` is None.
      potentials: of one sentence of at most T tokens, S symbols and R rules.
      length: int32 scalar, 1 <= length <= T.

    Returns:
      Parsed: a BinaryTree, and its F. Ties go to the lowest symbol of the top node, then, node by
      node in preorder, to the lowest number of a rule, then to the lowest split. A sentence
      without a parse has the score -inf and a tree of PADDING throughout. Under `vmap`, nested or
      not, one batched program runs for all sentences. The derivative of the score counts what the
      returned tree uses, 0 without a parse; the tree has none.

    Raises:
      ValueError: shapes do not fit together, a dtype is not what it should be, or rules
        that are known before compiling are not sorted or hold unknown symbols.

    Source: Cocke, Kasami, Younger.
    """
    rules, potentials, length = checked_sentence(rules, potentials, length)
    sizes = capped_sizes(potentials.lexical.shape[0], 0)
    _, found = oracle(sizes)(rules, potentials, None, length)
    return jax.tree.map(lambda leaf: leaf[0], found)
