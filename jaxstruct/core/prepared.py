"""What a training takes, made of data as people hold them, and what makes a model of its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from jaxstruct.core.checks import check_flag, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.encoding import Encoding, check_encoding
from jaxstruct.core.feature_encoding import report_unseen_to
from jaxstruct.core.known import known_inputs, known_problem
from jaxstruct.core.types import PyTree


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
    with report_unseen_to(lambda notice, count: None):
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
