"""The registry is well formed, and the README says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.corpora import registry
from tests.lib.refusals import refused

README = Path(__file__).parents[3] / "third_party_data" / "README.md"
FILES = [(corpus, entry) for corpus in registry.CORPORA.values() for entry in corpus.files]


def _table_rows(columns: int) -> set[tuple[str, ...]]:
    lines = README.read_text(encoding="utf-8").splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row for row in rows if len(row) == columns and not row[0].startswith(("---", "corpus"))}


def test_ten_corpora_under_their_own_names() -> None:
    """The layout of JAXSTRUCT_DATA is by corpus name."""
    assert list(registry.CORPORA) == [
        "conll2002",
        "treebank",
        "gum",
        "clinc150",
        "wipo_alpha_d",
        "ocr_letters",
        "snakes",
        "multilabel",
        "gum_dependencies",
        "lambdarank",
    ]
    assert all(name == corpus.name for name, corpus in registry.CORPORA.items())


@pytest.mark.parametrize(("corpus", "entry"), FILES)
def test_file_is_fully_described(corpus: registry.Corpus, entry: registry.CorpusFile) -> None:
    """A whole checksum, a size, and either a pinned address or words on the packing."""
    assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    assert entry.bytes > 0
    if entry.url is None:
        assert f"{corpus.name}/{entry.path}" in corpus.packing
        assert "JAXSTRUCT_DATA" in corpus.packing
    else:
        assert corpus.packing == ""
        assert re.fullmatch(
            r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/[0-9a-f]{40}/\S+", entry.url
        )
        assert entry.url.endswith("/" + entry.path)


def test_registry_is_read_only() -> None:
    """Nobody changes a checksum by accident."""
    with pytest.raises(TypeError):
        registry.CORPORA["toy"] = registry.CORPORA["gum"]  # type: ignore[index]


def test_readme_lists_every_file_and_no_other() -> None:
    """The second table of the README is the registry's files."""
    listed = {
        (
            f"`{corpus.name}`",
            f"`{entry.path}`",
            str(entry.bytes),
            f"`{entry.sha256}`",
            f"[by script]({address})" if address else "by hand",
        )
        for corpus, entry in FILES
        for address in [entry.url or (corpus.origin and corpus.origin.url)]
    }
    corpora = {
        (f"`{corpus.name}`", corpus.title, corpus.source, corpus.licence, corpus.use)
        for corpus in registry.CORPORA.values()
    }
    assert _table_rows(5) == listed | corpora


def test_readme_repeats_the_packing() -> None:
    """Who has to place a file by hand reads the same words as in the error."""
    text = README.read_text(encoding="utf-8")
    for corpus in registry.CORPORA.values():
        if corpus.packing:
            assert f"- `{corpus.name}`: {corpus.packing}\n" in text


def test_unknown_names_list_the_known_ones() -> None:
    """The error is the remedy."""
    refused("got 'gun', expected one of conll2002, .*gum", registry.corpus_named, "gun")
    refused("no file 'x', expected one of data_full.json", registry.corpus_file, "clinc150", "x")


@pytest.mark.parametrize(("corpus", "entry"), FILES)
def test_real_file_matches(corpus, entry, require_corpus) -> None:
    """The file at hand has the registered size; `require_corpus` has checked its sha256."""
    assert require_corpus(corpus.name, entry.path).stat().st_size == entry.bytes
