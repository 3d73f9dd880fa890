"""Sandboxes over the public door, byte by byte: what the SDK sends, and what it never would."""

import base64
import http.client
import json
import socket
import struct

from pons_fixture import PATIENCE_SECONDS


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

    def create(self, **options):
        status, _, body = self.ask("POST", "/sandboxes", {"templateID": "base", "timeout": 300, **options})
        if status != 201:
            raise AssertionError(f"{status} {body}")
        made = json.loads(body)
        return Box(self, made["sandboxID"], made["envdAccessToken"])


class Box:
    def __init__(self, door, identity, token):
        self.door = door
        self.id = identity
        self.token = token

    def headers(self):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token,
                "Authorization": "Basic " + base64.b64encode(b"user:").decode()}

    def stream(self, method, message, seconds=PATIENCE_SECONDS):
        """The answer to a call that streams, its head read and the rest not."""
        connection = self.door.connection(seconds)
        connection.request("POST", f"/process.Process/{method}", body=envelope(message), headers={
            **self.headers(), "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"})
        return Stream(connection, connection.getresponse())

    def start(self, line, **options):
        return self.stream("Start", {"process": {"cmd": "/bin/sh", "args": ["-c", line]}}, **options)


class Stream:
    def __init__(self, connection, response):
        self.connection = connection
        self.response = response
        self.status = response.status

    def next(self):
        """The next message; None at the end, which may hold an error."""
        head = self.response.read(5)
        if len(head) < 5:
            raise AssertionError("the stream was cut")
        flags, size = struct.unpack(">BI", head)
        message = json.loads(self.response.read(size))
        if flags & 2:
            if "error" in message:
                raise AssertionError(message["error"])
            return None
        return message

    def output(self):
        """Everything the process writes, and its end."""
        text = b""
        while (message := self.next()) is not None:
            data = message.get("event", {}).get("data", {})
            text += base64.b64decode(data.get("stdout", ""))
        return text

    def close(self):
        self.connection.close()
        self.response.close()
