"""What a trained model knows of the examples that people hold, beside its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from jaxstruct.core.checks import kind_and_text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.tables import Table, ranking
from jaxstruct.core.types import PyTree


class Encoding(Protocol):
    """Examples as people hold them, as inputs and outputs of a structure, and back.

    The encodings of jaxstruct are made by `prepare` of each output type. One of your own is a
    NamedTuple with these methods; its fields are what model files hold of it: texts, numbers,
    tuples and lists of these, arrays, `FeatureEncoding` and `LabelCodec`. More may be left out:

        tables(weights, options, largest) -> list[Table]    what `explain` shows; see `core.tables`
        unpadded(output) -> output    of one example with a leading axis of 1, padded as it was
                                      trained on, as decode takes it; where decode takes ragged ones
        together(records) -> data    some records of a stream as `inputs` takes them; else a list
        columns                      the names of the arrays of a store, "offsets" among them, whose
                                     differences are the sizes of the examples
        to_store(inputs, outputs) -> {name: array}    these columns of some examples
        from_store(arrays) -> (inputs, outputs)       the examples of these columns
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


def tables_of(
    encoding: Encoding, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
) -> list[Table]:
    """The tables of an encoding; of one without any a ranking of each array by its places."""
    own = getattr(encoding, "tables", None)
    if own is not None:
        return own(weights, options, largest)
    return [
        ranking(name, (str(list(place)) for place in np.ndindex(leaf.shape)), leaf, largest)
        for name, leaf in weights.items()
    ]
