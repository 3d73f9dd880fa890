"""Starts that must be refused, and deaths that must be survived."""

import os
import signal
import socket
import time

from pons_fixture import ROLES, WEAKENED_DIR, PonsTestCase, read_text, wait_for

STRANGER = 45_671


class RefusedStart(PonsTestCase):
    def refused(self, *arguments, state_dir=None, user=None, listen="127.0.0.1:0"):
        """The complaint of a `pons up` that must not start."""
        state_dir = state_dir or f"{self.directory}/state"
        done = self.run_pons("up", "--state-dir", state_dir, "--listen", listen, *arguments, user=user)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_unknown_key_is_named_with_its_place_and_the_nearest_one(self):
        config = self.write_file("pons.yaml", "log:\n  levle: debug\n")
        complaint = self.refused("--config", config)
        self.assertIn(f"{config}:2:3", complaint)
        self.assertIn("levle", complaint)
        self.assertIn("level", complaint.replace("levle", ""))

    def test_configuration_that_cannot_be_read_is_named(self):
        config = self.write_file("pons.yaml", "")
        os.chmod(config, 0o000)
        os.mkdir(f"{self.directory}/own")
        os.chown(f"{self.directory}/own", STRANGER, STRANGER)
        complaint = self.refused("--config", config, state_dir=f"{self.directory}/own", user=STRANGER)
        self.assertIn(config, complaint)
        self.assertIn("ermission denied", complaint)

    def test_missing_configuration_file_is_not_replaced_by_defaults(self):
        self.assertIn("nowhere.yaml", self.refused("--config", f"{self.directory}/nowhere.yaml"))

    def test_directory_is_no_configuration(self):
        complaint = self.refused("--config", self.directory)
        self.assertIn(self.directory, complaint)
        self.assertIn("not a regular file", complaint)

    def test_taken_port_is_named_with_its_owner(self):
        with socket.create_server(("127.0.0.1", 0)) as owner:
            port = owner.getsockname()[1]
            complaint = self.refused(listen=f"127.0.0.1:{port}")
        self.assertIn(str(port), complaint)
        self.assertIn(f"pid {os.getpid()}", complaint)

    def test_state_directory_that_cannot_be_written_comes_with_advice(self):
        os.mkdir(f"{self.directory}/foreign", mode=0o755)
        complaint = self.refused(state_dir=f"{self.directory}/foreign/state", user=STRANGER)
        self.assertIn("foreign/state", complaint)
        self.assertIn("--state-dir", complaint)

    def test_foreign_state_directory_is_refused(self):
        os.mkdir(f"{self.directory}/foreign", mode=0o755)
        self.assertIn("foreign", self.refused(state_dir=f"{self.directory}/foreign", user=STRANGER))

    def test_file_is_no_state_directory(self):
        path = self.write_file("state", "")
        complaint = self.refused(state_dir=path)
        self.assertIn(path, complaint)
        self.assertIn("ot a directory", complaint)

    def test_link_is_no_state_directory(self):
        os.mkdir(f"{self.directory}/real")
        os.symlink(f"{self.directory}/real", f"{self.directory}/state")
        self.refused()
        self.assertEqual(os.listdir(f"{self.directory}/real"), [], "it wrote where the link leads")

    def test_second_pons_on_the_same_state_is_refused_and_the_first_unharmed(self):
        first = self.start()
        complaint = self.refused(state_dir=first.state_dir)
        self.assertIn(f"pid {first.pid}", complaint)
        self.assertIn("pons down", complaint)
        self.assertEqual(first.admin_request("/x/status")[0], 200)
        self.assertEqual(first.stop(), 0)

    def test_token_that_others_can_read_is_refused(self):
        first = self.start()
        first.stop()
        os.chmod(f"{first.state_dir}/admin.token", 0o640)
        complaint = self.refused(state_dir=first.state_dir)
        self.assertIn("admin.token", complaint)
        self.assertIn("chmod 600", complaint)

    def test_token_that_is_too_short_is_refused(self):
        first = self.start()
        first.stop()
        with open(f"{first.state_dir}/admin.token", "w", encoding="ascii") as file:
            file.write("guessable\n")
        complaint = self.refused(state_dir=first.state_dir)
        self.assertIn("admin.token", complaint)
        self.assertNotIn("guessable", complaint)

    def test_role_that_dies_at_every_start_ends_it_with_the_role_s_last_words(self):
        binary = self.copy_program(f"{WEAKENED_DIR}/pons_with_dying_brain")
        pons = self.launch("supervisor:\n  restart_delay_ms: 1\n", binary=binary)
        self.assertEqual(pons.wait_until_ended(), 1)
        pons.assert_nothing_left()
        complaint = pons.log.splitlines()
        verdict = next(line for line in complaint if "brain failed to start 3 times" in line)
        self.assertIn("signal 6", verdict)
        self.assertIn("  the brain has no memory", complaint[complaint.index(verdict) :])
        self.assertNotIn("ready", pons.output)


class Death(PonsTestCase):
    def test_roles_die_with_a_killed_supervisor_and_the_next_start_works(self):
        pons = self.start()
        token = pons.token
        roles = list(pons.role_pids().values())
        self.assertEqual(len(roles), len(ROLES))
        pons.signal(signal.SIGKILL)
        self.assertEqual(pons.wait_until_ended(), -signal.SIGKILL)
        wait_for(
            lambda: not pons.processes() and pons.state_dir not in read_text("/proc/net/unix"), "all roles end", seconds=2
        )

        after = self.start()
        self.assertEqual(after.token, token)
        self.assertEqual(after.admin_request("/x/status")[0], 200)
        self.assertEqual(after.stop(), 0)

    def hold_what_a_dying_front_holds(self, pons):
        """Sockets on the same places as those of a front that the kernel has not ended yet."""
        path = f"{pons.state_dir}/run/front.sock"
        os.unlink(path)
        port = socket.create_server(pons.address)
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        for held in (port, control):
            self.addCleanup(held.close)
        control.bind(path)
        control.listen()
        return port, control

    def killed(self):
        pons = self.start()
        pons.signal(signal.SIGKILL)
        pons.wait_until_ended()
        wait_for(lambda: pons.state_dir not in read_text("/proc/net/unix"), "all roles end")
        return pons

    def test_start_after_a_kill_waits_for_the_dying_roles(self):
        former = self.killed()
        port, control = self.hold_what_a_dying_front_holds(former)
        pons = self.launch(listen="{}:{}".format(*former.address))
        lock = f"{pons.state_dir}/run/pons.lock"
        for held in (port, control):
            wait_for(lambda: read_text(lock).strip() == str(pons.pid), "it has begun")
            time.sleep(0.3)
            self.assertIsNone(pons.process.poll(), pons.log)
            held.close()
        pons.wait_until_ready()
        self.assertEqual(pons.stop(), 0)

    def test_start_after_a_kill_does_not_wait_for_ever(self):
        former = self.killed()
        self.hold_what_a_dying_front_holds(former)[0].close()
        pons = self.launch()
        self.assertEqual(pons.wait_until_ended(), 1)
        self.assertIn("front.sock is in use", pons.log)

    def test_role_that_does_not_get_ready_is_killed_and_started_again(self):
        binary = self.copy_program(f"{WEAKENED_DIR}/pons_with_sleepy_brain")
        pons = self.start("supervisor:\n  ready_seconds: 3\n", binary=binary)
        brain = pons.role("brain")
        self.assertEqual(brain["restarts"], 1)
        self.assertIn("signal 9", brain["last_exit"])
        self.assertIn("did not get ready in time", pons.log)
        self.assertEqual(pons.stop(), 0)
