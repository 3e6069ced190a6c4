"""A hostile server: with its first deployment the real one sends each site what would harm it.

`install` is called in the server's process. HOSTILE_REPLIES names the file for what sites answered:
a list of command, argument and answer.
"""

import copy
import json
import os
from pathlib import Path

from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic
from nvflare.private.fed.server.admin import FedAdminServer

JOB_IDS = ("state", "local", "startup", "mine", ".", "..", "../x", "/", "")
send_requests = FedAdminServer.send_requests


def hostile(requests):
    """Yield command, argument and requests, made from those of a real deployment."""
    for job_id in JOB_IDS:
        for topic in (TrainingTopic.DEPLOY, TrainingTopic.DELETE_RUN):
            made = copy.deepcopy(requests)
            for request in made.values():
                request.topic = topic
                request.set_header(RequestHeader.JOB_ID, job_id)
            yield topic, job_id, made
    made = copy.deepcopy(requests)
    for request in made.values():
        request.topic, request.body = SysCommandTopic.SHELL, "cat startup/client.key"
        request.headers = {}  # permissions are checked only for commands named here
    yield SysCommandTopic.SHELL, request.body, made


def send(self, requests, fl_ctx, **more):
    path = Path(os.environ["HOSTILE_REPLIES"])
    topics = {getattr(request, "topic", "") for request in requests.values()}
    if topics == {TrainingTopic.DEPLOY} and not path.exists():
        answers = []
        for topic, argument, made in hostile(requests):
            for answer in send_requests(self, made, fl_ctx, timeout_secs=10.0):
                said = None if answer.reply is None else answer.reply.body
                answers.append([topic, argument, said])
        path.write_text(json.dumps(answers))
    return send_requests(self, requests, fl_ctx, **more)


def install():
    FedAdminServer.send_requests = send
