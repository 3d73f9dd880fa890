"""The command line."""

import json
import os
import pty
import re
import signal
import subprocess

from pons_fixture import PATIENCE_SECONDS, PonsTestCase, wait_for

COMMANDS = {
    ("up",): ["--config", "--state-dir", "--listen"],
    ("down",): ["--config", "--state-dir", "--json"],
    ("status",): ["--config", "--state-dir", "--json"],
    ("doctor",): ["--config", "--state-dir", "--json", "--leaks"],
    ("config",): ["check", "schema", "reference"],
    ("config", "check"): ["--config", "--state-dir", "--json"],
    ("config", "schema"): [],
    ("config", "reference"): [],
    ("sandbox",): "run create ls exec shell cp logs checkpoint rollback commit fork pause resume rm top inspect".split(),
    ("version",): ["--json"],
    ("completion",): ["bash", "zsh", "fish"],
}


class Usage(PonsTestCase):
    def test_help_of_every_command_names_its_options(self):
        for command, words in {(): [command[0] for command in COMMANDS], **COMMANDS}.items():
            done = self.run_pons(*command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertEqual(done.stderr, "")
            for word in words:
                self.assertIn(word, done.stdout, command)
            self.assertNotIn("role", re.findall(r"^  (\w+)", done.stdout, re.MULTILINE), "an inner command is shown")

    def test_unknown_command_gets_the_nearest_one_suggested(self):
        done = self.run_pons("staus")
        self.assertEqual(done.returncode, 2)
        self.assertIn('did you mean "status"?', done.stderr)
        self.assertIn("--help", self.run_pons("frobnicate-everything").stderr)

    def test_wrong_usage_has_its_own_exit_code(self):
        for arguments in (
            [],
            ["--no-such-option"],
            ["status", "--no-such-option"],
            ["status", "surplus"],
            ["up", "--listen"],
            ["config"],
            ["completion"],
            ["completion", "tcsh"],
        ):
            done = self.run_pons(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotEqual(done.stderr, "", arguments)
            self.assertEqual(done.stdout, "", arguments)

    def test_address_without_a_port_is_explained(self):
        done = self.run_pons("up", "--listen", "localhost", "--state-dir", f"{self.directory}/state")
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:7600", done.stderr)

    def test_role_program_refuses_to_be_started_by_hand(self):
        done = self.run_pons("role", "front")
        self.assertEqual(done.returncode, 1)
        self.assertIn("pons up", done.stderr)

    def test_version_is_the_same_everywhere(self):
        version = json.loads(self.run_pons("version", "--json").stdout)["version"]
        self.assertRegex(version, r"^\d+\.\d+\.\d+")
        self.assertIn(version, self.run_pons("version").stdout)
        self.assertIn(version, self.run_pons("--version").stdout)


class Configuration(PonsTestCase):
    def check(self, text):
        config = self.write_file("pons.yaml", text)
        return self.run_pons("config", "check", "--json", "--config", config)

    def test_harness_and_credentials_are_understood(self):
        for text in ("harness: opencode\n", "credentials: {GITHUB_TOKEN: {allowed_host: api.github.com}}\n"):
            done = self.check(text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(json.loads(done.stdout)["valid"])
        in_force = json.loads(done.stdout)["config"]
        self.assertEqual(in_force["credentials"]["GITHUB_TOKEN"]["allowed_host"], "api.github.com")

    def test_problems_are_listed_with_their_places(self):
        done = self.check("harness: open_code\nlimits:\n  connections: 0\n")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout), {"valid": False})
        self.assertRegex(done.stderr, r"pons\.yaml:1:\d+.*\n(.*\n)*.*pons\.yaml:3:\d+")

    def test_file_in_the_current_directory_is_found(self):
        self.write_file("pons.yaml", "listen: 127.0.0.1:1234\n")
        done = json.loads(self.run_pons("config", "check", "--json").stdout)
        self.assertEqual(done["config"]["listen"], "127.0.0.1:1234")

    def test_defaults_are_said_to_be_no_file(self):
        done = self.run_pons("config", "check")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no configuration file", done.stdout)
        self.assertEqual(json.loads(self.run_pons("config", "check", "--json").stdout)["file"], "")

    def test_schema_and_reference_are_printed(self):
        self.assertIn("properties", json.loads(self.run_pons("config", "schema").stdout))
        self.assertIn("| `listen` |", self.run_pons("config", "reference").stdout)


class Completion(PonsTestCase):
    def complete(self, *words):
        script = self.run_pons("completion", "bash").stdout
        quoted = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(
            ["bash", "-c", f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _pons; echo "${{COMPREPLY[*]}}"'],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, cwd=self.directory,
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_accepts_the_script(self):
        script = self.run_pons("completion", "bash").stdout
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_bash_completes_commands_options_and_files(self):
        self.assertEqual(self.complete("pons", "sta"), ["status"])
        self.assertEqual(self.complete("pons", "config", "sch"), ["schema"])
        self.assertEqual(self.complete("pons", "status", "--js"), ["--json"])
        self.write_file("mine.yaml", "")
        self.assertEqual(self.complete("pons", "up", "--config", "mi"), ["mine.yaml"])
        self.assertEqual(self.complete("pons", "up", "--config", "mine.yaml", "--lis"), ["--listen"])

    def test_scripts_of_other_shells_are_printed(self):
        zsh = self.run_pons("completion", "zsh").stdout
        self.assertIn("bashcompinit", zsh)
        self.assertIn("complete -F _pons pons", zsh)
        fish = self.run_pons("completion", "fish").stdout
        self.assertRegex(fish, r"complete -c pons .* -a status")


class Running(PonsTestCase):
    def test_status_without_a_running_pons_gives_advice(self):
        for json_wanted in ([], ["--json"]):
            done = self.run_pons("status", *json_wanted, "--state-dir", f"{self.directory}/state")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("pons up", done.stderr)

    def test_status_after_a_kill_shows_the_restart_and_its_cause(self):
        pons = self.start("supervisor:\n  restart_delay_ms: 1\n")
        os.kill(pons.role_pids()["brain"], signal.SIGKILL)
        wait_for(lambda: pons.role("brain")["restarts"] == 1 and pons.status()["ready"], "the brain is back")
        rows = {line.split()[0]: line for line in pons.command("status").stdout.splitlines() if line}
        self.assertRegex(rows["brain"], r"^brain +ready +\d+ .* 1  .*killed by signal 9 \(Killed\)$")
        self.assertRegex(rows["front"], r"^front +ready +\d+ .* 0  ")

    def test_status_says_not_ready_while_a_role_is_down(self):
        pons = self.start("supervisor:\n  restart_delay_ms: 60000\n  restart_delay_max_ms: 60000\n")
        os.kill(pons.role_pids()["gateway"], signal.SIGKILL)
        wait_for(lambda: pons.role("gateway")["state"] == "waiting to restart", "the death is noticed")
        done = pons.command("status", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertFalse(json.loads(done.stdout)["ready"])
        self.assertEqual(pons.role("gateway")["pid"], 0)
        self.assertIn("not ready", pons.command("status").stdout)
        self.assertEqual(pons.stop(), 0)

    def test_json_of_every_command_parses(self):
        pons = self.start()
        for command in (["status"], ["doctor"], ["config", "check"], ["down"]):
            done = pons.command(*command, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIsInstance(json.loads(done.stdout), dict)
        self.assertEqual(pons.wait_until_ended(), 0)

    def test_output_without_a_terminal_has_no_escape_codes(self):
        pons = self.start("log:\n  format: human\n  level: debug\n")
        os.kill(pons.role_pids()["brain"], signal.SIGKILL)
        texts = [pons.command(*command) for command in (["status"], ["doctor"], ["config", "check"], ["down"])]
        pons.wait_until_ended()
        for text in [pons.output, pons.log] + [done.stdout + done.stderr for done in texts]:
            self.assertNotIn("\x1b", text)

    def test_terminal_gets_colours_unless_it_declines(self):
        pons = self.start()
        self.assertIn("\x1b[", self.status_on_terminal(pons, {}))
        self.assertNotIn("\x1b[", self.status_on_terminal(pons, {"NO_COLOR": "1"}))

    def status_on_terminal(self, pons, environment):
        ours, theirs = pty.openpty()
        try:
            subprocess.run(
                [self.binary, "status", "--state-dir", pons.state_dir],
                stdout=theirs, stderr=theirs, env=environment, timeout=PATIENCE_SECONDS, check=True,
            )
            return os.read(ours, 65536).decode()
        finally:
            os.close(ours)
            os.close(theirs)
