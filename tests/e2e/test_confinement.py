"""The roles are confined: by their own attempts, seen from outside, and with the proof that the attempts notice."""

import glob
import json
import os

from pons_fixture import ROLES, WEAKENED_DIR, PonsTestCase, process_state, read_link, read_text

ROLE_UID_FIRST = 1_879_100_000
ONLINE_ROLES = {"gateway", "egress"}

# Leaving out a step must make attempts fail, at least these.
NOTICED_BY = {
    "seccomp": {role: {"bpf", "io_uring"} for role in ROLES},
    "landlock": {role: {"read_etc", "read_usr"} for role in ("brain", "gateway", "egress", "warden")},
    # The supervisor has kept no more than the spawner may have, so there is nothing to drop for the spawner.
    "capabilities": {role: {"capabilities"} for role in ROLES if role != "spawner"},
    "network_namespace": {role: {"network_address"} for role in ROLES if role not in ONLINE_ROLES},
    "mount_namespace": {"spawner": {"read_admin_token", "read_other_state", "write_outside"}},
    "memory": {"spawner": {"core_dump"}},
    # Set by the supervisor too, and cleared by the change of user.
    "parent_death": {role: {"parent_death"} for role in ROLES if role != "spawner"},
}


def fails_of(report):
    return {
        role["role"]: {attempt["name"] for attempt in role["attempts"] if not attempt["holds"]}
        for role in report["roles"]
    }


class Doctor(PonsTestCase):
    def assert_all_hold(self, done, examined):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["healthy"])
        self.assertEqual(report["examined"], examined)
        self.assertEqual([role["role"] for role in report["roles"]], list(ROLES))
        self.assertEqual(fails_of(report), {role: set() for role in ROLES})
        for role in report["roles"]:
            self.assertGreater(len(role["attempts"]), 15)

    def test_every_promise_holds_in_a_running_pons(self):
        pons = self.start()
        self.assert_all_hold(pons.command("doctor", "--json"), "the running Pons")
        text = pons.command("doctor").stdout
        self.assertIn("Every promise holds.", text)
        self.assertNotIn("FAIL", text)
        self.assertEqual(set(pons.role_pids().values()) & {0}, set(), "the examination killed a role")
        self.assertTrue(all(role["restarts"] == 0 for role in pons.status()["roles"]))

    def test_every_promise_holds_in_a_trial_instance_that_leaves_nothing(self):
        before = set(glob.glob("/tmp/pons-doctor-*"))
        done = self.run_pons("doctor", "--json", "--state-dir", f"{self.directory}/nothing-here")
        self.assert_all_hold(done, "a trial Pons")
        self.assertLessEqual(set(glob.glob("/tmp/pons-doctor-*")), before)
        self.assertFalse(os.path.exists(f"{self.directory}/nothing-here"))

    def test_trial_instance_uses_the_given_configuration(self):
        config = self.write_file("pons.yaml", "log:\n  level: ${env:WANTED_LEVEL}\n")
        done = self.run_pons(
            "doctor", "--json", "--config", config, "--state-dir", f"{self.directory}/state",
            environment={"WANTED_LEVEL": "debug"},
        )
        self.assert_all_hold(done, "a trial Pons")
        self.assertIn('"level":"debug"', done.stderr)


class Weakened(PonsTestCase):
    """Each of these programs is Pons without one step of the confinement."""

    def examine(self, step):
        binary = self.copy_program(f"{WEAKENED_DIR}/pons_without_{step}")
        # Making a sandbox hides the spawner's memory as well, whatever was left out.
        config = self.write_file("no-pool.yaml", "sandbox:\n  warm_min: 0\n")
        arguments = ["doctor", "--json", "--config", config, "--state-dir", f"{self.directory}/state"]
        return self.run_pons(*arguments, binary=binary)

    def assert_noticed(self, step):
        done = self.examine(step)
        self.assertEqual(done.returncode, 1, "the self-test has a hole")
        report = json.loads(done.stdout)
        self.assertFalse(report["healthy"])
        self.assertEqual(len(report["roles"]), len(ROLES), f"{report['error']}\n{done.stderr}")
        fails = fails_of(report)
        for role in ROLES:
            expected = NOTICED_BY[step].get(role, set())
            self.assertLessEqual(expected, fails[role], f"{role} does not notice that {step} was left out")
            if not expected:
                self.assertEqual(fails[role], set(), f"{role} has nothing to do with {step}")

    def test_missing_seccomp_is_noticed(self):
        self.assert_noticed("seccomp")

    def test_missing_landlock_is_noticed(self):
        self.assert_noticed("landlock")

    def test_kept_capabilities_are_noticed(self):
        self.assert_noticed("capabilities")

    def test_shared_network_namespace_is_noticed(self):
        self.assert_noticed("network_namespace")

    def test_shared_mount_namespace_is_noticed(self):
        self.assert_noticed("mount_namespace")

    def test_readable_memory_is_noticed(self):
        self.assert_noticed("memory")

    def test_roles_that_would_outlive_the_supervisor_are_noticed(self):
        self.assert_noticed("parent_death")

    def test_without_no_new_privileges_no_role_starts_at_all(self):
        # The kernel takes a filter only from a process that has given up new privileges.
        done = self.examine("no_new_privileges")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertFalse(report["healthy"])
        self.assertIn("trial Pons", report["error"])
        self.assertIn("no_new_privs", done.stderr)

    def test_verdict_for_people_names_role_and_promise(self):
        binary = self.copy_program(f"{WEAKENED_DIR}/pons_without_mount_namespace")
        done = self.run_pons("doctor", "--state-dir", f"{self.directory}/state", binary=binary)
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        spawner = lines.index("spawner  NOT CONFINED")
        self.assertTrue(any("FAIL" in line and "cannot read the admin token" in line for line in lines[spawner:]))
        self.assertFalse(any("FAIL" in line for line in lines[:spawner]))


class FromOutside(PonsTestCase):
    def test_kernel_says_the_same_of_every_role(self):
        pons = self.start()
        for index, role in enumerate(ROLES):
            state = process_state(pons.role_pids()[role])
            with self.subTest(role=role):
                self.assertEqual(state["Seccomp"], "2")
                if role == "spawner":
                    continue
                self.assertEqual(state["Uid"].split(), [str(ROLE_UID_FIRST + index)] * 4)
                self.assertEqual(state["Gid"].split(), [str(ROLE_UID_FIRST + index)] * 4)
                self.assertEqual(state.get("Groups", "").split(), [])
                self.assertEqual(state["NoNewPrivs"], "1")
                for held in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                    self.assertEqual(int(state[held], 16), 0, held)

    def test_spawner_holds_only_what_making_sandboxes_takes(self):
        pons = self.start()
        state = process_state(pons.role_pids()["spawner"])
        held = int(state["CapEff"], 16) | int(state["CapPrm"], 16) | int(state["CapBnd"], 16)
        sys_module, sys_rawio, sys_ptrace, sys_boot, sys_time, sys_log, perfmon, bpf = 16, 17, 19, 22, 25, 34, 38, 39
        for number in (sys_module, sys_rawio, sys_ptrace, sys_boot, sys_time, sys_log, perfmon, bpf):
            self.assertFalse(held >> number & 1, f"capability {number}")

    def test_network_namespaces_are_empty_but_where_the_network_is_the_work(self):
        pons = self.start()
        host = os.readlink("/proc/self/ns/net")
        seen = {role: os.readlink(f"/proc/{pid}/ns/net") for role, pid in pons.role_pids().items()}
        self.assertEqual({role for role, namespace in seen.items() if namespace == host}, ONLINE_ROLES)
        isolated = [namespace for namespace in seen.values() if namespace != host]
        self.assertEqual(len(set(isolated)), len(isolated), "two roles share a namespace")

    def test_no_process_can_be_dumped(self):
        # Files in /proc of a process that cannot be dumped belong to root, whoever it runs as; of those that run as
        # root, test_unprivileged.py says the same. The limit for core files closes the other way.
        pons = self.start()
        for role, pid in {"supervisor": pons.pid, **pons.role_pids()}.items():
            with self.subTest(role=role):
                self.assertEqual(os.stat(f"/proc/{pid}/environ").st_uid, 0)
                limits = read_text(f"/proc/{pid}/limits").splitlines()
                core = next(line for line in limits if line.startswith("Max core file size"))
                self.assertEqual(core.split()[4:6], ["0", "0"])

    def test_roles_get_neither_environment_nor_foreign_descriptors(self):
        with open(f"{self.directory}/open-in-the-supervisor", "w", encoding="ascii") as file:
            os.set_inheritable(file.fileno(), True)
            pons = self.start(environment={"SECRET": "of the operator"})
        for role, pid in pons.role_pids().items():
            with self.subTest(role=role):
                self.assertEqual(read_text(f"/proc/{pid}/environ"), "")
                targets = [read_link(path) for path in glob.glob(f"/proc/{pid}/fd/*")]
                own = f"{pons.state_dir}/{role}"
                self.assertEqual([target for target in targets if target.startswith(self.directory)
                                  and target != own and not target.startswith(f"{own}/")], [])

    def test_spawner_sees_neither_other_roles_nor_the_host_s_files(self):
        pons = self.start()
        root = f"/proc/{pons.role_pids()['spawner']}/root"
        self.assertFalse(os.path.exists(f"{root}/etc/passwd"))
        self.assertFalse(os.path.exists(f"{root}{pons.state_dir}/admin.token"))
        self.assertFalse(os.path.exists(f"{root}{pons.state_dir}/brain"))
        self.assertTrue(os.path.isdir(f"{root}{pons.state_dir}/spawner"))
