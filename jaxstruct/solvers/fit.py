"""`fit`: the short way in, the host loop around `cutting_plane.step`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import Processes
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.resuming import fingerprint, in_common
from jaxstruct.solvers.checkpoints.run_state import (
    Checkpoint,
    File,
    check_checkpoint,
    digest_of_tree,
    file_of,
    solution_of,
)
from jaxstruct.solvers.checkpoints.session import GOES_ON, CheckpointSession, Content
from jaxstruct.solvers.loop import host_loop
from jaxstruct.solvers.loop.host_loop import Method, Progress, Round, Rules, RunState, StartCounters
from jaxstruct.solvers.loop.progress import training_progress
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.ascent import Ascent, method_of
from jaxstruct.solvers.n_slack.rounds import copy_arrays
from jaxstruct.solvers.n_slack.run import Info, Run, State
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated
from jaxstruct.solvers.objective.formulations import Formulation, Objective
from jaxstruct.solvers.objective.most_violated import proving
from jaxstruct.solvers.placement.mesh import training_device
from jaxstruct.solvers.prepare import check_watching, checked_rules, open_run
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import FitDetails, Solution, solution_of_run
from jaxstruct.solvers.validation.checks import checked_buckets
from jaxstruct.solvers.validation.oracle_rules import confirm
from jaxstruct.solvers.warm_start import check_start, in_rows_of, restart

DEFAULTS = Settings()


class Training(NamedTuple):
    """What stays as it is during a run of `fit`; fingerprint: of the problem."""

    run: Run
    rules: Rules
    min_margin: float = 1e-3
    fingerprint: str = ""

    @property
    def processes(self) -> Processes:
        """Those that train together."""
        return self.run.placement.processes

    def reach(self, state: State) -> float:
        """The longest |phi| of the planes at hand, of all processes."""
        norms = self.run.placement.own(state.sets.norms)
        longest = self.processes.gather_numbers([float(np.max(norms, initial=0.0))])
        return float(np.sqrt(np.max(longest)))


def _method(fixed: Training, watched: bool) -> Method:
    """The cutting plane algorithm as the host loop runs it.

    Args:
      watched: whether somebody may hold the states in between.
    """
    run = fixed.run

    def prove(state: State, threshold: float, info: Info) -> tuple[State, Info]:
        products = info.ray.products(1.0) if info.ray else (None, None)
        return cutting_plane.certify_state(run, state, threshold, products, proves=True)

    return method_of(
        Ascent(
            rules=fixed.rules,
            min_margin=fixed.min_margin,
            settings=run.settings,
            n=int(fixed.processes.total(np.sum(run.rows >= 0))),
            weighted=run.placement.examples,
            step=partial(cutting_plane.step, run, takes_over=not watched),
            certify=partial(cutting_plane.certify_state, run),
            search=partial(cutting_plane.least_multiple_of, run),
            prove=prove if proving(run.problem, run.oracle) != run.oracle else None,
            capacity=lambda state: state.sets.losses.shape[1],
            grow=partial(cutting_plane.with_capacity, run),
            reach=fixed.reach,
        )
    )


def _planes(fixed: Training, sets: WorkingSets) -> int:
    """Planes at hand of real examples; of enumerated working sets those that ever moved."""
    carried = np.asarray(sets.last_used) > 0 if is_enumerated(sets) else np.asarray(sets.occupied)
    return int(fixed.processes.total(np.sum(carried[fixed.run.rows >= 0, 1:])))


def _solution(fixed: Training, now: RunState, status: Status, counters: StartCounters) -> Solution:
    """What a run that stands there has found."""
    rows, state = fixed.run.rows, fixed.run.placement.end(now.state)
    sets = state.sets
    support = int(fixed.processes.total(np.sum(np.asarray(sets.multipliers)[rows >= 0] > 0)))
    held = _planes(fixed, sets), support, sets.losses.shape[1]
    counts = host_loop.statistics(now, counters, *held)
    best = now.best._replace(weights=fixed.run.placement.taken(now.best.weights))
    return solution_of_run(
        best, status, counts, fixed.run.formulation.name, fixed.rules.C, rows,
        state=state, details=FitDetails(rows, fixed.fingerprint),
    )  # fmt: skip


def _content(fixed: Training) -> Content:
    """What the checkpoints of `fit` hold: a Solution, of a run that goes on too."""
    run = fixed.run

    def running(method: Method, now: RunState, last: Round, counters: StartCounters) -> File:
        """The solution so far, with the state of the next round; where nothing is proved yet, by a
        pass that the run forgets."""
        if now.best.certificate is None and method.certify is not None:
            _, found = method.certify(now)
            now = now._replace(best=host_loop.improve(now.best, found))
        now = now._replace(seconds=host_loop.seconds_so_far(now, counters))
        solution = _solution(fixed, now, Status.STOPPED, counters)
        state = now.state if method.adapt is None else method.adapt(now.state, last)
        return file_of(solution._replace(message=GOES_ON, state=run.placement.end(state)))

    def read(checkpoint: Checkpoint, ended: bool) -> tuple[Solution, State]:
        solution = solution_of(checkpoint, run.problem, run.task.outputs[0])
        return solution, solution.state

    return Content(running, file_of, read)


def _first(
    fixed: Training, start: Solution | None, session: CheckpointSession | None
) -> tuple[RunState, StartCounters]:
    """Where a run begins or goes on."""
    place, found = fixed.run.placement, None if session is None else session.found
    if found is not None and found.run is not None and found.counters is not None:
        return found.run._replace(state=place.place(found.run.state)), found.counters
    if start is None:
        state, planes = cutting_plane.init(fixed.run), 0
    else:
        of_rows = in_rows_of(start, fixed.run.task, fixed.run.rows)
        own = restart(fixed.run, of_rows, fixed.rules.C)
        own = own._replace(sets=copy_arrays(own.sets))  # what the solution holds stays as it is
        state, planes = place.place(own), _planes(fixed, own.sets)
    counters = host_loop.begin(planes, _before(fixed.rules.C, start))
    return host_loop.run_state_at(state, state.weights), counters


def _before(C: float, start: Solution | None) -> Trace | None:
    """The trace that a run continues."""
    return start.statistics.history if start is not None and start.C == C else None


def train(
    fixed: Training,
    callback: Callable[[Progress], bool | None] | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
    start: Solution | None = None,
    session: CheckpointSession | None = None,
) -> Solution:
    """The host loop and what its end says.

    Args:
      callback, start: as in `fit`. show: is called after each round.
      session: where checkpoints are, None for none.
    """
    now, counters = _first(fixed, start, session)
    watched = fixed.processes.any(callback is not None or session is not None)
    notify = host_loop.notifying_callback(fixed.processes, show, callback)
    given = _method(fixed, watched), now, fixed.rules, counters, notify

    def ended(now: RunState, status: Status) -> Solution:
        run, weights = fixed.run, fixed.run.placement.taken(now.best.weights)
        status = confirm(status, run.problem, run.formulation, run.sample, weights)
        if fixed.processes.any(status is Status.WRONG_ORACLE):
            status = Status.WRONG_ORACLE
        return _solution(fixed, now, status, counters)

    return ended(*host_loop.solve(*given)) if session is None else session.solve(*given, ended)


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
        then the gap and the time without compiling. "bar" shows them in one moving bar, with tqdm
        and on a terminal; elsewhere it is as True.
      checkpoint: a file for the run so far, which `resume` goes on from, and
        `checkpoints.load_solution` reads. Written now and then, at the end, and after the last
        whole round on Ctrl-C, SIGTERM and any error, which a note says. It is replaced whole, never
        in part, and the one before stays as `<checkpoint>.previous`. One that cannot be written,
        for a full disk, is a RuntimeWarning, and the run goes on. In the main thread,
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

    On a machine with a GPU or TPU small inputs are trained on the CPU beside it, which is sooner
    (`placement.mesh`); `jax.default_device`, arrays of JAX as inputs, or a mesh say otherwise.

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
    processes = Processes(mesh)

    def check() -> tuple[Formulation, Rules]:
        given = problem, formulation, C, tolerance, epsilon, max_passes, min_margin, settings
        found = checked_rules(*given)
        check_watching(callback, verbose)
        check_checkpoint(checkpoint, checkpoint_seconds, resume, problem)
        return found

    formulation, rules = processes.agree(check)
    words = f"{formulation.name}, C = {float(C):g}"
    verbose = verbose if processes.leads else False
    with (
        training_device(inputs) if mesh is None else contextlib.nullcontext(),
        training_progress(max_passes, words, verbose, tolerance) as show,
    ):
        objective = Objective(problem, inputs, outputs, formulation, C, example_weights)
        run = open_run(objective, settings, mesh, processes)
        common, session = {}, None
        if processes.several or checkpoint is not None:
            common = in_common(problem, run.settings, formulation, rules, min_margin)
            own = {"checkpoint": checkpoint is not None, "resume": resume}
            processes.check_alike(own | {"start": start is not None} | common)
        fixed = Training(run, rules, min_margin, common.get("problem") or digest_of_tree(problem))
        if checkpoint is not None:
            devices = run.placement.task.terms.cap.devices()
            digests = digest_of_tree(run.task.inputs), digest_of_tree(run.task.outputs)
            own = fingerprint(common, devices, *digests, example_weights, start)
            seconds = float(checkpoint_seconds)
            session = CheckpointSession(checkpoint, seconds, own, _content(fixed), processes)
            if resume:
                session.read(problem, _before(rules.C, start))
            if session.found is not None and session.found.run is None:
                return session.found.solution
        if start is not None:
            processes.agree(lambda: check_start(run, start, fixed.fingerprint))
        return train(fixed, callback, show, start, session)


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
    if not Processes(options.get("mesh")).several:  # padded once for all C
        inputs, outputs = checked_buckets(problem, inputs, outputs, options.get("example_weights"))
    for C in Cs:
        solution = fit(problem, inputs, outputs, formulation, C, start=solution, **options)
        yield solution
