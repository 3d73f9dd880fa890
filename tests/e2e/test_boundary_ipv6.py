"""The same promises over IPv6: at hosts that have no other address, and to the address that a sandbox has for any name."""

import struct

from boundary.cases import A, AUTH, OTHER, BoundaryTest, Case, add_cases, get
from boundary.internet import HOSTS, NAME_SERVER_SIX, OUR_SIDE_SIX
from boundary.world import enter
from pons_fixture import read_text

SIX, BOTH, SEEN, STRANGER = "six.example.com", "both.example.com", "six.example.net", "six.example.org"
MISMATCH, UNDECLARED = "credential_endpoint_mismatch", "undeclared_position"
# Both addresses that a sandbox has for a name lead there, whichever kind the host itself has.
TO_EACH = ("direct-four", "direct-six", "connect-four", "connect-six")
PLAIN = (*TO_EACH, "proxy-four", "proxy-six")


def setUpModule():
    enter()


class Ipv6(BoundaryTest):
    name_server = NAME_SERVER_SIX  # it has to be asked over IPv6 as well

    def test_a_name_has_an_address_of_each_kind_and_neither_is_the_host_s(self):
        for host in (A, SIX, BOTH):
            given = {}
            for kind, size in ((1, 4), (28, 16)):
                answer = self.attacker.ask(work="lookup", host=host, kind=kind)
                self.assertEqual(struct.unpack("!H", answer.data[6:8]), (1,), answer)
                given[kind] = answer.data[-size:]
            self.assertTrue(given[1].startswith((b"\xc6\x12", b"\xc6\x13")), given)
            self.assertTrue(given[28].startswith(b"\xfdPons\0"), given)

    def test_no_datagram_leaves_over_it(self):
        for port in (443, 3478, 51820, 123):
            for address in (HOSTS[STRANGER], HOSTS[SIX], NAME_SERVER_SIX, OUR_SIDE_SIX, "ff02::1", "::1"):
                answer = self.attacker.ask(work="datagram", host=address, port=port, payload="hello")
                self.assertEqual(answer.data, b"", (address, port))
        self.assertEqual(read_text(f"{self.world.directory}/datagrams.log"), "", "a datagram has left")

    def test_no_name_is_looked_up_over_it_but_those_that_are_allowed(self):
        before = read_text(f"{self.world.directory}/names.log")
        for server in ("::1", NAME_SERVER_SIX, HOSTS[STRANGER]):
            for kind in (1, 28, 16):
                answer = self.attacker.ask(work="lookup", host="data.evil.example.org", kind=kind, server=server)
                self.assertEqual(answer.data[3] & 15, 3, (server, kind))  # no such name
        self.assertEqual(read_text(f"{self.world.directory}/names.log"), before)
        self.settle()


def at_six(name, payload, expect, *, host=SIX, ways=TO_EACH, **more):
    return Case(name, payload, expect, host=host, credential="SIX_KEY", ways=ways, **more)


def to_address(name, address, expect="block", **more):
    """Without a name."""
    return Case(name, get("/x", AUTH, host=f"[{address}]"), expect, host=address, credential="SIX_KEY", ways=("direct",), **more)


add_cases(Ipv6, [
    at_six("S01 the declared field", get("/x", AUTH, host=SIX), "swap"),
    at_six("R01 the echo is scrubbed", get("/echo", AUTH, host=SIX), "scrub", holds="{S}"),
    at_six("R01 as base64", get("/echo?encoding=base64", AUTH, host=SIX), "scrub"),
    at_six("S01 at a host of both kinds", get("/echo", AUTH, host=BOTH), "scrub", host=BOTH, holds="{S}"),
    Case("S01 at a host of IPv4, by its IPv6 address", get("/echo", AUTH), "scrub", holds="{S}", ways=("direct-six", "connect-six")),
    at_six("D02 an allowed host without a binding", get("/x", AUTH, host=SEEN), "block", host=SEEN, code=MISMATCH),
    at_six("D03 its stub at another credential's host", get("/x", "X-Api-Key: {S}", host=OTHER), "block", host=OTHER, code=MISMATCH,
           ways=("direct-six", "connect-six")),
    Case("D03 another's stub here", get("/x", AUTH, host=SIX), "block", host=SIX, code=MISMATCH, ways=TO_EACH),
    at_six("D01 a host that is not allowed", get("/x", AUTH, host=STRANGER), "block", host=STRANGER, code="host_not_allowed",
           ways=("connect-four", "connect-six")),
    at_six("D01 the same on a plain line", get("/x", AUTH, host=STRANGER), "block", host=STRANGER, tls=False, code="host_not_allowed",
           ways=("connect-six", "proxy-four", "proxy-six")),
    at_six("D06 the server name of another", get("/x", AUTH, host=SIX), "block", code="sni_host_mismatch", more={"server_name": SEEN}),
    at_six("D09 Host of another", get("/x", AUTH, host=SEEN), "block", code="host_mismatch"),
    at_six("D11 no server name", get("/x", AUTH, host=SIX), "block", code="sni_host_mismatch", more={"server_name": "", "verify": False}),
    at_six("D27 another's name", get("/x", AUTH, host="six.bad.example.com"), "block", host="six.bad.example.com", code="upstream_tls"),
    at_six("S02 an undeclared field", get("/x", AUTH, "X-Other: {S}", host=SIX), "block", code=UNDECLARED),
    at_six("S02 a body", get("/x", AUTH, "Content-Length: 49", host=SIX, method="POST") + '{"a": "{S}"}', "block", code=UNDECLARED),
    at_six("S16 the real value", get("/x?{R}", AUTH, host=SIX), "block", code="secret_in_request"),
    at_six("T01 the attacker's own key", get("/x", "Authorization: Bearer attackers-own-token", host=SIX), "block",
           code="foreign_credential"),
    at_six("on a plain line there is no secret", get("/x", AUTH, host=SIX), "block", tls=False, code=MISMATCH, ways=PLAIN),
    *[at_six(f"D23 {host}", get("/x", host=host), "block", host=host, tls=False, code="address_not_allowed", ways=PLAIN)
      for host in ("private-six.example.net", "translated.example.net", "mixed-six.example.net")],
    at_six("N09 a name for metadata", get("/x", host="metadata-six.example.net"), "block", host="metadata-six.example.net", tls=False,
           code="address_not_allowed", ways=PLAIN),
    at_six("D32 the machine of Pons", get("/x", host="this-machine-six.example.net"), "block", host="this-machine-six.example.net",
           tls=False, code="address_not_allowed", ways=PLAIN),
    to_address("D01 the stranger's address", HOSTS[STRANGER], code="host_not_allowed", more={"server_name": "", "verify": False}),
    to_address("D05 the right address, not by name", HOSTS[SIX], code="host_not_allowed", more={"server_name": SIX}),
    *[to_address(f"N09 {address}", address, tls=False) for address in ("fd00:ec2::254", "64:ff9b::a9fe:a9fe")],
    to_address("N10 the other side of the host", OUR_SIDE_SIX, tls=False, code="host_not_allowed"),
    to_address("D22 with brackets", HOSTS[STRANGER], tls=False, code="host_not_allowed"),
    Case("N02 SSH", "SSH-2.0-x\r\n", "closed", host=HOSTS[STRANGER], port=22, tls=False, ways=("direct",)),
])


class Ipv6Public(BoundaryTest):
    """Where every public host is allowed."""

    policy = {"mode": "public", "credentials": ["GITHUB_TOKEN", "SIX_KEY"]}


add_cases(Ipv6Public, [
    at_six("S01", get("/echo", AUTH, host=SIX), "scrub", holds="{S}"),
    at_six("D01 a stranger over TLS gets the stub and nothing else", get("/echo", AUTH, host=STRANGER), "pass", host=STRANGER, holds="{S}"),
    at_six("D01 a stranger on a plain line", get("/x", AUTH, host=STRANGER), "block", host=STRANGER, tls=False, code=MISMATCH, ways=PLAIN),
    at_six("D32 the machine of Pons", get("/x", host="this-machine-six.example.net"), "block", host="this-machine-six.example.net",
           tls=False, code="address_not_allowed", ways=PLAIN),
    at_six("N09 a name for metadata", get("/x", host="metadata-six.example.net"), "block", host="metadata-six.example.net", tls=False,
           code="address_not_allowed", ways=PLAIN),
    to_address("D05 the stranger's address, server name of another", HOSTS[STRANGER], code="sni_host_mismatch", more={"server_name": SIX}),
    to_address("D11 the right address without a name", HOSTS[SIX], code="address_not_allowed", more={"server_name": "", "verify": False}),
    *[to_address(f"N09 {address}", address, tls=False, code="address_not_allowed")
      for address in ("fd00:ec2::254", "fd00:1:2::3", "64:ff9b::a9fe:a9fe")],
    Case("D32 the address of this machine", get("/x", host=f"[{OUR_SIDE_SIX}]"), "block", host=OUR_SIDE_SIX, tls=False,
         code="address_not_allowed", ways=("direct", "proxy")),
])


del BoundaryTest  # or it would run by itself
