"""`check_problem`: what the author of a structure can get wrong, all of it, in one report.

Beside the rules of `oracle_rules` for every formulation it compares the loss levels with the
candidates that turn up, looks through every list of outputs, and holds each function of the space
that is given against the one that transposition makes of the model, and each of the inference
against the sum over all outputs, where these can be listed.
"""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Bounded, Problem, Space
from jaxstruct.core.device import on_device
from jaxstruct.core.levels import best_of_levels
from jaxstruct.core.problem import completed
from jaxstruct.core.transposition import sum_of_squares
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.most_violated import oracle_for, same_output
from jaxstruct.solvers.validation.checks import checked_buckets
from jaxstruct.solvers.validation.function_checks import derived
from jaxstruct.solvers.validation.inference_checks import (
    CONTRACTS,
    compared_functions,
    inference_excess,
)
from jaxstruct.solvers.validation.oracle_rules import (
    ADVICE,
    Candidates,
    allowance_of,
    broken_rules,
    candidates_of,
    drawn_weights,
    frequencies_of,
    largest_difference,
    largest_of,
    oracle_excess,
    sample_of,
    share_of,
    times_listed,
)

WIDTH = 100
"""Characters in a line of what `print` shows."""
MOST_LISTED = 2048
"""So many of the outputs that a problem lists are looked for in the whole list."""
_OF_MAPS = {"finite", "constant", "potentials", "score"}
_OF_LISTS = {"outside", "first", "gaps", "twice"}
HOLDS = {
    "finite": "potentials, scores and losses are finite",
    "constant": "theta is 0 at w = 0",
    "potentials": "model.potentials is linear in w",
    "score": "model.score is linear in theta",
    "own_loss": "model.loss(y, y) is 0",
    "negative_loss": "model.loss is not negative",
    "decode": "no output scores above the answer of model.decode",
    "truth": "no true output scores above the answer of model.decode",
    "outside": "every output met is one of those listed",
    "first": "all_outputs lists the true output first",
    "gaps": "all_outputs lists every output met",
    "twice": "all_outputs lists no output twice",
    "includes_truth": "contenders leave the true output out",
    "claim": "loss and score of an oracle's answer are those of the model",
    "missed": "no output violates more than the oracle answers",
    "level_losses": "outputs have the loss of their level",
    "levels": "no output scores above the best of its level",
}


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
                lines.append(f"  {HOLDS.get(rule) or _holds(rule)}: {value:.2g}")
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
    if rule in ADVICE:
        return ADVICE[rule]
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


class LevelExcess(NamedTuple):
    """As `Excess`, of the loss levels and of lists of outputs."""

    level_losses: Array
    levels: Array
    includes_truth: Array
    gaps: Array
    twice: Array


def _outputs_met(
    problem: Problem, theta: PyTree, y_true: PyTree
) -> tuple[Array, PyTree, Array, bool]:
    """(losses [L], outputs [L], whether the true output is a contender, whether losses only bound
    those of their outputs) of the loss levels."""
    losses, outputs = best_of_levels(problem, theta, y_true)
    included, oracle = jnp.zeros((), bool), problem.oracles.best_by_level
    if oracle is not None:
        answer = jax.eval_shape(oracle, theta, y_true, losses, losses)
        return losses, outputs, included, isinstance(answer, Bounded)
    there = jnp.isfinite(problem.oracles.contenders(theta, y_true).scores)
    included = jnp.any(there & jax.vmap(same_output, (None, 0))(y_true, outputs))
    return losses, outputs, included, False


def _level_excess(
    problem: Problem, theta: PyTree, y_true: PyTree, given: Candidates, listed: PyTree
) -> LevelExcess:
    """Losses of levels that are not those of their outputs, levels that a candidate beats, and
    lists of outputs with gaps or repetitions."""
    zero, every = jnp.zeros(()), problem.oracles.all_outputs
    found = LevelExcess(zero, zero, zero, zero, zero)
    met = given.outputs if listed is None else listed
    if problem.oracles.contenders is not None or problem.oracles.best_by_level is not None:
        losses, outputs, included, bounded = _outputs_met(problem, theta, y_true)
        score = jax.vmap(problem.model.score, (None, 0))
        exists = ~jax.vmap(same_output, (None, 0))(y_true, outputs)
        own = jax.vmap(problem.model.loss, (None, 0))(y_true, outputs)
        apart = own - losses if bounded else jnp.abs(own - losses)
        wrong = jnp.maximum(jnp.max(jnp.where(exists, apart, 0)), 0)
        best = jnp.where(exists, score(theta, outputs), -jnp.inf)
        scores = score(theta, given.outputs)
        close = jnp.abs(given.losses[:, None] - losses[None]) <= allowance_of(scores.dtype)
        of_loss = jnp.max(jnp.where(close, best[None], -jnp.inf), axis=1)
        ahead = jnp.where(given.wrong & jnp.any(close, axis=1), scores - of_loss, 0)
        size = jnp.max(jnp.abs(scores)) + largest_of(theta)
        beaten = jnp.max(jnp.where(ahead == jnp.inf, 1, share_of(ahead, size)))
        beaten = jnp.zeros_like(beaten) if bounded else beaten  # what is missed is asked of bounds
        found = LevelExcess(wrong, beaten, included.astype(size.dtype), zero, zero)
        met = jax.tree.map(lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]), met, outputs)
    if every is not None:
        every = every(y_true)
        some = jax.tree.map(lambda leaf: leaf[:MOST_LISTED], every)
        gaps, twice = times_listed(every, met) == 0, times_listed(every, some) > 1
        gaps, twice = (jnp.any(broken).astype(jnp.float32) for broken in (gaps, twice))
        found = found._replace(gaps=gaps, twice=twice)
    return found


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
    batch = jax.tree.map(lambda leaf: leaf[None], (x, outputs))
    scores = right.plane_scores(theta, outputs)
    c = jnp.sin(frequency * jnp.arange(1, len(scores) + 1)).astype(scores.dtype)
    c = c - jnp.mean(c)  # differences and kernels know differences alone
    u = right.combine(theta, outputs, c)
    last = jax.tree.map(lambda leaf: leaf[-1], outputs)

    def seen(weights: PyTree) -> PyTree:
        if coordinates:
            return weights
        values = right.plane_scores(model.potentials(weights, x), outputs)
        return values - values[0]

    def pairs_of(name: str) -> tuple[PyTree, PyTree]:
        """(what the function makes, what is right); of values the differences from the first."""
        own: Any = getattr(space, name, None)
        if name == "plane_scores":
            return own(theta, outputs), scores
        if name == "combine":
            return own(theta, outputs, c), u
        if name == "add":
            one = jax.tree.map(lambda leaf: leaf[None], u)
            return seen(own(zero, batch[0], one)), seen(right.add(zero, batch[0], one))
        if name == "gram_action":
            maps = own, right.gram_action
            found = [right.plane_scores(function(x, u), outputs) for function in maps]
            return tuple(values - values[0] for values in found)
        if name == "plane_values":
            values = own(w, *batch)[0]
            return values - values[0], scores - scores[0]
        if name == "add_planes":
            moved = (f(zero, *batch, c[None]) for f in (own, right.add_planes))
            return tuple(map(seen, moved))
        if name == "plane_gram":
            return tuple(f(x, y_true, outputs, last) for f in (own, right.plane_gram))
        if name == "plane_norms":
            return tuple(f(x, y_true, outputs) for f in (own, right.plane_norms))
        if name == "squared_norm":
            return own(w, batch[0]), sum_of_squares(w, x)
        if name == "differences.look_up":
            return _looked_up(problem, w, x, y_true, outputs, (scores, right))
        return _by_differences(problem, name, w, x, batch[1], c, (scores, right, seen))

    return {name: largest_difference(*pairs_of(name)) for name in functions}


def _by_differences(
    problem: Problem, name: str, w: PyTree, x: PyTree, outputs: PyTree, c: Array, whole: tuple
) -> tuple[PyTree, PyTree]:
    """(values or sums of the planes [1, K] by what separates them, what is right)."""
    space, zero = problem.space, problem.initial_weights
    scores, right, seen = whole
    inputs, index = jax.tree.map(lambda leaf: leaf[None], x), jnp.zeros(1, jnp.int32)
    differences = space.differences
    apart = differences.find(outputs) if differences.find else outputs
    v, nothing = w, zero
    if differences.unpack:
        v, nothing = (differences.unpack(each, inputs) for each in (w, zero))
    if name == "differences.values":
        values = differences.values(v, inputs, apart, index)[0]
        return values - values[0], scores - scores[0]
    moved = differences.add(nothing, inputs, apart, index, c[None])
    moved = differences.pack(moved, inputs) if differences.pack else moved
    wanted = right.add_planes(zero, inputs, outputs, c[None])
    return seen(moved), seen(wanted)


def _looked_up(
    problem: Problem, w: PyTree, x: PyTree, y_true: PyTree, outputs: PyTree, whole: tuple
) -> tuple[PyTree, PyTree]:
    """(scores and Gram row of the planes [K] and the last of them, what is right)."""
    scores, right = whole
    last = jax.tree.map(lambda leaf: leaf[-1], outputs)
    inputs, planes = jax.tree.map(lambda leaf: leaf[None], (x, outputs))
    theta, at = problem.model.potentials(w, x), jnp.int32(0)
    found = problem.space.differences.look_up(
        theta, inputs, planes, at, y_true, last, jnp.ones(len(scores), bool)
    )
    gram = right.plane_gram(x, y_true, outputs, last)
    return (found.scores, found.products), (scores, gram)


def _functions_to_compare(problem: Problem, x: PyTree) -> tuple[str, ...]:
    """The functions of the space that are not derived from this very model."""
    own = [*problem.model, *problem.space]

    def is_of_this_model(function: Partial) -> bool:
        parts = jax.tree.leaves(function.args, is_leaf=lambda node: isinstance(node, Partial))
        return derived(function) and all(
            any(part is one for one in own) for part in parts if isinstance(part, Partial)
        )

    names = (
        "plane_scores", "combine", "add", "gram_action", "plane_values", "add_planes", "plane_gram",
        "plane_norms",
    )  # fmt: skip
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
) -> tuple[LevelExcess, dict[str, Array]]:
    w = drawn_weights(problem, frequencies[0])

    def of_example(x: PyTree, y_true: PyTree) -> tuple[LevelExcess, dict[str, Array]]:
        theta = problem.model.potentials(w, x)
        thetas = jax.lax.map(
            lambda f: problem.model.potentials(drawn_weights(problem, f), x), frequencies
        )
        given = candidates_of(problem, y_true, jax.lax.map(problem.model.decode, thetas), listed)
        levels = _level_excess(problem, theta, y_true, given, listed)
        rest = functions, coordinates, w, x, y_true, given, frequencies[0]
        others = _space_excess(problem, *rest)
        if inferred:
            every = problem.oracles.all_outputs(y_true) if listed is None else listed
            others |= inference_excess(problem, inferred, theta, y_true, every)
        return levels, others

    found = jax.lax.map(lambda example: of_example(*example), (x, y))
    return jax.tree.map(jnp.max, found)


_of_structure = program(_check_of_structure, static_argnums=(1, 2, 3))


def _not_asked(problem: Problem, listed: PyTree) -> set[str]:
    """Rules of what a problem does not have."""
    oracles = problem.oracles
    levels = oracles.contenders is not None or oracles.best_by_level is not None
    return {
        *(() if listed is not None else ("outside",)),
        *(() if oracles.all_outputs is not None else ("first", "gaps", "twice")),
        *(() if oracles.contenders is not None else ("includes_truth",)),
        *(() if levels else ("level_losses", "levels")),
    }


class _Trial:
    """What was found so far: excess and formulations by rule."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.worst, self.broken = problem, {}, {}

    def note(self, excess: NamedTuple | dict[str, Array], formulations: tuple[str, ...]) -> None:
        """The numbers of some formulations, and which of them are too large."""
        values = excess if isinstance(excess, dict) else excess._asdict()
        for rule, value in values.items():
            self.worst[rule] = max(self.worst.get(rule, -1.0), float(value), key=_size)
        for rule in broken_rules(values, self.problem):
            self.broken[rule] = self.broken.get(rule, ()) + formulations

    def unknown(self) -> set[str]:
        """Rules of which no example says anything."""
        return {rule for rule, value in self.worst.items() if value < 0}


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
    trial = _Trial(problem)
    oracles = {}
    for name, formulation in FORMULATIONS.items():
        try:
            oracles[name] = oracle_for(problem, formulation)
        except ValueError as error:
            oracles[name] = str(error)
            continue
        excess = oracle_excess(problem, formulation, sample, listed=listed, draws=draws)
        trial.note(excess, (name,))
    served = tuple(name for name, oracle in oracles.items() if " " not in oracle)
    functions, refused = (), {}
    if trial.broken.keys().isdisjoint(_OF_MAPS):  # otherwise there is nothing to transpose
        functions = _functions_to_compare(problem, sample.inputs)
    if "finite" not in trial.broken:
        x, y = jax.tree.map(lambda leaf: leaf[0], tuple(sample))
        inferred, refused = compared_functions(problem, x, y, listed)
        if not trial.broken.keys().isdisjoint(_OF_LISTS | _OF_MAPS):
            inferred = ()
        fixed = functions, _are_coordinates(problem, sample.inputs), inferred
        given = *sample, frequencies_of(draws), listed
        found = _of_structure(problem, *fixed, *given)
        for excess in jax.device_get(found):
            trial.note(excess, served)
    faults = tuple(
        Fault(rule, _advice(rule, problem), trial.worst[rule], tuple(dict.fromkeys(concerned)))
        for rule, concerned in trial.broken.items()
    )
    unknown = {rule: "too few outputs are certain for any theta" for rule in trial.unknown()}
    for rule in _not_asked(problem, listed) | unknown.keys():
        trial.worst.pop(rule, None)
    report = Report(trial.worst, oracles, faults, examples, draws, refused | unknown)
    if faults:
        raise ValueError(f"the problem breaks rules\n{report}")
    return report
