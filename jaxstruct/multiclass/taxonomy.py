"""Taxonomies: classes inside a partially ordered set of nodes (thesis 4.3.1). Host only."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, check_record, text_of
from jaxstruct.multiclass.losses import chain_lengths, parents_first


class Taxonomy(NamedTuple):
    """A set of nodes Z with the classes Y inside it. Make it with one of the two builders.

    Fields:
      names: the name of every node, unique.
      parents: for every node the indices of the nodes right above it; () at the top.
      classes: the node of class 0, 1, ..., k - 1.
    """

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    classes: tuple[int, ...]


def _near(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3)
    return f"; close names: {', '.join(map(repr, close))}" if close else ""


def _check_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"{what}: got {text_of(name)}, expected a non-empty str; use str(...) for others"
        )
    return name


def _check_no_cycle(names: Sequence[str], parents: Sequence[Sequence[int]]) -> None:
    left = set(range(len(parents))) - set(parents_first(parents))
    if not left:
        return
    walk = [min(left)]  # a node that is left has a parent that is left: walking up must return
    while walk[-1] not in walk[:-1]:
        walk.append(next(parent for parent in parents[walk[-1]] if parent in left))
    cycle = walk[walk.index(walk[-1]) :]
    raise ValueError(
        f"parents: the cycle {' -> '.join(repr(names[node]) for node in cycle)} (child -> parent); "
        "expected a partial order, remove one of these edges"
    )


def _parent_names(node: str, above: Any) -> tuple[str, ...]:
    if above is None or isinstance(above, str):
        above = () if above is None else (above,)
    above = tuple(as_list(f"parents[{node!r}]", above, "a name, a sequence of names or None"))
    for parent in above:
        _check_name(parent, f"parents[{node!r}]")
    if len(set(above)) < len(above):
        raise ValueError(f"parents[{node!r}]: got {above}, expected every parent once")
    return above


def taxonomy_from_parents(
    parents: Mapping[str, str | Sequence[str] | None], classes: Sequence[str]
) -> Taxonomy:
    """Makes a taxonomy from every node's parent or parents (a tree, forest or partial order).

    Args:
      parents: node -> its parent, a sequence of parents, or None / () for a node at the top. A
        name that occurs only as a parent is a node at the top.
      classes: the names of the k classes in their order; inner nodes may be classes too.

    Returns:
      Nodes in the order of first mention. Nodes above no class are kept.

    Raises:
      ValueError: a cycle (named), a class that is no node (with close names) or comes twice, no
        classes, or a name that is not a str.
    """
    if not isinstance(parents, Mapping):
        raise ValueError(
            f"parents must be a mapping, node -> parent or parents, got {text_of(parents)}"
        )
    above = {_check_name(node, "parents"): _parent_names(node, up) for node, up in parents.items()}
    names = tuple(dict.fromkeys(name for node, up in above.items() for name in (node, *up)))
    index = {name: i for i, name in enumerate(names)}
    edges = tuple(tuple(index[parent] for parent in above.get(name, ())) for name in names)
    _check_no_cycle(names, edges)
    classes = tuple(as_list("classes", classes, "a sequence of names", letters=True))
    for name in classes:
        _check_name(name, "classes")
    if not classes or len(set(classes)) < len(classes):
        got = text_of(classes)
        raise ValueError(f"classes: got {got}, expected at least one name, every name once")
    for name in classes:
        if name not in index:
            raise ValueError(
                f"classes: {name!r} is none of the {len(names)} nodes of parents"
                f"{_near(str(name), names)}; add it to parents, with None if it has none"
            )
    return Taxonomy(names, edges, tuple(index[name] for name in classes))


def taxonomy_from_paths(paths: Mapping[str, Sequence[str]]) -> Taxonomy:
    """Makes a tree (or forest) from every class's way from the top, {"D01B": ("D", "D01")}.

    Args:
      paths: class -> its ancestors from the top down. The class itself may stand at the end or be
        left out. () makes a class at the top. The classes keep the order of the mapping.

    Raises:
      ValueError: a name has another parent in another path (in a tree it has one: lengthen the
        names, or state a partial order with `taxonomy_from_parents`), or occurs twice in one path.
    """
    if not isinstance(paths, Mapping):
        raise ValueError(f"paths must be a mapping, class -> its ancestors, got {text_of(paths)}")
    parents: dict[str, str | None] = {}
    for name, path in paths.items():
        what = f"paths[{name!r}]"
        path = tuple(as_list(what, path, "a sequence of names"))
        for node in path:
            _check_name(node, what)
        path = path if path and path[-1] == name else (*path, name)
        if len(set(path)) < len(path):
            raise ValueError(f"paths[{name!r}]: got {path}, expected every name once")
        for parent, node in zip((None, *path), path, strict=False):
            if parents.setdefault(node, parent) != parent:
                raise ValueError(
                    f"paths[{name!r}]: {node!r} stands below {parent!r}, in an earlier path below "
                    f"{parents[node]!r} (None is the top); expected one parent: make the names "
                    "unique, or use taxonomy_from_parents for a partial order"
                )
    return taxonomy_from_parents(parents, tuple(paths))


def ancestors_or_self(taxonomy: Taxonomy) -> np.ndarray:
    """Returns lambda_z(y) = [y < z or y = z] of every class and node (4.19), [k, nodes] bool."""
    check_record("taxonomy", taxonomy, Taxonomy, "taxonomy_from_parents")
    lengths = chain_lengths(taxonomy.parents)
    table = np.zeros((len(taxonomy.classes), len(taxonomy.names)), bool)
    for row, node in enumerate(taxonomy.classes):
        table[row, list(lengths[node])] = True
    return table


def node_depths(taxonomy: Taxonomy) -> np.ndarray:
    """Returns the edges of the longest chain from every node to the top, [nodes] int64; top = 0."""
    check_record("taxonomy", taxonomy, Taxonomy, "taxonomy_from_parents")
    return np.array([max(up.values()) for up in chain_lengths(taxonomy.parents)], np.int64)
