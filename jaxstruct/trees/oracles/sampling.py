"""Exact samples of trees from p(y) = exp(F(y) - log Z): inside sums upward, draws downward.

The top symbol is drawn from its probability, then at every node, in preorder, the split from the
probabilities of all splits and the rule from those of all rules over that split (Johnson, Griffiths
and Goldwater, "Bayesian inference for PCFGs via Markov chain Monte Carlo", 2007, section 3).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.best_charts import Sentences, term_rows
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.inside_outside import Inside, inside_sums, prepared
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.traceback import Choice, Node, pick, trace_back
from jaxstruct.trees.potentials import GrammarRules, TreePotentials


def _draw(weights: Array, uniform: Array) -> Array:
    """[B] index m with probability weights[m] / sum, from weights [M, B] and numbers in [0, 1).

    An index of weight 0 is drawn only where all weights are 0.
    """
    sums = jnp.cumsum(weights, axis=0)
    above = (sums > (uniform * sums[-1])[None]) & (weights > 0)
    # Rounded up, uniform * sum may be the sum itself: then the last index of positive weight.
    last = weights.shape[0] - 1 - jnp.argmax(weights[::-1] > 0, axis=0)
    return jnp.where(jnp.any(above, axis=0), jnp.argmax(above, axis=0), last).astype(jnp.int32)


def _search(
    layout: Layout, given: Sentences, inside: Inside, uniforms: Array, node: Node
) -> Choice:
    """(rule, split, preorder numbers of both parts) of one node of each tree, [B]."""
    width, table = node.end - node.begin, given.potentials.rules
    parents, lefts, rights = (leaf[:, None] for leaf in given.table.rules)
    rules = jnp.arange(parents.shape[0], dtype=jnp.int32)[:, None]
    where = (rules,) if table.ndim == 2 else (node.begin[None], node.end[None] - 1, rules)
    scores = jnp.where(parents == node.symbol[None], pick(table, *where), -jnp.inf)
    own = pick(inside.raw, layout.row(width, node.begin), node.symbol)
    scores = scores - finite_or_zero(own)[None]  # shares of the node: their exp cannot overflow
    first, last = (jnp.asarray(layout.first_terms)[width, j] for j in (0, 1))

    def weights(term: Array) -> Array:
        """[R, B] shares of the rules over a split."""
        left, right = term_rows(layout, width, node.begin, jnp.where(term < last, term, first))
        logs = pick(inside.cells, left[None], lefts) + pick(inside.cells, right[None], rights)
        return jnp.where((term < last)[None], jnp.exp(logs + scores), 0)

    splits = jax.lax.map(
        lambda j: jnp.sum(weights(first + j), axis=0), jnp.arange(layout.tokens - 1)
    )
    numbers = jnp.take_along_axis(uniforms, node.state[None, None], axis=0)[0]
    term = first + _draw(splits, numbers[0])
    rule = _draw(weights(term), numbers[1])
    split = jnp.asarray(layout.terms)[jnp.minimum(term, last - 1), 0]
    return Choice(rule, split, node.state + 1, node.state + split)


def _kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array, uniforms: Array
) -> BinaryTree:
    layout, given = prepared(rules, potentials, length)
    inside = inside_sums(layout, given)
    batch = max(given.batch, uniforms.shape[-1])
    length = jnp.broadcast_to(given.length, batch)
    top = jnp.broadcast_to(jnp.exp(inside.top), (inside.top.shape[0], batch))
    found = jnp.broadcast_to(inside.shift, batch) > -jnp.inf
    zero = jnp.zeros(batch, jnp.int32)
    node = Node(_draw(top, uniforms[-1, 0]), zero, length, zero)
    search = partial(_search, layout, given, inside, uniforms[:-1])
    children = (given.table.rules.lefts, given.table.rules.rights)
    return trace_back(layout.tokens, length, node, found, children, search)


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
      forbidden tree is never drawn. Probabilities are exact up to the resolution of uniform numbers
      in the dtype of the potentials (2^-23 in float32) and the rounding of sums.

    Raises:
      ValueError: as `cky`.
    """
    checked = checked_sentence(rules, potentials, length)
    T, dtype = checked[1].lexical.shape[0], checked[1].lexical.dtype
    return _of_one(*checked, jax.random.uniform(key, (T, 2), dtype))
