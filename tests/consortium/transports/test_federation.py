"""The real engine: server and three sites as processes, mutual TLS on loopback; their faults."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from federations import ADMIN, Federation, export, wait_until

from motifair.consortium.transports.nvflare import operator
from motifair.errors import MotifairError

pytestmark = pytest.mark.federation
MEMBERS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("federation"), MEMBERS)
    with pytest.MonkeyPatch.context() as patch:
        # where the sites find `agents`
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        try:
            with pytest.MonkeyPatch.context() as small:  # sites that cheat have no such limit
                small.setenv("NVFLARE_STREAMING_MAX_BLOB_SIZE", "10000000")
                small.setenv("NVFLARE_STREAMING_READ_TIMEOUT", "3")
                made.start_server()
            with ThreadPoolExecutor() as pool:
                list(pool.map(made.start_site, MEMBERS))
            yield made
        finally:
            made.stop()


@pytest.fixture(autouse=True)
def _whole(federation):
    """Restart what an earlier test stopped, so that one failure does not cause others."""
    for name in ["server", *MEMBERS]:
        if not federation.started[name].alive():
            federation.start_server() if name == "server" else federation.start_site(name)


@contextmanager
def meanwhile(act):
    """Run something in a thread during the body, and fail if it failed."""
    problems = []

    def work():
        try:
            act()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()
    assert not problems, problems


def everybody(t):
    return {m: f"{m}:{t} for {m}" for m in MEMBERS}


@pytest.fixture(scope="module")
def rounds(federation):
    """One segment in which each site misbehaves once: by round."""
    federation.misbehave(
        {
            "b": {"2": ["raise", 0], "6": ["grow", 20_000_000]},
            "c": {"3": ["grow", 2_000_000]},
            "a": {"4": ["sleep", 10], "7": ["stall", 5_000_000]},
        }
    )
    ending, lines = federation.segment(rounds=10, deadline=8.0)
    assert ending.how == "done"
    return {line["round"]: line for line in lines}


def test_each_site_gets_its_own_bytes_and_no_others(rounds):
    assert rounds[1]["replies"] == everybody(1)
    assert rounds[1]["bytes"] == dict.fromkeys(MEMBERS, 1002)


def test_a_site_that_fails_does_not_stop_the_others_and_keeps_its_secret(rounds):
    assert set(rounds[2]["replies"]) == {"a", "c"}
    assert rounds[2]["failures"] == {"b": "failed with a ValueError; its own log has the details"}


def test_a_reply_that_is_too_large_counts_as_absent(rounds):
    assert set(rounds[3]["replies"]) == {"a", "b"}
    assert "2000002 bytes; at most 1000000" in rounds[3]["failures"]["c"]


def test_the_deadline_ends_a_round_and_the_late_reply_is_not_taken_for_the_next(rounds):
    assert set(rounds[4]["replies"]) == {"b", "c"}
    assert rounds[4]["failures"] == {"a": "did not reply within 8 s"}
    assert 8.0 <= rounds[4]["seconds"] < 10
    assert rounds[5]["replies"] == everybody(5)


def test_a_reply_too_large_to_receive_is_refused_by_its_announced_size(federation, rounds):
    assert set(rounds[6]["replies"]) == {"a", "c"}
    assert rounds[6]["failures"] == {"b": "did not reply within 8 s"}
    log = federation.started["server"].log.read_text()
    assert "exceeds configured limit 10000000" in log


def test_a_reply_that_stops_halfway_is_dropped_and_its_site_can_answer_again(federation, rounds):
    assert set(rounds[7]["replies"]) == {"b", "c"}
    assert rounds[7]["failures"] == {"a": "did not reply within 8 s"}
    assert "read timed out after 3 seconds" in federation.started["server"].log.read_text()
    assert rounds[10]["replies"] == everybody(10)


def test_a_killed_worker_answers_in_the_same_round(federation):
    federation.misbehave({"a": {"2": ["sleep", 1]}})
    killed = []

    def kill():
        time.sleep(0.5)
        federation.wait_for(rounds=1)
        time.sleep(0.4)
        killed.extend(federation.started["a"].workers())
        for worker in killed:
            worker.kill()

    with meanwhile(kill):
        ending, lines = federation.segment(rounds=3, deadline=25)
    assert len(killed) == 1
    assert ending.how == "done"
    assert [line["replies"] for line in lines] == [everybody(t) for t in (1, 2, 3)]


def test_a_lost_site_is_missed_until_it_is_back_in_a_later_segment(federation):
    federation.misbehave({m: {str(t): ["sleep", 0.3] for t in range(9)} for m in MEMBERS})

    def lose():
        time.sleep(0.5)
        wait_until(lambda: any(set(line["replies"]) == set(MEMBERS) for line in federation.lines()))
        federation.started["b"].kill()

    with meanwhile(lose):  # on a busy machine the workers may miss the first round
        ending, lines = federation.segment(rounds=5, deadline=3)
    assert ending.how == "done"
    assert lines[-1]["failures"] == {"b": "did not reply within 3 s"}
    ending, lines = federation.segment(rounds=1, deadline=5, min_sites=2)
    assert set(lines[0]["replies"]) == {"a", "c"}
    federation.start_site("b")
    ending, lines = federation.segment(rounds=1, min_sites=3)
    assert lines[0]["replies"] == everybody(1)


def test_a_server_that_died_forgets_the_segment_and_the_next_one_runs(federation):
    federation.misbehave({m: {str(t): ["sleep", 0.3] for t in range(99)} for m in MEMBERS})

    def lose():
        time.sleep(0.5)
        federation.wait_for(rounds=2)
        federation.started["server"].kill()
        federation.start_server()

    with meanwhile(lose):
        ending, lines = federation.segment(rounds=98)
    assert ending.how == "lost"
    assert 2 <= len(lines) < 98
    ending, lines = federation.segment(rounds=2, min_sites=3)
    assert ending.how == "done"
    assert [line["replies"] for line in lines] == [everybody(1), everybody(2)]
    assert all(len(federation.started[m].workers()) <= 1 for m in MEMBERS)


def test_a_driver_that_is_not_ours_is_refused(federation):
    ending, lines = federation.segment(driver="subprocess:Popen")
    assert ending.how == "aborted"
    assert not lines
    assert (
        "'subprocess:Popen' is not a function of motifair"
        in federation.started["server"].log.read_text()
    )


def test_pushed_code_is_refused_and_the_round_goes_on_without_it(federation, tmp_path):
    federation.misbehave({})
    job = export(tmp_path, MEMBERS, {"rounds": 3, "bytes": 10, "deadline": 4})
    trace = tmp_path / "trace"
    (job / "app_a" / "custom").mkdir()
    (job / "app_a" / "custom" / "agents.py").write_text(f"open({str(trace)!r}, 'w')")
    foreign = {"path": "subprocess.Popen", "args": {"args": ["touch", str(trace)]}}
    path = job / "app_b" / "config" / "config_fed_client.json"
    config = json.loads(path.read_text())
    config["executors"][0]["executor"] = foreign
    path.write_text(json.dumps(config))
    (federation.out / "trial.jsonl").unlink(missing_ok=True)
    with operator.session(federation.kits[ADMIN]) as opened:
        name = opened.submit_job(str(job))
        federation.wait_for(rounds=3)
        deployed = opened.get_job_meta(name)["job_deploy_detail"]
    assert "a: NVFLARE_ERROR: BYOC not permitted" in deployed
    assert "'subprocess.Popen'" in federation.started["b"].log.read_text()
    assert [set(line["replies"]) for line in federation.lines()] == [{"c"}] * 3
    assert not trace.exists()


def test_a_certificate_of_another_authority_is_refused(federation, tmp_path):
    stranger = Federation(tmp_path, ["b"])
    startup = Path("startup") / "fed_client.json"
    shutil.copy(federation.kits["b"] / startup, stranger.kits["b"] / startup)
    with pytest.raises(MotifairError, match="do not accept each other's certificates"):
        stranger.start_site("b")


def test_a_certificate_cannot_claim_another_name(federation, tmp_path):
    kit = tmp_path / "c"
    shutil.copytree(federation.kits["c"], kit)
    command = [
        sys.executable, "-m", "nvflare.private.fed.app.client.client_train", "-m", str(kit),
        "-s", "fed_client.json", "--set", "secure_train=true", "uid=b", "org=motifair",
        "config_folder=config",
    ]  # fmt: skip
    said = federation.started["server"].log
    with (tmp_path / "log").open("w") as log:
        forger = subprocess.Popen(command, cwd=kit, stdout=log, stderr=log)
    try:
        wait_until(lambda: "authenticated as 'c' but claimed endpoint 'b'" in said.read_text())
    finally:
        forger.kill()
        forger.wait()
    assert "Successfully registered" not in (tmp_path / "log").read_text()


def test_a_removed_member_is_kept_out_until_it_is_let_in_again(federation):
    federation.started["c"].stop()
    operator.remove(federation.kits[ADMIN], "c")
    assert set(operator.status(federation.kits[ADMIN]).sites) == {"a", "b"}
    with pytest.raises(MotifairError, match="c was removed"):
        federation.start_site("c")
    operator.readmit(federation.kits[ADMIN], "c")
    federation.start_site("c")
    assert set(operator.status(federation.kits[ADMIN]).sites) == {"a", "b", "c"}


def test_a_second_server_and_a_server_that_is_not_there_are_named(federation, tmp_path):
    with pytest.raises(MotifairError, match=r"Port \d+ is in use"):
        federation.start_server()
    alone = Federation(tmp_path, ["a"])
    with pytest.raises(MotifairError, match=r"cannot be reached. Check that it is running"):
        alone.start_site("a", wait=3)
