"""`fit_in_blocks`: training on more examples than memory holds, a block of them at a time.

A checkpoint is a file as that of `fit`, and a folder of planes beside it. The file `run.npz` names
the files of `run.npz.planes` that hold the working sets of its round, each with its sha256. These
are written first and never changed; what neither `run.npz` nor the one before it names is removed.
So a kill at any moment leaves a whole round.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_size, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import Processes
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.block_state import BlockDetails
from jaxstruct.solvers.checkpoints.resuming import fingerprint, in_common
from jaxstruct.solvers.checkpoints.run_state import (
    Checkpoint,
    File,
    check_checkpoint,
    digest_of_tree,
    found_in,
    previous_of,
)
from jaxstruct.solvers.checkpoints.session import CheckpointSession, Content, prepare_folder
from jaxstruct.solvers.loop import host_loop
from jaxstruct.solvers.loop.host_loop import Method, Progress, Round, RunState, StartCounters
from jaxstruct.solvers.loop.progress import training_progress
from jaxstruct.solvers.memory import BLOCK_BYTES, Memory, blocks_within, memory
from jaxstruct.solvers.objective.formulations import Formulation, Objective
from jaxstruct.solvers.out_of_core.block_ascent import BlockAscent
from jaxstruct.solvers.out_of_core.blocks import Blocks
from jaxstruct.solvers.out_of_core.plane_cache import PlaneCache, names_in
from jaxstruct.solvers.prepare import check_watching, checked_rules
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import Solution, solution_of_run
from jaxstruct.solvers.validation.checks import checked_examples, examples_in
from jaxstruct.solvers.validation.oracle_rules import confirm

KIND = "blocks"


def planes_folder(path: str | os.PathLike) -> Path:
    """Where the planes of a checkpoint lie."""
    path = Path(path)
    return path.with_name(path.name + ".planes")


def _names(path: Path) -> set[str]:
    """The files of planes that a checkpoint names; none where it cannot be read."""
    try:
        state = Checkpoint(path, "state").part("state")
    except (OSError, ValueError):
        return set()
    return set() if state is None else names_in(state.planes)


def _content(path: Path, problem: Problem, cache: PlaneCache) -> Content:
    """What the files of a training in blocks hold; its planes are beside them."""
    named: set[str] = set()

    def running(method: Method, now: RunState, last: Round, counters: StartCounters) -> File:
        """The weights of the run; its planes are put into files on the disk."""
        state = now.state if method.adapt is None else method.adapt(now.state, last)
        state = state._replace(planes=cache.in_files(state.planes))
        return File(KIND, now.best.weights, state=state)

    def ended(solution: Solution) -> File:
        """The solution, without planes."""
        return File(KIND, solution.weights, solution)

    def read(checkpoint: Checkpoint, ended: bool) -> tuple[Any, Any]:
        """The planes of a run that goes on are put in the cache."""
        if ended:
            return found_in(checkpoint, problem), None
        state = checkpoint.part("state", problem.initial_weights)
        cache.put_back(state.planes)
        return None, state

    def written() -> None:
        """Note which planes the files name."""
        now = _names(path) | _names(previous_of(path))
        named.clear()
        named.update(now)

    def tidy(ended: bool) -> None:
        """Remove the planes that nobody will ask for; ended: those of the run, too."""
        cache.keep_only(named | (set() if ended else names_in(cache.contents)))
        if ended:
            with contextlib.suppress(OSError):  # not empty: the checkpoint before has planes
                planes_folder(path).rmdir()

    written()
    return Content(running, ended, read, written, tidy)


DEFAULTS = Settings()


def fit_in_blocks(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    blocks: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    folder: str | os.PathLike | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 600.0,
    resume: bool = False,
    tolerance: float | None = 1e-3,
    epsilon: float | None = None,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    max_passes: int = 500,
    min_margin: float = 1e-3,
    callback: Callable[[Progress], bool | None] | None = None,
    verbose: bool | str = False,
) -> Solution:
    """Train a structural SVM on more examples than memory holds.

    The problem is that of `fit`, and so are optimum and certificate:

        min_w 1/2 |w|^2 + (C/n) sum_i v_i xi_i   (SVM1; SVM2 and SVM0 as in `fit`).

    A round reads every block once, in a random order. Its examples are padded as their whole bucket
    would be, so that all blocks share the programs; their planes come out of the cache, there is an
    oracle call an example and a sweep over the examples called, planes go back, w is handed on. The
    rows of the largest duality gaps of all blocks stay at hand for the round, and cached sweeps go
    over these. Every step maximises the dual over some multipliers, so that D
    never falls. A certificate is a pass over all blocks at one w: the terms of all n examples are
    summed, wherever they were made. Only block ascent is there: hard margins and very large C take
    many rounds.

    Args:
      problem: the structure.
      inputs, outputs: of n examples, as `fit` takes them; arrays and the rows of `Ragged` stores
        may be memory-mapped (`jaxstruct.open_store`) and are read block by block.
      formulation, C: as in `fit`.
      blocks: into how many parts; None for as few as let the arrays of one take `block_bytes`.
      block_bytes: of padded examples, working sets and batches of a block, and once more of planes
        at rest.
      folder: where planes at rest go once they take more than `block_bytes`, in files of their own,
        which are removed at the end; None for the system's folder of temporary files. With a
        checkpoint they go to the folder `<checkpoint>.planes`.
      checkpoint, checkpoint_seconds, resume: as in `fit`, but the planes of a checkpoint lie in the
        folder `<checkpoint>.planes`, up to three times: those of the last checkpoint, of the one
        before, and of the run. A run that is stopped goes on after the last whole round.
      tolerance, epsilon, example_weights, max_passes, min_margin, callback, verbose: as in `fit`;
        the state that a callback sees has weights, no planes. With `verbose` the first line is the
        memory that it will take.
      settings: as in `fit`, but for `variant`, which must not be "full".

    Returns:
      A Solution, its details `BlockDetails`; look at its status before its weights.

    Raises:
      OSError: planes cannot be written.
      ValueError: an argument does not fit, or the problem breaks a rule on a few of the examples;
        the message names it.
    """
    given = problem, formulation, C, tolerance, epsilon, max_passes, min_margin, settings
    formulation, rules = checked_rules(*given)
    check_watching(callback, verbose)
    check_checkpoint(checkpoint, checkpoint_seconds, resume, problem)
    kept = checkpoint is not None
    if kept and folder is not None:
        raise ValueError(
            f"folder is {text_of(folder)}, but with a checkpoint planes lie in the folder "
            f"{planes_folder(checkpoint)}: leave folder out"
        )
    examples = problem, inputs, outputs
    count = _checked_count(*examples, settings, example_weights, blocks, block_bytes)
    predicted = memory(*examples, settings, blocks=count, block_bytes=block_bytes)
    if verbose:
        n = examples_in(inputs, outputs)
        sys.stderr.write(f"{count} blocks of {n} examples; memory {predicted}\n")
    words = f"{formulation.name}, C = {float(C):g}"
    with (
        _folder_of_planes(checkpoint, folder) as planes,
        training_progress(max_passes, words, verbose, tolerance) as show,
    ):  # planes of the last checkpoint stay beside those of now
        cache = PlaneCache(count, planes, block_bytes // (2 if kept else 1), kept)
        objective = Objective(*examples, formulation, C, example_weights)
        dealt = Blocks(objective, settings, count)
        ascent = BlockAscent(dealt, rules, cache, example_weights, min_margin)
        digests: list[tuple[str, ...]] = []
        ascent.open(settings, lambda *own: kept and digests.append(tuple(map(digest_of_tree, own))))
        session = None
        if checkpoint is not None:
            common = in_common(problem, ascent.settings, formulation, rules, min_margin)
            xs, ys = map(digest_of_tree, zip(*digests, strict=True))
            devices = jnp.zeros(()).devices()
            own = fingerprint(common, devices, xs, ys, example_weights, blocks=count)
            content, seconds = _content(Path(checkpoint), problem, cache), float(checkpoint_seconds)
            session = CheckpointSession(checkpoint, seconds, own, content, Processes())
            if resume:
                session.read(problem)
        notify = host_loop.notifying_callback(Processes(), show, callback)
        return _train(ascent, predicted, session, notify)


def _train(
    ascent: BlockAscent,
    predicted: Memory,
    session: CheckpointSession | None,
    notify: Callable[[Progress], bool | None],
) -> Solution:
    """The host loop from its beginning, or from where the session has found the run."""
    state, counters, found = ascent.begin(), host_loop.begin(), session and session.found
    first = host_loop.run_state_at(state, state.weights)
    if found is not None:
        if found.run is None or found.counters is None:
            return found.solution
        first, counters = found.run, found.counters

    def solution_of(now: RunState, status: Status) -> Solution:
        cache, form, best = ascent.cache, ascent.formulation, now.best
        status = confirm(status, ascent.problem, form, ascent.run.sample, best.weights)
        kept, support = int(cache.planes.sum()), int(cache.carrying.sum())
        counts = host_loop.statistics(now, counters, kept, support, now.state.capacity)
        details = BlockDetails(ascent.blocks.count, predicted)
        return solution_of_run(best, status, counts, form.name, ascent.rules.C, details=details)

    given = ascent.method(), first, ascent.rules, counters, notify
    if session is not None:
        return session.solve(*given, solution_of)
    return solution_of(*host_loop.solve(*given))


@contextlib.contextmanager
def _folder_of_planes(
    checkpoint: str | os.PathLike | None, folder: str | os.PathLike | None
) -> Iterator[Path]:
    """Where files of planes go: beside the checkpoint, or for the run alone."""
    if checkpoint is None:
        with tempfile.TemporaryDirectory(prefix="jaxstruct_planes_", dir=folder) as own:
            yield Path(own)
    else:
        prepare_folder(checkpoint)
        planes_folder(checkpoint).mkdir(exist_ok=True)
        yield planes_folder(checkpoint)


def _checked_count(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    settings: Settings,
    example_weights: Any,
    blocks: Any,
    block_bytes: Any,
) -> int:
    """How many blocks there are.

    Raises:
      ValueError: an argument does not fit, or there are more blocks than examples.
    """
    if settings.variant == "full":
        raise ValueError(
            'settings.variant is "full", but a block of the examples has no Newton step over all '
            'working sets: use "auto" or "subspace", or fit, where memory allows'
        )
    n = checked_examples(inputs, outputs, example_weights)
    checked_size("block_bytes", block_bytes)
    if blocks is None:
        return blocks_within(problem, inputs, outputs, settings, block_bytes)
    if checked_size("blocks", blocks) > n:
        raise ValueError(f"blocks is {text_of(blocks)}, but there are {n} examples: give fewer")
    return int(blocks)
