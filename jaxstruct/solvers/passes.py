"""The compiled passes of algorithm 3.

exact: the oracle and a step, batch by batch. cached: steps on the planes at hand. oracle: no step,
every example at one w, which certifies it and finds the planes that it violates.

Planes never ride in the carry of a scan: they are closed over, each block's new values are outputs
of the scan, and one scatter after it writes them (a carry would be copied at every step).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.solvers.block_dual import box_sizes, line_search_sizes, pairwise_ascent
from jaxstruct.solvers.formulations import Penalty, violation
from jaxstruct.solvers.working_sets import Proposal, WorkingSets, insert, propose, rows
from jaxstruct.structures.problem import Problem
from jaxstruct.types import Array, PyTree


class Task(NamedTuple):
    """What stays fixed during a run: padded examples and the numbers of the formulation."""

    inputs: PyTree
    outputs: PyTree
    terms: Penalty


class VisitOptions(NamedTuple):
    """Static options of a visit: group size, its safeguard, pairwise steps a block."""

    group: int
    safeguard: str
    max_steps: int


class PassCounts(NamedTuple):
    """Planes added, and examples whose working set was full."""

    added: Array
    overflow: Array


class ExampleTerms(NamedTuple):
    """What an oracle pass says of each example, all [N], at one fixed w.

    Fields:
      worst: max_y H(y) over all outputs but y_i. slack: max(0, worst).
      known: max(0, max over S_i of H).
      bound: sum_y beta b. product: <w, sum_y beta phi>. mass: sum_y beta.
    """

    worst: Array
    slack: Array
    known: Array
    bound: Array
    product: Array
    mass: Array


def _own_terms(terms: Penalty, index: Array) -> Penalty:
    return terms._replace(cap=terms.cap[index], ridge=terms.ridge[index])


def _examples(task: Task, index: Array) -> tuple[PyTree, PyTree]:
    return jax.tree.map(lambda leaf: leaf[index], (task.inputs, task.outputs))


def _plane_margins(problem: Problem, w: PyTree, x: PyTree, own: WorkingSets) -> Array:
    """[B, K] <w, delta Psi_i(y_k)> of the planes of a batch; slot 0 holds y_i."""
    values = jax.vmap(problem.plane_values, (None, 0, 0))(w, x, own.outputs)
    return values[:, :1] - values


def plane_coefficients(z: Array) -> Array:
    """[B, K] c with sum_k c_k Psi(x, y_k) = sum_k z_k delta Psi(y_k): slot 0 takes the sum."""
    planes = jnp.arange(z.shape[1]) > 0
    z = jnp.where(planes, z, 0)
    return jnp.where(planes, -z, jnp.sum(z, axis=1, keepdims=True))


def _joint_directions(problem: Problem, x: PyTree, own: WorkingSets, z: Array) -> Array:
    """[B, B] <sum_k z_bk delta Psi_b(y_k), the same of c>, one dense weight vector a block."""

    def alone(x_b: PyTree, outputs: PyTree, c: Array) -> PyTree:
        one = jax.tree.map(lambda leaf: leaf[None], (x_b, outputs, c))
        return problem.add_planes(problem.initial_weights, *one)

    def seen(direction: PyTree) -> Array:
        return jnp.sum(z * _plane_margins(problem, direction, x, own), axis=1)

    return jax.vmap(seen)(jax.vmap(alone)(x, own.outputs, plane_coefficients(z)))


def _safeguarded(
    problem: Problem,
    options: VisitOptions,
    w: PyTree,
    x: PyTree,
    own: WorkingSets,
    margins: Array,
    z: Array,
    linear: Array,
    ridge_part: Array,
) -> tuple[PyTree, Array]:
    """(new w, step sizes [B]) along the block directions sum_k z_k delta Psi(y_k)."""

    def moved_by(start: PyTree, z: Array) -> PyTree:
        return problem.add_planes(start, x, own.outputs, plane_coefficients(z))

    whole = jnp.ones_like(linear)
    if options.group == 1 or options.safeguard == "none":
        return moved_by(w, z), whole
    if options.safeguard == "box":
        quadratic = _joint_directions(problem, x, own, z) + jnp.diag(ridge_part)
        sizes = box_sizes(linear, quadratic)
        return moved_by(w, sizes[:, None] * z), sizes
    moved = moved_by(w, z)
    shift = _plane_margins(problem, moved, x, own) - margins
    sizes = line_search_sizes(linear, jnp.sum(z * shift, axis=1) + ridge_part)
    back = partial(moved_by, z=(sizes - 1)[:, None] * z)
    return jax.lax.cond(sizes[0] == 1, lambda v: v, back, moved), sizes


def _solve_block(
    problem: Problem,
    max_steps: int,
    x: PyTree,
    y_true: PyTree,
    own: WorkingSets,
    ridge: Array,
    gradient: Array,
    start: Array,
) -> Array:
    """The block of ONE example, its Gram columns stored or computed as needed."""
    planes = jnp.arange(start.shape[0]) > 0

    def column(k: Array) -> Array:
        if own.gram.shape[0]:
            products = own.gram[k]
        else:
            y = jax.tree.map(lambda leaf: leaf[k], own.outputs)
            products = own.scales[k] * own.scales * problem.plane_gram(x, y_true, own.outputs, y)
        return products + jnp.where(planes & (k > 0), ridge, 0)

    diagonal = own.norms + jnp.where(planes, ridge, 0)
    return pairwise_ascent(column, diagonal, gradient, start, own.occupied, max_steps)


def _visit(
    problem: Problem,
    options: VisitOptions,
    w: PyTree,
    x: PyTree,
    y_true: PyTree,
    own: WorkingSets,
    terms: Penalty,
) -> tuple[PyTree, Array]:
    """Solve the blocks of one group against w; returns (new w, new multipliers [B, K])."""
    planes = jnp.arange(own.losses.shape[1]) > 0
    mass = jnp.sum(own.multipliers, axis=1)
    margins = _plane_margins(problem, w, x, own)
    gradient = (
        own.bounds - own.scales * margins - jnp.where(planes, (terms.ridge * mass)[:, None], 0)
    )
    start = jnp.where(planes, own.multipliers, jnp.maximum(terms.cap - mass, 0)[:, None])
    solve = partial(_solve_block, problem, options.max_steps)
    solved = jax.vmap(solve)(x, y_true, own, terms.ridge, gradient, start)
    change = jnp.where(planes, solved - start, 0)
    linear = jnp.sum(gradient * change, axis=1)
    ridge_part = terms.ridge * jnp.sum(change, axis=1) ** 2
    w, sizes = _safeguarded(
        problem, options, w, x, own, margins, own.scales * change, linear, ridge_part
    )
    stepped = jnp.where(planes, own.multipliers + sizes[:, None] * change, 0)
    return w, jnp.maximum(jnp.where(sizes[:, None] == 1, jnp.where(planes, solved, 0), stepped), 0)


def most_violated(
    problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree
) -> tuple[PyTree, Array, Array]:
    """The oracle of algorithm 3, line 7, of ONE example: (y_hat, Delta, H(y_hat)).

    H(y) = b(Delta) - s(Delta) (F(y_i) - F(y)), maximised over the loss levels of the structure
    (thesis 3.7.3: "a two stage approach"); ties to the lowest level.
    """
    found = problem.contenders(theta, y_true)
    values = violation(found.losses, problem.score(theta, y_true) - found.scores, terms)
    level = jnp.argmax(values)
    return problem.output(found.trace, level), found.losses[level], values[level]


def _active_slots(own: WorkingSets, gradient: Array, active: int) -> Array:
    """[B, A] the slots that matter most: 0, the steepest, carriers that lag it, then violators."""
    steepest = jnp.max(jnp.where(own.occupied, gradient, -jnp.inf), axis=1, keepdims=True)
    carries = own.multipliers > 0
    large = 1e6 * (1 + steepest - jnp.min(gradient, axis=1, keepdims=True))
    rank = jnp.where(carries, large + steepest - gradient, gradient)
    rank = jnp.where(gradient >= steepest, 3 * large, rank)
    rank = jnp.where(own.occupied, rank, -jnp.inf)
    rank = rank.at[:, 0].set(jnp.inf)
    return jax.lax.top_k(rank, active)[1].astype(jnp.int32)


def _proposals(
    problem: Problem,
    task: Task,
    w: PyTree,
    own: WorkingSets,
    index: Array,
    epsilon: Array,
    active: int = 0,
) -> tuple[Proposal, ExampleTerms, Array]:
    """One oracle call on a batch: planes to add, terms of the certificate at w, active slots."""
    x, y_true = _examples(task, index)
    theta = jax.vmap(problem.potentials, (None, 0))(w, x)
    oracle = partial(most_violated, problem, task.terms)
    y, loss, worst = jax.vmap(oracle)(theta, y_true)
    scores = jax.vmap(problem.plane_scores)(theta, own.outputs)
    margins = scores[:, :1] - scores
    inside = jnp.where(own.occupied, own.bounds - own.scales * margins, -jnp.inf)
    known = jnp.maximum(jnp.max(inside, axis=1), 0)
    violated = (task.terms.cap[index] > 0) & (worst > known + epsilon)
    place = partial(propose, problem, task.terms)
    proposals = jax.vmap(place)(own, x, y_true, y, loss, violated)
    terms = ExampleTerms(
        worst=worst,
        slack=jnp.maximum(worst, 0),
        known=known,
        bound=jnp.sum(own.multipliers * own.bounds, axis=1),
        product=jnp.sum(own.multipliers * own.scales * margins, axis=1),
        mass=jnp.sum(own.multipliers, axis=1),
    )
    planes = jnp.arange(own.losses.shape[1]) > 0
    pull = jnp.where(planes, task.terms.ridge[index, None] * terms.mass[:, None], 0)
    slots = _active_slots(own, own.bounds - own.scales * margins - pull, active)
    return proposals, terms, slots


def _grouped_visits(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    sets: WorkingSets,
    w: PyTree,
    index: Array,
    local: Array,
) -> tuple[PyTree, Array]:
    """Visit examples group by group; local [B] are their rows in `sets`, index [B] in the task."""

    def body(w: PyTree, group: tuple[Array, Array]) -> tuple[PyTree, Array]:
        of_task, of_sets = group
        x, y_true = _examples(task, of_task)
        own, terms = rows(sets, of_sets), _own_terms(task.terms, of_task)
        return _visit(problem, options, w, x, y_true, own, terms)

    size = options.group
    groups = (index.reshape(-1, size), local.reshape(-1, size))
    w, multipliers = jax.lax.scan(body, w, groups)
    return w, multipliers.reshape(index.shape[0], -1)


def _with_multipliers(
    sets: WorkingSets, index: Array, multipliers: Array, clock: Array
) -> WorkingSets:
    multipliers = sets.multipliers.at[index].set(multipliers, mode="drop")
    last_used = jnp.where(multipliers > 0, clock, sets.last_used)
    return sets._replace(multipliers=multipliers, last_used=last_used)


def exact_pass(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    order: Array,
    epsilon: Array,
    clock: Array,
) -> tuple[PyTree, WorkingSets, PassCounts]:
    """One pass of algorithm 3 (lines 5 to 14, variant b) over all examples.

    Args:
      options: static; the group size divides the oracle batch.
      w, sets: the iterate.
      order: [batches, B] the order of the examples; a batch shares one oracle call.
      epsilon: a plane is added where H(y_hat) > xi_i + epsilon and y_hat is not in S_i.
      clock: the number of this pass, for the eviction of unused planes.
    """

    def body(w: PyTree, index: Array) -> tuple:
        own = rows(sets, index)
        proposals, _, _ = _proposals(problem, task, w, own, index, epsilon)
        local = jnp.arange(index.shape[0])
        own = insert(own, local, proposals, clock)
        w, multipliers = _grouped_visits(problem, options, task, own, w, index, local)
        return w, (proposals, multipliers)

    capacity = sets.losses.shape[1]
    w, (proposals, multipliers) = jax.lax.scan(body, w, order)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (proposals, multipliers))
    proposals, multipliers = flat
    index = order.reshape(-1)
    sets = insert(sets, index, proposals, clock)
    counts = PassCounts(jnp.sum(proposals.slot < capacity), jnp.sum(proposals.overflow))
    return w, _with_multipliers(sets, index, multipliers, clock), counts


def cached_pass(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    order: Array,
    groups: Array,
    clock: Array,
) -> tuple[PyTree, WorkingSets]:
    """One sweep over the blocks of some examples, with the planes at hand.

    Args:
      order: [N] examples, a multiple of the group size. groups: how many groups of it are visited;
        a number, not a shape, so that a sweep over few examples compiles nothing new.
    """
    grouped = order.reshape(-1, options.group)

    def visit(w: PyTree, index: Array) -> tuple[PyTree, Array]:
        x, y_true = _examples(task, index)
        own, terms = rows(sets, index), _own_terms(task.terms, index)
        return _visit(problem, options, w, x, y_true, own, terms)

    def skip(w: PyTree, index: Array) -> tuple[PyTree, Array]:
        return w, jnp.zeros((index.shape[0], sets.losses.shape[1]), sets.losses.dtype)

    def body(w: PyTree, item: tuple[Array, Array]) -> tuple[PyTree, Array]:
        number, index = item
        return jax.lax.cond(number < groups, visit, skip, w, index)

    numbers = jnp.arange(grouped.shape[0])
    w, multipliers = jax.lax.scan(body, w, (numbers, grouped))
    visited = jnp.where((numbers < groups)[:, None], grouped, order.shape[0]).reshape(-1)
    return w, _with_multipliers(sets, visited, multipliers.reshape(order.shape[0], -1), clock)


def oracle_pass(
    problem: Problem,
    active: int,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    order: Array,
    epsilon: Array,
    clock: Array,
) -> tuple[WorkingSets, ExampleTerms, PassCounts, Array]:
    """One oracle call an example at one fixed w: the terms of the certificate, and the planes.

    The violated outputs that it meets enter the working sets with multiplier 0, so that certifying
    is never a wasted call.

    Args:
      active: static, how many slots an example to name for restricted sweeps; 0 for none.
      order: [batches, B], covers every example once.

    Returns:
      (sets, terms [N], counts, active slots [N, active]).
    """
    enumerated = sets.gram.shape[1] == 0
    if enumerated:  # there is nothing to add
        epsilon = jnp.full_like(epsilon, jnp.inf)

    def body(_: None, index: Array) -> tuple[None, tuple]:
        own = rows(sets, index)
        return None, _proposals(problem, task, w, own, index, epsilon, active)

    capacity = sets.losses.shape[1]
    _, stacked = jax.lax.scan(body, None, order)
    index = order.reshape(-1)
    flat = jax.tree.map(lambda leaf: leaf.reshape(index.shape[0], *leaf.shape[2:]), stacked)
    proposals, *found = flat
    counts = PassCounts(jnp.sum(proposals.slot < capacity), jnp.sum(proposals.overflow))
    if not enumerated:
        sets = insert(sets, index, proposals, clock)
    terms, slots = jax.tree.map(lambda leaf: jnp.zeros_like(leaf).at[index].set(leaf), found)
    return sets, terms, counts, slots


def restricted(task: Task, sets: WorkingSets, slots: Array) -> tuple[Task, WorkingSets]:
    """Enumerated working sets cut down to some slots, the mass of the others frozen.

    A frozen mass m_f takes its share of the cap, and under a ridge r lowers every b by r m_f, so
    that an ascent of the part is one of the whole.

    Args:
      slots: [N, A], slot 0 first.
    """

    def pick(leaf: Array) -> Array:
        index = slots.reshape(*slots.shape, *[1] * (leaf.ndim - 2))
        return jnp.take_along_axis(leaf, index, axis=1)

    part = jax.tree.map(pick, sets._replace(gram=sets.losses))._replace(gram=sets.gram)
    frozen = jnp.maximum(jnp.sum(sets.multipliers, axis=1) - jnp.sum(part.multipliers, axis=1), 0)
    terms = task.terms
    planes = jnp.arange(slots.shape[1]) > 0
    pull = jnp.where(planes, (terms.ridge * frozen)[:, None], 0)
    cap = jnp.where(jnp.isfinite(terms.cap), jnp.maximum(terms.cap - frozen, 0), terms.cap)
    return task._replace(terms=terms._replace(cap=cap)), part._replace(bounds=part.bounds - pull)


def merged(sets: WorkingSets, part: WorkingSets, slots: Array) -> WorkingSets:
    """The multipliers of restricted working sets written back."""
    at = (jnp.arange(slots.shape[0])[:, None], slots)
    return sets._replace(
        multipliers=sets.multipliers.at[at].set(part.multipliers),
        last_used=sets.last_used.at[at].set(part.last_used),
    )


def weights_of_multipliers(problem: Problem, task: Task, sets: WorkingSets, order: Array) -> PyTree:
    """w = sum_i sum_y beta_iy phi_i(y), rebuilt from the dual variables (thesis 3.28)."""

    def body(w: PyTree, index: Array) -> tuple[PyTree, None]:
        x, _ = _examples(task, index)
        own = rows(sets._replace(gram=sets.losses), index)
        c = plane_coefficients(own.scales * own.multipliers)
        return problem.add_planes(w, x, own.outputs, c), None

    w, _ = jax.lax.scan(body, problem.initial_weights, order)
    return w
