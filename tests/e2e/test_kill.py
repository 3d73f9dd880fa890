"""Roles are killed over and over under load: each comes back, and the supervisor pays nothing for it."""

import http.client
import os
import signal
import socket
import threading
import time

from pons_fixture import (
    LONG,
    PATIENCE_SECONDS,
    ROLES,
    WEAKENED_DIR,
    PonsTestCase,
    read_text,
    read_until_closed,
    status_line,
    wait_for,
    zombies_of,
)

KILLS_PER_ROLE = 500 if LONG else 100
FAST_RESTART = "log:\n  level: error\nsupervisor:\n  restart_delay_ms: 1\n  restart_delay_max_ms: 20\n"
GROWTH_BYTES_MAX = 4 << 20


class Load(threading.Thread):
    """Asks without end. What fails while a role is dead does not count; that it succeeds again does."""

    def __init__(self, pons, target):
        super().__init__()
        self.address = pons.address
        self.headers = {"Authorization": f"Bearer {pons.token}"}
        self.target = target
        self.answered = 0
        self.over = threading.Event()

    def run(self):
        while not self.over.is_set():
            connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE_SECONDS)
            try:
                for _ in range(20):
                    connection.request("GET", self.target, headers=self.headers)
                    response = connection.getresponse()
                    response.read()
                    self.answered += response.status == 200
                    time.sleep(0.005)
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()

    def stop(self):
        self.over.set()
        self.join()


class Kill(PonsTestCase):
    def kill_and_wait(self, pons, name):
        before = pons.role(name)
        os.kill(before["pid"], signal.SIGKILL)

        def is_back():
            role = pons.role(name)
            return role["pid"] not in (0, before["pid"]) and role["state"] == "ready" and role

        after = wait_for(is_back, f"{name} comes back")
        self.assertEqual(after["restarts"], before["restarts"] + 1)
        self.assertIn("signal 9", after["last_exit"])
        wait_for(lambda: self.is_well(pons), f"all is well again after the death of {name}")

    @staticmethod
    def is_well(pons):
        try:
            return pons.admin_request("/x/status")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def measure(self, pons):
        """What must be the same before and after, once the supervisor has closed the last of our questions."""
        listeners = len(ROLES)  # the supervisor's and that of every role but the spawner
        wait_for(lambda: read_text("/proc/net/unix").count(pons.state_dir) == listeners, "only the listeners are left")
        return {
            "descriptors": len(os.listdir(f"/proc/{pons.pid}/fd")),
            "processes": len(pons.processes()),
            "zombies": zombies_of(pons.pid),
        }

    def test_every_role_survives_being_killed_again_and_again_under_load(self):
        # Without a pool, of whose sandboxes the supervisor keeps descriptors, the counts are exact.
        pons = self.start(FAST_RESTART + "sandbox:\n  warm_min: 0\n")
        loads = [Load(pons, "/healthz"), Load(pons, "/x/status")]
        processes = len(pons.processes())

        def wait_for_the_dead():
            # What a spawner had started dies with it, a moment later.
            wait_for(lambda: len(pons.processes()) == processes, "only as many processes as at first are left")

        for role in ROLES:  # the first time allocates what stays
            self.kill_and_wait(pons, role)
        wait_for_the_dead()
        before = self.measure(pons)
        memory_before = pons.status()["rss_bytes"]
        for load in loads:
            load.start()
            self.addCleanup(load.stop)
        for _ in range(KILLS_PER_ROLE):
            for role in ROLES:
                self.kill_and_wait(pons, role)
        for load in loads:
            load.stop()
            self.assertGreater(load.answered, 0, load.target)
        wait_for_the_dead()
        self.assertEqual(self.measure(pons), before)
        self.assertEqual(before["zombies"], [])
        self.assertLess(pons.status()["rss_bytes"] - memory_before, GROWTH_BYTES_MAX)
        for role in pons.status()["roles"]:
            self.assertEqual(role["restarts"], KILLS_PER_ROLE + 1)
        self.assertEqual(pons.stop(), 0)

    def test_all_roles_at_once(self):
        pons = self.start(FAST_RESTART)
        for _ in range(10):
            former = pons.role_pids()
            for pid in former.values():
                os.kill(pid, signal.SIGKILL)
            wait_for(
                lambda: pons.status()["ready"] and not set(former.values()) & set(pons.role_pids().values()),
                "all come back",
            )
            wait_for(lambda: self.is_well(pons), "they talk to each other again")
        self.assertEqual(pons.stop(), 0)


class Kept(PonsTestCase):
    SLOW_RESTART = "supervisor:\n  restart_delay_ms: 500\n"

    def test_descriptor_that_a_role_deposited_is_given_to_its_next_processes(self):
        # The gateway of Pons deposits none; this program's does.
        pons = self.start(FAST_RESTART, binary=self.copy_program(f"{WEAKENED_DIR}/pons_with_keepsake"))
        first = pons.role("gateway")
        self.assertEqual(first["kept_descriptors"], 1)
        self.assertNotIn("found", pons.log)
        former = first["pid"]
        for _ in range(3):
            os.kill(former, signal.SIGKILL)
            wait_for(lambda: pons.role("gateway")["pid"] not in (0, former) and pons.status()["ready"], "it is back")
            former = pons.role("gateway")["pid"]
            # The log goes its own way through the supervisor and may come a moment later than the word "ready".
            note = f"{former} found note: written by {first['pid']}\n"
            wait_for(lambda note=note: note in pons.log, "it read the note")
        self.assertEqual(pons.role("gateway")["kept_descriptors"], 1)
        self.assertEqual(pons.stop(), 0)

    def test_client_that_comes_while_the_front_is_dead_is_served_by_the_next_one(self):
        pons = self.start(self.SLOW_RESTART)
        os.kill(pons.role_pids()["front"], signal.SIGKILL)
        wait_for(lambda: pons.role("front")["pid"] == 0, "the front is dead")
        with socket.create_connection(pons.address, timeout=PATIENCE_SECONDS) as client:
            self.assertEqual(pons.role("front")["pid"], 0, "too late: it was back already")
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n")
            self.assertEqual(status_line(read_until_closed(client)), "HTTP/1.1 200 OK")

    def test_question_to_a_dead_role_is_answered_by_the_next_one(self):
        pons = self.start(self.SLOW_RESTART)
        os.kill(pons.role_pids()["brain"], signal.SIGKILL)
        wait_for(lambda: pons.role("brain")["pid"] == 0, "the brain is dead")
        status, body = pons.admin_request("/x/status")
        self.assertEqual(status, 200, body)
        self.assertEqual(pons.role("brain")["restarts"], 1)

    def test_operator_reaches_a_role_through_the_same_socket_after_its_death(self):
        pons = self.start(self.SLOW_RESTART)
        first = pons.ask("warden", "/identity")["pid"]
        os.kill(first, signal.SIGKILL)
        second = pons.ask("warden", "/identity")["pid"]
        self.assertNotIn(second, (0, first))
