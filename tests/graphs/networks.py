"""A stand-in with the interface of networkx that is used: networkx is no dependency."""

from __future__ import annotations

from collections.abc import Hashable, Mapping


class Network:
    """add_node, add_edge, nodes(data=True), edges(data=True), adj."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, dict] = {}
        self._edges: dict[tuple, dict] = {}
        self.adj: Mapping = {}

    def add_node(self, node: Hashable, **attributes: object) -> None:
        self._nodes[node] = attributes

    def add_edge(self, a: Hashable, b: Hashable, **attributes: object) -> None:
        self._edges[a, b] = attributes

    def nodes(self, data: bool = False) -> list:
        return list(self._nodes.items() if data else self._nodes)

    def edges(self, data: bool = False) -> list:
        return [(*ends, own) if data else ends for ends, own in self._edges.items()]

    def __iter__(self):
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
