"""log Z of a chain with its gradient, the marginals, and exact samples.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y),

with F of `chain_potentials`; d log Z / d potential is the expected count of the potential under p.
A conditional random field maximises F(y_i) - log Z.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import recursion
from jaxstruct.chains.potentials import ChainPotentials, checked_chain
from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.loops import scan_first
from jaxstruct.core.scores import drawn, finite_or_zero, noise, positive_or_one
from jaxstruct.core.semiring import Best, Sums, fold, lift
from jaxstruct.core.types import Array, PyTree

_MATRIX_PRODUCT = 16
"""From so many labels on, a table that all examples share is multiplied as a matrix."""


class Marginals(NamedTuple):
    """Probabilities of labels and of pairs of neighbouring labels of ONE chain.

    Fields:
      labels: [T, S] p(y^t = s), 0 beyond the length.
      pairs: [T - 1, S, S] p(y^t = s, y^{t+1} = s'), 0 where t + 1 is beyond the length.
      log_partition: scalar log Z.
    """

    labels: Array
    pairs: Array
    log_partition: Array


class Scaled(NamedTuple):
    """exp(logs - peak) of a table [.., b], the peak [b], and the lowest finite log - peak [b]."""

    numbers: Array
    peak: Array
    lowest: Array


def _scaled(logs: Array) -> Scaled:
    axes = tuple(range(logs.ndim - 1))
    peak = finite_or_zero(jnp.max(logs, axes))
    lowest = jnp.min(jnp.where(logs > -jnp.inf, logs, peak), axes) - peak
    return Scaled(jnp.exp(logs - lift(peak, logs)), peak, lowest)


def _product(message: Array, table: Array) -> Array:
    """sum_s message[s, .., B] table[s, .., s', B or 1]: [.., S', B]."""
    if table.shape[-1] == 1 and len(table) >= _MATRIX_PRODUCT:
        return jnp.einsum("s...b,s...k->...kb", message, table[..., 0])
    return fold(len(table), 16, jnp.add, lambda s: message[s][..., None, :] * table[s])


def _normal(numbers: Array) -> Array:
    """Probabilities [.., B] from numbers proportional to them; zeros stay."""
    total = jnp.sum(numbers, axis=tuple(range(numbers.ndim - 1)))
    return numbers / lift(positive_or_one(total), numbers)


class Normalised(Best):
    """`Sums` whose logarithms [.., B] are relative to a scale [B]: long chains keep their digits.

    Args:
      linear: multiply numbers, S^2 multiplications a step, which is right where `_trusted` says so;
        else S^2 exponentials.
    """

    def __init__(self, linear: bool) -> None:
        """Keep it."""
        self.linear = linear

    def of(self, scores: Array) -> PyTree:
        """The scores, the largest moved to the scale."""
        return self._relative(scores, jnp.zeros_like(scores, shape=scores.shape[-1:]))

    def times(self, values: PyTree, scores: Array) -> PyTree:
        """The values after scores were added."""
        logs, scale = values
        return self._relative(logs + lift(scores, logs), scale)

    def _relative(self, logs: Array, scale: Array) -> PyTree:
        top = jnp.max(logs, tuple(range(logs.ndim - 1)))
        return logs - lift(finite_or_zero(top), logs), scale + top

    def contract(self, values: PyTree, table: Array) -> PyTree:
        """log sum_s exp(logs[s, .., B] + table[s, .., s', B or 1])."""
        logs, scale = values
        if not self.linear:
            return Sums().contract(logs, table), scale
        factors = _scaled(table)
        sums = _product(jnp.exp(logs), factors.numbers)
        sums = jnp.where(sums > 0, jnp.log(positive_or_one(sums)), -jnp.inf)
        return sums + lift(factors.peak, sums), scale  # one rounding of the scale a step


def _trusted(potentials: ChainPotentials, length: Array, logs: Array) -> Array:
    """Whether plain numbers lost nothing, a bool for all columns.

    Every product but those of impossible states stayed above the smallest normal number of the
    dtype to the power 0.8 (float32: exp(-69.9)).
    """
    least = 0.8 * jnp.log(jnp.finfo(logs.dtype).tiny)
    lowest = jnp.min(finite_or_zero(logs), axis=tuple(range(1, logs.ndim - 1)))  # [T - 1, B]
    steps = recursion.all_steps(potentials)

    def of_step(step: recursion.Step) -> Array:
        return _scaled(recursion.table_and_addend(potentials, step)[0]).lowest

    on = steps.index[:, None] + 1 < length[None]
    return jnp.all(~on | (lowest + jax.vmap(of_step)(steps) >= least))


class _Found(NamedTuple):
    """log Z [B], logs [T - 1, S, *C, B] of every position, logs [S, *C, B] of the last one."""

    total: Array
    every: Array
    last: Array


def _forward(linear: bool, potentials: ChainPotentials, length: Array) -> _Found:
    rule = Normalised(linear)
    (logs, scale), (every, _) = recursion.forward(rule, potentials, length)
    total = scale + Sums().reduce(logs.reshape(-1, logs.shape[-1]))
    return _Found(jnp.where(length > 0, total, 0), every, logs)


def _either(
    use: Callable[[bool, _Found], PyTree], potentials: ChainPotentials, length: Array
) -> PyTree:
    """use(True, sums) with plain numbers; if a chain of the batch needs it, False with logarithms.

    The columns of a batch share the choice; it changes a result by rounding errors only.
    """
    found = _forward(True, potentials, length)

    def by_logs() -> PyTree:
        return use(False, _forward(False, potentials, length))

    safe = _trusted(potentials, length, found.every)
    return jax.lax.cond(safe, lambda: use(True, found), by_logs)


def _value(potentials: ChainPotentials, length: Array) -> Array:
    return _either(lambda _, found: found.total, potentials, length)


def _joint(linear: bool, logs: Array, table: Array, later: Array) -> tuple[Array, Array]:
    """p(state_t, state_{t+1}) = message_t table_t p(state_{t+1}) / sums_t, and p(state_t).

    All numbers stay between 0 and 1.

    Args:
      logs: [S, *C, B] of message_t. later: [*C, S, B] p(state_{t+1}).

    Returns:
      [S, *C, S, B] and [S, *C, B].
    """
    if not linear:
        terms = logs[..., None, :] + table
        shares = jnp.exp(terms - finite_or_zero(Sums().reduce(terms))[None])
        joint = shares * later[None]
        return joint, _normal(jnp.sum(joint, axis=-2))
    message, factors = jnp.exp(logs), _scaled(table).numbers
    ratio = later / positive_or_one(_product(message, factors))
    turned = jnp.moveaxis(ratio, -2, 0), jnp.swapaxes(factors, 0, -2)
    earlier = message * jnp.moveaxis(_product(*turned), -2, 0)
    return message[..., None, :] * factors * ratio[None], earlier


def _counts(
    every_pair: bool, potentials: ChainPotentials, length: Array, linear: bool, found: _Found
) -> ChainPotentials:
    """Expected counts, backward: a total where a table is constant, else a row a step.

    With every_pair label pairs have a row a step in any case. The derivative of log Z would hold a
    table for every example and step, where several examples share one.
    """
    emissions, transitions, start, stop, triples = potentials
    T, batch = len(emissions), found.last.shape[-1]

    def label(state: Array) -> Array:
        return state if triples is None else jnp.sum(state, axis=0)

    def body(carry: tuple, row: tuple) -> tuple[tuple, tuple]:
        (state, totals), (step, logs) = carry, row
        on = step.index + 1 < length
        table, _ = recursion.table_and_addend(potentials, step)
        joint, earlier = _joint(linear, logs, table, state)
        counts = (joint,) if triples is None else (state, jnp.where(step.index > 0, joint, 0))
        counts = [jnp.where(on, count, 0) for count in counts]
        state = jnp.where(on, earlier, state)
        pairs = list(zip(totals, counts, strict=True))
        totals = [None if total is None else total + count for total, count in pairs]
        return (state, totals), (label(state), [c if t is None else None for t, c in pairs])

    def zero(table: Array, order: int) -> Array | None:
        rows = table.ndim > order + 2 or (order == 1 and every_pair)
        return None if rows else jnp.zeros((*table.shape[:-1], batch), table.dtype)

    tables = [transitions] if triples is None else [transitions, triples]
    end = _normal(jnp.exp(found.last))
    given = body, (end, [zero(table, order) for order, table in enumerate(tables, 1)])
    rows = recursion.all_steps(potentials), found.every
    (_, totals), (labels, rows) = scan_first(*given, rows, jnp.max(length) - 1, reverse=True)
    counts = [row if total is None else total for total, row in zip(totals, rows, strict=True)]
    last = jnp.where(length[None] > 0, label(end), 0)
    to_end = length[None, None] - 1 - jnp.arange(T)[:, None, None]
    labels = jnp.concatenate([labels, last[None]])
    labels = jnp.where(to_end == 0, last[None], jnp.where(to_end > 0, labels, 0))
    return ChainPotentials(
        labels,
        counts[0],
        None if start is None else labels[0],
        None if stop is None else last,
        None if triples is None else counts[1][1:] if triples.ndim == 5 else counts[1],
    )


def _gradient(
    every_pair: bool, potentials: ChainPotentials, length: Array
) -> tuple[Array, ChainPotentials]:
    def use(linear: bool, found: _Found) -> tuple[Array, ChainPotentials]:
        return found.total, _counts(every_pair, potentials, length, linear, found)

    return _either(use, potentials, length)


def _marginals(potentials: ChainPotentials, length: Array) -> Marginals:
    total, counts = _gradient(True, potentials, length)
    return Marginals(counts.emissions, counts.transitions, total)


def _sample(potentials: ChainPotentials, length: Array, noise: tuple[Array, Array]) -> Array:
    found = _either(lambda _, found: found, potentials, length)
    end = drawn(found.last.reshape(-1, found.last.shape[-1]), noise[0])
    path = end, jnp.zeros_like(end)
    return recursion.trace_back(Sums(), potentials, length, found.every, path, noise=noise[1])


def _of_one(kernel: Callable) -> Callable:
    return of_one_example(in_column_blocks(kernel, recursion.COLUMNS))


_value_of_one = _of_one(_value)
_gradient_of_one = _of_one(partial(_gradient, False))
_marginals_of_one = of_one_example(_marginals)  # joining blocks of all pairs would cost more
_sample_of_one = _of_one(_sample)


@jax.custom_vjp
def _differentiable(potentials: ChainPotentials, length: Array) -> Array:
    return _value_of_one(potentials, length)


def _backward(gradient: ChainPotentials, cotangent: Array) -> tuple[ChainPotentials, None]:
    return jax.tree.map(lambda count: (cotangent * count).astype(count.dtype), gradient), None


_differentiable.defvjp(_gradient_of_one, _backward)


def log_partition(potentials: ChainPotentials, length: Array) -> Array:
    """log Z = log sum_y exp F(y) over all label sequences of one chain.

    The gradient in every potential is its expected count under p(y) = exp(F(y) - log Z): that of
    an emission p(y^t = s), that of a constant transition the sum over t of
    p(y^t = s, y^{t+1} = s'). A forbidden potential (-inf) has the gradient 0. First derivatives in
    reverse mode only; JAX raises an error for any other.

    Args:
      potentials: of one chain, of first or second order; entries may be -inf.
      length: int32 scalar, 0 <= length <= T.

    Returns:
      A scalar; 0 for length 0 (one empty sequence of score 0). Where every label sequence is
      forbidden it is -inf, and the gradient is 0.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.

    Source: the forward-backward algorithm; Lafferty, McCallum and Pereira, "Conditional random
    fields", ICML 2001.
    """
    return _differentiable(*checked_chain(potentials, length))


def marginals(potentials: ChainPotentials, length: Array) -> Marginals:
    """Probabilities of labels and of neighbouring labels under p(y) = exp(F(y) - log Z).

    Args:
      potentials: of one chain, of first or second order; entries may be -inf.
      length: int32 scalar, 0 <= length <= T.

    Returns:
      `Marginals`. At real positions labels sum to 1, and the pairs at t sum over s' to the labels
      at t and over s to those at t + 1; elsewhere all are 0. Where every label sequence is
      forbidden, log_partition is -inf and all probabilities are 0. They have no derivative in JAX.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    return _marginals_of_one(*checked_chain(potentials, length))


def sample(potentials: ChainPotentials, length: Array, key: Array) -> Array:
    """One label sequence drawn from p(y) = exp(F(y) - log Z).

    The last label (second order: the last two) is drawn from its marginal, then, going backward,
    each label given those after it; no chain of samples, no burning in.

    Args:
      potentials: of one chain of T positions, of first or second order; entries may be -inf.
      length: int32 scalar, 0 <= length <= T.
      key: a random key of its own for every sequence; `vmap` over keys alone draws many sequences
        from one chain and runs the forward pass once.

    Returns:
      [T] int32 labels with PADDING beyond the length. Forbidden sequences are never drawn; where
      all are forbidden, the labels are some labels. Probabilities are exact up to the rounding of
      sums.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_chain(potentials, length)
    (T, S), dtype = potentials.emissions.shape, potentials.emissions.dtype
    last, steps = jax.random.split(key)
    states = S if potentials.triples is None else S * S
    given = noise(last, (states,), dtype), noise(steps, (T - 1, S), dtype)
    return _sample_of_one(potentials, length, given)
