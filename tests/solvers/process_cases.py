"""What each of two processes of two devices does together with the other; see `test_processes`.

    python -m tests.solvers.process_cases PROCESS PORT FOLDER

Every case is a function of a folder, which both have; what it returns goes to
FOLDER/PROCESS.json, and where it raises, its traceback.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path

import jax
import numpy as np

from jaxstruct import Ragged, Settings, Status, fit, fit_path, predict
from jaxstruct.core.processes import RefusedElsewhere
from jaxstruct.core.types import SparseFeatures
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.checkpoints import session as checkpoint_writer
from jaxstruct.solvers.checkpoints.run_state import digest_of
from jaxstruct.solvers.placement.mesh import deal
from tests.solvers.cases import Case

N, K, D, C = 40, 4, 3, 50.0
SHARDS, PROCESSES = 4, 2
GROWN = Settings(
    variant="subspace", working_sets="grown", capacity=2, cached_sweeps=2, chunks=1,
    synchronisations=1,
    oracle_batch=4, group=2,
)  # fmt: skip
ENUMERATED = GROWN._replace(working_sets="enumerated")
SETTINGS = {"grown": GROWN, "full": GROWN._replace(variant="full", capacity=4)}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, D))
Y = (X @ RANDOM.normal(size=(D, K)) + RANDOM.normal(size=(N, K))).argmax(axis=1).astype(np.int32)
WEIGHTS = RANDOM.choice([0.0, 0.5, 1.0], N)
CASE = Case(X, Y, 1 - np.eye(K))


def own_rows(sizes=None):
    """The examples of this process, such that its devices hold what they would in one process."""
    if jax.process_count() == 1:
        return np.arange(N)
    rows = deal(np.ones(N) if sizes is None else sizes, SHARDS, N).reshape(PROCESSES, -1)
    own = rows[jax.process_index()]
    return np.sort(own[own >= 0])


def mesh():
    return jax.make_mesh((SHARDS,), ("shards",))


def train(way="grown", **more):
    own = own_rows()
    options = {"tolerance": 1e-2, "example_weights": WEIGHTS[own], "max_passes": 10} | more
    given = multiclass(D, K, dtype="float64"), X[own], Y[own]
    formulation = options.pop("formulation", "svm1_margin")
    return fit(*given, formulation, C, settings=SETTINGS[way], mesh=mesh(), **options)


def numbers(solution):
    counts = solution.statistics
    return {
        "status": int(solution.status), "primal": solution.primal, "dual": solution.dual,
        "rounds": counts.passes, "planes": counts.planes_kept, "support": counts.support_planes,
        "calls": counts.oracle_calls, "weights": digest(solution.weights),
        "certificate": [float(each) for each in solution.certificate],
        "duals": solution.trace.round_dual[:3].tolist(),
        "added": solution.trace.planes_added[:3].tolist(),
        "n": len(solution.slack), "slack": float(np.sum(solution.slack)),
    }  # fmt: skip


def digest(tree):
    return digest_of(*map(np.asarray, jax.tree.leaves(tree)))


def everything(solution):
    """The sha256 of all that a run ends with, but for its times."""
    trace = [getattr(solution.trace, n) for n in solution.trace._fields if "seconds" not in n]
    return digest(
        (solution.weights, solution.state, solution.slack, solution.details.rows,
         solution.certificate, trace)
    )  # fmt: skip


def grown(folder):
    solution = train()
    own = own_rows()
    found = predict(multiclass(D, K, dtype="float64"), solution, X[own])
    weights = np.asarray(solution.weights["weights"])
    np.testing.assert_array_equal(found, (X[own] @ weights).argmax(axis=1))
    assert len(solution.slack) == len(own) and np.sum(solution.details.rows >= 0) == len(own)
    return numbers(solution)


def hard(folder):
    """A hard margin that is not met, whose radius is of all planes."""
    return numbers(train(formulation="svm0", max_passes=4))


def full(folder):
    """Newton steps over the working sets of all, resumed in the middle."""
    options = {"way": "full", "tolerance": 1e-6, "max_passes": 6}
    solution = train(**options, checkpoint=folder / "full_run.npz")
    path = folder / "newton.npz"
    assert _killed(path, 3, checkpoint_seconds=0.0, **options) is None
    again = train(**options, checkpoint=path, resume=True)
    assert solution.state.span is not None and everything(again) == everything(solution)
    return numbers(solution)


def rows():
    """(their numbers of features, which these are, a case): the last ten have many."""
    random, width = np.random.default_rng(1), 24
    lengths = np.r_[random.integers(1, 6, 30), random.integers(20, width, 10)]
    indices = [np.sort(random.permutation(width)[:length]) for length in lengths]
    y, x = random.integers(0, K, N).astype(np.int32), np.zeros((N, width))
    for own, row, label in zip(indices, x, y, strict=True):
        row[own] = random.normal(size=len(own)) + (own % K == label)
    return lengths, np.concatenate(indices).astype(np.int32), Case(x, y, CASE.loss)


def buckets(folder):
    """One process alone has long rows, in a bucket of their own: the other borrows one."""
    lengths, indices, case = rows()
    own = np.arange(N)
    if jax.process_count() > 1:
        own = np.arange(15) if jax.process_index() == 0 else np.arange(15, N)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = case.x[np.repeat(np.arange(N), lengths), indices]
    x = Ragged(indices, offsets, case.x.shape[1]).take(own), Ragged(values, offsets).take(own)
    problem = case.problem()
    problem = problem._replace(padding=dataclasses.replace(problem.padding, price=1))
    options = {"settings": ENUMERATED, "tolerance": 1e-1, "mesh": mesh()}
    solution = fit(problem, SparseFeatures(*x), case.y[own], C=20.0, **options)
    assert len(solution.state.sets.outputs) > 1
    assert len(predict(problem, solution, SparseFeatures(*x))) == len(solution.slack)
    return numbers(solution)


def paths(folder):
    """Starts and paths, each process from its own part."""
    own = own_rows()
    given = multiclass(D, K, dtype="float64"), X[own], Y[own], "svm1_margin"
    options = {"settings": GROWN, "mesh": mesh(), "tolerance": 1e-2}
    options["example_weights"] = WEIGHTS[own]  # the programs of `train`
    *_, last = fit_path(*given, [C / 10, C], **options)
    again = fit(*given, C, start=last, **options)
    start = again.trace.round_dual[-again.statistics.passes]  # before them is that of last
    assert last.certificate.dual * (1 - 1e-9) <= start <= last.primal * (1 + 1e-9)
    return {"primal": again.primal, "dual": again.dual}


def refused(folder):
    """What one process is given wrongly, all refuse."""
    here, own = jax.process_index(), own_rows()
    wrong = here == 1

    def given(x=X[own], y=Y[own], cost=C, machine=None, **more):
        machine = multiclass(D, K, dtype="float64") if machine is None else machine
        options = {"settings": GROWN, "mesh": mesh()} | more
        fit(machine, x, y, "svm1_margin", cost, **options)

    def refusal(**more):
        try:
            given(**more)
        except (ValueError, ZeroDivisionError) as error:
            return [type(error).__name__, str(error)]
        raise AssertionError("nothing was refused")

    def fail(progress):
        return 1 // 0

    nan = np.where(np.arange(len(own))[:, None] == 2, np.nan, X[own])
    return {
        "nan": refusal(x=nan if wrong else X[own]),
        "C": refusal(cost=-1.0 if wrong else C),
        "settings": refusal(settings=GROWN._replace(seed=int(wrong))),
        "problem": refusal(
            machine=multiclass(D, K, loss=(1 + wrong) * (1 - np.eye(K)), dtype="float64")
        ),
        "start": refusal(start=3 if wrong else None),
        "checkpoint": refusal(checkpoint=folder / "none.npz" if wrong else None),
        "callback": refusal(callback=fail if wrong else None),
    }


def callbacks(folder):
    """One process asks to stop; all do, after the same round."""
    seen = []

    def stop(progress):
        seen.append(progress.passes)
        return jax.process_index() == 1 and progress.passes == 3

    solution = train(tolerance=1e-5, callback=stop)
    assert solution.status is Status.STOPPED and seen == [1, 2, 3]
    alone = train(tolerance=1e-5, callback=stop if jax.process_index() == 1 else None)
    assert alone.status is Status.STOPPED
    return numbers(solution)


class Killed(Exception):
    """What a killed process is to a case."""


def _killed(path, rounds, **more):
    """A run that ends after so many of its own rounds, and writes nothing more."""
    seen = []

    def kill(progress):
        seen.append(progress.passes)
        if len(seen) == rounds:
            raise Killed

    stop = checkpoint_writer.CheckpointSession.stop
    checkpoint_writer.CheckpointSession.stop = lambda session, error: None
    try:
        return train(checkpoint=path, resume=True, callback=kill, **more)
    except (Killed, RefusedElsewhere):
        return None
    finally:
        checkpoint_writer.CheckpointSession.stop = stop


def resumed(folder):
    """Killed again and again, of every other part nothing kept; then bit by bit the same."""
    options = {"tolerance": 1e-5, "max_passes": 8}
    whole, path, found, parts = train(**options), folder / "run.npz", None, 0
    while found is None:
        parts += 1
        seconds = 0.0 if parts % 2 else 3600.0
        found = _killed(path, 1 + parts // 2, checkpoint_seconds=seconds, **options)
    assert parts > 3 and everything(found) == everything(whole)
    held = sorted(each.name for each in folder.glob("run.npz*"))
    assert held == [f"run.npz.process{n}{end}" for n in (0, 1) for end in ("", ".previous")]
    again = train(checkpoint=path, resume=True, **options)
    assert everything(again) == everything(whole)
    return numbers(whole)


def full_disk(folder):
    """One process cannot write: no file of any takes its place, and the run goes on."""
    save = checkpoint_writer.write_checkpoint

    def write(*given):
        if jax.process_index() == 1:
            raise OSError("no space left")
        save(*given)

    checkpoint_writer.write_checkpoint = write
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(checkpoint=folder / "full.npz", checkpoint_seconds=0.0, max_passes=3)
    finally:
        checkpoint_writer.write_checkpoint = save
    assert not list(folder.glob("full.npz*"))
    return [str(each.message) for each in caught if "could not be written" in str(each.message)]


def signals(folder):
    """SIGTERM in one process ends all after the same round, which their files hold."""
    path, seen = folder / "signals.npz", []

    def send(progress):
        seen.append(progress.passes)
        if len(seen) == 2 and jax.process_index() == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    with contextlib.redirect_stderr(io.StringIO()):
        try:
            train(checkpoint=path, callback=send, tolerance=1e-5, max_passes=4)
        except SystemExit as error:
            found = error.code
    solution = train(checkpoint=path, resume=True, tolerance=1e-5, max_passes=4)
    assert everything(solution) == everything(train(tolerance=1e-5, max_passes=4))
    return found, seen


ALONE = ("grown", "hard", "full", "buckets", "paths")
CASES = {
    each.__name__: each
    for each in (
        grown, hard, full, buckets, paths, refused, callbacks,
        resumed, full_disk, signals,
    )
}  # fmt: skip


def main(process, port, folder):
    jax.distributed.initialize(
        f"localhost:{port}", PROCESSES, process, heartbeat_timeout_seconds=300,
        shutdown_timeout_seconds=20,
    )  # fmt: skip
    ends = {}
    with jax.enable_x64(True):
        for name, case in CASES.items():
            print(name, flush=True)
            try:
                ends[name] = [case(folder), ""]
            except Exception:
                ends[name] = [None, traceback.format_exc()]
    (folder / f"{process}.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
