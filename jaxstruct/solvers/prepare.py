"""What every training does first: check arguments, pad examples, try the oracle.

The examples of several processes come in buckets of the same padded shapes. Every process brings
its own examples. Lengths of all decide on the buckets, and the longest of all on the padded sizes.
A process that has no example of a bucket borrows one of another, which is padding there and has no
weight.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import checked_number, checked_size, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import Others, ragged_leaves
from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.loop.host_loop import Rules
from jaxstruct.solvers.loop.progress import check_verbose
from jaxstruct.solvers.n_slack.run import OneDevice, Run, resolved_settings
from jaxstruct.solvers.n_slack.sweeps import SweepBuffers
from jaxstruct.solvers.n_slack.task import Shapes, Task, batch_shapes, make_task, row_index
from jaxstruct.solvers.objective.formulations import Formulation, Objective, formulation_named
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.placement.mesh import Shards, dealt
from jaxstruct.solvers.settings import Settings, batch_and_group, check_settings, examples_to_check
from jaxstruct.solvers.validation import checks
from jaxstruct.solvers.validation.checks import checked_buckets
from jaxstruct.solvers.validation.oracle_rules import Sample, check_oracle, sample_of


def joint_buckets(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    example_weights: np.ndarray | None,
    processes: Processes,
) -> tuple[Buckets, Buckets, np.ndarray]:
    """(inputs, outputs, [P, B] how many examples of each bucket each process has).

    Parts are of this process, in as many buckets as all have. Where its index is empty a part holds
    one borrowed example.

    Raises:
      ValueError: the examples of a process do not fit the problem, or not those of the others.
    """
    # what decides who asks the others for lengths
    processes.check_alike({"the number of ragged stores of inputs": len(ragged_leaves(inputs))})
    others = _others(processes)
    x, y = processes.agree(
        lambda: checked_buckets(problem, inputs, outputs, example_weights, others)
    )
    counts = np.array(processes.gather([len(own) for own in x.index]))
    _check_shapes(processes, x, y)
    return *_with_borrowed(processes, counts, x, y), counts


def _others(processes: Processes) -> Others:
    def every(sizes: np.ndarray) -> np.ndarray:
        parts = processes.gather_bytes(sizes.astype(np.int64).tobytes())
        return np.concatenate([np.frombuffer(part, np.int64) for part in parts])

    def most(lengths: np.ndarray) -> np.ndarray:
        return np.max(np.array(processes.gather(lengths.tolist())), axis=0)

    return Others(every, most)


def _shapes(tree: PyTree) -> dict[str, str]:
    """{key path: dtype and shape of one example}; floats become those of the run."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)

    def of_leaf(leaf: Any) -> str:
        array = np.asarray(leaf)
        kind = "float" if array.dtype.kind == "f" else str(array.dtype)
        return f"{kind} {list(array.shape[1:])}"

    return {jax.tree_util.keystr(path): of_leaf(leaf) for path, leaf in leaves}


def _check_shapes(processes: Processes, x: Buckets, y: Buckets) -> None:
    """Raise ValueError where one example of a bucket has other shapes in another process."""
    own = {}
    for name, buckets in (("inputs", x), ("outputs", y)):
        for number, part in enumerate(buckets.parts):
            if part is not None:
                own[f"{name} of bucket {number}"] = _shapes(part)
    every = processes.gather(own)
    for name in dict.fromkeys(name for each in every for name in each):
        held = [(n, each[name]) for n, each in enumerate(every) if name in each]
        for number, shapes in held[1:]:
            if shapes != held[0][1]:
                raise ValueError(
                    f"an example has {name} {held[0][1]} in process "
                    f"{processes.numbers[held[0][0]]}, {shapes} in process "
                    f"{processes.numbers[number]}: pad them alike, or give ragged stores"
                )


def _with_borrowed(
    processes: Processes, counts: np.ndarray, x: Buckets, y: Buckets
) -> tuple[Buckets, Buckets]:
    """The buckets, one example of another process in those that have none."""
    wanted = np.flatnonzero(np.any(counts == 0, axis=0))
    if not wanted.size:
        return x, y
    lenders = np.argmax(counts > 0, axis=0)
    lent = {}
    for bucket in wanted[lenders[wanted] == processes.here]:
        leaves = jax.tree.leaves((x.parts[bucket], y.parts[bucket]))
        lent |= {f"{bucket} {n}": np.asarray(leaf)[:1] for n, leaf in enumerate(leaves)}
    packed = io.BytesIO()
    np.savez(packed, **lent)
    received = processes.gather_bytes(packed.getvalue())
    structure = jax.tree.structure(
        next(pair for pair in zip(x.parts, y.parts, strict=True) if pair[0] is not None)
    )
    parts = list(zip(x.parts, y.parts, strict=True))
    for bucket in wanted:
        if not counts[processes.here, bucket]:
            with np.load(io.BytesIO(received[lenders[bucket]])) as held:
                leaves = [held[f"{bucket} {n}"] for n in range(structure.num_leaves)]
            parts[bucket] = jax.tree.unflatten(structure, leaves)
    xs, ys = zip(*parts, strict=True)
    return Buckets(xs, x.index), Buckets(ys, y.index)


DEFAULTS = Settings()
CHECKED_EXAMPLES = 4
"""On how many examples an oracle is tried, where no settings say it."""


def checked_rules(
    problem: Problem,
    formulation: str | Formulation,
    C: float,
    tolerance: float | None,
    epsilon: float | None,
    max_passes: int,
    min_margin: float = 1.0,
    settings: Settings = DEFAULTS,
) -> tuple[Formulation, Rules]:
    """(the formulation of this name, when the run ends) of arguments that every trainer takes.

    Raises:
      ValueError: one of them does not fit, there is no stopping rule, or the dtype cannot certify
        the tolerance; the message names it.
    """
    checks.check_is_problem(problem)
    formulation = formulation_named(formulation)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    if tolerance is None and epsilon is None:
        raise ValueError("tolerance and epsilon are both None: give at least one stopping rule")
    stops = {"tolerance": tolerance, "epsilon": epsilon}
    numbers = {"C": C, "min_margin": min_margin} | {k: v for k, v in stops.items() if v is not None}
    for name, value in numbers.items():
        checked_number(name, value, strict=True)
    if tolerance is not None:
        checks.check_certifiable("tolerance", tolerance, dtype)
    checked_size("max_passes", max_passes)
    checks.check_known(problem, formulation)
    check_settings(settings)
    slip = 10 * checks.FINEST.get(str(dtype), 1e-3)
    hard = formulation.penalty == 0
    return formulation, Rules(tolerance, epsilon, max_passes, float(C), hard, slip)


def check_watching(callback: Any, verbose: Any) -> None:
    """Raise ValueError unless these are arguments of `fit`."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of a Progress, got {text_of(callback)}")
    check_verbose(verbose)


class Examples(NamedTuple):
    """The examples of this process, padded.

    Fields:
      task: in the order of buckets. rows: [N] the example of each of its rows, -1 for padding.
      most: of a bucket on one device. sample: those on which the oracle was tried.
    """

    task: Task
    rows: np.ndarray
    most: int
    sample: Sample | None


def prepare_examples(
    objective: Objective,
    shapes_of: Callable[[list[int]], Shapes],
    checked: int = CHECKED_EXAMPLES,
    mesh: Mesh | None = None,
    processes: Processes = ALONE,
) -> Examples:
    """Examples checked, padded, and the oracle tried on a few of them.

    Args:
      shapes_of: the shapes of buckets of so many examples, on each device at most.
      checked: on how many the oracle is tried. processes: of the mesh; all call this alike.

    Raises:
      ValueError: examples do not fit, or the oracle breaks a rule; the message names it.
    """
    problem, inputs, outputs, formulation, _, example_weights = objective
    if processes.several:
        inputs, outputs, held = joint_buckets(problem, inputs, outputs, example_weights, processes)
    else:
        inputs, outputs = checks.checked_buckets(problem, inputs, outputs, example_weights)
        held = np.array([list(map(len, outputs.index))])
    counts = np.max(-(-held // np.array(processes.devices)[:, None]), axis=0).tolist()
    devices, n, shapes = processes.devices[processes.here], int(held.sum()), shapes_of(counts)
    places = None if mesh is None else dealt(outputs, devices, map(math.prod, shapes))
    shapes = [(devices * batches, rows) for batches, rows in shapes]
    in_buckets = objective._replace(inputs=inputs, outputs=outputs)
    task = make_task(in_buckets, shapes, places, n)
    rows = row_index(outputs.index, shapes, places)
    sample = sample_of(problem, inputs, outputs, checked)
    processes.agree(lambda: check_oracle(problem, formulation, sample))
    return Examples(task, rows, max(counts), sample)


def open_run(
    objective: Objective, settings: Settings, mesh: Mesh | None = None, processes: Processes = ALONE
) -> Run:
    """`prepare_run` of arguments that are checked; processes: of the mesh."""
    problem, formulation = objective.problem, objective.formulation
    shards, checked = sum(processes.devices), examples_to_check(problem, settings)
    task, rows, most, sample = prepare_examples(
        objective, lambda counts: batch_shapes(problem, settings, counts, shards), checked, mesh,
        processes,
    )  # fmt: skip
    sizes = batch_and_group(problem, settings, most, shards)
    if mesh is None:
        place = OneDevice(problem, task, sizes)
    else:
        place = Shards(mesh, processes, problem, task, rows, sizes)
    resolved = resolved_settings(problem, settings, place.parts[0], sizes, checked, shards)
    oracle = oracle_for(problem, formulation)
    return Run(problem, formulation, resolved, task, place, rows, oracle, sample, SweepBuffers())


def prepare_run(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    mesh: Mesh | None = None,
) -> Run:
    """What `cutting_plane.init` and `cutting_plane.step` take: the fixed side of a training.

    Args:
      all: as in `fit`.

    Raises:
      ValueError: an argument does not fit, or the problem breaks a rule on a few of the examples;
        the message names it.
    """
    processes = Processes(mesh)
    found, _ = processes.agree(
        lambda: checked_rules(problem, formulation, C, None, 1.0, 1, settings=settings)
    )
    objective = Objective(problem, inputs, outputs, found, C, example_weights)
    return open_run(objective, settings, mesh, processes)
