"""Trained models in one file: a zip of a JSON header and arrays, sealed by a digest.

    header.json      format, its version, jaxstruct's, the structure, and the model: encoding,
                     options, weights and training as `plain_values`
    0.npy, 1.npy ..  the arrays that the header names, by its own table of dtypes and shapes

The comment at the file's end is the sha256 of every byte before it, so that a file is read whole,
as it was written, or not at all. A digest is no signature: who can write the file can make one. So
whatever is read is checked, too: sizes before anything is unpacked, every record, option and shape.
Nothing is unpickled or run. `numpy.load` and any zip program open the file as well.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from jaxstruct.core.checks import checked_size, text_of
from jaxstruct.core.encoding import Encoding, check_encoding
from jaxstruct.core.files import write_file
from jaxstruct.models.plain_values import Record, from_plain, one_line, to_plain
from jaxstruct.models.records import RECORDS, records_with
from jaxstruct.models.trained import TrainedModel, trained_model
from jaxstruct.models.training import Training

FORMAT, VERSION = "jaxstruct-model", 1
HEADER = "header.json"
LIMIT = 1 << 31
"""Bytes that a file may unpack to, unless a caller gives another number: 2 GiB."""
_SEAL = b"sha256:"
_SEAL_SIZE = len(_SEAL) + 64
_PARTS = ("encoding", "options", "weights", "training")
_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
           "float16", "float32", "float64")  # fmt: skip
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OverflowError,
    UnicodeDecodeError, RecursionError, MemoryError,
)  # fmt: skip


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
    parts = {
        name: to_plain(dict(part) if name in ("options", "weights") else part, name, arrays,
                       records)
        for name, part in zip(_PARTS, _parts_of(model), strict=True)
    }  # fmt: skip
    table = {key: [str(array.dtype), list(array.shape)] for key, array in arrays.items()}
    header = {
        "format": FORMAT, "version": VERSION, "jaxstruct": model.version,
        "structure": model.encoding.structure, "arrays": table, **parts,
    }  # fmt: skip
    return write_file(path, _sealed(header, arrays))


def _parts_of(model: TrainedModel) -> tuple:
    return model.encoding, model.options, model.weights, model.training


def _sealed(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a file, which says the digest of all before it at its end."""
    stream = io.BytesIO()
    text = json.dumps(header, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER), text, zipfile.ZIP_DEFLATED, 1)
        for key, array in arrays.items():
            own = io.BytesIO()
            npy.write_array(own, np.ascontiguousarray(array).reshape(array.shape), (1, 0), False)
            member = zipfile.ZipInfo(f"{key}.npy")
            archive.writestr(member, own.getvalue(), zipfile.ZIP_DEFLATED, 1)
        archive.comment = _SEAL + b"0" * 64
    content = stream.getvalue()[:-64]
    return content + hashlib.sha256(content).hexdigest().encode()


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
        jaxstruct does not know, damaged, larger than the limit, or does not hold together.
    """
    limit = checked_size("limit", limit)
    records = RECORDS if encoding is None else records_with(encoding)
    content = Path(path).read_bytes()
    try:
        return _model(_header_and_arrays(content, limit), records)
    except _Refused as error:
        raise ValueError(f"model file {os.fspath(path)} {error}") from None
    except (*_BROKEN, ValueError) as error:
        raise ValueError(
            f"model file {os.fspath(path)} does not hold together: {one_line(error)}"
        ) from error


class _Refused(Exception):
    """A reason why a file is not read, put behind its name."""


def _header_and_arrays(content: bytes, limit: int) -> tuple[dict, dict[str, np.ndarray]]:
    _check_seal(content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        if sum(info.file_size for info in infos) > limit:
            raise _Refused(
                f"unpacks to more than {limit} bytes: give a larger limit if you trust it"
            )
        if names[:1] != [HEADER] or len(set(names)) != len(names):
            raise _Refused(f"has the members {text_of(names)}, expected {HEADER} first, each once")
        header = _header(_content(archive, infos[0]))
        table = header["arrays"]
        wanted = [HEADER, *(f"{key}.npy" for key in table)]
        if names != wanted:
            raise _Refused(
                f"has the members {text_of(names)}, its header names {text_of(wanted)}: some are "
                "missing or too many"
            )
        arrays = {
            key: _array(key, _content(archive, info), entry)
            for (key, entry), info in zip(table.items(), infos[1:], strict=True)
        }
    return header, arrays


def _check_seal(content: bytes) -> None:
    """Raise _Refused unless the last bytes are the digest of all before them."""
    if content[:4] != b"PK\x03\x04":
        raise _Refused("is no model file: write one with jaxstruct.save")
    if content[-_SEAL_SIZE:-64] != _SEAL:
        raise _Refused(
            "does not end in its digest: it is truncated, damaged or no model file; save it again"
        )
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise _Refused("is damaged: its content does not have its digest; save it again")


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member, of no more bytes than it said."""
    with archive.open(info) as stream:
        content = stream.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise _Refused(f"has a member {info.filename!r} that is not of the size that it says")
    return content


def _header(content: bytes) -> dict[str, Any]:
    """The header, its format and version checked before anything else."""
    text = content.decode("utf-8")
    header = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _Refused(f"is of no format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise _Refused(
            f"is of version {text_of(header.get('version'))} of the format, this jaxstruct reads "
            f"{VERSION}: use the jaxstruct that wrote it ({text_of(header.get('jaxstruct'))})"
        )
    wanted = {"format", "version", "jaxstruct", "structure", "arrays", *_PARTS}
    if set(header) != wanted:
        raise _Refused(f"has a header with {sorted(set(header) ^ wanted)} missing or too many")
    if not isinstance(header["jaxstruct"], str) or not isinstance(header["arrays"], dict):
        raise _Refused("has a header whose version or table of arrays is no such")
    return header


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a key that comes twice is refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object of its header has a key twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"its header has {name}, which is no number of JSON")


def _array(key: str, content: bytes, entry: Any) -> np.ndarray:
    """The array of a member: of the dtype and shape that the header says, and no byte more."""
    stream = io.BytesIO(content)
    try:
        if npy.read_magic(stream) != (1, 0):
            raise ValueError("is of another format")
        shape, by_columns, dtype = npy.read_array_header_1_0(stream)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError) as error:
        raise _Refused(f"has an array {key!r} without a proper head: {one_line(error)}") from error
    if [str(dtype), list(shape)] != entry or by_columns or str(dtype) not in _DTYPES:
        raise _Refused(f"has an array {key!r} of {dtype} {shape}, its header says {text_of(entry)}")
    body = content[stream.tell() :]
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(body):
        raise _Refused(f"has an array {key!r} of {dtype} {shape} in {len(body)} bytes")
    return np.frombuffer(body, dtype).reshape(shape).copy()


def _model(read: tuple[dict, dict[str, np.ndarray]], records: Mapping[str, Record]) -> TrainedModel:
    """The model, its problem built and compared with its weights."""
    header, arrays = read
    if not isinstance(header["structure"], str) or header["structure"] not in records:
        raise _Refused(
            f"is of the structure {text_of(header['structure'])}, which jaxstruct does not know: "
            "give load(encoding=) the class of its encoding"
        )
    encoding, options, weights, training = (
        from_plain(header[name], arrays, records) for name in _PARTS
    )
    check_encoding(encoding)
    if encoding.structure != header["structure"]:
        raise _Refused(
            f"is of the structure {header['structure']!r}, but its encoding of "
            f"{encoding.structure!r}"
        )
    if not isinstance(training, Training) or not isinstance(options, dict):
        raise _Refused("has options or a training that are none")
    sound = isinstance(weights, dict) and all(isinstance(w, np.ndarray) for w in weights.values())
    if not sound:
        raise _Refused("has weights that are no arrays by name")
    if arrays:
        raise _Refused(f"has arrays that nothing names: {sorted(arrays)}")
    model = TrainedModel(encoding, options, weights, training, header["jaxstruct"])
    model.problem  # noqa: B018  built, with all its checks
    return model
