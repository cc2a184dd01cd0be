"""Trained models in one file: an archive whose header has encoding, options, weights and training.

These are `plain_values`; every record, option and shape is checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxstruct.core.archive import Archive, Schema, write
from jaxstruct.core.checks import checked_size, text_of
from jaxstruct.core.plain_values import Record, from_plain, to_plain
from jaxstruct.core.prepared import Encoding, check_encoding
from jaxstruct.models.records import RECORDS, records_with
from jaxstruct.models.trained import TrainedModel, Training, trained_model

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
