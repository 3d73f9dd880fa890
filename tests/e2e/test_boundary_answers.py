"""What comes back: a secret that a host shows, in whatever form, does not reach the sandbox."""

import json
import time

from boundary import certificates
from boundary.cases import A, A_GIT, AUTH, B, B_SEEN, E, BoundaryTest, Case, add_cases, get
from boundary.codings import CODINGS, ENCODINGS
from boundary.world import Attacker, enter
from pons_fixture import read_text, wait_for


def setUpModule():
    enter()


class Answers(BoundaryTest):
    def test_what_a_host_kept_is_scrubbed_later_without_the_credential(self):
        for tls, port in ((True, 443), (False, 80), (True, 8443)):
            with self.subTest(tls=tls, port=port):
                self.attacker.ask(way="direct", host=A, port=443, tls=True, payload=self.fill(get("/store", AUTH), "GITHUB_TOKEN"))
                answer = self.attacker.ask(way="direct", host=A, port=port, tls=tls, payload=get("/stored", host=f"{A}:{port}"))
                self.assertIsNone(self.world.find_leak(answer.data), answer)
        self.settle()

    def test_an_event_arrives_before_the_next_is_sent(self):
        """U05."""
        for way in ("direct", "connect"):
            answer = self.attacker.ask(way=way, host=A, port=443, tls=True, until_closed=True, until=["id: 0\ndata: "], seconds=20,
                                       payload=self.fill(get("/events?count=2&pause=3", AUTH), "GITHUB_TOKEN"))
            self.assertIn(b"id: 0", answer.data)
            self.assertNotIn(b"id: 1", answer.data)
            self.assertIsNone(self.world.find_leak(answer.data))
        self.settle()

    def test_a_certificate_of_our_own_authority_proves_nothing(self):
        directory = self.world.directory
        pem = read_text(f"{self.world.pons.state_dir}/egress/authority/authority.pem")
        with open(f"{directory}/ours.pem", "w", encoding="ascii") as file:
            file.write(pem)
        host = "our-authority.bad.example.com"
        certificates.make_leaf(directory, "our-authority", [host], authority="ours.pem", key="ours.pem")
        self.attack(Case("D27 our own authority", get("/x", AUTH, host=host), "block", host=host, code="upstream_tls",
                         credential="BAD_HOSTS_KEY"), "direct")

    def test_an_answer_too_many_is_no_answer_to_the_next_request(self):
        first, second = (self.fill(get(path, AUTH), "GITHUB_TOKEN") for path in ("/smuggle", "/x"))
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, payload=first, later=["", second], until_closed=True,
                                   seconds=2)
        self.assertIsNone(self.world.find_leak(answer.data))
        self.assertNotIn(b"second", answer.data)
        self.settle()

    def test_an_answer_that_is_cut_off_is_scrubbed_up_to_there(self):
        answer = self.attacker.ask(way="direct", host=A, port=443, tls=True, until_closed=True,
                                   payload=self.fill(get("/cut?half=1", AUTH), "GITHUB_TOKEN"))
        events, requests = self.settle()
        self.check_oracle(answer.data, events, requests, 1)
        self.assertEqual(events[0]["verdict"], "cut", events)
        self.assertNotEqual(answer.end, "whole")


def scrubbed(name, path, **more):
    return Case(name, get(path, AUTH), "scrub", **more)


add_cases(Answers, [
    scrubbed("R01 the head of the request", "/echo", holds="{S}"),
    *[scrubbed(f"R01 as {name}", f"/echo?encoding={name}") for name in ENCODINGS],
    *[scrubbed(f"R04 {name}", f"/echo?coding={name.replace(' ', '')}" if name != "gzip, br" else "/echo?coding=gzip,%20br",
               holds="{S}") for name in CODINGS],
    Case("R04 a label that lies", get("/echo?coding=gzip&label=br", AUTH), "cut"),
    scrubbed("R01 in fields", "/field", holds="{S}"),
    scrubbed("R01 in a field's name", "/field-name"),
    scrubbed("R01 in the reason", "/reason"),
    scrubbed("R01 in early hints", "/early"),
    scrubbed("R01 in a trailer", "/trailer"),
    scrubbed("R01 in a chunk extension", "/chunk-extension"),
    scrubbed("R01 a byte at a time", "/drip", holds="{S}"),
    scrubbed("R01 in events", "/events", holds="{S}", more={"until_closed": True, "seconds": 2}),
    scrubbed("R18 nothing keeps what was scrubbed", "/echo",
             check=lambda test, received, requests: test.assertEqual(received.fields["cache-control"], "no-store")),
    scrubbed("H14 Alt-Svc is dropped", "/alternative", lacks="h3="),
    scrubbed("two answers for one question", "/smuggle"),
])


class Refusals(BoundaryTest):
    """Answers that cannot be delivered."""

    def check_undelivered(self, case, answer, events, requests):
        self.assertNotEqual(answer.status, 200)


add_cases(Refusals, [
    Case("R04 an unknown label", get("/echo?coding=gzip&label=x-own", AUTH), "undelivered"),
    Case("R04 a transfer coding", get("/gzip-transfer", AUTH), "undelivered"),
    Case("a part that nobody asked for", get("/part", AUTH), "undelivered"),
    Case("H10 an upgrade that nobody asked for", get("/switch", AUTH), "undelivered"),
    Case("H10 an upgrade that somebody asked for", get("/switch", AUTH, "Upgrade: own", "Connection: Upgrade"), "undelivered"),
    Case("R13 the words of a 401", get("/refused", AUTH), "undelivered", holds="{S}"),
    Case("R17 a decompression bomb", get("/bomb?mebibytes=2000", AUTH), "cut", more={"seconds": 30, "until_closed": True}),
    Case("an empty answer with a coding", get("/empty-coded", AUTH, method="HEAD"), "swap", more={"until_closed": True, "seconds": 1}),
    Case("I01 a redirect is for the client", get(f"/redirect?to=https://{E}/", AUTH), "undelivered", holds=f"https://{E}/"),
    Case("R17 nothing at the address", get("/x", host="nowhere.example.net"), "block", host="nowhere.example.net", tls=False,
         more={"seconds": 20}),
])


class Clients(BoundaryTest):
    """Programs as people use them."""

    def run_in(self, line, seconds=60, **more):
        job = self.sandbox.run(line, seconds=seconds, **more)
        self.assertIsNone(self.world.find_leak(job.output + job.error), job)
        return job

    def test_curl_follows_a_redirect_to_a_stranger_in_vain(self):
        job = self.run_in(f'curl -sS -L --location-trusted -H "Authorization: Bearer $GITHUB_TOKEN" '
                          f'"https://{A}/redirect?to=https://{B_SEEN}/stolen&status=307"')
        self.assertEqual(json.loads(job.text)["code"], "credential_endpoint_mismatch")
        job = self.run_in(f'curl -sS -L --location-trusted -H "Authorization: Bearer $GITHUB_TOKEN" '
                          f'"https://{A}/redirect?to=https://{E}/stolen&status=308"; true')
        events, requests = self.settle()
        self.assertEqual([request["target"].partition("?")[0] for request in requests], ["/redirect", "/redirect"])

    def test_clients_trust_the_authority(self):
        programs = {
            "curl": f'curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" https://{A}/echo',
            "python": "python3 -c \"import os, urllib.request as u; print(u.urlopen(u.Request('https://" + A
                      + "/echo', headers={'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']})).read().decode())\"",
            "node": "node -e \"fetch('https://" + A + "/echo', {headers: {Authorization: 'Bearer ' + process.env.GITHUB_TOKEN}})"
                    ".then(r => r.text()).then(console.log)\"",
            "openssl": f"printf 'GET /echo HTTP/1.1\\r\\nHost: {A}\\r\\nConnection: close\\r\\nAuthorization: Bearer '$GITHUB_TOKEN'\\r\\n\\r\\n'"
                       f" | openssl s_client -quiet -verify_return_error -connect {A}:443 -servername {A} 2>/dev/null",
        }
        ruby = ("ruby -rnet/http -e \"ask = Net::HTTP::Get.new('/echo', 'Authorization' => 'Bearer ' + ENV['GITHUB_TOKEN']);"
                f" puts Net::HTTP.start('{A}', 443, use_ssl: true) {{ |http| http.request(ask).body }}\"")
        programs["ruby"], programs["ruby, without its variable"] = ruby, "env -u SSL_CERT_FILE " + ruby
        for library in ("requests", "httpx"):
            programs[library] = (f"python3 -c \"import os, {library}; print({library}.get('https://{A}/echo', "
                                 "headers={'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']}).text)\"")
        for name, line in programs.items():
            with self.subTest(name):
                self.assertIn(self.stubs["GITHUB_TOKEN"], self.run_in(line).text)
        self.settle()
        # These ask what they like: it arrives.
        askers = {"/-/ping?write=true": f"npm ping --registry https://{A}/", "/apt": f"/usr/lib/apt/apt-helper download-file https://{A}/apt /tmp/apt",
                  "/simple/nothing/": f"python3 -m pip download --disable-pip-version-check --retries 0 --no-deps -i https://{A}/simple/ nothing"}
        for target, line in askers.items():
            with self.subTest(target):
                job = self.run_in(line)
                _, requests = self.settle()
                self.assertIn(target.partition("?")[0], [request["target"].partition("?")[0] for request in requests], job)
        with self.subTest("curl through the proxy"):
            job = self.run_in(f'curl -sS -x http://127.0.0.1:3128 -H "Authorization: Bearer $GITHUB_TOKEN" https://{A}/echo')
            self.assertIn(self.stubs["GITHUB_TOKEN"], job.text)
        self.settle()


del BoundaryTest  # or it would run by itself
