"""Forward-backward: the log-partition function of a chain, and its gradient, the marginals.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y),

with F of `chain_potentials`; d log Z / d potential is the expected count of the potential under p.
A conditional random field maximises F(y_i) - log Z.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.linear_sums import linear_messages
from jaxstruct.chains.oracles.log_sums import log_messages
from jaxstruct.chains.oracles.potential_checks import checked_chain
from jaxstruct.chains.oracles.sums import Chain, Messages, lift, prepare
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.types import Array, PyTree


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


class _Counts(NamedTuple):
    """Expected counts, batch last: a total over the steps, or a row for each of them.

    Fields:
      labels: [T, S, B].
      pairs: [S, S, B] or [T - 1, S, S, B].
      triples: None, [S, S, S, B] or [T - 1, S, S, S, B] with zeros in row 0.
      last: [S, B] the label at the end of the sequence.
    """

    labels: Array
    pairs: Array
    triples: Array | None
    last: Array


def _label(state: Array) -> Array:
    """Probabilities of the last label of a state, [S, *C, B] -> [S, B]."""
    return state if state.ndim == 2 else jnp.sum(state, axis=0)


def _count(total: Array | None, count: Array) -> tuple[Array | None, Array | None]:
    """(total, row): the count is added to a total, or it is the row of a step."""
    return (None, count) if total is None else (total + count, None)


def _count_step(chain: Chain, messages: Messages) -> Callable:
    """The step backward from p(state_{t+1}) to p(state_t) that counts on its way."""
    tables, numbers = messages.tables, messages.format

    def body(carry: PyTree, row: PyTree) -> tuple[PyTree, PyTree]:
        state, pair_total, triple_total = carry
        step, message, sums = row
        on = lift(step.index + 1 < chain.length, state)
        later = jnp.where(on, state, 0).reshape(sums.shape)
        joint, earlier = numbers.joint(message, numbers.table(step, tables), sums, later)
        state = jnp.where(on, earlier, state)
        triple_row = None
        if tables.triples is None:
            pair_total, pair_row = _count(pair_total, joint)
        else:
            pair_total, pair_row = _count(pair_total, jnp.sum(joint, axis=0))
            triple_total, triple_row = _count(triple_total, jnp.where(step.index > 0, joint, 0))
        return (state, pair_total, triple_total), (_label(state), pair_row, triple_row)

    return body


def _zero_total(table: Array | None, rank: int, batch: int) -> Array | None:
    if table is None or table.ndim == rank + 2:
        return None
    return jnp.zeros((*table.shape[:-1], batch), table.dtype)


def _expected_counts(chain: Chain, messages: Messages, every_pair: bool = False) -> _Counts:
    """Expected counts: a total where a table is constant, else a row a step.

    With every_pair the pairs have a row a step in any case.
    """
    emissions, transitions, _, _, triples = chain.potentials
    T, _, B = emissions.shape
    pair_total = None if every_pair else _zero_total(transitions, 2, B)
    carry = (messages.final, pair_total, _zero_total(triples, 3, B))
    rows = (chain_steps.all_steps(messages.tables), messages.states, messages.sums)
    body = _count_step(chain, messages)
    (_, *totals), (labels, *emitted) = jax.lax.scan(body, carry, rows, reverse=True)
    both = zip(totals, emitted, strict=True)
    pairs, triples = (row if total is None else total for total, row in both)
    last = _label(messages.final)
    labels = jnp.concatenate([labels, last[None]])
    labels = jnp.where(jnp.arange(T)[:, None, None] < chain.length[None, None], labels, 0)
    return _Counts(labels, pairs, triples, jnp.where(chain.length[None] > 0, last, 0))


def summed(chain: Chain, use: Callable[[Messages], PyTree]) -> PyTree:
    """use(messages). They are linear; if a chain of the batch needs it, logarithmic.

    The columns of a batch share the choice; it changes a result by rounding errors only.
    """
    messages, safe = linear_messages(chain)
    return jax.lax.cond(safe, lambda: use(messages), lambda: use(log_messages(chain)))


def _as_gradient(potentials: ChainPotentials, counts: _Counts) -> ChainPotentials:
    """None where there is no potential, and the dtypes of the potentials."""
    triples = counts.triples
    if triples is not None and triples.ndim == 5:  # one table a step, the first of them empty
        triples = triples[1:]
    gradient = ChainPotentials(
        counts.labels,
        counts.pairs,
        None if potentials.start is None else counts.labels[0],
        None if potentials.stop is None else counts.last,
        triples,
    )
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), gradient, potentials)


def _value_kernel(potentials: ChainPotentials, length: Array) -> Array:
    return summed(prepare(potentials, length), lambda messages: messages.log_partition)


def _gradient_kernel(potentials: ChainPotentials, length: Array) -> tuple[Array, ChainPotentials]:
    chain = prepare(potentials, length)

    def use(messages: Messages) -> tuple[Array, ChainPotentials]:
        gradient = _as_gradient(potentials, _expected_counts(chain, messages))
        return messages.log_partition, gradient

    return summed(chain, use)


def _marginals_kernel(potentials: ChainPotentials, length: Array) -> Marginals:
    chain = prepare(potentials, length)

    def use(messages: Messages) -> Marginals:
        counts = _expected_counts(chain, messages, every_pair=True)
        return Marginals(counts.labels, counts.pairs, messages.log_partition)

    return summed(chain, use)


_value = of_one_example(_value_kernel)
_value_and_gradient = of_one_example(_gradient_kernel)
_marginals = of_one_example(_marginals_kernel)


@jax.custom_vjp
def _differentiable(potentials: ChainPotentials, length: Array) -> Array:
    return _value(potentials, length)


def _forward(potentials: ChainPotentials, length: Array) -> tuple[Array, ChainPotentials]:
    return _value_and_gradient(potentials, length)


def _backward(gradient: ChainPotentials, cotangent: Array) -> tuple[ChainPotentials, None]:
    return jax.tree.map(lambda count: (cotangent * count).astype(count.dtype), gradient), None


_differentiable.defvjp(_forward, _backward)


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
    return _marginals(*checked_chain(potentials, length))
