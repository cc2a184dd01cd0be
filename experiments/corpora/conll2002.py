"""Names in Spanish and Dutch news, the shared task of CoNLL-2002."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from experiments.corpora.archives import read_members
from experiments.corpora.locate import find_file
from jaxstruct.data.conll import Sentence, parse_conll

_LANGUAGES = ("esp", "ned")
_PARTS = ("train", "testa", "testb")


class Conll2002(NamedTuple):
    """The shared task's three parts of one language: sentences with tags and IOB2 labels."""

    train: tuple[Sentence, ...]
    testa: tuple[Sentence, ...]
    testb: tuple[Sentence, ...]


def load_conll2002(language: str = "esp", path: Path | None = None) -> Conll2002:
    """Reads Spanish or Dutch news with names labelled in IOB2 (Tjong Kim Sang 2002).

    The Dutch -DOCSTART- lines are no tokens here.

    Args:
      language: "esp" (8,323, 1,915 and 1,517 sentences) or "ned".
      path: conll2002.zip (not checked by checksum), or None for the registered corpus.

    Raises:
      ValueError: another language.
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      MissingMember, UnsafeArchive, CorruptArchive: see `archives.read_members`.
      MalformedFile: see `parse_conll`.
    """
    if language not in _LANGUAGES:
        raise ValueError(f"language: got {language!r}, expected one of {', '.join(_LANGUAGES)}")
    path = Path(path) if path else find_file("conll2002", "conll2002.zip")
    members = {part: f"conll2002/{language}.{part}" for part in _PARTS}
    contents = read_members(path, members.values())
    return Conll2002(
        **{
            part: parse_conll(contents[member], f"{path}:{member}")
            for part, member in members.items()
        }
    )
