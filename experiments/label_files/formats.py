"""What the lines of a file mean as records, and how predictions are written in their place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.files import to_plain
from experiments.lib.reading import Line, cells_of
from jaxstruct.data.bracketing import write_line
from jaxstruct.data.conll import no_token
from jaxstruct.data.trees import Tree
from jaxstruct.models import BadRecord, TrainedModel

MOST_TOKENS = 1 << 16
"""Lines of a sentence in columns: a file without any empty line is no sentence."""

PREDICTED = "predicted"
"""The key that a prediction gets beside a record that stands in a field."""


class _Nothing:
    """In the place of the record of lines that hold none, such as empty ones."""


NOTHING = _Nothing()


class Item(NamedTuple):
    """A record as it lies in a file.

    Fields:
      number: its first line. text: its lines. record: as the model's encoding takes it, BadRecord
      where there is none to read, NOTHING where none is meant.
    """

    number: int
    text: str
    record: Any


class Reading(NamedTuple):
    """How the lines of a format are read.

    Fields:
      model: that will label them. field: of JSON objects which holds the record, "" for all.
      columns: names of columns; none: entries are names. labelled: the last column is a label.
      zero_based: whether the first feature of svmlight is 0.
    """

    model: TrainedModel
    field: str = ""
    columns: tuple[str, ...] = ()
    labelled: bool = False
    zero_based: bool = False

    @property
    def structure(self) -> str:
        """The structure of the model."""
        return self.model.encoding.structure


class Format(NamedTuple):
    """A kind of file.

    Fields:
      ends: of file names that are of it. structures: that it serves. suffix: of the labelled file.
      read: (reading, lines) -> items. write: (reading, item, prediction or None) -> lines.
    """

    ends: tuple[str, ...]
    structures: tuple[str, ...]
    suffix: str
    read: Callable[[Reading, Iterable[Line]], Iterator[Item]]
    write: Callable[[Reading, Item, Any], str]


def _bad(reason: str) -> BadRecord:
    return BadRecord(-1, reason)


def _by_line(
    record: Callable[[Reading, str], Any], blank: bool = False
) -> Callable[[Reading, Iterable[Line]], Iterator[Item]]:
    """A reader of a record a line; empty lines are none unless `blank`."""

    def read(reading: Reading, lines: Iterable[Line]) -> Iterator[Item]:
        for line in lines:
            if line.fault is not None:
                yield Item(line.number, line.text, _bad(line.fault))
            elif not line.text.strip() and not blank:
                yield Item(line.number, line.text, NOTHING)
            else:
                try:
                    found = record(reading, line.text)
                except (ValueError, RecursionError) as error:
                    found = _bad(str(error))
                yield Item(line.number, line.text, found)

    return read


def _of_json(reading: Reading, text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    if reading.field:
        if not isinstance(value, dict) or reading.field not in value:
            raise ValueError(f"no object with the field {reading.field!r}")
        value = value[reading.field]
    if reading.structure == "graph_labelling" and isinstance(value, dict):
        unknown = sorted(set(value) - {"nodes", "edges", "edge_features"})
        if unknown or not {"nodes", "edges"} <= set(value):
            raise ValueError(
                f"a graph with the fields {sorted(value)}, expected nodes, edges and perhaps "
                "edge_features"
            )
        return value["nodes"], value["edges"], value.get("edge_features")
    if value is None:
        raise ValueError("null, expected a record")
    return value


def plain(value: Any) -> Any:
    """A prediction as JSON has it: trees in brackets, sets as sorted lists."""
    if isinstance(value, Tree):
        return write_line(value)
    if isinstance(value, (set, frozenset)):
        return [plain(one) for one in in_order(value)]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return to_plain(value)


def in_order(labels: Iterable[Any]) -> list[Any]:
    """The labels of a set, those of one type sorted."""
    return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


def _as_json(reading: Reading, item: Item, predicted: Any) -> str:
    found = None if predicted is None else plain(predicted)
    if not reading.field:
        return json.dumps(found, ensure_ascii=False)
    try:
        whole = json.loads(item.text)
    except (ValueError, RecursionError):
        whole = None
    beside = whole if isinstance(whole, dict) else {}
    return json.dumps({**beside, PREDICTED: found}, ensure_ascii=False)


def _sentences(reading: Reading, lines: Iterable[Line]) -> Iterator[Item]:
    """Sentences of a token a line; what stands between them is kept as it is."""
    block: list[Line] = []
    cut = False  # inside of a sentence that is too long

    def sentence() -> Item:
        text = "\n".join(line.text for line in block)
        record = _bad(f"has more than {MOST_TOKENS} tokens") if cut else _tokens(reading, block)
        return Item(block[0].number, text, record)

    for line in lines:
        if line.fault is None and no_token(line.text, inside=bool(block) or cut):
            if block:
                yield sentence()
            block, cut = [], False
            yield Item(line.number, line.text, NOTHING)
            continue
        block.append(line)
        if len(block) >= MOST_TOKENS:
            cut = True
            yield sentence()
            block = []
    if block:
        yield sentence()


def _tokens(reading: Reading, block: list[Line]) -> Any:
    """The tokens of a sentence: names, or name=entry where columns have names."""
    names, tokens = reading.columns, []
    wanted = len(names) + reading.labelled
    for line in block:
        if line.fault is not None:
            return _bad(f"line {line.number} {line.fault}")
        cells = cells_of(line.text)
        if names and len(cells) != wanted:
            return _bad(f"line {line.number} has {len(cells)} columns, expected {wanted}")
        if reading.labelled:
            cells = cells[:-1]
        if names:
            tokens.append({n: cell for n, cell in zip(names, cells, strict=True) if n != "_"})
        else:
            tokens.append(cells)
    return tokens


def _as_column(reading: Reading, item: Item, predicted: Any) -> str:
    lines = item.text.split("\n")
    labels = ["_"] * len(lines) if predicted is None else [str(label) for label in predicted]
    rows = zip(lines, labels, strict=True)
    return "\n".join(("\t" if "\t" in text else " ").join((text, label)) for text, label in rows)


def _of_svmlight(reading: Reading, text: str) -> Any:
    """A row of numbered features, in the kind of row that the model was trained on."""
    base = 0 if reading.zero_based else 1
    cells = text.split("#", 1)[0].split()
    if cells and ":" not in cells[0]:
        cells = cells[1:]  # the label
    found: dict[int, float] = {}
    for cell in cells:
        name, _, value = cell.partition(":")
        if name == "qid":
            continue
        try:
            index, number = int(name), float(value)
        except ValueError:
            raise ValueError(f"{cell!r} is no index:value") from None
        if index < base or index in found or not math.isfinite(number):
            raise ValueError(f"{cell!r} has an index below {base} or twice, or no finite value")
        found[index] = number
    features = reading.model.encoding.features  # type: ignore[union-attr]
    if features.kind == "named":
        return {str(index): value for index, value in found.items()}
    columns = np.array(sorted(found), np.int64) - base
    if len(columns) and columns[-1] >= features.columns:
        raise ValueError(
            f"index {columns[-1] + base}, but the model has {features.columns} columns"
        )
    dtype = next(iter(reading.model.weights.values())).dtype
    values = np.array([found[int(column) + base] for column in columns], dtype)
    if features.kind == "dense":
        row = np.zeros(features.columns, dtype)
        row[columns] = values
        return row
    from scipy import sparse

    offsets = np.array([0, len(columns)])
    return sparse.csr_matrix((values, columns, offsets), (1, features.columns))


def _of_words(reading: Reading, text: str) -> Any:
    """The words of a line; of label sequences each a token of one feature."""
    words = text.split()
    return [[word] for word in words] if reading.structure == "chain" else words


def _of_pair(reading: Reading, text: str) -> tuple[str, ...]:
    cells = tuple(text.split("\t"))
    if len(cells) != 2:
        raise ValueError(f"{len(cells)} texts with tabs between them, expected 2")
    return cells


def _as_line(reading: Reading, item: Item, predicted: Any) -> str:
    """Labels with tabs between them (of sequences blanks), a tree, or two rows."""
    if predicted is None:
        return ""
    if isinstance(predicted, Tree):
        return write_line(predicted)
    if isinstance(predicted, (set, frozenset)):
        return "\t".join(map(str, in_order(predicted)))
    if reading.structure == "chain":
        return " ".join(map(str, predicted))
    if reading.structure == "pairwise_alignment":
        return "\t".join(predicted)
    return str(predicted)


_ROWS = "multiclass", "multi_label"
FORMATS = {
    "conll": Format((".conll", ".iob", ".iob2", ".bio"), ("chain",), ".conll", _sentences,
                    _as_column),
    "svmlight": Format((".svm", ".svmlight", ".libsvm"), _ROWS, ".txt", _by_line(_of_svmlight),
                       _as_line),
    "jsonl": Format((".jsonl", ".ndjson"), (
        *_ROWS, "chain", "segments", "weighted_grammar", "dependency_parser", "pairwise_alignment",
        "graph_labelling", "assignment", "document_ranking", "sample_labels", "candidates",
    ), ".jsonl", _by_line(_of_json), _as_json),
    "brackets": Format((".mrg", ".brackets", ".ptb"), ("weighted_grammar",), ".mrg",
                       _by_line(lambda reading, text: text), _as_line),
    "words": Format((".txt", ".text"), (*_ROWS, "chain", "weighted_grammar"), ".txt",
                    _by_line(_of_words), _as_line),
    "pairs": Format((".tsv", ".pairs"), ("pairwise_alignment",), ".tsv", _by_line(_of_pair),
                    _as_line),
}  # fmt: skip
"""By the names that --format has for them."""

USUAL = {
    "chain": "conll", "weighted_grammar": "words", "pairwise_alignment": "pairs",
}  # fmt: skip
"""Of structures whose files are no JSON lines where nothing says what they are."""


def format_of(path: str, model: TrainedModel, format: str) -> str:
    """The name of a file's format: the one given, else by its end, else the structure's usual one.

    Raises:
      ValueError: the format does not serve the model.
    """
    structure = model.encoding.structure
    serving = [name for name, one in FORMATS.items() if structure in one.structures]
    if format == "auto":
        bare = path.lower().removesuffix(".gz")
        by_end = [name for name, one in FORMATS.items() if bare.endswith(one.ends)]
        format = by_end[0] if by_end else USUAL.get(structure, "jsonl")
    if not serving:
        raise ValueError(
            f"model: one of {structure} is served by no format of files: predict with "
            "jaxstruct.load(path).predict(records)"
        )
    if format not in serving:
        raise ValueError(
            f"format: {path} is read as {format}, which does not serve a model of {structure}: "
            f"give --format={' or '.join(serving)}"
        )
    return format


def check_writable(reading: Reading, format: str) -> None:
    """Raise ValueError where labels of the model cannot be distinguished in lines of the format."""
    codec = getattr(reading.model.encoding, "codec", None)
    if codec is None or format == "jsonl":
        return
    text = reading.structure == "chain"
    for label in codec.classes:
        shown = str(label)
        if not shown or (text and shown.split() != [shown]) or set("\t\r\n") & set(shown):
            raise ValueError(
                f"format: label {label!r} of the model cannot be written as {format}, whose labels "
                "lie between blanks, tabs or line ends: take --format=jsonl"
            )
