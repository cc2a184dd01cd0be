"""Oracles against every output of small cases: what holds for all output types, written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2

GARBAGE = (np.nan, np.inf, -np.inf, 3e38)
"""What stands where an oracle must not read."""
LEAST_EXPECTED = 5
"""Draws that a cell of Pearson's statistic must expect; rarer outputs share one."""


def with_garbage(table: np.ndarray, read: np.ndarray) -> np.ndarray:
    """Of floats, with garbage of every kind where `read`, which broadcasts, says that none is."""
    drawn = np.random.default_rng(0).choice(GARBAGE, table.shape)
    return np.where(read, table, drawn).astype(table.dtype)


class Listed(NamedTuple):
    """Cases of one output type with all their outputs.

    Fields:
      outputs: of each case [K, P] integers, an output a row as `flat` lays it out; of equal scores
        the preferred one stands first.
      scores: of each case [K] F, -inf where an output is forbidden.
      tied: [n] whether sums are exact, so that of equals the preferred one has to be found.
    """

    outputs: Sequence[np.ndarray]
    scores: Sequence[np.ndarray]
    tied: np.ndarray

    def places(self, i: int, found: np.ndarray) -> np.ndarray:
        """[m] where outputs [m, P] stand in the list of case i; each has to be there once."""
        same = (self.outputs[i][None] == found[:, None]).all(axis=2)
        assert (same.sum(axis=1) == 1).all(), found[same.sum(axis=1) != 1]
        return same.argmax(axis=1)


def flat(outputs: Any, axes: int) -> np.ndarray:
    """[.., P] the integers of outputs with so many leading axes, leaf after leaf."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(outputs)]
    return np.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves], axis=axes)


def check_k_best(
    listed: Listed, outputs: Any, scores: Any, tolerance: float, ties: int | None = None,
    none: int | None = -1,
) -> int:  # fmt: skip
    """The k best of every case are distinct, in falling order, and as good as the k best of all.

    Args:
      outputs: leaves [n, k, ..]. scores: [n, k]. ties: of how many of the k the preferred one is
        found among equals; None for all. none: what an output is filled with that there is not;
        None for anything.

    Returns:
      How many cases have no output at all.
    """
    found, scores, empty = flat(outputs, 2), np.asarray(scores), 0
    for i, F in enumerate(listed.scores):
        order = np.argsort(-F, kind="stable")
        order = order[F[order] > -np.inf][: scores.shape[1]]
        count, close = len(order), dict(rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(scores[i, :count], F[order], **close)
        assert (scores[i, count:] == -np.inf).all() and (np.diff(scores[i, :count]) <= 0).all()
        assert none is None or (found[i, count:] == none).all()
        places = listed.places(i, found[i, :count])
        assert len(set(places.tolist())) == count
        np.testing.assert_allclose(F[places], F[order], **close)
        if listed.tied[i]:
            np.testing.assert_array_equal(places[:ties], order[:ties])
        empty += not count
    return empty


def check_best(listed: Listed, output: Any, score: Any, *options: Any, **more: Any) -> int:
    """The same of one best output of every case: leaves [n, ..] and [n]."""
    raised = jax.tree.map(lambda leaf: np.asarray(leaf)[:, None], (output, score))
    return check_k_best(listed, *raised, *options, **more)


def check_best_wrong(
    listed: Listed, y: Sequence[np.ndarray], output: Any, score: Any, tolerance: float,
    none: int | None = -1,
) -> None:  # fmt: skip
    """The best output of every case but y, of each case [P]; see `check_k_best` for none."""
    rest = [
        np.where((outputs != own).any(axis=1), F, -np.inf)
        for outputs, F, own in zip(listed.outputs, listed.scores, y, strict=True)
    ]
    any_of_equals = np.zeros(len(rest), bool)
    check_best(
        listed._replace(scores=rest, tied=any_of_equals), output, score, tolerance, none=none
    )


def check_levels(
    listed: Listed, levels: Sequence[np.ndarray], outputs: Any, scores: Any, tolerance: float
) -> None:
    """The best output of every level of every case: leaves [n, L, ..] and scores [n, L].

    Args:
      levels: of each case [K] the level of each listed output, -1 of one that is in none.
    """
    found, scores, close = (
        flat(outputs, 2),
        np.asarray(scores),
        dict(rtol=tolerance, atol=tolerance),
    )
    for i, F in enumerate(listed.scores):
        best = np.full(scores.shape[1], -np.inf)
        np.maximum.at(best, levels[i][levels[i] >= 0], F[levels[i] >= 0])
        np.testing.assert_allclose(scores[i], best, **close)
        real = best > -np.inf
        assert (found[i, ~real] == -1).all()
        places = listed.places(i, found[i, real])
        np.testing.assert_array_equal(levels[i][places], np.flatnonzero(real))
        np.testing.assert_allclose(F[places], best[real], **close)


def pearson(seen: np.ndarray, expected: np.ndarray) -> tuple[float, int]:
    """(Pearson's statistic of counts, its degrees of freedom); rare cells share one."""
    common = expected >= LEAST_EXPECTED
    cells = [np.append(each[common], each[~common].sum()) for each in (seen, expected)]
    seen, expected = (each[cells[1] >= LEAST_EXPECTED] for each in cells)
    return float(np.sum((seen - expected) ** 2 / expected)), max(len(seen) - 1, 0)


def check_samples(listed: Listed, drawn: Any, freedom: int = 100) -> None:
    """Draws, leaves [n, D, ..], have the probabilities exp F / Z: Pearson's statistic over all.

    Args:
      freedom: degrees of freedom there are at least.
    """
    found, statistic, degrees = flat(drawn, 2), 0.0, 0
    for i, F in enumerate(listed.scores):
        if not (F > -np.inf).any():
            continue
        rows, counts = np.unique(found[i], axis=0, return_counts=True)
        seen = np.zeros(len(F))
        seen[listed.places(i, rows)] = counts
        assert not seen[F == -np.inf].any(), "a forbidden output"
        p = np.exp(F - F.max())
        expected = found.shape[1] * p / p.sum()
        own = pearson(seen, expected)
        statistic, degrees = statistic + own[0], degrees + own[1]
    assert degrees > freedom
    assert 1e-4 < chi2.sf(statistic, degrees) < 1 - 1e-4


Uses = Callable[[int], np.ndarray]
"""A case -> [K, P] how often each of its outputs uses each potential, leaf after leaf."""


def check_sums(
    listed: Listed, uses: Uses, log_z: Any, slope: Any, rtol: float, atol: float, of_uses: float
) -> None:
    """log Z [n], and within `of_uses` the expected uses, leaves [n, ..]; none without an output."""
    found = flat(slope, 1)
    for i, F in enumerate(listed.scores):
        wanted, p = logsumexp(F) if len(F) else -np.inf, np.zeros(len(F))
        np.testing.assert_allclose(log_z[i], wanted, rtol=rtol, atol=atol)
        if wanted > -np.inf:
            p = np.exp(F - wanted)
        np.testing.assert_allclose(found[i], p @ uses(i), rtol=0, atol=of_uses)


def check_used(listed: Listed, uses: Uses, output: Any, slope: Any, of_none: bool = True) -> None:
    """The slope of the best score, leaves [n, ..], counts what the output uses, to the bit.

    Args:
      of_none: whether it is 0 where there is no output.
    """
    found, outputs = flat(slope, 1), flat(output, 1)
    for i, F in enumerate(listed.scores):
        if (F > -np.inf).any():
            wanted = uses(i)[listed.places(i, outputs[i][None])[0]]
        elif of_none:
            wanted = np.zeros(found.shape[1])
        else:
            continue
        np.testing.assert_array_equal(found[i], wanted)


def row(tree: Any, i: Any) -> Any:
    """Case i of leaves with a leading axis."""
    return jax.tree.map(lambda leaf: leaf[i], tree)


def check_alone(
    call: Callable, given: Any, together: Any, rows: Iterable[int], rtol: float = 0.0
) -> None:
    """One case at a time is answered as in the batch `together`, to the bit unless rtol is given.

    Args:
      call: the oracle of one case, jitted or not. given: the arguments, leaves [n, ..], or a
        function of a case that returns its own.
    """
    for i in rows:
        own = given(i) if callable(given) else row(given, i)
        for one, many in zip(*map(jax.tree.leaves, (call(*own), together)), strict=True):
            np.testing.assert_allclose(one, np.asarray(many)[i], rtol=rtol, atol=rtol)
