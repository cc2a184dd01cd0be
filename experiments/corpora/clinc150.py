"""CLINC150: short queries to an assistant, 150 intents under 10 domains (Larson et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile, parse_json, read_text

_SPLITS = {"train": "train", "validation": "val", "test": "test"}


class Queries(NamedTuple):
    """Texts and their intents, index by index."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]


class Clinc150(NamedTuple):
    """The corpus.

    Fields:
      train, validation, test: 15,000, 3,000 and 4,500 queries of the 150 intents.
      out_of_scope: queries of no intent (label "oos"), by split name; empty if the file has none.
      domains: intent -> domain, the taxonomy; exactly the intents that occur in the splits.
    """

    train: Queries
    validation: Queries
    test: Queries
    out_of_scope: Mapping[str, Queries]
    domains: Mapping[str, str]


def load_clinc150(path: Path | None = None) -> Clinc150:
    """Reads data_full.json and domains.json.

    Names of intents are taken as they are. Both files must list the same intents.

    Args:
      path: a folder with both files (not checked by checksum), or None for the registered corpus.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      MalformedFile: not JSON, not of the expected form, or the intents of the two files differ.
    """
    if path is None:
        queries_path = find_file("clinc150", "data_full.json")
        domains_path = find_file("clinc150", "domains.json")
    else:
        queries_path, domains_path = Path(path) / "data_full.json", Path(path) / "domains.json"
    content = _read_json(queries_path)
    splits = {name: _queries(queries_path, content, key) for name, key in _SPLITS.items()}
    out_of_scope = {
        name: _queries(queries_path, content, f"oos_{key}")
        for name, key in _SPLITS.items()
        if f"oos_{key}" in content
    }
    domains = _domains(domains_path)
    used = {label for queries in splits.values() for label in queries.labels}
    if used != domains.keys():
        differing = ", ".join(sorted(used ^ domains.keys())[:5])
        raise MalformedFile(f"{domains_path}: its intents differ from the queries': {differing}")
    return Clinc150(**splits, out_of_scope=out_of_scope, domains=domains)


def _read_json(path: Path) -> dict[str, Any]:
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict):
        raise MalformedFile(f"{path}: holds a {type(content).__name__}, expected an object")
    return content


def _queries(path: Path, content: dict[str, Any], key: str) -> Queries:
    pairs = content.get(key)
    if not isinstance(pairs, list):
        raise MalformedFile(f"{path}: expected a list {key!r} of [text, intent] pairs")
    for position, pair in enumerate(pairs):
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(_is_text, pair))):
            raise MalformedFile(f"{path}: {key}[{position}] is {pair!r}, expected [text, intent]")
    return Queries(tuple(text for text, _ in pairs), tuple(label for _, label in pairs))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _domains(path: Path) -> dict[str, str]:
    domain_of: dict[str, str] = {}
    for domain, intents in _read_json(path).items():
        if not (isinstance(intents, list) and all(map(_is_text, intents))):
            raise MalformedFile(f"{path}: {domain!r} is not a list of intents")
        for intent in intents:
            if intent in domain_of:
                raise MalformedFile(f"{path}: {intent!r} is under two domains or listed twice")
            domain_of[intent] = domain
    return domain_of
