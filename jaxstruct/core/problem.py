"""`make_problem`: a model, its oracles and its space gathered, what is left out derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core import transposition
from jaxstruct.core.checks import check_record, checked_size, text_of
from jaxstruct.core.contract import (
    Differences,
    Inference,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
    output_of,
)
from jaxstruct.core.derived_inference import (
    completed_inference,
    listing_of,
    of_those_that_agree,
    with_completions,
)
from jaxstruct.core.device import runs_on_cpu, zeros_on_device
from jaxstruct.core.transposition import linear_leaves, linear_part, sum_of_squares, with_known
from jaxstruct.core.types import PyTree, Static

Part = TypeVar("Part", Model, Oracles, Space, Differences, Inference)


def _no_check(inputs: PyTree, outputs: PyTree) -> None:
    del inputs, outputs


def _as_partials(part: Part) -> Part:
    """The part with every function as a Partial.

    Raises:
      ValueError: a field is no function.
    """
    found = {}
    for name, function in part._asdict().items():
        if function is not None and not callable(function):
            raise ValueError(f"{name} must be a function, got {type(function).__name__}")
        bound = function is None or isinstance(function, Partial)
        found[name] = function if bound else Partial(function)
    return part._replace(**found)


def _check_weights(weights: PyTree) -> None:
    leaves = jax.tree.leaves(weights)
    if not leaves or not all(
        jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in leaves
    ):
        raise ValueError("initial_weights must be a pytree of floating-point arrays (zeros)")


def _check_parts(model: Model, oracles: Oracles, space: Space, inference: Inference) -> None:
    for name, part, kind in (
        ("model", model, Model), ("oracles", oracles, Oracles), ("space", space, Space),
        ("inference", inference, Inference),
    ):  # fmt: skip
        if not isinstance(part, kind):
            raise ValueError(
                f"{name} must be a jaxstruct.{kind.__name__}, got {type(part).__name__}"
            )
    missing = [name for name in model._fields[:4] if getattr(model, name) is None]
    if missing:
        raise ValueError(f"model.{missing[0]} must be a function, got NoneType")
    differences = space.differences
    if differences is not None:
        check_record("space.differences", differences, Differences, "jaxstruct.Differences")
        missing = [name for name in ("values", "add") if getattr(differences, name) is None]
        if missing:
            raise ValueError(f"space.differences.{missing[0]} must be a function")
    _check_oracles(oracles)


def _check_oracles(oracles: Oracles) -> None:
    for first, second in (("contenders", "output"), ("level_losses", "best_by_level")):
        if (getattr(oracles, first) is None) != (getattr(oracles, second) is None):
            raise ValueError(f"oracles: {first} and {second} go together: give both or neither")
    if not any((oracles.contenders, oracles.best_by_level, oracles.loss_augmented_decode)):
        raise ValueError(
            "oracles must find a violated output: give contenders and output, level_losses and "
            "best_by_level, or loss_augmented_decode"
        )


def _check_padding(padding: Padding) -> None:
    check_record("padding", padding, Padding, "jaxstruct.Padding")
    checked_size("padding.price", padding.price, 0)
    for name, may_lack in (("output_sizes", True), ("size", False), ("complete", True)):
        function = getattr(padding, name)
        if not callable(function) and not (may_lack and function is None):
            raise ValueError(f"padding.{name} must be a function, got {text_of(function)}")


def completed(model: Model, space: Space, zero: PyTree) -> Space:
    """The space with everything that was left out derived from the model.

    Args:
      zero: the zero weights.
    """
    potentials = linear_part(model.potentials)
    add = space.add or Partial(transposition.add, potentials)
    scores = space.plane_scores or Partial(transposition.plane_scores, model.score)
    combine = space.combine or Partial(transposition.combine, scores)
    action = space.gram_action or Partial(transposition.gram_action, add, potentials, zero)
    gram = space.plane_gram or Partial(
        transposition.plane_gram, (potentials, action, scores, combine), zero
    )
    return Space(
        add=add,
        gram_action=action,
        plane_scores=scores,
        combine=combine,
        plane_values=space.plane_values
        or Partial(transposition.plane_values, (potentials, scores)),
        add_planes=space.add_planes
        or Partial(transposition.add_planes, (potentials, combine, add)),
        plane_gram=gram,
        plane_norms=space.plane_norms or Partial(transposition.plane_norms, gram),
        squared_norm=space.squared_norm or Partial(sum_of_squares),
        differences=space.differences,
    )


def make_problem(
    initial_weights: PyTree,
    model: Model,
    oracles: Oracles,
    space: Space = Space(),  # noqa: B008
    check: Callable = _no_check,
    padding: Padding = Padding(),  # noqa: B008
    inference: Inference = Inference(),  # noqa: B008
    tested: bool = False,
) -> Problem:
    """Gather the functions of a structure in a `Problem`.

    Functions should be module-level (or Partials of such), so that a second problem made of them
    does not compile anew. `jaxstruct.check_problem` says what is wrong with them.

    Args:
      initial_weights: a pytree of floating-point arrays; their shapes and dtype count.
      model: what the structure is.
      oracles: how its argmax is found; at least levels or loss_augmented_decode.
      space: where the structure knows a faster way than transposition.
      check: looks at the values of the examples before a run; see `Problem`.
      padding: what `Ragged` examples of this structure are padded to.
      inference: log losses, marginals, the k best outputs and samples, where the structure has
        them; what is left out is derived where all outputs can be listed.
      tested: whether tests prove the functions against enumeration, as those of this package's
        structures are: `fit` then does not try them on examples (`Settings.checked_examples`).

    Raises:
      ValueError: a part is of another kind, a field is not callable, initial_weights holds no
        floating-point array, or oracles has half of a pair or finds no violated output.
    """
    _check_weights(initial_weights)
    _check_parts(model, oracles, space, inference)
    _check_padding(padding)
    oracles = _as_partials(oracles)
    differences = None if space.differences is None else _as_partials(space.differences)
    model, space = _as_partials(model), _as_partials(space._replace(differences=None))
    if model.known is not None:
        linear = linear_part(model.potentials)
        model = model._replace(potentials=Partial(with_known, linear, model.known))
    zero = jax.tree.map(
        lambda leaf: zeros_on_device(jnp.shape(leaf), jnp.result_type(leaf)), initial_weights
    )
    check = check if isinstance(check, Partial) else Partial(check)
    space = _as_partials(completed(model, space, zero))._replace(differences=differences)
    facts, inference = inference.facts, inference._replace(facts=None)
    listing = listing_of(model, oracles, space)
    inference = completed_inference(_as_partials(inference), listing, model, oracles)
    inference = of_those_that_agree(inference, model, listing)
    model = with_completions(model, listing)
    functions = tuple(_functions_in((model, oracles, space))) if tested else ()
    inference = inference._replace(facts=facts)
    return Problem(zero, model, oracles, space, check, padding, inference, Static(functions))


def _functions_in(tree: PyTree) -> Iterator[Callable]:
    """Every function of a pytree of Partials, those bound to other functions, too."""
    for part in jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Partial)):
        if isinstance(part, Partial):
            yield part.func
            if part.args or part.keywords:
                yield from _functions_in((*part.args, *part.keywords.values()))
        elif callable(part):
            yield part


def reads_differences(problem: Problem) -> bool:
    """Whether sweeps read planes by where they differ: on a CPU."""
    return problem.space.differences is not None and runs_on_cpu()


def is_tested(problem: Problem) -> bool:
    """Whether tests prove the functions of a problem, and none was changed by `_replace` since."""
    tested = problem.tested.value
    parts = problem.model, problem.oracles, problem.space
    return bool(tested) and tested == tuple(_functions_in(parts))


def as_tested(problem: Problem, before: Problem) -> Problem:
    """The problem, made of parts of `before` by the package: tested if that one is."""
    parts = problem.model, problem.oracles, problem.space
    found = tuple(_functions_in(parts)) if is_tested(before) else ()
    return problem._replace(tested=Static(found))


def difference(problem: Problem, theta: PyTree, y_true: PyTree, y: PyTree) -> PyTree:
    """d [score(theta, y_true) - score(theta, y)] / d theta: delta Psi_i(y) seen from theta."""
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), output_of(y_true), y)
    dtype = jnp.result_type(*linear_leaves(theta))
    return problem.space.combine(theta, pair, jnp.asarray([1, -1], dtype))


def joint_feature(problem: Problem, x: PyTree, y: PyTree) -> PyTree:
    """Psi(x, y), shaped as the weights: A_x' d score(theta, y) / d theta (thesis 3.1).

    Args:
      problem: the structure.
      x: one input.
      y: one output.

    Returns:
      A pytree like the weights with F(x, y; w) = <w, Psi(x, y)>.
    """
    zero = problem.initial_weights
    theta = problem.model.potentials(zero, x)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], y)
    dtype = jnp.result_type(*linear_leaves(theta))
    u = problem.space.combine(theta, one, jnp.ones(1, dtype))
    return problem.space.add(zero, *jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (x, u)))
