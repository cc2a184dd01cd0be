"""Compiled programs on disk."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxstruct as js


@pytest.fixture
def kept_cache_settings():
    names = [name for name in dir(jax.config) if "_cache" in name and name.startswith("jax_")]
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_compiled_programs_are_kept_in_the_folder_named_last(
    kept_cache_settings, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    first = js.keep_programs()
    assert first == tmp_path / "xdg" / "jaxstruct"
    jax.jit(lambda x: x * 3 + 1)(1.0)
    count = len(list(first.iterdir()))
    assert count > 0
    second = js.keep_programs(tmp_path / "other")
    jax.jit(lambda x: x * 5 - 1)(1.0)
    assert list(second.iterdir()) and len(list(first.iterdir())) == count


def test_cache_folder_without_xdg_is_in_the_home_folder(kept_cache_settings, monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert js.keep_programs() == tmp_path / ".cache" / "jaxstruct"


def test_a_folder_that_nobody_can_write_to_is_refused(kept_cache_settings, monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda folder, mode: False)
    with pytest.raises(PermissionError, match="folder: nothing can be written to"):
        js.keep_programs(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        js.keep_programs(tmp_path / "file")
