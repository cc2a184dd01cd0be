"""Hierarchical ARFF files of the CLUS system, dense or sparse.

    @ATTRIBUTE <name> numeric
    @ATTRIBUTE class hierarchical D,D/01,D/01/D
    @DATA
    0.5,0,D/01@D/02            dense: values in the attributes' order
    {1 0.5, 3 D/01@D/02}       sparse: numbered values; CLUS numbers attributes from 1

A class is its path; its ancestors belong to the tree whether or not they are listed. Labels of one
example are separated by '@', the main one first. '%' begins a comment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.class_paths import number_paths, path_parents
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.rows import CsrRows, csr_rows

_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.+)", re.IGNORECASE)
_HIERARCHY = re.compile(r"hierarchical\s+(.+)", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")


class ClusData(NamedTuple):
    """A hierarchical ARFF file.

    Fields:
      rows: n feature vectors; feature j is the j-th attribute, the class left out.
      labels: for each example its nodes, the main one first.
      nodes: the class paths, such as 'D/01'; a parent comes before its children.
      parents: [nodes] int32, the parent of each node, -1 at the top.
      feature_names: the names of the attributes.
    """

    rows: CsrRows
    labels: tuple[tuple[int, ...], ...]
    nodes: tuple[str, ...]
    parents: np.ndarray
    feature_names: tuple[str, ...]


class _Header(NamedTuple):
    names: list[str]  # of all attributes, the class included
    class_position: int
    nodes: dict[str, int]


def load_clus_arff(
    path: Path, *, first_index: int = 1, missing_value: float | None = None
) -> ClusData:
    """Reads a CLUS ARFF file with numeric attributes and one hierarchical class.

    Args:
      path: the file, UTF-8.
      first_index: the number of the first attribute in sparse rows: 1 as CLUS, or 0 as Weka.
      missing_value: what to put for '?', or None to refuse it.

    Raises:
      FileNotFoundError: no such file.
      MalformedFile: the message names the line. Also for nominal attributes, for classes given
        as single edges 'parent/child' of a graph (labels are then no paths), for weights of
        examples, and for files without examples.
    """
    lines = _numbered_lines(Path(path))
    header = _read_header(path, lines)
    split = _row_splitter(header, first_index)
    number = _number_reader(missing_value)
    pairs, labels = [], []
    for line_number, line in lines:
        try:
            cells = split(line)
            class_cell = cells.pop(header.class_position, None)
            labels.append(_labels(class_cell, header.nodes))
            shift = header.class_position
            pairs.append([(j - (j > shift), number(text)) for j, text in cells.items()])
        except ValueError as error:
            raise MalformedFile(f"{path}, line {line_number}: {error}") from error
    if not pairs:
        raise MalformedFile(f"{path}: holds no example after @DATA")
    names = header.names[: header.class_position] + header.names[header.class_position + 1 :]
    return ClusData(
        rows=_rows(pairs, len(names)),
        labels=tuple(labels),
        nodes=tuple(header.nodes),
        parents=path_parents(header.nodes),
        feature_names=tuple(names),
    )


def _rows(pairs: list[list[tuple[int, float]]], number_of_features: int) -> CsrRows:
    """Rows of (index, value), each index once: sorted, zeros dropped."""
    kept = [sorted(pair for pair in row if pair[1] != 0.0) for row in pairs]
    flat = [pair for row in kept for pair in row]
    indices, values = zip(*flat, strict=True) if flat else ((), ())
    indptr = np.cumsum([0, *map(len, kept)])
    return csr_rows(indptr, np.array(indices, np.int64), np.array(values), number_of_features)


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (number, text) of the lines that are not empty, comments cut off."""
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                if text := line.split("%", 1)[0].strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise MalformedFile(f"{path}: not UTF-8 text ({error})") from error


def _read_header(path: Path, lines: Iterator[tuple[int, str]]) -> _Header:
    names: list[str] = []
    position, nodes = None, {}
    for number, line in lines:
        keyword = line.split(maxsplit=1)[0].lower()
        if keyword == "@data" and position is not None:
            return _Header(names, position, nodes)
        if keyword == "@relation":
            continue
        match = _ATTRIBUTE.fullmatch(line)
        hierarchy = match and _HIERARCHY.fullmatch(match[2])
        if match and hierarchy and position is None:
            position, nodes = len(names), _declared(path, number, hierarchy[1])
        elif not match or match[2].lower() not in _NUMERIC:
            raise MalformedFile(
                f"{path}, line {number}: {line[:60]!r}; expected numeric attributes, one "
                "'@ATTRIBUTE class hierarchical ...', then @DATA"
            )
        names.append(match[1].strip("'\""))
    raise MalformedFile(f"{path}: has no @DATA, expected one after the attributes")


def _declared(path: Path, number: int, hierarchy: str) -> dict[str, int]:
    try:
        return number_paths(hierarchy.split(","))
    except ValueError as error:
        raise MalformedFile(f"{path}, line {number}: {error}") from error


def _row_splitter(header: _Header, first_index: int) -> Callable[[str], dict[int, str]]:
    """Returns the function from a data line to {attribute position: text}."""
    size = len(header.names)

    def split(line: str) -> dict[int, str]:
        if not line.startswith("{"):
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) != size:
                raise ValueError(f"has {len(cells)} values, expected {size}")
            return dict(enumerate(cells))
        if not line.endswith("}"):
            raise ValueError("a sparse row must end with '}'")
        sparse: dict[int, str] = {}
        for cell in filter(None, (cell.strip() for cell in line[1:-1].split(","))):
            index, _, text = cell.partition(" ")
            position = int(index) - first_index
            if not 0 <= position < size or position in sparse:
                raise ValueError(f"attribute {index} is out of range or comes twice")
            sparse[position] = text.strip()
        return sparse

    return split


def _number_reader(missing_value: float | None) -> Callable[[str], float]:
    def number(text: str) -> float:
        if text == "?":
            if missing_value is None:
                raise ValueError("a value is missing ('?'); pass missing_value to fill it")
            return missing_value
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{text!r} is not finite")
        return value

    return number


def _labels(cell: str | None, nodes: dict[str, int]) -> tuple[int, ...]:
    if not cell:
        raise ValueError("has no class")
    names = [name.strip() for name in cell.split("@")]
    for name in names:
        if name not in nodes:
            raise ValueError(f"class {name!r} is not a path of the declared hierarchy")
    return tuple(nodes[name] for name in names)
