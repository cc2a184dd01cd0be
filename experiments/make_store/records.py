"""What the lines of a training file mean as records with their outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.label_files.reading import Line
from jaxstruct.trees.phrases.bracketing import read_trees

DOCUMENT_START = "-DOCSTART-"
MOST_LINES = 1 << 16
"""Of a sentence or a tree: what goes on for longer is none."""

Told = Callable[[int, str], object]


class Options(NamedTuple):
    """How lines are read.

    Fields:
      columns: of conll, names of the columns before the label; none: entries are names.
      zero_based: of svmlight, whether the first feature is 0.
    """

    columns: tuple[str, ...] = ()
    zero_based: bool = False


def sentences(lines: Iterable[Line], options: Options, told: Told) -> Iterator[tuple]:
    """(first line, tokens, labels) of CoNLL columns, the label last; faults are told by line."""
    block: list[Line] = []
    for line in _with_end(lines):
        cells = line.text.split(maxsplit=1)
        if line.fault is None and (not cells or cells[0] == DOCUMENT_START):
            if block:
                yield from _sentence(block, options, told)
            block = []
        elif len(block) <= MOST_LINES:
            block.append(line)


def _with_end(lines: Iterable[Line]) -> Iterator[Line]:
    yield from lines
    yield Line(0, "")


def _sentence(block: list[Line], options: Options, told: Told) -> Iterator[tuple]:
    tokens, labels = [], []
    wanted = len(options.columns) + 1 if options.columns else None
    for line in block[:MOST_LINES]:
        cells = line.text.split("\t") if "\t" in line.text else line.text.split(" ")
        cells = [cell for cell in cells if cell]
        fault = line.fault
        if fault is None and wanted and len(cells) != wanted:
            fault = f"has {len(cells)} columns, expected {wanted}"
        elif fault is None and len(cells) < 2:
            fault = "has 1 column, expected features and the label"
        if fault is not None:
            told(line.number, fault)
            return
        labels.append(cells.pop())
        if wanted:
            pairs = zip(options.columns, cells, strict=True)
            tokens.append({name: cell for name, cell in pairs if name != "_"})
        else:
            tokens.append(cells)
    if len(block) > MOST_LINES:
        told(block[0].number, f"begins a sentence of more than {MOST_LINES} tokens")
        return
    yield block[0].number, tokens, labels


def rows(lines: Iterable[Line], options: Options, told: Told) -> Iterator[tuple]:
    """(line, (columns, values), label) of svmlight: `label index:value .. # comment`."""
    for line in lines:
        text = line.text.split("#", 1)[0]
        if line.fault is None and not text.strip():
            continue
        try:
            if line.fault is not None:
                raise ValueError(line.fault)
            row, label = _row(text, 0 if options.zero_based else 1)
        except ValueError as error:
            told(line.number, str(error))
            continue
        yield line.number, row, label


def _row(text: str, base: int) -> tuple[tuple[np.ndarray, np.ndarray], Any]:
    label, *cells = text.split()
    if ":" in label:
        raise ValueError(f"begins with {label!r}, expected a label")
    if cells and cells[0].startswith("qid:"):
        cells = cells[1:]
    flat = " ".join(cells).replace(":", " ").split()
    if len(flat) != 2 * len(cells):
        wrong = next(cell for cell in cells if len(cell.replace(":", " ").split()) != 2)
        raise ValueError(f"{wrong!r} is no index:value")
    try:
        indices, values = np.array(flat[::2], np.int64), np.array(flat[1::2], np.float64)
    except (ValueError, OverflowError):
        raise ValueError("has an index that is no integer, or a value that is no number") from None
    if len(indices) and (indices[0] < base or (np.diff(indices) <= 0).any()):
        raise ValueError(f"has indices that do not rise from {base}")
    with np.errstate(over="ignore"):  # told below
        narrow = values.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise ValueError("has a value that is not finite in float32")
    return (indices - base, narrow), _label(label)


def _label(text: str) -> Any:
    """An integer where it is one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if math.isfinite(number) and number == int(number) else text


def trees(lines: Iterable[Line], options: Options, told: Told) -> Iterator[tuple]:
    """(first line, tree) of bracketed trees, each over one line or several.

    A line that begins with a bracket while a tree is open begins another; the open one is bad.
    """
    del options
    block: list[Line] = []
    depth = 0
    for line in _with_end(lines):
        if block and line.text.startswith("("):
            yield from _tree(block, told)
            block, depth = [], 0
        if line.fault is None and not line.text.strip():
            continue
        block.append(line)
        depth += line.text.count("(") - line.text.count(")")
        if depth <= 0 or line.fault is not None or len(block) > MOST_LINES:
            yield from _tree(block, told)
            block, depth = [], 0
    if block:
        yield from _tree(block, told)


def _tree(block: list[Line], told: Told) -> Iterator[tuple]:
    first = block[0].number
    faults = [line for line in block if line.fault is not None]
    if faults:
        told(faults[0].number, str(faults[0].fault))
        return
    try:
        found = read_trees("\n".join(line.text for line in block), "the tree")
    except (ValueError, RecursionError) as error:
        told(first, " ".join(str(error).split()))
        return
    for tree in found:
        yield first, tree
