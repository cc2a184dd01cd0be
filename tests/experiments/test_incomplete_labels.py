"""experiments.incomplete_labels: what is taken away, hidden places, rows, table, pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import jax
import numpy as np
import pytest

from experiments.corpora.conll2002 import Conll2002
from experiments.incomplete_labels import command, grids, parts, tagging
from experiments.incomplete_labels.options import Options, incomplete
from experiments.lib import common
from jaxstruct import Ragged, SparseFeatures, check_problem
from jaxstruct.chains.structure import chain_inputs
from jaxstruct.data.conll import Sentence
from tests.experiments.scripts import QUIET

Y = Ragged(np.array([0, 1, 2, 0, 0, 1, 2, 2, 1, 0], np.int32), np.array([0, 4, 5, 10]), -1)


def test_a_stretch_of_each_sentence_has_its_share() -> None:
    seen = set()
    for seed in range(40):
        blank = tagging.blanks(Y, 0.5, "stretches", np.random.default_rng(seed))
        for own, size in zip(np.split(blank, Y.offsets[1:-1]), (2, 0, 2), strict=True):
            assert own.sum() == size and (np.diff(np.flatnonzero(own)) == 1).all()
        seen.add(tuple(np.flatnonzero(blank)))
    assert len(seen) == 3 * 4  # every place of both
    y = Ragged(np.zeros(10_000, np.int32), np.array([0, 10_000]))
    assert abs(tagging.blanks(y, 0.3, "tokens", np.random.default_rng(0)).mean() - 0.3) < 0.02


def test_blanks_are_open_and_what_is_left_is_cut_at_them() -> None:
    blank = np.isin(np.arange(10), [1, 2, 8])
    open_ = incomplete(Y, blank, 3)
    assert (open_.known.rows.sum(axis=1) == np.where(blank, 3, 1)).all()
    assert open_.known.rows[np.arange(10), Y.rows].all()
    table = np.arange(20, dtype=np.int32).reshape(10, 2)
    features = SparseFeatures(Ragged(table, Y.offsets, 20), Ragged(table / 20.0, Y.offsets))
    x, y = tagging.runs(chain_inputs(features), Y, blank)
    assert [own.tolist() for own in y] == [[0], [0], [0], [1, 2, 2], [0]]
    assert [own[:, 0].tolist() for own in x.features.indices] == [[0], [6], [8], [10, 12, 14], [18]]


@pytest.mark.parametrize("none", [False, True])
def test_placed_parts_are_a_structure_and_complete_is_the_best_that_agrees(none: bool) -> None:
    problem = parts.placed_parts(2, 3, none=none)
    k, rng = 2 + none, np.random.default_rng(0)
    x = rng.normal(size=(6, 4, 3)).astype(np.float32)
    listed = np.array(list(itertools.product(range(k), range(4))), np.int32)
    check_problem(problem, x, listed[rng.integers(0, len(listed), 6)], listed=listed)
    w = {"weights": rng.normal(size=(2, 3)).astype(np.float32)}

    def asked(own: np.ndarray) -> tuple[jax.Array, jax.Array]:
        theta = problem.model.potentials(w, own)
        scores = jax.vmap(problem.model.score, (None, 0))(theta, listed)
        return scores, jax.vmap(problem.model.complete, (None, 0))(theta, np.arange(k))

    scores, completed = map(np.asarray, jax.jit(jax.vmap(asked))(x))
    if none:
        assert not scores[:, listed[:, 0] == 0].any()
    for known in range(k):
        best = np.argmax(np.where(listed[:, 0] == known, scores, -np.inf), axis=1)
        np.testing.assert_array_equal(completed[:, known], listed[best])


def test_hidden_places_hold_what_is_said() -> None:
    rng = np.random.default_rng(0)
    train, _ = parts.motifs("float32", rng)
    own = train.places[np.arange(len(train.y)), train.h][train.y == 1][:, :-1]
    letters = own.reshape(len(own), parts.MOTIF, parts.LETTERS).mean(axis=0)
    # of those drawn anew a quarter is the same letter
    right = 1 - parts.MUTATED * (1 - 1 / parts.LETTERS)
    np.testing.assert_allclose(letters.max(axis=1), right, atol=0.1)  # 4 standard errors
    train, _ = parts.shifted_digits("float32", np.random.default_rng(0))
    shown = train.places[np.arange(len(train.y)), train.h][:, :-1].sum(axis=1)
    np.testing.assert_allclose(shown, train.whole[:, :-1].sum(axis=1), rtol=1e-5)
    assert len(np.unique(train.h)) == parts.OFFSETS**2


def test_cells_that_are_kept_keep_the_edges_between_them() -> None:
    drawn = grids.drawn(np.random.default_rng(0), 30)
    cells = drawn.y.reshape(-1, grids.SIZE, grids.SIZE)
    assert np.mean(cells[:, 1:] == cells[:, :-1]) > 0.5  # of labels at random a third
    kept = np.random.default_rng(1).random(drawn.y.shape) < 0.5
    kept[:, 0] = True
    x, y = grids.graphs(drawn, kept, "float32")
    for i, (nodes, edges, own) in enumerate(zip(x.nodes, x.edges, y, strict=True)):
        places = np.flatnonzero(kept[i])
        assert own.tolist() == drawn.y[i, places].tolist()
        np.testing.assert_allclose(nodes[:, :-1], drawn.channels[i, places], rtol=1e-6)
        rows, columns = np.divmod(places, grids.SIZE)
        apart = abs(np.subtract.outer(rows, rows)) + abs(np.subtract.outer(columns, columns))
        assert {tuple(sorted(pair)) for pair in edges.tolist()} == {
            (a, b) for a, b in np.argwhere(apart == 1).tolist() if a < b
        }


def test_a_comparison_is_over_seeds() -> None:
    """Two settings of each of three seeds: three numbers, their means."""
    pairs = [(seed, gap) for seed in range(3) for gap in (seed, seed + 2.0)]
    assert command._compared("a less b", pairs) == (
        "a less b: +2.0 points, p = 0.074 (t test of 3 seeds)."
    )


def _news(n: int, seed: int) -> tuple[Sentence, ...]:
    """Names of one or two words after "by"."""
    rng, sentences = np.random.default_rng(seed), []
    for _ in range(n):
        size = 1 + rng.integers(2)
        name = [("ann", "ben", "eve", "ida")[rng.integers(4)] for _ in range(size)]
        words = ("so", "said", "by", *name, "today")
        labels = ("O", "O", "O", "B-PER", *["I-PER"] * (size - 1), "O")
        sentences.append(Sentence(words, (), labels))
    return tuple(sentences)


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Iterator[Options]:
    news = Conll2002(_news(60, 0), _news(20, 1), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tagging, "load_conll2002", lambda language: news)
        patch.setattr(tagging, "SPARE", 83)  # as in the test of parts of speech, for its programs
        yield Options(
            tasks=("tagging",), methods=("known", "latent", "outside"), seeds=1,
            shares=("50",), sentences=16, test_sentences=8, **QUIET,
            output=str(tmp_path_factory.mktemp("incomplete")),
        )  # fmt: skip


def test_every_method_is_trained_on_every_data_set(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    of = [(row["task"], row["setting"], row["method"]) for row in rows]
    ways = [tagging.setting_of(50, way) for way in tagging.WAYS]
    wanted = [("tagging", "all", "known")]
    wanted += [("tagging", way, m) for way in ways for m in ("latent", "outside")]
    assert sorted(of) == sorted(wanted) and {row["seed"] for row in rows} == {0}
    assert {row["status"].name for row in rows} == {"CONVERGED"}
    score = {key: row["score"] for key, row in zip(of, rows, strict=True)}
    for way in ways:
        known, latent, outside = (
            score["tagging", name, method]
            for name, method in (("all", "known"), (way, "latent"), (way, "outside"))
        )
        assert known == 100 and latent > outside


@pytest.mark.thorough
def test_hidden_places_are_learned(monkeypatch) -> None:
    monkeypatch.setitem(parts.RESTARTS, "motif", 0)
    options = Options(methods=("latent",), examples=30)
    (row,) = command._rows(options, "float32", "motif", 0)
    assert row["setting"] == "hidden" and 0 <= row["score"] <= 100
    assert row["status"].name == "CONVERGED" and row["convex_problems"] > 1
