"""The inference of a structure held against sums over its outputs, where they can be listed.

With F(y) of all outputs known, P(y) = exp F(y) / sum exp F: log Z, marginals, the best outputs and
the losses follow by enumeration. Marginals of the shape of theta are E_P[d F(y) / d theta]; what
those of another shape count only their structure knows, and they are held against the mean over P
of what they are where one output is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core import derived_inference
from jaxstruct.core.contract import Marginals, Problem
from jaxstruct.core.transposition import is_linear, linear_leaves, scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.validation.function_checks import returned, several
from jaxstruct.solvers.validation.oracle_rules import largest_difference, times_listed

CONTRACTS = {
    "log_loss": "log sum_y exp(F(y) - F(y_true))",
    "log_partition": "log sum_y exp F(y)",
    "marginals": "the mean of its parts over P",
    "k_best": "the outputs of the largest F",
    "sample": "one of the outputs",
    "softmax_margin": "mu log sum_y exp((Delta + F(y) - F(y_true)) / mu)",
    "augmented_k_best": "the outputs of the largest Delta + F",
}
BEST, DRAWN, MU = 2, 16, 0.5
SPREAD = 4.0
"""How far apart the scores are: P of size exp(-4) is seen."""
CERTAIN = 40.0
"""An output that is ahead by so much is the only one."""
UNKNOWN = 1e-4
"""So much of P may be of outputs of which no theta was found that is certain."""
MOST_CERTAIN = 256
"""Of so many outputs marginals are taken where one is certain."""


def _refusal(function: Callable, arguments: tuple) -> str | None:
    """What a function says that cannot serve this loss or theta."""
    try:
        jax.eval_shape(function, *arguments)
    except ValueError as error:
        return str(error)
    except Exception:
        return None  # `call` names it
    return None


def compared_functions(
    problem: Problem, x: PyTree, y: PyTree, listed: PyTree
) -> tuple[tuple[str, ...], dict[str, str]]:
    """(what of an inference can be summed for, by name, and what it refuses, with its words).

    What is derived of this very list is left out, and a log loss that is an approximation.

    Args:
      x, y: one example, of which shapes and dtypes are seen. listed: all outputs, or None.

    Raises:
      ValueError: a function fails, or returns something of another shape.
    """
    given, every = problem.inference, problem.oracles.all_outputs
    if listed is None and every is None:
        return (), {}
    count = jax.tree.leaves(listed if every is None else jax.eval_shape(every, y))[0].shape[0]
    theta = jax.eval_shape(problem.model.potentials, problem.initial_weights, x)
    scalar, key = jnp.zeros(()), jax.eval_shape(jax.random.key, 0)
    best, two = jnp.zeros(BEST), several(y, BEST)

    def sums(found: Any) -> PyTree:
        return found._replace(log_partition=scalar) if isinstance(found, Marginals) else ()

    calls = {
        "log_loss": ("(theta, y) -> -log P(y | x)", (theta, y), scalar),
        "marginals": ("theta -> jaxstruct.Marginals with a scalar log_partition", (theta,), sums),
        "k_best": ("(theta, k) -> (y[k], F[k])", (theta,), (two, best)),
        "sample": ("(theta, key) -> y", (theta, key), y),
        "softmax_margin": ("(theta, y_true, mu) -> a scalar", (theta, y, scalar), scalar),
        "augmented_k_best": ("(theta, y_true, k) -> (y[k], bool[k])", (theta, y), (two, best)),
    }
    names, refused = [], {}
    for field, (contract, arguments, wanted) in calls.items():
        function: Any = getattr(given, field)
        module = getattr(getattr(function, "func", None), "__module__", "")
        of_list = listed is None and module == derived_inference.__name__
        few = "k_best" in field and count < BEST  # there is no k-th output to hold it against
        loose = field == "log_loss" and not given.facts.exact
        if function is None or of_list or few or loose:
            continue
        if "k_best" in field:
            function = Partial(_with_count, function)
        words = _refusal(function, arguments)
        if words is not None:
            refused[f"inference.{field}"] = words
            continue
        returned(f"inference.{field}", contract, function, arguments, wanted)
        names += ["log_partition"] * (field == "marginals") + [field]
    return tuple(names), refused


def _with_count(function: Callable, *arguments: PyTree) -> tuple[PyTree, Array]:
    return function(*arguments, BEST)


def _dtype_of(theta: PyTree) -> jnp.dtype:
    return jnp.result_type(*linear_leaves(theta))


def _certain(problem: Problem, theta: PyTree, outputs: PyTree) -> tuple[Array, PyTree]:
    """(whether theta could be made certain of each output, the marginals there)."""
    score = jax.vmap(problem.model.score, (None, 0))

    count = jax.tree.leaves(outputs)[0].shape[0]

    def of_one(number: Array) -> tuple[Array, PyTree]:
        one = jnp.arange(count) == number
        parts = problem.space.combine(theta, outputs, one.astype(_dtype_of(theta)))
        certain = jax.tree.map(lambda a, b: b if is_linear(a) else a, theta, parts)
        scores = score(certain, outputs)
        ahead = scores[number] - jnp.max(jnp.where(one, -jnp.inf, scores))
        factor = CERTAIN / jnp.where(ahead > 0, ahead, 1)
        return ahead > 1e-3, problem.inference.marginals(scaled(certain, factor)).probabilities

    return jax.lax.map(of_one, jnp.arange(min(MOST_CERTAIN, count)))


def _marginals_excess(problem: Problem, theta: PyTree, outputs: PyTree, scores: Array) -> Array:
    """By how much marginals differ from means over P; -1 where these are not known."""
    found, shares = problem.inference.marginals(theta).probabilities, jax.nn.softmax(scores)
    mean = problem.space.combine(theta, outputs, shares.astype(_dtype_of(theta)))
    if jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, mean):
        return largest_difference(found, mean)
    known, parts = _certain(problem, theta, outputs)
    own = jnp.where(known, shares[: len(known)], 0)
    mean = jax.tree.map(lambda leaf: jnp.tensordot(own, leaf, 1), parts)
    return jnp.where(jnp.sum(own) > 1 - UNKNOWN, largest_difference(found, mean), -1)


def inference_excess(
    problem: Problem, names: tuple[str, ...], theta: PyTree, y_true: PyTree, outputs: PyTree
) -> dict[str, Array]:
    """By how much each number of an inference differs from the sum over all outputs, relative.

    Args:
      names: static, of `compared_functions`. theta, y_true: of one example. outputs: all, [K, ...].
    """
    model, inference = problem.model, problem.inference
    score = jax.vmap(model.score, (None, 0))
    scores = score(theta, outputs)
    low, high = (jnp.where(jnp.isfinite(scores), scores, end) for end in (jnp.inf, -jnp.inf))
    theta = scaled(theta, SPREAD / jnp.maximum(jnp.max(high) - jnp.min(low), SPREAD))
    scores, truth = score(theta, outputs), model.score(theta, y_true)
    losses = jax.vmap(model.loss, (None, 0))(y_true, outputs)

    def best_of(values: Array) -> Array:
        return jax.lax.top_k(values, BEST)[0]

    def k_best() -> tuple:
        found, claimed = inference.k_best(theta, BEST)
        return (claimed, score(theta, found)), (best_of(scores),) * 2

    def sample() -> tuple:
        keys = jax.random.split(jax.random.key(0), DRAWN)
        drawn = jax.lax.map(partial(inference.sample, theta), keys)
        return (times_listed(outputs, drawn) > 0).astype(truth.dtype), jnp.ones_like(truth)

    def softmax_margin() -> tuple:
        wanted = MU * jax.nn.logsumexp((losses + scores - truth) / MU)
        return inference.softmax_margin(theta, y_true, jnp.asarray(MU, truth.dtype)), wanted

    def augmented_k_best() -> tuple:
        found, _ = inference.augmented_k_best(theta, y_true, BEST)
        values = jax.vmap(model.loss, (None, 0))(y_true, found) + score(theta, found)
        return values, best_of(losses + scores)

    pairs = {  # what a function says, what the sum over all outputs says
        "log_loss": lambda: (inference.log_loss(theta, y_true), jax.nn.logsumexp(scores - truth)),
        "log_partition": lambda: (
            inference.marginals(theta).log_partition, jax.nn.logsumexp(scores)
        ),
        "k_best": k_best, "sample": sample, "softmax_margin": softmax_margin,
        "augmented_k_best": augmented_k_best,
    }  # fmt: skip
    return {
        f"inference.{name}": _marginals_excess(problem, theta, outputs, scores)
        if name == "marginals"
        else largest_difference(*pairs[name]())
        for name in names
    }
