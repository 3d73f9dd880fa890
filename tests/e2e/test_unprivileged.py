"""Pons for a user who is not root: what works, and what the doctor admits."""

import json
import os
import signal

from pons_fixture import PonsTestCase, ROLES, UnixConnection, process_state, wait_for

SOMEONE = 45_672

# What a sandbox cannot have without root, by its line in the doctor's report.
MISSING = ("sandbox users", "sandbox limits", "sandbox pause", "idmapped mounts")


class Someone(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.home = f"{self.directory}/home"
        os.mkdir(self.home)
        os.chown(self.home, SOMEONE, SOMEONE)

    def start_as_someone(self):
        return self.start(user=SOMEONE, state_dir=f"{self.home}/state")


class Unprivileged(Someone):
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

    def test_every_role_is_confined_and_the_doctor_names_what_sandboxes_lack(self):
        pons = self.start_as_someone()
        code, report, fails = self.examine(pons)
        self.assertEqual(fails, {role: set() for role in ROLES})
        self.assertEqual(code, 0)
        self.assertTrue(report["healthy"])
        host = {finding["name"]: finding for finding in report["host"]}
        self.assertIn("as root", host["root"]["cost"])
        for name in MISSING:
            with self.subTest(name=name):
                self.assertFalse(host[name]["good"])
                self.assertNotEqual(host[name]["cost"], "")

    def test_doctor_says_so_to_people_too(self):
        text = self.start_as_someone().command("doctor").stdout
        for name in MISSING:
            self.assertRegex(text, f"note +{name}")

    def test_trial_instance_of_the_doctor_works_without_root(self):
        done = self.run_pons("doctor", "--json", "--state-dir", f"{self.home}/state", user=SOMEONE)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0)
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


class Sandboxes(Someone):
    def setUp(self):
        super().setUp()
        self.pons = self.start_as_someone()

    def sandbox(self, verb, *words, code=0):
        done = self.run_pons("sandbox", verb, "--state-dir", self.pons.state_dir, *words, user=SOMEONE)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.strip() if code == 0 else done.stderr

    def shell(self, line, id="work"):
        return self.sandbox("exec", id, "--", "sh", "-c", line)

    def test_command_runs_as_the_only_user_without_a_capability(self):
        self.sandbox("create", "--id", "work", "host")
        self.assertEqual(self.shell("id -u; id -g; hostname").split(), ["1000", "1000", "sandbox"])
        self.assertEqual(self.shell("cat /proc/self/uid_map").split(), ["1000", "0", "1"])
        self.assertEqual(int(self.shell("grep CapEff /proc/self/status | cut -f2"), 16), 0)
        self.assertIn("not permitted", self.sandbox("exec", "--user", "root", "work", "--", "id", code=125))

    def test_sandbox_sees_nothing_of_the_user_it_runs_as(self):
        self.sandbox("create", "--id", "work", "host")
        secret = f"{self.home}/secret"
        with open(secret, "w", encoding="utf-8") as file:
            file.write("of the host")
        os.chown(secret, SOMEONE, SOMEONE)
        look = f"cat {secret} {self.pons.state_dir}/admin.token /proc/1/environ /proc/1/mem /proc/1/root/x; true"
        self.assertEqual(self.shell(f"({look}) 2>/dev/null"), "")
        attacks = [
            f"kill -0 {self.pons.pid}",
            "kill -9 1; kill -0 1 && false",
            "mount -t tmpfs none /mnt",
            "umount /proc/keys",
            "unshare -U true",
            "unshare -n true",
            "echo x > /proc/sys/kernel/hostname",
            "hostname other",
            "nsenter -t 1 -m true",
            "chroot / true",
        ]
        for attack in attacks:
            with self.subTest(attack=attack):
                self.assertEqual(self.shell(f"({attack}) > /dev/null 2>&1 && echo worked; true"), "")
        self.assertEqual(self.shell("echo alive"), "alive")

    def test_sandboxes_of_one_user_do_not_see_each_other(self):
        self.sandbox("create", "--id", "work", "host")
        self.sandbox("create", "--id", "other", "host")
        self.shell("echo mine > /tmp/mine; echo mine > /dev/shm/mine; sleep 300 > /dev/null 2>&1 &")
        look = "ls /tmp /dev/shm; grep -l sleep /proc/[0-9]*/comm; true"
        self.assertNotRegex(self.shell(look, "other"), "mine|comm")

    def test_fork_bomb_is_bounded_without_control_groups(self):
        self.sandbox("create", "--id", "work", "host")
        self.sandbox("create", "--id", "other", "host")
        bomb = "i=0; while [ $i -lt 5000 ]; do sleep 60 & i=$((i+1)); done"
        self.assertIn("Cannot fork", self.shell(f"({bomb}) 2>&1; true"))
        self.assertEqual(self.shell("echo unharmed", "other"), "unharmed")

    def test_checkpoint_rollback_commit_and_fork(self):
        self.sandbox("create", "--id", "work", "host")
        self.shell("mkdir d; echo 1 > d/a; echo keep > k")
        first = self.sandbox("checkpoint", "work").split()[0]
        self.shell("rm -r d; mkdir d; echo 2 > d/b; rm k; rm -r /etc/ssl; mkdir /etc/ssl")
        second = self.sandbox("checkpoint", "work").split()[0]
        self.sandbox("fork", "--id", "copy", "work")
        self.assertEqual(self.shell("ls d /etc/ssl; touch d/c", "copy").split(), ["/etc/ssl:", "d:", "b"])
        self.assertEqual(self.shell("ls d"), "b")
        self.sandbox("commit", "work", second)
        self.assertEqual(self.shell("ls d; ls /etc/ssl"), "b")
        self.sandbox("rollback", "work", first)
        self.assertEqual(self.shell("ls d; cat k; ls /etc/ssl | head -1").split(), ["a", "keep", "ca-bundle.pem"])

    def test_snapshot_becomes_a_template(self):
        self.sandbox("create", "--id", "work", "host")
        self.shell("echo 1 > made; rm -r /etc/alternatives; mkdir /etc/alternatives; rm /etc/hosts")
        connection = UnixConnection(f"{self.pons.state_dir}/run/warden.sock")
        self.addCleanup(connection.close)
        connection.request("POST", "/sandboxes/work/snapshot", body='{"template":"snap"}')
        answer = connection.getresponse()
        self.assertEqual(answer.status, 201, answer.read())
        look = "cat ~/made; ls -A /etc/alternatives; ls /etc/hosts 2> /dev/null; true"
        self.assertEqual(self.sandbox("run", "snap", "--", "sh", "-c", look), "1")

    def test_pause_says_that_it_cannot(self):
        self.sandbox("create", "--id", "work", "host")
        self.assertIn("not supported", self.sandbox("pause", "work", code=1))

    def test_nothing_is_left_of_sandboxes_after_the_end(self):
        self.sandbox("create", "--id", "work", "host")
        self.shell("sleep 300 > /dev/null 2>&1 &")
        self.assertNotEqual(self.processes_of_someone(), [])
        self.assertEqual(self.pons.stop(), 0)
        self.assertEqual(self.processes_of_someone(), [])

    def test_root_finds_no_leaks_beside_sandboxes_that_come_and_go(self):
        def leaks():
            done = self.run_pons("doctor", "--leaks", "--json", "--state-dir", self.pons.state_dir)
            self.assertEqual(done.stderr, "")
            return json.loads(done.stdout)

        self.assertEqual(leaks(), {"running": True, "leaks": []})
        for i in range(10):
            self.sandbox("create", "--id", f"work{i}", "host")
        self.assertEqual(leaks(), {"running": True, "leaks": []})
        for i in range(10):
            self.sandbox("rm", f"work{i}")
        self.assertEqual(leaks(), {"running": True, "leaks": []})

    def test_sandboxes_end_with_a_killed_spawner_and_new_ones_work(self):
        self.sandbox("create", "--id", "work", "host")
        self.shell("sleep 4242 > /dev/null 2>&1 &")
        before = self.pons.role_pids()["spawner"]
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: "sleep" not in self.processes_of_someone(), "the sandbox ends")
        wait_for(lambda: self.pons.role("spawner")["pid"] not in (0, None, before), "the spawner is back")
        wait_for(
            lambda: self.run_pons(
                "sandbox", "run", "--state-dir", self.pons.state_dir, "host", "--", "true", user=SOMEONE
            ).returncode
            == 0,
            "a new sandbox works",
        )

    @staticmethod
    def processes_of_someone():
        states = [process_state(pid) for pid in filter(str.isdigit, os.listdir("/proc"))]
        return [
            state["Name"]
            for state in states
            if state.get("Uid", "").startswith(f"{SOMEONE}\t") and not state["State"].startswith("Z")
        ]
