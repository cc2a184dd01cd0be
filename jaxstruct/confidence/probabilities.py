"""`marginals`, `sample` and `log_losses`: p(y | x) = exp(F(x, y; w) / T) / Z of every structure."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxstruct.confidence.batches import (
    Call,
    bare,
    checked_temperature,
    in_batches,
    in_order,
    inverse,
    log_loss_at,
    outputs_in_order,
    sized_in_order,
)
from jaxstruct.core.checks import checked_size
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Marginals, Problem
from jaxstruct.core.derived_inference import checked_inference, positions
from jaxstruct.core.padding import ragged_leaves
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.predict import weights_of
from jaxstruct.solvers.validation.checks import (
    check_batch,
    check_weights,
    checked_buckets,
    checked_inputs,
)


@jax.jit
def _marginals_batch(problem: Problem, weights: PyTree, inputs: PyTree, b: Array) -> tuple:
    def of_one(x: PyTree) -> tuple:
        theta = problem.model.potentials(weights, x)
        found = problem.inference.marginals(scaled(theta, b))
        if found.sizes is None:
            whole = jax.tree.map(lambda leaf: positions(), found.probabilities)
            found = found._replace(sizes=whole)
        return found._replace(sizes=None), Marginals(found.sizes, positions())

    return jax.vmap(of_one)(inputs)


@jax.jit
def _sampled_batch(problem: Problem, weights: PyTree, inputs: tuple, b: Array) -> PyTree:
    def of_one(x: PyTree, keys: Array) -> PyTree:
        theta = problem.model.potentials(weights, x)
        draw, theta = problem.inference.sample, scaled(theta, b)
        return jax.vmap(lambda key: draw(theta, key))(jax.random.wrap_key_data(keys))

    return jax.vmap(of_one)(*inputs)


@jax.jit
def _losses_batch(problem: Problem, weights: PyTree, examples: tuple, b: Array) -> Array:
    return jax.vmap(lambda x, y: log_loss_at(problem, weights, x, y, b))(*examples)


_marginals, _sampled, _losses = map(program, (_marginals_batch, _sampled_batch, _losses_batch))


def _checked(problem: Problem, given: Any, temperature: Any, wanted: str) -> tuple[PyTree, Array]:
    """(weights, 1 / T).

    Raises:
      ValueError: an argument does not fit, or the structure has not what is wanted.
    """
    weights = weights_of(problem, given)
    check_weights(problem, weights)
    checked_inference(problem, wanted)
    T = checked_temperature(temperature, None if given is weights else given)
    return weights, inverse(weights, T)


def marginals(
    problem: Problem,
    weights: PyTree | Any,
    inputs: PyTree,
    *,
    temperature: Any = None,
    batch: int = 256,
) -> Marginals:
    """Probabilities of the parts of outputs under p(y | x) = exp(F(x, y; w) / T) / Z.

    | structure | probabilities of one input |
    | --- | --- |
    | multiclass | [k] p(class) |
    | candidates | [K] p(candidate), in the order of its list |
    | chain | [l, S] p(y^t = s) |
    | graph_labelling | [V, S] p(y_v = s), exact: inputs with plans, or inference="enumeration" |
    | multi_label | [L] p(label is in the set) |
    | weighted_grammar | `TreeProbabilities` symbols [l, S], spans [l, l, S] |
    | pairwise_alignment | [M, N] p(letter i is paired with letter j) |
    | one's own with listed outputs | E[d F(y) / d theta], shaped as theta: its parts in mean |

    Args:
      problem, weights, inputs: as in `k_best`.
      temperature: T > 0, or what `fit_temperature` returns. None is 1 for weights as they are and
        for random fields. A solution of `fit` or another machine of margins needs one: its F is not
        scaled to be a log probability, and marginals that say .64 where it is right .95 of the time
        help nobody.
      batch: inputs at a time, at most; fewer where they take more than `CALL_BYTES`. `memory` says
        what they take.

    Returns:
      Marginals of numpy arrays: [n, ...] with 0 on padding. Of ragged inputs a leaf with one axis
      of positions is a `Ragged`, one with two axes a tuple of n arrays.

    Raises:
      ValueError: an argument does not fit, or constraints leave an input no output; the structure
        has no log-linear model; temperature is None where it must not be; one input takes more
        memory than there is. Of a sentence that has no tree all probabilities are 0.
    """
    buckets = checked_inputs(problem, inputs)
    check_batch(batch)
    weights, b = _checked(problem, weights, temperature, "marginals")
    call = Call("marginals", _marginals, (bare(problem), weights), (b,))
    parts = [in_batches(call, part, batch) for part in buckets.parts]
    ragged = bool(ragged_leaves(inputs))
    count = len(parts)
    return jax.tree.map(
        lambda *leaves: sized_in_order(ragged, buckets, list(leaves[:count]), list(leaves[count:])),
        *(found for found, _ in parts),
        *(sizes for _, sizes in parts),
    )


def sample(
    problem: Problem,
    weights: PyTree | Any,
    inputs: PyTree,
    key: Array,
    number: int = 1,
    *,
    temperature: Any = None,
    batch: int = 64,
) -> tuple[PyTree, ...]:
    """Outputs drawn from p(y | x) = exp(F(x, y; w) / T) / Z, exact and independent.

    Args:
      problem, weights, inputs, temperature: as in `marginals`.
      key: a random key; every input has one of its own, whatever the batches.
      number: outputs an input, at least 1.
      batch: inputs at a time, at most, as in `marginals`; each needs the memory of `number`.

    Returns:
      `number` of what `predict` returns.

    Raises:
      ValueError: as `marginals`.
    """
    buckets = checked_inputs(problem, inputs)
    check_batch(batch)
    number = checked_size("number", number)
    weights, b = _checked(problem, weights, temperature, "sample")
    n = sum(map(len, buckets.index))
    keys = np.asarray(jax.random.key_data(jax.random.split(key, (n, number))))
    call = Call("sample", _sampled, (bare(problem), weights), (b,))
    parts = [
        in_batches(call, (part, keys[index]), batch)
        for part, index in zip(buckets.parts, buckets.index, strict=True)
    ]
    return tuple(
        outputs_in_order(
            problem, inputs, buckets,
            [jax.tree.map(lambda leaf, j=j: leaf[:, j], found) for found in parts],
        )
        for j in range(number)
    )  # fmt: skip


def log_losses(
    problem: Problem,
    weights: PyTree | Any,
    inputs: PyTree,
    outputs: PyTree,
    *,
    temperature: Any = None,
    batch: int = 256,
) -> np.ndarray:
    """[n] -log p(y_i | x_i) of examples, in their order.

    Args:
      problem, weights, temperature: as in `marginals`.
      inputs, outputs: examples as `fit` takes them.
      batch: examples at a time, at most.

    Raises:
      ValueError: as `marginals`; structures of one's own need `Inference.log_loss`, or
        `Oracles.all_outputs`.
    """
    xs, ys = checked_buckets(problem, inputs, outputs, None, dual=False)
    check_batch(batch)
    weights, b = _checked(problem, weights, temperature, "log_loss")
    call = Call("log_losses", _losses, (bare(problem), weights), (b,))
    parts = [in_batches(call, example, batch) for example in zip(xs.parts, ys.parts, strict=True)]
    return in_order(xs, parts)
