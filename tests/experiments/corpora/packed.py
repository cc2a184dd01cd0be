"""Archives made by hand."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping


def zipped(
    members: Mapping[str, bytes] | Mapping[zipfile.ZipInfo, bytes],
    method: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """A zip of {name or info: content}, the same bytes at any time."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name) if isinstance(name, str) else name
            archive.writestr(info, content, method, compresslevel=1)
    return stream.getvalue()


def tarred(
    members: Mapping[str, bytes] | Mapping[tarfile.TarInfo, bytes], packing: str = ""
) -> bytes:
    """A tar of {name or info: content}, packed as "gz" or "xz" where that is asked for."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{packing}") as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()
