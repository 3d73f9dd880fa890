"""HTTPS on the public port: real clients, renewed and broken certificates, slow greetings."""

import glob
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

from e2b_client import Door
from pons_fixture import PATIENCE_SECONDS, PonsTestCase, is_in_memory, read_until_closed, wait_for
from sdk_fixture import HERE, SUITE, node
from warden_client import end_orderly


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=PATIENCE_SECONDS)


class Authority:
    """One that clients of the test believe, and leaves of it."""

    def __init__(self, directory):
        self.directory = directory
        self.certificate = f"{directory}/ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=test authority", "-keyout", f"{directory}/ca.key", "-out", self.certificate)

    def issue(self, name, days=1):
        """NAME.pem and NAME.key; a leaf of -1 days has expired."""
        base = f"{self.directory}/{name}"
        with open(f"{base}.ext", "w", encoding="ascii") as file:
            file.write("subjectAltName=IP:127.0.0.1,DNS:pons.test,DNS:*.sbx.test\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{base}.key", "-out", f"{base}.csr")
        openssl("x509", "-req", "-in", f"{base}.csr", "-CA", self.certificate, "-CAkey", f"{self.directory}/ca.key",
                "-CAcreateserial", "-days", str(days), "-extfile", f"{base}.ext", "-out", f"{base}.pem")

    def client(self):
        return ssl.create_default_context(cafile=self.certificate)


class TlsCase(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory)
        self.authority.issue("first")
        self.use("first")

    def use(self, certificate, key=None):
        """What a renewal does: both files are replaced."""
        for source, target in ((f"{certificate}.pem", "live.pem"), (f"{key or certificate}.key", "live.key")):
            shutil.copyfile(f"{self.directory}/{source}", f"{self.directory}/{target}.new")
            os.rename(f"{self.directory}/{target}.new", f"{self.directory}/{target}")

    def config(self, more="", check_seconds=3600):
        return (f"tls:\n  certificate: {self.directory}/live.pem\n  key: {self.directory}/live.key\n"
                f"  check_seconds: {check_seconds}\ndomain: sbx.test\n{more}")

    def start_tls(self, more="", **options):
        self.pons = self.start(self.config(more, **options))
        self.addCleanup(end_orderly, self.pons)
        return self.pons

    def make_door(self):
        made = json.loads(self.pons.command("key", "create", "mine", "--json").stdout)
        door = Door(self.pons, made["key"], tls=self.authority.client())
        wait_for(lambda: door.ask("GET", "/v2/sandboxes")[0] == 200, "the key opens")
        return door

    def shown(self):
        """The common name of the certificate that a new client is shown."""
        with socket.create_connection(self.pons.address, timeout=PATIENCE_SECONDS) as plain:
            with self.authority.client().wrap_socket(plain, server_hostname="pons.test") as secure:
                return dict(pair for part in secure.getpeercert()["subject"] for pair in part)["commonName"]


class Clients(TlsCase):
    def curl(self, *arguments):
        url = "https://{}:{}/healthz".format(*self.pons.address)
        return subprocess.run(["curl", "-sS", "--cacert", self.authority.certificate, "-w", "\n%{http_version}",
                               *arguments, url], capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    def test_curl_is_served_and_nobody_gets_less_than_tls_1_2(self):
        pons = self.start_tls()
        self.assertIn("https://127.0.0.1:", pons.output)
        for arguments in ((), ("--http2",), ("--tls-max", "1.2"), ("--tlsv1.3",)):
            self.assertEqual(self.curl(*arguments).stdout, '{"status":"ok"}\n\n1.1', arguments)
        old = self.authority.client()
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) as plain, self.assertRaises(ssl.SSLError):
            old.wrap_socket(plain, server_hostname="pons.test")
        with socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\n")
            self.assertNotIn(b"200", read_until_closed(plain))
        self.assertEqual(pons.role("front")["restarts"], 0)

    def test_the_key_is_nowhere_but_in_its_file_the_front_and_the_supervisor(self):
        pons = self.start_tls("log:\n  level: debug\n")
        self.authority.issue("second")
        self.use("second")
        self.assertEqual(pons.command("reload").returncode, 0)
        self.assertEqual(self.shown(), "second")
        status = pons.command("status", "--json").stdout
        with open(f"{self.directory}/second.key", encoding="ascii") as file:
            secret = file.read().splitlines()[1]
        for role, pid in pons.role_pids().items():
            if role != "front":
                self.assertFalse(is_in_memory(pid, secret.encode()), role)
        self.assertTrue(is_in_memory(pons.pid, secret[:16].encode()), "the search finds nothing even where it is")
        self.assertNotIn(secret, pons.log + pons.output + status)
        for path in glob.glob(f"{pons.state_dir}/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(secret.encode(), file.read(), path)

    def test_the_sdk_works_over_it(self):
        pons = self.start_tls("limits:\n  connections: 4096\n")
        url = "https://{}:{}".format(*pons.address)
        environment = {"PATH": os.environ["PATH"], "HOME": self.directory, "E2B_API_KEY": self.make_door().key,
                       "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "NODE_EXTRA_CA_CERTS": self.authority.certificate}
        done = subprocess.run([node(), "--test", "commands.test.mjs"], cwd=SUITE, env=environment, capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-4000:])
        example = os.path.join(self.directory, "quickstart")
        shutil.copytree(os.path.join(HERE, "..", "..", "examples", "e2b-quickstart"), example,
                        ignore=shutil.ignore_patterns("node_modules"))
        os.symlink(os.path.join(SUITE, "node_modules"), os.path.join(example, "node_modules"))
        done = subprocess.run([node(), "index.mjs"], cwd=example, env=environment, capture_output=True, text=True,
                              timeout=60)
        self.assertIn("python says 45", done.stdout, done.stderr)

    def test_websockets_pass(self):
        self.start_tls()
        box = self.make_door().create()
        # An echo of single bytes behind a handshake that the test does not look into.
        server = ("import socket; s = socket.create_server(('127.0.0.1', 8000)); c, _ = s.accept()\n"
                  "import hashlib, base64, re\nhead = b''\n"
                  "while b'\\r\\n\\r\\n' not in head: head += c.recv(4096)\n"
                  "key = re.search(rb'(?i)sec-websocket-key: *(\\S+)', head)[1]\n"
                  "accept = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())\n"
                  "c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'"
                  " b'Sec-WebSocket-Accept: ' + accept + b'\\r\\n\\r\\n')\n"
                  "frame = c.recv(4096); size = frame[1] & 127; mask = frame[2:6]\n"
                  "text = bytes(b ^ mask[i % 4] for i, b in enumerate(frame[6:6 + size]))\n"
                  "c.sendall(bytes([0x81, size]) + text); c.recv(4096)\n")
        box.start(f"cat > /tmp/s.py <<'EOF'\n{server}EOF\nexec python3 /tmp/s.py").take()

        def talk():
            client = box.door.connect()
            client.sendall((f"GET / HTTP/1.1\r\nHost: 8000-{box.id}.sbx.test\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n").encode())
            answer = b""
            while b"\r\n\r\n" not in answer and (piece := client.recv(4096)):
                answer += piece
            if b" 101 " not in answer:
                client.close()
                return None
            return client

        client = wait_for(talk, "the server in the sandbox listens", step=0.1)
        client.sendall(bytes([0x81, 0x85, 1, 2, 3, 4]) + bytes(b ^ (1, 2, 3, 4)[i % 4] for i, b in enumerate(b"hello")))
        self.assertEqual(client.recv(4096), b"\x81\x05hello")
        client.close()


class Renewal(TlsCase):
    def test_a_renewal_under_load_loses_no_request_and_no_stream(self):
        self.start_tls("limits:\n  connections: 4096\n")
        door = self.make_door()
        box = door.create()
        stream = box.start("for i in $(seq 40); do echo $i; sleep 0.1; done")
        stop, failures, done = threading.Event(), [], [0]

        def load(kept):
            try:
                connection = door.connection() if kept else None
                while not stop.wait(0.006):  # together less than one key may ask in a second
                    status, _, _ = door.ask("GET", "/v2/sandboxes", connection=connection)
                    done[0] += 1
                    if status != 200:
                        failures.append(status)
            except Exception as error:  # any of them is the test's result
                failures.append(repr(error))

        threads = [threading.Thread(target=load, args=(index % 2 == 0,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for name in ("second", "third", "fourth"):
            self.authority.issue(name)
            self.use(name)
            answer = self.pons.command("reload")
            self.assertEqual((answer.returncode, answer.stdout), (0, "The new certificate is in use.\n"), answer.stderr)
            self.assertEqual(self.shown(), name)
        self.assertEqual(self.pons.command("reload").stdout, "The certificate has not changed.\n")
        self.assertEqual(stream.output(), b"".join(b"%d\n" % i for i in range(1, 41)))
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(done[0], 100)
        self.assertEqual(self.pons.role("front")["restarts"], 0)

    def test_what_cannot_be_used_changes_nothing_and_is_told(self):
        pons = self.start_tls()
        self.authority.issue("second")
        self.authority.issue("late", days=-1)
        with open(f"{self.directory}/junk.pem", "w", encoding="ascii") as file:
            file.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        cases = [(("second", "first"), "key values mismatch"), (("junk", "first"), "read certificates"),
                 (("late", None), "expired")]
        for pair, why in cases:
            self.use(*pair)
            answer = pons.command("reload")
            self.assertEqual(answer.returncode, 1, why)
            self.assertIn(why, answer.stderr)
            self.assertIn(why, pons.log)
            self.assertEqual(self.shown(), "first")
        os.unlink(f"{self.directory}/live.key")
        answer = pons.command("reload")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("live.key", answer.stderr)
        # A front that starts anew has the last one that was good.
        front = pons.role_pids()["front"]
        os.kill(front, signal.SIGKILL)
        wait_for(lambda: pons.role("front")["state"] == "ready" and pons.role_pids()["front"] != front, "front is back")
        self.assertEqual(self.shown(), "first")
        self.use("second")
        pons.signal(signal.SIGHUP)
        wait_for(lambda: self.shown() == "second", "SIGHUP reloads")

    def test_a_renewal_is_noticed_by_itself(self):
        self.start_tls(check_seconds=1)
        self.authority.issue("second")
        self.use("second")
        wait_for(lambda: self.shown() == "second", "the files are looked at")


class Beginnings(TlsCase):
    def refused(self, config, listen="127.0.0.1:0"):
        done = self.run_pons("up", "--state-dir", f"{self.directory}/state", "--listen", listen, "--config",
                             self.write_file("pons.yaml", config))
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_a_start_without_a_usable_pair_is_refused(self):
        self.authority.issue("second")
        self.use("second", key="first")
        self.assertIn("key values mismatch", self.refused(self.config()))
        os.unlink(f"{self.directory}/live.pem")
        self.assertIn("live.pem", self.refused(self.config()))
        self.assertIn("together with certificate", self.refused("tls:\n  key: /x\n"))

    def test_plain_http_beyond_loopback_needs_the_word_for_it(self):
        self.assertIn("plain_http: anywhere", self.refused("", listen="0.0.0.0:0"))
        self.assertIn("plain_http: anywhere", self.refused("listen: 0.0.0.0:0\n", listen="[::]:0"))
        pons = self.start("plain_http: anywhere\n", listen="0.0.0.0:0")
        self.assertEqual(pons.request("/healthz")[0], 200)
        self.assertEqual(pons.stop(), 0)
        pons = self.start(self.config(), listen="0.0.0.0:0")
        self.pons = pons
        self.assertEqual(self.shown(), "first")
        self.assertEqual(pons.command("reload").returncode, 0)


class SlowGreetings(TlsCase):
    def test_they_are_ended_and_hold_nobody(self):
        pons = self.start_tls("limits:\n  connections: 64\n  header_seconds: 8\n")
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 20
        slow = [socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) for _ in range(100)]
        for index, client in enumerate(slow):
            if index % 2 == 0:
                client.sendall(hello)
        # The door is full of them; those that came first make room before their time is over.
        begun = time.monotonic()
        self.assertEqual(self.shown(), "first")
        self.assertLess(time.monotonic() - begun, 8)
        # And all of them are ended.
        for client in slow:
            read_until_closed(client)
            client.close()
        self.assertEqual(self.shown(), "first")
        self.assertEqual(pons.role("front")["restarts"], 0)
