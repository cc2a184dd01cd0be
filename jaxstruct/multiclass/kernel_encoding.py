"""Things or texts and their classes as people hold them, as those of `kernel_multiclass`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from jaxstruct.core import labels as codecs
from jaxstruct.core.checks import as_list
from jaxstruct.core.contract import Problem
from jaxstruct.core.labels import LabelCodec, fit_codec
from jaxstruct.core.prepared import Prepared, held
from jaxstruct.core.tables import Table, rankings_by_label
from jaxstruct.kernels.anchors import Anchors, fit_anchors
from jaxstruct.multiclass.structure import KernelInput, kernel_inputs, kernel_multiclass


class KernelClassEncoding(NamedTuple):
    """The kernel with its anchors, and the classes. Made by `prepare_kernel`.

    Fields:
      anchors: the training inputs. codec: which label is which class.
    """

    anchors: Anchors
    codec: LabelCodec
    structure = "kernel_multiclass"

    def problem(self, **options: Any) -> Problem:
        """`kernel_multiclass` of these anchors and classes; options are those of it."""
        return kernel_multiclass(len(self.anchors), len(self.codec.classes), **options)

    def inputs(self, things: Any) -> KernelInput:
        """K of n things and the m anchors [n, m]: rows or texts, of the kind of training.

        Raises:
          ValueError: they are none, or have other columns or letters.
        """
        gram, own = self.anchors.values(things)
        return kernel_inputs(gram, self_kernel=own)

    def outputs(self, labels: Iterable[Hashable]) -> np.ndarray:
        """[n] int32 classes; ValueError names a label that training did not have."""
        return codecs.encode(self.codec, labels)

    def decode(self, outputs: np.ndarray, things: Any = None) -> list[Hashable]:
        """The labels of n classes, such as `predict` returns them; things are not needed."""
        del things
        return codecs.decode(self.codec, outputs)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The anchors of the largest coefficients of each class."""
        del options
        w = weights["coefficients"]
        return rankings_by_label(self.anchors.names, self.codec.texts, w, largest)


def prepare_kernel(
    kernel: Partial,
    things: Any,
    labels: Iterable[Hashable],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    **options: Any,
) -> Prepared:
    """A training set of a machine with a kernel: `js.fit(*prepare_kernel(kernel, things, labels))`.

    Model files hold the kernels of `jaxstruct.kernels` with their parameters and the training
    inputs.

    Args:
      kernel: K, as `jaxstruct.kernels` makes it.
      things: n texts for kernels on strings; else n rows of features, as of `prepare`.
      labels: n labels of any hashable kind.
      classes: all classes in the wanted order; None for those of `labels`, sorted if they can be.
      min_count: rows that must have a named feature for it to count.
      options: those of `kernel_multiclass`.

    Raises:
      ValueError: an argument does not fit; there is one class only; the values are none of a
        kernel (`kernels.check_positive_semidefinite`).
    """
    things = held(things)
    anchors = fit_anchors(kernel, things, min_count)
    labels = as_list("labels", labels, "a list of n labels")
    if len(labels) != len(anchors):
        raise ValueError(f"labels must be n = {len(anchors)}, one a thing, got {len(labels)}")
    codec = fit_codec(labels, classes)
    if len(codec.classes) < 2:
        raise ValueError(f"labels must name at least two classes, got {codec.classes} alone")
    encoding = KernelClassEncoding(anchors, codec)
    return Prepared(encoding, kernel_inputs(anchors.gram()), encoding.outputs(labels), options)
