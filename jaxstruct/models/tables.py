"""Weights by name and support outputs as tables, and these as text."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np


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
    """What a model has learned; its text is a table, `explanation_picture` draws it."""

    title: str
    tables: tuple[Table, ...]

    def __str__(self) -> str:
        """All tables, one below the other."""
        return "\n\n".join([self.title, *map(_table_text, self.tables)])


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
