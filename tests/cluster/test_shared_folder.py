"""A run folder that is not shared by the nodes: real ranks write and look elsewhere, as on a disk of another node."""

from __future__ import annotations

import pytest

from cluster.errors import RunError
from cluster.record.checkpoints import damage_of, latest
from cluster.run.shared_folder import check_shared
from learners.group import LearnerGroup
from tests.support.runs import config_for, run


@pytest.fixture
def config(ray_cluster, parrot_model, tmp_path):
    engine, checkpoint = {"kind": "transformers"}, {"keep": 1}
    return config_for(parrot_model, tmp_path, updates=2, rollout={"engine": engine}, checkpoint=checkpoint)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("method", "part"), [("save", "learner"), pytest.param("export", "policy", marks=pytest.mark.long)]
)
def test_a_checkpoint_that_ranks_wrote_elsewhere_is_none_and_costs_none(config, tmp_path, monkeypatch, method, part):
    plain, calls = getattr(LearnerGroup, method), []

    def elsewhere(group, folder):
        calls.append(folder)
        plain(group, folder if len(calls) == 1 else tmp_path / "another disk" / part)

    monkeypatch.setattr(LearnerGroup, method, elsewhere)
    with pytest.raises(RunError, match=rf"/{part} on another disk: `output` has to be a folder that all nodes share"):
        run(config)
    (folder,) = tmp_path.glob("*/checkpoints")
    assert [path.name for path in folder.iterdir()] == ["update-000001"] and damage_of(latest(folder)) is None


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("at", [1, 3])
def test_ranks_that_do_not_see_the_folder_end_the_run_before_it_updates_or_prunes(config, tmp_path, monkeypatch, at):
    """The first look is before the first update; the third is of the second checkpoint."""
    plain, looks = LearnerGroup.blind_to, []

    def blind_to(group, file):
        looks.append(file)
        return plain(group, file if len(looks) != at else tmp_path / "another disk" / file.name, 0.1)

    monkeypatch.setattr(LearnerGroup, "blind_to", blind_to)
    with pytest.raises(RunError, match="learner rank 0 does not see .*`output` has to be a folder that all nodes"):
        run(config)
    (folder,) = tmp_path.glob("*/checkpoints")
    assert [path.name for path in folder.iterdir()] == ["update-000001"] * (at > 1)
    assert not list(tmp_path.rglob(".seen-*"))


def test_one_rank_that_does_not_see_it_is_named(tmp_path):
    class Apart:
        def blind_to(self, file):
            assert file.exists()
            return [1]

    with pytest.raises(RunError, match=f"learner rank 1 does not see {tmp_path}: `output`"):
        check_shared(tmp_path, Apart())
