"""Training on several devices: where rows lie, and the programs that run on all shards at once.

Every bucket is cut into as many parts as the mesh has devices, of about one cost. A device holds
its part of the examples, of their working sets and of their dual variables; w is the same on all.
Arrays by bucket keep their order, shard after shard inside a bucket. Flat arrays [N, ...] over all
buckets lie shard after shard, bucket after bucket inside a shard: so each device sees a task of its
own, and the programs of one device serve it as they are.

Devices may belong to several processes. Each of them then has the examples of its own devices on
the host, and plans for these; a few numbers of every example are the same on all hosts.

`training_device` puts a small training on the CPU beside a card, where it is sooner there.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxstruct.core.buckets import Buckets, bucket_slices
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import runs_on_cpu
from jaxstruct.core.processes import Processes
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.oracle_pass import (
    OracleOptions,
    OracleReport,
    PassCounts,
    oracle_pass,
)
from jaxstruct.solvers.n_slack.proximal_newton import Axes, NewtonResult, proximal_newton_pass
from jaxstruct.solvers.n_slack.run import OneDevice, State
from jaxstruct.solvers.n_slack.sweeps import sweeps_pass
from jaxstruct.solvers.n_slack.task import Places, Task, sizes_of
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms
from jaxstruct.solvers.placement.exchange import Exchange, exchanging_pass
from jaxstruct.solvers.settings import VisitOptions


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
    problem: Problem, options: OracleOptions, mesh: Mesh, *given: Any
) -> tuple[WorkingSets, OracleReport, PassCounts]:
    """`oracle_pass` on every shard; spans are [K] numbers, one a shard.

    given: what the pass takes after its options.
    """

    def own(problem: Problem, *own: Any) -> tuple[WorkingSets, OracleReport, PassCounts]:
        task, w, sets, report, calls = own
        calls = calls._replace(spans=_first(calls.spans))
        sets, report, counts = oracle_pass(problem, options, task, w, sets, report, calls)
        return sets, report, jax.lax.psum(counts, mesh.axis_names)

    task, w, sets, report, calls = given
    kept = _along(mesh, (sets, report))
    specs = _on_all(problem), _along(mesh, task), _on_all(w), *kept, _along(mesh, calls)
    return jax.shard_map(
        own, mesh=mesh, in_specs=specs, out_specs=(*kept, PartitionSpec()), check_vma=False
    )(problem, *given)


def sweeps_on_shards(
    problem: Problem, options: VisitOptions, mesh: Mesh, synchronisations: int, task: Task,
    w: PyTree, *given: Any,
) -> tuple[PyTree, Array, Array, Array, list]:  # fmt: skip
    """`sweeps_pass` on every shard, which meet in w; groups are [K] numbers, one a shard.

    given: what the pass takes after w.
    """
    exchange = Exchange(tuple(mesh.axis_names), synchronisations)

    def own(problem: Problem, task: Task, w: PyTree, *own: Any) -> tuple:
        sets, plan, scratch = own
        plan = plan._replace(groups=_first(plan.groups))
        one_sweep = partial(exchanging_pass, exchange)
        return sweeps_pass(problem, options, task, w, sets, plan, scratch, one_sweep)

    numbers, weights, specs = PartitionSpec(mesh.axis_names), _on_all(w), _along(mesh, given)
    return jax.shard_map(
        own, mesh=mesh, in_specs=(_on_all(problem), _along(mesh, task), weights, *specs),
        out_specs=(weights, numbers, numbers, PartitionSpec(), specs[-1]), check_vma=False,
    )(problem, task, w, *given)  # fmt: skip


def newton_on_shards(problem: Problem, mesh: Mesh, *given: Any) -> NewtonResult:
    """`proximal_newton_pass` over all shards; w is made of the span.

    given: what the pass takes after the problem, but for w.
    """

    def own(problem: Problem, task: Task, *own: Any) -> NewtonResult:
        of_mesh = partial(proximal_newton_pass, axes=Axes(tuple(mesh.axis_names)))
        return of_mesh(problem, task, None, *own)

    specs, same = _along(mesh, given), PartitionSpec()
    numbers, weights = PartitionSpec(mesh.axis_names), _on_all(problem.initial_weights)
    found: Any = weights, numbers, specs[2], numbers, numbers, same, same
    return jax.shard_map(
        own, mesh=mesh, in_specs=(_on_all(problem), *specs), out_specs=NewtonResult(*found),
        check_vma=False,
    )(problem, *given)  # fmt: skip


oracle_shards_program = program(oracle_on_shards, static_argnums=(1, 2), donate_argnums=(5, 6))
sweeps_shards_program = program(sweeps_on_shards, static_argnums=(1, 2, 3), donate_argnums=8)
newton_shards_program = program(newton_on_shards, static_argnums=1)


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


def dealt(outputs: Buckets, shards: int, rows: Iterable[int]) -> Places:
    """Which example each row of each bucket holds, shard after shard, by the sizes of outputs.

    Where each of several processes deals out what K shards of a mesh in one process would hold, to
    its own part of these, in their order, they hold the same again. None without a mesh: examples
    keep their order.

    Args:
      shards: of this process. rows: of each shard, by bucket.
    """
    return [
        deal(sizes_of(part)[: len(own)], shards, each)
        for part, own, each in zip(outputs.parts, outputs.index, rows, strict=True)
    ]


class Shards(OneDevice):
    """Where the rows of a task lie on a mesh, and how to move between orders.

    Fields:
      mesh: of one axis, the devices of one process after those of another.
      task: flat arrays lie shard after shard. parts: of NumPy arrays. terms: shard after shard.
      others: of `OneDevice`; a part is a shard.
    """

    def __init__(
        self,
        mesh: Mesh,
        processes: Processes,
        problem: Problem,
        whole: Task,
        examples: np.ndarray,
        sizes: tuple[int, int],
    ) -> None:
        """Place a task whose buckets hold their shards one after the other, on the host so far.

        Args:
          mesh: of any axes. processes: whose it is. sizes: of `batch_and_group`.
          whole: the part of this process.
          examples: [N] the example of each of its rows, -1 where it is padding, which comes last
            in each part of a bucket.
        """
        devices = sorted(mesh.devices.flat, key=lambda device: device.process_index)
        owners = [device.process_index for device in devices]
        here = processes.numbers[processes.here]
        self.mesh, self.processes = Mesh(np.array(devices), ("shards",)), processes
        self.first = owners.index(here)
        self._own = devices[self.first : self.first + owners.count(here)]
        count = len(self._own)
        places = bucket_slices(whole.outputs)
        rows = [(own.stop - own.start) // count for own in places]
        self._sizes = [sum(rows) * owners.count(number) for number in processes.numbers]
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
        terms = host.own_terms(self._order)
        super().__init__(
            self.put_on_all(problem),
            self.put(host._replace(terms=terms)),
            sizes,
            [(self.first + shard,) for shard in range(count)],  # whatever process has a shard
            tuple(self._part(host, shard, examples) for shard in range(count)),
            terms._replace(cap=self.gathered(terms.cap), ridge=self.gathered(terms.ridge)),
            processes,
            self.first,
        )

    def _part(self, host: Task, shard: int, examples: np.ndarray) -> Task:
        def cut(leaf: np.ndarray) -> np.ndarray:
            each = leaf.shape[0] // len(self._own)
            return leaf[shard * each : (shard + 1) * each]

        own = cut(self._order)
        inputs, outputs = jax.tree.map(cut, (host.inputs, host.outputs))
        real = examples[own] >= 0
        counts = tuple(np.int32(np.sum(real[place])) for place in bucket_slices(outputs))
        return Task(inputs, outputs, host.own_terms(own), counts)

    def call_oracles(
        self, options: OracleOptions, *given: Any
    ) -> tuple[WorkingSets, OracleReport, PassCounts]:
        """`oracle_on_shards` here."""
        return oracle_shards_program(self.problem, options, self.mesh, self.task, *given)

    def sweep(
        self, options: VisitOptions, synchronisations: int, *given: Any
    ) -> tuple[PyTree, Array, Array, Array, list]:
        """`sweeps_on_shards` here."""
        return sweeps_shards_program(
            self.planes, options, self.mesh, synchronisations, self.task, *given
        )

    def newton(self, w: PyTree | None, *given: Any) -> NewtonResult:
        """`newton_on_shards` here, which makes w of the span in any case."""
        return newton_shards_program(self.problem, self.mesh, self.task, *given)

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this process, on its shards; scalars on all devices."""

        def place(leaf: AnyArray) -> Array:
            if np.ndim(leaf) == 0:
                return self._on_all(leaf)
            if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
                return leaf  # it is there
            if not np.size(leaf):
                rows = self.mesh.size * len(leaf) // len(self._own)
                return self.zeros((rows, *leaf.shape[1:]), leaf.dtype)
            if not self.processes.several:
                return jax.device_put(leaf, self._sharding)
            own = np.split(np.asarray(leaf), len(self._own))
            parts = list(map(jax.device_put, own, self._own))
            shape = (self.mesh.size * own[0].shape[0], *own[0].shape[1:])
            return jax.make_array_from_single_device_arrays(shape, self._sharding, parts)

        return jax.tree.map(place, tree)

    def put_on_all(self, tree: PyTree) -> PyTree:
        """The same arrays on every device."""
        return jax.tree.map(self._on_all, tree)

    def _on_all(self, leaf: AnyArray) -> Array:
        if not self.processes.several:
            return jax.device_put(leaf, self._same)
        leaf = np.asarray(jax.device_put(leaf) if np.isscalar(leaf) else leaf)
        parts = [jax.device_put(leaf, device) for device in self._own]
        return jax.make_array_from_single_device_arrays(leaf.shape, self._same, parts)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros over the rows of all, on their shards, which a program can take over."""
        if not math.prod(shape):  # XLA returns it on all devices: from elsewhere it compiles anew
            return self._on_all(np.zeros(shape, dtype))
        own = (shape[0] // self.mesh.size, *shape[1:])
        parts = []
        for device in self._own:
            zeros = jax.device_put(np.zeros(own, dtype), device)
            parts.append(jax.device_put(zeros, device, may_alias=False))
        return jax.make_array_from_single_device_arrays(shape, self._sharding, parts)

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each shard, as arrays over the shards; scalars become [K]."""

        def both(*leaves: AnyArray) -> Array:
            return self.put(np.concatenate([np.atleast_1d(leaf) for leaf in leaves]))

        return jax.tree.map(both, *parts)

    def own(self, tree: PyTree) -> PyTree:
        """Arrays over the shards on the host, the rows of this process alone; scalars and arrays
        that are on all devices as they are."""

        def fetch(leaf: AnyArray) -> np.ndarray:
            of_others = isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
            if not of_others or leaf.is_fully_replicated:
                return np.asarray(leaf)
            parts = sorted(leaf.addressable_shards, key=lambda part: part.index[0].start)
            return np.concatenate([np.asarray(part.data) for part in parts])

        return jax.tree.map(fetch, tree)

    def gathered(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this process as arrays over all rows, on every host."""
        return jax.tree.map(lambda leaf: self.processes.gather_rows(leaf, self._sizes), tree)

    def on_hosts(self, numbers: AnyArray) -> ExampleTerms:
        """What oracle calls said of all rows, on every host; one message."""
        own = self.own(numbers)
        return ExampleTerms.of_columns(self.gathered(own) if self.processes.several else own)

    def agreed(self, certificate: Certificate) -> Certificate:
        """The certificate of the first process; one message."""
        return Certificate(*self.processes.gather_numbers(certificate)[0].tolist())

    def in_buckets(self, flat: AnyArray) -> np.ndarray:
        """A flat array [N, ...] over the shards in the order of buckets, of this process."""
        return self.own(flat)[self._back]

    def begin(self, states: Sequence[State]) -> State:
        """The state of all shards, from one of each."""
        sets = self.join([state.sets for state in states])
        return states[0]._replace(weights=self.put_on_all(states[0].weights), sets=sets)

    def place(self, state: State) -> State:
        """A state in the order of buckets, on the mesh."""
        flat = state.sets._replace(outputs=(), gram=()), state.slots, state.span, state.block_gaps
        *flat, gaps = jax.tree.map(lambda leaf: np.asarray(leaf)[self._order], flat)
        sets, slots, span = self.put(flat)
        outputs, gram = self.put((state.sets.outputs, state.sets.gram))
        return state._replace(
            weights=self.put_on_all(jax.tree.map(np.asarray, state.weights)),
            sets=sets._replace(outputs=outputs, gram=gram),
            block_gaps=self.gathered(gaps),
            slots=slots,
            span=span,
        )

    def taken(self, tree: PyTree) -> PyTree:
        """Arrays that are on all devices, or over the shards, as they are, on one device."""
        return jax.tree.map(jax.device_put, self.own(tree))

    def _own_gram(self, block: Array) -> np.ndarray:
        """The rows of this process. XLA holds an array without entries, as enumerated working sets
        have it, on all devices, whole."""
        own = self.own(block)
        return own if block.size else own[: len(block) * len(self._own) // self.mesh.size]

    def end(self, state: State) -> State:
        """A state of the mesh in the order of buckets, on one device; of this process."""
        flat = state.sets._replace(outputs=(), gram=()), state.slots, state.span
        sets, slots, span = jax.tree.map(lambda leaf: jax.device_put(self.in_buckets(leaf)), flat)
        gram = tuple(jax.device_put(self._own_gram(block)) for block in state.sets.gram)
        gaps = state.block_gaps
        if gaps is not None:
            begin = sum(self._sizes[: self.processes.here])
            gaps = gaps[begin : begin + self.rows][self._back]
        return state._replace(
            weights=self.taken(state.weights),
            sets=sets._replace(outputs=self.taken(state.sets.outputs), gram=gram),
            block_gaps=gaps,
            slots=slots,
            span=span,
        )


FOR_A_CARD = 1 << 22
"""Numbers of features from which a training is left to a card. One H100 (JAX 0.11.2) took 1.9 s
where a core beside it took 3.0 of 15.7 million (20,000 x 784), but 2.2 s for .25 of .1 million
(digits), 5.3 for 1.25 of handwritten words; in between nothing was measured."""


def host() -> Any:
    """The CPU of this machine; None where JAX may not use it."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return None


@contextlib.contextmanager
def training_device(inputs: PyTree) -> Iterator[None]:
    """Within, programs run where a training on these inputs is sooner: see the module.

    The device stays as it is where `jax.default_device` says one, or where arrays of JAX are among
    the inputs, since the caller has put those somewhere.
    """
    leaves = [leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in jax.tree.leaves(inputs)]
    chosen = jax.config.jax_default_device is not None
    placed = chosen or any(isinstance(leaf, jax.Array) for leaf in leaves)
    small = sum(map(np.size, leaves)) < FOR_A_CARD
    beside = host() if small and not placed and not runs_on_cpu() else None
    with contextlib.nullcontext() if beside is None else jax.default_device(beside):
        yield
