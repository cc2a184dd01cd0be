"""`fit`: the short way in, the host loop around `cutting_plane.step`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.files import File
from jaxstruct.solvers.checkpoints.fit_checkpoints import RunKeeping, fingerprint_of
from jaxstruct.solvers.checkpoints.resuming import digest_of_tree, in_common
from jaxstruct.solvers.checkpoints.writer import GOES_ON, CheckpointWriter, check_checkpoint
from jaxstruct.solvers.loop.host_loop import (
    Method,
    Progress,
    Round,
    Rules,
    RunState,
    StartCounters,
    begin,
    improve,
    in_callers_order,
    last_certificate,
    notifying_callback,
    run_state_at,
    seconds_so_far,
    solve,
    statistics,
)
from jaxstruct.solvers.loop.progress import check_verbose, training_progress
from jaxstruct.solvers.loop.status import MESSAGES, Status
from jaxstruct.solvers.loop.stop_signals import raise_together, stop_signals
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.cost_model import calls_foretold, efforts_of
from jaxstruct.solvers.n_slack.state import Info, State
from jaxstruct.solvers.n_slack.sweeps import SweepBuffers
from jaxstruct.solvers.n_slack.task import (
    Task,
    batches_of_class,
    fewest_batches,
    make_task,
    row_index,
)
from jaxstruct.solvers.n_slack.thresholds import (
    primal_of,
    threshold_of,
    wants_growth,
    worth_certifying,
)
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated
from jaxstruct.solvers.objective.formulations import Formulation, formulation_named
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.placement.joint_buckets import joint_buckets
from jaxstruct.solvers.placement.mesh import Shards, check_mesh, dealt
from jaxstruct.solvers.settings import Settings, check_settings, choice_of, resolved_settings
from jaxstruct.solvers.solution import Solution
from jaxstruct.solvers.validation.checks import (
    check_callback,
    check_is_problem,
    check_run,
    rounding,
)
from jaxstruct.solvers.validation.oracle_rules import Sample, check_oracle, confirm, sample_of
from jaxstruct.solvers.warm_start import check_start, in_rows_of, restart

DEFAULTS = Settings()


class _Fixed(NamedTuple):
    """What stays as it is during a run."""

    problem: Problem
    task: Task
    settings: Settings
    formulation: Formulation
    rules: Rules
    min_margin: float
    rows: np.ndarray
    sample: Sample | None
    fingerprint: str
    shards: Shards | None = None

    @property
    def processes(self) -> Processes:
        """Those that train together."""
        return ALONE if self.shards is None else self.shards.processes

    @property
    def of_step(self) -> tuple[Problem, Task, Settings, Formulation]:
        """The fixed side of `cutting_plane.step`."""
        if self.shards is None:
            return self.problem, self.task, self.settings, self.formulation
        problem = self.shards.put_on_all(self.problem)
        return problem, self.shards.task, self.settings, self.formulation


def _round(fixed: _Fixed, state: State, info: Info) -> Round:
    """A step as the host loop sees it."""
    full = state.sets.losses.shape[1] >= fixed.settings.max_capacity
    radius = 0.0
    if fixed.rules.hard:
        norms = state.sets.norms if fixed.shards is None else fixed.shards.own(state.sets.norms)
        longest = fixed.processes.gather_numbers([float(np.max(norms, initial=0.0))])
        radius = float(np.sqrt(np.max(longest)))
    estimate = info.estimate
    cheap = fixed.problem.oracles.cheap is not None  # whose answers bound nothing
    return Round(
        certificate=info.certificate,
        primal=estimate.primal_found if cheap else estimate.primal,
        dual=info.estimate.dual,
        planes_added=info.planes_added,
        oracle_calls=info.oracle_calls,
        clock=state.clock,
        seconds=info.seconds,
        weights=state.weights,
        slack=info.slack,
        stuck=bool(full and info.overflow and not info.planes_added),
        least_margin=fixed.min_margin * radius,
        info=info,
        state=state,
    )


def _method(fixed: _Fixed, started: bool, watched: bool) -> Method:
    """The cutting plane algorithm as the host loop runs it.

    Args:
      started: whether the first state is of a solution, which stays as it is.
      watched: whether somebody may hold the states in between.
    """
    n = int(fixed.processes.total(np.sum(fixed.rows >= 0)))
    most = fixed.settings.max_capacity
    room, of_step, shards = SweepBuffers(), fixed.of_step, fixed.shards

    def step(now: RunState) -> tuple[State, Round]:
        threshold = threshold_of(fixed.rules, primal_of(now))
        worth = worth_certifying(fixed.rules, primal_of(now), threshold, now.state.clock)
        takes_over = not watched and (now.state.clock > 0 or not started)
        state, info = cutting_plane.step(
            *of_step, now.state, threshold, *worth, room, takes_over, shards
        )
        return state, _round(fixed, state, info)

    def certify(now: RunState) -> tuple[State, Round]:
        threshold = threshold_of(fixed.rules, primal_of(now))
        state, info = cutting_plane.certify_state(*of_step, now.state, threshold, shards)
        return state, _round(fixed, state, info)

    def adapt(state: State, found: Round) -> State:
        capacity = state.sets.losses.shape[1]
        if capacity >= most or not wants_growth(found.info, n):
            return state
        if shards is None:
            return cutting_plane.with_capacity(state, min(2 * capacity, most))
        own = state._replace(sets=shards.own(state.sets), span=shards.own(state.span))
        own = cutting_plane.with_capacity(own, min(2 * capacity, most))
        return state._replace(sets=shards.put(own.sets), span=shards.put(own.span))

    return Method(step, certify, adapt)


def _planes(fixed: _Fixed, sets: WorkingSets) -> int:
    """Planes at hand of real examples; of enumerated working sets those that ever moved."""
    carried = np.asarray(sets.last_used) > 0 if is_enumerated(sets) else np.asarray(sets.occupied)
    return int(fixed.processes.total(np.sum(carried[fixed.rows >= 0, 1:])))


def _solution(
    fixed: _Fixed, now: RunState, status: Status, counters: StartCounters
) -> Solution:  # fmt: skip
    """What a run that stands there has found."""
    rows, best, state = fixed.rows, now.best, now.state
    if fixed.shards is not None:
        state = fixed.shards.end(state)
        best = best._replace(weights=fixed.shards.taken(best.weights))
    sets = state.sets
    certificate, slack = last_certificate(best)
    support = np.sum(np.asarray(sets.multipliers)[rows >= 0] > 0)
    support = int(fixed.processes.total(support))
    return Solution(
        weights=best.weights,
        status=status,
        message=MESSAGES[status],
        primal=best.primal,
        dual=best.dual,
        gap=best.primal - best.dual,
        certificate=certificate,
        slack=in_callers_order(slack, rows),
        rows=rows,
        formulation=fixed.formulation.name,
        C=fixed.rules.C,
        state=state,
        fingerprint=fixed.fingerprint,
        statistics=statistics(now, counters, _planes(fixed, sets), support, sets.losses.shape[1]),
    )


def _on_the_way(fixed: _Fixed, method: Method, now: RunState, counters: StartCounters) -> Solution:
    """What a run that goes on has found; where nothing is proved yet, by a pass that it forgets."""
    if now.best.certificate is None and method.certify is not None:
        _, found = method.certify(now)
        now = now._replace(best=improve(now.best, found))
    now = now._replace(seconds=seconds_so_far(now, counters))
    return _solution(fixed, now, Status.STOPPED, counters)._replace(message=GOES_ON)


def _checkpoint_writer(
    fixed: _Fixed, method: Method, kept: RunKeeping, counters: StartCounters
) -> CheckpointWriter:
    """What writes the checkpoints of a run."""

    def file(now: RunState, found: Round) -> File:
        solution = _on_the_way(fixed, method, now, counters)
        state = now.state if method.adapt is None else method.adapt(now.state, found)
        if fixed.shards is not None:
            state = fixed.shards.end(state)
        return kept.file_of(solution._replace(state=state), now, counters)

    return kept.writer(file)


class _First(NamedTuple):
    """Where a run begins or goes on; started: whether its state is of somebody's solution."""

    now: RunState
    counters: StartCounters
    started: bool


def _first(fixed: _Fixed, start: Solution | None, kept: RunKeeping | None) -> _First:
    if kept is not None and kept.found is not None:
        if kept.found.run is not None and kept.found.counters is not None:
            now = kept.found.run
            if fixed.shards is not None:
                now = now._replace(state=fixed.shards.place(now.state))
            return _First(now, kept.found.counters, True)
    state, planes = _first_state(fixed, start)
    counters = begin(planes, _before(fixed.rules.C, start))
    return _First(run_state_at(state, state.weights), counters, start is not None)


def _before(C: float, start: Solution | None) -> Trace | None:
    """The trace that a run continues."""
    return start.statistics.history if start is not None and start.C == C else None


def _run(
    fixed: _Fixed,
    first: _First,
    show: Callable[[Progress], None],
    callback: Callable[[Progress], bool | None] | None,
    kept: RunKeeping | None,
) -> Solution:
    """The host loop and what its end says, with checkpoints where they are asked for."""
    watched, told = (
        callback is not None or kept is not None,
        notifying_callback(fixed.processes, show, callback),
    )
    method = _method(fixed, first.started, fixed.processes.any(watched))
    if kept is None:
        return _ended(fixed, *solve(method, first.now, fixed.rules, first.counters, told), first)
    writer = _checkpoint_writer(fixed, method, kept, first.counters)
    with stop_signals(patient=fixed.processes.several) as signals:

        def keep(now: RunState, found: Round) -> None:
            writer.keep(now, found)
            raise_together(fixed.processes, signals)

        with writer.stopped_by(signals.meant):
            end = solve(method, first.now, fixed.rules, first.counters, told, keep)
            solution = _ended(fixed, *end, first)
            stopped = solution.status is Status.STOPPED  # it may go on, without this certificate
            file = None if stopped else kept.end_file_of(solution)
            writer.end(file, solution.statistics.passes)
    return solution


def _ended(fixed: _Fixed, now: RunState, status: Status, first: _First) -> Solution:
    """What a run has found whose loop is over."""
    weights = now.best.weights if fixed.shards is None else fixed.shards.taken(now.best.weights)
    status = confirm(status, fixed.problem, fixed.formulation, fixed.sample, weights)
    if fixed.processes.any(status is Status.WRONG_ORACLE):
        status = Status.WRONG_ORACLE
    return _solution(fixed, now, status, first.counters)


def _first_state(fixed: _Fixed, start: Solution | None) -> tuple[State, int]:
    """Where the run begins, and how many planes it has there."""
    problem, task, settings, processes = fixed.problem, fixed.task, fixed.settings, fixed.processes
    if start is not None:
        start = in_rows_of(start, task, fixed.rows)
        state = restart(
            problem, task, settings, fixed.formulation, start, fixed.rules.C, processes
        )  # fmt: skip
    elif fixed.shards is None:
        state = cutting_plane.init(problem, task, settings)
    else:
        parts = fixed.shards.parts
        states = [cutting_plane.init(problem, part, settings) for part in parts]
        return fixed.shards.begin(states), 0
    planes = _planes(fixed, state.sets)
    return state if fixed.shards is None else fixed.shards.place(state), planes


def _with_effort(fixed: _Fixed, start: Solution | None) -> _Fixed:
    """The same with its effort chosen; the start and the oracle are checked before that."""
    problem, settings, formulation = fixed.problem, fixed.settings, fixed.formulation

    def check() -> None:
        if start is not None:
            check_start(problem, fixed.task, fixed.rows, formulation, start, fixed.fingerprint)
        check_oracle(problem, formulation, fixed.sample)

    fixed.processes.agree(check)
    calls = calls_foretold(fixed.rules.tolerance, fixed.rules.max_passes)
    task = fixed.task if fixed.shards is None else fixed.shards.parts[0]
    efforts = efforts_of(problem, settings, oracle_for(problem, formulation), task, calls)
    return fixed._replace(settings=settings._replace(effort=efforts))


def open_run(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: Formulation,
    C: float,
    example_weights: np.ndarray | None,
    settings: Settings,
    mesh: Mesh | None,
    processes: Processes,
) -> tuple[Settings, Task, np.ndarray, Sample | None, Shards | None]:
    """(settings, task, the example of each of its rows, a sample, shards) of checked data."""
    inputs, outputs, held = joint_buckets(problem, inputs, outputs, example_weights, processes)
    fewest, devices = fewest_batches(settings.oracle_batch), processes.devices
    counts = np.max(-(-held // np.array(devices)[:, None]), axis=0).tolist()
    devices, n = devices[processes.here], int(held.sum())
    side_by_side = 1 if mesh is None else mesh.size
    settings = resolved_settings(problem, settings, max(counts), side_by_side)
    batch, group = settings.oracle_batch, choice_of(settings.group)
    shapes = [batches_of_class(count, batch, group, fewest) for count in counts]
    places = None if mesh is None else dealt(outputs, devices, list(map(math.prod, shapes)))
    shapes = [(devices * batches, rows) for batches, rows in shapes]
    task = make_task(problem, inputs, outputs, formulation, C, example_weights, shapes, places, n)
    rows = row_index(outputs.index, shapes, places)
    shards = None if mesh is None else Shards(mesh, processes, task, rows)
    sample = sample_of(problem, inputs, outputs, choice_of(settings.checked_examples))
    return settings, task, rows, sample, shards


def fit(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    tolerance: float | None = 1e-3,
    epsilon: float | None = None,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    max_passes: int = 500,
    min_margin: float = 1e-3,
    start: Solution | None = None,
    callback: Callable[[Progress], bool | None] | None = None,
    verbose: bool | str = False,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> Solution:
    """Train a structural SVM (thesis, algorithms 2 and 3).

    min_w 1/2 |w|^2 + (C/n) sum_i v_i xi_i (SVM1), + (C/2n) sum_i v_i xi_i^2 (SVM2), or a hard
    margin (SVM0), under the constraints of `formulations`.

    Args:
      problem: the structure.
      inputs, outputs: pytrees of n examples, of arrays [n, ...] or `Ragged` stores, which are
        padded here.
      formulation: one of svm0, svm1, svm2, svm1_slack, svm1_margin, svm2_slack, svm2_margin.
      C: the trade-off; divided by n as in the thesis. Ignored by svm0.
      tolerance: stop when P - D <= tolerance |P|; None to rely on epsilon alone.
      epsilon: the paper's rule: stop when no H(y) exceeds xi_i + epsilon and the relaxed problem
        over the working sets is solved to C epsilon; None to rely on tolerance alone.
      example_weights: [n] v_i >= 0, e.g. class weights taken at each output; C is still divided
        by n.
      settings: how; see `Settings`.
      max_passes: bound on the rounds.
      min_margin: svm0 gives up once the margin is proven to be below this fraction of the largest
        |delta Psi|.
      start: a Solution of the same problem, examples and formulation (any C, any devices) to start
        from; with the same C its history goes on.
      callback: called after each pass with a `Progress`; a true answer stops the run.
      verbose: True writes lines of text on standard error: which program is compiled, and now and
        then the gap and the time left without compiling. "bar" shows them in one moving bar, with
        tqdm and on a terminal; elsewhere it is as True.
      checkpoint: a file for the run so far, which `resume` goes on from, and
        `checkpoints.load_solution` reads. Written now and then, at the end, and after the last
        whole round on Ctrl-C, SIGTERM and any error, which a note says. It is replaced whole, never
        in part, and the one before stays as `<checkpoint>.previous`. One that cannot be written,
        for a full disk, is told in a RuntimeWarning, and the run goes on. In the main thread,
        SIGTERM ends the program with SystemExit(143) meanwhile, unless it is handled or ignored.
      checkpoint_seconds: between two checkpoints; 0: after every pass.
      resume: whether to go on with the run of `checkpoint`, where that file is there: a run that is
        stopped and resumed ends with the weights, multipliers, certificate and trace of one that is
        not, bit by bit on a CPU; seconds add up. Of a run that has ended the solution is returned.
        All other arguments must be those of the run. The sha256 of what was written is checked; of
        a damaged file the one before is taken, with a RuntimeWarning.
      mesh: devices to train on side by side, as `jax.make_mesh((jax.device_count(),), ("shards",))`
        makes one of all; its axes mean nothing. Each device holds a part of the examples, of their
        working sets and dual variables, and a copy of w (see `exchange`); a `start` is rebuilt on
        the first one, which then holds all for a moment. A callback sees a state whose rows lie
        shard after shard. None for one device. Where the devices are of several processes, all of
        them call `fit`: each with its own examples, example_weights and start, all else alike.
        Each has a checkpoint file of its own, `<checkpoint>.process<number>`; the first shows
        progress.

    Returns:
      A Solution; look at its status before its weights. Of several processes its slack, rows and
      state are of the own examples, all else is the same in all.

    Raises:
      OSError: nothing can be written to the folder of the checkpoint.
      ValueError: an argument does not fit, or the problem breaks a rule on a few of the examples
        (see `check_problem`); the message names it. The checkpoint to resume is of another run
        (other arguments, data, versions, device), or no run, or damaged like the one before. Of
        several processes all raise where one does, or where they are not given alike.
    """
    check_mesh(mesh)
    processes = ALONE if mesh is None else Processes(mesh)

    def check() -> Formulation:
        check_is_problem(problem)
        dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
        check_run(C, tolerance, epsilon, max_passes, min_margin, dtype)
        check_settings(settings)
        check_callback(callback)
        check_verbose(verbose)
        check_checkpoint(checkpoint, checkpoint_seconds, resume, problem)
        return formulation_named(formulation)

    formulation = processes.agree(check)
    settings, task, rows, sample, shards = open_run(
        problem, inputs, outputs, formulation, C, example_weights, settings, mesh, processes
    )
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    hard = formulation.penalty == 0
    rules = Rules(tolerance, epsilon, max_passes, float(C), hard, rounding(dtype))
    common = {}
    if processes.several or checkpoint is not None:
        common = in_common(problem, settings, formulation, rules, min_margin)
        told = {"checkpoint": checkpoint is not None, "resume": resume, "start": start is not None}
        processes.check_alike(told | common)
    kept = None
    if checkpoint is not None:
        own = fingerprint_of(common, task, mesh, example_weights, start)
        kept = RunKeeping(checkpoint, float(checkpoint_seconds), own, processes)
        if resume:
            kept.read(problem, task.outputs[0], _before(rules.C, start))
        if kept.found is not None and kept.found.run is None:
            return kept.found.solution
    fingerprint = common.get("problem") or digest_of_tree(problem)
    fixed = _Fixed(
        problem, task, settings, formulation, rules, min_margin, rows, sample, fingerprint, shards
    )
    words = f"{formulation.name}, C = {float(C):g}"
    verbose = verbose if processes.leads else False
    with training_progress(max_passes, words, verbose, tolerance) as show:
        fixed = _with_effort(fixed, start)
        return _run(fixed, _first(fixed, start, kept), show, callback, kept)


def fit_path(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation,
    Cs: Iterable[float],
    **options: Any,
) -> Iterator[Solution]:
    """Solutions along a path of C, each started from the one before with feasible dual variables.

    Args:
      Cs: the values, best in rising order. options: of `fit`, but for `resume`: a checkpoint is of
        one C.
    """
    if options.get("resume"):
        raise ValueError(
            "resume=True is for fit: a checkpoint is of one C, and a path has several; call fit "
            "for each with a checkpoint of its own and start= the solution before"
        )
    solution = options.pop("start", None)
    for C in Cs:
        solution = fit(problem, inputs, outputs, formulation, C, start=solution, **options)
        yield solution
