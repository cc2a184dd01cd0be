"""The structured hinge against every output of small examples of every structure."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from jaxstruct.losses.hinges import NAMES, structured_hinge
from tests.lib.thorough import thorough_after
from tests.losses.cases import (
    answers,
    assert_among,
    case,
    differentiated,
    flat,
    hinge_truth,
    truth,
)

pytestmark = pytest.mark.usefixtures("x64")
RUNS = [
    *((each, "svm1_margin") for each in ("chains", "trees", "alignments", "graphs")),
    *(("classes", name) for name in NAMES), ("chains", "svm2_slack"),
]  # fmt: skip


@pytest.mark.parametrize(("output_type", "name"), thorough_after(5, RUNS))
def test_values_and_gradients_are_those_of_enumeration(output_type: str, name: str) -> None:
    own, value, slope = answers(partial(structured_hinge, formulation=name), output_type)
    root = np.sqrt(own.delta) if name.startswith("svm2") else own.delta
    b = np.ones_like(root) if name in ("svm1", "svm2") else root
    s = root if name.endswith("slack") else np.ones_like(root)
    slack, values = hinge_truth(own, b, s)
    squared = name.startswith("svm2")
    np.testing.assert_allclose(value, slack**2 / 2 if squared else slack, rtol=1e-9, atol=1e-9)
    assert (slack > 0).sum() >= 4
    best = (values >= slack[:, None] - 1e-9) | (slack == 0)[:, None]
    factor = np.where(slack > 0, slack if squared else 1, 0)[:, None] * s
    assert_among(slope, own, best, factor)


def test_an_inexact_oracle_has_a_subgradient_up_to_what_it_misses() -> None:
    """Labels found by local search: below the true hinge, and so is the plane everywhere."""
    given, own = (of("graphs", inference="modes") for of in (case, truth))
    value, gradient = differentiated(structured_hinge, given.problem)(given.theta, given.y)
    value, gradient = np.asarray(value), flat(gradient)
    slack, _ = hinge_truth(own, own.delta, np.ones_like(own.delta))
    assert (value <= slack + 1e-9).all() and (value > 0).sum() >= 4
    here, random = flat(given.theta), np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        there = here + size * random.normal(size=here.shape)
        moved = own._replace(
            advantage=np.where(
                np.isfinite(own.advantage),
                np.einsum("bkp,bp->bk", own.psi - own.true[:, None], there), -np.inf,
            )
        )  # fmt: skip
        elsewhere, _ = hinge_truth(moved, own.delta, np.ones_like(own.delta))
        plane = value + np.einsum("bp,bp->b", gradient, there - here)
        assert (elsewhere >= plane - 1e-9).all()
