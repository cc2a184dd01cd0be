"""Two sets and their matchings as people hold them, as inputs and outputs of matching, and back.

An example is its pairs, or a tuple (pairs, rows, columns) with what is known of the items:

  pairs           an array [r, c, d]; a list of r lists of c rows of features of any kind of
                  `core.feature_rows`; or a mapping (row, column) -> row of features of the pairs
                  that may be matched, by names of any hashable kind
  rows, columns   rows of features, one an item, or a mapping name -> row; None for none

A matching is a list of pairs (row, column), by the names that the example has for items or by
positions, or a mapping row -> column; what is not there is unmatched. Of positions it may also be a
list of r integers, the column of each row or -1; a tuple of two arrays, the rows and their columns,
as `scipy.optimize.linear_sum_assignment` returns them; or an indicator [r, c], a boolean array or a
SciPy matrix.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxstruct.assignments.potentials import MatchingInput
from jaxstruct.assignments.structure import assignment
from jaxstruct.core.checks import (
    as_list,
    check_count,
    check_record,
    is_integer,
    kind_and_text_of,
    text_of,
)
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import FeatureEncoding, encoded_sequences, fit_features
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.tables import Table, ranking
from jaxstruct.core.types import PyTree

EXAMPLE = (
    "an array [r, c, d], a list of r lists of c rows of features, a mapping (row, column) -> row, "
    "or a tuple (one of these, rows, columns)"
)


Names: TypeAlias = dict[Hashable, int]


class _Example(NamedTuple):
    """One example.

    Fields:
      features: P rows of features. pairs: [P, 2] int32, or None where all pairs come row by row.
      names: of rows and of columns, where each stands by what the user calls it; None for
        positions.
      items: rows of features of rows and of columns, None for none.
      sizes: r and c.
    """

    features: Any
    pairs: np.ndarray | None
    names: tuple[Names | None, Names | None]
    items: tuple[Any, Any]
    sizes: tuple[int, int]


def _names(items: Iterable[Hashable]) -> Names:
    return {one: place for place, one in enumerate(dict.fromkeys(items))}


def _length(rows: Any) -> int:
    return rows.shape[0] if hasattr(rows, "shape") else len(rows)


def _grid(name: str, pairs: Any) -> tuple[Any, tuple[int, int]]:
    """(rows of features of all pairs, r and c) of an array or lists."""
    if isinstance(pairs, np.ndarray):
        if pairs.ndim != 3 or 0 in pairs.shape[:2]:
            raise ValueError(f"{name} must be {EXAMPLE}, got an array of shape {pairs.shape}")
        return pairs.reshape(-1, pairs.shape[2]), pairs.shape[:2]
    lists = as_list(name, pairs, EXAMPLE)
    for i, one in enumerate(lists):
        if isinstance(one, (str, Mapping)) or not hasattr(one, "__len__"):
            raise ValueError(f"{name}[{i}] must be a list of rows, got {kind_and_text_of(one)}")
        if len(one) != len(lists[0]) or not len(one):
            raise ValueError(
                f"{name}[{i}] has {len(one)} columns, {name}[0] has {len(lists[0])}: a row of "
                "features for each pair, or a mapping of those that may be matched"
            )
    if not lists:
        raise ValueError(f"{name} has no rows: both sets must have an item")
    return [row for one in lists for row in one], (len(lists), len(lists[0]))


def _listed(
    name: str, pairs: Mapping, given: Sequence[Any]
) -> tuple[list, np.ndarray, tuple[Any, Any]]:
    """(rows of features, pairs [P, 2] in the order of rows and columns, names) of a mapping."""
    for key in pairs:
        if not isinstance(key, tuple) or len(key) != 2:
            raise ValueError(
                f"{name} must have keys that are tuples (row, column), got {text_of(key)}"
            )
    names = []
    for side, items in enumerate(given):
        if items is None:
            items = (key[side] for key in pairs)
        elif not isinstance(items, Mapping):
            items = range(_length(items))
        names.append(_names(items))
    found = []
    for key, row in pairs.items():
        unknown = next((side for side in (0, 1) if key[side] not in names[side]), None)
        if unknown is not None:
            raise ValueError(
                f"{name} has the pair {text_of(key)}, but {('rows', 'columns')[unknown]} have no "
                f"item {text_of(key[unknown])}"
            )
        found.append((names[0][key[0]], names[1][key[1]], row))
    found.sort(key=lambda one: one[:2])
    listed = np.array([one[:2] for one in found], np.int32).reshape(-1, 2)
    return [one[2] for one in found], listed, (names[0], names[1])


def _read(name: str, example: Any) -> _Example:
    has_items = isinstance(example, tuple)
    if has_items and len(example) != 3:
        raise ValueError(f"{name} must be {EXAMPLE}, got a tuple of {len(example)}")
    pairs, *given = example if has_items else (example, None, None)
    lists = [list(one.values()) if isinstance(one, Mapping) else one for one in given]
    items = lists[0], lists[1]
    if isinstance(pairs, Mapping):
        features, listed, names = _listed(name, pairs, given)
        sizes = len(names[0]), len(names[1])
        if not all(sizes):
            raise ValueError(f"{name} has no items: both sets must have one")
        full = len(listed) == sizes[0] * sizes[1]
        return _Example(features, None if full else listed, names, items, sizes)
    features, sizes = _grid(name, pairs)
    for side, one, size in zip(("rows", "columns"), items, sizes, strict=True):
        if one is not None and _length(one) != size:
            raise ValueError(f"{name} has {size} {side}, but features of {_length(one)}")
    names = [_names(one) if isinstance(one, Mapping) else None for one in given]
    return _Example(features, None, (names[0], names[1]), items, sizes)


def _examples(examples: Any) -> list[_Example]:
    if isinstance(examples, np.ndarray) and examples.ndim < 4:
        raise ValueError("examples must be a list of examples, got an array of one: put it in one")
    listed = as_list("examples", examples, f"a list of n examples, each {EXAMPLE}")
    return [_read(f"examples[{i}]", one) for i, one in enumerate(listed)]


class AssignmentEncoding(NamedTuple):
    """What the columns of features of pairs and items mean. Made by `prepare`.

        data = prepare(examples, matchings)
        solution = fit(*data, C=10.0)
        found = predict(data.problem, solution, data.encoding.inputs(examples))
        matched = data.encoding.decode(found, examples)

    Fields:
      pairs: which feature is which column.
      rows, columns: the same of items; None where they have a constant feature alone.
    """

    pairs: FeatureEncoding
    rows: FeatureEncoding | None
    columns: FeatureEncoding | None
    structure = "assignment"

    def problem(self, **options: Any) -> Problem:
        """`assignment` of these features; options are those of `assignment`."""
        e, f = (1 if one is None else one.number_of_features for one in (self.rows, self.columns))
        d = self.pairs.number_of_features
        return assignment(d, row_features=e, column_features=f, **options)

    def inputs(self, examples: Any) -> MatchingInput:
        """The inputs of n examples, ragged.

        Raises:
          ValueError: they are no examples, have other columns than those of training, or features
            of items where training had none, or the other way round.
        """
        read, pairs = _examples(examples), None
        if any(one.pairs is not None for one in read):
            pairs = ragged([_places(one) for one in read], -1)
        return MatchingInput(
            encoded_sequences(self.pairs, "examples", [one.features for one in read]), pairs,
            self._items(read, 0), self._items(read, 1),
            np.array([one.sizes for one in read], np.int32).reshape(-1, 2),
        )  # fmt: skip

    def _items(self, read: list[_Example], side: int) -> PyTree:
        name, features = ("rows", "columns")[side], (self.rows, self.columns)[side]
        wrong = [i for i, one in enumerate(read) if (one.items[side] is None) != (features is None)]
        if wrong:
            has = "features" if features is None else "no features"
            raise ValueError(
                f"examples[{wrong[0]}] has {has} of {name}, unlike those of training: all have "
                "them, or none"
            )
        if features is None:  # a constant 1 each
            offsets = np.cumsum([0, *(one.sizes[side] for one in read)])
            return Ragged(np.ones((offsets[-1], 1), np.float32), offsets)
        return encoded_sequences(features, name, [one.items[side] for one in read])

    def outputs(self, matchings: Any, examples: Any) -> Ragged:
        """The matchings of n examples, ragged.

        Args:
          matchings: of each a list of pairs (row, column), or another form of the module.
          examples: the n examples.

        Raises:
          ValueError: a pair names an item that there is not, or one item twice.
        """
        return _outputs(matchings, _examples(examples))

    def decode(self, outputs: Ragged, examples: Any = None) -> list[list[tuple]]:
        """The matchings of n examples, such as `predict` returns them, as lists of pairs.

        Args:
          outputs: n lists of columns. examples: the n examples; None for positions.
        """
        check_record("outputs", outputs, Ragged, "predict")
        names = [(None, None)] * len(outputs)
        if examples is not None:
            names = [one.names for one in _examples(examples)]
        return [_pairs(own, columns) for own, columns in zip(names, outputs, strict=True)]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of pairs, and those of unmatched items."""
        del options
        found: list[Table] = [
            ranking("features of pairs", self.pairs.names, weights["pairs"], largest)
        ]
        for side, features in (("rows", self.rows), ("columns", self.columns)):
            if side in weights:
                names = ("constant",) if features is None else features.names
                found.append(ranking(f"unmatched {side}", names, weights[side], largest))
        return found


def _pairs(names: tuple[Names | None, Names | None], of_rows: np.ndarray) -> list[tuple]:
    """The pairs of one matching by the names of items, or by positions."""
    rows, columns = (None if own is None else list(own) for own in names)
    pairs = [(i, j) for i, j in enumerate(of_rows.tolist()) if j >= 0]
    return [(rows[i] if rows else i, columns[j] if columns else j) for i, j in pairs]


def _places(one: _Example) -> np.ndarray:
    """[P, 2] the pairs of an example."""
    if one.pairs is not None:
        return one.pairs
    return np.stack(np.divmod(np.arange(np.prod(one.sizes)), one.sizes[1]), axis=1).astype(np.int32)


def _outputs(matchings: Any, read: list[_Example]) -> Ragged:
    listed = as_list("matchings", matchings, "a list of n lists of pairs (row, column)")
    check_count("matchings", len(listed), "examples", len(read))
    pairs = zip(listed, read, strict=True)
    return ragged([_columns(i, one, own) for i, (one, own) in enumerate(pairs)], -1)


def _columns(i: int, matching: Any, example: _Example) -> np.ndarray:
    """[r] the column of each row of one example."""
    name = f"matchings[{i}]"
    columns, taken = np.full(example.sizes[0], -1, np.int32), set()
    for pair in _as_pairs(name, matching, example):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"{name} must hold pairs (row, column), got {text_of(pair)}")
        row, column = (
            _place(name, side, pair[side], example.names[side], example.sizes[side])
            for side in (0, 1)
        )
        if columns[row] >= 0 or column in taken:
            raise ValueError(f"{name} matches an item of the pair {text_of(pair)} twice")
        columns[row] = column
        taken.add(column)
    return columns


def _as_pairs(name: str, matching: Any, example: _Example) -> list:
    """The pairs of a matching of any of the forms of this module."""
    if isinstance(matching, Mapping):
        return list(matching.items())
    pairs = _positions(name, matching, example.sizes)
    if pairs is None:
        expected = "a list of pairs (row, column), or a mapping row -> column"
        return as_list(name, matching, expected)
    if any(own is not None for own in example.names):
        raise ValueError(
            f"{name} gives positions, but the items have names: give pairs (row, column) of names"
        )
    return pairs


def _positions(name: str, matching: Any, sizes: tuple[int, int]) -> list | None:
    """The pairs of a matching that is no list of pairs and gives positions; None of others."""
    if isinstance(matching, tuple) and len(matching) == 2:
        rows, columns = matching
        if isinstance(rows, np.ndarray) and isinstance(columns, np.ndarray):
            if len(rows) != len(columns):
                raise ValueError(f"{name} has {len(rows)} rows, but {len(columns)} columns")
            return list(zip(rows, columns, strict=True))
    shape = getattr(matching, "shape", ())
    indicator: Any = matching
    if hasattr(indicator, "tocsr") or getattr(indicator, "dtype", None) == np.bool_:
        if shape != sizes:
            raise ValueError(f"{name} has shape {shape}: expected [r, c] = {[*sizes]}")
        return list(np.transpose(indicator.nonzero()))
    if len(shape) == 2 and shape[1] != 2 and shape[0]:
        raise ValueError(
            f"{name} must have pairs (row, column), got an array of shape {shape}: of an indicator "
            f"[r, c] = {[*sizes]} give matching == 1, a boolean array"
        )
    listed = isinstance(matching, (list, tuple, np.ndarray)) and len(matching)
    if not listed or not all(map(is_integer, matching)):
        return None
    if len(matching) != sizes[0]:
        raise ValueError(
            f"{name} has {len(matching)} columns for {sizes[0]} rows: one a row, -1 where it is "
            "unmatched"
        )
    return [(i, int(j)) for i, j in enumerate(matching) if j != -1]


def _place(name: str, side: int, item: Any, places: Names | None, size: int) -> int:
    if places is not None and item in places:
        return places[item]
    if places is None and is_integer(item) and 0 <= item < size:
        return int(item)
    expected = f"a position in 0..{size - 1}" if places is None else "the name of one"
    kind = ("row", "column")[side]
    raise ValueError(f"{name} names the {kind} {text_of(item)}: expected {expected}")


def prepare(
    examples: Any, matchings: Any, *, min_count: int = 1, constant: float = 1.0, **options: Any
) -> Prepared:
    """A training set of matched sets: `js.fit(*prepare(examples, matchings), C=10.0)`.

    Args:
      examples: n examples, see the module.
      matchings: of each a list of pairs (row, column), or another form of the module.
      min_count: pairs (items) that must have a named feature for it to count.
      constant: value of a feature of every item that has features; 0 for none.
      options: those of `assignment` but the numbers of features.

    Raises:
      ValueError: examples, matchings or an option do not fit.
    """
    examples, matchings = held(examples), held(matchings)
    read = _examples(examples)
    if not read:
        raise ValueError("examples must hold an example at least, got none")
    rows, _ = read_sequences("examples", [one.features for one in read])
    items: list[FeatureEncoding | None] = [None, None]
    for side, name in enumerate(("rows", "columns")):
        if any(one.items[side] is not None for one in read):
            if not options.get("unmatched", False):
                raise ValueError(
                    f"examples have features of {name}, which complete matchings never read: say "
                    "unmatched=True, or leave them out"
                )
            given = [[] if one.items[side] is None else one.items[side] for one in read]
            own, _ = read_sequences(name, given)
            items[side] = fit_features(own, min_count=min_count, constant=constant)
    encoding = AssignmentEncoding(fit_features(rows, min_count=min_count), items[0], items[1])
    return prepared(encoding, examples, _outputs(matchings, read), options)
