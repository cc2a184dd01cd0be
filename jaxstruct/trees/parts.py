"""What the trees of a weighted grammar use: lexical and binary rules, a root, symbols over spans.

    F(x, y; w) = sum_t w_{A_t -> x^t} + sum over inner nodes of w_{A -> B C} + w_root
                 [+ sum over inner nodes of <u_A, Phi(x, span)>]

(thesis 4.32; the last sum is its "linear function of x and the span"). Rules are numbered as in the
grammar. theta holds the weights themselves, and the sentence, whose terminals select among them.

Phi(x, span) is given, or has the places of `span_rows` as ones: the width of the span, and the
features of the tokens before it, of its first and last, and behind it.

Of a tree some nodes and symbols may be all that is known. A known node forbids the spans that cross
it. In Chomsky normal form it is then there: a tree without a node over a span has one that crosses
it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import AnyArray, Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.potentials import GrammarRules, TreePotentials

NOWHERE = np.iinfo(np.int32).max
"""A place that is out of range of every table."""
WIDTHS = 16
"""Spans of 2, 3, .., 16 tokens are distinguished, and longer ones are one class."""


class SentenceInput(NamedTuple):
    """One sentence, padded to T >= 2 tokens.

    Fields:
      terminals: [T] int32, the terminal read at each token; -1 where the grammar has none, and on
        padding.
      length: int32 scalar >= 1.
      spans: None, or [T, T, D] features Phi of (first token, last token), read where the last token
        lies behind the first and before the length.
      forest: the trees that the grammar has over the sentence, which oracles search; None for
        charts of all rules, which take longer.
      tokens: None, or [T, A] int32 features of each token, of which Phi of a span is made (see
        `span_rows`): A numbers in 0..D - 1, or -1 for none.
    """

    terminals: AnyArray
    length: AnyArray
    spans: AnyArray = None
    forest: Forest | None = None
    tokens: AnyArray = None


class TreeTheta(NamedTuple):
    """Potentials of one sentence.

    Fields:
      lexical: [Q] of the lexical rules. rules: [R] of the binary rules. root: [S].
      spans: None, or [T, T, S] of a symbol over a span.
      x: the sentence; of its fields only the integers are used.
      allowed: None, or [T, T, S] bool of (first token, last token, symbol): False forbids a node.
    """

    lexical: Array
    rules: Array
    root: Array
    spans: Array | None
    x: Any
    allowed: Array | None = None


class GrammarTables(NamedTuple):
    """What the functions of a grammar are bound to.

    Fields:
      rules: GrammarRules. lexical: [V, S] int32 the number of a lexical rule, NOWHERE if none.
      roots: [S] bool, the symbols that a tree may have on top.
    """

    rules: GrammarRules
    lexical: AnyArray
    roots: AnyArray


class TreeUse(NamedTuple):
    """The places of one tree in theta, or in the weights; out of range where there is nothing.

    Fields:
      lexical: [T]. rules: [T - 1]. root: scalar. spans: [T - 1] in the flattened [T, T, S]; in
        the weights [T - 1, 4 A + 1] of the flattened [F, S].
    """

    lexical: Array
    rules: Array
    root: Array
    spans: Array


def lexical_place(tables: GrammarTables, terminals: Array, symbols: Array) -> Array:
    """The number of the lexical rule of each symbol over each terminal, or NOWHERE."""
    V, S = tables.lexical.shape
    known = (terminals >= 0) & (terminals < V)
    found = tables.lexical[jnp.clip(terminals, 0, V - 1), jnp.clip(symbols, 0, S - 1)]
    return jnp.where(known, found, NOWHERE)


def tree_potentials(tables: GrammarTables, theta: TreeTheta) -> TreePotentials:
    """What the oracles take: -inf where the grammar has no rule or no such root."""
    symbols = jnp.arange(tables.lexical.shape[1])[None]
    places = lexical_place(tables, theta.x.terminals[:, None], symbols)
    lexical = theta.lexical.at[places].get(mode="fill", fill_value=-jnp.inf)
    root, spans = jnp.where(tables.roots, theta.root, -jnp.inf), theta.spans
    if theta.allowed is not None:
        tokens = jnp.arange(len(lexical))
        lexical = jnp.where(theta.allowed[tokens, tokens], lexical, -jnp.inf)
        spans = jnp.where(theta.allowed, 0 if spans is None else spans, -jnp.inf)
        spans = spans.astype(lexical.dtype)
    return TreePotentials(lexical, theta.rules, root, spans)


def given_of(tables: GrammarTables, theta: TreeTheta) -> tuple[GrammarRules, TreePotentials, Array]:
    """(rules, potentials, length): the arguments of oracles over charts."""
    return tables.rules, tree_potentials(tables, theta), theta.x.length


def inner_parents(tables: GrammarTables, y: BinaryTree) -> Array:
    """[T - 1] the symbols of inner nodes, -1 on padding."""
    R = tables.rules.parents.shape[0]
    parents = tables.rules.parents[jnp.clip(y.rules, 0, R - 1)]
    return jnp.where(y.rules >= 0, parents, -1)


def top_symbol(tables: GrammarTables, y: BinaryTree) -> Array:
    """The symbol of the top node."""
    return jnp.where(y.rules[0] >= 0, inner_parents(tables, y)[0], y.symbols[0])


def tree_use(tables: GrammarTables, x: SentenceInput, y: BinaryTree) -> TreeUse:
    """The places of one tree."""
    T, S = x.terminals.shape[0], tables.lexical.shape[1]
    real, inner = y.symbols >= 0, y.rules >= 0
    lexical = lexical_place(tables, x.terminals, y.symbols)
    flat = (y.begins * T + y.ends - 1) * S + inner_parents(tables, y)
    return TreeUse(
        lexical=jnp.where(real, lexical, NOWHERE),
        rules=jnp.where(inner, y.rules, NOWHERE),
        root=jnp.where(real[0], top_symbol(tables, y), NOWHERE),
        spans=jnp.where(inner, flat, NOWHERE),
    )


def span_feature_count(D: int) -> int:
    """F, the features of a span over tokens that have D."""
    return 4 * (D + 1) + WIDTHS


def span_rows(tokens: Array, length: Array, begins: Array, lasts: Array, D: int) -> Array:
    """Which entries of Phi(x, span) are 1; NOWHERE where a token has fewer features.

    Phi has D + 1 entries for each of the tokens before the span, first in it, last in it and
    behind it, of which the last one stands for the outside of the sentence; then `WIDTHS`.

    Args:
      tokens: [T, A] as in `SentenceInput`. length: of the sentence.
      begins, lasts: [..] first and last token of spans over two tokens or more. D: see there.

    Returns:
      [.., 4 A + 1] int32 in 0..F - 1.
    """
    T, A = tokens.shape
    outside = jnp.where(jnp.arange(A) == 0, D, -1)[None]
    inside = jnp.where((jnp.arange(T) < length)[:, None], tokens, outside)
    framed = jnp.concatenate([outside, inside, outside])  # token t at t + 1
    begins, lasts = jnp.broadcast_arrays(begins, lasts)
    numbers = framed[jnp.stack([begins, begins + 1, lasts + 1, lasts + 2], -1)]
    blocks = jax.lax.broadcasted_iota(jnp.int32, numbers.shape, numbers.ndim - 2)
    rows = jnp.where(numbers < 0, NOWHERE, numbers + (D + 1) * blocks)
    width = 4 * (D + 1) + jnp.clip(lasts - begins - 1, 0, WIDTHS - 1)
    return jnp.concatenate([rows.reshape(*begins.shape, 4 * A), width[..., None]], -1)


def span_scores(weights: Array, tokens: Array, length: Array, D: int) -> Array:
    """[T, T, S] <u_A, Phi(x, span)> of every symbol over every span; weights are [F, S]."""
    at = jnp.arange(tokens.shape[0])
    rows = span_rows(tokens, length, at[:, None], at[None], D)
    parts = (weights.at[row].get(mode="fill", fill_value=0) for row in jnp.moveaxis(rows, -1, 0))
    return jnp.asarray(sum(parts))


def weight_use(tables: GrammarTables, D: int, x: SentenceInput, y: BinaryTree) -> TreeUse:
    """The places of one tree in the weights."""
    use, S = tree_use(tables, x, y), tables.lexical.shape[1]
    if x.tokens is None:
        return use._replace(spans=jnp.full(1, NOWHERE))
    rows = span_rows(x.tokens, x.length, jnp.maximum(y.begins, 0), jnp.maximum(y.ends - 1, 0), D)
    parents = inner_parents(tables, y)[:, None]
    there = (rows != NOWHERE) & (parents >= 0)
    return use._replace(spans=jnp.where(there, rows * S + parents, NOWHERE))


def _read(table: Array, places: Array) -> Array:
    return jnp.sum(table.reshape(-1).at[places].get(mode="fill", fill_value=0))


def score_use(theta: TreeTheta, use: TreeUse) -> Array:
    """F of one tree."""
    total = _read(theta.lexical, use.lexical) + _read(theta.rules, use.rules)
    total += _read(theta.root, use.root)
    return total if theta.spans is None else total + _read(theta.spans, use.spans)


def added(table: Array, places: Array, coefficients: Array) -> Array:
    """The table with coefficients [B, K] added at the places [B, K, ..] of trees."""
    places = places.reshape(coefficients.size, -1)
    spread = jnp.broadcast_to(coefficients.reshape(-1, 1), places.shape)
    flat = table.reshape(-1).at[places.reshape(-1)].add(spread.reshape(-1), mode="drop")
    return flat.reshape(table.shape)


def _alike(a: Array, b: Array) -> Array:
    """How many pairs of places are the same, not counting those out of range."""
    same = (a[:, None] == b[None]) & (a != NOWHERE)[:, None]
    return jnp.sum(same, dtype=jnp.int32)


def inner_product(a: TreeUse, b: TreeUse) -> Array:
    """<Psi(x, y_a), Psi(x, y_b)> of trees by their places in the weights: an integer."""
    spans = _alike(a.spans.reshape(-1), b.spans.reshape(-1))
    return _alike(a.lexical, b.lexical) + _alike(a.rules, b.rules) + (a.root == b.root) + spans


def plane_products(true: TreeUse, planes: TreeUse, y: TreeUse) -> Array:
    """[K] <delta Psi(y_k), delta Psi(y)>; planes have a leading axis K."""
    with_planes = jax.vmap(inner_product, (0, None))
    fixed = inner_product(true, true) - inner_product(true, y)
    return fixed - with_planes(planes, true) + with_planes(planes, y)


class KnownNodes(NamedTuple):
    """What is known of the tree of one sentence.

    Fields:
      tokens: [T, S] bool, which symbols may stand right above each token.
      spans: [K, 2] int32, first and last token of each known node over several tokens, no two over
        the same; -1 on padding.
      symbols: [K, S] bool, which symbols each of them may have, one at least.
    """

    tokens: AnyArray
    spans: AnyArray
    symbols: AnyArray


def known_table(known: KnownNodes) -> Array:
    """[T, T, S] bool: over known spans, and single tokens, the symbols that may stand there."""
    T, S = known.tokens.shape
    steps, (first, last) = jnp.arange(T), known.spans.T
    table = jnp.zeros((T, T, S), bool).at[steps, steps].set(known.tokens)
    return table.at[jnp.where(first >= 0, first, T), last].set(known.symbols, mode="drop")


def restricted(theta: TreeTheta, known: KnownNodes) -> TreeTheta:
    """theta without the nodes that do not agree with what is known."""
    table = known_table(known)
    steps, (first, last) = jnp.arange(len(table)), known.spans.T
    first, last = first[None, None], last[None, None]
    a, b = steps[:, None, None], steps[None, :, None]
    crosses = ((a < first) & (first <= b) & (b < last)) | ((first < a) & (a <= last) & (last < b))
    open_ = ~jnp.any(crosses & (first >= 0), axis=2) & ~jnp.any(table, axis=2)
    steps = steps[:, None] != steps[None]
    return theta._replace(allowed=table | (open_ & steps)[:, :, None])
