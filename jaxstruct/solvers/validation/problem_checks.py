"""`check_problem`: what the author of a structure can get wrong, all of it, in one report.

Beside the rules of `oracle_rules` for every formulation it compares the loss levels with the
candidates that turn up, looks through every list of outputs, and holds each function of the space
that is given against the one that transposition makes of the model, and each of the inference
against the sum over all outputs, where these can be listed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core import derived_inference
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Bounded, Marginals, Problem, Space, output_of
from jaxstruct.core.device import on_device
from jaxstruct.core.problem import completed
from jaxstruct.core.slack_search import best_of_levels
from jaxstruct.core.transposition import linear_leaves, linear_part, scaled, sum_of_squares
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.most_violated import oracle_for, same_output
from jaxstruct.solvers.validation.checks import checked_buckets
from jaxstruct.solvers.validation.function_checks import derived, returned, several
from jaxstruct.solvers.validation.oracle_rules import (
    RULES,
    Candidates,
    Excess,
    allowance_of,
    broken_rules,
    candidates_of,
    drawn_weights,
    frequencies_of,
    joined,
    largest_difference,
    largest_of,
    listing,
    oracle_excess,
    sample_of,
    share_of,
    times_listed,
)

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
    best, one = jnp.zeros(BEST), output_of(y)
    two = several(one, BEST)

    def sums(found: Any) -> PyTree:
        return found._replace(log_partition=scalar) if isinstance(found, Marginals) else ()

    calls = {
        "log_loss": ("(theta, y) -> -log P(y | x)", (theta, y), scalar),
        "marginals": ("theta -> jaxstruct.Marginals with a scalar log_partition", (theta,), sums),
        "k_best": ("(theta, k) -> (y[k], F[k])", (theta,), (two, best)),
        "sample": ("(theta, key) -> y", (theta, key), one),
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
            function = partial(_with_count, function)
        try:
            jax.eval_shape(function, *arguments)
        except ValueError as error:  # what it says that cannot serve this loss or theta
            refused[f"inference.{field}"] = str(error)
            continue
        except Exception:
            pass  # `returned` names it
        returned(f"inference.{field}", contract, function, arguments, wanted)
        names += ["log_partition"] * (field == "marginals") + [field]
    return tuple(names), refused


def _with_count(function: Callable, *arguments: PyTree) -> tuple[PyTree, Array]:
    return function(*arguments, BEST)


def _dtype_of(theta: PyTree) -> jnp.dtype:
    return jnp.result_type(*linear_leaves(theta))


def _marginals_excess(problem: Problem, theta: PyTree, outputs: PyTree, scores: Array) -> Array:
    """By how much marginals differ from means over P; -1 where these are of other parts."""
    found, shares = problem.inference.marginals(theta).probabilities, jax.nn.softmax(scores)
    mean = problem.space.combine(theta, outputs, shares.astype(_dtype_of(theta)))
    if jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, mean):
        return largest_difference(found, mean)
    return -jnp.ones(())


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
    scores, truth = score(theta, outputs), model.score(theta, output_of(y_true))
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


WIDTH = 100
"""Characters in a line of what `print` shows."""
MOST_LISTED = 2048
"""So many of the outputs that a problem lists are looked for in the whole list."""
_OF_MAPS = {"finite", "constant", "potentials", "score"}
_OF_LISTS = {"outside", "first", "gaps", "twice"}


class Fault(NamedTuple):
    """A rule that is broken.

    Fields:
      rule: its name. advice: what is wrong, and what to do. excess: by how much it is broken,
        relative to the numbers compared. formulations: those that it concerns.
    """

    rule: str
    advice: str
    excess: float
    formulations: tuple[str, ...]


class Report(NamedTuple):
    """What `check_problem` tried and found; `print` shows it in words.

    Fields:
      excess: rule -> by how much it is broken at most, relative to the numbers compared.
      oracles: formulation -> the oracle that serves it, or why none does.
      faults: the rules that are broken.
      examples, draws: how many examples and random weights were tried.
      refused: what could not be compared, and why.
    """

    excess: dict[str, float]
    oracles: dict[str, str]
    faults: tuple[Fault, ...] = ()
    examples: int = 0
    draws: int = 0
    refused: dict[str, str] = {}

    def __str__(self) -> str:
        """What was tried, what is broken and what to do, what holds."""
        served = [name for name, oracle in self.oracles.items() if " " not in oracle]
        lines = [f"tried: {self.examples} examples, each under {self.draws} random weights"]
        for oracle in dict.fromkeys(self.oracles.values()):
            of = [name for name, found in self.oracles.items() if found == oracle]
            lines.append(f"{', '.join(of)}: " + ("not served" if " " in oracle else oracle))
        count = len(self.faults)
        lines.append(
            "no rule is broken"
            if not count
            else f"{count} rule{'s are' if count > 1 else ' is'} broken:"
        )
        for number, fault in enumerate(self.faults, 1):
            concerned = "all formulations" * (list(fault.formulations) == served)
            concerned = concerned or ", ".join(fault.formulations)
            text = f"{fault.advice} (by {fault.excess:.2g}, relative; {concerned})"
            lines += textwrap.wrap(
                text, WIDTH, initial_indent=f"  {number}. ", subsequent_indent="     "
            )
        broken = {fault.rule for fault in self.faults}
        lines.append("these hold, off by at most:")
        for rule, value in self.excess.items():
            if rule not in broken:
                lines.append(f"  {RULES[rule][0] if rule in RULES else _holds(rule)}: {value:.2g}")
        for name, words in self.refused.items():
            lines += textwrap.wrap(f"not compared: {name}, {words}", WIDTH, subsequent_indent="  ")
        return "\n".join(lines)


def _holds(name: str) -> str:
    part, _, field = name.partition(".")
    if part == "inference":
        return f"{name} is {CONTRACTS[field]}"
    return f"space.{name} is what potentials and score make of it"


def _advice(rule: str, problem: Problem) -> str:
    """What is wrong where a rule is broken, and what to do."""
    if rule in RULES:
        return RULES[rule][1]
    if rule == "add":
        return (
            "space.add is not the transpose of model.potentials. Where w are no coordinates "
            "(coefficients of kernel values), say so by a space.squared_norm that returns None"
        )
    part, _, field = rule.partition(".")
    if part == "inference":
        text = f"{rule} is not {CONTRACTS[field]}, y of all outputs listed"
        return f"{text}: correct it, or leave it out"
    text = f"space.{rule} differs from what potentials and score make of it by transposition; "
    if part != "differences" and derived(getattr(problem.space, rule)):
        return text + "it was derived from another model: call make_problem anew"
    return text + "leave it out, or correct it"


def _level_excess(
    problem: Problem, theta: PyTree, y_true: PyTree, given: Candidates, listed: PyTree
) -> Excess:
    """Losses of levels that are not those of their outputs, levels that a candidate beats, and
    lists of outputs with gaps or repetitions."""
    contenders, oracle, found = problem.oracles.contenders, problem.oracles.best_by_level, {}
    met = given.outputs if listed is None else listed
    if contenders or oracle:
        losses, outputs = best_of_levels(problem, theta, y_true)
        score, loss = (jax.vmap(f, (None, 0)) for f in (problem.model.score, problem.model.loss))
        exists = ~jax.vmap(same_output, (None, 0))(y_true, outputs)
        apart, bounded = loss(y_true, outputs) - losses, False
        if contenders and not oracle:
            there = jnp.isfinite(contenders(theta, y_true).scores)
            found["includes_truth"] = jnp.any(there & ~exists).astype(losses.dtype)
        if oracle:  # losses may only bound those of their outputs
            bounded = isinstance(jax.eval_shape(oracle, theta, y_true, losses, losses), Bounded)
        apart = apart if bounded else jnp.abs(apart)
        found["level_losses"] = jnp.max(jnp.where(exists, apart, 0), initial=0)
        best = jnp.where(exists, score(theta, outputs), -jnp.inf)
        scores = score(theta, given.outputs)
        close = jnp.abs(given.losses[:, None] - losses[None]) <= allowance_of(scores.dtype)
        of_loss = jnp.max(jnp.where(close, best[None], -jnp.inf), axis=1)
        ahead = jnp.where(given.wrong & jnp.any(close, axis=1), scores - of_loss, 0)
        size = jnp.max(jnp.abs(scores)) + largest_of(theta)
        if not bounded:  # what is missed is asked of bounds
            found["levels"] = jnp.max(jnp.where(ahead == jnp.inf, 1, share_of(ahead, size)))
        met = joined(met, outputs)
    return found | listing(problem, y_true, met, None, MOST_LISTED)


def _space_excess(
    problem: Problem,
    functions: tuple[str, ...],
    coordinates: bool,
    w: PyTree,
    x: PyTree,
    y_true: PyTree,
    given: Candidates,
    frequency: Array,
) -> dict[str, Array]:
    """Each of some functions of the space, against what the model makes of it.

    Args:
      functions: static, their names. coordinates: static, whether w are; otherwise the given add
        stands for the transpose, and weights are compared by the scores that they give.
    """
    if not functions:  # nothing is derived, which maps that are not linear cannot stand
        return {}
    space, model, zero = problem.space, problem.model, problem.initial_weights
    right = completed(model, Space() if coordinates else Space(add=space.add), zero)
    outputs, theta = given.outputs, model.potentials(w, x)
    last = jax.tree.map(lambda leaf: leaf[-1], outputs)
    scores = right.plane_scores(theta, outputs)
    c = jnp.sin(frequency * jnp.arange(1, len(scores) + 1)).astype(scores.dtype)
    c = c - jnp.mean(c)  # differences and kernels know differences alone
    u = right.combine(theta, outputs, c)
    one_x, planes, one_u = jax.tree.map(lambda leaf: leaf[None], (x, outputs, u))

    def apart(values: Array) -> Array:
        return values - values[0]

    def seen(weights: PyTree) -> PyTree:
        if coordinates:
            return weights
        return apart(right.plane_scores(model.potentials(weights, x), outputs))

    calls = {  # of each function what is read of it, given itself or the right one
        "plane_scores": lambda own: own(theta, outputs),
        "combine": lambda own: own(theta, outputs, c),
        "add": lambda own: seen(own(zero, one_x, one_u)),
        "gram_action": lambda own: apart(right.plane_scores(own(x, u), outputs)),
        "plane_values": lambda own: apart(own(w, one_x, planes)[0]),
        "add_planes": lambda own: seen(own(zero, one_x, planes, c[None])),
        "plane_gram": lambda own: own(x, y_true, outputs, last),
        "plane_norms": lambda own: own(x, y_true, outputs),
    }

    def pair_of(name: str) -> tuple[PyTree, PyTree]:
        """(what the function makes, what is right); of values the differences from the first."""
        part, _, field = name.rpartition(".")
        if name == "squared_norm":
            return space.squared_norm(w, one_x), sum_of_squares(w, x)
        if not part:
            return tuple(calls[name](getattr(maps, name)) for maps in (space, right))
        if field == "look_up":
            found = space.differences.look_up(
                theta, one_x, planes, jnp.int32(0), y_true, last, jnp.ones(len(scores), bool)
            )
            return (found.scores, found.products), (scores, calls["plane_gram"](right.plane_gram))
        field = {"values": "plane_values", "add": "add_planes"}[field]
        own = partial(_by_differences, space.differences, field)
        return calls[field](own), calls[field](getattr(right, field))

    return {name: largest_difference(*pair_of(name)) for name in functions}


def _by_differences(
    differences: Any, field: str, w: PyTree, x: PyTree, y: PyTree, *c: Array
) -> Any:
    """`plane_values` or `add_planes` by what separates planes."""
    index = jnp.zeros(1, jnp.int32)
    apart = differences.find(y) if differences.find else y
    w = differences.unpack(w, x) if differences.unpack else w
    if field == "plane_values":
        return differences.values(w, x, apart, index)
    moved = differences.add(w, x, apart, index, *c)
    return differences.pack(moved, x) if differences.pack else moved


def _functions_to_compare(problem: Problem, x: PyTree) -> tuple[str, ...]:
    """The functions of the space that are not derived from this very model."""
    own = [*problem.model, *problem.space, linear_part(problem.model.potentials)]

    def is_of_this_model(function: Partial) -> bool:
        parts = jax.tree.leaves(function.args, is_leaf=lambda node: isinstance(node, Partial))
        return derived(function) and all(
            any(part is one for one in own) for part in parts if isinstance(part, Partial)
        )

    names = [name for name in Space._fields if name not in ("squared_norm", "differences")]
    found = tuple(name for name in names if not is_of_this_model(getattr(problem.space, name)))
    if problem.space.differences is not None:
        found += ("differences.values", "differences.add")
        found += ("differences.look_up",) if problem.space.differences.look_up else ()
    squared = problem.space.squared_norm
    if squared is None or squared.func is sum_of_squares or not _are_coordinates(problem, x):
        return found
    return (*found, "squared_norm")


def _are_coordinates(problem: Problem, x: PyTree) -> bool:
    """Whether w are coordinates under inputs x, or nothing says that they are not."""
    squared = problem.space.squared_norm
    return squared is None or jax.eval_shape(squared, problem.initial_weights, x) is not None


def _check_of_structure(
    problem: Problem,
    functions: tuple[str, ...],
    coordinates: bool,
    inferred: tuple[str, ...],
    x: PyTree,
    y: PyTree,
    frequencies: Array,
    listed: PyTree,
) -> Excess:
    w = drawn_weights(problem, frequencies[0])

    def of_example(example: tuple[PyTree, PyTree]) -> Excess:
        x, y_true = example
        theta = problem.model.potentials(w, x)
        thetas = jax.lax.map(
            lambda f: problem.model.potentials(drawn_weights(problem, f), x), frequencies
        )
        given = candidates_of(problem, y_true, jax.lax.map(problem.model.decode, thetas), listed)
        found = _level_excess(problem, theta, y_true, given, listed)
        rest = functions, coordinates, w, x, output_of(y_true), given, frequencies[0]
        found |= _space_excess(problem, *rest)
        if inferred:
            every = problem.oracles.all_outputs(y_true) if listed is None else listed
            found |= inference_excess(problem, inferred, theta, y_true, every)
        return found

    return jax.tree.map(jnp.max, jax.lax.map(of_example, (x, y)))


_of_structure = program(_check_of_structure, static_argnums=(1, 2, 3))


def _size(value: float) -> float:
    return np.inf if np.isnan(value) else value


def check_problem(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    *,
    listed: PyTree = None,
    examples: int = 8,
    draws: int = 16,
) -> Report:
    """Try out what the author of a structure can get wrong; see the module.

    Args:
      problem: the structure.
      inputs, outputs: a few examples, pytrees of arrays [n, ...] or `Ragged` stores.
      listed: every output, a pytree with a leading axis [K], where they can be listed and are the
        same for all examples (`Oracles.all_outputs` says it by example).
      examples: how many are tried, with different values in their outputs, rare ones first.
      draws: how many random weights, at least 2.

    Returns:
      A Report, once nothing is broken; `print` shows what was tried and what holds.

    Raises:
      ValueError: a function fails or returns another shape than its contract says, or rules are
        broken; the message is the printed Report, with each fault once, the formulations that it
        concerns, and what to do.
    """
    sample = sample_of(problem, *checked_buckets(problem, inputs, outputs, None), examples)
    assert sample is not None, "at least one example"
    listed = jax.tree.map(on_device, listed)
    worst: dict[str, float] = {}
    broken: dict[str, tuple[str, ...]] = {}

    def note(excess: Excess, formulations: tuple[str, ...]) -> None:
        for rule, value in excess.items():
            worst[rule] = max(worst.get(rule, -1.0), float(value), key=_size)
        for rule in broken_rules(excess, problem):
            broken[rule] = broken.get(rule, ()) + formulations

    oracles = {}
    for name, formulation in FORMULATIONS.items():
        try:
            oracles[name] = oracle_for(problem, formulation)
        except ValueError as error:
            oracles[name] = str(error)
            continue
        note(oracle_excess(problem, formulation, sample, listed=listed, draws=draws), (name,))
    served = tuple(name for name, oracle in oracles.items() if " " not in oracle)
    functions, refused = (), {}
    if broken.keys().isdisjoint(_OF_MAPS):  # otherwise there is nothing to transpose
        functions = _functions_to_compare(problem, sample.inputs)
    if "finite" not in broken:
        x, y = jax.tree.map(lambda leaf: leaf[0], tuple(sample))
        inferred, refused = compared_functions(problem, x, y, listed)
        if not broken.keys().isdisjoint(_OF_LISTS | _OF_MAPS):
            inferred = ()
        fixed = functions, _are_coordinates(problem, sample.inputs), inferred
        found = _of_structure(problem, *fixed, *sample, frequencies_of(draws), listed)
        note(jax.device_get(found), served)
    faults = tuple(
        Fault(rule, _advice(rule, problem), worst[rule], tuple(dict.fromkeys(concerned)))
        for rule, concerned in broken.items()
    )
    unknown = {rule for rule, value in worst.items() if value < 0}
    refused |= dict.fromkeys(unknown, "probabilities are not of the parts of theta")
    order = [*dict.fromkeys([*RULES, *worst])]
    worst = {rule: worst[rule] for rule in order if rule in worst.keys() - unknown}
    report = Report(worst, oracles, faults, examples, draws, refused)
    if faults:
        raise ValueError(f"the problem breaks rules\n{report}")
    return report
