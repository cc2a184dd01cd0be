"""What a model says of its training."""

from __future__ import annotations

from typing import NamedTuple


class Training(NamedTuple):
    """How weights were found; None where the solver does not say.

    Fields:
      solver: the name of the record that the solver returned. status: how the run ended.
      formulation, C: what was solved. primal, dual, gap: what was certified.
    """

    solver: str | None = None
    status: str | None = None
    formulation: str | None = None
    C: float | None = None
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
