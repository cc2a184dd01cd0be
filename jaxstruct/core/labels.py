"""Labels of any kind as class indices 0..k-1, and back."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import numbers
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxstruct.core.checks import as_list, check_one_each, check_record, text_of, warn
from jaxstruct.core.contract import Incomplete, Truth
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import array


class UnseenLabels(UserWarning):
    """Labels to score against are none of training's, so that no prediction can be right there."""


class LabelCodec(NamedTuple):
    """The classes of a problem in their order: class i is `classes[i]`. Made by `fit_codec`."""

    classes: tuple[Hashable, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The classes as tables write them."""
        return tuple(one if isinstance(one, str) else text_of(one, 40) for one in self.classes)


def _clean(label: Any, position: int, what: str) -> Hashable:
    """The label as a Python scalar, if NumPy's. Missing and unhashable labels are refused."""
    if isinstance(label, np.generic) and not isinstance(label, (np.datetime64, np.timedelta64)):
        label = label.item()
    try:
        hash(label)
    except TypeError:
        raise ValueError(
            f"{what}[{position}]: got the unhashable {type(label).__name__} {text_of(label)}, "
            "expected a str, number, tuple or the like, one for each example"
        ) from None
    if label is None or _is_no_number(label):
        raise ValueError(
            f"{what}[{position}]: got {text_of(label)}, a missing label; leave the example out or "
            "give the class a name (None is a label that is not known, where a part may be)"
        )
    return label


def _is_no_number(label: Any) -> bool:
    """Whether a label is nan or NaT, which differ from themselves, or pandas' NA, which says not.

    What cannot be compared with itself is missing, too.
    """
    try:
        return bool(label != label)
    except TypeError:
        return True


def _as_labels(labels: Iterable, what: str) -> list[Hashable]:
    if hasattr(labels, "__array__") and not isinstance(labels, (list, tuple)):
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"{what}: got an array of shape {labels.shape}, expected [n]")
    labels = as_list(what, labels, "a sequence of labels, one for each example", letters=True)
    return [_clean(label, position, what) for position, label in enumerate(labels)]


def _in_order(distinct: list[Hashable]) -> list[Hashable]:
    """Sorted where < is a total order of the labels, else as they came."""
    try:
        ordered = sorted(cast(list[Any], distinct))
        total = all(a < b for a, b in zip(ordered, ordered[1:], strict=False))
    except TypeError:
        return distinct
    return ordered if total else distinct


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    return "numbers" if isinstance(label, (numbers.Number, np.bool_)) else "others"


def check_one_kind(name: str, labels: Sequence[Any]) -> None:
    """Raise ValueError where numbers stand beside text, which is a slip: 0 and "0" would differ.

    Args:
      name: of the argument, for messages. labels: n of them.
    """
    first: dict[str, int] = {}
    for i, label in enumerate(labels):
        first.setdefault(_kind(label), i)
    if "text" in first and "numbers" in first:
        i, j = sorted((first["text"], first["numbers"]))
        raise ValueError(
            f"{name}[{j}] is {text_of(labels[j])}, where others are such as {text_of(labels[i])}: "
            "numbers stand beside text; write all labels in one way"
        )


def check_known(name: str, labels: Sequence[Hashable], classes: Sequence[Hashable]) -> None:
    """Raise ValueError where labels are of another kind than the classes; warn of unseen ones.

    Args:
      name: of the argument, for messages. labels: to score predictions against.
      classes: of training.
    """
    known, labels = set(classes), _as_labels(labels, name)
    unseen = Counter(label for label in labels if label not in known)
    if not unseen:
        return
    kinds, [(most, _)] = {*map(_kind, classes)}, unseen.most_common(1)
    wrong = next((label for label in unseen if _kind(label) not in kinds), None)
    if wrong is not None:
        raise ValueError(
            f"{name} has the label {text_of(wrong)}, but training had {' and '.join(sorted(kinds))}"
            f" such as {text_of(classes[0])}: write labels as in training"
        )
    warn(
        f"{name} has {unseen.total()} labels that training did not have ({len(unseen)} distinct, "
        f"most often {text_of(most)}): none of them can be predicted, so each counts as wrong; "
        "correct them, or train on examples of them, too",
        UnseenLabels,
    )


def fit_codec(labels: Iterable[Hashable], classes: Iterable[Hashable] | None = None) -> LabelCodec:
    """Makes a codec of the labels seen, or of the classes given.

    Without `classes` the order is ascending where the labels can be compared, else that of their
    first occurrence. NumPy scalars count as the Python scalars of their value, and values that are
    equal in Python are one label (1, 1.0 and True).

    Args:
      labels: n hashable labels.
      classes: all classes in the wanted order; it may hold classes that no label has.

    Raises:
      ValueError: a label is missing (None, nan, NaT), unhashable, or not among `classes`; numbers
        stand beside text and no classes are given; a class comes twice; there is no class.
    """
    labels = _as_labels(labels, "labels")
    if classes is None:
        if not labels:
            raise ValueError(
                "labels: got none, the training set is empty; pass examples, or the classes by "
                "themselves"
            )
        check_one_kind("labels", labels)
        return LabelCodec(tuple(_in_order(list(dict.fromkeys(labels)))))
    classes = _as_labels(classes, "classes")
    if not classes:
        raise ValueError("classes: got none, expected at least one class")
    first: dict[Hashable, int] = {}
    for position, name in enumerate(classes):
        if first.setdefault(name, position) != position:
            raise ValueError(
                f"classes[{position}]: {text_of(name)} already is class {first[name]}; expected "
                "every class once"
            )
    codec = LabelCodec(tuple(classes))
    encode(codec, labels)
    return codec


def _unseen(label: Hashable, position: int, classes: Sequence[Hashable]) -> ValueError:
    message = f"labels[{position}]: {text_of(label)} is none of the {len(classes)} known classes"
    if _kind(label) not in set(map(_kind, classes)):
        message += f"; the classes are {type(classes[0]).__name__}, not {type(label).__name__}"
    elif isinstance(label, str):
        names = [name for name in classes if isinstance(name, str)]
        close = difflib.get_close_matches(label, names, n=3)
        if close:
            message += f"; close names: {', '.join(map(text_of, close))}"
    return ValueError(f"{message}; correct it, or have it among the classes of training")


def encode(codec: LabelCodec, labels: Iterable[Hashable]) -> np.ndarray:
    """Returns the class indices of n labels, [n] int32.

    Raises:
      ValueError: a label is missing, or is not a class of the codec: the message has the label, its
        position, the number of classes, and close names for a str.
    """
    check_record("codec", codec, LabelCodec, "fit_codec")
    index = {name: i for i, name in enumerate(codec.classes)}
    labels = _as_labels(labels, "labels")
    for position, label in enumerate(labels):
        if label not in index:
            raise _unseen(label, position, codec.classes)
    return np.array([index[label] for label in labels], np.int32)


def is_open(labels: Iterable[Any]) -> bool:
    """Whether any of the labels is None or a set, in place of a label that is known."""
    return any(label is None or isinstance(label, set) for label in labels)


def named(labels: Iterable[Any]) -> list[Hashable]:
    """The labels that are named, those of sets among them; None names none.

    Raises:
      ValueError: a label is missing (nan, NaT) or unhashable.
    """
    found: list[Hashable] = []
    for i, label in enumerate(labels):
        if label is not None:
            own = sorted(label, key=repr) if isinstance(label, set) else [label]
            found += [_clean(one, i, "labels") for one in own]
    return found


def fit_open_codec(labels: Sequence[Any], classes: Iterable[Hashable] | None = None) -> LabelCodec:
    """`fit_codec` of labels, of which some may be None or sets."""
    if not is_open(labels):
        return fit_codec(labels, classes)
    return fit_codec(named(labels) if classes is None else [], classes)


def possible(codec: LabelCodec, labels: Sequence[Any], name: str = "labels") -> np.ndarray:
    """[n, k] bool, which classes n labels may be: of None all, of a set its members.

    Raises:
      ValueError: a label is no class of the codec, or a set is empty.
    """
    table = np.zeros((len(labels), len(codec.classes)), bool)
    for i, label in enumerate(labels):
        if label is None:
            table[i] = True
            continue
        if isinstance(label, set) and not label:
            raise ValueError(
                f"{name}[{i}] is an empty set: name the labels that it may be, or None"
            )
        try:
            table[i, encode(codec, named([label]))] = True
        except ValueError as error:
            raise ValueError(str(error).replace("labels[0]", f"{name}[{i}]", 1)) from None
    return table


def encode_open(
    codec: LabelCodec, labels: Sequence[Any], *, always: bool = False
) -> np.ndarray | Incomplete:
    """The class indices [n] of n labels; where one is None or a set `Incomplete`, known [n, k].

    Args:
      always: whether they are `Incomplete` where all are known, too.
    """
    if not always and not is_open(labels):
        return encode(codec, labels)
    table = possible(codec, labels)
    return Incomplete(table.argmax(axis=1).astype(np.int32), table)


def checked_completion(outputs: Truth, k: int, lengths: np.ndarray) -> np.ndarray:
    """The labels [n, T] of `Truth`s, which have the possible ones [n, T, k] beside them.

    Args:
      lengths: [n] positions that count. k: labels; of joint labels y, y % k is the label.

    Raises:
      ValueError: a label is not possible, or the constraints of a structure left none.
    """
    sizes = {"k": k}
    possible = array("outputs.numbers", outputs.numbers, "n T k", "bools", sizes)
    y = array("outputs.output", outputs.output, "n T", "integers", sizes)
    own = np.maximum(y, 0) % k
    agrees = np.take_along_axis(possible, own[..., None], axis=2)[..., 0] & (y >= 0)
    real = np.arange(y.shape[1]) < np.asarray(lengths)[:, None]
    wrong = np.flatnonzero(np.any(real & ~agrees, axis=1))
    if wrong.size:
        raise ValueError(
            f"outputs[{wrong[0]}] does not agree with what is known of it ({wrong.size} such): "
            "constraints may leave no output, or a position has no possible label"
        )
    return y


def encode_lists(codec: LabelCodec, labels: Iterable[Iterable[Hashable]]) -> Ragged:
    """The class indices of n lists of labels, ragged.

    Args:
      codec: of the labels. labels: n lists, such as the labels of the tokens of n sequences.

    Raises:
      ValueError: as `encode`; the message has the label's list and its place in it.
    """
    flat, offsets = flat_labels(labels)
    with placed_errors(offsets):
        return Ragged(encode(codec, flat), offsets, -1)


def decode_lists(codec: LabelCodec, outputs: Ragged) -> list[list[Hashable]]:
    """The labels of n lists of indices."""
    check_record("outputs", outputs, Ragged, "predict")
    flat = decode(codec, outputs.rows)
    return [flat[begin:end] for begin, end in itertools.pairwise(outputs.offsets.tolist())]


def codec_of_lists(
    labels: Any,
    classes: Any,
    of: str,
    offsets: np.ndarray,
    fit: Callable = fit_codec,
    name: str = "labels",
) -> LabelCodec:
    """The codec of n lists of labels; ValueError unless each entry of n examples has one.

    Args:
      classes: as in `fit_codec`. of: what the examples are called. offsets: [n + 1] of theirs.
      fit: makes the codec, `fit_open_codec` where some labels may be None or sets.
      name: of the labels, for messages.
    """
    flat, bounds = flat_labels(labels, name)
    check_one_each(name, np.diff(bounds), of, np.diff(offsets))
    with placed_errors(offsets):
        codec = fit(flat, classes)
    if len(codec.classes) < 2:
        raise ValueError(f"{name} must name at least two labels, got {codec.classes} alone")
    return codec


def encode_open_lists(
    codec: LabelCodec, labels: Iterable[Iterable[Any]], *, always: bool = False
) -> Ragged | Incomplete:
    """`encode_lists`, or `Incomplete` of stores where a label is None or a set."""
    flat, offsets = flat_labels(labels)
    with placed_errors(offsets):
        found = encode_open(codec, flat, always=always)
    return jax.tree.map(lambda rows: Ragged(rows, offsets, -1), found)


def flat_labels(labels: Any, name: str = "labels") -> tuple[list[Hashable], np.ndarray]:
    """(the labels of n lists, one list after the other, [n + 1] where each begins).

    Raises:
      ValueError: they are no lists; a text is none, whose letters are hardly meant.
    """
    lists = as_list(name, labels, "a list of n lists of labels")
    expected = "a list of labels (of a text make one: text.split(), or list(text) of its letters)"
    lists = [as_list(f"{name}[{i}]", one, expected) for i, one in enumerate(lists)]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists], dtype=np.int64)])
    return [*itertools.chain(*lists)], offsets.astype(np.int64)


@contextlib.contextmanager
def placed_errors(offsets: np.ndarray) -> Iterator[None]:
    """Within it, an error about label j of all lists names its list and its place in it."""
    try:
        yield
    except ValueError as error:
        numbered = re.match(r"labels\[(\d+)\]", str(error))
        if numbered is None:
            raise
        number = int(numbered[1])
        i = int(np.searchsorted(offsets, number, side="right")) - 1
        message = f"labels[{i}][{number - offsets[i]}]{str(error)[numbered.end() :]}"
        raise ValueError(message) from None


def decode(codec: LabelCodec, indices: ArrayLike) -> list[Hashable]:
    """Returns the labels of n class indices [n], as a list.

    Raises:
      ValueError: indices are not an integer array [n], or one is outside 0..k-1 (negative indices
        do not count from the end).
    """
    check_record("codec", codec, LabelCodec, "fit_codec")
    k = len(codec.classes)
    if isinstance(indices, (list, tuple)) and not indices:
        return []
    found = array("indices", indices, "n", within=(range(k), f"one of {k} classes"))
    return [codec.classes[i] for i in found]
