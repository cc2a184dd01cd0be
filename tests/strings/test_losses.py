"""Losses of a table of outputs: 1 - L, by a function, by list."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from jaxstruct.strings.losses import candidate_losses, checked_loss, loss_table, similarity_loss
from tests.lib.refusals import refused


def test_one_minus_the_kernel() -> None:
    """Table 4.6: 1 - L of unit vectors; of any others, 1 minus the cosine."""
    random = np.random.default_rng(0)
    rows = random.uniform(0.1, 1, size=(6, 4))
    L = rows @ rows.T
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    loss = similarity_loss(L)
    np.testing.assert_allclose(loss, 1 - unit @ unit.T, atol=1e-12)
    np.testing.assert_allclose(loss, similarity_loss(unit @ unit.T), atol=1e-12)
    assert not np.diag(loss).any() and loss.max() > 0.1
    assert similarity_loss(np.array([[1.0, -1.0], [-1.0, 1.0]]))[0, 1] == 2


def test_by_a_function_and_by_list() -> None:
    table = loss_table(["ab", "abc", "b"], lambda a, b: abs(len(a) - len(b)))
    np.testing.assert_array_equal(table, [[0, 1, 1], [1, 0, 2], [1, 2, 0]])
    found = candidate_losses([["a", "abc"], ["b"]], ["ab", "b"], lambda a, b: float(a != b))
    assert [own.tolist() for own in found] == [[1.0, 1.0], [0.0]]
    assert checked_loss("zero_one") is None
    np.testing.assert_array_equal(checked_loss(found.rows), [1, 1, 0])


BAD: dict[str, tuple[Callable, str]] = {
    "no features": (lambda: similarity_loss(np.diag([1.0, 0.0])), "gram[1, 1] is 0"),
    "indefinite": (lambda: similarity_loss(-np.eye(2)), "gram: not positive semi-definite"),
    "diagonal": (lambda: checked_loss(np.ones((2, 2))), "loss[0, 0] is 1"),
    "negative": (lambda: checked_loss(np.array([0.0, -1.0])), "loss[1] is -1"),
    "nan": (lambda: loss_table("ab", lambda a, b: np.nan), "loss[0, 0] is nan"),
    "shape": (lambda: checked_loss(np.zeros((2, 3))), "loss must be [M] or [M, M] numbers, got"),
    "count": (lambda: candidate_losses([["a"]], [], max), "of n = 1 lists, got 0"),
    "words": (lambda: checked_loss("f1"), "loss is 'f1'; expected \"zero_one\""),
    "function": (lambda: checked_loss(max), "strings.loss_table"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_one_line(name: str) -> None:
    call, message = BAD[name]
    refused(re.escape(message), call)
