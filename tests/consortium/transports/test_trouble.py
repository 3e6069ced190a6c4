"""Known problems in the engine's log, as one sentence."""

import pytest

pytest.importorskip("nvflare")

from requested import provision

from motifair.consortium.transports.nvflare import local, payload, processes
from motifair.errors import MotifairError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trouble")
    return provision(folder, ["a", "b"], admin="operator@example.org")


def evicted(times, name="b"):
    line = "Connection CN2 is evicted for CN3 from endpoint {} for exceeding limit 1\n"
    return line.format(name) * times


@pytest.mark.parametrize(
    ("name", "log", "sentence"),
    [
        ("server", evicted(2), "b is running twice"),
        ("a", "error:client_quit Client 'a' is disabled", "a was removed"),
        ("a", "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED", "do not accept each other"),
    ],
)
def test_a_complaint_is_a_sentence(made, name, log, sentence):
    (made[name] / "engine.log").write_text(log)
    assert sentence in processes.trouble(made[name])


@pytest.mark.parametrize("log", ["", "all is well", evicted(1), evicted(1, "a") + evicted(1)])
def test_a_restart_is_no_complaint(made, log):
    (made["server"] / "engine.log").write_text(log)
    assert processes.trouble(made["server"]) is None


def test_a_kit_nothing_was_started_from_is_not_running(made):
    assert processes.running(made["a"]) is None


@pytest.mark.parametrize("name", ["os:system", "motifair.files:os.replace", "motifair.files:Path"])
def test_a_job_can_name_only_functions_of_ours(name):
    with pytest.raises(MotifairError):
        local.our_own(name)


def test_bytes_travel_unchanged_and_a_failure_in_words():
    assert payload.unpack(payload.pack(b"\x00\xff"), max_bytes=2) == b"\x00\xff"
    assert payload.unpack(payload.pack(b""), max_bytes=0) == b""
    with pytest.raises(payload.RefusedError, match="3 bytes; at most 2"):
        payload.unpack(payload.pack(b"123"), max_bytes=2)
    with pytest.raises(payload.RefusedError, match="no graphs"):
        payload.unpack(payload.pack(b"", failure="no graphs"), max_bytes=2)
