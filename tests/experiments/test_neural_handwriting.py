"""experiments.neural_handwriting on random words: what a network learns, choices, files."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from experiments.lib import common
from experiments.neural_handwriting import command as neural
from experiments.neural_handwriting import training
from experiments.neural_handwriting.command import Options
from experiments.neural_handwriting.training import Moves, Shape, dropped, moved
from experiments.tasks.handwriting import Data, fold_splits, load
from tests.experiments.handwriting_cases import C, random_words, write_letter_data
from tests.experiments.scripts import QUIET


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    folder = tmp_path_factory.mktemp("neural")
    write_letter_data(folder / "letter.data", random_words())
    return Options(
        letter_data=str(folder / "letter.data"), folds=2, machines=("linear", "chain_log_loss"),
        epochs=30, rate=0.03, decay=1e-4, drop=0.0, hidden=16, channels=4, shift=0.0, slant=0.0,
        batch=4, picture_words=4, c_over_n=C,
        output=str(folder / "out"), **QUIET,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(options: Options) -> Data:
    return load(options.letter_data, "float32")


def test_a_row_a_machine_and_fold(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    every = [(name, f"fold {k}") for k in (0, 1) for name in ("linear", "chain_log_loss")]
    assert [(row["machine"], row["split"]) for row in rows] == every
    networks = [row for row in rows if row["machine"] != "linear"]
    for row in networks:
        assert row["steps"] == 2 * 30 and len(row["losses"]) == 30
        assert row["losses"][-1] < 0.2 * row["losses"][0]
        assert row["processor_seconds"] > 0
    assert outcome.table.rows[0][:2] == ["pixels + pairs, linear", "svm1_margin"]


def test_fewer_words_are_drawn_at_random(options: Options, data: Data) -> None:
    split = fold_splits(data.words, 1)[0]
    cut = neural._cut(options.replace(examples=3, test_examples=5), split)
    assert (len(cut.train), len(cut.test)) == (3, 5)
    assert set(cut.train) < set(split.train) and set(cut.test) < set(split.test)
    assert cut.test.tolist() != split.test[:5].tolist()
    assert neural._cut(options, split).train is split.train


def test_a_batch_holds_its_letters(data: Data) -> None:
    chosen = np.array([3, 0])
    batch = training._batch(data, chosen, 3, 4, 8)
    letters, offsets = data.words.letters, data.words.offsets
    for row, i in enumerate(chosen):
        own = slice(offsets[i], offsets[i + 1])
        length = batch.length[row]
        assert batch.y[row].tolist() == [*letters[own], *[-1] * (4 - length)]
        at = batch.letters[batch.places[row, :length]]
        assert at.tolist() == list(range(own.start, own.stop))
    assert batch.length[2] == 0 and (batch.y[2] == -1).all()


def test_images_are_moved_as_asked() -> None:
    image = np.zeros((1, 16, 8), np.float32)
    image[0, 8, 4] = 1.0
    key, move = jax.random.key(0), jax.jit(moved, static_argnums=2)
    np.testing.assert_allclose(move(key, image, Moves(0.0, 0.0)), image, atol=1e-6)
    shifted = np.asarray(move(key, np.repeat(image, 50, axis=0), Moves(1.0, 0.0)))
    near = shifted[:, 7:10, 3:6].sum(axis=(1, 2))
    np.testing.assert_allclose(near, 1.0, atol=1e-5)
    assert shifted[:, 8, 4].min() < 0.5 < shifted[:, 8, 4].max()


def test_units_are_dropped_and_the_rest_is_larger() -> None:
    values = np.ones((100, 100), np.float32)
    assert (dropped(None, values, 0.3) == values).all()
    kept = np.asarray(jax.jit(dropped, static_argnums=2)(jax.random.key(0), values, 0.3))
    assert abs(float(kept.mean()) - 1) < 0.03 and abs(float((kept == 0).mean()) - 0.3) < 0.03
    shape = Shape(2, 4, 6)

    @jax.jit
    def features_of(key, images):
        return training.letter_features(training.first_parameters(key, shape), images)

    features = np.asarray(features_of(jax.random.key(1), np.ones((3, 16, 8), np.float32)))
    assert features.shape == (3, 6) and (features >= 0).all()
