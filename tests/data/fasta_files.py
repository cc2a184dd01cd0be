"""Files of sequences, written for the tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jaxstruct.data.fasta import FastaRecord


def write_fasta(path: Path, records: Sequence[FastaRecord], width: int = 60) -> Path:
    """A FASTA file with so many letters a line."""
    lines = []
    for name, description, sequence in records:
        lines.append(f">{name} {description}".strip() if name else ">")
        lines += [sequence[at : at + width] for at in range(0, len(sequence), width)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
