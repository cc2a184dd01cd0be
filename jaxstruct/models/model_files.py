"""Trained models in one file: an archive whose header has encoding, options, weights and training.

These are `plain_values`; every record, option and shape is checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jax.tree_util import Partial

from jaxstruct.alignments.alphabets import Alphabet, alphabet
from jaxstruct.alignments.encoding import AlignmentEncoding
from jaxstruct.assignments.encoding import AssignmentEncoding
from jaxstruct.chains import ChainEncoding, Constraints, KernelChainEncoding
from jaxstruct.core.archive import Archive, Schema, write
from jaxstruct.core.checks import checked_number, checked_size, distinct_texts, text_of
from jaxstruct.core.feature_encoding import FeatureEncoding, index_of_names
from jaxstruct.core.labels import LabelCodec, fit_codec
from jaxstruct.core.plain_values import Record, check_fields, from_plain, record_of, to_plain
from jaxstruct.core.prepared import Encoding, check_encoding
from jaxstruct.core.types import Static
from jaxstruct.decisions import MAKERS, DecisionEncoding, Decisions
from jaxstruct.dependencies import DependencyEncoding
from jaxstruct.graphs.encoding import GraphEncoding
from jaxstruct.graphs.set_encoding import SetEncoding
from jaxstruct.kernels.anchors import Anchors
from jaxstruct.kernels.gram import KERNELS
from jaxstruct.models.trained import TrainedModel, Training, trained_model
from jaxstruct.multiclass.encoding import ClassEncoding, KernelClassEncoding
from jaxstruct.rankings.encoding import RankingEncoding, SampleEncoding
from jaxstruct.segments import SegmentEncoding
from jaxstruct.strings.encoding import CandidateEncoding, KernelCandidateEncoding
from jaxstruct.trees import Binarisation, Grammar, TreeEncoding
from jaxstruct.trees.phrases.binarisation import check_binarisation
from jaxstruct.trees.phrases.grammar import UnknownWords, check_unknown_words, fields_of, grammar_of


def _features(fields: dict[str, Any]) -> FeatureEncoding:
    check_fields(fields, ("kind", "names", "columns", "constant"))
    kind, names = fields["kind"], fields["names"]
    if kind not in ("named", "dense", "sparse"):
        raise ValueError(f"kind is {kind!r}")
    if names is None and kind == "named" or names is not None and kind == "sparse":
        raise ValueError(f"{kind} rows with{'out' if names is None else ''} names")
    constant = checked_number("constant", fields["constant"])
    columns = checked_size("columns", fields["columns"], 0 if constant else 1)
    index = None if names is None else index_of_names(distinct_texts("names", names))
    if index is not None and index.number_of_features != columns:
        raise ValueError(f"{index.number_of_features} names of {columns} columns")
    return FeatureEncoding(kind, index, columns, constant)


def _features_fields(features: FeatureEncoding) -> dict[str, Any]:
    names = None if features.index is None else features.index.names
    return {
        "kind": features.kind, "names": names, "columns": features.columns,
        "constant": features.constant,
    }  # fmt: skip


def _decisions(fields: dict[str, Any]) -> Decisions:
    check_fields(fields, ("maker", "arguments"))
    maker, arguments = fields["maker"], fields["arguments"]
    if maker not in MAKERS or not isinstance(arguments, dict):
        raise ValueError(f"its decisions are {text_of(maker)}, which this version has not")
    return MAKERS[maker](**arguments)


def _decisions_fields(decisions: Decisions) -> dict[str, Any]:
    if decisions.made.value is None:
        raise ValueError("the decisions are of your own, and a model file names no code of yours")
    maker, arguments = decisions.made.value
    return {"maker": maker, "arguments": dict(arguments)}


def _constraints(fields: dict[str, Any]) -> Constraints:
    check_fields(fields, Constraints._fields)
    if not all(isinstance(one, np.ndarray) for one in fields.values()):
        raise ValueError("its fields are no arrays")
    return Constraints(**fields)


def _named(kernel: Any) -> dict[str, Any]:
    """A kernel by the name of its function and its parameters."""
    name = kernel.func.__name__
    if KERNELS.get(name) is not kernel.func or kernel.keywords:
        raise ValueError(
            f"the kernel calls {name}, no function of jaxstruct.kernels: a model file names no "
            "code of yours"
        )
    return {"name": name, "parameters": tuple(kernel.args)}


def _kernel(fields: dict[str, Any]) -> Partial:
    check_fields(fields, ("name", "parameters"))
    if fields["name"] not in KERNELS or not isinstance(fields["parameters"], tuple):
        raise ValueError(f"its kernel is {text_of(fields['name'])}, which this version has not")
    return Partial(KERNELS[fields["name"]], *fields["parameters"])


def records_with(kind: type) -> Mapping[str, Record]:
    """The records of files whose encoding is of a class.

    Raises:
      ValueError: it is no class of an `Encoding`, or has the name of another record.
    """
    named = {one.structure: one for one in ENCODINGS}
    if kind in named.values():
        return RECORDS
    name = getattr(kind, "structure", None)
    if not isinstance(name, str) or not hasattr(kind, "_fields"):
        raise ValueError(
            "encoding must be of a NamedTuple with an attribute structure, its name in files, got "
            f"{text_of(kind)}: see jaxstruct.models.Encoding"
        )
    if name in RECORDS:
        raise ValueError(f"encoding has the structure {name!r}, a name of jaxstruct's own records")
    return {**RECORDS, name: record_of(kind)}


ENCODINGS = (
    ClassEncoding, ChainEncoding, TreeEncoding, AlignmentEncoding, GraphEncoding, SetEncoding,
    CandidateEncoding, KernelClassEncoding, KernelChainEncoding, KernelCandidateEncoding,
    AssignmentEncoding, DependencyEncoding, RankingEncoding, SampleEncoding, SegmentEncoding,
    DecisionEncoding,
)  # fmt: skip
RECORDS = {
    "features": Record(FeatureEncoding, _features, _features_fields),
    "labels": record_of(LabelCodec, None, lambda own: fit_codec([], own.classes)),
    "grammar": Record(Grammar, grammar_of, fields_of),
    "binarisation": record_of(Binarisation, None, check_binarisation),
    "unknown_words": record_of(UnknownWords, None, check_unknown_words),
    "alphabet": record_of(Alphabet, None, lambda own: alphabet(own.letters)),
    "constraints": Record(
        Constraints, _constraints, lambda c: {k: np.asarray(v) for k, v in c._asdict().items()}
    ),
    "training": record_of(Training),
    "anchors": record_of(Anchors),
    "kernel": Record(Partial, _kernel, _named),
    "decision_set": Record(Decisions, _decisions, _decisions_fields),
    "static": record_of(Static, lambda static: {"value": static.value}, hash),
    **{kind.structure: record_of(kind) for kind in ENCODINGS},
}
"""By the names that files have for them."""


MODEL = Schema("model file", "jaxstruct-model", 2, "jaxstruct.save")
LIMIT = 1 << 31
"""Bytes that a file may unpack to, unless a caller gives another number: 2 GiB."""
_PARTS = ("encoding", "options", "weights", "training")


def save(model: TrainedModel | Any, path: str | os.PathLike) -> Path:
    """Write a model to one file, whole or not at all; an existing one is replaced.

    Args:
      model: of `trained`, or a fitted estimator. path: the file.

    Returns:
      The path.

    Raises:
      ValueError: it is no model, or has an option or a label of a kind that files do not hold, such
        as a function.
      OSError: the file cannot be written.
    """
    model = trained_model(model)
    arrays: dict[str, np.ndarray] = {}
    records = records_with(type(model.encoding))
    own = model.encoding, dict(model.options), dict(model.weights), model.training
    parts = {
        name: to_plain(part, name, arrays, records) for name, part in zip(_PARTS, own, strict=True)
    }
    header = {"jaxstruct": model.version, "structure": model.encoding.structure, **parts}
    return write(path, MODEL, header, arrays, compressed=True)


def load(
    path: str | os.PathLike, *, encoding: type[Encoding] | None = None, limit: int = LIMIT
) -> TrainedModel:
    """Read a model that `save` wrote.

    Args:
      path: the file. limit: bytes that it may unpack to.
      encoding: the class of the model's encoding where that is one of your own; nothing that a
        file names is imported.

    Returns:
      The model, all of it checked; it predicts as the one that was saved.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no model file, of another version of the format, of a structure that this
        jaxstruct does not know, larger than the limit, or does not hold together. DamagedFile, one
        of them: it is not as it was written.
    """
    limit = checked_size("limit", limit)
    records = RECORDS if encoding is None else records_with(encoding)
    archive = Archive(MODEL, path)
    archive.read(limit=limit)
    with archive.refusing():
        return _model(archive, records)


def _model(archive: Archive, records: Mapping[str, Record]) -> TrainedModel:
    """The model, its problem built and compared with its weights."""
    header, arrays = archive.header, archive.arrays
    wanted = {"format", "version", "jaxstruct", "structure", "arrays", *_PARTS}
    if set(header) != wanted:
        raise archive.error(f"has a header with {sorted(set(header) ^ wanted)} missing or too many")
    if not isinstance(header["structure"], str) or header["structure"] not in records:
        raise archive.error(
            f"is of the structure {text_of(header['structure'])}, which jaxstruct does not know: "
            "give load(encoding=) the class of its encoding"
        )
    encoding, options, weights, training = (
        from_plain(header[name], arrays, records) for name in _PARTS
    )
    check_encoding(encoding)
    if encoding.structure != header["structure"]:
        raise archive.error(
            f"is of the structure {header['structure']!r}, but its encoding of "
            f"{encoding.structure!r}"
        )
    if not isinstance(training, Training) or not isinstance(options, dict):
        raise archive.error("has options or a training that are none")
    sound = isinstance(weights, dict) and all(isinstance(w, np.ndarray) for w in weights.values())
    if not sound:
        raise archive.error("has weights that are no arrays by name")
    if arrays:
        raise archive.error(f"has arrays that nothing names: {sorted(arrays)}")
    model = TrainedModel(encoding, options, weights, training, header["jaxstruct"])
    model.problem  # noqa: B018  built, with all its checks
    return model
