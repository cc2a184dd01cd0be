"""Weights by name and support outputs as tables, and these as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

MOST_COLUMNS = 12
"""Labels of which a matrix of pairs is shown whole; of more, its largest entries are."""


class Ranking(NamedTuple):
    """The largest weights and the smallest ones by name, in falling order.

    Fields:
      title: whose they are. names: M texts. weights: [M].
    """

    title: str
    names: tuple[str, ...]
    weights: np.ndarray


class Matrix(NamedTuple):
    """Weights of pairs of names. values: [R, K] of rows and columns."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray


class Support(NamedTuple):
    """The outputs that hold an example in place, by falling alpha.

    Fields:
      title: of which example. outputs: M texts. alpha: [M] dual variables. loss: [M] Delta.
    """

    title: str
    outputs: tuple[str, ...]
    alpha: np.ndarray
    loss: np.ndarray


Table: TypeAlias = Ranking | Matrix | Support


class Explanation(NamedTuple):
    """What a model has learned; its text is a table."""

    title: str
    tables: tuple[Table, ...]

    def __str__(self) -> str:
        """All tables, one below the other."""
        return "\n\n".join([self.title, *map(_table_text, self.tables)])


def ranking(
    title: str, names: Iterable[str] | Callable[[int], str], weights: Any, largest: int
) -> Ranking:
    """The weights above 0 among the largest, and those below among the smallest.

    Args:
      title: whose they are. names: one a weight, or the function that names the i-th.
      weights: of any shape, in the order of the names.
      largest: how many at most, above 0 and below.
    """
    weights = np.asarray(weights, np.float64).ravel()
    name = names if callable(names) else tuple(names).__getitem__
    order = np.argsort(-weights, kind="stable")
    above = [i for i in order[:largest] if weights[i] > 0]
    below = [i for i in order[-largest:] if weights[i] < 0]
    which = np.array([*above, *below], np.int64)
    return Ranking(title, tuple(map(name, which.tolist())), weights[which])


def pairs_table(
    title: str, labels: tuple[str, ...], values: Any, largest: int, joint: str = " -> "
) -> Table:
    """A matrix [S, S] of pairs of labels, or its largest entries where it is too wide to read."""
    if len(labels) <= MOST_COLUMNS:
        return Matrix(title, labels, labels, np.asarray(values, np.float64))
    return ranking(title, (f"{a}{joint}{b}" for a in labels for b in labels), values, largest)


def rankings_by_label(
    names: tuple[str, ...], labels: tuple[str, ...], w: Any, largest: int
) -> list[Table]:
    """A ranking of the features of each label; w is [d, S]."""
    return [
        ranking(f"features of {label}", names, w[:, s], largest) for s, label in enumerate(labels)
    ]


def _table_text(table: Table) -> str:
    """One table as text, its title above it."""
    if isinstance(table, Matrix):
        lines = _matrix_lines(table)
    elif isinstance(table, Support):
        lines = [f"  {'alpha':>9}  {'loss':>8}  output"]
        rows = zip(table.alpha, table.loss, table.outputs, strict=True)
        lines += [f"  {alpha:>9.4g}  {loss:>8.4g}  {text}" for alpha, loss, text in rows]
    else:
        rows = zip(table.weights, table.names, strict=True)
        lines = [f"  {weight:>+9.4f}  {shown(name)}" for weight, name in rows]
        lines = lines or ["  (all are 0)"]
    return "\n".join([shown(table.title), *lines])


def shown(name: str, width: int = 80) -> str:
    """A name on one line of at most so many letters."""
    line = " ".join(name.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _matrix_lines(table: Matrix) -> list[str]:
    front = max(map(len, table.rows))
    width = max(8, *map(len, table.columns)) + 1
    head = " " * (front + 2) + "".join(f"{name:>{width}}" for name in table.columns)
    rows = zip(table.rows, table.values, strict=True)
    return [
        head,
        *(f"  {name:<{front}}" + "".join(f"{v:>+{width}.3f}" for v in row) for name, row in rows),
    ]
