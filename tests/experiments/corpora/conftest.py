"""Fixtures of the readers: toy corpora, a local web server, and the real corpora if present."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.corpora import locate, registry


@pytest.fixture
def require_corpus() -> Callable[[str, str], Path]:
    """Gives the path of a real corpus file; the agreed reason for a skip is that it is not here."""

    def require(corpus: str, path: str) -> Path:
        named = os.environ.get(locate.DATA_VARIABLE, "")
        if not named or not (Path(named) / corpus / path).is_file():
            pytest.skip(f"{locate.DATA_VARIABLE} is unset or its folder lacks {corpus}/{path}")
        return locate.find_file(corpus, path)

    return require


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Points JAXSTRUCT_DATA and the cache at empty folders: `named` and `cache`."""
    monkeypatch.setenv(locate.DATA_VARIABLE, str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return SimpleNamespace(named=tmp_path / "named", cache=tmp_path / "xdg" / "jaxstruct")


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., registry.Corpus]:
    """Makes `toy` the only corpus, of files {path: content}; `url` is their common address."""

    def toy(files: dict[str, bytes], url: str | None = None) -> registry.Corpus:
        entries = tuple(
            registry.CorpusFile(
                path=path,
                sha256=hashlib.sha256(content).hexdigest(),
                url=f"{url}/{path}" if url else None,
                bytes=len(content),
            )
            for path, content in files.items()
        )
        corpus = registry.Corpus("toy", "Toy", entries, "here", "none", "tests", "Ask the baker.")
        monkeypatch.setattr(registry, "CORPORA", {"toy": corpus})
        return corpus

    return toy


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Serves `pages` {"/path": (declared length, body)} at `url`, counting the `hits`."""
    state = SimpleNamespace(pages={}, hits=[], url="")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802
            state.hits.append(self.path)
            if self.path not in state.pages:
                self.send_error(404)
                return
            length, body = state.pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "*")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        state.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        running.shutdown()
        thread.join()
