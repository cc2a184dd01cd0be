"""experiments.handwriting on random words: the objective and what is read by enumeration, files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.image import imread

from experiments.corpora.ocr_letters import LETTERS
from experiments.handwriting import command as handwriting
from experiments.handwriting.command import Options, knows_optimum
from experiments.lib import common
from experiments.tasks import letter_machines as handwriting_machines
from experiments.tasks.handwriting import (
    Data,
    errors,
    fold_splits,
    letters_of,
    load,
    one_split,
    spell,
)
from experiments.tasks.word_pictures import COLUMNS, PITCH, _places, course_picture
from jaxstruct.solvers.loop.trace import Trace, trace_of
from tests.experiments.handwriting_cases import LENGTHS, C, random_words, write_letter_data
from tests.experiments.scripts import QUIET, stop_after, strict_json


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handwriting")
    write_letter_data(folder / "letter.data", random_words())
    return Options(
        letter_data=str(folder / "letter.data"), model=str(folder / "model.npz"),
        formulations=("svm1_margin",), variant="subspace", capacity=32,
        c_over_n=C, tolerance=1e-2,
        picture_words=6, output=str(folder / "out"), **QUIET,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(options) -> Data:
    return load(options.letter_data, "float32")


@pytest.fixture(scope="module")
def weights(options, outcome):
    with np.load(options.model, allow_pickle=False) as stored:
        names = ("emissions", "transitions")
        return {name: stored[f"weights.by_path.['{name}']"].astype(np.float64) for name in names}


def scores(weights, pixels):
    """All outputs [26 ** T, T] of a word and their F."""
    outputs = np.array(list(itertools.product(range(26), repeat=len(pixels))))
    emissions = pixels.astype(np.float64) @ weights["emissions"]
    total = emissions[np.arange(len(pixels)), outputs].sum(axis=1)
    total += weights["transitions"][outputs[:, :-1], outputs[:, 1:]].sum(axis=1)
    return outputs, total


def word(words, i):
    own = slice(*words.offsets[i : i + 2])
    return words.pixels[own], words.letters[own]


def test_the_primal_is_the_objective_of_the_weights(outcome, weights):
    words, slack = random_words(), 0.0
    for i in np.flatnonzero(words.folds == 1):
        pixels, letters = word(words, i)
        outputs, found = scores(weights, pixels)
        true = found[np.all(outputs == letters, axis=1)][0]
        slack += np.max(np.sum(outputs != letters, axis=1) + found - true)
    objective = sum(np.sum(leaf**2) for leaf in weights.values()) / 2 + C * slack
    row = outcome.numbers["rows"][0]
    assert row["machine"] == "svm1_margin" and row["status"] == "CONVERGED"
    assert row["primal"] == pytest.approx(objective, rel=1e-5)
    assert 0 <= row["relative_gap"] <= 1e-2 and row["dual"] <= objective * (1 + 1e-6)


def test_the_errors_are_those_of_the_highest_scores(outcome, weights):
    words, row = random_words(), outcome.numbers["rows"][0]
    for part, chosen in (("train", words.folds == 1), ("test", words.folds != 1)):
        wrong = []
        for i in np.flatnonzero(chosen):
            pixels, letters = word(words, i)
            outputs, found = scores(weights, pixels)
            wrong.append(np.sum(outputs[np.argmax(found)] != letters))
        total = LENGTHS[chosen].sum()
        assert row[f"{part}_letter_error"] == pytest.approx(100 * sum(wrong) / total)
        assert row[f"{part}_word_error"] == pytest.approx(100 * np.mean(np.array(wrong) > 0))
    assert 0 < row["test_letter_error"] < 100


def test_files_hold_the_numbers(outcome):
    assert [path.name for path in outcome.files] == [
        "handwriting.json", "handwriting.csv", "handwriting_words.png",
        "handwriting_words.plot.json", "handwriting_course.png", "handwriting_course.plot.csv",
    ]  # fmt: skip
    content = strict_json(outcome.files[0])
    assert [row["primal"] for row in content["rows"]] == [
        row["primal"] for row in outcome.numbers["rows"]
    ]
    assert "python -m experiments.handwriting " in content["record"]["command"]
    assert content["record"]["flags"]["tolerance"] == 1e-2


def test_the_picture_comes_with_its_words(outcome):
    words, shown = random_words(), strict_json(outcome.files[3])["words"]
    row, title = outcome.numbers["rows"][0], strict_json(outcome.files[3])["title"]
    assert title.startswith("6 of ") and "of all of them" in title  # not of the six drawn
    assert f"{100 - row['test_letter_error']:.1f} % of the letters" in title
    assert f"{100 - row['test_word_error']:.1f} % of the words" in title
    assert len(shown) == 6 and len({each["word"] for each in shown}) == 6
    for each in shown:
        pixels, letters = word(words, each["word"])
        assert each["fold"] == words.folds[each["word"]] != 1
        assert each["written"] == "".join(LETTERS[letter] for letter in letters)
        pairs = zip(each["written"], each["read"], strict=True)
        assert each["wrong"] == [t for t, (a, b) in enumerate(pairs) if a != b]
        bits = [np.unpackbits(np.frombuffer(bytes.fromhex(x), np.uint8)) for x in each["images"]]
        np.testing.assert_array_equal(bits, pixels)
    image = imread(outcome.files[2])
    assert image.shape[1] > 600 and image[..., :3].std() > 0.05


def test_a_model_reads_without_training(options, outcome, data, weights):
    found = handwriting.run(options.replace(predict_only=True, picture_words=0))
    assert [path.name for path in found.files] == ["handwriting_read.json", "handwriting_read.csv"]
    reported = strict_json(found.files[0])["words"]
    assert [each["word"] for each in reported] == list(range(24))
    for each in reported:
        outputs, total = scores(weights, word(random_words(), each["word"])[0])
        assert each["read"] == "".join(LETTERS[s] for s in outputs[np.argmax(total)])
    letters = sum(len(each["wrong"]) for each in reported)
    assert found.table.rows[0][2] == pytest.approx(100 * letters / LENGTHS.sum())
    rows = {each["word"]: each["read"] for each in reported}
    shown = strict_json(outcome.files[3])["words"]
    assert all(rows[each["word"]] == each["read"] for each in shown)


def test_folds_share_one_program(options, outcome):
    some = options.replace(folds=3, formulations=("svm1_margin",), baselines=(), model=None)
    found = handwriting.run(some)
    rows = found.numbers["rows"]["svm1_margin"]
    assert [row["split"] for row in rows] == ["fold 0", "fold 1", "fold 2"]
    assert sum(row["compilations"] > 0 for row in rows) <= 1
    first = outcome.numbers["rows"][0]  # fold 1 alone; now filled up to the largest fold
    assert rows[1]["primal"] >= first["dual"] and first["primal"] >= rows[1]["dual"]
    each = [row["test_letter_error"] for row in rows]
    cell = found.table.rows[0][5]
    assert cell == f"{np.mean(each):.2f} ± {np.std(each, ddof=1):.2f}"
    assert found.files[0].name == "handwriting_folds.json"


@pytest.mark.thorough
def test_a_path_of_c_takes_the_fewest_held_out_errors(options):
    some = options.replace(
        c_path=("0.03", "0.001"), held_out=0.25, formulations=("svm1_margin",), baselines=(),
        model=None, picture_words=0,
    )  # fmt: skip
    found = handwriting.run(some)
    (row,) = found.numbers["rows"]
    assert [point["c_over_n"] for point in row["c_path"]] == [0.001, 0.03]
    wrong = [point["held_out_letter_error"] for point in row["c_path"]]
    assert row["c_over_n"] == (0.001, 0.03)[int(np.argmin(wrong))]


def test_splits_are_disjoint_and_complete(data):
    for reverse in (False, True):
        for fold, split in enumerate(fold_splits(data.words, 3, reverse)):
            alone, rest = (split.test, split.train) if reverse else (split.train, split.test)
            np.testing.assert_array_equal(alone, np.flatnonzero(data.words.folds == fold))
            assert sorted([*alone, *rest]) == list(range(24))
    split = one_split(data.words, ("0", "2"), 5)
    assert split.train.tolist() == [0, 2, 3, 5, 6] and set(data.words.folds[split.test]) == {1}
    assert not len(one_split(data.words, ("0", "1", "2"), 0).test)


def test_errors_count_letters_and_words(data):
    chosen = np.array([0, 1, 2])
    read = [letters.copy() for letters in spell(data, chosen)]
    assert errors(data, chosen, read) == (0, 0)
    read[0][:2] += 1
    assert errors(data, chosen, read) == pytest.approx((100 * 2 / 6, 100 / 3))
    np.testing.assert_array_equal(letters_of(data, np.array([2, 0])), [4, 5, 0, 1, 2])


def test_words_stand_apart_in_the_picture():
    words = [{"written": "a" * size, "word": 0} for size in sorted(LENGTHS)]
    places, width, height = _places(words, COLUMNS)
    boxes = [
        (p.left, p.left + PITCH * len(w["written"]), p.top, p.top + 30)
        for p, w in zip(places, words, strict=True)
    ]
    for (a, b, c, d), (e, f, g, h) in itertools.combinations(boxes, 2):
        assert b <= e or f <= a or d <= g or h <= c
    assert max(box[1] for box in boxes) <= width and max(box[3] for box in boxes) <= height


def test_the_course_shows_every_round_that_has_both():
    history = trace_of([
        Trace(7.1, 0, 7, np.inf, -np.inf, 5, 9, np.inf, 0, False),
        Trace(7.25, 0, 7, np.inf, -np.inf, 5, 9, 9, 1, False),
        Trace(7.5, 0, 7, 4, 3, 0, 9, 4, 3, True),
    ])  # fmt: skip
    plot = course_picture([{"machine": "m", "history": history}], "t", 0.01)
    assert plot.data.rows == [("m", 0.25, 9.0, 1.0, "no"), ("m", 0.5, 4.0, 3.0, "yes")]
    gaps, certified, estimated = (line.get_ydata() for line in plot.figure.axes[1].lines[:3])
    np.testing.assert_allclose(gaps, [np.nan, 8 / 9, 1 / 4])
    np.testing.assert_allclose(certified, [1 / 4])  # what proves nothing has marks of its own
    np.testing.assert_allclose(estimated, [np.nan, 8 / 9])


def test_the_known_optimum_is_of_one_task():
    row = {"machine": "svm1_margin", "c_over_n": 0.1}
    assert knows_optimum(Options(), row)
    assert not knows_optimum(Options(), row | {"c_over_n": 1.0})
    for other in ({"examples": 9}, {"train_folds": ["2"]}, {"loss": "zero_one"},
                  {"letter_data": "x"}):  # fmt: skip
        assert not knows_optimum(Options(**other), row)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"formulations": (), "baselines": (), "model": None}, "nothing to train"),
        ({"folds": 4, "model": None}, "folds: got 4, expected at most 3"),
        ({"train_folds": ("7",)}, r"expected some of the folds \[0, 1, 2\]"),
        ({"train_folds": ("x",)}, "train_folds"),
        ({"examples": -1}, "examples: got -1"),
        ({"c_path": ("1",), "held_out": 0.01}, "held_out: got 0.01"),
    ],
)
def test_options_that_do_not_fit_are_named(options, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        handwriting.run(options.replace(output=str(tmp_path), **changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folds", [0, 2])
def test_ctrl_c_keeps_the_machines_that_are_trained(options, tmp_path, monkeypatch, folds):
    """The first formulation is trained; its weights are written, too."""
    trained = handwriting_machines.Machine({"machine": "svm1_margin"}, None, {"w": np.ones(2)})
    monkeypatch.setattr(handwriting, "train_chain", stop_after(1, trained))
    monkeypatch.setattr(handwriting, "measure", lambda machine, *_: dict(machine.row))
    model = None if folds else str(tmp_path / "model.npz")
    options = options.replace(
        output=str(tmp_path), folds=folds, model=model, formulations=("svm1_margin", "svm2"),
        predict_only=False,
    )  # fmt: skip
    with pytest.raises(common.Stopped):
        handwriting.run(options)
    name = "handwriting_folds" if folds else "handwriting"
    content = strict_json(tmp_path / f"{name}.stopped.json")
    rows = content["rows"]["svm1_margin"] if folds else content["rows"]
    assert content["stopped"] is True and len(rows) == 1
    assert (tmp_path / "model.npz").exists() == (not folds)
