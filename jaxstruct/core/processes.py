"""Several processes that train together: what their hosts send each other.

The devices of a mesh may belong to several processes (`jax.distributed.initialize`). What programs
exchange moves from device to device inside them. Here moves what hosts decide by: who refuses what
he was given, what must be alike, a few numbers an example. All processes call the same methods in
the same order; whatever one of them raises at such a place is raised by all.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsFloat, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxstruct.core.checks import text_of
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import Array

Value = TypeVar("Value")
_VALUE, _ERROR = b"v", b"e"


class RefusedElsewhere(ValueError):
    """What this process was given is fine, and another one has raised an error."""


def _check_mesh(mesh: Any) -> None:
    """Raise ValueError unless it is a mesh on which this process has a device."""
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"mesh must be a jax.sharding.Mesh or None, got {text_of(mesh)}: "
            'jax.make_mesh((jax.device_count(),), ("shards",)) is one of all devices'
        )
    owners = {device.process_index for device in mesh.devices.flat}
    if jax.process_index() not in owners:
        raise ValueError(
            f"mesh has devices of the processes {sorted(owners)}, none of this one, "
            f"{jax.process_index()}: call fit in those processes alone"
        )


class Processes:
    """The processes that a mesh belongs to, by their numbers.

    Fields:
      numbers: of `jax.process_index`, rising. here: which of them this one is.
      devices: how many each has on the mesh.
      settled: the last error that all of them have raised at one place.
    """

    def __init__(self, mesh: Mesh | None = None) -> None:
        """Of a mesh on which this process has a device; None for this process alone.

        Raises:
          ValueError: it is no such mesh.
        """
        self._firsts: list[Any] = []
        self.numbers, self.here = (0,), 0
        self.devices: tuple[int, ...] = (1,)
        self.settled: BaseException | None = None
        if mesh is None:
            return
        _check_mesh(mesh)
        firsts = {}
        for device in mesh.devices.flat:
            firsts.setdefault(device.process_index, device)
        self.numbers = tuple(sorted(firsts))
        owners = [device.process_index for device in mesh.devices.flat]
        self.devices = tuple(map(owners.count, self.numbers))
        self.here = self.numbers.index(jax.process_index())
        self._firsts = [firsts[number] for number in self.numbers]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.numbers)

    @property
    def several(self) -> bool:
        """Whether there is more than this one."""
        return len(self.numbers) > 1

    @property
    def leads(self) -> bool:
        """Whether this is the first one, which decides what clocks decide, and shows progress."""
        return self.here == 0

    def _gather(self, own: np.ndarray) -> np.ndarray:
        """[P, m] the bytes [m] of each, m the same in all."""
        if not self.several:
            return own[None]
        mesh = Mesh(np.array(self._firsts), ("processes",))
        part = jax.device_put(own[None], self._firsts[self.here])
        along = NamedSharding(mesh, PartitionSpec("processes"))
        whole = jax.make_array_from_single_device_arrays((len(self), own.size), along, [part])
        return np.asarray(_copied_to_all(NamedSharding(mesh, PartitionSpec()))(whole))

    def _gather_arrays(self, own: np.ndarray) -> np.ndarray:
        """[P, ...] the array of each, of one shape and dtype in all."""
        found = self._gather(np.ascontiguousarray(own).reshape(-1).view(np.uint8))
        return found.view(own.dtype).reshape(len(self), *own.shape)

    def gather_bytes(self, own: bytes, kind: bytes = _VALUE) -> list[bytes]:
        """The bytes that each has, of any lengths.

        Raises:
          RefusedElsewhere: another process has met an error before it came here.
        """
        if not self.several:
            return [own]
        own = kind + own
        sizes = self._gather_arrays(np.array([len(own)]))[:, 0]
        padded = np.zeros(size_class(int(sizes.max()), 64), np.uint8)
        padded[: len(own)] = np.frombuffer(own, np.uint8)
        rows = zip(self._gather(padded), sizes, strict=True)
        found = [row[:size].tobytes() for row, size in rows]
        wrong = [(n, each) for n, each in enumerate(found) if each[:1] == _ERROR]
        if wrong and kind == _VALUE:
            number, words = wrong[0]
            self.settled = RefusedElsewhere(
                f"process {self.numbers[number]} has refused what it was given: "
                f"{words[1:].decode(errors='replace')}"
            )
            raise self.settled
        return [each[1:] for each in found]

    def gather(self, own: Any) -> list[Any]:
        """What each has, of plain numbers, texts, lists and records, as JSON has it."""
        if not self.several:
            return [own]
        return [json.loads(each) for each in self.gather_bytes(json.dumps(own).encode())]

    def gather_numbers(self, own: Sequence[float]) -> np.ndarray:
        """[P, m] float64, the m numbers of each, as many in all."""
        return self._gather_arrays(np.array(own, np.float64))

    def total(self, own: SupportsFloat) -> float:
        """The sum over all."""
        return float(np.sum(self.gather_numbers([float(own)])))

    def any(self, own: bool) -> bool:
        """Whether it is so in one of them."""
        return bool(np.any(self.gather_numbers([own])))

    def sum_arrays(self, own: np.ndarray) -> np.ndarray:
        """The sum over all, in the dtype of the arrays, from the first one to the last."""
        if not self.several:
            return own
        total = np.zeros_like(own)
        for part in self._gather_arrays(own):
            total = total + part
        return total

    def gather_rows(self, own: np.ndarray, counts: Sequence[int]) -> np.ndarray:
        """[N, ...] the rows of all, one process after the other.

        Args:
          own: [N_p, ...]. counts: N_p of each.
        """
        if not self.several:
            return own
        padded = np.zeros((max(counts), *own.shape[1:]), own.dtype)
        padded[: len(own)] = own
        found = zip(self._gather_arrays(padded), counts, strict=True)
        return np.concatenate([rows[:count] for rows, count in found])

    def agree(self, act: Callable[[], Value]) -> Value:
        """What `act` returns, unless it raises in one of them: then all raise.

        Raises:
          RefusedElsewhere: it raised in another process; the message has that one's words.
        """
        if not self.several:
            return act()
        try:
            found = act()
        except RefusedElsewhere:  # every process knows
            raise
        except Exception as error:
            self.fail(error)
            raise
        self.gather_bytes(b"")
        return found

    def fail(self, error: BaseException) -> None:
        """Send an error to the others, which meet here or wait in `gather_bytes`."""
        if self.several:
            self.gather_bytes(f"{type(error).__name__}: {error}".encode(), _ERROR)
            self.settled = error

    def check_alike(self, own: Mapping[str, Any]) -> None:
        """Raise ValueError in all of them where what they give differs.

        Args:
          own: plain values by name.
        """
        every = self.gather(dict(own))
        names = [name for name in every[0] if any(e[name] != every[0][name] for e in every)]
        if names:
            unlike = "; ".join(self._difference(name, [e[name] for e in every]) for name in names)
            raise ValueError(f"the processes of the mesh must be given the same, but {unlike}")

    def _difference(self, name: str, values: list[Any]) -> str:
        other = next(n for n, value in enumerate(values) if value != values[0])
        said = [text_of(values[n]) for n in (0, other)]
        return (
            f"{name} is {said[0]} in process {self.numbers[0]}, {said[1]} in process "
            f"{self.numbers[other]}"
        )


@functools.cache
def _copied_to_all(sharding: NamedSharding) -> Callable[[Array], Array]:
    """A program that hands the whole array to every process; one for each mesh."""
    return jax.jit(lambda array: array, out_shardings=sharding)


ALONE = Processes()
"""One process, which asks nobody."""
