"""Models of all output types as files, and what labels them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jaxstruct as js
from experiments.label_files import command
from tests.experiments.scripts import kept_settings
from tests.models import model_cases

SEED = 4


def model_of(name: str) -> js.models.TrainedModel:
    return model_cases.model_of(name, SEED)


def saved(folder: Path, name: str) -> str:
    """The file of a model."""
    return str(js.save(model_of(name), folder / f"{name}.model"))


def labelled(model: str, *sources: Any, **options: Any) -> command.Run:
    """A run of the command without files of its own beside those asked for."""
    given = command.Options(
        model=model,
        input=tuple(map(str, sources)),
        compilation_cache=False,
        batch=4,
        progress=False,
    )
    with kept_settings():
        return command.run(given.replace(**options))
