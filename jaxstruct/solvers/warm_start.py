"""Going on from a solution: dual variables made feasible for another C."""

from __future__ import annotations

import jax
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.buckets import bucket_slices, rows_of
from jaxstruct.core.contract import Problem, Truth, output_of
from jaxstruct.core.device import on_device
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.n_slack.rounds import call_all, copy_arrays, open_round
from jaxstruct.solvers.n_slack.run import OneDevice, Run, State
from jaxstruct.solvers.n_slack.sweeps import rebuilt_weights
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, bucket_of, join_buckets
from jaxstruct.solvers.objective.certificate import ExampleTerms
from jaxstruct.solvers.solution import Solution, check_of_fit
from jaxstruct.solvers.validation.checks import check_weights


def _shapes(outputs: PyTree, axes: int) -> list[tuple]:
    """Structure and shapes of the outputs of one example of each bucket."""
    return [
        (jax.tree.structure(part), [leaf.shape[axes:] for leaf in jax.tree.leaves(part)])
        for part in outputs
    ]


def _check_truth(sets: WorkingSets, task: Task, rows: np.ndarray) -> None:
    """Raise ValueError where slot 0 of working sets holds other true outputs than a task has."""
    differ = []
    for part, truth in zip(sets.outputs, output_of(task.outputs), strict=True):
        other = np.zeros(rows_of(truth), bool)
        for held, leaf in zip(jax.tree.leaves(part), jax.tree.leaves(truth), strict=True):
            unlike = np.asarray(held)[:, 0] != np.asarray(leaf)
            other |= unlike.reshape(len(other), -1).any(axis=1)
        differ.append(other)
    _refuse_others("outputs", np.concatenate(differ), rows)


def _refuse_others(what: str, differ: np.ndarray, rows: np.ndarray) -> None:
    examples = rows[differ & (rows >= 0)]
    if examples.size:
        raise ValueError(
            f"start is of other {what}, first of example {examples.min()}: go on with the "
            "examples, in the order, that it was trained on"
        )


@jax.jit
def _losses(loss: Partial, y_true: PyTree, outputs: PyTree) -> jax.Array:
    """[n, K] of the planes [n, K] of a bucket; one program for all who ask."""
    return jax.vmap(jax.vmap(loss, (None, 0)))(y_true, outputs)


def _check_losses(problem: Problem, sets: WorkingSets, task: Task, rows: np.ndarray) -> None:
    """Raise ValueError where numbers beside true outputs give planes at hand another loss."""
    if not any(isinstance(part, Truth) for part in task.outputs):
        return
    pairs = zip(task.outputs, sets.outputs, strict=True)
    found = [_losses(problem.model.loss, *each) for each in pairs]
    held, dtype = np.asarray(sets.losses), sets.losses.dtype
    close = np.isclose(np.concatenate(found), held, rtol=1e3 * np.finfo(dtype).eps, atol=1e-6)
    _refuse_others("costs", (np.asarray(sets.occupied) & ~close)[:, 1:].any(axis=1), rows)


def check_start(run: Run, start: Solution, fingerprint: str) -> None:
    """Whether a run can go on from a solution; nothing runs here.

    Args:
      fingerprint: of the problem.

    Raises:
      ValueError: start is no Solution, or one of another problem, formulation, examples, buckets of
        them, or outputs.
    """
    why = "weights alone hold no dual variables to go on from; checkpoints.save_solution keeps them"
    check_of_fit("start", start, f": {why}")
    if start.formulation != run.formulation.name:
        raise ValueError(f"start solved {start.formulation}, not {run.formulation.name}")
    check_weights(run.problem, start.state.weights, "the weights of start")
    if start.details.fingerprint != fingerprint:
        raise ValueError(
            "start is of another problem: its functions or tables (loss, output features, options) "
            "are not those of problem, and its dual variables say nothing here; train anew, or "
            "with the problem that it solved"
        )
    moved = in_rows_of(start, run.task, run.rows)
    if _shapes(moved.state.sets.outputs, 2) != _shapes(output_of(run.task.outputs), 1):
        raise ValueError("start has outputs of other shapes than outputs: pad them alike")
    _check_truth(moved.state.sets, run.task, run.rows)
    _check_losses(run.problem, moved.state.sets, run.task, run.rows)


def in_rows_of(start: Solution, task: Task, rows: np.ndarray) -> Solution:
    """A solution with its working sets in the rows of a task.

    Rows depend on oracle_batch and on how many devices share the examples, which may change between
    two runs. A row of padding holds what the first row of its bucket holds, all multipliers 0.

    Raises:
      ValueError: it is of other examples, or has them in other buckets.
    """
    before = start.details.rows
    if np.array_equal(before, rows):
        return start
    sets = start.state.sets
    held = [before[own] for own in bucket_slices(sets.outputs)]
    wanted = [rows[own] for own in bucket_slices(task.outputs)]
    real = [[np.sort(own[own >= 0]).tolist() for own in each] for each in (held, wanted)]
    if real[0] != real[1]:
        counts = [[len(own) for own in each] for each in real]
        raise ValueError(
            f"start has its examples in other buckets: it has {counts[0]} a bucket, these are "
            f"{counts[1]}; start from a solution of the same examples, in their order and buckets"
        )
    parts = []
    for number, (old, after) in enumerate(zip(held, wanted, strict=True)):
        place = np.zeros(max(old.max(), after.max()) + 1, np.int64)
        place[old[old >= 0]] = np.flatnonzero(old >= 0)
        index = place[np.where(after >= 0, after, after[0])]
        own = jax.tree.map(lambda leaf, at=index: np.asarray(leaf)[at], bucket_of(sets, number))
        multipliers = np.where(after[:, None] >= 0, own.multipliers, 0)
        parts.append(jax.tree.map(on_device, own._replace(multipliers=multipliers)))
    details = start.details._replace(rows=rows)
    return start._replace(details=details, state=start.state._replace(sets=join_buckets(parts)))


def restart(run: Run, start: Solution, C: float) -> State:
    """The state of a solution, its dual variables made feasible for another C.

    beta is scaled by C / C_old where caps bind, each example's part cut to its own cap, and the
    whole multiplied by the feasible gamma that maximises the dual; w is rebuilt from the result,
    so that the run starts from a feasible dual point.

    Args:
      start: a solution that `check_start` has let pass, in the rows of the task; of several
        processes each has that of its own examples, and w is of all.
    """
    problem, task, processes = run.problem, run.task, run.placement.processes
    alone = run._replace(placement=OneDevice(problem, task, run.settings.sizes))
    sets = start.state.sets
    cap, ridge = np.asarray(task.terms.cap), np.asarray(task.terms.ridge)
    beta = np.asarray(sets.multipliers) * cap.dtype.type(
        C / start.C if run.formulation.penalty == 1 else 1.0
    )
    multiplier_sum = np.sum(beta, axis=1)
    share = _cap_share(cap, multiplier_sum)
    beta = beta * np.minimum(share, 1)[:, None]
    sets = sets._replace(multipliers=on_device(beta))
    multiplier_sum = multiplier_sum * np.minimum(share, 1)
    w = rebuilt_weights(problem, task, sets, alone.placement.every_batch[0])
    w = jax.tree.map(lambda leaf: on_device(processes.sum_arrays(np.asarray(leaf))), w)
    gain = float(np.sum(beta * np.asarray(sets.bounds)))
    products = _products(alone, w, sets)
    cost = float(np.sum(products)) + float(np.sum(ridge * multiplier_sum**2))
    least_share = float(np.min(_cap_share(cap, multiplier_sum)))
    of_each = processes.gather_numbers([gain, cost, least_share])
    gain, cost = of_each[:, :2].sum(axis=0).tolist()
    least_share = float(of_each[:, 2].min())
    gamma = max(min(gain / cost, least_share), 0.0) if cost > 0 else 1.0
    sets = sets._replace(multipliers=on_device(beta * beta.dtype.type(gamma)))
    w = jax.tree.map(lambda leaf: on_device(np.asarray(leaf) * leaf.dtype.type(gamma)), w)
    return State(w, sets, None, start.state.sigma, 0, None)


def _cap_share(cap: np.ndarray, multiplier_sum: np.ndarray) -> np.ndarray:
    """[N] by how much each example's multipliers may grow until its cap binds, or must shrink."""
    own = multiplier_sum > 0
    with np.errstate(over="ignore"):
        return np.where(own, cap / np.where(own, multiplier_sum, 1), np.inf).astype(cap.dtype)


def _products(run: Run, w: PyTree, sets: WorkingSets) -> np.ndarray:
    """[N] <w, sum_y beta phi_i(y)>, whose sum is |w|^2 in any space; by the run's own program."""
    none_enters = np.asarray(np.inf, sets.losses.dtype)
    _, report, _ = call_all(open_round(run, 0), "start", w, copy_arrays(sets), none_enters)
    return ExampleTerms.of_columns(report.numbers).product
