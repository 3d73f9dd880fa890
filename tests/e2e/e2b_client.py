"""E2B's wire protocol over the public door, byte by byte: what the SDK sends, and what it never would."""

import base64
import http.client
import json
import socket
import struct

from pons_fixture import PATIENCE_SECONDS

PORT = "49983"


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status


def envelope(message):
    data = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(data)) + data


class Door:
    """One client of one Pons; over TLS when there is a context for it."""

    def __init__(self, pons, key, tls=None, name=None):
        self.pons = pons
        self.key = key
        self.tls = tls
        self.name = name or pons.address[0]

    def connect(self, seconds=PATIENCE_SECONDS):
        plain = socket.create_connection(self.pons.address, timeout=seconds)
        return self.tls.wrap_socket(plain, server_hostname=self.name) if self.tls else plain

    def connection(self, seconds=PATIENCE_SECONDS):
        connection = http.client.HTTPConnection(*self.pons.address, timeout=seconds)
        connection.sock = self.connect(seconds)
        return connection

    def ask(self, method, target, body=None, headers=None, seconds=PATIENCE_SECONDS, connection=None):
        """Status, header fields, body."""
        used = connection or self.connection(seconds)
        try:
            used.request(method, target, body=None if body is None else json.dumps(body),
                         headers={"X-API-KEY": self.key, "Content-Type": "application/json", **(headers or {})})
            response = used.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            if connection is None:
                used.close()

    def require(self, method, target, body=None):
        """What the answer says, which is no refusal."""
        status, _, answer = self.ask(method, target, body)
        if status >= 400:
            raise Refused(status, answer)
        return json.loads(answer) if answer else None

    def create(self, **options):
        made = self.require("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, **options})
        return Box(self, made["sandboxID"], made["envdAccessToken"])


class Box:
    def __init__(self, door, identity, token):
        self.door = door
        self.id = identity
        self.token = token
        self.fields = {"E2b-Sandbox-Id": identity, "E2b-Sandbox-Port": PORT, "X-Access-Token": token,
                       "Authorization": "Basic " + base64.b64encode(b"user:").decode()}

    def open(self, method, message, seconds=PATIENCE_SECONDS, fields=None):
        """The answer to a call that streams, its head read and the rest not."""
        connection = self.door.connection(seconds)
        connection.request("POST", f"/{method}", body=envelope(message), headers={
            **self.fields, **(fields or {}), "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"})
        return Stream(connection, connection.getresponse())

    def call(self, method, message):
        """Status and answer of a call that does not stream."""
        status, _, answer = self.door.ask("POST", f"/{method}", message,
                                          {**self.fields, "Connect-Protocol-Version": "1"})
        return status, json.loads(answer)

    def start(self, line, seconds=PATIENCE_SECONDS, **more):
        return self.open("process.Process/Start", {
            "process": {"cmd": "/bin/bash", "args": ["-c", line]}, "stdin": False, **more}, seconds)

    def run(self, line):
        """Output and exit code."""
        stream, output, code = self.start(line), b"", None
        for message in stream:
            event = message.get("event", {})
            output += base64.b64decode(event.get("data", {}).get("stdout", ""))
            if "end" in event:
                code = event["end"].get("exitCode", 0)
        stream.close()
        return output.decode(errors="replace"), code

    def read(self, path):
        return self.files("GET", path)

    def write(self, path, data):
        return self.files("POST", path, data)

    def files(self, method, path, data=None):
        connection = self.door.connection()
        try:
            connection.request(method, f"/files?path={path}", body=data,
                               headers={**self.fields, "Content-Type": "application/octet-stream"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def kill(self):
        self.door.require("DELETE", f"/sandboxes/{self.id}")


class Stream:
    """Iterates over messages; `end` is the last envelope, None when the stream was cut."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response
        self.status = response.status
        self.end = None

    def next(self):
        """The next message, or None when there is none."""
        head = self.response.read(5)
        if len(head) < 5:
            return None
        flags, size = struct.unpack(">BI", head)
        message = json.loads(self.response.read(size))
        if flags & 2:
            self.end = message
            return None
        return message

    def take(self):
        """The next message; None at an end that is a good one."""
        message = self.next()
        if message is None and self.end != {}:
            raise AssertionError(self.end or "the stream was cut")
        return message

    def __iter__(self):
        try:
            while (message := self.next()) is not None:
                yield message
        except (OSError, http.client.HTTPException, ValueError):
            return

    def pid(self):
        return self.next()["event"]["start"]["pid"]

    def output(self):
        """Everything the process writes, up to its good end."""
        text = b""
        while (message := self.take()) is not None:
            data = message.get("event", {}).get("data", {})
            text += base64.b64decode(data.get("stdout", ""))
        return text

    def close(self):
        self.response.close()
        self.connection.close()
