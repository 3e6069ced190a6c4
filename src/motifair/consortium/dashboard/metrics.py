"""The state of all runs for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from motifair.consortium.dashboard.views import Detail

TYPE = "text/plain; version=0.0.4; charset=utf-8"
HELP = {
    "up": "Whether the ledger can be read.",
    "round": "Rounds done.",
    "rounds": "Rounds agreed.",
    "running": "Whether the server is at work.",
    "ledger_verified": "Whether all entries verify.",
    "paid": "What settled rounds paid to all agents.",
    "agents": "Number of agents by status.",
    "agent_value": "Value of an agent after the last round.",
    "agent_paid": "What an agent was paid in all.",
}
Sample = tuple[str, dict[str, str], str]


def exposition(details: Iterable[Detail], readable: bool) -> str:
    """Return all samples, those of a metric together, under its help."""
    samples = [("up", {}, str(int(readable))), *(s for d in details for s in _samples(d))]
    lines = []
    for name, text in HELP.items():
        lines += [f"# HELP motifair_{name} {text}", f"# TYPE motifair_{name} gauge"]
        lines += [
            f"motifair_{name}{_labels(about)} {value}" for n, about, value in samples if n == name
        ]
    return "\n".join(lines) + "\n"


def _samples(detail: Detail) -> Iterator[Sample]:
    run = detail.summary
    about = {"run": run.run}
    yield "round", about, str(run.round)
    yield "rounds", about, str(run.rounds)
    yield "running", about, str(int(run.state == "running"))
    yield "ledger_verified", about, str(int(run.fits))
    yield "paid", about | {"currency": run.currency}, run.paid
    for status, count in detail.counts.items():
        yield "agents", about | {"status": status}, str(count)
    for row in detail.agents:
        named = about | {"agent": row.agent}
        if row.value is not None:
            yield "agent_value", named, repr(row.value)
        yield "agent_paid", named | {"currency": run.currency}, row.paid


def _labels(about: dict[str, str]) -> str:
    """Return labels with what their values must escape.

    >>> _labels({"run": 'a"b'})
    '{run="a\\\\"b"}'
    """
    if not about:
        return ""
    escaped = {
        k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for k, v in about.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
