"""A stand-in with the interface of a pandas frame that is used: pandas is no dependency."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Column(list):
    """A column of a frame."""

    def tolist(self) -> list:
        return list(self)


class Frame:
    """columns, iloc, dtypes, to_numpy() and frame[name]."""

    iloc = None

    def __init__(self, columns: Mapping[str, list]) -> None:
        self._columns = {name: np.asarray(own) for name, own in columns.items()}
        self.columns = list(columns)
        self.dtypes = [own.dtype for own in self._columns.values()]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Column:
        return Column(self._columns[name].tolist())

    def to_numpy(self) -> np.ndarray:
        if all(dtype.kind in "biuf" for dtype in self.dtypes):
            return np.stack(list(self._columns.values()), axis=1)
        return np.array([*zip(*(self[name] for name in self.columns), strict=True)], object)
