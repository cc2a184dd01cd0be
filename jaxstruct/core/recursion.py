"""A structure as one recursion over a semiring: its best outputs, sums and samples are derivatives.

The derivative of max_y F(y) in theta is the parts of the best output, that of the r-th largest F(y)
those of the r-th best, that of log Z their marginals (J. Eisner, "Inside-outside and
forward-backward algorithms are just backprop", 2016). `Sorted` has the first of equal alternatives
alone for its derivative, `Drawn` the one that each sum has drawn: there is no way back to write.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import or_padding, with_raised
from jaxstruct.core.scores import inf_unless
from jaxstruct.core.semiring import Drawn, Sorted, Sums
from jaxstruct.core.transposition import linear_leaves, with_linear_leaves
from jaxstruct.core.types import Array, PyTree


class Recursion(NamedTuple):
    """A structure of ONE example whose outputs one recursion goes over, each of them once.

    F(y) is the sum of those leaves of theta that y uses, each as often as it uses it.

    Fields:
      total: (rule, theta) -> what all outputs are reduced to, by `of`, `times`, `plus`, `join`,
        `reduce`, `contract`, `product` and `scan` of a rule of `jaxstruct.core.semiring` alone. A
        loop is `rule.scan` or one of Python: draws in turns of another would not be independent.
      output: parts -> y. parts are shaped as theta, its integers in place: how often y uses each.
    """

    total: Callable
    output: Callable

    @property
    def decode(self) -> Partial:
        """theta -> argmax_y F(y); of equal alternatives the first, in each reduction."""
        return Partial(_decode, *map(Partial, self))

    def inference(self, score: Callable, raised: Callable | None = None) -> Inference:
        """The inference of the structure; its marginals are the expected parts, shaped as theta.

        Args:
          score: (theta, y) -> F(y), of the model; -inf of what is no output.
          raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y), where the loss is
            additive: then there are softmax_margin and augmented_k_best, too.

        Raises:
          ValueError: by sample, where `total` draws in a loop that is not `rule.scan`.
        """
        total, output = map(Partial, self)
        own = Inference(
            log_loss=Partial(_log_loss, total, Partial(score)),
            marginals=Partial(_marginals, total),
            k_best=Partial(_k_best, total, output),
            sample=Partial(_sample, total, output),
        )
        return own if raised is None else with_raised(own, Partial(raised))


def _pulled(total: Callable, theta: PyTree) -> tuple[Array, Callable]:
    """(total(theta), how often its parts are used by what a derivative goes to)."""
    value, pull = jax.vjp(lambda own: total(with_linear_leaves(theta, own)), linear_leaves(theta))
    return value, lambda along: with_linear_leaves(theta, pull(along)[0])


def _log_loss(total: Partial, score: Partial, theta: PyTree, y: PyTree) -> Array:
    own = score(theta, y)
    return inf_unless(own > -jnp.inf, total(Sums(), theta) - own)


def _marginals(total: Partial, theta: PyTree) -> Marginals:
    value, pull = _pulled(partial(total, Sums()), theta)
    return Marginals(pull(jnp.ones_like(value)), value)


def _k_best(total: Partial, output: Partial, theta: PyTree, k: int) -> tuple[PyTree, Array]:
    scores, pull = _pulled(partial(total, Sorted(k)), theta)
    outputs = jax.vmap(lambda along: output(pull(along)))(jnp.eye(k, dtype=scores.dtype))
    return or_padding(outputs, scores), scores


def _decode(total: Partial, output: Partial, theta: PyTree) -> PyTree:
    value, pull = _pulled(partial(total, Sorted(1)), theta)
    return output(pull(jnp.ones_like(value)))


def _sample(total: Partial, output: Partial, theta: PyTree, key: Array) -> PyTree:
    rule = Drawn(key)
    try:
        value, pull = _pulled(partial(total, rule), theta)
        jax.random.key_data(rule.key)  # which the body of another loop has left unreadable
    except jax.errors.UnexpectedTracerError as error:
        raise ValueError(
            "total must loop by rule.scan or in Python: in another loop the draws of all turns "
            "would be the same"
        ) from error
    return output(pull(jnp.ones_like(value)))
