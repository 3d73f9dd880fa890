"""A host that speaks HTTP/2, as honest or as careless as the path asks for."""

import gzip
import hashlib
import json
import select
import ssl
import struct
import threading
import time
import urllib.parse

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from .codings import CODINGS, ENCODINGS

RESETS = h2.errors.ErrorCodes


def grpc_message(data, coding=None):
    packed = CODINGS[coding](data) if coding else data
    return struct.pack("!BI", 1 if coding else 0, len(packed)) + packed


class Http2Host:
    """One connection. Each request is answered by a thread of its own."""

    def __init__(self, conversation):
        self.conversation = conversation
        self.record = conversation.record
        self.stream = conversation.stream
        # What a host may not send is sent all the same: nobody else tries it.
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding="latin-1", validate_inbound_headers=False, validate_outbound_headers=False,
            normalize_outbound_headers=False))
        self.lock = threading.Condition()
        self.requests = {}
        self.over = False

    def run(self):
        with self.lock:
            self.connection.initiate_connection()
            self.flush()
        try:
            while (piece := self.read()) != b"":
                with self.lock:
                    events = self.connection.receive_data(piece or b"")
                    for event in events:
                        self.take(event)
                    self.flush()
                    self.lock.notify_all()
        except h2.exceptions.ProtocolError:
            self.flush()
        finally:
            with self.lock:
                self.over = True
                self.lock.notify_all()

    def read(self):
        """None when nothing came. A TLS connection is not for two threads at once."""
        if not getattr(self.stream, "pending", int)():
            select.select([self.stream], [], [], 1)
        with self.lock:
            self.stream.settimeout(0)
            try:
                return self.stream.recv(65536)
            except (BlockingIOError, ssl.SSLWantReadError):
                return None
            finally:
                self.stream.settimeout(60)

    def flush(self):
        if data := self.connection.data_to_send():
            self.stream.sendall(data)

    # ---- reading

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = Request(self, event)
        request = self.requests.get(getattr(event, "stream_id", None))
        if request is None:
            return
        if isinstance(event, h2.events.DataReceived):
            request.take(event.data)
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            request.gone = True
        elif isinstance(event, h2.events.StreamEnded):
            threading.Thread(target=request.serve, daemon=True).start()


class Request:
    """One request, and what is answered."""

    def __init__(self, host, event):
        self.host = host
        self.id = event.stream_id
        self.pairs = event.headers
        self.fields = dict(event.headers)
        self.digest, self.size, self.body = hashlib.sha256(), 0, b""
        self.gone = False
        talk = host.conversation
        # Decoded: whoever looks for a secret need not know how HPACK writes it.
        self.head = "\n".join(f"{name}: {value}" for name, value in self.pairs).encode("latin-1")
        host.record.bytes_at(talk.address, self.head + b"\n\n")
        host.record.request(
            number=talk.number, address=talk.address, port=talk.port, server_name=talk.server_name, protocol="h2",
            host=self.fields.get(":authority"), method=self.fields.get(":method"), target=self.fields.get(":path"),
            fields=[name for name, _ in self.pairs])

    def take(self, piece):
        self.host.record.bytes_at(self.host.conversation.address, piece)
        self.digest.update(piece)
        self.size += len(piece)
        self.body = (self.body + piece)[: 1 << 20]

    def serve(self):
        path, _, query = self.fields[":path"].partition("?")
        self.words = dict(urllib.parse.parse_qsl(query))
        self.secret = self.host.conversation.find_secret(self.fields, self.fields[":path"])
        work = getattr(self, "answer_" + path.strip("/").split("/")[0].replace("-", "_"), None)
        try:
            if work is not None:
                return work()
            self.answer(json.dumps({"ok": True, "sha256": self.digest.hexdigest(), "bytes": self.size}).encode())
        except (OSError, h2.exceptions.ProtocolError, KeyError):
            pass

    # ---- answering

    def send_head(self, *fields, status=200, end=False):
        with self.host.lock:
            self.host.connection.send_headers(self.id, [(":status", str(status)), *fields], end_stream=end)
            self.host.flush()

    def send(self, data, end=False, padding=None):
        """As fast as the other side allows."""
        while data or end:
            with self.host.lock:
                room = 0
                while not self.gone and not self.host.over:
                    room = min(self.host.connection.local_flow_control_window(self.id), 16000)
                    if room > 0 or not data:
                        break
                    self.host.lock.wait(1)
                if self.gone or self.host.over:
                    raise OSError("it left")
                piece, data = data[:room], data[room:]
                self.host.connection.send_data(self.id, piece, end_stream=end and not data, pad_length=padding)
                self.host.flush()
            if not data:
                return

    def answer(self, body, *fields, status=200):
        self.send_head(*fields, status=status, end=not body)
        if body:
            self.send(body, end=True)

    def answer_echo(self):
        text = self.head + b"\n\n" + self.body
        if coding := self.words.get("coding"):
            label = self.words.get("label", coding).replace("raw-", "").replace("-twice", "")
            return self.answer(CODINGS[coding](text), ("content-encoding", label))
        if encoding := self.words.get("encoding"):
            return self.answer(b"start " + ENCODINGS[encoding](self.secret) + b" end")
        return self.answer(text)

    def answer_field(self):
        secret = self.secret.decode()
        self.answer(b"in the head", ("x-seen", secret), ("location", f"https://api.github.com/?t={secret}"),
                    ("set-cookie", f"t={secret}"))

    def answer_field_name(self):
        """HTTP/2 has only small letters in names."""
        self.answer(b"in a name", (f"x-{self.secret.decode().lower()}", "1"))

    def answer_capitals(self):
        self.answer(b"in a name that is not allowed", (f"X-{self.secret.decode()}", "1"))

    def answer_early(self):
        self.send_head(("link", f"<https://x/?{self.secret.decode()}>"), status=103)
        self.answer(b"after a hint")

    def answer_trailer(self):
        self.send_head()
        self.send(b"ok")
        with self.host.lock:
            name = "x-" + self.secret.decode().lower() if self.words.get("name") else "x-seen"
            self.host.connection.send_headers(self.id, [(name, self.secret.decode())], end_stream=True)
            self.host.flush()

    def answer_drip(self):
        self.send_head()
        for i, byte in enumerate(data := b"start " + self.secret + b" end"):
            self.send(bytes([byte]), end=i == len(data) - 1, padding=i % 3)

    def answer_events(self):
        self.send_head(("content-type", "text/event-stream"))
        for i in range(3):
            self.send(b"id: %d\ndata: " % i + self.secret + b"\n\n", end=i == 2)

    def answer_wait(self):
        self.send_head()
        for _ in range(int(float(self.words.get("seconds", 60)) * 20)):
            self.send(b"tick\n")
            time.sleep(0.05)
        self.send(b"", end=True)

    def answer_bytes(self):
        size = int(self.words["size"])
        self.send_head(("content-length", str(size)))
        for left in range(size, 0, -16000):
            self.send(bytes(min(left, 16000)), end=left <= 16000)

    def answer_cut(self):
        self.send_head(("content-length", "100000"))
        self.send(b"start " + self.secret)
        with self.host.lock:
            self.host.connection.reset_stream(self.id, RESETS.INTERNAL_ERROR)
            self.host.flush()

    def answer_part(self):
        self.answer(self.secret, ("content-range", "bytes 0-39/40"), status=206)

    def answer_alternative(self):
        with self.host.lock:
            self.host.connection.advertise_alternative_service(b'h3=":443"', stream_id=self.id)
        self.answer(b"there", ("alt-svc", 'h3=":443"; ma=86400'))

    def answer_store(self):
        self.host.record.stored = self.secret
        self.answer(b"kept")

    def answer_stored(self):
        self.answer(b"you once said " + self.host.record.stored)

    def answer_refused(self):
        self.answer(b"bad token " + self.secret, ("www-authenticate", f"Bearer realm={self.secret.decode()}"), status=401)

    def answer_grpc(self):
        """Says what it was told, as one message; `coding` as gRPC names it, `label` when it lies about it."""
        coding = self.words.get("coding")
        told = self.head + b"\n" + self.body
        fields = [("grpc-encoding", self.words.get("label", coding))] if coding else []
        self.send_head(("content-type", "application/grpc"), *fields)
        message = grpc_message(told, coding)
        for i in range(0, len(message), 100):
            self.send(message[i : i + 100])
        if self.words.get("half"):
            self.send(grpc_message(b"x" * 100, coding)[:-1])
        with self.host.lock:
            self.host.connection.send_headers(self.id, [("grpc-status", "0"), ("grpc-message", self.secret.decode())],
                                              end_stream=True)
            self.host.flush()
