"""The warden's routes, as a client of its control socket sees them."""

import base64
import glob
import json
import signal
import urllib.parse

from pons_fixture import PATIENCE_SECONDS, UnixConnection


class Refused(AssertionError):
    """An answer that is an error."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status
        error = body.get("error", {}) if isinstance(body, dict) else {}
        self.type = error.get("type", "")
        self.message = error.get("message", "")


def as_bytes(value):
    """Text of the wire: a string, or {"base64": …} when it is no UTF-8."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def end_orderly(instance):
    """The exit code. A Pons that is killed leaves its sandboxes to the next one; this one has none."""
    if instance.process.poll() is None:
        instance.signal(signal.SIGTERM)
    return instance.wait_until_ended()


def own_groups(instance):
    """Control groups of this Pons's sandboxes; another one on the same host has others."""
    with open(f"{instance.state_dir}/spawner/instance", encoding="utf-8") as file:
        return glob.glob(f"/sys/fs/cgroup/**/pons-{file.read().strip()}-*", recursive=True)


class Job:
    """One that ended, with what it wrote."""

    def __init__(self, identity, streams, lost, ended):
        self.id = identity
        self.output = streams["output"]
        self.error = streams["error"]
        self.lost = lost
        self.ended = ended
        self.outcome = ended.get("outcome")
        self.code = ended.get("code")

    @property
    def text(self):
        return self.output.decode(errors="replace")

    def __repr__(self):
        return f"{self.ended} output={self.output[-2000:]!r} error={self.error[-2000:]!r}"


class Warden:
    def __init__(self, instance):
        self.path = f"{instance.state_dir}/run/warden.sock"

    def connection(self, seconds=PATIENCE_SECONDS):
        return UnixConnection(self.path, timeout=seconds)

    def raw(self, method, target, body=None, seconds=PATIENCE_SECONDS):
        connection = self.connection(seconds)
        try:
            try:
                connection.request(method, target, body=body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # an answer that came before the end of the body can still be read
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, method, target, body=None, seconds=PATIENCE_SECONDS):
        data = None if body is None else json.dumps(body)
        status, answer = self.raw(method, target, data, seconds)
        parsed = json.loads(answer) if answer else None
        if status >= 300:
            raise Refused(status, parsed)
        return parsed

    def create(self, **request):
        return Sandbox(self, self.ask("POST", "/sandboxes", request)["id"])

    def sandboxes(self):
        return {info["id"]: info for info in self.ask("GET", "/sandboxes")["sandboxes"]}

    def put_template(self, name, **info):
        self.ask("PUT", f"/templates/{name}", {"name": name, **info})


class Sandbox:
    def __init__(self, warden, identity):
        self.warden = warden
        self.id = identity
        self.base = f"/sandboxes/{identity}"

    def ask(self, method, target="", body=None, seconds=PATIENCE_SECONDS):
        return self.warden.ask(method, self.base + target, body, seconds)

    def destroy(self):
        self.ask("DELETE")

    def info(self):
        return self.ask("GET")

    def metrics(self):
        return self.ask("GET", "/metrics")

    # ---- jobs

    def start(self, shell_line=None, seconds=PATIENCE_SECONDS, **job):
        """An iterator over the job's lines, the first of which names it."""
        if shell_line is not None:
            job["shell_line"] = shell_line
        connection = self.warden.connection(seconds)
        connection.request("POST", self.base + "/jobs", body=json.dumps(job))
        return self.follow(connection)

    @staticmethod
    def follow(connection):
        try:
            response = connection.getresponse()
            if response.status >= 300:
                raise Refused(response.status, json.loads(response.read()))
            while line := response.readline():
                if line.strip():
                    yield json.loads(line)
        finally:
            connection.close()

    def run(self, shell_line=None, seconds=PATIENCE_SECONDS, **job):
        return self.collect(self.start(shell_line, seconds, **job))

    @staticmethod
    def collect(lines):
        identity, streams, lost, ended = "", {"output": b"", "error": b""}, 0, {}
        for line in lines:
            if "job" in line:
                identity = line["job"]
            elif "output" in line:
                piece = line["output"]
                streams[piece.get("stream", "output")] += as_bytes(piece["bytes"])
                lost += piece.get("lost", 0)
            elif "ended" in line:
                ended = line["ended"]
        return Job(identity, streams, lost, ended)

    def signal(self, job, number):
        self.ask("POST", f"/jobs/{job}/signal", {"signal": number})

    # ---- files

    @staticmethod
    def query(**values):
        return "?" + urllib.parse.urlencode(values, quote_via=urllib.parse.quote)

    def write(self, path, data, **options):
        status, answer = self.warden.raw("PUT", self.base + "/file" + self.query(path=path, **options), data)
        parsed = json.loads(answer)
        if status >= 300:
            raise Refused(status, parsed)
        return parsed

    def read(self, path, **options):
        status, answer = self.warden.raw("GET", self.base + "/file" + self.query(path=path, **options))
        if status >= 300:
            raise Refused(status, json.loads(answer))
        return answer

    def remove(self, path, **options):
        return self.ask("DELETE", "/file" + self.query(path=path, **options))

    def stat(self, path, **options):
        return self.ask("GET", "/stat" + self.query(path=path, **options))

    def list(self, path, **options):
        return self.ask("GET", "/files" + self.query(path=path, **options))["files"]

    # ---- transactions

    def checkpoint(self, name=""):
        return self.ask("POST", "/checkpoints", {"name": name})["name"]

    def rollback(self, name):
        self.ask("POST", f"/checkpoints/{name}/rollback")
