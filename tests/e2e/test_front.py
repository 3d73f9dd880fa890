"""The public door when there are many clients, bad ones, or nobody behind it."""

import contextlib
import json
import os
import re
import signal
import socket
import time

from e2b_client import Door
from pons_fixture import (
    PATIENCE_SECONDS, PonsTestCase, process_state, raise_descriptor_limit, raw_exchange, status_line, wait_for)
from warden_client import end_orderly


def resident_kib(pid):
    return int(process_state(pid)["VmRSS"].split()[0])


class DoorCase(PonsTestCase):
    def open_door(self, config=""):
        self.pons = self.start(config)
        self.addCleanup(end_orderly, self.pons)
        made = json.loads(self.pons.command("key", "create", "mine", "--json").stdout)
        self.door = Door(self.pons, made["key"])
        wait_for(lambda: self.list_sandboxes() == 200, "the key opens")
        return self.door

    def list_sandboxes(self, seconds=PATIENCE_SECONDS):
        return self.door.ask("GET", "/v2/sandboxes", seconds=seconds)[0]

    @contextlib.contextmanager
    def stopped(self, role):
        pid = self.pons.role_pids()[role]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill(self, role):
        before = self.pons.role(role)["restarts"]
        os.kill(self.pons.role_pids()[role], signal.SIGKILL)
        return lambda: self.pons.role(role)["restarts"] > before and self.pons.role(role)["state"] == "ready"

    def assert_told_to_come_again(self, answer):
        status, fields, _ = answer
        self.assertEqual((status, fields.get("Retry-After")), (503, "1"), answer)


class RolesGone(DoorCase):
    def test_a_warden_that_hangs_is_a_503_and_then_it_is_not(self):
        door = self.open_door()
        box = door.create()
        stream = box.start("echo before; read x < /tmp/never; sleep 100")
        stream.take()
        with self.stopped("warden"):
            # Who was first to ask waits a moment; who comes later is told at once, streams included.
            self.assert_told_to_come_again(door.ask("GET", "/v2/sandboxes"))
            self.assert_told_to_come_again(door.ask("POST", "/sandboxes", {"templateID": "base"}))
            with self.assertRaisesRegex(AssertionError, "unavailable"):
                box.start("true").take()
            self.assertEqual(self.pons.request("/healthz")[0], 200)
        wait_for(lambda: self.list_sandboxes() == 200, "it recovers")
        self.assertEqual(box.start("echo again").output(), b"again\n")
        self.assertEqual(self.pons.role("front")["restarts"], 0)

    def test_a_warden_that_dies_is_back_and_so_are_sandboxes(self):
        door = self.open_door()
        box = door.create()
        is_back = self.kill("warden")
        seen = set()

        def ask():
            status, fields, _ = door.ask("GET", f"/sandboxes/{box.id}")
            seen.add(status)
            self.assertTrue(status != 503 or fields.get("Retry-After") == "1")
            return status == 200 and is_back()

        wait_for(ask, "it recovers")
        self.assertLessEqual(seen, {200, 503})
        self.assertEqual(box.start("echo alive").output(), b"alive\n")

    def test_without_a_brain_nothing_is_made_and_the_rest_goes_on(self):
        door = self.open_door()
        box = door.create()
        with self.stopped("brain"):
            self.assert_told_to_come_again(door.ask("POST", "/sandboxes", {"templateID": "base"}))
            self.assertEqual(self.list_sandboxes(), 200)
            self.assertEqual(box.start("echo on").output(), b"on\n")
        wait_for(lambda: door.ask("POST", "/sandboxes", {"templateID": "base"})[0] == 201, "it recovers")
        is_back = self.kill("brain")
        wait_for(is_back, "the brain is back")
        wait_for(lambda: door.ask("POST", "/sandboxes", {"templateID": "base"})[0] == 201, "it recovers again")

    def test_without_egress_no_network_is_given_and_the_rest_goes_on(self):
        door = self.open_door()
        box = door.create()
        with self.stopped("egress"):
            status, fields, _ = door.ask("PUT", f"/sandboxes/{box.id}/network", {"allowOut": ["example.com"]})
            self.assertEqual((status, fields.get("Retry-After")), (503, "1"))
            self.assertEqual(self.list_sandboxes(), 200)
            self.assertEqual(box.start("echo on").output(), b"on\n")
        wait_for(self.kill("egress"), "egress is back")
        wait_for(lambda: door.ask("POST", "/sandboxes", {"templateID": "base"})[0] == 201, "it recovers")


class Crowds(DoorCase):
    def test_ten_thousand_connections_at_once_and_others_are_served(self):
        self.open_door("limits:\n  connections: 12000\n")
        front = self.pons.role_pids()["front"]
        request = b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\n"
        crowd = []
        self.addCleanup(lambda: [client.close() for client in crowd])
        for index in range(min(10_000, raise_descriptor_limit(self) - 1_000)):
            client = socket.socket()
            client.settimeout(PATIENCE_SECONDS)
            client.bind((f"127.0.0.{2 + index % 4}", 0))
            client.connect(self.pons.address)
            client.sendall(request)
            crowd.append(client)
        self.assertEqual(self.list_sandboxes(), 200)
        for client in crowd:
            self.assertIn(b" 200 ", client.recv(4096))
        # All are still open, and each is answered again.
        for client in crowd[::10]:
            client.sendall(request)
        for client in crowd[::10]:
            self.assertIn(b" 200 ", client.recv(4096))
        self.assertEqual(self.list_sandboxes(), 200)
        self.assertLess(resident_kib(front), 200 * 1024)
        self.assertEqual(self.pons.role("front")["restarts"], 0)

    def test_more_than_a_thousand_streams_work_and_questions_get_through(self):
        door = self.open_door("limits:\n  connections: 4096\n")
        raise_descriptor_limit(self)
        boxes = [door.create() for _ in range(6)]
        streams = []
        self.addCleanup(lambda: [stream.close() for stream in streams])
        for index in range(1_100):
            streams.append(boxes[index % 6].start("read x < /tmp/go; echo done"))
            self.assertEqual(streams[-1].status, 200)
            self.assertIn("start", streams[-1].take()["event"])
        self.assertEqual(self.list_sandboxes(), 200)
        extra = door.create()
        self.assertEqual(extra.start("echo mine").output(), b"mine\n")
        self.assertEqual(door.ask("DELETE", f"/sandboxes/{extra.id}")[0], 204)

    def test_more_streams_than_fit_are_a_429_and_leave_room_for_others(self):
        door = self.open_door("limits:\n  connections: 64\n")
        box = door.create()
        streams = []
        self.addCleanup(lambda: [stream.close() for stream in streams])
        for _ in range(56):
            streams.append(box.start("sleep 100"))
            self.assertEqual(streams[-1].status, 200)
        for _ in range(20):
            # A client of streams reads nothing of an answer with another status.
            refused = box.start("sleep 100")
            self.assertEqual((refused.status, refused.next(), refused.end["error"]["code"]),
                             (200, None, "resource_exhausted"))
            refused.close()
        for target, code in (("/process.Process/List", "resource_exhausted"), ("/files?path=x", 429)):
            status, fields, answer = door.ask("POST", target, {}, headers=box.fields)
            self.assertEqual((status, fields["Retry-After"], json.loads(answer)["code"]), (429, "1", code), target)
        for _ in range(20):
            self.assertEqual(self.list_sandboxes(), 200)
        streams.pop().close()
        wait_for(lambda: box.start("true").status == 200, "there is room again")

    def test_a_sandbox_with_too_many_processes_refuses_more_and_others_do_not_notice(self):
        door = self.open_door("limits:\n  connections: 4096\n")
        box, other = door.create(), door.create()
        streams = []
        self.addCleanup(lambda: [stream.close() for stream in streams])

        with self.assertRaisesRegex(AssertionError, "resource_exhausted|Resource temporarily unavailable"):
            for _ in range(600):
                streams.append(box.start("sleep 100"))
                streams[-1].take()
        self.assertEqual(other.start("echo well").output(), b"well\n")
        self.assertEqual(self.list_sandboxes(), 200)


    def test_bodies_that_are_too_large_are_refused_in_the_words_of_the_api(self):
        door = self.open_door("limits:\n  body_bytes: 100000\n")
        for target, where in (("/sandboxes", "code"), ("/x/nothing", "error")):
            answer = raw_exchange(self.pons.address, (
                f"POST {target} HTTP/1.1\r\nHost: p\r\nX-API-KEY: {door.key}\r\nContent-Length: 100001\r\n"
                "Connection: close\r\n\r\n").encode())
            self.assertEqual(status_line(answer).split()[1], "413", target)
            self.assertIn(where, json.loads(answer.split(b"\r\n\r\n", 1)[1]))

    def test_each_answer_has_an_id_of_its_own(self):
        door = self.open_door()
        box = door.create()
        answers = [door.ask("GET", "/v2/sandboxes"), door.ask("GET", "/missing"), door.ask("GET", "/healthz"),
                   door.ask("POST", "/process.Process/List", {}, headers=box.fields)]
        ids = [fields["X-Request-Id"] for _, fields, _ in answers]
        self.assertEqual(len(set(ids)), 4)
        for identity in ids:
            self.assertRegex(identity, "^req_[0-9A-Za-z]{20}$")


class SlowReaders(DoorCase):
    def test_a_client_that_stops_reading_makes_nobody_grow(self):
        door = self.open_door()
        box = door.create()
        pids = [self.pons.role_pids()[role] for role in ("front", "warden")]
        box.start("head -c 100000000 /dev/zero > /tmp/large").output()
        before = [resident_kib(pid) for pid in pids]
        readers = [box.start("yes | head -c 300000000") for _ in range(4)]
        for _ in range(4):
            client = door.connect()
            client.sendall(("GET /files?path=/tmp/large HTTP/1.1\r\nHost: p\r\n" + "".join(
                f"{name}: {value}\r\n" for name, value in box.fields.items()) + "\r\n").encode())
            readers.append(client)
        time.sleep(14)  # processes wait ten seconds for their readers, and then write on without them
        for pid, was in zip(pids, before):
            self.assertLess(resident_kib(pid) - was, 48 * 1024)
        self.assertEqual(box.start("echo well").output(), b"well\n")
        self.assertEqual(readers[0].take()["event"].keys(), {"start"})
        for reader in readers:
            reader.close()


class Manners(DoorCase):
    def test_malformed_requests_are_refused_and_harm_nobody(self):
        door = self.open_door()
        box = door.create()
        fields = "".join(f"{name}: {value}\r\n" for name, value in box.fields.items())
        cases = {
            b"GET /v2/sandboxes HTTP/1.1\r\n\r\n": "400",
            b"GET  /v2/sandboxes HTTP/1.1\r\nHost: p\r\n\r\n": "400",
            b"GET /v2/sandboxes HTTP/1.1\r\nHost: p\r\nHost: q\r\n\r\n": "400",
            b"POST /sandboxes HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": "400",
            b"POST /sandboxes HTTP/1.1\r\nHost: p\r\nContent-Length: -1\r\n\r\n": "400",
            b"POST /sandboxes HTTP/1.1\r\nHost: p\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n": "400",
            f"POST /process.Process/Start HTTP/1.1\r\nHost: p\r\n{fields}Content-Type: application/connect+json\r\n"
            "Content-Length: 5\r\nConnection: close\r\n\r\n\0\xff\xff\xff\xff".encode("latin-1"): None,
            f"POST /sandboxes HTTP/1.1\r\nHost: p\r\nX-API-KEY: {door.key}\r\nContent-Length: 7\r\n"
            "Connection: close\r\n\r\n{\"a\":[[".encode(): "400",
            b"GET /v2/sandboxes HTTP/1.1\r\nHost: p\r\nE2b-Sandbox-Id: ../../x\r\nConnection: close\r\n\r\n": "400",
        }
        for data, status in cases.items():
            answer = raw_exchange(self.pons.address, data)
            self.assertNotIn(b"HTTP/1.1 5", answer, data)
            if status:
                self.assertEqual(status_line(answer).split()[1], status, data)
        self.assertEqual(self.list_sandboxes(), 200)
        self.assertEqual(self.pons.role("front")["restarts"], 0)

    def test_no_other_site_is_allowed_to_ask(self):
        door = self.open_door()
        origin = {"Origin": "https://elsewhere.test", "Access-Control-Request-Method": "POST"}
        for method, target in (("OPTIONS", "/sandboxes"), ("GET", "/v2/sandboxes"), ("GET", "/healthz"),
                               ("OPTIONS", "/healthz"), ("GET", "/missing")):
            _, fields, _ = door.ask(method, target, headers=origin)
            self.assertEqual([name for name in fields if name.lower().startswith("access-control")], [], target)


    def test_pages_of_named_origins_may_ask_and_no_others(self):
        door = self.open_door("allowed_origins: https://app.test http://localhost:3000\ndomain: sbx.test\n")
        box = door.create()

        def fields_of(origin, method, target, **more):
            status, fields, _ = door.ask(method, target, headers={"Origin": origin, **more})
            return status, {name.lower(): value for name, value in fields.items()}

        question = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,e2b-sandbox-id"}
        for target in ("/v2/sandboxes", "/process.Process/Start", "/files?path=x"):
            status, fields = fields_of("https://app.test", "OPTIONS", target, **question)
            self.assertEqual((status, fields["access-control-allow-origin"]), (204, "https://app.test"), target)
            self.assertEqual(fields["access-control-allow-headers"], "x-api-key,e2b-sandbox-id")
        for target, more in (("/v2/sandboxes", {}), ("/missing", {}), ("/files?path=/etc/hostname", box.fields)):
            _, fields = fields_of("http://localhost:3000", "GET", target, **more)
            self.assertEqual(fields["access-control-allow-origin"], "http://localhost:3000", target)
            self.assertEqual(fields["vary"], "Origin")
            self.assertNotIn("access-control-allow-credentials", fields)
        # A key is needed all the same, and a program in a sandbox answers for itself.
        status, fields = fields_of("https://app.test", "GET", "/v2/sandboxes", **{"X-API-KEY": "wrong"})
        self.assertEqual(status, 401)
        port = {**box.fields, "E2b-Sandbox-Port": "8000"}
        for origin, method, more in (("https://elsewhere.test", "GET", {}), ("https://elsewhere.test", "OPTIONS", question),
                                     ("null", "GET", {}), ("https://app.test", "OPTIONS", {**port, **question})):
            _, fields = fields_of(origin, method, "/v2/sandboxes", **more)
            self.assertEqual([name for name in fields if name.startswith("access-control")], [], (origin, method))


class Log(DoorCase):
    def lines(self):
        return [json.loads(line) for line in self.pons.log.splitlines() if '"msg":"request"' in line]

    def test_each_request_has_a_line_and_no_line_has_a_secret(self):
        door = self.open_door()
        box = door.create()
        box.start("echo $SECRET", seconds=30).output()
        count = 300
        connection = door.connection()
        for _ in range(count):
            door.ask("GET", f"/sandboxes/{box.id}?token=hidden-in-query", connection=connection)
        wrong = {"X-API-KEY": "pons_hiddenwrongkey0123456789", "Cookie": "hidden-in-cookie"}
        self.assertEqual(door.ask("GET", "/sandboxes/hidden-in-path", headers=wrong)[0], 401)
        raw_exchange(self.pons.address, b"GET /hidden-in-junk\x01 HTTP/1.1\r\nHost: p\r\n\r\n")
        self.pons.request("/healthz")
        wait_for(lambda: any(line["status"] == 401 for line in self.lines()), "the last line is written")
        asked = [line for line in self.lines() if line["path"] == "/sandboxes/*"]
        self.assertEqual(len([line for line in asked if line["status"] == 200]), count)
        self.assertTrue(all(line["level"] == "info" and line["process"] == "front" for line in asked))
        self.assertTrue(all(line["key"].startswith("key") for line in asked if line["status"] == 200), asked[0])
        self.assertIn("/process.Process/Start", [line["path"] for line in self.lines()])
        self.assertNotIn("/healthz", [line["path"] for line in self.lines()])
        wait_for(lambda: "refused what is no request" in self.pons.log, "junk has a line too")
        for secret in (door.key, door.key.rsplit("_", 1)[-1], box.token, self.pons.token, "hidden"):
            self.assertNotIn(secret, self.pons.log)
        self.assertIsNone(re.search("(?i)authorization|basic |cookie", self.pons.log))

    def test_lines_can_be_limited_to_failures_or_left_out(self):
        door = self.open_door("log:\n  requests: failed\n")
        door.ask("GET", "/missing")
        wait_for(lambda: any(line["path"] == "/*" for line in self.lines()), "the failure is told")
        self.assertEqual([line for line in self.lines() if line["status"] < 400], [])
        self.assertEqual(end_orderly(self.pons), 0)
        self.open_door("log:\n  requests: none\n").ask("GET", "/missing")
        self.assertEqual(end_orderly(self.pons), 0)
        self.assertEqual(self.lines(), [])
