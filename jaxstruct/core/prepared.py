"""What a training takes, made of data as people hold them, and what a model knows of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

from jaxstruct.core.checks import check_flag, collected, kind_and_text_of, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.known import known_inputs, known_problem
from jaxstruct.core.types import PyTree


class Encoding(Protocol):
    """Examples as people hold them, as inputs and outputs of a structure, and back.

    The encodings of jaxstruct are made by `prepare` of each output type. One of your own is a
    NamedTuple with these methods; its fields are what model files hold of it: texts, numbers,
    tuples and lists of these, arrays, `FeatureEncoding` and `LabelCodec`. More may be left out:

        tables(weights, options, largest) -> list[Table]    what `explain` shows; see `core.tables`
        unpadded(output) -> output    of one example with a leading axis of 1, padded as it was
                                      trained on, as decode takes it; else without its last -1
        together(records) -> data    some records of a stream as `inputs` takes them; else a list
    """

    @property
    def structure(self) -> str:
        """The name of the structure, as model files have it: an attribute of the class."""
        ...

    def problem(self, **options: Any) -> Problem:
        """The structure."""
        ...

    def inputs(self, data: Any, /) -> PyTree:
        """The inputs of n examples."""
        ...

    def decode(self, outputs: Any, data: Any = None, /) -> list:
        """The outputs of n examples, such as `predict` returns them, as people hold them.

        Args:
          outputs: n outputs.
          data: the n examples, of which some outputs are made; None where they are not at hand.
        """
        ...


def check_encoding(encoding: Any) -> None:
    """Raise ValueError unless something has what an `Encoding` has."""
    methods = ("problem", "inputs", "decode")
    complete = all(callable(getattr(encoding, name, None)) for name in methods)
    if not complete or not isinstance(getattr(encoding, "structure", None), str):
        raise ValueError(
            "encoding must be that of prepare of an output type or graphs.prepare_sets, or "
            "have what jaxstruct.models.Encoding has (structure, problem, inputs, decode), got "
            f"{kind_and_text_of(encoding)}"
        )


class Prepared(tuple[Problem, PyTree, PyTree]):
    """A training set: n examples with the structure over them, and what its numbers mean.

        data = js.chains.prepare(sequences, labels, start_stop=True)
        solution = js.fit(*data, C=10.0)
        model = js.trained(data, solution)

    It is the three that every trainer, baseline and check takes first, (problem, inputs, outputs),
    so that none of them has to know it. Made by `prepare` of each output type,
    `graphs.prepare_sets` and `Store.prepare`; of an encoding of one's own as below.

    Args:
      encoding: what the numbers mean, see `jaxstruct.models.Encoding`.
      inputs, outputs: of n examples, as `encoding.inputs` and a trainer have them.
      options: of `encoding.problem`, which makes the structure.

    Raises:
      ValueError: encoding is none, or the options do not fit it.
    """

    encoding: Any
    options: Mapping[str, Any]

    def __new__(
        cls, encoding: Encoding, inputs: PyTree, outputs: PyTree, options: Mapping[str, Any]
    ) -> Self:
        """Make the problem, once."""
        check_encoding(encoding)
        made = super().__new__(cls, (problem_of(encoding, options), inputs, outputs))
        made.encoding, made.options = encoding, dict(options)
        return made

    @property
    def problem(self) -> Problem:
        """The structure."""
        return self[0]

    @property
    def inputs(self) -> PyTree:
        """The inputs of the n examples."""
        return self[1]

    @property
    def outputs(self) -> PyTree:
        """Their true outputs."""
        return self[2]

    def __repr__(self) -> str:
        """One line without the arrays."""
        options = "".join(f", {name}={text_of(value)}" for name, value in self.options.items())
        return f"Prepared({self.encoding.structure}{options})"


def prepared(
    encoding: Encoding, data: Any, outputs: PyTree, options: Mapping[str, Any]
) -> Prepared:
    """The training set that an encoding was made of: what it left out there is no news.

    Among the options of every structure may be known, the known potentials of `known_inputs`; of
    them the training set, and a model made of it, keep known=True.
    """
    known = options.get("known")
    options = {**options, "known": True} if known is not None else options
    problem = problem_of(encoding, options)  # refuses options first, which data may suit
    with collected(UnseenFeatures):
        inputs = encoding.inputs(data)
    if known is not None:
        inputs = known_inputs(problem, inputs, known)
    return Prepared(encoding, inputs, outputs, options)


def problem_of(encoding: Encoding, options: Mapping[str, Any]) -> Problem:
    """The structure of an encoding; ValueError names options that there are not."""
    options = dict(options)
    known = options.pop("known", False)
    check_flag("known", known)
    try:
        problem = encoding.problem(**options)
    except TypeError as error:
        raise ValueError(f"options {text_of(options)}: {error}") from None
    return known_problem(problem) if known else problem


def held(data: Any) -> Any:
    """Data that can be read more than once: a list of what an iterator yields."""
    return list(data) if isinstance(data, Iterator) else data
