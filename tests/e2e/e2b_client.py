"""E2B's wire protocol without an SDK, for tests that break connections at will."""

import base64
import http.client
import json
import struct

PORT = "49983"


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status


class Api:
    def __init__(self, address, key):
        self.address, self.key = address, key

    def connection(self, seconds=60):
        return http.client.HTTPConnection(*self.address, timeout=seconds)

    def ask(self, method, path, body=None, headers=None):
        connection = self.connection()
        try:
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, body=data, headers={"X-API-KEY": self.key, **(headers or {})})
            response = connection.getresponse()
            answer = response.read()
            if response.status >= 400:
                raise Refused(response.status, answer)
            return json.loads(answer) if answer else None
        finally:
            connection.close()

    def create(self, **more):
        made = self.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, **more})
        return Box(self, made["sandboxID"], made["envdAccessToken"])


class Box:
    def __init__(self, api, identity, token):
        self.api, self.id, self.token = api, identity, token
        self.fields = {"E2b-Sandbox-Id": identity, "E2b-Sandbox-Port": PORT, "X-Access-Token": token}

    def call(self, method, message):
        return self.api.ask("POST", f"/{method}", message,
                            {**self.fields, "Content-Type": "application/json", "Connect-Protocol-Version": "1"})

    def open(self, method, message, seconds=60, **fields):
        """A stream of messages, its connection and all."""
        text = json.dumps(message).encode()
        connection = self.api.connection(seconds)
        connection.request("POST", f"/{method}", body=b"\0" + struct.pack(">I", len(text)) + text,
                           headers={**self.fields, "Content-Type": "application/connect+json", **fields})
        return Stream(connection, connection.getresponse())

    def start(self, line, **more):
        return self.open("process.Process/Start", {
            "process": {"cmd": "/bin/bash", "args": ["-c", line]}, "stdin": False, **more})

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
        connection = self.api.connection()
        try:
            connection.request("GET", f"/files?path={path}", headers=self.fields)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def write(self, path, data):
        connection = self.api.connection()
        try:
            connection.request("POST", f"/files?path={path}", body=data,
                               headers={**self.fields, "Content-Type": "application/octet-stream"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def kill(self):
        self.api.ask("DELETE", f"/sandboxes/{self.id}")


class Stream:
    """Iterates over messages; `end` is the last envelope, None when the stream was cut."""

    def __init__(self, connection, response):
        self.connection, self.response, self.end = connection, response, None

    def next(self):
        head = self.response.read(5)
        if len(head) < 5:
            return None
        message = json.loads(self.response.read(struct.unpack(">I", head[1:])[0]))
        if head[0] & 2:
            self.end = message
            return None
        return message

    def __iter__(self):
        try:
            while (message := self.next()) is not None:
                yield message
        except (OSError, http.client.HTTPException, ValueError):
            return

    def pid(self):
        return self.next()["event"]["start"]["pid"]

    def close(self):
        self.response.close()
        self.connection.close()
