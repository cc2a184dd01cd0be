"""experiments.named_entities: kernel, folds, machines, tables, model file, own files, speed."""

from __future__ import annotations

import json
import zipfile

import jax
import numpy as np
import pytest

from experiments.lib import common
from experiments.named_entities import command as named_entities
from experiments.named_entities import files as named_entities_files
from experiments.named_entities import kept as named_entities_kept
from experiments.named_entities import methods
from experiments.named_entities import model as models
from experiments.named_entities import speed as named_entities_speed
from experiments.named_entities import speed_report as named_entities_speed_report
from experiments.named_entities import tables as named_entities_tables
from experiments.named_entities.command import Options
from experiments.named_entities.data import (
    Scores,
    as_numbers,
    bucket_of,
    chosen,
    encode_labels,
    kernel_corpus,
    label_names,
    label_strings,
    score,
    sparse_corpus,
    token_kernel,
    true_labels,
)
from experiments.named_entities.report import (
    PAPER_SVM,
    Row,
    error_plot,
    table_three,
    table_two,
)
from experiments.named_entities.speed import Point, reached
from jaxstruct import Status, predict
from jaxstruct.baselines.perceptron import perceptron
from jaxstruct.chains.structure import chain
from jaxstruct.core.buckets import in_order
from jaxstruct.data.conll import Sentence, read_conll, write_conll
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.token_features import (
    FeatureOptions,
    fit_token_index,
    token_features,
    token_rows,
)
from tests.experiments.scripts import kept_settings, stop_after, strict_json

NAMES = (("Ana", "B-PER"), ("Luis", "B-PER"), ("Roma", "B-LOC"), ("Lima", "B-LOC"))
PLAIN = ("va", "y", "ve", "oye", "come", "hoy", ".", "12")
FEATURES = FeatureOptions(affixes=1, window=0)
CHEAP = {
    "sentences": 16, "folds": 2, "C": ("n",), "kernel_C": ("n",), "epochs": 2, "buckets": 1,
    "affixes": 1, "window": 0, "capacity": 32, "variant": "subspace", "max_passes": 30,
    "compilation_cache": False, "progress": False, "epsilon": 0.1, "tolerance": 0.1,
    "methods": ("commonest", "hmm", "crf", "perceptron", "svm", "svm_linear"),
    "formulation": "svm2",
}  # fmt: skip
"""8 training sentences of one padded length and set of words, so that all share their programs."""


def news(count, seed=0):
    """Sentences of 2 or 7 words, all words among the first 8; after a name comes Real or not."""
    random, sentences = np.random.default_rng(seed), []
    words = [*((word, "O") for word in PLAIN), *NAMES] * count
    for number in range(count):
        pairs = []
        while len(pairs) < (7 if number % 2 else 2):
            pairs.append(words.pop(0) if number < 8 else words[random.integers(12)])
            if pairs[-1][1] != "O" and random.random() < 0.5:
                pairs.append(("Real", f"I-{pairs[-1][1][2:]}"))
        spoken, labels = zip(*pairs[: 7 if number % 2 else 2], strict=True)
        sentences.append(Sentence(spoken, (spoken,), labels))
    return tuple(sentences)


def corpora(sentences, most=2):
    index, names = fit_token_index(sentences, FEATURES), label_names(sentences)
    shared = (sentences, names, index, most)
    return sparse_corpus(*shared, FEATURES), kernel_corpus(*shared, False, FEATURES)


@pytest.fixture(scope="module")
def sentences():
    return news(16, seed=16)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A file in the form of CoNLL-2002's: 16 sentences to train on, 8 in each test part."""
    folder = tmp_path_factory.mktemp("corpus")
    path = folder / "conll2002.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for part, count in (("train", 16), ("testa", 8), ("testb", 8)):
            file = write_conll(folder / part, news(count, seed=count))
            zipped.write(file, f"conll2002/esp.{part}")
    return str(path)


@pytest.mark.parametrize("normalise", [False, True])
def test_the_kernel_is_the_polynomial_of_the_features(sentences, normalise):
    index = fit_token_index(sentences, FEATURES)
    tokens = sum(token_features(sentences, FEATURES), [])
    vectors = np.array([[name in token for name in index.names] for token in tokens], float)
    expected = (1 + vectors @ vectors.T) ** 2
    if normalise:
        expected /= np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    found = token_kernel(token_rows(sentences, index, FEATURES), normalise)
    assert found.dtype == np.float32 and found == pytest.approx(expected, rel=1e-6)


def test_kernel_inputs_hold_rows_places_and_gram_of_each_sentence(sentences):
    _, kernel = corpora(sentences)
    index = fit_token_index(sentences, FEATURES)
    matrix = token_kernel(token_rows(sentences, index, FEATURES), False)
    ends = np.cumsum(kernel.lengths)
    for x, length, end in zip(in_order(kernel.inputs), kernel.lengths, ends, strict=True):
        own = np.arange(end - length, end)
        assert x.length == length
        assert (x.features.rows[:length] == matrix[own]).all()
        assert (x.features.anchors[:length] == own).all()
        assert (x.features.anchors[length:] == len(matrix)).all()
        assert (x.gram[:length, :length] == matrix[np.ix_(own, own)]).all()
        assert not x.gram[length:].any() and not x.features.rows[length:].any()


def test_a_machine_of_a_fold_does_not_depend_on_its_test_sentences(sentences):
    """The anchors of held-out tokens keep the coefficient 0."""
    _, kernel = corpora(sentences, most=1)
    train = np.array([0, 1, 4, 5, 8, 9, 12, 13])
    part = chosen(kernel, train)
    problem = chain(kernel.number_of_features, len(kernel.names))
    machine = perceptron(problem, part.inputs, part.outputs, max_epochs=1)
    tokens = np.repeat(np.isin(np.arange(16), train), kernel.lengths)
    weights = np.asarray(machine.weights["emissions"])
    assert not weights[~tokens].any() and weights[tokens].any()


def test_labels_come_back_in_the_order_of_the_sentences(sentences):
    sparse, _ = corpora(sentences, most=3)
    back = label_strings(sparse.outputs, sparse.lengths, sparse.names)
    assert [tuple(labels) for labels in back] == list(true_labels(sparse))
    which = np.array([5, 2, 11])
    part = chosen(sparse, which)
    assert list(true_labels(part)) == [sentences[i].labels for i in which]
    assert [tuple(y) for y in label_strings(part.outputs, part.lengths, part.names)] == list(
        true_labels(part)
    )
    assert len(set(bucket_of(sparse.inputs))) == len(sparse.inputs.parts)


def test_an_unknown_label_is_named_with_its_place(sentences):
    with pytest.raises(ValueError, match=r"b.txt: sentence 2 labels 'Ana' as 'B-X'.*B-LOC, B-PER"):
        encode_labels([sentences[0], Sentence(("Ana",), (), ("B-X",))], ["B-LOC", "B-PER", "I-LOC",
                      "I-PER", "O"], "b.txt")  # fmt: skip
    with pytest.raises(ValueError, match=r"are \['O'\]"):
        label_names([Sentence(("a",), (), ("O",))])


def test_scores_are_in_per_cent_and_without_entities_where_labels_are_not_iob2():
    found = as_numbers(score([["B-A", "O"], ["O", "O"]], [["B-A", "O"], ["B-A", "O"]]))
    assert found == {
        "token_error": 25.0, "precision": 50.0, "recall": 100.0, "f1": pytest.approx(200 / 3),
    }  # fmt: skip
    plain = score([["N", "V"]], [["N", "N"]])
    assert plain == Scores(50.0, None) and as_numbers(plain)["f1"] is None


def test_kernel_rows_are_visited_in_small_groups(sentences):
    sparse, kernel = corpora(sentences)
    options = Options(capacity=64, seed=3)
    assert methods.settings_of(options, sparse) == common.solver_settings(options)
    found = methods.settings_of(options, kernel)
    assert (found.group, found.oracle_batch, found.cached_sweeps) == (8, 8, 1)
    assert (found.capacity, found.seed) == (64, 3)


@pytest.mark.parametrize(
    "word, kind",
    [("1998", "digits"), ("...", "signs"), ("EFE", "capitals"), ("Ana", "initial"),
     ("A", "initial"), ("va", "small")],
)  # fmt: skip
def test_spelling(word, kind):
    assert methods.spelling(word) == kind


def test_every_machine_is_measured_on_every_fold_and_written(archive, tmp_path, monkeypatch):
    """One test, so that the programs are compiled in one worker only."""
    options = Options(path=archive, output=str(tmp_path), **CHEAP)
    with kept_settings():
        outcome = named_entities.run(options)
    rows = {(row.name, row.tokens): row for row in outcome.numbers["rows"]}
    assert set(rows) == {
        ("commonest label", "none"), ("HMM", "words"), ("HMM, spelling", "words"),
        ("CRF", "linear"), ("SVM", "linear"), ("SVM", "degree 2"),
        ("perceptron", "degree 2"), ("perceptron, averaged", "degree 2"),
    }  # fmt: skip
    yardstick = [fold["test"]["token_error"] for fold in rows["commonest label", "none"].folds]
    for row in rows.values():
        assert len(row.folds) == 2 and all(fold["seconds"] > 0 for fold in row.folds)
        errors = [fold["test"]["token_error"] for fold in row.folds]
        assert row.method == "commonest label" or np.mean(errors) < np.mean(yardstick), row.name
    for tokens in ("linear", "degree 2"):
        for fold in rows["SVM", tokens].folds:
            assert fold["test"]["token_error"] < 20 and 1 <= fold["average_loss"] <= 7
            assert fold["constraints"] >= fold["support"] > 0 and fold["C"] == 8
            assert fold["status"].name == "EPSILON" and fold["violation"] <= 0.1
    check_files(outcome)
    check_resumed(options, outcome, monkeypatch)


def check_files(outcome):
    content = strict_json(outcome.files[0])
    assert [path.name for path in outcome.files] == [
        "named_entities.json", "named_entities.csv", "named_entities.png",
        "named_entities.plot.csv", "named_entities_table_3.json", "named_entities_table_3.csv",
    ]  # fmt: skip
    shown = outcome.files[1].read_text(encoding="utf-8")
    assert not any(figure in shown for figure in ("9.36", "5.17", "5.94", "5.08"))
    row = next(row for row in content["rows"] if row["method"] == "CRF")
    errors = [fold["test"]["token_error"] for fold in row["folds"]]
    assert f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}" in shown
    assert "paper" not in shown + outcome.files[3].read_text(encoding="utf-8")
    assert "2824 ± 106" not in outcome.files[5].read_text(encoding="utf-8")
    assert "python -m experiments.named_entities " in content["record"]["command"]


def check_resumed(options, outcome, monkeypatch):
    """An interrupted run goes on: only what was not measured, or measured otherwise, is trained."""
    folder = outcome.files[0].parent / named_entities_kept.FOLDER
    kept = sorted(path.name for path in folder.iterdir())
    assert len(kept) == 2 * 7 and "SVM_degree_2_svm2_Cn_fold0.json" in kept
    trained = []
    monkeypatch.setattr(methods, "fit", lambda *_, **__: trained.append(1) or 1 / 0)
    with kept_settings():
        again = named_entities.run(options._replace(resume=True))
        assert again.table == outcome.table and not trained
        (folder / "SVM_degree_2_svm2_Cn_fold0.json").unlink()
        for changed in (options._replace(resume=True), options._replace(resume=True, seed=1)):
            with pytest.raises(ZeroDivisionError):
                named_entities.run(changed)
    assert len(trained) == 2


@pytest.mark.parametrize("changed", [{}, {"sentences": 16}, {"language": "ned"}])
def test_the_paper_stands_only_beside_its_own_sentences(sentences, changed):
    options, known = Options(**changed), not changed
    numbers = {"constraints": 9, "support": 2, "average_loss": 1.0, "status": Status.EPSILON}
    row = Row("SVM", "", "degree 2", "1", "svm2", True, (measured_fold(4.0, **numbers),))
    corpus, _ = corpora(sentences)
    plot = error_plot(options, [row])
    assert ("paper" in plot.data.columns) == known
    assert ("5.08" in table_two(options, corpus, [row]).rows[0]) == known
    third = table_three(options, corpus, [row])
    assert ("2824 ± 106" in third.rows[0]) == known
    assert len(third.rows[0]) == len(third.columns)


def test_ctrl_c_keeps_every_training(archive, tmp_path, monkeypatch):
    """What was trained is in the stopped file and in those that --resume reads."""
    options = Options(path=archive, output=str(tmp_path), **CHEAP)
    options = options._replace(methods=("commonest", "hmm"))

    def stop(*_, **__):
        raise KeyboardInterrupt

    with kept_settings(), monkeypatch.context() as patch:
        patch.setattr(named_entities_tables, "hidden_markov", stop)
        with pytest.raises(common.Stopped, match="--resume"):
            named_entities.run(options)
    content = strict_json(tmp_path / "named_entities.stopped.json")
    assert [row["machine"] for row in content["trainings"]] == ["commonest label"]
    assert content["stopped"] is True and content["trainings"][0]["test"]["token_error"] > 0
    with kept_settings():
        whole = named_entities.run(options._replace(resume=True))
    rows = {row.name: row.folds for row in whole.numbers["rows"]}
    assert rows["commonest label"][0]["seconds"] == content["trainings"][0]["seconds"]
    assert not (tmp_path / "named_entities.stopped.json").exists()


def test_the_words_of_methods_name_the_machines_of_both_tables():
    linear, kernel = named_entities_tables._jobs(Options(C=("1", "n"), kernel_C=("1", "n")))
    named = [
        [(row.name, row.tokens, row.C, row.formulation) for job in jobs for row in job.rows]
        for jobs in (linear, kernel)
    ]
    assert named[1] == [
        ("perceptron", "degree 2", None, None), ("perceptron, averaged", "degree 2", None, None),
        *(("SVM", "degree 2", C, form) for form in PAPER_SVM for C in ("1", "n")),
    ]  # fmt: skip
    assert named[0][-4:] == [
        ("perceptron", "linear", None, None), ("perceptron, averaged", "linear", None, None),
        ("SVM", "linear", "1", "svm2"), ("SVM", "linear", "n", "svm2"),
    ]  # fmt: skip
    compared = [row.method for job in (*linear, *kernel) for row in job.rows if row.compared]
    assert compared == ["HMM", "CRF", "CRF", "perceptron", "SVM", "SVM"]


def measured_fold(error, **numbers):
    """What one training might have measured."""
    scores = {"token_error": error, "precision": 50.0, "recall": 40.0, "f1": 44.4}
    return {"train": scores | {"token_error": 0.5}, "test": scores, "seconds": 1.0} | numbers


def test_table_3_shows_the_paper_beside_the_means(sentences):
    folds = [
        {"constraints": count, "support": 20, "average_loss": loss, "status": Status.EPSILON}
        for count, loss in ((100, 1.1), (110, 1.3))
    ]
    folds = tuple(measured_fold(error, **fold) for error, fold in zip((4, 6), folds, strict=True))
    rows = [
        Row("SVM", "", "degree 2", C, form, True, folds) for form in PAPER_SVM for C in ("1", "n")
    ]
    corpus, _ = corpora(sentences)
    table = table_three(Options(kernel_C=("1", "n")), corpus, rows)
    assert [row[:2] for row in table.rows] == [
        [name, C] for C in ("1", "n") for name in ("SVM2", "SVM2 Δs", "SVM2 Δm")
    ]
    assert [tuple(row[2:-1:2]) for row in table.rows] == [*PAPER_SVM.values()] * 2
    assert {tuple(row[3::2]) + (row[-1],) for row in table.rows} == {
        ("0.50 ± 0.00", "5.00 ± 1.41", "105 ± 7", "1.20 ± 0.14", "20 ± 0")
    }
    second = table_two(Options(), corpus, rows)
    assert [row[2:5] for row in second.rows] == [[C, "5.08", "5.00 ± 1.41"] for C in ("1", "n")]


def test_only_the_methods_asked_for(archive, tmp_path):
    options = Options(path=archive, output=str(tmp_path), **CHEAP)._replace(methods=("hmm",))
    with kept_settings():
        found = named_entities.run(options)
        assert [row.method for row in found.numbers["rows"]] == ["HMM", "HMM"]
        assert not any("table_3" in path.name for path in found.files)
        with pytest.raises(ValueError, match="methods: got 'memm'"):
            named_entities.run(options._replace(methods=("memm",)))


def model_options(tmp_path, **changes):
    for name, count in (("train", 8), ("test", 16)):
        write_conll(tmp_path / name, news(count, seed=count))
    write_conll(tmp_path / "bare", [s._replace(labels=()) for s in news(16, seed=16)])
    return Options(output=str(tmp_path / "out"), **CHEAP)._replace(**changes)


def test_ctrl_c_while_testing_keeps_the_training(tmp_path, monkeypatch):
    options = model_options(
        tmp_path, train=str(tmp_path / "train"), test=str(tmp_path / "test"),
        model=str(tmp_path / "m.npz"),
    )  # fmt: skip
    monkeypatch.setattr(named_entities_files, "_apply", stop_after(0, None))
    with kept_settings(), pytest.raises(common.Stopped):
        named_entities.run(options)
    content = strict_json(tmp_path / "out" / "named_entities_files.stopped.json")
    assert content["stopped"] is True and content["training"]["status"] == "CONVERGED"
    assert content["model"] == str(tmp_path / "m.npz") and (tmp_path / "m.npz").exists()


def test_own_files_are_trained_on_tested_and_labelled_and_the_model_is_kept(tmp_path):
    options = model_options(
        tmp_path, train=str(tmp_path / "train"), test=str(tmp_path / "test"),
        predict=str(tmp_path / "bare"), model=str(tmp_path / "deep" / "m.npz"),
    )  # fmt: skip
    with kept_settings():
        found = named_entities.run(options)
        later = named_entities.run(
            options._replace(train=None, test=None, output=str(tmp_path / "later"))
        )
    assert found.numbers["training"]["status"].solved
    assert found.numbers["test"]["token_error"] < 20 and found.numbers["test"]["f1"] > 50
    tested = read_conll(tmp_path / "out" / "test.predicted")
    true = news(16, seed=16)
    assert [s.words for s in tested] == [s.words for s in true]
    assert [s.columns[-1] for s in tested] == [s.labels for s in true]
    expected = as_numbers(score([s.labels for s in true], [s.labels for s in tested]))
    assert {k: found.numbers["test"][k] for k in expected} == expected
    labelled = (tmp_path / "out" / "bare.predicted").read_bytes()
    assert labelled == (tmp_path / "later" / "bare.predicted").read_bytes()
    assert [s.labels for s in read_conll(tmp_path / "out" / "bare.predicted")] == [
        s.labels for s in tested
    ]
    assert "training" not in later.numbers
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["m.npz"]


def trained(sentences, constrained=False, dtype="float32"):
    """A model whose weights are arbitrary, to be saved and loaded."""
    names, index = label_names(sentences), fit_token_index(sentences, FEATURES)
    problem = models.problem_of(index, names, constrained, dtype)
    random = np.random.default_rng(0)
    weights = jax.tree.map(
        lambda leaf: random.normal(size=leaf.shape).astype(leaf.dtype), problem.initial_weights
    )
    return models.Model(weights, index, names, FEATURES, constrained, dtype)


def test_a_model_round_trips_and_its_labels_keep_the_constraints(tmp_path, sentences):
    model = trained(sentences, constrained=True)
    back = models.load_model(models.save_model(tmp_path / "m", model))
    assert back._replace(weights=None) == model._replace(weights=None)
    assert all((back.weights[name] == leaf).all() for name, leaf in model.weights.items())
    labels = models.label(back, sentences, 2)
    assert labels == models.label(model, sentences, 2)
    for sequence in labels:
        for before, after in zip(["O", *sequence], sequence, strict=False):
            assert after[0] != "I" or (before != "O" and before[1:] == after[1:])
    problem = models.problem_of(model.index, model.names, False, "float32")
    corpus = sparse_corpus(sentences, model.names, model.index, 1, FEATURES)
    free = predict(problem, model.weights, corpus.inputs)
    assert label_strings(free, corpus.lengths, model.names) != labels


@pytest.mark.usefixtures("x64")
def test_a_model_of_float64_keeps_every_digit(tmp_path, sentences):
    model = trained(sentences, dtype="float64")
    back = models.load_model(models.save_model(tmp_path / "m", model))
    assert back.dtype == "float64" and back.weights["emissions"].dtype == np.float64
    assert all((back.weights[name] == leaf).all() for name, leaf in model.weights.items())


@pytest.mark.parametrize(
    "member, change, message",
    [
        (None, None, "no file that --model wrote"),
        ("model.json", {"format": "other"}, "its format is not"),
        ("model.json", {"version": 2}, "version 2, expected 1"),
        ("model.json", {"labels": None}, "damaged"),
        ("model.json", {"features": {"colour": 1}}, "damaged"),
        ("model.json", {"dtype": "float64"}, "are float64; start with --x64"),
        ("model.json", {"dtype": "int8"}, "damaged"),
    ],
)
def test_files_that_are_no_model_are_refused(tmp_path, sentences, member, change, message):
    path = models.save_model(tmp_path / "m", trained(sentences))
    if member is None:
        path.write_bytes(path.read_bytes()[:500])
    else:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts[member] = json.dumps(json.loads(parts[member]) | change).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
    with pytest.raises(ValueError, match=message):
        models.load_model(path)


def test_a_failed_save_keeps_the_old_model(tmp_path, sentences, monkeypatch):
    model = trained(sentences)
    path = models.save_model(tmp_path / "m", model)
    before = path.read_bytes()
    monkeypatch.setattr(models.feature_index, "to_json", lambda index: "{")
    with pytest.raises(ValueError):
        models.save_model(path, model)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["m"]
    with pytest.raises(ValueError, match="is a folder"):
        models.save_model(tmp_path, model)


@pytest.mark.parametrize(
    "changes, content, error, message",
    [
        ({"test": "x"}, None, ValueError, "--train, or a saved --model"),
        ({"model": "x"}, None, ValueError, "--predict, or to --train"),
        ({"train": "x", "whole": True}, None, ValueError, "whole, speed"),
        ({"whole": True, "speed": True}, None, ValueError, "choose one"),
        ({"train": "FILE"}, b"", MalformedFile, "holds no token"),
        ({"train": "FILE"}, b"word\n", MalformedFile, "has 1 column"),
        ({"train": "FILE"}, b"a O\nb X O\n", MalformedFile, "3 columns, expected 2"),
        ({"train": "FILE"}, b"a O\nb O\n", ValueError, "expected at least two"),
        ({"train": "FILE", "constraints": True}, b"a N\nb V\n", ValueError, "are not IOB2"),
        ({"train": "FILE", "tags": True}, b"a N\nb V\n", ValueError, "no column of tags"),
        ({"train": "no such file"}, None, FileNotFoundError, "no such file"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, changes, content, error, message):
    file = tmp_path / "file"
    file.write_bytes(content or b"")
    changes = {k: str(file) if v == "FILE" else v for k, v in changes.items()}
    with kept_settings(), pytest.raises(error, match=message):
        named_entities.run(Options(output=str(tmp_path / "out"), **CHEAP)._replace(**changes))


def test_an_unknown_label_of_a_test_file_is_named(tmp_path, sentences):
    model = models.save_model(tmp_path / "m", trained(sentences))
    file = tmp_path / "b.conll"
    file.write_text("Ana B-DOG\n", encoding="utf-8")
    options = Options(output=str(tmp_path), model=str(model), test=str(file), **CHEAP)
    with kept_settings(), pytest.raises(ValueError, match=r"b.conll: sentence 1 .*'B-DOG'.*B-LOC"):
        named_entities.run(options)


def test_levels_are_reached_when_certified_and_before_that_in_hindsight():
    points = [
        Point(1.0, 1.5, np.inf, -np.inf, 10), Point(2.0, 2.5, 10.05, 9.0, 20),
        Point(3.0, 3.5, 10.05, 9.96, 30), Point(4.0, 4.5, 10.005, 10.0, 45),
    ]  # fmt: skip
    assert reached(points, 1e-2) == {
        "gap": {"wall": 3.0, "process": 3.5, "oracle_calls": 30, "rounds": 3},
        "primal": {"wall": 2.0, "process": 2.5, "oracle_calls": 20, "rounds": 2},
    }
    assert reached(points, 1e-3)["primal"]["rounds"] == 4
    assert reached(points, 1e-4) == {"gap": None, "primal": None}


def test_speed_holds_time_memory_calls_and_scores(archive, tmp_path, monkeypatch):
    """Both contenders in this process, for speed instead of in processes of their own."""
    options = Options(path=archive, output=str(tmp_path), speed=True, **CHEAP)
    options = options._replace(sentences=8)

    def here(command, options, name):
        found = named_entities_speed.run_contender(options)
        content = strict_json(tmp_path / f"{name}.json")["rows"]
        assert len(content) == len(found)
        return content

    monkeypatch.setattr(named_entities_speed_report, "run_apart", here)
    with kept_settings():
        speed = named_entities.run(options)
    first, second, *crf = speed.numbers["rows"]
    assert first["compilations"] >= second["compilations"] == 0
    assert first["compile_seconds"] >= 0 <= second["compile_seconds"] < 1
    for row in (first, second):
        assert row["status"] == "CONVERGED" and row["relative_gap"] <= 0.1
        assert row["oracle_calls"] == row["points"][-1]["oracle_calls"] > 0
        assert row["peak_memory"] >= row["memory_before"] > 1e7
    assert second["primal"] == first["primal"]
    for row in (second, *crf):
        assert row["testa"]["token_error"] < 25 and row["testb"]["f1"] > 40
        assert row["sentences"] == 8
    shown = [row[0] for row in speed.table.rows]
    assert shown == ["svm2", "CRFsuite, c2 = 1"][: len(shown)] and len(crf) == len(shown) - 1
    assert speed.table.rows[0][1] == f"{first['compile_seconds']:.1f}"
    assert speed.table.rows[0][2] == f"{second['wall_seconds']:.2f}"
    assert strict_json(speed.files[0])["left_out"] == speed.numbers["left_out"]
    check_note_without_crfsuite([first, second], monkeypatch, tmp_path)


def check_note_without_crfsuite(rows, monkeypatch, tmp_path):
    """python-crfsuite is optional."""
    monkeypatch.setattr(named_entities_speed.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(named_entities_speed_report, "run_apart", lambda *_: rows)
    with kept_settings():
        found = named_entities.run(Options(output=str(tmp_path), speed=True, **CHEAP))
    assert found.numbers["left_out"] == ["crfsuite"]
    assert any("jaxstruct[compare]" in note for note in found.table.notes)


def test_tables_leave_out_what_was_not_measured(sentences):
    corpus, _ = corpora(sentences)
    fold = measured_fold(10.0)
    fold["test"] |= {"precision": None, "recall": None, "f1": None}
    fold["train"] |= {"token_error": 10.0}
    row = Row("HMM", "", "words", None, None, True, (fold,))
    table = table_two(Options(), corpus, [row])
    assert table.rows == [["HMM", "words", None, "9.36", "10.00", "10.00", *[None] * 3, "1.0"]]
    assert not table_three(Options(), corpus, [row]).rows
