"""Pons for a user who is not root: what works, and what the doctor admits."""

import json
import os

from pons_fixture import PonsTestCase, ROLES, process_state

SOMEONE = 45_672

# Without root nobody can take the file system from the spawner, so these stay open to it. All else holds.
SPAWNER_FAILS = {"read_admin_token", "read_other_state", "write_outside"}


class Unprivileged(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.home = f"{self.directory}/home"
        os.mkdir(self.home)
        os.chown(self.home, SOMEONE, SOMEONE)

    def start_as_someone(self):
        return self.start(user=SOMEONE, state_dir=f"{self.home}/state")

    def test_starts_serves_and_stops(self):
        pons = self.start_as_someone()
        self.assertEqual(pons.admin_request("/x/status")[0], 200)
        self.assertEqual(os.stat(f"{pons.state_dir}/admin.token").st_uid, SOMEONE)
        self.assertEqual(pons.stop(), 0)

    def test_roles_have_no_capability_and_a_filter(self):
        pons = self.start_as_someone()
        for role, pid in pons.role_pids().items():
            state = process_state(pid)
            with self.subTest(role=role):
                self.assertEqual(state["Uid"].split(), [str(SOMEONE)] * 4)
                self.assertEqual(state["Seccomp"], "2")
                if role != "spawner":
                    self.assertEqual(int(state["CapEff"], 16) | int(state["CapPrm"], 16), 0)
                    self.assertEqual(state["NoNewPrivs"], "1")

    def test_nobody_but_root_can_look_into_any_process(self):
        # Files in /proc of a process that cannot be dumped belong to root, whoever it runs as.
        pons = self.start_as_someone()
        for name, pid in {"supervisor": pons.pid, **pons.role_pids()}.items():
            with self.subTest(process=name):
                self.assertEqual(os.stat(f"/proc/{pid}/environ").st_uid, 0)

    def examine(self, pons):
        done = pons.command("doctor", "--json")
        report = json.loads(done.stdout)
        fails = {
            role["role"]: {attempt["name"] for attempt in role["attempts"] if not attempt["holds"]}
            for role in report["roles"]
        }
        return done.returncode, report, fails

    def test_doctor_admits_what_needs_root_and_nothing_else_fails(self):
        pons = self.start_as_someone()
        code, report, fails = self.examine(pons)
        self.assertEqual(code, 1)
        self.assertFalse(report["healthy"])
        self.assertEqual(fails, {role: SPAWNER_FAILS if role == "spawner" else set() for role in ROLES})
        root = next(finding for finding in report["host"] if finding["name"] == "root")
        self.assertFalse(root["good"])
        self.assertIn("as root", root["cost"])

    def test_doctor_says_so_to_people_too(self):
        text = self.start_as_someone().command("doctor").stdout
        self.assertIn("NOT CONFINED", text)
        self.assertNotIn("Every promise holds", text)

    def test_trial_instance_of_the_doctor_works_without_root(self):
        done = self.run_pons("doctor", "--json", "--state-dir", f"{self.home}/state", user=SOMEONE)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertIsNone(report["error"])
        self.assertEqual(len(report["roles"]), len(ROLES))

    def test_default_state_directory_is_the_user_s_own(self):
        done = self.run_pons("config", "check", "--json", user=SOMEONE, environment={"HOME": self.home})
        self.assertEqual(json.loads(done.stdout)["config"]["state_dir"], f"{self.home}/.local/state/pons")

    def test_operator_s_commands_are_refused_to_other_users(self):
        pons = self.start_as_someone()
        done = self.run_pons("status", "--state-dir", pons.state_dir, user=SOMEONE + 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("belongs to another user", done.stderr)
