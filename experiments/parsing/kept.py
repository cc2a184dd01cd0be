"""One file a training of the parsing table, so that an interrupted run can go on where it stopped.

They lie in OUTPUT/parsing_trainings, with the model beside the numbers; see `experiments.lib.kept`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.lib import kept as lib
from experiments.parsing.data import Treebank
from experiments.parsing.options import Options
from jaxstruct import Status
from jaxstruct.trees.phrases.bracketing import write_line

FOLDER = "parsing_trainings"
DECIDING = (
    "corpus", "test_part", "shortest", "longest", "sentences", "terminals", "rare", "branching",
    "memory", "loss", "measure", "smoothing", "epsilon", "max_passes", "oracle_batch",
    "group", "chunks", "variant", "working_sets", "capacity", "seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its method is in the file's name."""


def store_of(options: Options, treebank: Treebank) -> lib.Store:
    """Where the trainings on this treebank lie."""
    trees = {part: list(map(write_line, getattr(treebank, part))) for part in ("train", "test")}
    key = lib.store_key("parsing", options, DECIDING, trees)
    return lib.Store(Path(options.output) / FOLDER, key, options.resume)


def kept(store: lib.Store, label: str, train: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The numbers of one training, read again where they may be.

    Args:
      store: where they lie. label: of the method; it names the file.
      train: called where there is no file to go on from, with the path that its model may be
        written under.
    """
    name = re.sub(r"[^\w.]+", "_", label)
    found = lib.kept(store, name, lambda: train(store.folder / name))
    return found | ({"status": Status[found["status"]]} if "status" in found else {})
