"""Two Pons: one whose models are scripts, and one that calls it as a provider; and a provider that misbehaves."""

import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time

from pons_fixture import PonsTestCase, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(HERE, "models")
SECRET = "sk-provider-key-0123456789abcdef"

USAGE = "{input: 100, cache_read: 20, cache_write: 5, output: 42}"

SCRIPT = f"""
providers:
  stage:
    kind: scripted
    answers:
      - when: {{tool_result: noon}}
        text: It is noon.
      - when: {{user: two tools}}
        text: I will look.
        tools:
          - {{name: get_weather, input: {{city: Paris}}}}
          - {{name: get_time, input: {{zone: CET}}}}
        chunk_bytes: 3
      - when: {{user: image}}
        text: A red dot.
      - when: {{user: too long}}
        text: And so on and
        stop: max_tokens
      - when: {{user: think}}
        thinking: Let me think about that.
        text: Done thinking.
        chunk_bytes: 5
      - when: {{user: slow}}
        text: one two three four five six seven eight nine ten
        chunk_bytes: 4
        chunk_ms: 200
      - text: "Hello, {{user}}: ü, 😀, \\"quotes\\" and\\nlines."
        chunk_bytes: 4
        usage: {USAGE}
models:
  stage: {{try: [stage/claude-sonnet-4-5]}}
"""


def node():
    """The SDKs want Node 20; where the system's is older, npm brings one."""
    bundled = os.path.join(HERE, "e2b", "node_modules", "node", "bin", "node")
    return bundled if os.path.exists(bundled) else shutil.which("node")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class ModelTestCase(PonsTestCase):
    def make_key(self, pons, *more):
        done = pons.command("keys", "create", "test", "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def url(self, pons):
        return "http://%s:%d" % pons.address

    def run_suite(self, name, pons, key, **environment):
        done = subprocess.run(
            [node(), "--test", f"{name}.test.mjs"],
            cwd=SUITE,
            env={"PATH": os.environ["PATH"], "HOME": self.directory, "PONS_URL": self.url(pons), "PONS_KEY": key,
                 **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-4_000:])
        self.assertNotIn("\n# skipped 1", done.stdout)

    def call(self, pons, key, model="test", protocol="messages", stream=False, more=None, seconds=60, fields=None):
        """Status, header fields and body of one call."""
        body = {"model": model, "max_tokens": 100, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
        body.update(more or {})
        path = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}[protocol]
        if protocol == "responses":
            body["input"] = body.pop("messages")
            body["max_output_tokens"] = body.pop("max_tokens")
        return self.post(pons, path, key, json.dumps(body).encode(), seconds, fields)

    def post(self, pons, path, key, body, seconds=60, fields=None):
        import http.client

        connection = http.client.HTTPConnection(*pons.address, timeout=seconds)
        try:
            headers = {"Content-Type": "application/json", **(fields or {})}
            if key:
                headers["x-api-key"] = key
            try:
                connection.request("POST", path, body=body, headers=headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has heard enough
            response = connection.getresponse()
            try:
                text = response.read()
            except http.client.IncompleteRead as cut:
                text = cut.partial
            return response.status, dict((k.lower(), v) for k, v in response.getheaders()), text.decode()
        finally:
            connection.close()

    def usage(self, pons, *more):
        """Sums by key, model and day."""
        done = pons.command("usage", "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["usage"]


class FakeProvider:
    """Speaks HTTP/1.1 as badly as a test wants: `answer(connection, request)` for each request, in threads."""

    def __init__(self, case):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.requests = []
        self.gone = []  # when clients of unfinished answers left
        self.answers = []  # one after the other; the last one stays
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()
        case.addCleanup(self.listener.close)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection:
                while request := self.read(connection):
                    with self.lock:
                        self.requests.append(request)
                        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                    answer(connection, request)
        except OSError:
            pass

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
            if not data.startswith(b"POST"[:len(data)]):
                return None  # TLS, say
        head, _, body = data.partition(b"\r\n\r\n")
        fields = dict(
            (name.strip().lower(), value.strip())
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])
        )
        length = int(fields.get("content-length", 0))
        while len(body) < length:
            body += connection.recv(65536)
        return {"head": head.decode(), "fields": fields, "body": body}

    def wait_for_hang_up(self, connection):
        connection.settimeout(30)
        try:
            while connection.recv(65536):
                pass
        except OSError:
            pass
        self.gone.append(time.monotonic())


def respond(status, body, **fields):
    """An answer of its own."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())

    def answer(connection, _):
        connection.sendall(head.encode() + b"\r\n" + text)

    return answer


def reset(connection):
    """Ends it so that the other side sees an error, not an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def stream(*pieces, end="chunked", pause=0.0, framing="chunked", **fields):
    """A stream of the given pieces; `end`: "chunked" ends it well, "cut" and "reset" do not, "hang" keeps it open.
    `framing`: "close" has no chunks, and lasts until the connection ends."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    head += "Transfer-Encoding: chunked\r\n" if framing == "chunked" else "Connection: close\r\n"
    head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())

    def answer(connection, _):
        connection.sendall(head.encode() + b"\r\n")
        for piece in pieces:
            data = piece if isinstance(piece, bytes) else piece.encode()
            connection.sendall(b"%x\r\n%s\r\n" % (len(data), data) if framing == "chunked" else data)
            time.sleep(pause)
        if end == "chunked":
            connection.sendall(b"0\r\n\r\n")
        elif end == "cut":
            connection.close()
        elif end == "reset":
            reset(connection)
        else:
            answer.provider.wait_for_hang_up(connection)

    return answer


def chunk(text=None, finish=None, usage=None):
    """An event of a Chat Completions stream."""
    data = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [] if usage else [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]}
    if usage:
        data["usage"] = usage
    return f"data: {json.dumps(data)}\n\n"


DONE = "data: [DONE]\n\n"
CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
WHOLE_STREAM = (chunk("Hello"), chunk(" world"), chunk(finish="stop"), chunk(usage=CHAT_USAGE), DONE)
WHOLE_ANSWER = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "usage": CHAT_USAGE,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello world"}, "finish_reason": "stop"}]}
