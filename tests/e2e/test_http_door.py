"""The public door, with curl and with clients that no library would write."""

import json
import socket
import subprocess
import time

from pons_fixture import LONG, PATIENCE_SECONDS, PonsTestCase, raw_exchange, read_text, read_until_closed, status_line


class Answers(PonsTestCase):
    def curl(self, pons, target, *arguments):
        done = subprocess.run(
            ["curl", "-sS", "-o", f"{self.directory}/body", "-w", "%{http_code}", *arguments,
             "http://{}:{}{}".format(*pons.address, target)],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(f"{self.directory}/body", encoding="utf-8") as body:
            return int(done.stdout), body.read()

    def test_health_is_told_to_anyone_and_the_rest_of_the_site_does_not_exist(self):
        pons = self.start()
        self.assertEqual(self.curl(pons, "/healthz"), (200, '{"status":"ok"}\n'))
        for target in ("/", "/x", "/selftest", "/identity", "/x/status/", "/healthz/..", "//healthz"):
            self.assertEqual(self.curl(pons, target, "--path-as-is")[0], 404, target)

    def test_wrong_method_is_told_the_right_one(self):
        pons = self.start()
        status, _ = self.curl(pons, "/healthz", "-X", "DELETE", "-D", f"{self.directory}/head")
        self.assertEqual(status, 405)
        self.assertIn("allow: get", read_text(f"{self.directory}/head").lower())

    def test_head_request_gets_no_body(self):
        pons = self.start()
        answer = raw_exchange(pons.address, b"HEAD /healthz HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n")
        self.assertEqual(status_line(answer), "HTTP/1.1 200 OK")
        self.assertTrue(answer.endswith(b"\r\n\r\n"))

    def test_only_the_exact_token_in_its_one_form_opens_the_door(self):
        pons = self.start()
        token = pons.token
        self.assertEqual(self.curl(pons, "/x/status", "-H", f"Authorization: Bearer {token}")[0], 200)
        refused = [
            [],
            ["-H", "Authorization: Bearer wrong"],
            ["-H", "Authorization: Bearer "],
            ["-H", f"Authorization: Bearer {token}x"],
            ["-H", f"Authorization: Bearer {token[:-1]}"],
            ["-H", f"Authorization: Bearer {token.upper()}"],
            ["-H", f"Authorization: Bearer  {token}"],
            ["-H", f"Authorization: {token}"],
            ["-H", f"Authorization: Basic {token}"],
            ["-u", f"admin:{token}"],
            ["-H", f"Cookie: token={token}"],
            ["-H", f"X-Api-Key: {token}"],
            ["-G", "-d", f"token={token}"],
        ]
        for arguments in refused:
            status, body = self.curl(pons, "/x/status", *arguments)
            self.assertEqual(status, 401, arguments)
            self.assertNotIn("roles", json.loads(body), "a refusal tells nothing")

    def test_second_authorization_header_does_not_help(self):
        pons = self.start()
        answer = raw_exchange(
            pons.address,
            f"GET /x/status HTTP/1.1\r\nHost: p\r\nConnection: close\r\nAuthorization: Bearer wrong\r\n"
            f"Authorization: Bearer {pons.token}\r\n\r\n".encode(),
        )
        self.assertIn(status_line(answer).split()[1], ("400", "401"))


class Limits(PonsTestCase):
    def assert_serves(self, pons):
        self.assertEqual(pons.request("/healthz")[0], 200)

    def test_huge_header_is_refused(self):
        pons = self.start()
        huge = b"GET /healthz HTTP/1.1\r\nHost: p\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n"
        self.assertTrue(status_line(raw_exchange(pons.address, huge)).startswith("HTTP/1.1 431"))
        self.assert_serves(pons)

    def test_thousands_of_headers_are_refused(self):
        pons = self.start("limits:\n  header_bytes: 1048576\n")
        many = b"GET /healthz HTTP/1.1\r\nHost: p\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(10_000)) + b"\r\n"
        self.assertTrue(status_line(raw_exchange(pons.address, many)).startswith("HTTP/1.1 431"))
        self.assert_serves(pons)

    def test_request_with_two_readings_is_refused_and_what_follows_it_is_never_read(self):
        pons = self.start()
        hidden = b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\n"
        two_readings = [
            b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
            b"Content-Length: +4\r\n\r\nabcd",
            b"Content-Length: 4\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ]
        for framing in two_readings:
            answer = raw_exchange(pons.address, b"POST /healthz HTTP/1.1\r\nHost: p\r\n" + framing + hidden)
            self.assertEqual(answer.count(b"HTTP/1.1"), 1, framing)
            self.assertIn(status_line(answer).split()[1], ("400", "501"), framing)
            self.assertNotIn(b" 200 ", answer)
        self.assert_serves(pons)

    def test_slow_client_is_sent_away_while_others_are_served(self):
        pons = self.start("limits:\n  header_seconds: 1\n")
        slow = [socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) for _ in range(50)]
        for client in slow:
            self.addCleanup(client.close)
            client.sendall(b"GET /healthz HT")
        self.assert_serves(pons)
        for client in slow:
            answer = read_until_closed(client)
            self.assertTrue(status_line(answer).startswith("HTTP/1.1 408"), answer)
        self.assert_serves(pons)

    def test_dripping_bytes_do_not_buy_time(self):
        pons = self.start("limits:\n  header_seconds: 1\n")
        with socket.create_connection(pons.address, timeout=0.1) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            deadline = time.monotonic() + PATIENCE_SECONDS
            answer = b""
            while not answer and time.monotonic() < deadline:
                client.sendall(b"a")
                try:
                    answer = client.recv(4096)
                except TimeoutError:
                    continue
            self.assertTrue(status_line(answer).startswith("HTTP/1.1 408"), answer)

    def test_dripping_body_that_nobody_reads_does_not_keep_a_connection(self):
        pons = self.start()
        with socket.create_connection(pons.address, timeout=0.1) as client:
            client.sendall(b"POST /healthz HTTP/1.1\r\nHost: p\r\nContent-Length: 200000\r\n\r\n")
            deadline = time.monotonic() + PATIENCE_SECONDS
            answer, ended = b"", False
            while not ended and time.monotonic() < deadline:
                try:
                    client.sendall(b"a")
                    piece = client.recv(4096)
                    answer, ended = answer + piece, not piece
                except TimeoutError:
                    continue
                except ConnectionError:
                    ended = True
            self.assertTrue(ended, "the connection is still open")
            self.assertTrue(status_line(answer).startswith("HTTP/1.1 405"), answer)

    def idle_connections(self, pons, count, greeting):
        clients = []
        for _ in range(count):
            client = socket.create_connection(pons.address, timeout=PATIENCE_SECONDS)
            self.addCleanup(client.close)
            if greeting:
                client.sendall(greeting)
                self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))
            clients.append(client)
        return clients

    def test_idle_connections_make_room_for_new_clients(self):
        pons = self.start("limits:\n  connections: 64\n")
        for greeting in (b"", b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\n"):
            clients = self.idle_connections(pons, 1100, greeting)
            self.assertEqual(pons.request("/healthz", seconds=10)[0], 200)
            for client in clients:
                client.close()

    def test_body_that_nobody_reads_is_not_taken_without_end(self):
        pons = self.start("limits:\n  body_bytes: 1024\n")
        memory_before = pons.role("front")["rss_bytes"]
        with socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(b"POST /healthz HTTP/1.1\r\nHost: p\r\nContent-Length: 10000000000\r\n\r\n")
            sent = 0
            try:
                while sent < 1 << 30:
                    sent += client.send(b"b" * 65536)
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertLess(sent, 64 << 20, "the server read on")
        self.assertLess(pons.role("front")["rss_bytes"] - memory_before, 4 << 20)
        self.assertEqual(pons.role("front")["restarts"], 0)
        self.assert_serves(pons)

    def test_broken_chunks_end_the_connection(self):
        pons = self.start()
        answer = raw_exchange(
            pons.address,
            b"POST /healthz HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\nXYZ\r\n"
            b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\n",
        )
        self.assertEqual(answer.count(b"HTTP/1.1"), 1)
        self.assert_serves(pons)

    def test_pipelined_requests_are_answered_in_order(self):
        pons = self.start()
        count = 2000 if LONG else 200
        request = b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\nGET /missing HTTP/1.1\r\nHost: p\r\n\r\n"
        with socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(request * count + b"GET /healthz HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n")
            answer = read_until_closed(client)
        codes = [piece[:3] for piece in answer.split(b"HTTP/1.1 ")[1:]]
        self.assertEqual(codes, [b"200", b"404"] * count + [b"200"])

    def test_noise_is_refused_and_harms_nobody(self):
        pons = self.start()
        for noise in (b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 4096 + b"\r\n\r\n", b"\r\n" * 20_000, b"GET\r\n\r\n",
                      b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/9.9\r\nHost: p\r\n\r\n"):
            with socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) as client:
                try:
                    client.sendall(noise)
                    client.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                self.assertNotIn(b" 200 ", read_until_closed(client))
        self.assertEqual(pons.role("front")["restarts"], 0)
        self.assert_serves(pons)
