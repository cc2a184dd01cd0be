"""Exact samples of trees from p(y) = exp(F(y) - log Z): inside sums upward, draws downward.

The top symbol is drawn from its probability, then at every node, in preorder, the group of its
rule, the rule and the split, each from the probabilities of all that there are (Johnson, Griffiths
and Goldwater, "Bayesian inference for PCFGs via Markov chain Monte Carlo", 2007, section 3).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import drawn, noise
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.inside_outside import inside, prepared
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.traceback import OF_GROUP, Drawn, most_groups, top_node, trees_below
from jaxstruct.trees.potentials import GrammarRules, TreePotentials


def _kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array, top_noise: Array, *own: Array
) -> BinaryTree:
    layout, given = prepared(rules, potentials, length)
    sums = inside(layout, given, keep=True)
    symbol = drawn(sums.top, top_noise)
    there = jnp.broadcast_to(sums.shift > -jnp.inf, symbol.shape)
    top = top_node(given, symbol, jnp.int32(0))
    return trees_below(layout, given, sums.charts, top, there, Drawn(own))


_of_one = of_one_example(_kernel)


def sample_tree(
    rules: GrammarRules, potentials: TreePotentials, length: Array, key: Array
) -> BinaryTree:
    """One tree drawn from p(y) = exp(F(y) - log Z).

    Args:
      rules, potentials, length: as in `cky`.
      key: a random key of its own for every tree; `vmap` over keys alone draws many trees of one
        sentence and fills its chart once.

    Returns:
      A BinaryTree with PADDING beyond the length, and throughout where there is no parse. A
      forbidden tree is never drawn. Probabilities are exact up to the rounding of sums.

    Raises:
      ValueError: as `cky`.
    """
    checked = checked_sentence(rules, potentials, length)
    lexical = checked[1].lexical
    T, S = lexical.shape
    stages = most_groups(len(checked[0].parents)), OF_GROUP, T - 1
    shapes = (S,), *((T - 1, size) for size in stages)
    keys = jax.random.split(key, len(shapes))
    own = (noise(key, shape, lexical.dtype) for key, shape in zip(keys, shapes, strict=True))
    return _of_one(*checked, *own)
