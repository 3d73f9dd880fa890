"""A PostgreSQL of a test's own: TLS by a test authority, passwords by SCRAM, on a port of loopback."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

from pons_fixture import read_text, wait_for

USER = "pons"
DATABASE = "work"


def programs():
    return sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]


def as_nobody():
    """The server refuses to be root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Postgres:
    def __init__(self, case, password):
        self.password = password
        self.directory = tempfile.mkdtemp(prefix="pons-postgres-", dir="/tmp")
        case.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.log_file = f"{self.directory}/log"
        self.authority_file = f"{self.directory}/authority.pem"
        self.make_certificates()
        nobody = as_nobody()
        for path in (self.directory, *glob.glob(f"{self.directory}/*")):
            os.chown(path, nobody.get("user", os.geteuid()), nobody.get("group", os.getegid()))
        self.run("initdb", "-D", self.data, "-U", "owner", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync")
        with open(f"{self.data}/pg_hba.conf", "w", encoding="ascii") as rules:
            rules.write("local all owner trust\nlocal replication owner trust\n"
                        "hostssl all all 127.0.0.1/32 scram-sha-256\n")
        self.port = free_port()
        self.process = None
        case.addCleanup(self.stop)
        self.start()
        self.psql("postgres", f"CREATE ROLE {USER} LOGIN PASSWORD '{password}'")
        self.psql("postgres", f"CREATE DATABASE {DATABASE} OWNER {USER}")

    @property
    def data(self):
        return f"{self.directory}/data"

    def url(self, sslmode="verify-full", host="localhost"):
        return f"postgres://{USER}@{host}:{self.port}/{DATABASE}?sslmode={sslmode}"

    def make_certificates(self):
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.directory)

        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority",
                "-keyout", "authority.key", "-out", "authority.pem")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key",
                "-out", "server.csr")
        with open(f"{self.directory}/names", "w", encoding="ascii") as names:
            names.write("subjectAltName=DNS:localhost\n")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "authority.pem", "-CAkey", "authority.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.pem")
        os.chmod(f"{self.directory}/server.key", 0o600)

    def run(self, program, *arguments):
        done = subprocess.run([f"{programs()}/{program}", *arguments], capture_output=True, text=True,
                              cwd=self.directory, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **as_nobody())
        if done.returncode != 0:
            raise AssertionError(f"{program}: {done.stdout}{done.stderr}")
        return done.stdout

    def psql(self, database, sql):
        return self.run("psql", "-X", "-A", "-t", "-h", self.directory, "-p", str(self.port), "-U", "owner",
                        "-v", "ON_ERROR_STOP=1", database, "-c", sql).strip()

    def spawn(self):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [f"{programs()}/postgres", "-D", self.data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
                 "-c", f"unix_socket_directories={self.directory}", "-c", "ssl=on",
                 "-c", f"ssl_cert_file={self.directory}/server.pem", "-c", f"ssl_key_file={self.directory}/server.key",
                 "-c", "password_encryption=scram-sha-256", "-c", "shared_buffers=16MB"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env={"LC_ALL": "C"},
                **as_nobody())

    def start(self):
        self.spawn()

        def answers():
            # It refuses to run while children of one that was killed have not noticed that yet.
            if self.process.poll() is not None:
                if "is still in use" not in read_text(self.log_file)[-2000:]:
                    raise AssertionError(read_text(self.log_file))
                self.spawn()
            try:
                return self.psql("postgres", "SELECT 1") == "1"
            except AssertionError:
                return False

        wait_for(answers, "PostgreSQL answers", step=0.05)

    def make_standby(self, case):
        """A second server that has everything before a commit on this one is acknowledged."""
        standby = Standby(case, self)
        self.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.psql("postgres", "SELECT pg_reload_conf()")
        wait_for(lambda: self.psql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync",
                 "the standby follows")
        return standby

    def stop(self, how=signal.SIGINT):
        if self.process is None:
            return
        self.process.send_signal(how)
        self.process.wait(timeout=60)
        self.process = None
        if how == signal.SIGKILL:
            os.unlink(f"{self.data}/postmaster.pid")


class Standby(Postgres):
    """Follows another server until it is promoted; behind the same certificate, on a port of its own."""

    def __init__(self, case, primary):  # pylint: disable=super-init-not-called
        self.directory = primary.directory
        self.password = primary.password
        self.authority_file = primary.authority_file
        self.log_file = f"{self.directory}/standby.log"
        self.port = free_port()
        self.process = None
        self.run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
                 "-d", f"host={self.directory} port={primary.port} user=owner application_name=standby")
        case.addCleanup(self.stop)
        self.start()

    @property
    def data(self):
        return f"{self.directory}/standby"

    def promote(self):
        self.psql("postgres", "SELECT pg_promote()")
        wait_for(lambda: self.psql("postgres", "SELECT pg_is_in_recovery()") == "f", "the standby takes writes")
