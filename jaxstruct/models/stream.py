"""Prediction in bulk: an iterable of records in, an iterator of predictions out.

Records are taken by chunks of a few batches. A chunk is encoded on the host while the devices work
on the one before; what they found is decoded and handed out in the order of the records. So the
memory that is held does not grow with the stream.

Records are cut into batches whose shapes come again, so that few programs serve all. `predict` sees
all lengths and chooses its buckets by them. A stream sees some thousand records at a time, whose
longest is another one each time: left to itself it would compile for ever. Here sizes are rounded
to classes.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import NoOutput, as_list, collected, kind_and_text_of, text_of, warn
from jaxstruct.core.compiling import compile_clock
from jaxstruct.core.contract import Padding
from jaxstruct.core.device import current_device
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.padding import ragged_leaves, restored
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.sizes import batch_rows, size_class
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.models.trained import TrainedModel, trained_model
from jaxstruct.solvers.n_slack.task import padded_rows
from jaxstruct.solvers.predict import decode_program
from jaxstruct.solvers.validation.checks import check_batch, check_inputs


def length_class(padding: Padding, longest: int) -> int:
    """What a length is padded to: the structure's own size, in quarters of an octave."""
    size = max(padding.size(longest), 8)
    step = 1 << max((size - 1).bit_length() - 3, 0)
    return padding.size(-(-size // step) * step)


def widened(inputs: PyTree) -> PyTree:
    """Ragged sparse features with tokens of a size class of entries.

    A token is as wide as the one of its chunk that has the most features; padding has the index d
    and the value 0, as the stores say.
    """

    def widen(part: PyTree) -> PyTree:
        if not _of_tokens(part):
            return part
        width = size_class(part.indices.rows.shape[1])
        return SparseFeatures(*(_wide(leaf, width) for leaf in part))

    return jax.tree.map(widen, inputs, is_leaf=_sparse)


def _sparse(part: PyTree) -> bool:
    return isinstance(part, SparseFeatures)


def _of_tokens(part: PyTree) -> bool:
    """Whether it is ragged sparse features whose rows are tokens, [m] each."""
    return _sparse(part) and all(isinstance(x, Ragged) and x.rows.ndim == 2 for x in part)


def _wide(leaf: Ragged, width: int) -> Ragged:
    more = ((0, 0), (0, width - leaf.rows.shape[1]))
    return Ragged(np.pad(leaf.rows, more, constant_values=leaf.fill), leaf.offsets, leaf.fill)


def cut(padding: Padding, inputs: PyTree, n: int, batch: int) -> list[np.ndarray]:
    """Which records go together: those of one size, the longest first.

    A batch has `batch` rows, or a power of four that holds the rest of its size. What is free in it
    is filled with the next smaller records, which would else be rows of padding.

    Args:
      padding: of the structure. inputs: of n records. batch: rows, at most.

    Returns:
      Arrays of positions, together 0..n-1.
    """
    stores = ragged_leaves(inputs)
    sizes, total = np.zeros(n, np.int64), np.zeros(n, np.int64)
    if stores:
        longest = np.max([leaf.lengths for leaf in stores], axis=0)
        distinct, places = np.unique(longest, return_inverse=True)
        sizes = np.array([length_class(padding, int(one)) for one in distinct])[places]
        total = np.sum([leaf.lengths for leaf in stores], axis=0)
    order = np.lexsort((np.arange(n), -total, -sizes))
    ends = np.searchsorted(-sizes[order], -sizes[order], side="right")
    pieces, at = [], 0
    while at < n:
        rows = batch_rows(int(ends[at]) - at, batch)
        pieces.append(order[at : at + rows])
        at += rows
    return pieces


def padded_batch(padding: Padding, inputs: PyTree, which: np.ndarray, batch: int) -> PyTree:
    """Some records as arrays of size classes; rows that are free repeat the first."""

    def of_leaf(leaf: Ragged | np.ndarray) -> np.ndarray:
        if isinstance(leaf, Ragged):
            longest = int(leaf.lengths[which].max(initial=0))
            return leaf.padded(which, length_class(padding, longest))
        return np.asarray(leaf)[which]

    return padded_rows(jax.tree.map(of_leaf, inputs), batch_rows(len(which), batch))


Device: TypeAlias = Any
"""A device of jax, one of `jax.local_devices()`."""

BATCHES = 4
"""Of a chunk: enough that records of about one length fill whole batches."""

PART = 64
"""Records tried together where a chunk does not encode."""

MOST_LETTERS = 400
"""Of a reason."""

ON_ERROR = ("mark", "raise")
_REFUSED = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""What an encoding raises of a record that it cannot read; anything else ends the stream."""
_ARGUMENT = re.compile(r"\b(rows|sequences|sentences|trees|pairs|graphs|lists)\[0\]")
_PART = re.compile(r"\b(nodes|edges|edge_features)\[0\]")


class BadRecord(NamedTuple):
    """Stands in the place of a prediction where there is none.

    Fields:
      number: of the record, counted from 0. reason: why it was passed over.
    """

    number: int
    reason: str


class _Group(NamedTuple):
    """Records that were encoded together.

    Fields:
      places: of the records in their chunk. batches: (which of them, padded inputs), each.
      ragged: whether the inputs were. unseen: of features that training did not have.
    """

    places: np.ndarray
    batches: list[tuple[np.ndarray, PyTree]]
    ragged: bool
    unseen: list[UnseenFeatures]


class _Sent(NamedTuple):
    """A batch on its way: the places of its records in the chunk, its inputs, what will come."""

    places: np.ndarray
    inputs: PyTree
    ragged: bool
    outputs: PyTree


class _Chunk(NamedTuple):
    """Records taken together, the first of number `start`; `found` has what is known of each."""

    start: int
    records: list
    found: list
    sent: list[_Sent]


class PredictionStream(Iterator[Any]):
    """The predictions of a stream of records, in their order. Made by `predict_stream`.

    Attributes:
      count: predictions and BadRecords handed out so far. bad: BadRecords among them.
      unseen: entries of features that training did not have, dropped so far.
      compile_seconds: of wall time that was spent on compiling within this iterator.
      devices: that work.
    """

    def __init__(
        self,
        model: TrainedModel,
        records: Iterable[Any],
        batch: int,
        devices: Sequence[Device],
        on_error: str,
    ) -> None:
        """Take nothing yet; see `predict_stream`, which checks the arguments."""
        self.devices = tuple(devices)
        self.count = self.bad = self.unseen = 0
        self.compile_seconds = 0.0
        self._taken = 0
        self._chunk = BATCHES * batch
        self._ahead = 2 + max(len(self.devices) - BATCHES, 0) // BATCHES
        self._batch, self._on_error = batch, on_error
        self._encoding, self._problem = model.encoding, model.problem
        bare = self._problem.model._replace(score=None, loss=None)
        # arrays bound to a device compile anew: where it is the only one, they are left unbound
        # and run the programs of `predict`
        only = [*self.devices] == jax.local_devices() == [current_device()]
        self._places = (None,) if only else self.devices
        self._placed = [jax.device_put((bare, dict(model.weights)), one) for one in self._places]
        self._next_device = itertools.cycle(range(len(self.devices)))
        self._sent_shapes: set[tuple] = set()
        self._found = self._run(iter(records))

    @property
    def waiting(self) -> int:
        """Records taken and not yet handed out, at most 8 `batch`."""
        return self._taken - self.count

    @property
    def most_waiting(self) -> int:
        """How many may wait: chunks of 4 batches, two of them on up to 7 devices."""
        return self._ahead * self._chunk

    @property
    def programs(self) -> int:
        """Shapes of batches so far, each a compiled program of each device."""
        return len(self._sent_shapes)

    def __iter__(self) -> PredictionStream:
        """Itself."""
        return self

    def __next__(self) -> Any:
        """The next prediction.

        Raises:
          StopIteration: there is none. ValueError: the record is bad, and on_error is "raise".
          Whatever `records` raises, after the predictions of the records before.
        """
        one = next(self._found)
        self.count += 1
        if isinstance(one, BadRecord):
            self.bad += 1
            if self._on_error == "raise":
                self.close()
                raise ValueError(
                    f"record {one.number}: {one.reason} (on_error='mark' passes such records over)"
                )
        return one

    def close(self) -> None:
        """Take no more records; what is under way is dropped."""
        self._found.close()

    def _run(self, records: Iterator[Any]) -> Generator[Any, None, None]:
        chunks: deque[_Chunk] = deque()
        failed: Exception | None = None
        while True:
            taken: list = []
            try:
                if failed is None:
                    for one in itertools.islice(records, self._chunk):
                        taken.append(one)
            except Exception as error:  # of the caller's iterable: the records before come first
                failed = error
            if taken:
                chunks.append(self._timed(self._begun, taken))
            elif not chunks:
                break
            if len(chunks) >= self._ahead or len(taken) < self._chunk:
                yield from self._timed(self._ended, chunks.popleft())
        if failed is not None:
            raise failed

    def _timed(self, step: Callable[[Any], Any], argument: Any) -> Any:
        """What a step gives; the seconds that it compiles for are counted."""
        before = compile_clock().read().wall
        try:
            return step(argument)
        finally:
            self.compile_seconds += compile_clock().read().wall - before

    def _begun(self, records: list) -> _Chunk:
        """A chunk whose batches are on their way."""
        chunk = _Chunk(self._taken, records, [None] * len(records), [])
        self._taken += len(records)
        places = []
        for place, one in enumerate(records):
            if isinstance(one, BadRecord):
                chunk.found[place] = BadRecord(chunk.start + place, one.reason)
            else:
                places.append(place)
        for group in self._groups(chunk, np.array(places, np.int64)):
            self._send(chunk, group)
        return chunk

    def _groups(self, chunk: _Chunk, places: np.ndarray) -> list[_Group]:
        """The sound records in groups that can be encoded together; the others are marked.

        One group, unless records are of two kinds, such as lists and arrays.
        """
        groups = list(self._sound(chunk, places, max(1, len(places))))
        if len(groups) > 1:
            with contextlib.suppress(*_REFUSED):
                return [self._encoded(chunk, np.concatenate([one.places for one in groups]))]
        return groups

    def _sound(self, chunk: _Chunk, places: np.ndarray, step: int) -> Iterator[_Group]:
        """Groups of so many records that encode together; bad records are marked.

        Where all do not, parts of 64 are tried, and those of the parts that do not one by one.
        """
        for at in range(0, len(places), step):
            part = places[at : at + step]
            try:
                yield self._encoded(chunk, part)
            except _REFUSED as error:
                if step > 1:
                    yield from self._sound(chunk, part, PART if step > PART else 1)
                else:
                    place = int(part[0])
                    chunk.found[place] = BadRecord(chunk.start + place, _reason(error))

    def _encoded(self, chunk: _Chunk, places: np.ndarray) -> _Group:
        """Some records as padded batches, checked as `predict` checks them."""
        records = [chunk.records[place] for place in places]
        together = getattr(self._encoding, "together", list)
        with collected(UnseenFeatures) as unseen:
            inputs = self._encoding.inputs(together(records))
        check_inputs(inputs)
        inputs, padding = widened(inputs), self._problem.padding
        batches = []
        for which in cut(padding, inputs, len(records), self._batch):
            padded = padded_batch(padding, inputs, which, self._batch)
            self._problem.check(padded, None)
            batches.append((which, padded))
        return _Group(places, batches, bool(ragged_leaves(inputs)), unseen)

    def _send(self, chunk: _Chunk, group: _Group) -> None:
        """Hand the batches to the devices in turn; nothing is waited for."""
        for one in group.unseen:
            if not self.unseen:
                more = f"{one} (later ones of this stream are counted in its .unseen)"
                warn(more, UnseenFeatures, one.count)
            self.unseen += one.count
        for which, padded in group.batches:
            number = next(self._next_device)
            model, weights = self._placed[number]
            self._sent_shapes.add(tuple(np.shape(leaf) for leaf in jax.tree.leaves(padded)))
            inputs = jax.device_put(padded, self._places[number])
            outputs = decode_program(model, weights, inputs)
            chunk.sent.append(_Sent(group.places[which], padded, group.ragged, outputs))

    def _ended(self, chunk: _Chunk) -> list:
        """What was found of a chunk, once all its batches are done."""
        for places, inputs, ragged, outputs in chunk.sent:
            n = len(places)
            outputs = jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[:n], outputs)
            if ragged:
                whole = Buckets((inputs,), (np.arange(n),))
                outputs = restored(self._problem.padding, whole, (outputs,))
            data = [chunk.records[place] for place in places]
            for place, one in zip(places, self._encoding.decode(outputs, data), strict=True):
                bad = BadRecord(chunk.start + int(place), "has no output: no tree has its tokens")
                chunk.found[place] = bad if one is None else one
        return chunk.found


def _reason(error: BaseException) -> str:
    """The message of an error of one record alone, which is not called the first of its list."""
    if isinstance(error, NoOutput):  # of the record and of the padding of its batch
        return f"has no output: {error.reasons[0]}"
    text = _PART.sub(r"\1", _ARGUMENT.sub("record", " ".join(str(error).split())))
    if not isinstance(error, ValueError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 4]} ..."


def predict_stream(
    model: TrainedModel | Any,
    records: Iterable[Any],
    *,
    batch: int = 1024,
    devices: Sequence[Device] | None = None,
    on_error: str = "mark",
) -> PredictionStream:
    """The outputs of any number of records, one after the other, in bounded memory.

        for label in predict_stream(load("tagger.model"), sentences()):
            ...

    What `model.predict` gives of all records at once, in the same order, of an iterable that may
    have no end; in place of None a BadRecord says why there is no output. Records of about one size
    are decoded together, batches go to all devices in turn, and a device works on one chunk while
    the host encodes the next. Sizes are rounded to classes, so that few programs compile
    (`.programs`).

    Args:
      model: of `trained` or `load`, of any output type, or a fitted estimator.
      records: one by one what `model.predict` takes a list of: rows, sequences, sentences or trees,
        pairs, graphs, lists of candidates. Rows may be arrays [d] or SciPy matrices [1, d]. A
        BadRecord among them, of a reader that found none, passes through. Up to
        8 `batch` records are taken ahead.
      batch: records decoded together, at most.
      devices: of jax; None for all of this process. How many there are changes no output.
      on_error: what becomes of a record that the model's encoding refuses, or that has no output,
        such as a sentence without a tree. "mark": a BadRecord stands in its place. "raise":
        ValueError there.

    Returns:
      An iterator of outputs in the caller's labels, see `TrainedModel.predict`, which counts
      (`PredictionStream`). Features that training did not have are dropped; the first ones warn
      (`UnseenFeatures`), all are counted.

    Raises:
      ValueError: an argument does not fit.
    """
    model = trained_model(model)
    check_batch(batch)
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error must be one of {ON_ERROR}, got {text_of(on_error)}")
    alone = isinstance(records, (str, bytes, Mapping)) or hasattr(records, "iloc")
    if alone or not isinstance(records, Iterable):
        raise ValueError(
            f"records must be an iterable of records, one by one, got {kind_and_text_of(records)}"
        )
    return PredictionStream(model, records, int(batch), _checked_devices(devices), on_error)


def _checked_devices(devices: Any) -> list[Device]:
    """Devices to work on.

    Raises:
      ValueError: there is none, or something else is among them.
    """
    if devices is None:
        return jax.local_devices()
    found = as_list("devices", devices, "a list of jax devices, such as jax.local_devices()")
    if not found or not all(isinstance(one, jax.Device) for one in found):
        raise ValueError(
            "devices must be jax devices, one at least, such as jax.local_devices(), got "
            f"{text_of(devices)}"
        )
    return found
