"""Features of arcs, by templates over words, tags, distance and what lies between.

A template is a text of parts, such as "head.tag child.tag distance": an arc has one feature of it,
the values of all parts together. Parts are

    head.tag, child.word    a column of the two ends; head+1.tag, child-2.tag of their neighbours
    distance                how many words on, in eight classes, to the left or to the right
    direction               to the left or to the right
    between.tag             a feature for each value that stands between the two ends (one part)

A sentence is its tokens, integers [T, columns]; which features its T (T + 1) arcs have is found
from these wherever potentials or planes are computed, and no array of them is kept. Templates of
few combinations have a weight for each of them, others share a table by hashing.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.loops import put
from jaxstruct.core.types import Array, static

OUTSIDE, ROOT, RARE = 0, 1, 2
"""What a column holds beyond the ends of a sentence (and on padding), at the root, and for values
that training does not have often enough; the others follow."""
_PART = re.compile(r"(head|child|between)([+-]\d+)?\.(\S+)|distance|direction")
_FARTHER = (2, 3, 4, 5, 7, 11, 21)
"""Where classes of distance begin, behind the first one."""
MOST_BETWEEN = 64


class Part(NamedTuple):
    """One part of a template. column: its number, or -1 of a distance or direction."""

    kind: str
    offset: int
    column: int

    def text(self, value: int) -> str:
        """A value of a distance or direction."""
        way = "right" if value % 2 else "left"
        if self.kind == "direction":
            return way
        begins = (1, *_FARTHER)
        return f"{begins[value // 2]}{'+' * (value // 2 + 1 == len(begins))} {way}"


class Slot(NamedTuple):
    """A range of the weights, of one template (and of one value between the ends).

    Fields:
      parts: of the template. between: (column, value) between the ends, or None.
      begin, stop: the range, of `size` numbers, or with labels rows of R numbers.
      exact: whether every combination has a place of its own.
      labelled: whether the features come with a label.
    """

    parts: tuple[Part, ...]
    between: tuple[int, int] | None
    begin: int
    stop: int
    size: int
    exact: bool
    labelled: bool

    @property
    def ends(self) -> tuple[Part, ...]:
        """The parts but that between the ends."""
        return tuple(part for part in self.parts if part.kind != "between")


@static
class ArcFeatures:
    """Which features arcs have.

    Fields:
      columns: names of the columns of a token. sizes: how many values each has, OUTSIDE, ROOT and
        RARE among them.
      templates: of arcs. label_templates: of arcs with labels.
      table: weights of a template at most. label_table: the same of those with labels.
      labels: R, or 1 where arcs have none.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    templates: tuple[str, ...]
    label_templates: tuple[str, ...]
    table: int
    label_table: int
    labels: int

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The ranges of the weights."""
        return _slots(self)

    @property
    def size(self) -> int:
        """How many weights there are."""
        return self.slots[-1].stop


def default_templates(columns: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(templates of arcs, templates of labels) of tokens whose first column is a word.

    After R. McDonald, K. Crammer and F. Pereira, ACL 2005, table 1, with each other column as tag.
    """
    word, tags = columns[0], columns[1:] or columns[:1]
    arcs: list[str] = []
    for t in tags:
        h, c, side = f"head.{t}", f"child.{t}", "direction"
        arcs += [
            f"{h} {c} distance", f"{h} distance", f"{c} distance",
            f"{h} head+1.{t} child-1.{t} {c} {side}", f"head-1.{t} {h} child-1.{t} {c} {side}",
            f"{h} head+1.{t} {c} child+1.{t} {side}", f"head-1.{t} {h} {c} child+1.{t} {side}",
            f"head-1.{t} {h} {c} distance", f"{h} head+1.{t} {c} distance",
            f"{h} child-1.{t} {c} distance", f"{h} {c} child+1.{t} distance",
        ]  # fmt: skip
    t, u = tags[-1], tags[0]
    w = "head." + word, "child." + word
    h, c = f"head.{t}", f"child.{t}"
    arcs += [
        f"{w[0]} {c} distance", f"{h} {w[1]} distance", f"{w[0]} {w[1]} direction",
        f"{w[0]} {c} direction", f"{h} {w[1]} direction",
        f"{w[0]} distance", f"{w[1]} distance", f"{w[0]} direction", f"{w[1]} direction",
        f"{w[0]} {h} {w[1]} {c} direction", f"{w[0]} {h} {c} direction",
        f"{h} {w[1]} {c} direction",
        f"head.{u} child.{u} between.{u} direction",
    ]  # fmt: skip
    labels = [
        f"{h} {c} distance", f"{w[0]} {c} direction", f"{h} {w[1]} direction",
        f"{w[1]} {c} direction", f"{w[0]} {h} direction",
        f"{c} child+1.{t} direction", f"child-1.{t} {c} direction",
        f"{h} {c} child+1.{t} direction", f"{h} child-1.{t} {c} direction",
    ]  # fmt: skip
    return tuple(dict.fromkeys(arcs)), tuple(dict.fromkeys(labels))


def parsed(template: str, columns: Sequence[str]) -> tuple[Part, ...]:
    """The parts of a template.

    Raises:
      ValueError: a part is none, names no column, or there are several between the ends.
    """
    parts = []
    for text in template.split():
        match = _PART.fullmatch(text)
        if match is None or (match[1] == "between" and match[2]):
            raise ValueError(
                f"template {template!r}: {text!r} is none of head.COLUMN, child.COLUMN (with +1, "
                "-1 .. behind the first word), between.COLUMN, distance and direction"
            )
        if match[1] and match[3] not in columns:
            raise ValueError(f"template {template!r}: tokens have no {match[3]!r}, only {columns}")
        column = columns.index(match[3]) if match[1] else -1
        parts.append(Part(match[1] or text, int(match[2] or 0), column))
    if not parts or sum(part.kind == "between" for part in parts) > 1:
        raise ValueError(f"template {text_of(template)} needs a part, and one between at most")
    return tuple(parts)


def values_of(part: Part, sizes: Sequence[int]) -> int:
    """How many values a part has; sizes: of the columns."""
    special = {"distance": 2 * (len(_FARTHER) + 1), "direction": 2}
    return special.get(part.kind) or sizes[part.column]


@functools.lru_cache(maxsize=64)
def _slots(features: ArcFeatures) -> tuple[Slot, ...]:
    found: list[Slot] = []
    begin = 0
    for labelled, templates, table, width in (
        (False, features.templates, features.table, 1),
        (True, features.label_templates, features.label_table, features.labels),
    ):
        for template in templates:
            parts = parsed(template, features.columns)
            columns = [part.column for part in parts if part.kind == "between"]
            values = [(c, value) for c in columns for value in range(features.sizes[c])]
            if len(values) > MOST_BETWEEN:
                raise ValueError(
                    f"template {template!r}: between takes a column of at most {MOST_BETWEEN} "
                    f"values, got {len(values)}"
                )
            combinations = math.prod(
                values_of(part, features.sizes) for part in parts if part.kind != "between"
            )
            size, exact = min(combinations, table), combinations <= table
            for value in values or [None]:
                stop = begin + size * width
                found.append(Slot(parts, value, begin, stop, size, exact, labelled))
                begin = stop
    return tuple(found)


class Layout(NamedTuple):
    """The slots as tables, over which a loop runs: one body whatever the templates.

    Fields:
      parts: those of all slots, each once. values: (column, value) of what may lie between.
      index: [S, J] the parts of each slot, -1 behind them. stride: [S, J] what a step of each is
        worth in the range of an exact slot. exact: [S] whether it is one. begin: [S] of the range.
      between: [S] which of `values`, -1 where all arcs have the feature.
      labelled: how many slots come before those with labels.
    """

    parts: tuple[Part, ...]
    values: tuple[tuple[int, int], ...]
    index: np.ndarray
    stride: np.ndarray
    exact: np.ndarray
    begin: np.ndarray
    between: np.ndarray
    labelled: int


@functools.lru_cache(maxsize=64)
def layout_of(features: ArcFeatures) -> Layout:
    """The tables of some features."""
    slots = features.slots
    parts = tuple(dict.fromkeys(part for slot in slots for part in slot.ends))
    values = tuple(dict.fromkeys(slot.between for slot in slots if slot.between))
    index = np.full((len(slots), max(len(slot.ends) for slot in slots)), -1, np.int32)
    stride = np.zeros(index.shape, np.int32)
    for s, slot in enumerate(slots):
        count = len(slot.ends)
        index[s, :count] = [parts.index(part) for part in slot.ends]
        if slot.exact:
            sizes = [values_of(part, features.sizes) for part in slot.ends]
            stride[s, :count] = np.cumprod([1, *sizes[:0:-1]])[::-1]
    return Layout(
        parts, values, index, stride, np.array([slot.exact for slot in slots]),
        np.array([slot.begin for slot in slots], np.int32),
        np.array([values.index(one.between) if one.between else -1 for one in slots], np.int32),
        sum(not slot.labelled for slot in slots),
    )  # fmt: skip


def _value_of(part: Part, tokens: Array, heads: Array, children: Array) -> Array:
    """The values of a part. tokens: with OUTSIDE, root and OUTSIDE around them."""
    if part.column >= 0:
        at = (heads + 1 if part.kind == "head" else children + 2) + part.offset
        return tokens[jnp.clip(at, 0, tokens.shape[0] - 1), part.column]
    reach = children + 1 - heads
    right = (reach > 0).astype(jnp.int32)
    if part.kind == "direction":
        return right
    farther = jnp.asarray(_FARTHER).reshape(-1, *(1,) * reach.ndim)
    return 2 * jnp.sum(jnp.abs(reach)[None] >= farther, axis=0, dtype=jnp.int32) + right


class SentenceTables(NamedTuple):
    """One sentence as a loop over slots reads it.

    Fields:
      tokens: [T + 3, columns] with OUTSIDE, the root and OUTSIDE around them.
      counts: [T + 4, V] how many of the first tokens have each of `Layout.values`.
    """

    tokens: Array
    counts: Array


def sentence_tables(features: ArcFeatures, tokens: Array) -> SentenceTables:
    """The tables of one sentence [T, columns]; a loop makes them, for one kernel."""
    values = layout_of(features).values
    ends = jnp.full((1, tokens.shape[1]), OUTSIDE, jnp.int32)
    tokens = jnp.concatenate([ends, jnp.full_like(ends, ROOT), tokens.astype(jnp.int32), ends])
    counts = jnp.zeros((tokens.shape[0] + 1, len(values)), jnp.int32)
    if not values:
        return SentenceTables(tokens, counts)
    columns, wanted = (np.array(each, np.int32) for each in zip(*values, strict=True))
    equal = (tokens[:, columns] == jnp.asarray(wanted)[None]).astype(jnp.int32)

    def count(at: Array, counts: Array) -> Array:
        return put(counts, at + 1, counts[at] + equal[at])

    return SentenceTables(tokens, jax.lax.fori_loop(0, tokens.shape[0], count, counts))


def _lie_between(counts: Array, heads: Array, children: Array) -> Array:
    """[V, ..] whether each of the values stands between the ends."""
    ends = heads + 1, children + 2
    found = counts[jnp.maximum(*ends)] > counts[jnp.minimum(*ends) + 1]
    return jnp.moveaxis(found, -1, 0)


def _hashed(found: Array, number: Array) -> Array:
    """The hash with one more number (FNV-1a by whole numbers)."""
    found = (found ^ number.astype(jnp.uint32)) * jnp.uint32(16777619)
    return found ^ (found >> 15)


def _place(
    numbers: Sequence[Array], present: Array, stride: Array, exact: Array, table: int
) -> Array:  # fmt: skip
    """The places [..] of values [..] in the range of one slot; present: [J] which it has.

    The size of tables is a constant of the program: to divide by another number takes long.
    """
    place = jnp.zeros(numbers[0].shape, jnp.int32)
    mixed = jnp.full(numbers[0].shape, 2166136261, jnp.uint32)
    for j, number in enumerate(numbers):
        place = place + stride[j] * number
        mixed = jnp.where(present[j], _hashed(mixed, number), mixed)
    mixed = mixed * jnp.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) % jnp.uint32(table)
    return jnp.where(exact, place, mixed.astype(jnp.int32))


def over_slots(
    features: ArcFeatures, arcs: tuple[SentenceTables, Array, Array], labels: Any, turn: Callable,
    start: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """A loop over the slots with labels, or without, as `jax.lax.scan`.

    Args:
      arcs: (tables of the sentence, heads 0..T with 0 for the root, children 0..T - 1), the last
        two of one shape.
      labels: of the arcs, of a shape that goes with theirs; None for the slots without.
      turn: (carry, places, active) -> (carry, what is stacked); of one slot which weights the arcs
        read, and which of them do.
      start: the carry.
    """
    layout, (sentence, heads, children) = layout_of(features), arcs
    table = features.table if labels is None else features.label_table
    some = slice(layout.labelled) if labels is None else slice(layout.labelled, None)
    seen = jnp.stack([_value_of(part, sentence.tokens, heads, children) for part in layout.parts])
    lies = jnp.ones((1, *heads.shape), bool)
    if layout.values:
        between = _lie_between(sentence.counts, heads, children)
        lies = jnp.concatenate([between, lies])  # the last one is where index -1 points

    def row_of(rows: Array, index: Array) -> Array:  # a slice of memory, also under vmap
        return jax.lax.dynamic_index_in_dim(rows, index % rows.shape[0], keepdims=False)

    def body(carry: Any, slot: tuple) -> tuple[Any, Any]:
        index, stride, exact, begin, value = slot
        numbers = [row_of(seen, index[j]) for j in range(index.shape[0])]
        place = _place(numbers, index >= 0, stride, exact, table)
        if labels is not None:
            place = place * features.labels + jnp.maximum(labels, 0)
        return turn(carry, begin + place, row_of(lies, value))

    tables = layout.index, layout.stride, layout.exact, layout.begin, layout.between
    return jax.lax.scan(body, start, tuple(jnp.asarray(each[some]) for each in tables))


def over_places(
    features: ArcFeatures, arcs: tuple[SentenceTables, Array, Array], labels: Any, turn: Callable,
    start: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """`over_slots` of both kinds for arcs with these labels, or None where they have none."""
    carry, found = over_slots(features, arcs, None, turn, start)
    if labels is None:
        return carry, found
    carry, others = over_slots(features, arcs, labels, turn, carry)
    return carry, jax.tree.map(lambda *two: jnp.concatenate(two), found, others)


def arc_places(
    features: ArcFeatures, sentence: SentenceTables, heads: Array, children: Array, labels: Any
) -> Array:
    """[S, ..] the weights that arcs [..] read, -1 where they read none; a head of -1 is no arc.

    Args:
      sentence: of `sentence_tables`. labels: of the arcs, or None where they have none.
    """
    real = heads >= 0
    arcs = sentence, jnp.maximum(heads, 0), jnp.broadcast_to(children, heads.shape)

    def place(_: None, places: Array, active: Array) -> tuple[None, Array]:
        return None, jnp.where(real & active, places, -1)

    return over_places(features, arcs, labels, place, None)[1]
