"""What the end-to-end tests share: a Pons on a temporary state directory, and the proof that it left nothing.

Every test runs its own copy of the program, so that the processes of a test are known by their executable, whoever
their parent is by then.
"""

import glob
import http.client
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ["PONS_BINARY"]
WEAKENED_DIR = os.environ.get("PONS_WEAKENED_DIR", "")
LONG = os.environ.get("PONS_TEST_LONG") == "1"
ROLES = ("front", "brain", "gateway", "egress", "warden", "spawner")

# Long enough for a machine that is busy with something else: none of these is a promise.
PATIENCE_SECONDS = 60


def wait_for(condition, what, seconds=PATIENCE_SECONDS, step=0.005):
    """Returns the first true value of condition()."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(step)


def read_link(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""  # closed meanwhile


def read_text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def process_state(pid):
    """The fields of /proc/PID/status; empty when there is no such process."""
    try:
        lines = read_text(f"/proc/{pid}/status").splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def is_in_memory(pid, text):
    """Whether the text stands anywhere in what the process can write to."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            bounds, rights = line.split()[:2]
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if not rights.startswith("rw") or "[v" in line:
                continue
            memory.seek(begin)
            if text in memory.read(end - begin):
                return True
    return False


def zombies_of(parent):
    return [
        pid
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if process_state(pid).get("PPid") == str(parent) and process_state(pid).get("State", "").startswith("Z")
    ]


def pons_cgroups(state_dir):
    """Of the Pons on this state directory: others may run on the same host."""
    try:
        instance = read_text(f"{state_dir}/spawner/instance").strip()
    except OSError:
        return set()
    return {path for path in glob.glob(f"/sys/fs/cgroup/**/pons-{instance}-*", recursive=True) if os.path.isdir(path)}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=PATIENCE_SECONDS):
        super().__init__("pons", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def raw_exchange(address, data, seconds=PATIENCE_SECONDS):
    """Sends bytes and returns everything until the server closes; what it refuses to read is not sent."""
    with socket.create_connection(address, timeout=seconds) as client:
        try:
            client.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_until_closed(client)


def read_until_closed(client):
    answer = b""
    try:
        while piece := client.recv(65536):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


def status_line(answer):
    return answer.split(b"\r\n", 1)[0].decode()


class Instance:
    """One `pons up`. Use PonsTestCase.start(), which also sees to its end."""

    def __init__(self, case, config, binary, user, state_dir, environment, listen):
        self.case = case
        self.user = user
        self.binary = binary
        self.state_dir = state_dir
        self.config_file = case.write_file(f"{os.path.basename(state_dir)}.yaml", config)
        self.output_file = tempfile.mktemp(prefix="stdout-", dir=case.directory)
        self.log_file = tempfile.mktemp(prefix="stderr-", dir=case.directory)
        command = [binary, "up", "--config", self.config_file, "--state-dir", state_dir, "--listen", listen]
        with open(self.output_file, "wb") as output, open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                cwd=case.directory,
                env={"PATH": os.environ["PATH"], **environment},
                start_new_session=True,
                **case.identity(user),
            )

    # ---- what it says

    @property
    def output(self):
        return read_text(self.output_file)

    @property
    def log(self):
        return read_text(self.log_file)

    @property
    def token(self):
        return read_text(f"{self.state_dir}/admin.token").strip()

    @property
    def pid(self):
        return self.process.pid

    def ask(self, process, target, method="GET"):
        """An answer from a control socket, without the cost of a command."""
        connection = UnixConnection(f"{self.state_dir}/run/{process}.sock")
        try:
            connection.request(method, target)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def status(self):
        return self.ask("supervisor", "/status")

    def role(self, name):
        return next(role for role in self.status()["roles"] if role["role"] == name)

    def role_pids(self):
        return {role["role"]: role["pid"] for role in self.status()["roles"]}

    def wait_until_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"pons up ended with {self.process.returncode}:\n{self.output}{self.log}")
            asked = self.command("status", "--json")
            return asked.returncode == 0 and json.loads(asked.stdout)["ready"]

        wait_for(ready, "Pons gets ready", step=0.02)
        wait_for(lambda: "listening on" in self.output, "the banner is printed")
        self.address = ("127.0.0.1", int(self.status()["listen"].rsplit(":", 1)[1]))
        return self

    def command(self, *arguments):
        return self.case.run_pons(*arguments, "--state-dir", self.state_dir, binary=self.binary, user=self.user)

    # ---- the public door

    def request(self, target, method="GET", headers=None, body=None, seconds=PATIENCE_SECONDS):
        connection = http.client.HTTPConnection(*self.address, timeout=seconds)
        try:
            connection.request(method, target, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def admin_request(self, target):
        return self.request(target, headers={"Authorization": f"Bearer {self.token}"})

    # ---- its end

    def signal(self, number):
        self.process.send_signal(number)

    def wait_until_ended(self, seconds=PATIENCE_SECONDS):
        return self.process.wait(timeout=seconds)

    def stop(self):
        """Exit code of an orderly end; checks that nothing is left."""
        self.signal(signal.SIGTERM)
        code = self.wait_until_ended()
        self.assert_nothing_left()
        return code

    def processes(self):
        """All processes of this test's copy of the program, the role ones without a parent included."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)") == self.binary:
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def assert_nothing_left(self):
        self.case.assertEqual(self.processes(), [], "processes are left")
        self.case.assertNotIn(self.state_dir, read_text("/proc/self/mountinfo"), "a mount is left")
        self.case.assertNotIn(self.state_dir, read_text("/proc/net/unix"), "a socket is left")
        self.case.assertEqual(glob.glob(f"{self.state_dir}/run/*.sock"), [], "socket files are left")
        self.case.assertEqual(pons_cgroups(self.state_dir), set(), "a control group is left")
        if hasattr(self, "address"):
            with self.case.assertRaises(ConnectionRefusedError):
                socket.create_connection(self.address).close()

    def destroy(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.end_sandboxes()
        wait_for(lambda: not self.processes(), "the roles of a killed supervisor end")


    def end_sandboxes(self):
        """Sandboxes outlive a killed supervisor until the next start, which a finished test does not make."""

        def ended():
            paths = sorted(pons_cgroups(self.state_dir))
            for path in paths:
                try:
                    if "/freezer/" in path:
                        with open(f"{path}/freezer.state", "w", encoding="ascii") as state:
                            state.write("THAWED")
                    for pid in map(int, read_text(f"{path}/cgroup.procs").split()):
                        os.kill(pid, signal.SIGKILL)
                    os.rmdir(path)
                except OSError:
                    continue
            return not paths

        wait_for(ended, "the sandboxes of a killed supervisor are gone")


def raise_descriptor_limit(case):
    """As far as it goes, for as long as the test lasts. Returns what this process may have open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    case.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    return wanted


class PonsTestCase(unittest.TestCase):
    def setUp(self):
        # Others may walk through it: roles and the unprivileged tests have users of their own.
        self.directory = tempfile.mkdtemp(prefix="pons-e2e-")
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o711)
        self.binary = self.copy_program(BINARY)

    def copy_program(self, source, name=None):
        copy = f"{self.directory}/{name or os.path.basename(source)}"
        shutil.copyfile(source, copy)
        os.chmod(copy, 0o755)
        return copy

    def write_file(self, name, text):
        path = f"{self.directory}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    @staticmethod
    def identity(user):
        """Options of subprocess that make the child a user of its own, without groups."""
        return {} if user is None else {"user": user, "group": user, "extra_groups": []}

    def run_pons(self, *arguments, binary=None, user=None, environment=None):
        return subprocess.run(
            [binary or self.binary, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], **(environment or {})},
            **self.identity(user),
        )

    def launch(self, config="", binary=None, user=None, state_dir=None, environment=None, listen="127.0.0.1:0"):
        """`pons up`, not yet ready. Whatever the test does, its processes are gone afterwards."""
        instance = Instance(
            self,
            config,
            binary or self.binary,
            user,
            state_dir or f"{self.directory}/state",
            environment or {},
            listen,
        )
        self.addCleanup(instance.destroy)
        return instance

    def start(self, config="", **options):
        return self.launch(config, **options).wait_until_ready()

    def start_beside(self, name, config="", **options):
        """One more, whose processes can be told from the first one's."""
        binary = f"{self.directory}/pons-{name}"
        os.link(self.binary, binary)
        return self.start(config, binary=binary, state_dir=f"{self.directory}/{name}", **options)
