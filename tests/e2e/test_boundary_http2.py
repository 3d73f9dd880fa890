"""The same promises over HTTP/2: frames by hand where they must be wrong, and clients as people use them."""

import base64
import dataclasses
import json
import struct
import threading
import time

from boundary.bodies import HIDDEN, UNSEEN, made
from boundary.cases import A, B, B_SEEN, E, OTHER, BoundaryTest, Case, add_cases, get
from boundary.codings import CODINGS, ENCODINGS
from boundary.http2_host import grpc_message
from boundary.neighbour import Neighbour
from boundary.world import BINDINGS, Attacker, Received, enter
from pons_fixture import wait_for
from sandbox_world import rss_bytes

MIB = 1 << 20
MISMATCH, UNDECLARED = "credential_endpoint_mismatch", "undeclared_position"
TOKEN = ["authorization", "Bearer {S}"]
FOREIGN = "Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345"


def setUpModule():
    enter()


def head(path="/", *fields, host=A, method="GET", scheme="https"):
    return [[":method", method], [":scheme", scheme], [":authority", host], [":path", path], *[list(each) for each in fields]]


def steps(*each, **more):
    """For attack_http2.py."""
    return {"work": "http2", "protocols": ["h2"], "steps": list(each), **more}


def h2_case(name, path, expect, *fields, host=A, method="GET", body=None, tls=True, ways=("direct", "connect"), ask=None,
            data=None, **more):
    """A request like any other, over HTTP/2."""
    request = ["headers", 1, head(path, *fields, host=host, method=method, scheme="https" if tls else "http"), {"end": body is None}]
    script = [request] + ([["data", 1, body, data or {}]] if body is not None else [])
    return Case(name, "", expect, host=host, tls=tls, ways=ways, more=steps(*script, **(ask or {})), **more)


def wrong_case(name, fields, expect="reset", body=None, **more):
    """A head that is not one."""
    script = [["headers", 1, fields, {"end": body is None}]] + ([["data", 1, body]] if body is not None else [])
    return Case(name, "", expect, more=steps(*script), **more)


class Http2Test(BoundaryTest):
    protocols = ("h2", "http/1.1")

    def streams(self, answer):
        """What came on each, as it would have come over HTTP/1.1."""
        return [(Received(base64.b64decode(each["text"]), each["end"]), each["trailers"]) for each in answer.more]

    def check_oracle(self, received, events, requests, wanted_events):
        super().check_oracle(received, events, requests, wanted_events)
        for request in requests:
            if request["target"].startswith("/h1"):
                continue
            self.assertEqual(request["protocol"], "h2", "it was translated")
        for event in events:
            if event.get("path"):
                self.assertEqual(event["protocol"], "h2")

    def check_swap(self, case, answer, events, requests):
        super().check_swap(case, answer, events, requests)
        for _, trailers in self.streams(answer):
            leak = self.world.find_leak(json.dumps(trailers).encode())
            self.assertIsNone(leak, f"a secret ({leak}) is in a trailer")

    check_scrub = check_swap

    def check_reset(self, case, answer, events, requests):
        """Neither an answer nor a request."""
        self.assertEqual(requests, [], "something left")
        self.assertIsNone(answer.status, answer)
        self.assertRegex(answer.end, "reset|goaway", answer)
        self.assertEqual({event["code"] for event in events}, {"malformed_request"}, events)

    def check_undelivered(self, case, answer, events, requests):
        self.assertNotEqual(answer.status, 200)
        self.assertNotEqual(case.events, 0)

    def check_cut(self, case, answer, events, requests):
        super().check_cut(case, answer, events, requests)
        self.assertEqual(events[-1]["verdict"], "cut", events)


class Requests(Http2Test):
    """Where a request goes, how it is written, and where a stub hides in it."""

    def test_many_streams_at_once_are_each_looked_at(self):
        """H04: pieces of a stub in one stream, and all of it in another, frames mixed."""
        stub = self.stubs["GITHUB_TOKEN"]
        script = [["headers", i, head(f"/x/{i}", ["authorization", f"Bearer {stub}"], method="POST"), {"end": False}] for i in (1, 3, 5)]
        for i, letter in enumerate(stub):
            script.append(["data", 1, letter, {"end": False, "padding": 1 + i % 7}])  # all of it, letter by letter
            script.append(["data", 3, stub[: 20][i % 20], {"end": False}])  # never all of it
            script.append(["data", 5, "x", {"end": False}])
        script += [["data", i, "", {}] for i in (1, 3, 5)]
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, payload="", **steps(*script))
        events, requests = self.settle()
        self.check_oracle(answer.data, events, [], 3)
        statuses = [one.status for one, _ in self.streams(answer)]
        self.assertEqual(statuses, [403, 200, 200], answer)
        self.assertEqual(sorted(request["target"] for request in requests), ["/x/3", "/x/5"])
        self.assertEqual([event["code"] for event in events if event["verdict"] == "block"], [UNDECLARED])

    def test_a_refused_stream_leaves_the_others_alone(self):
        stub = self.stubs["GITHUB_TOKEN"]
        auth = ["authorization", f"Bearer {stub}"]
        script = [["headers", 1, head("/x/1", auth)], ["headers", 3, head("/x/3", auth, ["x-other", stub])],
                  ["headers", 5, head("/x/5", auth, host=B)], ["headers", 7, head("/x/7", auth, ["Upper", "1"])], ["headers", 9, head("/x/9", auth)]]
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, payload="", **steps(*script))
        events, requests = self.settle()
        self.check_oracle(answer.data, events, [], 5)
        self.assertEqual([one.status for one, _ in self.streams(answer)], [200, 403, 403, None, 200], answer)
        self.assertEqual(sorted(request["target"] for request in requests), ["/x/1", "/x/9"])

    def test_a_stub_of_another_sandbox_opens_nothing(self):
        other = self.world.sandbox("neighbour")
        self.addCleanup(other.destroy)
        foreign = Attacker(other).environment["GITHUB_TOKEN"]
        self.attack(h2_case("L01", "/x", "block", ["authorization", f"Bearer {foreign}"], code="foreign_credential"), "direct")


add_cases(Requests, [
    h2_case("S01 the declared field of the bound host", "/x", "swap", TOKEN),
    h2_case("S01 with padding and in many frames", "/x", "swap", TOKEN, ways=("direct",)),
    h2_case("S01 a body", "/x", "swap", TOKEN, method="POST", body="hello", holds='"bytes": 5'),
    h2_case("S01 in the query where it is declared", "/x?key={S}&a=b", "swap", host="query.example.com", credential="QUERY_KEY"),
    h2_case("S01 in the path where it is declared", "/bot/{S}/send", "swap", host="path.example.com", credential="PATH_KEY"),
    h2_case("D02 an allowed host without a binding", "/x", "block", TOKEN, host=B_SEEN, code=MISMATCH),
    h2_case("D02 the same without TLS", "/x", "block", TOKEN, host=B, tls=False, code=MISMATCH),
    h2_case("D03 a stub at another credential's host", "/x", "block", ["x-api-key", "{S}"], host=OTHER, code=MISMATCH),
    h2_case("D03 in its usual field", "/x", "block", TOKEN, host=OTHER, code=MISMATCH),
    h2_case("A over a plain line gets no secret", "/x", "block", TOKEN, tls=False, code=MISMATCH),
    Case("D01 a host that is not allowed", "", "block", host=E, code="host_not_allowed", ways=("connect",),
         more=steps(["headers", 1, head("/x", TOKEN, host=E)])),
    Case("D06 the server name of another", "", "block", code="sni_host_mismatch",
         more=steps(["headers", 1, head("/x", TOKEN)], server_name=B)),
    Case("D27 a host that cannot prove its name", "", "block", host="expired.bad.example.com", code="upstream_tls", credential="BAD_HOSTS_KEY",
         more=steps(["headers", 1, head("/x", TOKEN, host="expired.bad.example.com")])),
    Case("D14 an authority that the certificate covers as well", "", "block", code="host_mismatch",
         more=steps(["headers", 1, head("/x", TOKEN, host=OTHER)])),
    Case("D14 an authority that is allowed", "", "block", code="host_mismatch", more=steps(["headers", 1, head("/x", TOKEN, host=B)])),
    Case("H01 an authority of a stranger", "", "block", code="host_mismatch", more=steps(["headers", 1, head("/x", TOKEN, host=E)])),
    Case("H01 another port", "", "block", code="host_mismatch", more=steps(["headers", 1, head("/x", TOKEN, host=A + ":8443")])),
    Case("H01 Host of a stranger beside the right authority", "", "block", code="malformed_request",
         more=steps(["headers", 1, head("/x", TOKEN, ["host", E])])),
    wrong_case("H01 Host twice", head("/x", TOKEN, ["host", A], ["host", E])),
    h2_case("D15 an authority in other letters", "/echo", "scrub", TOKEN, ask={"steps": [["headers", 1, head("/echo", TOKEN, host="API.GitHub.Com")]]},
            holds="{S}"),
    wrong_case("H02 no authority", [each for each in head("/x", TOKEN) if each[0] != ":authority"], "refused"),
    wrong_case("H02 no authority but Host", [each for each in head("/x", TOKEN, ["host", A]) if each[0] != ":authority"], "refused"),
    wrong_case("H02 an empty authority", head("/x", TOKEN, host=""), "refused"),
    wrong_case("H02 no path", [each for each in head("/x", TOKEN) if each[0] != ":path"]),
    wrong_case("H02 no method", [each for each in head("/x", TOKEN) if each[0] != ":method"]),
    wrong_case("H02 the path twice", [[":path", "/y"], *head("/x", TOKEN)]),
    wrong_case("H02 the authority twice", [[":authority", E], *head("/x", TOKEN)]),
    wrong_case("H02 a pseudo field behind others", [*head("/x", TOKEN), [":authority", E]]),
    wrong_case("H02 an unknown pseudo field", [[":own", "1"], *head("/x", TOKEN)]),
    wrong_case("H02 a pseudo field of answers", [[":status", "200"], *head("/x", TOKEN)]),
    wrong_case("H02 capitals in a name", head("/x", TOKEN, ["X-Upper", "1"])),
    wrong_case("H02 capitals in the name of the credential", head("/x", ["Authorization", "Bearer {S}"])),
    wrong_case("H02 CRLF in a value", head("/x", TOKEN, ["x-a", "1\r\nx-b: 2"])),
    wrong_case("H02 LF in a value", head("/x", TOKEN, ["x-a", "1\nx-b: 2"])),
    wrong_case("H02 NUL in a value", head("/x", TOKEN, ["x-a", "1\x002"])),
    wrong_case("H02 a colon in a name", head("/x", TOKEN, ["x-a:b", "1"])),
    wrong_case("H02 a space in a name", head("/x", TOKEN, ["x a", "1"])),
    wrong_case("H02 CRLF in a name", head("/x", TOKEN, ["x-a\r\nx-b", "1"])),
    wrong_case("H02 an empty name", head("/x", TOKEN, ["", "1"])),
    wrong_case("H06 CRLF in the path", head("/x HTTP/1.1\r\nHost: " + E, TOKEN)),
    wrong_case("H06 CRLF in the method", head("/x", TOKEN, method="GET /y HTTP/1.1\r\nX: ")),
    wrong_case("H06 a space in the path", head("/x HTTP/1.1", TOKEN), "refused"),
    wrong_case("H06 a space in the method", head("/x", TOKEN, method="GET /y"), "refused"),
    wrong_case("H06 CRLF in the authority", head("/x", TOKEN, host=A + "\r\nX-A: 1")),
    wrong_case("D19 NUL in the authority", head("/x", TOKEN, host=E + "\0." + A)),
    wrong_case("D21 userinfo in the authority", head("/x", TOKEN, host=f"{A}@{E}"), "refused"),
    wrong_case("H06 another scheme", head("/x", TOKEN, scheme="http"), "refused"),
    wrong_case("P07 a whole address as the path", head(f"https://{E}/", TOKEN), "refused"),
    wrong_case("P08 the whole server", head("*", TOKEN, method="OPTIONS"), "refused"),
    wrong_case("P03 transfer-encoding", head("/x", TOKEN, ["transfer-encoding", "chunked"], method="POST"), body="0\r\n\r\n"),
    wrong_case("P12 connection", head("/x", TOKEN, ["connection", "authorization"])),
    wrong_case("H11 upgrade", head("/x", TOKEN, ["upgrade", "websocket"])),
    wrong_case("H02 te that asks for more", head("/x", TOKEN, ["te", "gzip"])),
    wrong_case("H06 a content-length that promises more", head("/x", TOKEN, ["content-length", "50"], method="POST"), "unfinished", body="hello"),
    wrong_case("H06 a content-length that promises less", head("/x", TOKEN, ["content-length", "2"], method="POST"), "unfinished", body="hello"),
    wrong_case("H06 two content-lengths", head("/x", TOKEN, ["content-length", "5"], ["content-length", "6"], method="POST"), body="hello"),
    wrong_case("H06 a content-length without a body", head("/x", TOKEN, ["content-length", "5"])),
    wrong_case("H11 CONNECT", [[":method", "CONNECT"], [":authority", E + ":443"]], "refused"),
    wrong_case("H11 CONNECT to the same host", [[":method", "CONNECT"], [":authority", A + ":443"]], "refused"),
    wrong_case("H11 extended CONNECT for WebSocket", [[":method", "CONNECT"], [":protocol", "websocket"], [":scheme", "https"],
                                                       [":authority", A], [":path", "/x"], TOKEN]),
    wrong_case("H11 CONNECT-UDP", [[":method", "CONNECT"], [":protocol", "connect-udp"], [":scheme", "https"], [":authority", A],
                                   [":path", f"/.well-known/masque/udp/{E}/443/"], ["capsule-protocol", "?1"]]),
    Case("R03 TRACE", "", "block", code="method_not_allowed", more=steps(["headers", 1, head("/x", TOKEN, method="TRACE")])),
    h2_case("S02 undeclared field", "/x", "block", TOKEN, ["x-other", "{S}"], code=UNDECLARED),
    h2_case("S02 path", "/x/{S}", "block", TOKEN, code=UNDECLARED),
    h2_case("S02 query", "/x?a={S}", "block", TOKEN, code=UNDECLARED),
    h2_case("S02 cookie crumbs", "/x", "block", TOKEN, ["cookie", "a={S}"], ["cookie", "b=1"]),
    h2_case("S02 body", "/x", "block", TOKEN, method="POST", body='{"a": "{S}"}', code=UNDECLARED),
    h2_case("H04 a letter in each frame", "/x", "block", TOKEN, method="POST", body="a {S} b", data={"size": 1}, code=UNDECLARED),
    h2_case("H04 with padding", "/x", "block", TOKEN, method="POST", body="a {S} b", data={"size": 3, "padding": 200}, code=UNDECLARED),
    h2_case("H04 to another host", "/x", "block", host=B_SEEN, method="POST", body="a {S} b", data={"size": 3}, code=MISMATCH),
    h2_case("S11 behind 60 KB", "/x", "block", TOKEN, method="POST", body="x" * 60_000 + "{S}", code=UNDECLARED),
    h2_case("S11 behind 300 KB", "/x", "late", TOKEN, method="POST", body="x" * 300_000 + "{S}"),
    h2_case("S16 the real value in its place", "/x", "block", ["authorization", "Bearer {R}"], code="secret_in_request"),
    h2_case("S16 the real value in a body", "/x", "block", TOKEN, method="POST", body="{R}", data={"size": 7}, code="secret_in_request"),
    h2_case("S16 the real value to another host", "/x?{R}", "block", host=B_SEEN, code="secret_in_request"),
    h2_case("T01 the attacker's own key", "/x", "block", ["authorization", FOREIGN], code="foreign_credential"),
    h2_case("T01 beside ours", "/x", "block", TOKEN, ["authorization", FOREIGN], code="duplicate_credential"),
    h2_case("T01 in another field", "/x", "block", ["private-token", "attackers-own-token"], code="foreign_credential"),
    h2_case("T01 in the query", "/x?access_token=attackers-own-token", "block", code="foreign_credential"),
    h2_case("T01 in cookie crumbs", "/x", "block", ["cookie", "session=attackers-own"], code="foreign_credential"),
    h2_case("P14 the credential twice", "/x", "block", TOKEN, TOKEN, code="duplicate_credential"),
    h2_case("P17 another method in a field with underscores", "/echo", "block", TOKEN, ["x_http_method_override", "DELETE"],
            code="malformed_request"),
    h2_case("P17 another method in a field is dropped", "/echo", "scrub", TOKEN, ["x-http-method-override", "DELETE"], lacks="override"),
    h2_case("P21 forged origins are dropped", "/echo", "scrub", TOKEN, ["x-forwarded-for", "1.2.3.4"], ["forwarded", "for=1.2.3.4"],
            ["via", "2 x"], ["x-pons-sandbox", "other"], lacks="1.2.3.4"),
    h2_case("P18 two hundred fields", "/x", "block", TOKEN, *[[f"x-{i}", "1"] for i in range(200)], code="malformed_request"),
    Case("P11 a trailer that is clean", "", "swap", holds='"bytes": 5', more=steps(
        ["headers", 1, head("/x", TOKEN, method="POST"), {"end": False}], ["data", 1, "hello", {"end": False}],
        ["headers", 1, [["x-a", "b"]]])),
    Case("P11 a stub in a trailer", "", "block", code="undeclared_position", more=steps(
        ["headers", 1, head("/x", TOKEN, method="POST"), {"end": False}], ["data", 1, "hello", {"end": False}],
        ["headers", 1, [["x-a", "{S}"]]])),
    Case("a head in many frames, padded", "", "swap", more=steps(
        ["headers", 1, head("/x", TOKEN, ["x-a", "y" * 3000]), {"split": 700, "padding": 99}])),
    Case("a head in Huffman's letters", "", "swap", more=steps(["headers", 1, head("/x", TOKEN)], huffman=True)),
    h2_case("R03 Max-Forwards is dropped", "/echo", "scrub", TOKEN, ["max-forwards", "0"], lacks="max-forwards"),
])


def check_refused(self, case, answer, events, requests):
    """In HTTP/2's way or in HTTP's: both are clear."""
    self.assertEqual(requests, [], "something left")
    if answer.status is None:
        self.check_reset(case, answer, events, requests)
    else:
        self.assertIn(answer.code, ("malformed_request", "host_mismatch", "method_not_allowed"), answer)
        self.assertEqual({event["code"] for event in events}, {answer.code}, events)


def check_unfinished(self, case, answer, events, requests):
    """Its head was a good one, so that it is a request; but it did not leave."""
    self.assertEqual(requests, [], "something left")
    self.assertNotEqual(answer.status, 200)


def check_late(self, case, answer, events, requests):
    """Its head has left by then. The stub has not."""
    self.assertEqual([event["code"] for event in events], [UNDECLARED], events)
    self.assertNotEqual(answer.status, 200)
    with open(self.world.internet.received_by(A)[0], "rb") as file:
        self.assertNotIn(self.stubs["GITHUB_TOKEN"].encode(), file.read())


Http2Test.check_refused, Http2Test.check_unfinished, Http2Test.check_late = check_refused, check_unfinished, check_late


class Bodies(Http2Test):
    """What hides in a body is found whatever carries it, in frames that end anywhere."""

    def attack(self, case, way):
        body, fields = made(self, case)
        given = [[name.lower(), value] for name, _, value in (field.partition(": ") for field in fields)]
        request = head("/x", *([TOKEN] if case.host == A else []), *given, host=case.host, method="POST")
        size = 61 if len(body) < 10_000 else 4001
        script = [["headers", 1, request, {"end": False}], ["data", 1, body, {"size": size}]]
        super().attack(dataclasses.replace(case, more=steps(*script)), way)


add_cases(Bodies, [*HIDDEN, *UNSEEN])


class Answers(Http2Test):
    """What comes back."""

    def test_what_a_host_kept_is_scrubbed_later_without_the_credential(self):
        """R11, over both versions."""
        self.attack(h2_case("R11", "/store", "swap", TOKEN), "direct")
        self.attack(h2_case("R11", "/stored", "pass", holds="{S}"), "direct")
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, payload=get("/stored"))
        self.assertIsNone(self.world.find_leak(answer.data), answer)
        self.settle()


def scrubbed(name, path, expect="scrub", **more):
    return h2_case(name, path, expect, TOKEN, **more)


add_cases(Answers, [
    scrubbed("R01 the head of the request", "/echo", holds="{S}"),
    *[scrubbed(f"R01 as {name}", f"/echo?encoding={name}", ways=("direct",)) for name in ENCODINGS],
    *[scrubbed(f"R04 {name}", "/echo?coding=" + name.replace(", ", ",%20"), holds="{S}", ways=("direct",)) for name in CODINGS],
    scrubbed("R04 a label that lies", "/echo?coding=gzip&label=br", "cut"),
    scrubbed("R04 an unknown label", "/echo?coding=gzip&label=x-own", "undelivered"),
    scrubbed("R01 in fields", "/field", holds="{S}"),
    scrubbed("R01 in a field's name", "/field-name", "undelivered"),
    scrubbed("R01 in a field's name with capitals", "/capitals", "undelivered"),
    scrubbed("R01 in early hints", "/early"),
    scrubbed("R01 in a trailer", "/trailer"),
    scrubbed("R01 in the name of a trailer", "/trailer?name=1", "cut"),
    scrubbed("R01 a byte in each frame", "/drip", holds="{S}"),
    scrubbed("R01 in events", "/events", holds="{S}"),
    scrubbed("R07 a stream that is cut off", "/cut", "cut"),
    scrubbed("a part that nobody asked for", "/part", "undelivered"),
    scrubbed("R13 the words of a 401", "/refused", "undelivered", holds="{S}"),
    scrubbed("H14 Alt-Svc is dropped", "/alternative", lacks="h3="),
])


GRPC = [["content-type", "application/grpc"], ["te", "trailers"]]


class Grpc(Http2Test):
    """H12: metadata is a field like others; messages are looked into however they are packed."""

    def attack(self, case, way):
        build, fields = case.build
        body = build(self.stubs["GITHUB_TOKEN"].encode()).decode("latin-1")
        request = head(case.payload or "/grpc", TOKEN, *GRPC, *fields, method="POST", host=case.host)
        script = [["headers", 1, request, {"end": False}], ["data", 1, body, {"size": 50}]]
        super().attack(dataclasses.replace(case, payload="", more=steps(*script)), way)

    def check_answered(self, case, answer, events, requests):
        self.check_swap(case, answer, events, requests)
        (_, trailers), = self.streams(answer)
        self.assertEqual(trailers.get("grpc-status"), "0")
        self.assertEqual(trailers.get("grpc-message"), self.stubs["GITHUB_TOKEN"])
        flag, size = struct.unpack("!BI", answer.body[:5])
        self.assertEqual((flag, size), (0, len(answer.body) - 5), "the messages are not what they say")
        self.assertIn(self.stubs["GITHUB_TOKEN"].encode(), answer.body)
        self.assertEqual(requests[0]["fields"].count("te"), 1, "trailers were not asked for")


def grpc_case(name, build, expect="block", fields=(), path="", **more):
    return Case(name, path, expect, build=(build, fields), **more)


def hello(stub):
    return grpc_message(b"hello")


def packed(coding, label=None, **more):
    return {"build": lambda stub: grpc_message(b"some text " * 9 + stub, coding),
            "fields": [["grpc-encoding", label or coding]], **more}


add_cases(Grpc, [
    grpc_case("metadata is swapped, messages and trailers come back", hello, "answered"),
    *[grpc_case(f"R04 an answer in {name}", hello, "answered", path=f"/grpc?coding={name}") for name in ("gzip", "deflate", "zstd")],
    grpc_case("R04 an answer whose label lies", hello, "cut", path="/grpc?coding=gzip&label=deflate"),
    grpc_case("R04 an answer with an unknown label", hello, "cut", path="/grpc?coding=gzip&label=own"),
    grpc_case("R04 an answer that ends inside a message", hello, "cut", path="/grpc?coding=gzip&half=1"),
    grpc_case("S02 in other metadata", hello, fields=[["x-own", "{S}"]], code=UNDECLARED),
    grpc_case("S02 in a message", lambda s: grpc_message(s), code=UNDECLARED),
    grpc_case("S02 in the second message", lambda s: hello(s) + grpc_message(s, "gzip"), fields=[["grpc-encoding", "gzip"]], code=UNDECLARED),
    *[grpc_case(f"S08 in a message in {name}", **packed(name), code=UNDECLARED) for name in ("gzip", "deflate", "zstd")],
    grpc_case("S08 an unknown label", **packed("gzip", "own"), code="undecodable_body"),
    grpc_case("S08 a label that lies", **packed("gzip", "zstd"), code="undecodable_body"),
    grpc_case("S08 no label", lambda s: grpc_message(s * 9, "gzip"), code="undecodable_body"),
    grpc_case("S08 the label twice", **packed("gzip") | {"fields": [["grpc-encoding", "identity"], ["grpc-encoding", "gzip"]]},
              code="undecodable_body"),
    grpc_case("S08 a flag that nobody knows", lambda s: b"\2" + grpc_message(b"hello")[1:], code="undecodable_body"),
    grpc_case("a message that ends early", lambda s: grpc_message(b"hello", "gzip")[:-1], fields=[["grpc-encoding", "gzip"]],
              code="undecodable_body"),
    grpc_case("messages in gzip that hold nothing", lambda s: grpc_message(b"hello", "gzip") * 3, "answered", fields=[["grpc-encoding", "gzip"]]),
])


class Clients(Http2Test):
    """Programs as people use them, and greetings."""

    def test_clients_speak_it_through_the_boundary(self):
        node = ("const http2 = require('http2'); const session = http2.connect('https://" + A + "');"
                "const request = session.request({':path': '/echo', ':method': 'POST', authorization: 'Bearer ' + process.env.GITHUB_TOKEN});"
                "let all = ''; request.on('data', (piece) => all += piece); request.on('end', () => {console.log(all); session.close();});"
                "request.end('from node');")
        programs = {
            "curl": f'curl -sS --http2 -d "from curl" -H "Authorization: Bearer $GITHUB_TOKEN" https://{A}/echo',
            "curl, proxy": f'curl -sS --http2 -x http://127.0.0.1:3128 -d "from curl" -H "Authorization: Bearer $GITHUB_TOKEN" https://{A}/echo',
            "node": f'node -e "{node}"',
            "nghttp": f'printf "from nghttp" > /tmp/body; nghttp -H "authorization: Bearer $GITHUB_TOKEN" -d /tmp/body https://{A}/echo',
        }
        for name, line in programs.items():
            with self.subTest(name):
                job = self.sandbox.run(line)
                self.assertIsNone(self.world.find_leak(job.output + job.error), job)
                self.assertIn("from " + name.partition(",")[0], job.text, job)
                self.assertIn(f"authorization: Bearer {self.stubs['GITHUB_TOKEN']}", job.text)
        events, requests = self.settle()
        self.check_oracle(b"", events, requests, len(programs))

    def test_a_refusal_can_be_read_by_clients_of_every_kind(self):
        """U09, also for those that speak nothing else."""
        for line in (f'curl -sS --http2 -H "Authorization: Bearer $GITHUB_TOKEN" https://{B_SEEN}/x',
                     f'nghttp --no-verify-peer -H "authorization: Bearer $GITHUB_TOKEN" https://{B_SEEN}/x'):
            job = self.sandbox.run(line)
            self.assertEqual(json.loads(job.text)["code"], MISMATCH, job)
        self.settle()

    def test_a_stream_ends_with_its_credential(self):
        """H13."""
        old = self.world.secrets["OTHER_KEY"]
        attacker, answer = Attacker(self.sandbox), []
        ask = steps(["headers", 1, head("/wait/revoked", ["x-api-key", self.stubs["OTHER_KEY"]], host=OTHER)], seconds=30)
        work = threading.Thread(target=lambda: answer.append(
            attacker.ask(way="direct", host=OTHER, port=443, tls=True, payload="", **ask)))
        work.start()
        wait_for(lambda: any(r["target"] == "/wait/revoked" for r in self.world.internet.new_requests()), "the stream is open")
        time.sleep(0.3)
        self.assertEqual(self.world.pons.command("vault", "rm", "OTHER_KEY").returncode, 0)
        work.join(5)  # a second; a busy machine gets more
        self.assertFalse(work.is_alive(), "it goes on")
        self.assertIn(b"tick", answer[0].data)
        self.world.set_secret("OTHER_KEY", old, BINDINGS["OTHER_KEY"])
        events, _ = self.settle()
        cut = [event["path"] for event in events if event["verdict"] == "cut"]
        self.assertEqual(cut, ["/wait/revoked"], events)

    def test_an_encrypted_greeting_does_not_pass(self):
        """D12: what it means is hidden, so it ends here, and the host that it names hears nothing of it."""
        for host in (B, A):
            for way in ("direct", "connect"):
                ask = {"work": "greeting", "way": way, "host": host, "port": 443}
                with self.subTest(host=host, way=way):
                    open_one = self.attacker.ask(**ask)
                    hidden = self.attacker.ask(**ask, encrypted=True)
                    self.assertEqual(b"Authority of the test" in open_one.data, host == B, "a plain greeting is as it always was")
                    self.assertNotIn(b"Authority of the test", hidden.data, "an encrypted greeting reached the host")
                    self.assertIn(b"Pons", hidden.data)
                    events, requests = self.settle()
                    self.assertEqual(requests, [])
                    # What was hidden asked for nothing; what passed unread is on record as what it is.
                    recorded = [(event["verdict"], event["host"], event["protocol"]) for event in events if event["kind"] == "decision"]
                    self.assertEqual([each for each in recorded if each[0] != "drop"], [("allow", host, "tls")] if host == B else [])
                    self.assertIn(("drop", host, "tls"), recorded, "a greeting that was ended here and led to nothing")


FRAME = {"settings": 4, "ping": 6, "window": 8, "continuation": 9, "headers": 1, "reset": 3, "data": 0}


class Floods(Http2Test):
    """H07, P18: one sandbox does its worst; its connection ends, another sandbox is served, and memory stays flat."""

    def setUp(self):
        other = self.world.sandbox("beside")
        self.addCleanup(other.destroy)
        self.beside = Attacker(other)
        self.neighbour = Neighbour(self, self.serve_neighbour)

    def rss(self):
        return rss_bytes(self.world.pons.role_pids()["egress"])

    def serve_neighbour(self):
        begun = time.monotonic()
        auth = ["authorization", f"Bearer {self.beside.environment['GITHUB_TOKEN']}"]
        answer = self.beside.ask(way="direct", host=A, port=443, tls=True, payload="", **steps(["headers", 1, head("/x", auth)], seconds=30))
        self.assertEqual(answer.status, 200, answer)
        return time.monotonic() - begun

    def flood(self, name, *script, ends="goaway", seconds=20, **more):
        """What came of it; meanwhile the neighbour is served."""
        before, answer = self.rss(), []
        ask = steps(*json.loads(self.fill(json.dumps(script), "GITHUB_TOKEN")), seconds=seconds, **more)
        work = threading.Thread(target=lambda: answer.append(
            self.attacker.ask(way="direct", host=A, port=443, tls=True, payload="", **ask)))
        work.start()
        waited, peak = [], before
        while work.is_alive() or len(waited) < 3:
            waited.append(self.serve_neighbour())
            peak = max(peak, self.rss())
        work.join()
        print(f"\n{name}: {answer[0].end}; {self.neighbour.tell(waited)}; egress grew by {(peak - before) / MIB:.1f} MiB")
        self.assertRegex(answer[0].end, ends)
        self.neighbour.assert_undisturbed(waited)
        self.assertLess(peak - before, 40 * MIB)
        wait_for(lambda: self.knock() or True, "the flooder is served again")

    def test_floods_of_frames(self):
        self.flood("100,000 resets", ["repeat", 100_000, [["headers", 0, head("/x", TOKEN)], ["frame", FRAME["reset"], 0, -1, "\0\0\0\x08"]]])
        self.flood("settings", ["repeat", 100_000, [["frame", FRAME["settings"], 0, 0, ""]]])
        self.flood("settings that nobody acknowledges", ["repeat", 100_000, [["frame", FRAME["settings"], 0, 0, ""]]], mute=True)
        self.flood("pings", ["repeat", 200_000, [["frame", FRAME["ping"], 0, 0, "12345678"]]], mute=True, ends="goaway|silent|closed|whole")
        self.flood("empty data", ["headers", 1, head("/x", TOKEN, method="POST"), {"end": False}],
                   ["repeat", 100_000, [["frame", FRAME["data"], 0, 1, ""]]])
        self.flood("a head without an end", ["frame", FRAME["headers"], 1, 1, "\x82"],
                   ["repeat", 100_000, [["frame", FRAME["continuation"], 0, 1, ""]]])
        self.flood("a head of megabytes", ["frame", FRAME["headers"], 1, 1, "\x82"],
                   ["repeat", 1000, [["frame", FRAME["continuation"], 0, 1, "\x00\x01a\x7f\x80\x7e" + "x" * 16000]]], ends="goaway|closed")
        self.flood("capitals", ["repeat", 20_000, [["headers", 0, head("/x", TOKEN, ["Upper", "1"])]]])
        self.world.internet.new_requests()
        events, _ = self.settle()
        self.assertLess(len(events), 20_000, "the floods are written down in full")

    def test_windows_that_never_open(self):
        """Answers that nobody takes wait at their host."""
        zero = struct.pack("!HI", 4, 0).decode("latin-1")
        self.flood("a hundred answers behind shut windows",
                   *[["headers", 2 * i + 1, head(f"/bytes/{i}?size=10000000", TOKEN)] for i in range(100)], ["pause", 2],
                   settings=zero, hold_window=True, wanted=-1, ends="silent", seconds=6)
        self.settle_all()

    def settle_all(self):
        """Decisions about what was cut off come when it is cut off."""
        wait_for(lambda: self.knock() or True, "the flooder is served again")
        counts = [-1]

        def quiet():
            counts.append(len(self.world.last_events(self.seen)))
            return len(counts) > 10 and len(set(counts[-10:])) == 1

        wait_for(quiet, "all decisions are on record", step=0.2)
        self.world.internet.new_requests()
        self.settle()

    def test_slow_heads_end(self):
        self.sandbox.write("/tmp/slow.py", (
            "import select, socket, ssl, sys, time\n"
            "host, held = sys.argv[1], []\n"
            "for i in range(60):\n"
            "    context = ssl.create_default_context()\n"
            "    context.set_alpn_protocols(['h2'] if i % 2 else ['http/1.1'])\n"
            "    stream = context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host)\n"
            "    begin = b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + bytes([0, 0x3f, 0, 1, 1, 0, 0, 0, 1])\n"
            "    stream.sendall(begin if i % 2 else b'GET /slow HTTP/1.1\\r\\nX-Slow: ')\n"
            "    held.append(stream)\n"
            "print('begun', flush=True)\n"
            "end, closed = time.monotonic() + 90, 0\n"
            "while held and time.monotonic() < end:\n"
            "    time.sleep(0.5)\n"
            "    for stream in list(held):\n"
            "        try:\n"
            "            stream.sendall(b'x'); stream.settimeout(0.001)\n"
            "            if stream.recv(4096) == b'': raise OSError\n"
            "        except (TimeoutError, ssl.SSLWantReadError): pass\n"
            "        except OSError: held.remove(stream); closed += 1\n"
            "print(closed, flush=True)\n").encode())
        before = self.rss()
        lines = self.sandbox.start(f"exec python3 /tmp/slow.py {A}", seconds=120)
        next(lines)
        self.assertEqual(next(lines)["output"]["bytes"], "begun\n")
        waited = self.neighbour.ask()
        grown = self.rss() - before
        job = self.sandbox.collect(lines)
        print(f"\n60 slow heads: {self.neighbour.tell(waited)}; egress grew by {grown / MIB:.1f} MiB")
        self.neighbour.assert_undisturbed(waited)
        self.assertEqual(job.text, "60\n", job)
        self.assertLess(grown, 40 * MIB)
        self.settle_all()


del BoundaryTest, Http2Test  # or they would run by themselves
