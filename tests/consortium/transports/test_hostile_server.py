"""A hostile server cannot delete or read files of a member's kit."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from federations import Federation

from motifair.consortium.transports.nvflare.site_train import check_job_id

HERE = Path(__file__).parent
PATCH = "import hostile; hostile.install()"
pytestmark = pytest.mark.federation


def files(kit):
    """Contents of the files that must not change, by path."""
    folders = (kit / name for name in ("local", "startup", "state", "mine"))
    return {p: p.read_bytes() for folder in folders for p in folder.rglob("*") if p.is_file()}


def start_hostile(made, replies):
    """Start the server in an environment where Python imports `hostile` first."""
    folder = made.folder / "patched"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(PATCH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.setenv("HOSTILE_REPLIES", str(replies))
        made.start_server()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """One segment under a hostile server: how it went, and the site's files before and after."""
    made = Federation(tmp_path_factory.mktemp("hostile"), ["a"])
    kit, replies = made.kits["a"], made.folder / "replies.json"
    for name in ("state", "mine"):
        (kit / name).mkdir()
        (kit / name / "heads.jsonl").write_text("evidence")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        try:
            start_hostile(made, replies)
            made.start_site("a")
            before = files(kit)
            ending, lines = made.segment(rounds=1)
            yield ending, lines, json.loads(replies.read_text()), before, files(kit), kit
        finally:
            made.stop()


def test_no_job_id_makes_the_engine_delete_a_folder_of_the_kit(attacked):
    _, _, answers, before, after, kit = attacked
    assert after == before
    assert len(before) > 8
    refused = [said for topic, _, said in answers if topic.startswith("train.")]
    assert len(refused) == 18
    assert all("a job id must be a UUID" in said for said in refused)
    log = (kit / "engine.log").read_text()
    for name in ("state", "local", "startup", "mine", "../x"):
        assert f"refused the job id '{name}' of the server: it is not a UUID" in log


def test_the_engine_prints_no_file_of_a_member_for_the_server(attacked):
    (said,) = [said for topic, _, said in attacked[2] if topic == "sys.shell"]
    assert said == "invalid_request"


def test_a_segment_with_a_job_id_of_the_engine_runs_all_the_same(attacked):
    ending, lines = attacked[:2]
    assert ending.how == "done"
    assert lines[0]["replies"] == {"a": "a:1 for a"}


@pytest.mark.parametrize("job_id", ["state", "..", "", "0" * 31, f"{'0' * 32}\n", None, 7])
def test_what_is_not_a_uuid_is_no_job_id(job_id):
    with pytest.raises(ValueError, match="a job id must be a UUID"):
        check_job_id(job_id)
