"""Handlers in this process, and what a failure may reveal."""

import time

from hypothesis import given
from hypothesis import strategies as st

from motifair.consortium.transports.failures import describe_failure
from motifair.consortium.transports.inprocess import InProcess
from motifair.errors import MotifairError


@given(st.dictionaries(st.text(min_size=1), st.binary()), st.sets(st.text(min_size=1)))
def test_everybody_stands_in_exactly_one_of_replies_and_failures(tasks, broken):
    def handler(name):
        def handle(task):
            if name in broken:
                raise MotifairError("broken")
            return task[::-1]

        return handle

    replies, failures = InProcess({n: handler(n) for n in tasks}).exchange(tasks, deadline=60)
    assert replies == {n: t[::-1] for n, t in tasks.items() if n not in broken}
    assert failures == {n: "broken" for n in tasks if n in broken}


def test_a_failure_does_not_quote_the_agents_data():
    assert "patient 17" not in describe_failure(KeyError("patient 17"))
    assert "KeyError" in describe_failure(KeyError("patient 17"))


def test_a_reply_after_the_deadline_is_a_failure_of_that_agent_alone():
    handlers = {"slow": lambda task: time.sleep(0.05) or task, "fast": lambda task: task}
    replies, failures = InProcess(handlers).exchange({"slow": b"1", "fast": b"2"}, deadline=0.02)
    assert replies == {"fast": b"2"}
    assert failures == {"slow": "did not reply within 0.02 s"}


def test_a_failure_does_not_tell_where_a_member_keeps_its_files():
    error = MotifairError("/home/eve/graphs of bank a/state/run-1/noise.key cannot be written (x).")
    assert describe_failure(error) == "graphs of bank noise.key cannot be written (x)."
