"""The encodings of all wings, and what tells them apart."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from jaxstruct.alignments import AlignmentEncoding
from jaxstruct.chains import ChainEncoding
from jaxstruct.core.checks import kind_and_text_of
from jaxstruct.graphs import GraphEncoding, SetEncoding
from jaxstruct.multiclass import ClassEncoding
from jaxstruct.strings import CandidateEncoding
from jaxstruct.trees import TreeEncoding

AnyEncoding: TypeAlias = (
    ClassEncoding | ChainEncoding | TreeEncoding | AlignmentEncoding | GraphEncoding
    | SetEncoding | CandidateEncoding
)  # fmt: skip


class Wing(NamedTuple):
    """A kind of encoding.

    Fields:
      name: of the structure, as model files have it. kind: the class of its encodings.
      reads_data: whether `decode` takes the data, too, of which outputs are made.
    """

    name: str
    kind: type
    reads_data: bool


WINGS = (
    Wing("multiclass", ClassEncoding, False),
    Wing("chain", ChainEncoding, False),
    Wing("weighted_grammar", TreeEncoding, True),
    Wing("pairwise_alignment", AlignmentEncoding, True),
    Wing("graph_labelling", GraphEncoding, True),
    Wing("multi_label", SetEncoding, False),
    Wing("candidates", CandidateEncoding, True),
)


def wing_of(encoding: Any) -> Wing:
    """The kind of an encoding.

    Raises:
      ValueError: it is none.
    """
    for wing in WINGS:
        if isinstance(encoding, wing.kind):
            return wing
    raise ValueError(
        "encoding must be made by fit_encoding of a wing (or graphs.fit_set_encoding), got "
        f"{kind_and_text_of(encoding)}"
    )
