"""Exact samples of trees from p(y) = exp(F(y) - log Z): inside sums upward, draws downward.

The top symbol is drawn from its probability, then at every node, in preorder, the split from the
probabilities of all splits and the rule from those of all rules over that split (Johnson, Griffiths
and Goldwater, "Bayesian inference for PCFGs via Markov chain Monte Carlo", 2007, section 3).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import drawn, noise
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.best_charts import Sentences, term_rows
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.inside_outside import Inside, inside_sums, prepared
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.traceback import Choice, Node, pick, trace_back
from jaxstruct.trees.potentials import GrammarRules, TreePotentials


class _Noise(NamedTuple):
    """top: [S, B]. splits: [T, T - 1, B] and rules: [T, R, B] by the preorder number of a node."""

    top: Array
    splits: Array
    rules: Array


def _search(
    layout: Layout, given: Sentences, inside: Inside, own_noise: _Noise, node: Node
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

    def logs(term: Array) -> Array:
        """[R, B] logarithms of the shares of the rules over a split."""
        left, right = term_rows(layout, width, node.begin, jnp.where(term < last, term, first))
        both = pick(inside.cells, left[None], lefts) + pick(inside.cells, right[None], rights)
        return jnp.where((term < last)[None], both + scores, -jnp.inf)

    splits = jax.lax.map(
        lambda j: jnp.log(jnp.sum(jnp.exp(logs(first + j)), axis=0)), jnp.arange(layout.tokens - 1)
    )
    of_splits, of_rules = (
        jnp.take_along_axis(one, node.state[None, None], axis=0)[0] for one in own_noise[1:]
    )
    term = first + drawn(splits, of_splits)
    rule = drawn(logs(term), of_rules)
    split = jnp.asarray(layout.terms)[jnp.minimum(term, last - 1), 0]
    return Choice(rule, split, node.state + 1, node.state + split)


def _kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array, own_noise: _Noise
) -> BinaryTree:
    layout, given = prepared(rules, potentials, length)
    inside = inside_sums(layout, given)
    batch = max(given.batch, own_noise.top.shape[-1])
    length = jnp.broadcast_to(given.length, batch)
    own = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], batch)), own_noise)
    found = jnp.broadcast_to(inside.shift, batch) > -jnp.inf
    zero = jnp.zeros(batch, jnp.int32)
    node = Node(drawn(inside.top, own.top), zero, length, zero)
    search = partial(_search, layout, given, inside, own)
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
      forbidden tree is never drawn. Probabilities are exact up to the rounding of sums.

    Raises:
      ValueError: as `cky`.
    """
    checked = checked_sentence(rules, potentials, length)
    lexical = checked[1].lexical
    (T, S), dtype, R = lexical.shape, lexical.dtype, checked[0].parents.shape[0]
    keys = jax.random.split(key, 3)
    shapes = (S,), (T, T - 1), (T, R)
    own = _Noise(*(noise(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True)))
    return _of_one(*checked, own)
