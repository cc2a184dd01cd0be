"""The dual never falls, pass by pass, in groups of every size."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from jaxstruct import Settings, fit
from jaxstruct.data.digits import load_digits_split
from jaxstruct.multiclass.structure import multiclass
from tests.lib.thorough import thorough_after

N, PASSES = 64, 10
RATES = (0.001, 0.1, 10.0, 100.0)


digits = cache(load_digits_split)


def duals(formulation, C_over_n, settings, dtype="float32"):
    """[PASSES + 1] D after every pass, 0 first, on digits."""
    data, settings = digits(), settings._replace(certify_every=1)
    values = [0.0]

    def note(progress):
        values.append(progress.info.certificate.dual)

    fit(
        multiclass(64, 10, dtype=dtype),
        data.train_x[:N],
        data.train_y[:N],
        formulation,
        C_over_n * N,
        tolerance=1e-5,
        settings=settings,
        max_passes=PASSES,
        callback=note,
    )
    return np.array(values)


def assert_never_falls(values, rounding):
    falls = values[:-1] - values[1:]
    assert (falls <= rounding * np.abs(values[1:])).all(), (falls.max(), values)
    assert values[-1] > 0


@pytest.mark.parametrize(
    "group, way", thorough_after(2, [(1, "enumerated"), (8, "enumerated"), (32, "grown")])
)
def test_subspace_ascent(group, way):
    """float32 evaluates D to about 1e-6 of itself."""
    settings = Settings(variant="subspace", group=group, working_sets=way)
    for rate in RATES:
        for formulation in ("svm1", "svm2"):
            assert_never_falls(duals(formulation, rate, settings), 3e-6)
