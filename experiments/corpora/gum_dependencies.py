"""GUM's dependency trees."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from experiments.corpora.archives import read_members
from experiments.corpora.locate import find_file
from jaxstruct.data.conllu import Annotated, parse_conllu

_PARTS = ("train", "dev", "test")


class GumDependencies(NamedTuple):
    """The three parts of GUM."""

    train: tuple[Annotated, ...]
    dev: tuple[Annotated, ...]
    test: tuple[Annotated, ...]


def load_gum_dependencies(path: Path | None = None) -> GumDependencies:
    """Reads GUM's dependency trees: 9,933, 1,341 and 1,285 sentences.

    Args:
      path: an archive with en_gum-{train,dev,test}.conllu (not checked by checksum), or None for
        the registered corpus.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      MissingMember, UnsafeArchive, CorruptArchive: see `archives.read_members`.
      MalformedFile: see `parse_conllu`.
    """
    path = Path(path) if path else find_file("gum_dependencies", "gum-dep.tar.xz")
    members = {part: f"en_gum-{part}.conllu" for part in _PARTS}
    contents = read_members(path, members.values())
    return GumDependencies(
        **{
            part: parse_conllu(contents[member], f"{path}:{member}")
            for part, member in members.items()
        }
    )
