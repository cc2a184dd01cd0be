"""The dual never falls, pass by pass, with every safeguard; without one it does."""

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
    "group, safeguard, way",
    thorough_after(
        2,
        [
            (8, "line_search", "enumerated"),
            (8, "box", "grown"),
            (1, "line_search", "enumerated"),
            (32, "line_search", "grown"),
            (32, "box", "enumerated"),
        ],
    ),
)
def test_subspace_ascent(group, safeguard, way):
    """float32 evaluates D to about 1e-6 of itself.

    Every group with every safeguard (one block needs none), and each of the two with both kinds of
    working sets.
    """
    settings = Settings(variant="subspace", group=group, safeguard=safeguard, working_sets=way)
    for rate in RATES:
        for formulation in ("svm1", "svm2"):
            assert_never_falls(duals(formulation, rate, settings), 3e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["grown", "enumerated"])
def test_full_variant(way):
    settings = Settings(variant="full", working_sets=way)
    for rate in RATES:
        for formulation in ("svm1", "svm2"):
            assert_never_falls(duals(formulation, rate, settings), 3e-6)


def test_blocks_side_by_side_need_a_safeguard():
    """Why safeguards exist: 32 blocks, each solved exactly against one w, overshoot together."""
    free = Settings(variant="subspace", group=32, safeguard="none", working_sets="grown")
    values = duals("svm1", 10.0, free)
    falls = values[:-1] - values[1:]
    assert falls.max() > 0.1 * np.abs(values).max()
    safe = duals("svm1", 10.0, free._replace(safeguard="line_search"))
    assert safe[-1] > max(values[-1], 0)
