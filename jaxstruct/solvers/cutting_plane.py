"""The cutting plane algorithm (thesis, algorithms 2 and 3): init, step, and what a step tells.

For people who own their loop; `fit` is the short way in. A step is one round on the host:
one pass that moves w (variant b: the exact pass and its cached sweeps; variant a: a proximal
Newton step on the dual over all working sets), then one oracle call an example at the new w, which
certifies it and adds the planes that it meets.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.solvers import passes
from jaxstruct.solvers.block_dual import SAFEGUARDS
from jaxstruct.solvers.certificate import Certificate, certify
from jaxstruct.solvers.formulations import Formulation
from jaxstruct.solvers.proximal_newton import NewtonOptions, proximal_newton_pass
from jaxstruct.solvers.working_sets import WorkingSets, empty_working_sets, grown
from jaxstruct.structures.problem import Problem
from jaxstruct.types import Array, PyTree


class Settings(NamedTuple):
    """How a run works; shape-like, so a change compiles anew.

    Fields:
      variant: "subspace" (algorithm 3, step 10b) or "full" (10a, after `warm_passes` of 10b).
      capacity: slots an example at the start; doubled when full, up to max_capacity.
      oracle_batch: examples that share one oracle call at one w in an exact pass.
      group: blocks solved side by side, a divisor of oracle_batch; 1 is plain sequential ascent.
      safeguard: what keeps a group an ascent: "line_search" or "box" ("none" is no ascent and is
        there to be studied).
      cached_sweeps: sweeps over the planes at hand after each exact pass.
      block_steps: pairwise steps a visit.
      warm_passes: subspace rounds before the first full one.
      newton: limits of a full step.
      seed: of the order of the examples.
    """

    variant: str = "subspace"
    capacity: int = 8
    max_capacity: int = 512
    oracle_batch: int = 32
    group: int = 16
    safeguard: str = "line_search"
    cached_sweeps: int = 2
    block_steps: int = 10
    warm_passes: int = 2
    newton: NewtonOptions = NewtonOptions()
    seed: int = 0

    def visit_options(self) -> passes.VisitOptions:
        """The part that a compiled visit depends on."""
        return passes.VisitOptions(self.group, self.safeguard, self.block_steps)


def check_settings(settings: Settings) -> None:
    """Raise ValueError where a setting does not fit."""
    choices = {"variant": ("subspace", "full"), "safeguard": SAFEGUARDS}
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(f"{name} is {getattr(settings, name)!r}; choose one of {allowed}")
    for name in ("oracle_batch", "group", "block_steps", "max_capacity"):
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(settings, name)}")
    if settings.capacity < 2:
        raise ValueError(f"capacity must be at least 2 (zero plane and one), got {settings.capacity}")
    if settings.oracle_batch % settings.group:
        raise ValueError(
            f"group must divide oracle_batch, got {settings.group} and {settings.oracle_batch}"
        )


class State(NamedTuple):
    """What the next step needs.

    Fields:
      weights: w, at which the oracle was last called.
      sets: the working sets with the dual variables beta.
      span: [N, K] with w = Phi span in the full variant; None where it is beta itself.
      sigma: proximal step length of the full variant.
      clock: rounds so far.
    """

    weights: PyTree
    sets: WorkingSets
    span: Array | None
    sigma: float
    clock: int


class Info(NamedTuple):
    """What a person wants to see of a step.

    Fields:
      certificate: primal, dual, violation and the rest, at the new w.
      planes_added: in this round. overflow: examples that had no slot for a violated output.
      oracle_calls: in this round. seconds: of each part, by name.
      slack: [N] slack of every (padded) example at w.
    """

    certificate: Certificate
    planes_added: int
    overflow: int
    oracle_calls: int
    seconds: dict[str, float]
    slack: np.ndarray


_exact = jax.jit(passes.exact_pass, static_argnums=1)
_cached = jax.jit(passes.cached_pass, static_argnums=1)
_oracle = jax.jit(passes.oracle_pass)
_newton = jax.jit(proximal_newton_pass, static_argnums=1)


def init(problem: Problem, task: passes.Task, settings: Settings) -> State:
    """The state before the first step: w = 0, empty working sets."""
    check_settings(settings)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    sets = empty_working_sets(task.outputs, settings.capacity, dtype)
    return State(jax.tree.map(jnp.copy, problem.initial_weights), sets, None, 10.0, 0)


def _timed(seconds: dict[str, float], name: str, run: Any) -> Any:
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
    return result


def _subspace(
    problem: Problem, task: passes.Task, settings: Settings, state: State, epsilon: Array,
    seconds: dict[str, float],
) -> tuple[State, passes.PassCounts]:
    n = task.terms.cap.shape[0]
    random = np.random.default_rng([settings.seed, state.clock])
    options, clock = settings.visit_options(), jnp.int32(state.clock)
    order = jnp.asarray(random.permutation(n).reshape(-1, settings.oracle_batch), jnp.int32)
    w, sets, counts = _timed(seconds, "exact", lambda: _exact(
        problem, options, task, state.weights, state.sets, order, epsilon, clock
    ))
    for _ in range(settings.cached_sweeps):
        sweep = jnp.asarray(random.permutation(n), jnp.int32)
        w, sets = _timed(
            seconds, "cached", partial(_cached, problem, options, task, w, sets, sweep, clock)
        )
    return state._replace(weights=w, sets=sets, span=None), counts


def _full(
    problem: Problem, task: passes.Task, settings: Settings, state: State, seconds: dict[str, float]
) -> tuple[State, np.ndarray, np.ndarray]:
    span = state.sets.multipliers if state.span is None else state.span
    sigma = jnp.asarray(state.sigma, span.dtype)
    found = _timed(seconds, "newton", lambda: _newton(
        problem, settings.newton, task, state.weights, span, state.sets, sigma
    ))
    solved = int(found.newton_steps) < settings.newton.newton_steps
    whole = float(found.length) > 0.9
    factor = 3.0 if solved and whole else 1.0 if whole else 0.3
    state = State(found.weights, found.sets, found.span, state.sigma * factor, state.clock)
    return state, np.asarray(found.primal_products), np.asarray(found.dual_products)


def step(
    problem: Problem, task: passes.Task, settings: Settings, formulation: Formulation, state: State,
    epsilon: float,
) -> tuple[State, Info]:
    """One round; see the module. Planes are added where H(y_hat) > xi_i + epsilon."""
    seconds: dict[str, float] = {}
    n = task.terms.cap.shape[0]
    dtype = state.sets.losses.dtype
    state = state._replace(clock=state.clock + 1)
    products: tuple = (None, None)
    added = overflow = calls = 0
    threshold = jnp.asarray(epsilon, dtype)
    if settings.variant == "full" and state.clock > settings.warm_passes:
        state, *products = _full(problem, task, settings, state, seconds)
    else:
        state, counts = _subspace(problem, task, settings, state, threshold, seconds)
        added, calls = int(counts.added), n
    order = jnp.arange(n, dtype=jnp.int32).reshape(-1, settings.oracle_batch)
    sets, terms, counts = _timed(seconds, "oracle", lambda: _oracle(
        problem, task, state.weights, state.sets, order, threshold, jnp.int32(state.clock)
    ))
    overflow = int(counts.overflow)
    certificate = certify(formulation, task.terms, terms, *products)
    info = Info(
        certificate, added + int(counts.added), overflow, calls + n, seconds, np.asarray(terms.slack)
    )
    return state._replace(sets=sets), info


def with_capacity(state: State, capacity: int) -> State:
    """The same state with more slots an example."""
    old = state.sets.losses.shape[1]
    span = None if state.span is None else jnp.pad(state.span, ((0, 0), (0, capacity - old)))
    return state._replace(sets=grown(state.sets, capacity), span=span)
