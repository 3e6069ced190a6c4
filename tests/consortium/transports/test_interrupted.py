"""An operator that stops `run` stops the rounds."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")

from motifair.consortium.transports.nvflare import segments


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("moment", ["it looks", "it asks the server", "it pauses"])
def test_ctrl_c_ends_the_segment_at_the_server(
    end: type[BaseException], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted: list[str] = []

    @contextmanager
    def session(kit: Path) -> Any:
        info = SimpleNamespace(server_info=SimpleNamespace(start_time=1.0), job_info=[])
        yield SimpleNamespace(
            list_jobs=list, get_system_info=lambda: info, submit_job=lambda folder: "job-1",
            abort_job=aborted.append, get_job_meta=now("it asks the server"),
        )  # fmt: skip

    def now(name: str) -> Any:
        def call(*_: object) -> Any:
            if name == moment:
                raise end
            return {"status": "RUNNING"} if name == "it asks the server" else None

        return call

    monkeypatch.setattr(segments.time, "sleep", now("it pauses"))
    monkeypatch.setattr(segments, "session", session)
    monkeypatch.setattr(segments, "build_job", lambda *a, **k: SimpleNamespace(export_job=str))
    with pytest.raises(end):
        segments.run_segment(
            Path("kit"),
            members=["a"],
            driver="d",
            segment={},
            min_sites=1,
            timeout=9,
            done=now("it looks"),
        )
    assert aborted == ["job-1"]
