"""What a structure can be asked besides training, derived where its outputs can be listed.

P(y | x) = exp(F(x, y)) / Z(x) over y of `Oracles.all_outputs`: log Z, marginals, the k best outputs
and samples are those of a list of scores. Where no list is known, the two best outputs follow from
`Oracles.best_wrong` or `Oracles.contenders`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.contract import (
    Bounded,
    Inference,
    Marginals,
    Model,
    Oracles,
    Problem,
    Space,
    Truth,
    output_of,
)
from jaxstruct.core.scores import draw, largest
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree


class Listing(NamedTuple):
    """How the outputs of one example are listed.

    Fields:
      outputs: (theta, y_true) -> (y[K], real bool[K]), y_true in the places that are not real.
      score, decode, loss: of the model. plane_scores, combine: of the space.
    """

    outputs: Callable
    score: Callable
    decode: Callable
    loss: Callable
    plane_scores: Callable
    combine: Callable


def positions(*lengths: Array) -> Array:
    """[number] int32 the real sizes of the leading axes of a leaf, for `Marginals.sizes`."""
    return jnp.asarray(lengths, jnp.int32).reshape(len(lengths))


def or_padding(outputs: PyTree, scores: Array) -> PyTree:
    """Outputs y[k], -1 throughout where the score is -inf."""

    def of_leaf(leaf: Array) -> Array:
        real = (scores > -jnp.inf).reshape(-1, *(1,) * (leaf.ndim - 1))
        return jnp.where(real, leaf, -1).astype(jnp.int32)

    return jax.tree.map(of_leaf, outputs)


def raised_softmax_margin(
    log_loss: Callable, raised: Callable, theta: PyTree, y_true: PyTree, mu: Array
) -> Array:
    """mu log sum_y exp((Delta(y_true, y) + F(y) - F(y_true)) / mu) by potentials raised by Delta.

    Args:
      log_loss: of `Inference`. raised: (theta, y_true) -> theta whose score is F(y) + Delta(y).
    """
    return mu * log_loss(scaled(raised(theta, y_true), 1 / mu), y_true)


def raised_k_best(
    k_best: Callable, raised: Callable, theta: PyTree, y_true: PyTree, k: int, *above: Array
) -> tuple[PyTree, Array]:
    """(the k largest F(y) + Delta(y_true, y) [k], which of them there are); see above.

    Args:
      k_best: (theta, k, *above) -> (outputs [k], their scores [k]).
    """
    outputs, scores = k_best(raised(theta, y_true), k, *above)
    return outputs, scores > -jnp.inf


def with_raised(given: Inference, raised: Partial) -> Inference:
    """An inference with what follows from potentials that the loss is added to.

    Args:
      given: its k_best, and its log_loss where it has one, are asked of such potentials.
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y); it raises ValueError
        where the loss is not additive.
    """
    log_loss = given.log_loss
    return given._replace(
        softmax_margin=log_loss and Partial(raised_softmax_margin, log_loss, raised),
        augmented_k_best=Partial(raised_k_best, given.k_best, raised),
    )


def _scores(listing: Listing, theta: PyTree) -> tuple[PyTree, Array]:
    """(all outputs, their scores), what decode finds first; -inf where none stands."""
    outputs, real = listing.outputs(theta, listing.decode(theta))
    return outputs, jnp.where(real, listing.plane_scores(theta, outputs), -jnp.inf)


def _advantages(listing: Listing, theta: PyTree, y: PyTree, outputs: PyTree, real: Array) -> Array:
    """[K] F(y_k) - F(y), -inf where no output stands."""
    values = listing.plane_scores(theta, outputs) - listing.score(theta, output_of(y))
    return jnp.where(real, values, -jnp.inf)


def _augmented(listing: Listing, theta: PyTree, y_true: PyTree) -> tuple[PyTree, Array]:
    """(all outputs, [K] Delta(y_true, y_k) + F(y_k) - F(y_true))."""
    outputs, real = listing.outputs(theta, y_true)
    losses = jax.vmap(listing.loss, (None, 0))(y_true, outputs)
    return outputs, losses + _advantages(listing, theta, y_true, outputs, real)


def _log_loss(listing: Listing, theta: PyTree, y: PyTree) -> Array:
    outputs, real = listing.outputs(theta, y)
    return jax.nn.logsumexp(_advantages(listing, theta, y, outputs, real))


def _marginals(listing: Listing, theta: PyTree) -> Marginals:
    """E_P of the parts of outputs, shaped as theta: what a count of parts is in mean."""
    outputs, scores = _scores(listing, theta)
    expected = listing.combine(theta, outputs, jax.nn.softmax(scores))
    return Marginals(expected, jax.nn.logsumexp(scores))


def _k_best(listing: Listing, theta: PyTree, k: int) -> tuple[PyTree, Array]:
    outputs, scores = _scores(listing, theta)
    top, places = largest(scores, k)
    at = jnp.minimum(places, scores.shape[0] - 1)
    return or_padding(jax.tree.map(lambda leaf: leaf[at], outputs), top), top


def _sample(listing: Listing, theta: PyTree, key: Array) -> PyTree:
    outputs, scores = _scores(listing, theta)
    drawn = draw(key, scores)
    return jax.tree.map(lambda leaf: leaf[drawn], outputs)


def _softmax_margin(listing: Listing, theta: PyTree, y_true: PyTree, mu: Array) -> Array:
    return mu * jax.nn.logsumexp(_augmented(listing, theta, y_true)[1] / mu)


def _augmented_k_best(
    listing: Listing, theta: PyTree, y_true: PyTree, k: int
) -> tuple[PyTree, Array]:
    outputs, values = _augmented(listing, theta, y_true)
    top, places = largest(values, min(k, len(values)))
    return jax.tree.map(lambda leaf: leaf[places], outputs), top > -jnp.inf


def _every(all_outputs: Partial, theta: PyTree, y_true: PyTree) -> tuple[PyTree, Array]:
    del theta
    outputs = all_outputs(y_true)
    return outputs, jnp.ones(jax.tree.leaves(outputs)[0].shape[0], bool)


def listed_inference(listing: Listing) -> Inference:
    """Everything of an `Inference`, of outputs that can be listed.

    Marginals are expected parts shaped as theta, E_P[d F(y) / d theta]: what to count differs from
    structure to structure, and theta is what F counts with.
    """
    return Inference(
        log_loss=Partial(_log_loss, listing),
        marginals=Partial(_marginals, listing),
        k_best=Partial(_k_best, listing),
        sample=Partial(_sample, listing),
        softmax_margin=Partial(_softmax_margin, listing),
        augmented_k_best=Partial(_augmented_k_best, listing),
    )


def _second_best(model: Model, oracles: Oracles, theta: PyTree, first: PyTree) -> tuple:
    """(the best output but for the first, its score); the first and -inf where there is none."""
    if oracles.best_wrong is not None:
        found = oracles.best_wrong(theta, first)
    else:
        levels = oracles.contenders(theta, first)
        if levels.bounds is not None:
            found = Bounded(None, levels.bounds)
        else:
            found = oracles.output(levels.trace, jnp.argmax(levels.scores))
    if isinstance(found, Bounded):
        raise ValueError(
            "problem's oracle gives bounds, so that its second best is not certain: k_best needs "
            "an exact one"
        )
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(first), strict=True)
    same = jnp.all(jnp.stack([jnp.all(a == b) for a, b in leaves]))
    return found, jnp.where(same, -jnp.inf, model.score(theta, found))


def _two_best(model: Model, oracles: Oracles, theta: PyTree, k: int) -> tuple[PyTree, Array]:
    if k > 2:
        raise ValueError(
            f"k must be at most 2 for this problem, got {k}: give it Oracles.all_outputs, where "
            "its outputs can be listed, or Inference.k_best"
        )
    first = model.decode(theta)
    outputs, scores = jax.tree.map(lambda leaf: leaf[None], (first, model.score(theta, first)))
    if k == 2:
        second, score = _second_best(model, oracles, theta, first)
        scores = jnp.append(scores, score)
        outputs = jax.tree.map(lambda a, b: jnp.stack([a, b]), first, second)
    return or_padding(outputs, scores), scores


def listing_of(model: Model, oracles: Oracles, space: Space) -> Listing | None:
    """How a structure lists its outputs, or None where it does not."""
    if oracles.all_outputs is None:
        return None
    every = Partial(_every, oracles.all_outputs)
    return Listing(every, model.score, model.decode, model.loss, space.plane_scores, space.combine)


def completed_inference(
    given: Inference, listing: Listing | None, model: Model, oracles: Oracles
) -> Inference:
    """The inference of a structure with everything that can be derived.

    Args:
      given: what the structure has. listing: see `listing_of`. model, oracles: with Partials.
    """
    derived = Inference()
    if listing is not None:
        derived = listed_inference(listing)
    elif oracles.best_wrong is not None or oracles.contenders is not None:
        asked = Oracles(
            contenders=oracles.contenders, output=oracles.output, best_wrong=oracles.best_wrong
        )
        derived = Inference(k_best=Partial(_two_best, model, asked))
    found = {
        name: getattr(derived, name) if function is None else function
        for name, function in given._asdict().items()
    }
    return Inference(**found)


def _best_restricted(decode: Callable, restrict: Callable, theta: PyTree, known: PyTree) -> PyTree:
    return decode(restrict(theta, known))


def _best_listed(listing: Listing, agrees: Callable, theta: PyTree, known: PyTree) -> PyTree:
    outputs, scores = _scores(listing, theta)
    kept = jax.vmap(agrees, (None, 0))(known, outputs)
    best = jnp.argmax(jnp.where(kept, scores, -jnp.inf))
    return jax.tree.map(lambda leaf: leaf[best], outputs)


def with_completions(model: Model, listing: Listing | None) -> Model:
    """The model with `complete`, where it follows from what outputs agree.

    Raises:
      ValueError: there is `agrees`, and no list of the outputs.
    """
    if model.complete is not None:
        return model
    if model.restrict is not None:
        return model._replace(complete=Partial(_best_restricted, model.decode, model.restrict))
    if model.agrees is None:
        return model
    if listing is None:
        raise ValueError(
            "model.agrees completes outputs that Oracles.all_outputs lists, and there is none: "
            "give it, or model.restrict or model.complete"
        )
    return model._replace(complete=Partial(_best_listed, listing, model.agrees))


def _restricted_loss(log_loss: Callable, restrict: Callable, theta: PyTree, y: Truth) -> Array:
    return log_loss(restrict(theta, y.numbers), y.output)


def _listed_loss(listing: Listing, agrees: Callable, theta: PyTree, y: Truth) -> Array:
    outputs, real = listing.outputs(theta, y.output)
    kept = real & jax.vmap(agrees, (None, 0))(y.numbers, outputs)
    return jax.nn.logsumexp(_advantages(listing, theta, y.output, outputs, kept))


def _log_loss_of_known(log_loss: Callable, among: Callable, theta: PyTree, y: PyTree) -> Array:
    """-log P(y | x), or of `Truth(y, known)` that of all that agree: log Z - log Z_known.

    Args:
      among: (theta, Truth) -> log Z_known - F(y).
    """
    if not isinstance(y, Truth):
        return log_loss(theta, y)
    return log_loss(theta, y.output) - among(theta, y)


def of_those_that_agree(inference: Inference, model: Model, listing: Listing | None) -> Inference:
    """The inference of a structure whose log_loss takes what is known, where it can."""
    log_loss = inference.log_loss
    if log_loss is None or log_loss.func is _log_loss_of_known:
        return inference
    if model.restrict is not None:
        among = Partial(_restricted_loss, log_loss, model.restrict)
    elif model.agrees is not None and listing is not None:
        among = Partial(_listed_loss, listing, model.agrees)
    else:
        return inference
    return inference._replace(log_loss=Partial(_log_loss_of_known, log_loss, among))


def of_whole_outputs(log_loss: Any) -> Any:
    """The log loss of a structure as it gave it, without what `of_those_that_agree` put around."""
    wrapped = isinstance(log_loss, Partial) and log_loss.func is _log_loss_of_known
    return log_loss.args[0] if wrapped else log_loss


def checked_inference(problem: Problem, name: str) -> Callable:
    """A function of the inference of a problem.

    Raises:
      ValueError: the structure has none of that name.
    """
    function = getattr(problem.inference, name)
    if function is None:
        advice = problem.inference.facts.advice or (
            f"give make_problem(.., inference=Inference({name}=...)), or Oracles.all_outputs where "
            "its outputs can be listed; structured_hinge, perceptron and perturbed need the argmax "
            "alone"
        )
        raise ValueError(f"problem has no {name}: {advice}")
    return function
