"""Sums over all trees, log Z, whose derivative are the marginals; and exact samples.

Of projective trees by inside and outside sums over spans. Of all trees by the matrix-tree theorem
with one word on the root (T. Koo, A. Globerson, X. Carreras and M. Collins, EMNLP 2007), whose
determinant is found without a subtraction: words are eliminated one after the other,

    d = sum_h a(h, k),    a(h, m) += a(h, k) a(k, m) / d,    root(m) += root(k) a(k, m) / d

over the words h and m that remain, and Z is the product of all d and of root(m) of the last word.
That is Gaussian elimination of the theorem's matrix, where every diagonal is the sum of its column.
Sums of positive numbers lose no digits, and as logarithms they neither overflow nor vanish.

Samples are drawn from P(y | x) = exp(F(x, y)) / Z(x), in logarithms. Projective trees from the
inside sums: the word on the root, then of every span its split. Trees of any shape by the
eliminations, backward. An arc (h, m) over the words that remain stands for itself and for the way
through the word k that was taken out,

    a'(h, m) = a(h, m) + a(h, k) a(k, m) / d,    d = sum_h a(h, k),

and so draws which of both it is. The words whose arcs went through k hang on k. Without these arcs
the tree falls into components, and k hangs on a word h of the one that holds the word on the root,
with a probability in proportion to a(h, k); on the root where this word itself hangs on k. By the
count of trees over components the probabilities are those of P, and what comes out is a tree
whatever the rounding. No probability is found by a subtraction, none is cut off.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.scores import drawn, noise
from jaxstruct.core.semiring import Sums
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.projective import (
    Arcs,
    Charts,
    Way,
    Whole,
    fill,
    in_blocks,
    nth,
    of_arcs,
    part,
    put,
    row,
    to_arcs,
    trace_back,
    whole_sentences,
)
from jaxstruct.dependencies.potentials import PADDING, checked_potentials

STEPS = 8
"""Eliminations that the way back computes again, in place of keeping a table of each."""


def inside(arcs: Array, length: Array) -> tuple[Arcs, Charts, Array, Whole]:
    """(arcs by widths, charts, log Z [B], its parts); arcs [T + 1, T, B], length [B]."""
    given = of_arcs(arcs)
    charts = fill(Sums(), given)
    return given, charts, *whole_sentences(Sums(), charts, given, length)


def _outside(charts: Charts, start: Charts) -> Charts:
    """The probabilities of spans, as charts; start: of those that meet at the word on the root.

    Each term of a sum has its share exp(term - sum) of the probabilities of what the sum is in.
    """
    T, size = charts.first.shape[-2:]

    def share(i: Array, found: Charts) -> Charts:
        w, n = T - 1 - i // 3, 2 - i % 3
        after, own = w * (size // T), nth(n)
        total = row(charts.first, own.held, w, 0, size)
        here = row(found.first, own.by_first, w, 0, size)
        here = here + row(found.last, own.by_last, w, after, size)

        def turn(turn: Array, found: Charts) -> Charts:
            left, right = part(charts, n, w, turn, size)
            share = jnp.where(here > 0, here * jnp.exp(left + right - total), 0)
            left, right = (share + old for old in part(found, n, w, turn, size))
            q = turn + own.begin
            last = put(found.last, n, w - own.short - q, after, right)
            return Charts(put(found.first, n, q, 0, left), last)

        return jax.lax.fori_loop(0, w, turn, found)

    return jax.lax.fori_loop(0, 3 * (T - 1), share, start)


def _meeting(root: Array, length: Array) -> Charts:
    """The spans that meet at the word on the root, whose probabilities are root [T, B]."""
    T, B = root.shape
    first = jnp.zeros((3, T, T, B), root.dtype).at[2, :, 0].set(root)
    width, last = jnp.arange(T)[:, None], length[None] - 1
    probability = root[jnp.maximum(last - width, 0), jnp.arange(B)[None]]
    ends = (jnp.arange(2 * T)[None, :, None] == last[None]) & (width <= last)[:, None]
    right = jnp.where(ends, probability[:, None], 0)
    last = jnp.stack([jnp.zeros_like(right), right, jnp.zeros_like(right)])
    return Charts(first.reshape(3, T, -1), last.reshape(3, T, -1))


def _marginals(arcs: Array, length: Array) -> tuple[Array, Array]:
    _, charts, total, whole = inside(arcs, length)
    trees = whole.below + whole.root
    root = jnp.where(trees > -jnp.inf, jnp.exp(trees - total[None]), 0)
    found = _outside(charts, _meeting(root, length))
    T, B = root.shape
    w = jnp.arange(T)[:, None]
    left = found.last[2, w, w * B + jnp.arange(T * B)[None]]
    return total, to_arcs(found.first[1], left, root)


_sum_of_one = of_one_example(in_blocks(lambda *given: inside(*given)[2]))
_marginals_of_one = of_one_example(in_blocks(_marginals))


@jax.custom_jvp
def _log_projective(arcs: Array, length: Array) -> Array:
    """log Z of the projective trees of one sentence; arcs [T + 1, T]."""
    return _sum_of_one(arcs, length)


@_log_projective.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    total, marginals = _marginals_of_one(*primals)
    return total, jnp.sum(jnp.where(marginals > 0, marginals * tangents[0], 0))


class Eliminated(NamedTuple):
    """What a word leaves that was taken out, for the way back.

    Fields:
      word: k. goes: False where nothing was taken out. into: [T + 1] log a(h, k) / d, of the root
        log root(k) / d. out: [T] log a(k, m). All of when it was taken out.
    """

    word: Array
    goes: Array
    into: Array
    out: Array


def _eliminate(state: tuple, _: None) -> tuple[tuple, Eliminated]:
    """One word taken out: of those that remain the one with the largest d, the last one stays."""
    arcs, root, remaining, total = state
    into = jnp.where(remaining, Sums().reduce(arcs), -jnp.inf)
    k = jnp.argmax(into)
    d, found = into[k], into[k] > -jnp.inf
    goes = found & (jnp.sum(remaining) > 1)
    shift = jnp.where(found, d, 0)
    column, out = arcs[:, k] - shift, arcs[k]
    own = jnp.arange(arcs.shape[0]) == k
    kept = ~(own[:, None] | own[None] | jnp.eye(arcs.shape[0], dtype=bool))
    through = column[:, None] + out[None]
    new = jnp.where(kept, Sums().plus(arcs, through), -jnp.inf)
    from_root = root[k] - shift
    at_root = jnp.where(own, -jnp.inf, Sums().plus(root, from_root + out))
    new = new, at_root, remaining & ~own, total + shift
    left = Eliminated(k, goes, jnp.concatenate([from_root[None], column]), out)
    return jax.tree.map(lambda new, old: jnp.where(goes, new, old), new, state), left


def _start(arcs: Array, length: Array) -> tuple:
    remaining = jnp.arange(arcs.shape[1]) < length
    return arcs[1:], arcs[0], remaining, jnp.zeros((), arcs.dtype)


def _last(root: Array, remaining: Array) -> tuple[Array, Array]:
    """([T] log of the root's arc to the word that remains, whether there is a tree)."""
    last = jnp.where(remaining, root, -jnp.inf)
    return last, (jnp.sum(remaining) == 1) & jnp.any(last > -jnp.inf)


def eliminated(arcs: Array, length: Array) -> tuple[Array, Array, Eliminated]:
    """(the word that is not taken out, whether there is a tree, [T - 1] the words taken out).

    Args:
      arcs: [T + 1, T] of one sentence, -inf where there is none.
    """
    state, left = jax.lax.scan(_eliminate, _start(arcs, length), None, length=arcs.shape[1] - 1)
    last, some = _last(state[1], state[2])
    return jnp.argmax(last).astype(jnp.int32), some, left


def _log_arborescences(arcs: Array, length: Array) -> Array:
    """log Z of all trees of one sentence; arcs [T + 1, T], -inf where there is none."""

    @jax.checkpoint
    def several(state: tuple, _: None) -> tuple[tuple, None]:
        return jax.lax.scan(lambda state, _: (_eliminate(state, None)[0], None), state, None, STEPS)

    count = -(-(arcs.shape[1] - 1) // STEPS)
    (_, root, remaining, total), _ = jax.lax.scan(several, _start(arcs, length), None, count)
    last, some = _last(root, remaining)
    return jnp.where(some, total + Sums().reduce(last), -jnp.inf)


def log_partition(potentials: Array, length: Array, *, projective: bool) -> Array:
    """log Z = log sum_y exp F(y) over all trees of one sentence with one word on the root.

    Args:
      potentials: [T + 1, T, R], finite or -inf; arcs of a word to itself, and those from or to what
        is beyond the length, are never read. length: int32 scalar, 1 <= length <= T.
      projective: whether crossing arcs are none.

    Returns:
      A scalar, differentiable in the potentials: the derivative are the marginals. -inf, with a
      derivative of 0, where all trees are forbidden.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_potentials(potentials, length)
    arcs = Sums().reduce(jnp.moveaxis(potentials, 2, 0))
    return (_log_projective if projective else _log_arborescences)(arcs, length)


def marginals(potentials: Array, length: Array, *, projective: bool) -> tuple[Array, Array]:
    """(P(y_m = h, r_m = r) [T + 1, T, R], log Z) of one sentence; arguments as `log_partition`."""
    value = partial(log_partition, projective=projective)
    total, found = jax.value_and_grad(value)(potentials, length)
    return jnp.maximum(found, 0), total


def _drawn_back(arcs: Array, length: Array, key: Array) -> Array:
    """[T] heads of a tree of any shape, PADDING of other words."""
    T = arcs.shape[1]
    last, some, left = eliminated(arcs, length)
    words = jnp.arange(T)

    def put_back(heads: Array, row: tuple[Array, Eliminated, Array]) -> tuple[Array, None]:
        step, (k, goes, into, out), own = row
        there, at = heads != PADDING, jnp.maximum(heads, 0)
        ways = left.into[:, at] + left.out
        ways = jnp.where((left.goes & (words[:-1] < step))[:, None], ways, -jnp.inf)
        without = Sums().reduce(jnp.concatenate([arcs[at, words][None], ways]))
        through = there & (drawn(jnp.stack([without, into[at] + out]), own[:2]) == 1)
        cut, above = jnp.append(through, False), jnp.where(there & (heads > 0), heads - 1, T)
        above = jnp.append(above, T)
        for _ in range(max(T, 2).bit_length()):  # words whose way to the root goes through k
            cut, above = cut | cut[above], above[above]
        head = drawn(jnp.where(there & ~cut[:T], into[1:], -jnp.inf), own[2]) + 1
        head = jnp.where(jnp.any(through & (heads == 0)), 0, head)
        new = jnp.where(words == k, head, jnp.where(through, k + 1, heads))
        return jnp.where(goes, new, heads).astype(jnp.int32), None

    start = jnp.where((words == last) & some, 0, PADDING).astype(jnp.int32)
    rows = words[:-1], left, noise(key, (T - 1, 3, T), arcs.dtype)
    return jax.lax.scan(put_back, start, rows, reverse=True)[0]


def _projective_kernel(arcs: Array, length: Array, noise: Array) -> Array:
    """[T, N] heads; arcs [T + 1, T, B], length [B], noise [2 T, T, N], N a multiple of B."""
    N, B = noise.shape[-1], arcs.shape[-1]
    given, charts, total, whole = inside(arcs, length)
    columns = jnp.arange(N) % B
    way = Way(Sums(), charts, given, columns)
    heads, _ = trace_back(way, whole, length[columns], jnp.zeros_like(columns), noise)
    return jnp.where((total > -jnp.inf)[columns], heads, PADDING)


_in_blocks = in_blocks(_projective_kernel)


def _projective(arcs: Array, length: Array, noise: Array) -> Array:
    """Draws of one sentence share its charts; sentences go block by block."""
    alone = arcs.shape[-1] == length.shape[-1] == 1
    return (_projective_kernel if alone else _in_blocks)(arcs, length, noise)


_projective_of_one = of_one_example(_projective)


def sample_tree(
    potentials: Array, length: Array, key: Array, *, projective: bool
) -> tuple[Array, Array]:
    """One tree drawn from P(y) = exp(F(y)) / Z, exact but for the rounding of sums.

    Args:
      potentials, length, projective: as `best_tree`.
      key: of `jax.random`, one of its own for every tree; `vmap` over keys alone takes the sums
        over all trees once. A draw is O(T^2) where projective, else O(T^3).

    Returns:
      (heads, labels), [T] int32 with PADDING beyond the length, and throughout where all trees are
      forbidden. Heads are a tree with one word on the root at any length.

    Raises:
      ValueError: as `best_tree`.
    """
    potentials, length = checked_potentials(potentials, length)
    _, T, R = potentials.shape
    arcs, dtype = Sums().reduce(jnp.moveaxis(potentials, 2, 0)), potentials.dtype
    of_heads, of_labels = jax.random.split(key)
    if projective:
        heads = _projective_of_one(arcs, length, noise(of_heads, (2 * T, T), dtype))
    else:
        heads = _drawn_back(arcs, length, of_heads)
    logs = potentials[jnp.maximum(heads, 0), jnp.arange(T)].T
    labels = drawn(logs, noise(of_labels, (R, T), dtype))
    return heads, jnp.where(heads == PADDING, PADDING, labels)
