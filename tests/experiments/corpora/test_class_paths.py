"""Numbering of classes that are written as paths."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.corpora.class_paths import number_paths, path_parents
from tests.lib.refusals import refused


def test_unlisted_ancestors_are_inserted() -> None:
    """In the order of first mention, parents before children."""
    nodes = number_paths(["b/x/1", "a", " b/y ", "a/x", "b"])
    assert nodes == {"b": 0, "b/x": 1, "b/x/1": 2, "a": 3, "b/y": 4, "a/x": 5}
    parents = path_parents(nodes)
    np.testing.assert_array_equal(parents, np.array([-1, 0, 1, -1, 0, 3], np.int32), strict=True)


@pytest.mark.parametrize("paths", [["01/01", "01/02", "02/01"], ["a/b", "a/c"], ["a/b", "b"]])
def test_paths_that_are_no_edges(paths) -> None:
    """Parts may be named alike at different depths."""
    assert set(paths) <= set(number_paths(paths))


def test_edges_of_a_graph_are_refused() -> None:
    """CLUS writes gene ontologies so; read as paths they would give another tree."""
    refused("edges parent/child", number_paths, ["root/GO1", "root/GO2", "GO1/GO3", "GO2/GO3"])


@pytest.mark.parametrize("paths", [[""], ["a", ""], ["a//b"], ["/a"], ["a/"]])
def test_empty_parts_are_refused(paths) -> None:
    """As a stray comma or slash leaves them."""
    refused("empty class", number_paths, paths)
