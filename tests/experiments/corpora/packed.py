"""Archives and files of corpora made by hand."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from experiments.corpora.ocr_letters import LETTERS, OcrWords


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


TRAIN = "2 1:0.5 300:1\n0 2:4\n1 1:1\n"


def lambdarank(path: Path, **parts: str) -> Path:
    """An archive of queries whose members are those of TRAIN, but for `parts`."""
    members = {"rank.train": TRAIN, "rank.train.query": "2\n1\n", "rank.test": TRAIN}
    members |= {"rank.test.query": "3\n"} | parts
    path.write_bytes(tarred({name: text.encode() for name, text in members.items()}, "xz"))
    return path


def letter_lines(words: OcrWords) -> list[list[str]]:
    """The fields of letter.data: id from 7 on, letter, next_id, word_id, position, fold, pixels."""
    lines = []
    for word, (start, end) in enumerate(zip(words.offsets[:-1], words.offsets[1:], strict=True)):
        for letter in range(start, end):
            following = letter + 8 if letter + 1 < end else -1
            head = [letter + 7, LETTERS[words.letters[letter]], following, word + 1]
            head += [letter - start + 1, words.folds[word]]
            lines.append([*map(str, head), *map(str, words.pixels[letter].tolist())])
    return lines


def letter_data(lines: list[list[str]], end: str = "\t\n") -> bytes:
    """letter.data of these lines, each of which ends with a tab, as the source's."""
    return "".join("\t".join(fields) + end for fields in lines).encode()
