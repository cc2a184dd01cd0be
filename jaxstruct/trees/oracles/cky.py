"""CKY: the best tree of a sentence under a weighted grammar in Chomsky normal form."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.charts import plain
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.recursion import Best, charts, sentences, top_scores
from jaxstruct.trees.oracles.traceback import first_best, top_node, trees_below
from jaxstruct.trees.potentials import GrammarRules, Parsed, TreePotentials, score_tree


def _score_kernel(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    given, layout = sentences(rules, potentials, length), plain(potentials.lexical.shape[0])
    found = charts(Best(), layout, given, keep=False)
    return jnp.max(top_scores(layout, given, found.cells), axis=0)


def _kernel(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Parsed:
    given, layout = sentences(rules, potentials, length), plain(potentials.lexical.shape[0])
    found = charts(Best(), layout, given)
    score, symbol = first_best(top_scores(layout, given, found.cells))
    top = top_node(given, symbol, jnp.int32(0))
    return Parsed(trees_below(layout, given, found, top, score > -jnp.inf), score)


def _score(found: Parsed, rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return score_tree(rules, potentials, found.tree, length)


def _score_alone(
    found: Array, rules: GrammarRules, potentials: TreePotentials, length: Array
) -> Array:
    del found
    best = _of_one(rules, jax.lax.stop_gradient(potentials), length)
    return score_tree(rules, potentials, best.tree, length)


_of_one = of_one_example(_kernel, _score)
_score_of_one = of_one_example(_score_kernel, _score_alone)


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
    return _of_one(*checked_sentence(rules, potentials, length))


def cky_score(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    """The score of `cky` without its tree."""
    return _score_of_one(*checked_sentence(rules, potentials, length))
