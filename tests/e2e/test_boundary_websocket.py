"""The same promises over WebSocket: every message is looked at, on both ways."""

import base64
import dataclasses
import json
import threading
import time

from boundary.cases import A, AUTH, B, B_SEEN, OTHER, BoundaryTest, Case, add_cases
from boundary.websocket_host import BINARY, CLOSE, CONTINUATION, PING, TEXT, deflated, frame, read_frames
from boundary.world import BINDINGS, Attacker, enter
from pons_fixture import wait_for

# As a close begins: whoever has read one need not wait for the end of the connection.
CLOSES = [f"\x03{chr(code - 768)}" for code in (1001, 1002, 1007, 1008, 1009)]
MISMATCH, UNDECLARED = "credential_endpoint_mismatch", "undeclared_position"


def setUpModule():
    enter()


def upgrade(path="/socket", *fields, host=A):
    return "\r\n".join((f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
                        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==", *fields)) + "\r\n\r\n"


def out(opcode, payload, **more):
    return frame(opcode, payload, masked=True, **more)


class WebSocketTest(BoundaryTest):
    """A case sends `build(stub)`, a list of what is written one after the other, and then a last message."""

    STOPS = (UNDECLARED, MISMATCH, "secret_in_request")
    count = 0

    def attack(self, case, way):
        BASE.count += 1
        self.last = b"last message %d." % BASE.count
        build = case.build[0] if case.build else lambda stub: []
        value = self.world.secrets[case.credential] if case.name.startswith("S16") else self.stubs[case.credential]
        later = [piece.decode("latin-1") for piece in build(value.encode())]
        later.append(out(TEXT, self.last).decode("latin-1"))
        more = {"later": later, "await_head": True, "until_closed": True, "seconds": 10, "later_pause": 0.001, "until": [self.last.decode(), *CLOSES],
                **case.more}
        super().attack(dataclasses.replace(case, more=more), way)

    def messages(self, answer):
        """What came after the head."""
        return list(read_frames(answer.data.partition(b"\r\n\r\n")[2]))

    def arrived(self, host=A):
        try:
            with open(self.world.internet.received_by(host)[0], "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def check_open(self, case, answer, events, requests):
        """All was carried, to the last message."""
        self.assertEqual(answer.status, 101, answer)
        self.assertIn((TEXT, self.last), self.messages(answer))
        leak = self.world.find_leak(b"\n".join(payload for _, payload in self.messages(answer)))
        self.assertIsNone(leak, f"a message holds a secret ({leak})")
        self.assertIn(events[-1]["verdict"], ("swap", "scrub", "allow"))

    def check_stopped(self, case, answer, events, requests):
        """Open, and then closed before what must not leave."""
        self.assertEqual(answer.status, 101, answer)
        self.assertNotIn((TEXT, self.last), self.messages(answer))
        self.assertEqual([(event["verdict"], event["code"]) for event in events], [("cut", case.code)], events)
        if case.code in self.STOPS:
            self.assertNotIn(self.last, self.arrived(case.host))
        for value in (*self.stubs.values(), self.world.secrets[case.credential]):
            self.assertNotIn(b"here: " + value.encode(), self.arrived(case.host))
        if case.code in self.STOPS:
            opcode, payload = self.messages(answer)[-1]
            self.assertEqual((opcode, payload), (CLOSE, b"\x03\xf0" + case.code.encode()))

    def check_unopened(self, case, answer, events, requests):
        """The host was asked, and what it said was not fit to be passed on."""
        self.assertEqual((answer.status, answer.code), (502, "upstream_failed"))


BASE = WebSocketTest


def socket_case(name, expect, build=None, path="/socket", fields=(AUTH,), host=A, **more):
    return Case(name, upgrade(path, *fields, host=host), expect, host=host, build=(build,) if build else (), **more)


def said(name, expect, what, code="", path="", **more):
    return socket_case(name, expect, path=path or f"/socket?say={what}", code=code, **more)


def cut_up(data, size, opcode=TEXT):
    """One message in many frames, with pings between them."""
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    for i, piece in enumerate(pieces):
        yield out(opcode if i == 0 else CONTINUATION, piece, final=i == len(pieces) - 1)
        yield out(PING, b"still here")


class Messages(WebSocketTest):
    def test_a_socket_ends_with_its_credential(self):
        """H13."""
        old = self.world.secrets["OTHER_KEY"]
        attacker, answer = Attacker(self.sandbox), []
        payload = self.fill(upgrade("/socket?say=ticks", "X-Api-Key: {S}", host=OTHER), "OTHER_KEY")
        work = threading.Thread(target=lambda: answer.append(
            attacker.ask(way="direct", host=OTHER, port=443, tls=True, payload=payload, until_closed=True, seconds=30)))
        work.start()
        wait_for(lambda: old.encode() in self.arrived(OTHER), "the socket is open")
        time.sleep(0.3)
        self.assertEqual(self.world.pons.command("vault", "rm", "OTHER_KEY").returncode, 0)
        work.join(5)  # a second; a busy machine gets more
        self.assertFalse(work.is_alive(), "it goes on")
        self.assertIn((TEXT, b"tick"), self.messages(answer[0]))
        self.world.set_secret("OTHER_KEY", old, BINDINGS["OTHER_KEY"])
        events, _ = self.settle()
        self.assertEqual([(event["verdict"], event["code"]) for event in events if event["kind"] == "decision"], [("cut", "cancelled")])

    def test_clients_as_people_use_them(self):
        """Both offer compression, and take no for an answer."""
        self.sandbox.write("/tmp/talk.mjs", (
            "const url = process.argv[2];\n"
            "const socket = new WebSocket(url, ['graphql-transport-ws']);\n"
            "socket.onopen = () => socket.send('hello');\n"
            "socket.onmessage = (event) => { console.log(event.data, socket.protocol, socket.extensions); socket.close(); };\n"
            "socket.onerror = (event) => console.log('failed', event.message);\n").encode())
        self.sandbox.write("/tmp/talk.py", (
            "import os, socket, ssl, sys\n"
            "from wsproto import WSConnection, ConnectionType, events as e\n"
            "from wsproto.extensions import PerMessageDeflate\n"
            "host = sys.argv[1]\n"
            "stream = ssl.create_default_context().wrap_socket(socket.create_connection((host, 443)), server_hostname=host)\n"
            "ws = WSConnection(ConnectionType.CLIENT)\n"
            "stream.sendall(ws.send(e.Request(host=host, target='/socket', extensions=[PerMessageDeflate()],\n"
            "    extra_headers=[(b'Authorization', b'Bearer ' + os.environb[b'GITHUB_TOKEN'])])))\n"
            "while True:\n"
            "    ws.receive_data(stream.recv(65536) or None)\n"
            "    for event in ws.events():\n"
            "        if isinstance(event, e.AcceptConnection):\n"
            "            print('extensions', event.extensions)\n"
            "            stream.sendall(ws.send(e.TextMessage(data='hello ' * 100)))\n"
            "        elif isinstance(event, e.TextMessage):\n"
            "            print(len(event.data)); stream.sendall(ws.send(e.CloseConnection(code=1000)))\n"
            "        elif isinstance(event, (e.CloseConnection, e.RejectConnection)):\n"
            "            print(type(event).__name__); sys.exit()\n").encode())
        job = self.sandbox.run(f"python3 /tmp/talk.py {A}")
        self.assertEqual(job.text.split("\n")[:3], ["extensions []", "600", "CloseConnection"], job)
        job = self.sandbox.run(f"node --experimental-websocket --no-warnings /tmp/talk.mjs 'wss://{B_SEEN}/socket?protocol=graphql-transport-ws'")
        self.assertEqual(job.text, "hello graphql-transport-ws \n", job)
        events, _ = self.settle()
        self.assertEqual([event["verdict"] for event in events], ["swap", "allow"])


add_cases(Messages, [
    socket_case("S01 the declared field of the bound host", "open"),
    socket_case("S01 a host without a binding", "open", fields=(), host=B_SEEN),
    socket_case("H08 messages of every kind and size", "open", lambda s: [
        out(TEXT, b"hello"), out(BINARY, bytes(range(256))), out(BINARY, bytes(70_000)), *cut_up(b"x" * 1000, 100), out(BINARY, bytes(3_000_000))]),
    *[socket_case(f"H08 a stub in {name}", "stopped", build, code=UNDECLARED) for name, build in {
        "the first text": lambda s: [out(TEXT, b"here: " + s)],
        "a binary message": lambda s: [out(BINARY, b"\0\1here: " + s)],
        "the third message": lambda s: [out(TEXT, b"a"), out(BINARY, b"b"), out(TEXT, b"here: " + s)],
        "fragments": lambda s: list(cut_up(b"here: " + s, 7)),
        "fragments of one letter": lambda s: list(cut_up(b"here: " + s, 1, BINARY)),
        "the end of a large message": lambda s: [out(BINARY, bytes(2_000_000) + b"here: " + s)],
        "base64": lambda s: [out(TEXT, base64.b64encode(s))],
        "JSON": lambda s: [out(TEXT, json.dumps({"token": "here: " + s.decode()}).encode())],
        "hex": lambda s: [out(TEXT, s.hex().encode())]}.items()],
    socket_case("D02 a stub to a host without a binding", "stopped", lambda s: [out(TEXT, b"here: " + s)], fields=(), host=B_SEEN, code=MISMATCH),
    socket_case("S16 the real value", "stopped", lambda r: [out(TEXT, b"here: " + r)], code="secret_in_request"),
    socket_case("S16 the real value to another host", "stopped", lambda r: list(cut_up(b"here: " + r, 9)), fields=(), host=B_SEEN,
                code="secret_in_request"),
    *[socket_case(f"H08 {name}", "stopped", build, code="malformed_request") for name, build in {
        "compression that was not agreed on": lambda s: [out(TEXT, deflated(b"here: " + s), reserved=0x40)],
        "a frame that is not masked": lambda s: [frame(TEXT, b"here: " + s)],
        "a message over the limit": lambda s: [out(BINARY, bytes(5_000_000) + b"here: " + s)],
        "a length that is only promised": lambda s: [b"\x82\xff" + (1 << 62).to_bytes(8, "big") + b"abcd" + s],
        "a kind that nobody knows": lambda s: [out(3, b"here: " + s)],
        "a long ping": lambda s: [out(PING, b"x" * 100 + s)],
        "text that is none": lambda s: [out(TEXT, b"\xff\xfehere: " + s)],
        "H10 bytes that are no frames": lambda s: [b"GET /x HTTP/1.1\r\nHost: " + A.encode() + b"\r\nX: here: " + s + b"\r\n\r\n"]}.items()],
    socket_case("a stub in a ping goes nowhere", "open", lambda s: [out(PING, b"here: " + s)],
                check=lambda test, answer, requests: test.assertNotIn(b"here: ", test.arrived()[-1000:])),
    socket_case("a stub as the reason of a close goes nowhere", "closing", lambda s: [out(CLOSE, b"\x03\xe8here: " + s)]),
])
Messages.check_closing = lambda self, case, answer, events, requests: (
    self.assertEqual(answer.status, 101), self.assertNotIn(b"here: ", self.arrived()[-1000:]))


class Handshakes(WebSocketTest):
    pass


def offered(words, **more):
    return {"fields": (AUTH, f"Sec-WebSocket-Protocol: {words}"), **more}


add_cases(Handshakes, [
    socket_case("S02 a stub in the path", "block", path="/socket/{S}", code=UNDECLARED),
    socket_case("S02 a stub as a protocol", "block", **offered("{S}"), code=UNDECLARED),
    socket_case("S02 a stub among protocols", "block", **offered("graphql-ws, bearer.{S}"), code=UNDECLARED),
    socket_case("S02 a stub as a key", "block", fields=(AUTH, "X-Key: {S}"), code=UNDECLARED),
    socket_case("S02 a stub as an extension", "block", fields=(AUTH, "Sec-WebSocket-Extensions: {S}"), code=UNDECLARED),
    socket_case("T01 the attacker's own key", "block", fields=("Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345",),
                code="foreign_credential"),
    *[socket_case(f"T01 a foreign token as a protocol: {word[:40]}", "block", **offered(word), code="foreign_credential") for word in (
        "ghp_0123456789abcdefghijABCDEFGHIJ012345", "realtime, openai-insecure-api-key.sk-abcdefghijklmnopqrstuvwx",
        "base64url.bearer.authorization.k8s.io.ZXlKaGJHY2lPaUpT", "Bearer, eyJhbGciOiJIUzI1NiJ9", "0123456789abcdef",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "abcdefghijklmnopqrst", "a b", "header-eyJob3N0IjoiYXBpLmdpdGh1Yi5jb20ifQ")],
    socket_case("T01 in the query", "block", path="/socket?access_token=attackers-own-token", code="foreign_credential"),
    *[socket_case(f"U04 a protocol as usual: {word}", "open", path="/socket?protocol=" + word.split(",")[0], **offered(word),
                  holds=f"Sec-WebSocket-Protocol: {word.split(',')[0]}")
      for word in ("graphql-transport-ws", "v5.channel.k8s.io, v4.channel.k8s.io", "wamp.2.json", "openai-beta.realtime-v1", "mqtt")],
    socket_case("any word to a host without a binding", "open", fields=("Sec-WebSocket-Protocol: ghp_0123456789abcdefghijABCDEFGHIJ012345",),
                host=B_SEEN),
    socket_case("a protocol that was not offered", "unopened", path="/socket?protocol=SECRET"),
    socket_case("an extension that was not offered", "unopened", path="/socket?extension=1"),
    socket_case("an extension that the client offers is not agreed on", "open", fields=(AUTH, "Sec-WebSocket-Extensions: permessage-deflate"),
                lacks="Extensions"),
    socket_case("R01 a secret in the head of the answer", "open", path="/socket?field=1"),
    socket_case("a host that does not switch", "unopened", path="/echo"),
    Case("H11 another upgrade", upgrade("/socket", AUTH).replace("Upgrade: websocket", "Upgrade: own"), "block", code="unknown_upgrade"),
    Case("H11 an upgrade to HTTP/2", upgrade("/socket", AUTH, "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA").replace(
        "Upgrade: websocket", "Upgrade: h2c"), "block", code="unknown_upgrade"),
])


class Answers(WebSocketTest):
    pass


add_cases(Answers, [
    *[said(f"R01 in {what}", "open", what, holds="{S}") for what in ("text", "binary", "fragments")],
    said("R01 in base64", "open", "base64"),
    said("R01 in a large message", "open", "large", holds="{S}"),
    said("R01 in a ping", "open", "ping"),
    said("R01 as the reason of a close", "ended", "close"),
    said("R01 spread over two messages", "stopped", "two%20messages", code="secret_in_answer"),
    said("R01 a letter in each message", "stopped", "letters", code="secret_in_answer"),
    said("R04 compressed without an agreement", "stopped", "deflated", code="upstream_failed"),
    said("a message over the limit", "stopped", "too%20large", code="upstream_failed"),
    said("H10 bytes that are no frames", "stopped", "raw", code="upstream_failed"),
])
Answers.check_ended = lambda self, case, answer, events, requests: self.assertEqual(answer.status, 101)

del BoundaryTest, WebSocketTest  # or they would run by themselves
