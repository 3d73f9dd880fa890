"""One attack: what is sent, and what must come of it; and the class that tries each on every way out."""

import dataclasses
import json
import unittest

from pons_fixture import wait_for

from .internet import HOSTS, NAME_SERVER
from .world import Attacker, World, enter

A, A_GIT, OTHER = "api.github.com", "github.com", "other.example.com"
B, B_SEEN, E = "plain.example.net", "seen.example.net", "attacker.example.org"

# Transparent; CONNECT; a whole address as the target. With "-four" or "-six" behind it: to that kind of address, of the name or
# of the proxy.
WAYS = ("direct", "connect", "proxy")


@dataclasses.dataclass
class Case:
    """`payload` may hold {S} for the stub, {R} for the real value and {HOST} for what the request line needs."""

    name: str
    payload: str
    expect: str  # swap, block, scrub, pass, cut, closed
    host: str = A
    tls: bool = True
    port: int = 0
    code: str = ""  # of a block
    ways: tuple = ("direct", "connect")
    holds: str = ""  # what must be in the answer
    lacks: str = ""  # what must not
    events: int = 1
    credential: str = "GITHUB_TOKEN"
    more: dict = dataclasses.field(default_factory=dict)  # for attack.py
    build: tuple = ()  # how a body is made, and the fields that go with it
    check: object = None  # of what arrived: check(test, received, requests)

    def __post_init__(self):
        self.port = self.port or (443 if self.tls else 80)


def get(path="/", *fields, host=A, method="GET", body=""):
    """A plain request, as text."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines) + "\r\n\r\n" + body


AUTH = "Authorization: Bearer {S}"


class BoundaryTest(unittest.TestCase):
    """A world for the class: each case leaves it as it was, which is checked after each."""

    policy = None
    config = ""
    protocols = ("http/1.1",)
    name_server = NAME_SERVER

    @classmethod
    def setUpClass(cls):
        cls.world = World(cls.policy, cls.config, cls.protocols, cls.name_server)
        cls.addClassCleanup(cls.world.end)
        cls.sandbox = cls.world.sandbox("attacker")
        cls.attacker = Attacker(cls.sandbox)
        cls.stubs = {name: cls.attacker.environment[name] for name in cls.world.secrets
                     if name in cls.attacker.environment}
        cls.seen = 0
        cls.probe = 0

    @classmethod
    def tearDownClass(cls):
        cls.world.check_inside(cls.sandbox)
        cls.world.check_growing_files()
        cls.world.check_everything_kept()
        cls.world.check_metrics()
        listed = cls.world.events()
        assert listed[-1]["seq"] >= cls.seen and len({event["seq"] for event in listed}) == len(listed)

    def fill(self, text, credential):
        return text.replace("{S}", self.stubs[credential]).replace("{R}", self.world.secrets[credential])

    # ---- the oracle

    def knock(self):
        """A request as it should be; when its decision is on record, all earlier ones are."""
        type(self).probe += 1
        path = f"/after/{self.probe}"
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True,
                                   payload=self.fill(get(path, AUTH), "GITHUB_TOKEN"))
        self.assertEqual(answer.status, 200, answer)
        return path

    def settle(self):
        """Decisions and requests since the last call, without those of knock()."""
        path = self.knock()

        def on_record():
            new = self.world.last_events(self.seen)
            return new if new and new[-1].get("path") == path else None

        new = wait_for(on_record, "the decision about a good request is on record")
        type(self).seen = new[-1]["seq"]
        self.assertEqual(new[-1]["verdict"], "swap")
        requests = self.world.internet.new_requests()
        self.assertEqual(requests[-1]["target"], path)
        return new[:-1], requests[:-1]

    def check_oracle(self, received, events, requests, wanted_events):
        leak = self.world.find_leak(received)
        self.assertIsNone(leak, f"the sandbox received a secret ({leak}): {received[:2000]!r}")
        self.world.check_growing_files()
        for event in events:
            text = json.dumps(event)
            self.assertNotIn("?", event.get("path", ""))
            for stub in self.stubs.values():
                self.assertNotIn(stub, text, "a stub is in the audit log")
        if wanted_events is not None:
            decisions = [event for event in events if event["kind"] == "decision"]
            self.assertEqual(len(decisions), wanted_events, decisions)
        by_name = [event for event in events if event.get("method") and event["verdict"] in ("allow", "swap", "scrub")]
        for event, request in zip(by_name, requests):
            self.assertIn(request["address"], HOSTS.get(event["host"], event["host"]).split())
            self.assertEqual(event["port"], request["port"])
            if event["path"] != "withheld":
                self.assertEqual(event["path"], request["target"].partition("?")[0])
            self.assertEqual(event["method"], request["method"])
            self.assertEqual((request["host"] or "").partition(":")[0], event["host"])
            if request["port"] != 80:
                self.assertEqual(request["server_name"], event["host"])

    # ---- one case

    def attack(self, case, way):
        payload = self.fill(case.payload, case.credential)
        if way.startswith("proxy") and not payload.startswith("CONNECT"):
            method, _, rest = payload.partition(" ")
            if rest.startswith("/"):
                host = f"[{case.host}]" if case.host.count(":") > 1 and not case.host.startswith("[") else case.host
                host = host if case.port == 80 else f"{host}:{case.port}"
                payload = f"{method} http://{host}{rest}"
        more = json.loads(self.fill(json.dumps(case.more), case.credential))
        answer = self.attacker.ask(way=way, **{"host": case.host, "port": case.port, "tls": case.tls, "payload": payload,
                                               **more})
        events, requests = self.settle()
        with self.subTest(answer=repr(answer), events=events, requests=requests):
            self.check_oracle(answer.data + b"\n" + answer.body, events, requests, case.events)
            getattr(self, f"check_{case.expect}")(case, answer, events, requests)
            if case.holds:
                self.assertIn(self.fill(case.holds, case.credential).encode(), answer.data + answer.body)
            if case.lacks:
                self.assertNotIn(self.fill(case.lacks, case.credential).encode(), answer.data)
            if case.check:
                case.check(self, answer, requests)

    def check_swap(self, case, answer, events, requests):
        self.assertEqual(answer.status, 200)
        self.check_arrived(case, requests)
        self.assertEqual(events[-1]["credentials"], [case.credential])

    check_scrub = check_swap

    def check_pass(self, case, answer, events, requests):
        self.assertEqual(answer.status, 200)
        self.check_arrived(case, requests)

    def check_arrived(self, case, requests):
        """Once, at the host that was meant. Of its addresses, one of IPv6 comes first."""
        addresses = HOSTS.get(case.host, case.host).split()
        first = next((address for address in addresses if ":" in address), addresses[0])
        self.assertEqual([request["address"] for request in requests], [first])

    def check_block(self, case, answer, events, requests):
        self.assertEqual(requests, [], "something left")
        self.assertIn(answer.status, (400, 403, 413, 414, 421, 429, 431, 501, 502, 504, 505))
        if case.code:
            self.assertEqual(answer.code, case.code)
            self.assertEqual({event["code"] for event in events}, {case.code})
        if answer.body:
            body = json.loads(answer.body)
            self.assertEqual(set(body), {"code", "host", "reason", "hint", "request_id"})

    def check_closed(self, case, answer, events, requests):
        """No answer, and nothing left."""
        self.assertEqual(requests, [], "something left")
        self.assertIsNone(answer.status)

    def check_cut(self, case, answer, events, requests):
        self.assertNotEqual(answer.end, "whole")


def add_cases(test_class, cases):
    """A test method per case and way."""
    for case in cases:
        for way in case.ways:
            def method(self, case=case, way=way):
                self.attack(case, way)

            name = "test_" + "".join(c if c.isalnum() else "_" for c in f"{case.name}_{way}")
            assert not hasattr(test_class, name), name
            method.__doc__ = f"{case.name} ({way})"
            setattr(test_class, name, method)
