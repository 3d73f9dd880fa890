"""Sessions of a running Pons over its public door, and models that say what a test wrote for them."""

import contextlib
import http.client
import json
import os
import signal

from pons_fixture import PATIENCE_SECONDS, PonsTestCase, wait_for
from sandbox_world import Warden

# ---- what a model says: answers of a `scripted` provider


def text(words, **more):
    return {"text": words, **more}


def calls(*tools, **more):
    return {"tools": list(tools), **more}


def provision(**input):
    return {"name": "sandbox_provision", "input": {"task_description": "whatever is needed", **input}}


def execute(command, **input):
    return {"name": "sandbox_execute", "input": {"command": command, **input}}


def ask_human(question):
    return {"name": "ask_human", "input": {"question": question}}


def spawn_agent(task, **input):
    return {"name": "spawn_agent", "input": {"task": task, **input}}


def play(user, *answers, said_before=0):
    """Answers to a message that holds `user`, one after the other, when the model has said so much in the session."""
    return [{"when": {"user": user, "turn": said_before + i}, **answer} for i, answer in enumerate(answers)]


def config(answers, agents=None, **more):
    """A configuration whose agents ask a model that plays these answers."""
    return json.dumps({
        "providers": {"stage": {"kind": "scripted", "answers": answers}},
        "models": {"stage": {"try": ["stage/claude-sonnet-4-5"]}},
        "agents": {"default": {"model": "stage"}, **(agents or {})},
        **more,
    })


# ---- sessions


class Refused(AssertionError):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status
        try:
            self.message = json.loads(body)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            self.message = ""


class Stream:
    """What a follower of a session hears, in its order."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response

    def __iter__(self):
        return self

    def __next__(self):
        """(type, content); raises when the stream breaks off, ends when it ends."""
        kind, data = None, []
        while line := self.response.readline():
            line = line.rstrip(b"\r\n")
            if not line and data:
                return kind, json.loads(b"\n".join(data))
            field, _, value = line.partition(b":")
            if field == b"event":
                kind = value.strip().decode()
            elif field == b"data":
                data.append(value[1:] if value.startswith(b" ") else value)
        raise StopIteration

    def until(self, wanted):
        """Everything up to the first event of that type."""
        heard = []
        for kind, content in self:
            heard.append((kind, content))
            if kind == wanted:
                return heard
        raise AssertionError(f"the stream ended before {wanted}: {heard}")


class Client:
    """A caller with an API key. Events are what the log has, in its order."""

    def __init__(self, pons, key):
        self.pons = pons
        self.key = key

    def connection(self, seconds=PATIENCE_SECONDS):
        return http.client.HTTPConnection(*self.pons.address, timeout=seconds)

    def raw(self, method, path, body=None, **headers):
        connection = self.connection()
        try:
            try:
                connection.request(method, path, body=body, headers={"X-API-Key": self.key, **headers})
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has heard enough; its answer can still be read
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        status, answer = self.raw(method, path, data)
        if status != 200:
            raise Refused(status, answer.decode(errors="replace"))
        return json.loads(answer)

    def create(self, message=None, **more):
        """The session's id."""
        wish = {**({"message": message} if message is not None else {}), **more}
        return self.ask("POST", "/x/sessions", wish)["id"]

    def show(self, session):
        return self.ask("GET", f"/x/sessions/{session}")

    def send(self, session, *events):
        return self.ask("POST", f"/x/sessions/{session}/events", {"events": list(events)})["seqs"]

    def say(self, session, words, **more):
        return self.send(session, {"type": "user.message", "text": words, **more})[0]

    def interrupt(self, session):
        return self.send(session, {"type": "user.interrupt"})[0]

    def answer(self, session, call, words):
        return self.send(session, {"type": "user.answer", "call": call, "text": words})[0]

    def events(self, session, after=0, limit=1000):
        found = []
        while True:
            page = self.ask("GET", f"/x/sessions/{session}/events?after={after}&limit={limit}")
            found += page["events"]
            if not page["more"] or not page["events"]:
                return found
            after = found[-1]["seq"]

    def output(self, session, digest):
        status, body = self.raw("GET", f"/x/sessions/{session}/outputs/{digest}")
        if status != 200:
            raise Refused(status, body.decode(errors="replace"))
        return body

    def wait(self, session, *statuses, seconds=PATIENCE_SECONDS):
        """What is shown of the session once it has one of these statuses; idle, when none is given."""
        wanted = statuses or ("idle",)

        def reached():
            shown = self.show(session)
            return shown if shown["status"] in wanted else None

        return wait_for(reached, f"{session} is {' or '.join(wanted)}", seconds, step=0.02)

    def wait_for_event(self, session, kind, **fields):
        """The first event of that type with these fields."""
        return wait_for(lambda: next(iter(of(self.events(session), kind, **fields)), None),
                        f"{session} has {kind} {fields}", step=0.02)

    @contextlib.contextmanager
    def stream(self, session, after=None, last_event_id=None, seconds=PATIENCE_SECONDS, path="/x/sessions/%s/stream"):
        connection = self.connection(seconds)
        try:
            headers = {"X-API-Key": self.key}
            if last_event_id is not None:
                headers["Last-Event-ID"] = str(last_event_id)
            query = "" if after is None else f"?after={after}"
            connection.request("GET", path % session + query, headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(response.status, response.read().decode(errors="replace"))
            yield Stream(connection, response)
        finally:
            connection.close()


def of(events, kind, **fields):
    return [event for event in events
            if event["type"] == kind and all(event.get(name) == value for name, value in fields.items())]


def one(events, kind, **fields):
    found = of(events, kind, **fields)
    if len(found) != 1:
        raise AssertionError(f"{len(found)} {kind} {fields} in {events}")
    return found[0]


def results(events, tool="sandbox_execute"):
    """What the calls of a tool came to, in the order of the calls."""
    ended = {event["call"]: event for event in of(events, "tool.ended")}
    return [ended[call["seq"]] for call in of(events, "tool.called", name=tool) if call["seq"] in ended]


def said(events):
    return [event["text"] for event in of(events, "agent.message")]


def ends(events):
    return [event["reason"] for event in of(events, "turn.ended")]


class SessionTestCase(PonsTestCase):
    def start_agents(self, answers, agents=None, **more):
        """A Pons whose model plays these answers; self.pons, self.client, self.warden."""
        return self.use(self.start(config(answers, agents, **more)))

    def use(self, pons):
        self.pons = pons
        self.client = self.client_of()
        self.warden = Warden(pons)
        return pons

    def client_of(self, project=None, scopes=()):
        """A caller of a project, with a key that the door knows already."""
        words = [word for scope in scopes for word in ("--scope", scope)]
        if project is not None:
            words += ["--project", project]
        key = self.run_json("key", "create", "test", *words)["key"]
        client = Client(self.pons, key)
        wait_for(lambda: client.raw("GET", "/x/agents")[0] != 401, "the door knows the key")
        return client

    def run_json(self, *words):
        done = self.pons.command(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def sandboxes_of(self, session):
        """Names of those that the session has now."""
        listed = json.loads(self.warden.ask("GET", "/sandboxes"))["sandboxes"]
        return {each["id"] for each in listed if each.get("labels", {}).get("pons.session") == session}

    def finish(self, session, reason="end_turn"):
        """The events of a session whose turn has ended in this way."""
        shown = self.client.wait(session)
        events = self.client.events(session)
        self.assertEqual(shown["ended"], reason, events)
        self.check_log(events)
        return events

    def check_log(self, events):
        """Numbered without a gap; every call has one end, and nothing follows the end of a turn but a new beginning."""
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        called = [event["seq"] for event in of(events, "tool.called")]
        ended = [event["call"] for event in of(events, "tool.ended")]
        answered = [event["call"] for event in of(events, "user.answer")]
        answered += [event["call"] for event in of(events, "user.decision") if not event.get("allowed")]
        self.assertEqual(sorted(called), sorted(ended + answered))

    def kill_role(self, name):
        """It is back when this returns."""
        former = self.pons.role(name)["pid"]
        os.kill(former, signal.SIGKILL)

        def is_back():
            role = self.pons.role(name)
            return role["pid"] not in (0, former) and role["state"] == "ready"

        wait_for(is_back, f"{name} is back")

    def pause_role(self, name):
        """Until resume_role(); in any case it runs again when the test is over."""
        pid = self.pons.role(name)["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.paused = {**getattr(self, "paused", {}), name: pid}

    def resume_role(self, name):
        os.kill(self.paused[name], signal.SIGCONT)

    def assert_gone(self, session):
        wait_for(lambda: not self.sandboxes_of(session), f"the sandboxes of {session} are gone")
