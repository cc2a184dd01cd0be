"""Checks of features, sentences and trees, on the host before anything compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import as_array, check_record, checked_size
from jaxstruct.core.spec import checked_lengths
from jaxstruct.dependencies.features import ArcFeatures
from jaxstruct.dependencies.heads import crossing_arcs, fault_of
from jaxstruct.dependencies.potentials import Parse

ADVICE = (
    "take projective=False, leave the sentence out, or lift its arcs with "
    "jaxstruct.dependencies.lifted"
)


def check_features(features: ArcFeatures, labelled: bool) -> None:
    """Raise ValueError unless these are features of arcs, with labels if trees have some."""
    check_record("features", features, ArcFeatures, "jaxstruct.dependencies")
    if len(features.columns) != len(features.sizes) or not features.templates:
        raise ValueError(
            f"features need a size for each of the columns {features.columns} and a template of "
            f"arcs, got sizes {features.sizes} and templates {features.templates}"
        )
    for name in ("table", "label_table", "labels"):
        checked_size(f"features.{name}", getattr(features, name))
    if not labelled and (features.label_templates or features.labels != 1):
        raise ValueError("features have templates of labels, which trees without labels never read")
    if labelled and not features.label_templates:
        raise ValueError("features need label_templates for trees with labels")
    if features.size >= 2**31:
        raise ValueError(f"features have {features.size} weights: lower table or label_table")


def check_sentences(features: ArcFeatures, inputs: Any, kind: type) -> None:
    """Raise ValueError unless inputs are padded sentences of these columns."""
    check_record("inputs", inputs, kind, "sentence_inputs")
    tokens = as_array("inputs.tokens", inputs.tokens, "[n, T, columns] integers")
    columns = len(features.columns)
    if tokens.ndim != 3 or tokens.shape[2] != columns or tokens.dtype.kind not in "iu":
        raise ValueError(
            f"inputs.tokens must be [n, T, {columns}] integers, got {tokens.dtype} of shape "
            f"{tokens.shape}"
        )
    checked_lengths("inputs.length", inputs.length, len(tokens), 1, tokens.shape[1])
    wrong = (tokens < 0) | (tokens >= np.array(features.sizes)[None, None])
    if wrong.any():
        i, word, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"inputs.tokens[{i}] word {word}: {features.columns[column]!r} is "
            f"{tokens[i, word, column]}, not in 0..{features.sizes[column] - 1}"
        )


def check_trees(lengths: Any, outputs: Any, labels: int | None, projective: bool) -> None:
    """Raise ValueError unless outputs are trees of the sentences, with labels below `labels`."""
    check_record("outputs", outputs, Parse, "jaxstruct.dependencies")
    if (outputs.labels is None) != (labels is None):
        raise ValueError("outputs have labels where the problem has none, or the other way round")
    heads = as_array("outputs.heads", outputs.heads, "[n, T] integers")
    real = np.arange(heads.shape[1])[None] < np.asarray(lengths)[:, None]
    parts = {"heads": heads} | ({} if labels is None else {"labels": np.asarray(outputs.labels)})
    for name, values in parts.items():
        if values.shape != real.shape or values.dtype.kind not in "iu":
            raise ValueError(
                f"outputs.{name} must be [n, T] = {list(real.shape)} integers, got {values.dtype} "
                f"of shape {values.shape}"
            )
        wrong = np.flatnonzero(((values >= 0) != real).any(axis=1))
        if wrong.size:
            raise ValueError(
                f"outputs.{name}[{wrong[0]}] must be >= 0 up to the length and -1 beyond it"
            )
    if labels is not None and (parts["labels"] >= labels).any():
        i = int(np.flatnonzero((parts["labels"] >= labels).any(axis=1))[0])
        raise ValueError(f"outputs.labels[{i}] has a label that is not in 0..{labels - 1}")
    for i, length in enumerate(lengths):
        fault = fault_of(heads[i, :length])
        if fault:
            raise ValueError(f"outputs.heads[{i}] is no tree: {fault}")
        if projective and crossing_arcs(heads[i, :length]).any():
            raise ValueError(f"outputs.heads[{i}] has arcs that cross: {ADVICE}")
