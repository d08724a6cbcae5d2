"""A run folder that cannot be locked, and one that cannot be made."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from cluster.errors import RunFolderError
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import RunFolder


@pytest.fixture
def config(tmp_path):
    return load_recipe(None, [f"output={tmp_path / 'runs'}", "name=test"])


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_used_with_a_warning(config, monkeypatch, capsys, number):
    monkeypatch.setattr(fcntl, "flock", refusing(number))
    with RunFolder.create(config) as folder:
        assert RunFolder.was_left_open(folder.path)
    said = capsys.readouterr().err
    assert said == f"parley: {folder.path} cannot be locked ({os.strerror(number)}): see that no other run uses it\n"


@pytest.mark.parametrize(
    ("name", "reason"), [("flock", "cannot lock run folder"), ("replace", "cannot write .*config")]
)
def test_a_start_that_is_refused_leaves_no_empty_folder(config, tmp_path, monkeypatch, name, reason):
    monkeypatch.setattr(fcntl if name == "flock" else os, name, refusing(errno.EIO))
    with pytest.raises(RunFolderError, match=reason):
        RunFolder.create(config)
    assert list((tmp_path / "runs").iterdir()) == []


def refusing(number: int):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    return refuse
