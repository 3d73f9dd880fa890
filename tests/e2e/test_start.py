"""Starting and stopping in order."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

from pons_fixture import PATIENCE_SECONDS, PonsTestCase, read_until_closed, status_line, wait_for

# The only request that can be held up from outside: its answer needs the brain, and a stopped brain says nothing.
HELD_REQUEST = "GET /x/status HTTP/1.1\r\nHost: pons\r\nAuthorization: Bearer {}\r\n\r\n"


class Start(PonsTestCase):
    def test_banner_says_where_it_listens_and_where_the_token_is(self):
        pons = self.start()
        port = pons.address[1]
        self.assertIn(f"http://127.0.0.1:{port}\n", pons.output)
        self.assertIn(f"{pons.state_dir}/admin.token", pons.output)
        self.assertNotIn(pons.token, pons.output, "a token has no business in a log")
        self.assertEqual(pons.request("/healthz")[0], 200)

    def test_token_file_is_private(self):
        pons = self.start()
        self.assertEqual(os.stat(f"{pons.state_dir}/admin.token").st_mode & 0o7777, 0o600)
        self.assertGreaterEqual(len(pons.token), 40)

    def test_printed_command_works_as_printed(self):
        pons = self.start()
        command = re.search(r"curl .*", pons.output).group()
        done = subprocess.run(
            ["sh", "-c", command + " --silent --show-error --fail"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"roles"', done.stdout)

    def test_second_start_keeps_the_token(self):
        first = self.start()
        token = first.token
        first.stop()
        second = self.start()
        self.assertEqual(second.token, token)
        self.assertEqual(second.admin_request("/x/status")[0], 200)

    def test_service_manager_hears_of_start_and_stop(self):
        path = f"{self.directory}/notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(PATIENCE_SECONDS)
            pons = self.launch(environment={"NOTIFY_SOCKET": path})
            self.assertIn("READY=1", manager.recv(4096).decode().splitlines())
            self.assertTrue(pons.status()["ready"], "it said so before it was")
            pons.stop()
            self.assertIn("STOPPING=1", manager.recv(4096).decode().splitlines())

    def test_works_without_any_configuration(self):
        # In namespaces of its own: the default port and /var/lib are not this test's to use.
        script = (
            "mount -t tmpfs none /var/lib && "
            f"{sys.executable} -c 'import fcntl, socket, struct; "
            'fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 1))\' && '
            f"exec {self.binary} up"
        )
        with subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
        ) as up:
            self.addCleanup(up.kill)
            banner = [up.stdout.readline() for _ in range(6)]
            self.assertIn("http://127.0.0.1:7600\n", "".join(banner))
            inside = ["nsenter", f"--target={up.pid}", "--net", "--mount"]
            for command in (
                "curl -sf http://127.0.0.1:7600/healthz",
                f"{self.binary} status",
                f"{self.binary} down",
            ):
                done = subprocess.run(inside + command.split(), capture_output=True, text=True, timeout=PATIENCE_SECONDS)
                self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
            self.assertEqual(up.wait(timeout=PATIENCE_SECONDS), 0)


class Stop(PonsTestCase):
    def test_termination_signal_ends_it_in_order(self):
        self.assertEqual(self.start().stop(), 0)

    def test_interrupt_from_the_terminal_ends_it_in_order(self):
        pons = self.start()
        os.killpg(pons.pid, signal.SIGINT)
        self.assertEqual(pons.wait_until_ended(), 0)
        pons.assert_nothing_left()
        self.assertNotIn("killed", pons.log)

    def test_down_waits_until_it_has_stopped(self):
        pons = self.start()
        done = pons.command("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(pons.wait_until_ended(), 0)
        pons.assert_nothing_left()
        again = pons.command("down")
        self.assertEqual(again.returncode, 1)
        self.assertIn("not running", again.stderr)

    def test_stop_before_ready_leaves_nothing(self):
        pons = self.launch()
        wait_for(lambda: os.path.exists(f"{pons.state_dir}/run/supervisor.sock"), "it begins to start")
        self.assertEqual(pons.stop(), 0)

    def hold_a_request(self, pons):
        """A client in the middle of its request, and what lets it be answered."""
        pids = pons.role_pids()
        descriptors = f"/proc/{pids['front']}/fd"
        before = len(os.listdir(descriptors))
        os.kill(pids["brain"], signal.SIGSTOP)
        client = socket.create_connection(pons.address, timeout=PATIENCE_SECONDS)
        self.addCleanup(client.close)
        client.sendall(HELD_REQUEST.format(pons.token).encode())
        wait_for(lambda: len(os.listdir(descriptors)) >= before + 2, "the front serves it and asks the brain")
        return client, lambda: os.kill(pids["brain"], signal.SIGCONT)

    def is_refused(self, pons):
        try:
            socket.create_connection(pons.address, timeout=PATIENCE_SECONDS).close()
            return False
        except ConnectionResetError:
            # It came in the moment in which the listener closed: the next one will be refused.
            return False
        except ConnectionRefusedError:
            return True

    def test_running_request_is_finished_and_new_clients_are_refused(self):
        pons = self.start()
        client, release = self.hold_a_request(pons)
        pons.signal(signal.SIGTERM)
        wait_for(lambda: self.is_refused(pons), "new connections are refused")
        self.assertIsNone(pons.process.poll(), "it did not wait for the request")
        release()
        answer = read_until_closed(client)
        self.assertEqual(status_line(answer), "HTTP/1.1 200 OK")
        self.assertIn(b"Connection: close", answer)
        self.assertEqual(pons.wait_until_ended(), 0)
        pons.assert_nothing_left()

    def test_second_interrupt_ends_it_at_once(self):
        pons = self.start("supervisor:\n  drain_seconds: 60\n")
        client, _ = self.hold_a_request(pons)
        pons.signal(signal.SIGINT)
        wait_for(lambda: self.is_refused(pons), "it drains")
        client.setblocking(False)
        with self.assertRaises(BlockingIOError, msg="the request ended with the first signal"):
            client.recv(1)
        client.settimeout(PATIENCE_SECONDS)
        pons.signal(signal.SIGINT)
        self.assertEqual(pons.wait_until_ended(), 0)
        self.assertEqual(read_until_closed(client), b"", "it waited until the front gave an answer")
        pons.assert_nothing_left()

    def test_work_that_does_not_end_is_ended_after_the_drain_time(self):
        pons = self.start("supervisor:\n  drain_seconds: 1\n")
        client, _ = self.hold_a_request(pons)
        pons.signal(signal.SIGTERM)
        self.assertEqual(pons.wait_until_ended(), 0)
        self.assertEqual(read_until_closed(client), b"")
        pons.assert_nothing_left()
        killed = [json.loads(line)["role"] for line in pons.log.splitlines() if "is killed" in line]
        self.assertEqual(killed, ["brain"], "whoever can end by itself is not killed because another used up the time")
