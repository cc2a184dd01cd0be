"""Training on several devices: where rows lie, and the programs that run on all shards at once.

Every bucket is cut into as many parts as the mesh has devices, of about one cost. A device holds
its part of the examples, of their working sets and of their dual variables; w is the same on all.
Arrays by bucket keep their order, shard after shard inside a bucket. Flat arrays [N, ...] over all
buckets lie shard after shard, bucket after bucket inside a shard: so each device sees a task of its
own, and the programs of one device serve it as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.checks import text_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.exchange import Exchange, exchanging_pass
from jaxstruct.solvers.oracle_pass import (
    Calls,
    OracleOptions,
    OracleReport,
    PassCounts,
    oracle_pass,
)
from jaxstruct.solvers.settings import Settings, VisitOptions
from jaxstruct.solvers.state import State
from jaxstruct.solvers.sweeps import Plan, sweeps_pass
from jaxstruct.solvers.task import Places, Task, sizes_of
from jaxstruct.solvers.working_sets import WorkingSets


def check_mesh(mesh: Any, settings: Settings) -> None:
    """Raise ValueError unless it is None or a mesh of this process, with settings for it."""
    if mesh is None:
        return
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"mesh must be a jax.sharding.Mesh or None, got {text_of(mesh)}: "
            'jax.make_mesh((jax.device_count(),), ("shards",)) is one of all devices'
        )
    others = {device.process_index for device in mesh.devices.flat} - {jax.process_index()}
    if others:
        raise ValueError(
            f"mesh has devices of the processes {sorted(others)}, expected those of this one "
            "alone: use jax.local_devices()"
        )
    if settings.variant == "full":
        raise ValueError(
            'variant is "full", but on a mesh there is block ascent alone: leave it at "auto"'
        )


def _along(mesh: Mesh, tree: PyTree) -> PyTree:
    """The specs of arrays whose leading axis lies over the shards; scalars are on all."""
    spec = PartitionSpec(mesh.axis_names)
    return jax.tree.map(lambda leaf: spec if jnp.ndim(leaf) else PartitionSpec(), tree)


def _on_all(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda _: PartitionSpec(), tree)


def _first(tree: PyTree) -> PyTree:
    """The one number of this shard, in place of arrays [1]."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


def oracle_on_shards(
    problem: Problem,
    options: OracleOptions,
    mesh: Mesh,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    report: OracleReport,
    calls: Calls,
) -> tuple[WorkingSets, OracleReport, PassCounts]:
    """`oracle_pass` on every shard; spans are [K] numbers, one a shard."""

    def own(
        problem: Problem,
        task: Task,
        w: PyTree,
        sets: WorkingSets,
        report: OracleReport,
        calls: Calls,
    ) -> tuple[WorkingSets, OracleReport, PassCounts]:
        calls = calls._replace(spans=_first(calls.spans))
        sets, report, counts = oracle_pass(problem, options, task, w, sets, report, calls)
        return sets, report, jax.lax.psum(counts, mesh.axis_names)

    given = (problem, task, w, sets, report, calls)
    along = [_along(mesh, tree) for tree in given]
    along[0], along[2] = _on_all(problem), _on_all(w)
    counted = PartitionSpec()
    return jax.shard_map(
        own, mesh=mesh, in_specs=tuple(along), out_specs=(along[3], along[4], counted),
        check_vma=False,
    )(*given)  # fmt: skip


def sweeps_on_shards(
    problem: Problem,
    options: VisitOptions,
    mesh: Mesh,
    meetings: int,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    slots: Array,
    plan: Plan,
    clock: AnyArray,
    room: list,
) -> tuple[PyTree, Array, Array, list]:
    """`sweeps_pass` on every shard, which meet in w; groups are [K] numbers, one a shard."""
    exchange = Exchange(tuple(mesh.axis_names), meetings)

    def own(
        problem: Problem, task: Task, w: PyTree, sets: WorkingSets, slots: Array, plan: Plan,
        clock: AnyArray, room: list,
    ) -> tuple[PyTree, Array, Array, list]:  # fmt: skip
        plan = plan._replace(groups=_first(plan.groups))
        one_sweep = partial(exchanging_pass, exchange)
        return sweeps_pass(problem, options, task, w, sets, slots, plan, clock, room, one_sweep)

    given = (problem, task, w, sets, slots, plan, clock, room)
    along = [_along(mesh, tree) for tree in given]
    along[0], along[2] = _on_all(problem), _on_all(w)
    spec = PartitionSpec(mesh.axis_names)
    return jax.shard_map(
        own, mesh=mesh, in_specs=tuple(along), out_specs=(along[2], spec, spec, along[7]),
        check_vma=False,
    )(*given)  # fmt: skip


oracle_shards_program = program(oracle_on_shards, static_argnums=(1, 2), donate_argnums=(5, 6))
sweeps_shards_program = program(sweeps_on_shards, static_argnums=(1, 2, 3), donate_argnums=10)


def deal(sizes: np.ndarray, shards: int, rows: int) -> np.ndarray:
    """[shards rows] which example each row of a bucket holds, -1 for none.

    The largest go first, to and fro over the shards: each has about the same sum of sizes, and
    numbers of examples that differ by one at most.

    Args:
      sizes: [n] what an example costs. rows: of each shard, at least ceil(n / shards).
    """
    ranked = np.argsort(-np.asarray(sizes), kind="stable")
    laps = -(-len(ranked) // shards)
    lap = np.full(laps * shards, -1)
    lap[: len(ranked)] = ranked
    lap = lap.reshape(laps, shards)
    lap[1::2] = lap[1::2, ::-1]
    held = np.full((shards, rows), -1)
    for shard, own in enumerate(lap.T):
        own = np.sort(own[own >= 0])
        held[shard, : len(own)] = own
    return held.reshape(-1)


def dealt(parts: tuple[PyTree, ...], shards: int, rows: list[int]) -> Places:
    """Which example each row of each bucket holds, shard after shard, by the sizes of outputs.

    Args:
      parts: outputs by bucket. rows: of each shard, by bucket.
    """
    return [
        deal(sizes_of(outputs), shards, each) for outputs, each in zip(parts, rows, strict=True)
    ]


class Shards:
    """Where the rows of a task lie on a mesh, and how to move between orders.

    Fields:
      mesh: of one axis. task: the task on the mesh, its flat arrays shard after shard.
      parts: the shards as tasks of NumPy arrays on the host.
    """

    def __init__(self, mesh: Mesh, whole: Task, examples: np.ndarray) -> None:
        """Place a task whose buckets hold their shards one after the other, on the host so far.

        Args:
          mesh: of any axes.
          examples: [N] the example of each of its rows, -1 where it is padding, which comes last
            in each part of a bucket.
        """
        self.mesh, count = Mesh(mesh.devices.reshape(-1), ("shards",)), mesh.size
        places = bucket_slices(whole.outputs)
        rows = [(own.stop - own.start) // count for own in places]
        order = [
            own.start + shard * each + np.arange(each)
            for shard in range(count)
            for own, each in zip(places, rows, strict=True)
        ]
        self._order = np.concatenate(order)
        self._back = np.argsort(self._order)
        self._sharding = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))
        self._same = NamedSharding(self.mesh, PartitionSpec())
        host = jax.tree.map(np.asarray, whole._replace(counts=None))
        self.parts = tuple(self._part(host, shard, examples) for shard in range(count))
        terms = jax.tree.map(lambda leaf: leaf[self._order] if leaf.ndim else leaf, host.terms)
        self.task = self.put(host._replace(terms=terms))

    def _part(self, host: Task, shard: int, examples: np.ndarray) -> Task:
        def cut(leaf: np.ndarray) -> np.ndarray:
            each = leaf.shape[0] // self.mesh.size
            return leaf[shard * each : (shard + 1) * each]

        each = len(self._order) // self.mesh.size
        own = self._order[shard * each : (shard + 1) * each]
        terms = jax.tree.map(lambda leaf: leaf[own] if leaf.ndim else leaf, host.terms)
        inputs, outputs = jax.tree.map(cut, (host.inputs, host.outputs))
        real = examples[own] >= 0
        counts = tuple(np.int32(np.sum(real[place])) for place in bucket_slices(outputs))
        return Task(inputs, outputs, terms, counts)

    def call_oracles(
        self, problem: Problem, options: OracleOptions, *given: Any, effort: str
    ) -> tuple[WorkingSets, OracleReport, PassCounts]:
        """`oracle_on_shards` here."""
        return oracle_shards_program(problem, options, self.mesh, *given, effort=effort)

    def sweep(
        self, planes: Problem, options: VisitOptions, meetings: int, *given: Any, effort: str
    ) -> tuple[PyTree, Array, Array, list]:
        """`sweeps_on_shards` here."""
        return sweeps_shards_program(planes, options, self.mesh, meetings, *given, effort=effort)

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over the shards by their leading axis; scalars on all devices."""

        def place(leaf: AnyArray) -> Array:
            return jax.device_put(leaf, self._sharding if np.ndim(leaf) else self._same)

        return jax.tree.map(place, tree)

    def put_on_all(self, tree: PyTree) -> PyTree:
        """The same arrays on every device."""
        return jax.device_put(tree, self._same)

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each shard, as arrays over the shards; scalars become [K]."""

        def both(*leaves: AnyArray) -> Array:
            return self.put(np.concatenate([np.atleast_1d(leaf) for leaf in leaves]))

        return jax.tree.map(both, *parts)

    def in_shards(self, sets: WorkingSets) -> WorkingSets:
        """Working sets in the order of buckets, placed."""
        flat = sets._replace(outputs=(), gram=())
        flat = jax.tree.map(lambda leaf: np.asarray(leaf)[self._order], flat)
        return self.put(flat._replace(outputs=sets.outputs, gram=sets.gram))

    def in_buckets(self, flat: AnyArray) -> np.ndarray:
        """A flat array [N, ...] of the mesh in the order of buckets, on the host."""
        return np.asarray(flat)[self._back]

    def begin(self, states: Sequence[State]) -> State:
        """The state of all shards, from one of each."""
        sets = self.join([state.sets for state in states])
        return states[0]._replace(weights=self.put_on_all(states[0].weights), sets=sets)

    def place(self, state: State) -> State:
        """A state in the order of buckets, on the mesh."""
        weights = self.put_on_all(jax.tree.map(np.asarray, state.weights))
        gaps, slots = state.block_gaps, state.slots
        return state._replace(
            weights=weights,
            sets=self.in_shards(state.sets),
            block_gaps=None if gaps is None else np.asarray(gaps)[self._order],
            slots=None if slots is None else self.put(np.asarray(slots)[self._order]),
        )

    def taken(self, tree: PyTree) -> PyTree:
        """Arrays of the mesh, as they are, on one device."""
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)), tree)

    def end(self, state: State) -> State:
        """A state of the mesh in the order of buckets, on one device."""
        flat = state.sets._replace(outputs=(), gram=())
        flat = jax.tree.map(lambda leaf: jax.device_put(self.in_buckets(leaf)), flat)
        outputs, gram = self.taken((state.sets.outputs, state.sets.gram))
        sets = flat._replace(outputs=outputs, gram=gram)
        gaps = None if state.block_gaps is None else self.in_buckets(state.block_gaps)
        slots = None if state.slots is None else jax.device_put(self.in_buckets(state.slots))
        return state._replace(
            weights=self.taken(state.weights), sets=sets, block_gaps=gaps, slots=slots
        )
