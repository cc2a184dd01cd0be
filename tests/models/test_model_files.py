"""Models: parts that belong together, there and back as files; made-up files are refused."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial

import jax
import numpy as np
import pytest

from jaxstruct import Prepared, chains, fit, multiclass
from jaxstruct.baselines import perceptron
from jaxstruct.core.archive import Archive, write
from jaxstruct.models.model_files import MODEL, load, save
from jaxstruct.models.trained import trained
from tests.lib.refusals import refused
from tests.models.model_cases import CASES, ROWS, SEQUENCES, TAGS, model_of

LABELS = ["u", 1.5, "u"]
DATA = multiclass.prepare(ROWS, LABELS, classes=["u", 1.5])


@pytest.mark.smoke
def test_a_solution_says_how_it_was_found() -> None:
    solution = fit(*DATA, "svm2", C=10.0)
    model = trained(DATA, solution)
    assert model.predict(ROWS) == LABELS and model.problem is DATA.problem
    found = model.training
    assert (found.solver, found.status, found.formulation) == ("Solution", "CONVERGED", "svm2")
    for name in ("C", "primal", "dual", "gap"):
        assert getattr(found, name) == getattr(solution, name)
    assert "multiclass" in repr(model) and "status=CONVERGED" in repr(model)


def test_baselines_and_weights_alone_make_models_too() -> None:
    model = trained(DATA, perceptron(*DATA))
    assert model.predict(ROWS) == LABELS and model.training.solver != "Solution"
    bare = trained(DATA, dict(model.weights))
    assert bare.predict(iter(ROWS)) == LABELS and set(bare.training) == {None}


def _trained_at(array: np.ndarray) -> None:
    trained(DATA, {"weights": array})


W = np.zeros((5, 2), np.float32)
WRONG = {
    "no data": (trained, (DATA.problem, W), r"data must be a Prepared \(see prepare of an"),
    "no encoding": (Prepared, (*DATA, {}), "encoding must be that of prepare"),
    "no weights": (trained, (DATA, 3), "solution must hold weights, got 'int'"),
    "other names": (trained, (DATA, {"w": W}), "weights are"),
    "shape": (
        _trained_at, (W[:4],),
        r"weights\['weights'\] is of shape \(4, 2\), the structure's of \(5, 2\)",
    ),
    "dtype": (
        _trained_at, (W.astype(np.int32),),
        r"weights\['weights'\] is int32, the structure's float32: its option dtype says which",
    ),
    "precision": (
        _trained_at, (W.astype(float),),
        r"weights\['weights'\] is float64, which jax is not set to hold: enable its x64 mode",
    ),
    "nan": (_trained_at, (W + np.nan,), r"weights\['weights'\] is not finite"),
    "unknown option": (
        partial(multiclass.prepare, los=1), (ROWS, [1, 2, 1]), "options .*unexpected keyword",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_parts_that_do_not_belong_together_are_refused(case: str) -> None:
    call, arguments, message = WRONG[case]
    refused(message, call, *arguments)


@pytest.mark.smoke
def test_prepared_data_are_what_trainers_take_and_keep_their_options() -> None:
    data = chains.prepare(iter(SEQUENCES), iter(TAGS), eta=0.5)
    problem, inputs, outputs = data
    assert (problem, inputs, outputs) == (data.problem, data.inputs, data.outputs)
    assert repr(data) == "Prepared(chain, eta=0.5)" and len(outputs) == len(SEQUENCES)
    model = trained(data, problem.initial_weights)
    assert model.options == {"eta": 0.5} and len(model.predict(SEQUENCES)) == len(SEQUENCES)


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_predicts_as_the_one_that_was_saved(name: str, tmp_path) -> None:
    model, data = model_of(name), CASES[name][1]
    path = save(model, tmp_path / "own.model")
    found = load(path)
    assert type(found.encoding) is type(model.encoding) and found.version == model.version
    assert repr(found) == repr(model) and found.training == model.training
    predicted = found.predict(data)
    assert predicted == model.predict(data) and len(predicted) > 1
    for key, leaf in model.weights.items():
        np.testing.assert_array_equal(found.weights[key], leaf)
    again = save(found, tmp_path / "again.model")
    assert again.read_bytes() == path.read_bytes()  # the same model is the same file
    assert found.predict([]) == []


def test_a_float64_model_needs_x64_mode_again(tmp_path) -> None:
    data = CASES["dense"][1]
    with jax.enable_x64(True):
        made = multiclass.prepare(data, list("abc"), dtype="float64")
        w = {"weights": np.random.default_rng(0).normal(size=(4, 3))}
        model = trained(made, w)
        path = save(model, tmp_path / "m")
        assert load(path).predict(data) == model.predict(data)
    refused("float64.*x64 mode", load, path)


@pytest.mark.smoke
def test_labels_come_back_as_they_were(tmp_path) -> None:
    labels = ["", "é\n", 3, -(10**20), 2.5, float("inf"), True, ("a", (1, False))]
    data = multiclass.prepare(np.eye(len(labels)), labels, classes=labels)
    model = trained(data, data.problem.initial_weights)
    classes = load(save(model, tmp_path / "m")).encoding.codec.classes
    assert repr(classes) == repr(data.encoding.codec.classes)


def test_what_files_do_not_hold_is_refused_at_save(tmp_path) -> None:
    """A file that was there stays."""
    (there := tmp_path / "there").write_bytes(CHAIN)
    data = multiclass.prepare(np.eye(2), ["a", frozenset("b")])
    model = trained(data, data.problem.initial_weights)
    for path in (tmp_path / "m", there):
        refused(r"encoding\.codec\.classes\[1\] is frozenset", save, model, path)
    refused("model must be a TrainedModel", save, data.problem, tmp_path / "m")
    refused("No such file", load, tmp_path / "m", error=FileNotFoundError)
    assert [*tmp_path.iterdir()] == [there] and there.read_bytes() == CHAIN


def _parts(content: bytes) -> tuple[dict, dict[str, bytes]]:
    """The header of a file, and its other members."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("header.json")), members


def _sealed(header: object, members: dict[str, bytes], first: str = "header.json") -> bytes:
    """A file of these with a digest that fits, as somebody could make one."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        text = header if isinstance(header, (str, bytes)) else json.dumps(header)
        archive.writestr(first, text)
        for name, member in members.items():
            archive.writestr(name, member)
        archive.comment = b"sha256:" + b"0" * 64
    content = stream.getvalue()[:-64]
    return content + hashlib.sha256(content).hexdigest().encode()


def _changed(change: Callable[[dict, dict], object]) -> bytes:
    """The file of a chain after a change of header and members, with a digest that fits."""
    header, members = _parts(CHAIN)
    change(header, members)
    return _sealed(header, members)


with tempfile.TemporaryDirectory() as made:
    CHAIN = save(model_of("chain"), pathlib.Path(made) / "m").read_bytes()
FIRST = "weights.emissions"
MEMBER = f"{FIRST}.npy"


def _fields(header: dict, record: str) -> dict:
    """The fields of a record of the encoding."""
    return header["encoding"]["record"][1][record]["record"][1]


def test_a_file_whose_arrays_have_numbers_for_names_is_read(tmp_path) -> None:
    """As they were called before; and one that is made up without a change."""
    (tmp_path / "same").write_bytes(_changed(lambda header, members: None))
    archive = Archive(MODEL, save(model_of("chain"), tmp_path / "m"))
    archive.read()
    numbers = {name: str(i) for i, name in enumerate(archive.arrays)}
    text = json.dumps(archive.header)
    for name, number in numbers.items():
        text = text.replace(f'"{name}"', f'"{number}"')
    arrays = {numbers[name]: array for name, array in archive.arrays.items()}
    found = load(write(tmp_path / "old", MODEL, json.loads(text), arrays))
    data = CASES["chain"][1]
    wanted = model_of("chain").predict(data)
    assert found.predict(data) == load(tmp_path / "same").predict(data) == wanted


def _of_array(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def _smaller(header: dict, members: dict) -> None:
    """The first array in another shape, in the header too."""
    members[MEMBER] = _of_array(np.zeros((1, 1), np.float32))
    header["arrays"][FIRST] = {"dtype": "<f4", "shape": [1, 1]}


CRAFTED: dict[str, tuple[Callable[[dict, dict], object], str]] = {
    "structure": (lambda h, m: h.update(structure="poem"), "is of the structure 'poem', whi"),
    "other structure": (
        lambda h, m: h.update(structure="multi_label"),
        "is of the structure 'multi_label', but its encoding of 'chain'",
    ),
    "unknown record": (lambda h, m: h["encoding"]["record"].__setitem__(0, "os"), "does not know"),
    "no record": (lambda h, m: h.update(encoding=3), "encoding must be that of prepare"),
    "entry too many": (lambda h, m: h.update(x=1), r"\['x'\] missing or too many"),
    "member too many": (lambda h, m: m.update({"x.npy": b""}), "some are missing or too many"),
    "array unnamed": (
        lambda h, m: (h["arrays"].update(z={"dtype": "|b1", "shape": [1]}),
                      m.update({"z.npy": _of_array(np.ones(1, bool))})),
        r"has arrays that nothing names: \['z'\]",
    ),
    "shape": (_smaller, r"weights\['\w+'\] is of shape \(1, 1\), the structure's of"),
    "dtype": (
        lambda h, m: (m.update({MEMBER: _of_array(np.zeros((3, 2)))}),
                      h["arrays"].update({FIRST: {"dtype": "<f8", "shape": [3, 2]}})),
        r"weights\['\w+'\] is float64, which jax is not set to hold",
    ),
    "table": (lambda h, m: h["arrays"][FIRST].update(shape=[9]), "its header says"),
    "pickle": (
        lambda h, m: (m.update({MEMBER: _of_array(np.array([{}], object))}),
                      h["arrays"].update({FIRST: {"dtype": "|O", "shape": [1]}})),
        "cannot be read: Object arrays",
    ),
    "short array": (lambda h, m: m.update({MEMBER: m[MEMBER][:-1]}), "got 23"),
    "long array": (lambda h, m: m.update({MEMBER: m[MEMBER] + b"x"}), "and bytes behind it"),
    "names twice": (
        lambda h, m: _fields(h, "features")["names"].update(tuple=["a", "a", "b"]),
        "features does not hold together: names has a text twice",
    ),
    "names missing": (
        lambda h, m: _fields(h, "features")["names"].update(tuple=["a"]), "1 names of 3 columns",
    ),
    "columns": (lambda h, m: _fields(h, "features").update(columns=-1), "columns must be at least"),
    "constant": (lambda h, m: _fields(h, "features").update(constant="x"), "constant must be fin"),
    "kind": (lambda h, m: _fields(h, "features").update(kind="kernel"), "kind is 'kernel'"),
    "classes": (
        lambda h, m: _fields(h, "codec")["classes"].update(tuple=["A", "A"]), "every class once",
    ),
    "one class": (lambda h, m: _fields(h, "codec")["classes"].update(tuple=["A"]), "at least 2"),
    "option": (
        lambda h, m: h["options"]["dict"].append(["order", 3]), "together: order must be 1 or 2",
    ),
    "unknown option": (lambda h, m: h["options"]["dict"].append(["x", 3]), "unexpected keyword"),
    "options": (lambda h, m: h.update(options=[]), "has options or a training that are none"),
    "weights": (
        lambda h, m: h.update(weights={"dict": [["emissions", 3]]}), "weights that are no arrays",
    ),
    "training": (
        lambda h, m: h["training"]["record"][1].update(C="x"), "training does not hold together: C",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CRAFTED)
def test_a_file_that_was_made_up_is_refused_with_its_reason(case: str, tmp_path) -> None:
    change, message = CRAFTED[case]
    path = tmp_path / "made_up.model"
    path.write_bytes(_changed(change))
    refused(f"^model file {path} .*{message}", load, path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is no model file"),
        (_sealed("{", {}), "does not hold together"),
        (_sealed("[1]", {}), "is of no format"),
        (_sealed('{"format": "jaxstruct-model", "format": "jaxstruct-model"}', {}), "a key twice"),
        (_sealed('{"format": NaN}', {}), "NaN, which is no number of JSON"),
        (_sealed("[" * 100_000, {}), "does not hold together"),
        (_sealed(b"\xff", {}), "does not hold together"),
        (_sealed("{}", {}, first="x"), "There is no item named 'header.json'"),
    ],
    ids=range(8),
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path) -> None:
    (tmp_path / "m").write_bytes(content)
    refused(message, load, tmp_path / "m")


def test_a_bomb_is_refused_before_it_unpacks(tmp_path) -> None:
    bomb = _changed(lambda header, members: members.update({"9.npy": bytes(1 << 24)}))
    assert len(bomb) < 1 << 16
    (tmp_path / "m").write_bytes(bomb)
    with refused("unpacks to more than 1048576 bytes: give a larger limit"):
        load(tmp_path / "m", limit=1 << 20)
    refused("some are missing or too many", load, tmp_path / "m")


def test_made_up_headers_never_end_in_another_error(tmp_path) -> None:
    """One value of the header changed at random: a ValueError, or a model that predicts."""
    rng, path = np.random.default_rng(1), tmp_path / "m"
    values = [None, True, -1, 2, 1e300, "x", "", [], {}, {"tuple": []}, {"array": "0"}, [[]]]
    refusals = 0
    for _ in range(150):
        header, members = _parts(CHAIN)
        places = [*_places(header)]
        container, key = places[int(rng.integers(len(places)))]
        container[key] = values[int(rng.integers(len(values)))]
        path.write_bytes(_sealed(header, members))
        try:
            load(path)
        except ValueError:
            refusals += 1
    assert refusals


def _places(value: object):
    """Every (container, key) within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in [*items]:
        yield value, key
        if isinstance(part, (dict, list)):
            yield from _places(part)
