"""The records that model files hold, each with the checks that a file has to pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.alignments import AlignmentEncoding, Alphabet, alphabet
from jaxstruct.chains import ChainEncoding, Constraints
from jaxstruct.core.checks import check_flag, checked_number, checked_size
from jaxstruct.core.feature_encoding import FeatureEncoding
from jaxstruct.core.feature_index import index_of_names
from jaxstruct.core.labels import LabelCodec, fit_codec
from jaxstruct.graphs import GraphEncoding, SetEncoding
from jaxstruct.models.plain_values import Record
from jaxstruct.models.training import Training
from jaxstruct.multiclass import ClassEncoding
from jaxstruct.strings import CandidateEncoding
from jaxstruct.trees import Grammar, TreeEncoding
from jaxstruct.trees.phrases.grammar_files import grammar_text, parse_grammar


def _exactly(fields: dict[str, Any], names: tuple[str, ...]) -> None:
    """Raise ValueError unless these are the fields."""
    if set(fields) != set(names):
        raise ValueError(f"its fields are {sorted(fields)}, expected {sorted(names)}")


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """A tuple of texts, each once."""
    if not isinstance(value, tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} is no tuple of texts")
    if len(set(value)) != len(value):
        raise ValueError(f"{name} has a text twice")
    return value


def _features(fields: dict[str, Any]) -> FeatureEncoding:
    _exactly(fields, ("kind", "names", "columns", "constant"))
    kind, names = fields["kind"], fields["names"]
    if kind not in ("named", "dense", "sparse"):
        raise ValueError(f"kind is {kind!r}")
    if names is None and kind == "named" or names is not None and kind == "sparse":
        raise ValueError(f"{kind} rows with{'out' if names is None else ''} names")
    columns = checked_size("columns", fields["columns"])
    index = None if names is None else index_of_names(_texts("names", names))
    if index is not None and index.number_of_features != columns:
        raise ValueError(f"{index.number_of_features} names of {columns} columns")
    return FeatureEncoding(kind, index, columns, checked_number("constant", fields["constant"]))


def _features_fields(features: FeatureEncoding) -> dict[str, Any]:
    names = None if features.index is None else features.index.names
    return {
        "kind": features.kind, "names": names, "columns": features.columns,
        "constant": features.constant,
    }  # fmt: skip


def _codec(fields: dict[str, Any]) -> LabelCodec:
    _exactly(fields, LabelCodec._fields)
    if not isinstance(fields["classes"], tuple):
        raise ValueError("classes are no tuple")
    return fit_codec([], fields["classes"])


def _grammar(fields: dict[str, Any]) -> Grammar:
    _exactly(fields, ("text",))
    return parse_grammar(fields["text"], "grammar")


def _alphabet(fields: dict[str, Any]) -> Alphabet:
    _exactly(fields, Alphabet._fields)
    if not isinstance(fields["letters"], str):
        raise ValueError("letters are no text")
    return alphabet(fields["letters"])


def _constraints(fields: dict[str, Any]) -> Constraints:
    _exactly(fields, Constraints._fields)
    if not all(isinstance(one, np.ndarray) for one in fields.values()):
        raise ValueError("its fields are no arrays")
    return Constraints(**fields)


def _training(fields: dict[str, Any]) -> Training:
    _exactly(fields, Training._fields)
    for name, value in fields.items():
        kind = str if name in ("solver", "status", "formulation") else float
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}")
    return Training(**fields)


def _of(kind: Any, **parts: type | tuple[type, ...]) -> Record:
    """A record whose fields are of these types."""

    def build(fields: dict[str, Any]) -> Any:
        _exactly(fields, kind._fields)
        for name, wanted in parts.items():
            if not isinstance(fields[name], wanted):
                raise ValueError(f"{name} is a {type(fields[name]).__name__}")
        return kind(**fields)

    return Record(kind, build)


def _graph(fields: dict[str, Any]) -> GraphEncoding:
    edges = (FeatureEncoding, type(None))
    parts = {"nodes": FeatureEncoding, "edges": edges, "codec": LabelCodec}
    encoding = _of(GraphEncoding, **parts).build(fields)
    check_flag("plans", encoding.plans)
    _texts("ignore", encoding.ignore)
    return encoding


RECORDS = {
    "features": Record(FeatureEncoding, _features, _features_fields),
    "labels": Record(LabelCodec, _codec),
    "grammar": Record(Grammar, _grammar, lambda grammar: {"text": grammar_text(grammar)}),
    "alphabet": Record(Alphabet, _alphabet),
    "constraints": Record(
        Constraints, _constraints, lambda c: {k: np.asarray(v) for k, v in c._asdict().items()}
    ),
    "training": Record(Training, _training),
    "multiclass": _of(ClassEncoding, features=FeatureEncoding, codec=LabelCodec),
    "chain": _of(ChainEncoding, features=FeatureEncoding, codec=LabelCodec),
    "weighted_grammar": _of(TreeEncoding, grammar=Grammar),
    "pairwise_alignment": _of(AlignmentEncoding, alphabet=Alphabet),
    "graph_labelling": Record(GraphEncoding, _graph),
    "multi_label": _of(SetEncoding, features=FeatureEncoding, codec=LabelCodec),
    "candidates": _of(CandidateEncoding, features=FeatureEncoding),
}
"""By the names that files have for them."""
