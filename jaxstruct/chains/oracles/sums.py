"""log Z of a chain with its gradient, the marginals, and exact samples.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y),

with F of `chain_potentials`; d log Z / d potential is the expected count of the potential under p.
A conditional random field maximises F(y_i) - log Z.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import recursion
from jaxstruct.chains.oracles.potential_checks import checked_chain
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import drawn, noise
from jaxstruct.core.finite import finite_or_zero, positive_or_one
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
        return self._normal(scores, jnp.zeros_like(scores, shape=scores.shape[-1:]))

    def times(self, values: PyTree, scores: Array) -> PyTree:
        """The values after scores were added."""
        logs, scale = values
        return self._normal(logs + lift(scores, logs), scale)

    def _normal(self, logs: Array, scale: Array) -> PyTree:
        top = jax.lax.stop_gradient(jnp.max(logs, tuple(range(logs.ndim - 1))))
        return logs - lift(finite_or_zero(top), logs), scale + top

    def contract(self, values: PyTree, table: Array) -> PyTree:
        """log sum_s exp(logs[s, .., B] + table[s, .., s', B or 1])."""
        logs, scale = values
        if not self.linear:
            return jax.checkpoint(Sums().contract)(logs, table), scale
        factors = _scaled(table)
        sums = _product(jnp.exp(logs), factors.numbers)
        return jnp.where(sums > 0, jnp.log(positive_or_one(sums)), -jnp.inf), scale + factors.peak


def _real(potentials: ChainPotentials, length: Array) -> ChainPotentials:
    """Potentials with 0 wherever sequences have ended.

    Sequences that share a table share the end of the longest.
    """

    def rows(table: Any, order: int) -> Any:
        if table is None or table.ndim == order + 2:
            return table
        end = length if table.shape[-1] == length.shape[-1] else jnp.max(length, keepdims=True)
        row = jnp.arange(len(table)).reshape(-1, *(1,) * (table.ndim - 1))
        return jnp.where(row + order < end, table, 0)

    return potentials._replace(
        emissions=rows(potentials.emissions, 0),
        transitions=rows(potentials.transitions, 1),
        triples=rows(potentials.triples, 2),
    )


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
    (logs, scale), (every, _) = recursion.forward(rule, potentials, length, whole=True)
    total = scale + Sums().reduce(logs.reshape(-1, logs.shape[-1]))
    return _Found(jnp.where(length > 0, total, 0), every, logs)


def _either(use: Any, potentials: ChainPotentials, length: Array) -> PyTree:
    """use(linear)() with plain numbers; if a chain of the batch needs it, with logarithms.

    The columns of a batch share the choice; it changes a result by rounding errors only.

    Args:
      use: linear -> (`_Found`, a function that finishes).
    """
    found, finish = use(True)
    safe = _trusted(potentials, length, found.every)
    return jax.lax.cond(safe, finish, lambda: use(False)[1]())


def _value(potentials: ChainPotentials, length: Array) -> Array:
    potentials = _real(potentials, length)

    def use(linear: bool) -> tuple:
        found = _forward(linear, potentials, length)
        return found, lambda: found.total

    return _either(use, potentials, length)


def _joint(linear: bool, logs: Array, table: Array, later: Array) -> Array:
    """p(state_t, state_{t+1}) = message_t table_t p(state_{t+1}) / sums_t: [S, *C, S, B].

    Args:
      logs: [S, *C, B] of message_t. later: [*C, S, B] p(state_{t+1}).
    """
    if linear:
        message, factors = jnp.exp(logs), _scaled(table).numbers
        ratio = later / positive_or_one(_product(message, factors))
        return message[..., None, :] * factors * ratio[None]
    terms = logs[..., None, :] + table
    return jnp.exp(terms - finite_or_zero(Sums().reduce(terms))[None]) * later[None]


def _count_pairs(
    linear: bool, potentials: ChainPotentials, every: Array, later: Array, total: Array | None
) -> Array:
    """Sum over the steps of p(state_t, state_{t+1}) from `total` on, or with None a row a step.

    Args:
      every: logs of the messages. later: [T - 1, *C, S, B] p(state_{t+1}).
    """

    def body(total: Array | None, row: tuple) -> tuple[Array | None, Array | None]:
        step, logs, later = row
        joint = _joint(linear, logs, recursion.table_and_addend(potentials, step)[0], later)
        if potentials.triples is not None:
            joint = jnp.where(step.index > 0, joint, 0)
        return (None, joint) if total is None else (total + joint, None)

    steps = recursion.all_steps(potentials)
    total, rows = jax.lax.scan(body, total, (steps, every, later))
    return rows if total is None else total


def _gradient(
    every_pair: bool, potentials: ChainPotentials, length: Array
) -> tuple[Array, ChainPotentials]:
    """(log Z, expected counts of all potentials), with every_pair a row of pairs a step.

    Probabilities of states are derivatives of log Z. Those of neighbouring states follow from them:
    a derivative in the table between states would be one of a table for each example.
    """
    potentials = _real(potentials, length)
    T, S = potentials.emissions.shape[:2]
    batch, second = recursion.batch_size(potentials, length), potentials.triples is not None
    name, table = (
        ("triples", potentials.triples) if second else ("transitions", potentials.transitions)
    )
    moving = potentials._replace(**{name: None})
    if second:
        pairs = jnp.broadcast_to(potentials.transitions, (T - 1, S, S, batch))
        moving = moving._replace(transitions=pairs)
    moving = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], batch)), moving)

    def use(linear: bool) -> tuple:
        def total(moving: ChainPotentials) -> tuple[Array, _Found]:
            found = _forward(linear, moving._replace(**{name: table}), length)
            return found.total, found

        _, pull, found = jax.vjp(total, moving, has_aux=True)

        def finish() -> tuple[Array, ChainPotentials]:
            (counts,) = pull(jnp.ones_like(found.total))
            later = counts.transitions if second else counts.emissions[1:]
            zero = jnp.zeros((*table.shape[:-1], batch), table.dtype)
            rows = table.ndim == (5 if second else 4) or (every_pair and not second)
            given = potentials, found.every, later, None if rows else zero
            between = _count_pairs(linear, *given)
            if not second:
                return found.total, counts._replace(transitions=between)
            if potentials.transitions.ndim == 3 and not every_pair:
                counts = counts._replace(transitions=jnp.sum(later, axis=0))
            return found.total, counts._replace(triples=between[1:] if rows else between)

        return found, finish

    return _either(use, potentials, length)


def _marginals(potentials: ChainPotentials, length: Array) -> Marginals:
    total, counts = _gradient(True, potentials, length)
    return Marginals(counts.emissions, counts.transitions, total)


def _sample(potentials: ChainPotentials, length: Array, noise: tuple[Array, Array]) -> Array:
    potentials = _real(potentials, length)

    def use(linear: bool) -> tuple:
        found = _forward(linear, potentials, length)
        return found, lambda: found

    found = _either(use, potentials, length)
    last = found.last.reshape(-1, found.last.shape[-1])
    end = drawn(last, noise[0])
    return recursion.trace_back(
        Sums(), potentials, length, found.every, (end, jnp.zeros_like(end)), noise=noise[1]
    )


_value_of_one = of_one_example(_value)
_gradient_of_one = of_one_example(partial(_gradient, False))
_marginals_of_one = of_one_example(_marginals)
_sample_of_one = of_one_example(_sample)


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
