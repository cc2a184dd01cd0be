"""experiments.handwriting on random words: machines, splits, pictures."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments import handwriting
from experiments.corpora.ocr_letters import LETTERS
from experiments.handwriting import Options, knows_optimum
from experiments.tasks import handwriting as words_of
from experiments.tasks.handwriting import Data, errors, one_split
from experiments.tasks.word_pictures import COLUMNS, PITCH, _places, course_picture
from jaxstruct.solvers.loop.trace import Trace, trace_of
from tests.experiments.handwriting_cases import LENGTHS, C, random_words, write_letter_data
from tests.experiments.scripts import QUIET, strict_json
from tests.lib.refusals import refused


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handwriting")
    write_letter_data(folder / "letter.data", random_words())
    return Options(
        letter_data=str(folder / "letter.data"), c_over_n=C, tolerance=1e-2, picture_words=6,
        output=str(folder / "out"), **QUIET,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(options) -> Data:
    return words_of.load(options.letter_data, "float32")


def test_every_machine_reads_and_the_picture_comes_with_its_words(outcome):
    words, rows = random_words(), outcome.numbers["rows"]
    assert [row["machine"] for row in rows] == ["svm1_margin", "letters", "perceptron", "crf"]
    assert rows[0]["status"] == "CONVERGED" and 0 <= rows[0]["relative_gap"] <= 1e-2
    assert all(row["train_letter_error"] < row["test_letter_error"] < 100 for row in rows)
    (path,) = (path for path in outcome.files if path.name == "handwriting_words.plot.json")
    content = strict_json(path)
    assert f"{100 - rows[0]['test_letter_error']:.1f} % of the letters" in content["title"]
    assert len({each["word"] for each in content["words"]}) == 6
    for each in content["words"]:
        own = slice(*words.offsets[each["word"] : each["word"] + 2])
        assert each["fold"] == words.folds[each["word"]] != 1
        assert each["written"] == "".join(LETTERS[letter] for letter in words.letters[own])
        pairs = zip(each["written"], each["read"], strict=True)
        assert each["wrong"] == [t for t, (a, b) in enumerate(pairs) if a != b]
        bits = [np.unpackbits(np.frombuffer(bytes.fromhex(x), np.uint8)) for x in each["images"]]
        np.testing.assert_array_equal(bits, words.pixels[own])


def test_folds_share_one_program(options, outcome):
    some = options.replace(folds=3, formulations=("svm1_margin",), baselines=())
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


def test_splits_are_disjoint_and_complete(data):
    for fold, split in enumerate(words_of.fold_splits(data.words, 3)):
        np.testing.assert_array_equal(split.train, np.flatnonzero(data.words.folds == fold))
        assert sorted([*split.train, *split.test]) == list(range(24))
    split = one_split(data.words, ("0", "2"), 5)
    assert split.train.tolist() == [0, 2, 3, 5, 6] and set(data.words.folds[split.test]) == {1}
    assert not len(one_split(data.words, ("0", "1", "2"), 0).test)


def test_errors_count_letters_and_words(data):
    chosen = np.array([0, 1, 2])
    read = [letters.copy() for letters in words_of.spell(data, chosen)]
    assert errors(data, chosen, read) == (0, 0)
    read[0][:2] += 1
    assert errors(data, chosen, read) == pytest.approx((100 * 2 / 6, 100 / 3))
    np.testing.assert_array_equal(words_of.letters_of(data, np.array([2, 0])), [4, 5, 0, 1, 2])


def test_words_stand_apart_in_the_picture():
    words = [{"written": "a" * size, "word": 0} for size in sorted(LENGTHS)]
    places, width, height = _places(words, COLUMNS)
    lefts = [(p.left, PITCH * len(w["written"])) for p, w in zip(places, words, strict=True)]
    boxes = [(x, x + size, p.top, p.top + 30) for p, (x, size) in zip(places, lefts, strict=True)]
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


def test_options_that_do_not_fit_are_named(options, tmp_path):
    for changes, message in (
        ({"formulations": (), "baselines": ()}, "nothing to train"),
        ({"folds": 4}, "folds: got 4, expected at most 3"),
        ({"train_folds": ("7",)}, r"expected some of the folds \[0, 1, 2\]"),
    ):
        refused(message, handwriting.run, options.replace(output=str(tmp_path), **changes))
