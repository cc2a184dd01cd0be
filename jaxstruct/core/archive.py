"""Archives: arrays with a header and digests, in one file or in a folder.

    header.json      format, its version, jaxstruct's, a table of the arrays (dtype and shape), and
                     what the schema adds
    NAME.npy         the arrays

In a file these are the members of a zip, which any zip program and `numpy.load` open. The comment
at its end is the sha256 of every byte before it, so that a file is read as it was written, or not
at all. In a folder they are files, and the table has the sha256 of each: the arrays are
memory-mapped, and compared with it where that is asked for.

A digest is no signature: who can write a file can make one. So whatever is read is checked, too:
sizes before anything is unpacked, dtypes, shapes. Nothing is unpickled or run. Checkpoints, planes
at rest, trained models and stores are schemas of this.

`forget_pages` lets go of what was read of an array that is memory-mapped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from jaxstruct.core.checks import text_of
from jaxstruct.core.files import write_file

HEADER = "header.json"
DTYPES = {np.dtype(kind).str for kind in "?bBhHiIqQefd"}
"""Of arrays: bool, integers and floats of up to 8 bytes."""
_SEAL, _DIGITS = b"sha256:", 64
_BLOCK = 1 << 20
"""Bytes read at once."""
_LONGEST = 300
"""Characters of an error's own text within ours."""
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OverflowError,
    RecursionError, MemoryError, SystemError, ValueError, TypeError, LookupError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip
"""How parsing bytes of unknown origin ends."""


class DamagedFile(ValueError):
    """A file that is not as it was written: cut off, or with other bits."""


class ArchiveError(ValueError):
    """A file that is refused for another reason; its message names the file."""


class Schema(NamedTuple):
    """A kind of archive.

    Fields:
      name: what messages call it. format, version: what headers say. maker: what writes it.
    """

    name: str
    format: str
    version: int
    maker: str


def one_line(error: BaseException) -> str:
    """What an error says, or its kind, on one line of at most 300 characters."""
    text = " ".join((str(error) or type(error).__name__).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def check_dtype(name: str, array: np.ndarray) -> None:
    """Raise ValueError unless archives hold arrays of this dtype."""
    if array.dtype.str not in DTYPES:
        raise ValueError(
            f"{name} has dtype {array.dtype}, which files do not hold: expected bool, or integers "
            "or floats of NumPy of up to 8 bytes (cast bfloat16 to float32)"
        )


def _entry(dtype: np.dtype, shape: tuple[int, ...]) -> dict[str, Any]:
    """What the table of a header says of an array."""
    return {"dtype": dtype.str, "shape": list(shape)}


def _header_text(schema: Schema, header: Mapping[str, Any], table: dict[str, Any]) -> str:
    from jaxstruct import __version__

    own = {"format": schema.format, "version": schema.version, "jaxstruct": __version__}
    return json.dumps(own | {**header, "arrays": table}, allow_nan=False, separators=(",", ":"))


def _digest(stream: BinaryIO, size: int) -> bytes:
    """The sha256, in hexadecimal digits, of the first bytes of a file."""
    stream.seek(0)
    found = hashlib.sha256()
    while size > 0 and (block := stream.read(min(size, _BLOCK))):
        found.update(block)
        size -= len(block)
    return found.hexdigest().encode()


def dump(
    stream: BinaryIO,
    schema: Schema,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    compressed: bool = False,
    sealed: bool = True,
) -> str:
    """Write an archive to an empty file, open to be written and read.

    Args:
      header: what the schema adds, as JSON; it may name its own "jaxstruct".
      sealed: whether to compute the digest, which is returned, else "".

    Raises:
      ValueError: an array is of a dtype that files do not hold.
    """
    for name, array in arrays.items():
        check_dtype(name, array)
    table = {name: _entry(array.dtype, array.shape) for name, array in arrays.items()}
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED

    with zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive:
        with archive.open(HEADER, "w") as own:  # of 1980: the bytes do not hang on the date
            own.write(_header_text(schema, header, table).encode())
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as own:
                npy.write_array(own, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
        archive.comment = _SEAL + b"0" * _DIGITS
    if not sealed:
        return ""
    digest = _digest(stream, stream.seek(-_DIGITS, os.SEEK_END))
    stream.write(digest)
    return digest.decode()


def write(
    path: str | os.PathLike,
    schema: Schema,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    compressed: bool = False,
    **options: Any,
) -> Path:
    """Write an archive to one file, whole or not at all; options: of `core.files.write_file`."""

    def content(stream: BinaryIO) -> None:
        dump(stream, schema, header, arrays, compressed=compressed)

    return write_file(path, content, **options)


class Archive:
    """An archive that is read: its header and arrays, and the errors that name it."""

    def __init__(self, schema: Schema, path: str | os.PathLike) -> None:
        """Nothing is read yet."""
        self.schema, self.path = schema, os.fspath(path)
        self.header: dict[str, Any] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.digest = ""

    def error(self, what: str) -> ArchiveError:
        """An error that names the file."""
        return ArchiveError(f"{self.schema.name} {self.path} {what}")

    def damaged(self, what: str) -> DamagedFile:
        """The same, of a file that is not as it was written."""
        return DamagedFile(f"{self.schema.name} {self.path} {what}: it is damaged; save it again")

    @contextlib.contextmanager
    def refusing(self, words: str = "does not hold together") -> Iterator[None]:
        """Within, whatever parsing ends in is an error that names the file and says `words`."""
        try:
            yield
        except (ArchiveError, DamagedFile):
            raise
        except _BROKEN as error:
            raise self.error(f"{words}: {one_line(error)}") from error

    def read(
        self,
        wanted: Callable[[str], bool] = lambda name: True,
        *,
        limit: int | None = None,
        sealed: bool = True,
    ) -> None:
        """Read the file: its header, and the arrays of wanted names.

        Args:
          limit: bytes that it may unpack to. sealed: whether it is compared with its digest.

        Raises:
          OSError: it cannot be opened. DamagedFile: it is not as it was written.
          ArchiveError: it is of another format or version, or does not hold together.
        """
        with open(self.path, "rb") as stream, self.refusing():
            if sealed:
                self.digest = self._checked_seal(stream)
            with zipfile.ZipFile(stream) as archive:
                self._unpack(archive, wanted, limit)

    def _checked_seal(self, stream: BinaryIO) -> str:
        """The digest that the file ends in, which is that of all before it."""
        if stream.read(4) != b"PK\x03\x04":
            raise DamagedFile(
                f"{self.schema.name} {self.path} is no {self.schema.name}, or cut off: write one "
                f"with {self.schema.maker}"
            )
        size = stream.seek(0, os.SEEK_END) - _DIGITS
        stream.seek(max(size - len(_SEAL), 0))
        if stream.read(len(_SEAL)) != _SEAL:
            raise self.damaged("does not end in its digest")
        digits = stream.read()
        if _digest(stream, size) != digits:
            raise self.damaged("does not have its digest")
        return digits.decode()

    def _unpack(
        self, archive: zipfile.ZipFile, wanted: Callable[[str], bool], limit: int | None
    ) -> None:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        if limit is not None and sum(info.file_size for info in infos) > limit:
            raise self.error(
                f"unpacks to more than {limit} bytes: give a larger limit if you trust it"
            )
        self._take_header(archive.read(HEADER))
        table = self.header["arrays"]
        named = [HEADER, *(f"{name}.npy" for name in table)]
        if names != named:
            raise self.error(
                f"has the members {text_of(names)}, its header names {text_of(named)}: some are "
                "missing or too many"
            )
        for name, entry in table.items():
            if wanted(name):
                with (
                    archive.open(f"{name}.npy") as member,
                    self.refusing(f"has an array {name!r} that cannot be read"),
                ):
                    array, more = npy.read_array(member, allow_pickle=False), member.read(1)
                self._check_array(name, array, entry, whole=not more)
                self.arrays[name] = array

    def _take_header(self, content: bytes) -> None:
        """The header, its format and version checked before anything else."""
        schema = self.schema
        header = json.loads(
            content.decode(), object_pairs_hook=_distinct, parse_constant=_no_constant
        )
        if not isinstance(header, dict) or header.get("format") != schema.format:
            raise self.error(f"is of no format {schema.format!r}")
        if header.get("version") != schema.version:
            raise self.other_version(header.get("version"), header.get("jaxstruct"))
        if not isinstance(header.get("jaxstruct"), str) or not isinstance(header["arrays"], dict):
            raise self.error("has a header whose version or table of arrays is no such")
        self.header = header

    def other_version(self, version: Any, of: Any = None) -> ArchiveError:
        """The error of a file of another version, that jaxstruct `of` wrote."""
        maker = "" if of is None else f" ({text_of(of)})"
        return self.error(
            f"is of version {text_of(version)} of the format, this jaxstruct reads "
            f"{self.schema.version}: use the jaxstruct that wrote it{maker}"
        )

    def _check_array(self, name: str, array: np.ndarray, entry: Any, *, whole: bool) -> None:
        """Raise ArchiveError unless it is as the header's entry says, and no byte more."""
        said = {key: entry[key] for key in ("dtype", "shape")}
        found = f"has an array {name!r} of {array.dtype} {array.shape}"
        if _entry(array.dtype, array.shape) != said or array.dtype.str not in DTYPES:
            raise self.error(f"{found}, its header says {said}")
        if not whole:
            raise self.error(f"{found}, and bytes behind it")

    def open_folder(self, *, check: bool = False) -> None:
        """Read the header of a folder and memory-map its arrays.

        Args:
          check: whether to read all arrays once and compare their digests with the header.

        Raises:
          FileNotFoundError: there is no such folder, or an array of it is gone.
          ArchiveError: as `read`; a digest is another one.
        """
        folder = Path(self.path)
        if not (folder / HEADER).is_file():
            raise FileNotFoundError(
                f"folder: there is no {self.schema.name} in {self.path}, which has no {HEADER}: "
                f"make one with {self.schema.maker}"
            )
        with self.refusing():
            self._take_header((folder / HEADER).read_bytes())
            for name, entry in self.header["arrays"].items():
                if not name.isidentifier():
                    raise self.error(f"has an array called {text_of(name)}")
                self.arrays[name] = self._mapped(folder / f"{name}.npy", entry, check)

    def _mapped(self, path: Path, entry: Any, check: bool) -> np.ndarray:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if check and _digest(stream, size).decode() != entry["sha256"]:
                raise self.error(
                    f"has an array {path.name!r} that does not have its digest: it is damaged, "
                    "make it again"
                )
        with self.refusing(f"has an array {path.name!r} that cannot be read"):
            array = npy.open_memmap(path, mode="r")
        self._check_array(path.name, array, entry, whole=size == array.offset + array.nbytes)
        return array

    def entry(self, name: str, kind: type | tuple = object) -> Any:
        """One entry of the header."""
        value = self.header.get(name)
        if name not in self.header or not isinstance(value, kind):
            raise self.error(f"lacks a proper {name!r} in its header: got {text_of(value)}")
        return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a key that comes twice is refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object of its header has a key twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"its header has {name}, which is no number of JSON")


class GrowingArray:
    """An array in a `.npy` file that grows row after row; `with` closes the file."""

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...] = ()) -> None:
        """An empty file of rows of this shape."""
        self._stream: BinaryIO = open(path, "w+b")  # noqa: SIM115  closed by `close` or `with`
        self._dtype, self._shape, self.path, self.rows = np.dtype(dtype), shape, path, 0
        self._write_head()

    def __enter__(self) -> GrowingArray:
        """The array."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file, as it is where `close` did not come before."""
        self._stream.close()

    def _write_head(self) -> None:
        """NumPy's, which fits any number of rows."""
        shape = (self.rows, *self._shape)
        said = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._stream, said)

    def add(self, rows: np.ndarray) -> None:
        """Write some rows."""
        assert rows.shape[1:] == self._shape, (rows.shape, self._shape)
        self._stream.write(np.ascontiguousarray(rows, self._dtype).tobytes())
        self.rows += len(rows)

    def close(self) -> dict[str, Any]:
        """Write the head anew; what the table of a header says of the array."""
        size = self._stream.tell()
        self._stream.seek(0)
        self._write_head()
        digest = _digest(self._stream, size).decode()
        self._stream.close()
        return {**_entry(self._dtype, (self.rows, *self._shape)), "sha256": digest}


class FolderWriter(contextlib.ExitStack):
    """Writes an archive to a new folder, row after row of its arrays; `with` closes their files."""

    def __init__(self, schema: Schema, folder: Path) -> None:
        """Make the folder, without an array."""
        super().__init__()
        folder.mkdir()
        self._schema, self._folder = schema, folder
        self._arrays: dict[str, GrowingArray] = {}

    def new(self, name: str, dtype: str, *shape: int) -> GrowingArray:
        """An array of the archive."""
        array = GrowingArray(self._folder / f"{name}.npy", dtype, shape)
        self._arrays[name] = self.enter_context(array)
        return self._arrays[name]

    def end(self, header: Mapping[str, Any]) -> None:
        """Write the header; what the schema adds to it, as JSON."""
        table = {name: array.close() for name, array in self._arrays.items()}
        text = _header_text(self._schema, header, table)
        (self._folder / HEADER).write_text(text, encoding="utf-8")


def forget_pages(array: np.ndarray) -> None:
    """Let go of the pages that were read of an array mapped to be read only; others stay.

    They are read anew where they are needed again. Without this a process that goes through a large
    file seems to hold all of it, until the system wants the memory for others.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and _is_read_only(base):
        base.madvise(mmap.MADV_DONTNEED)


def _is_read_only(mapped: mmap.mmap) -> bool:
    """Whether nothing can have been written to it that is not in the file."""
    with memoryview(mapped) as view:
        return view.readonly
