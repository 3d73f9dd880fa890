"""Harnesses without a download: a registry of npm packages on loopback, and an agent that does as it is told."""

import base64
import functools
import hashlib
import http.server
import io
import json
import os
import socketserver
import subprocess
import tarfile
import threading
import urllib.parse

INSTALL_SECONDS = 900


def package_of(files):
    """An archive as npm makes them, and what a lock says about it."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode, entry.uid, entry.gid = len(data), mode, 1234, 1234
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("package/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return raw.getvalue()


def integrity_of(data):
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


class Registry(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, case):
        self.packages = {}  # (name, version) -> archive
        self.asked = []
        self.hangs = threading.Event()  # somebody waits for an archive that never comes
        super().__init__(("127.0.0.1", 0), RegistryHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        case.addCleanup(self.server_close)
        case.addCleanup(self.shutdown)
        self.url = f"http://127.0.0.1:{self.server_port}/"


class RegistryHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, data, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = urllib.parse.unquote(self.path.lstrip("/"))
        self.server.asked.append(path)
        if path.endswith(".tgz"):
            name, version = path.removesuffix(".tgz").rsplit("/-/", 1)
            archive = self.server.packages[name, version]
            if archive is None:
                self.server.hangs.set()
                self.rfile.read()  # until npm is gone
                return
            self.answer(200, archive, "application/octet-stream")
            return
        versions = {
            version: {"name": name, "version": version,
                      "dist": {"tarball": f"{self.server.url}{name}/-/{version}.tgz",
                               # A registry that lies is consistent.
                               **({"integrity": integrity_of(archive)} if archive else {})}}
            for (name, version), archive in self.server.packages.items() if name == path}
        if not versions:
            self.answer(404, b'{"error":"not found"}')
            return
        self.answer(200, json.dumps({"name": path, "versions": versions,
                                     "dist-tags": {"latest": max(versions)}}).encode())


# ---- the agent of fake_harness.cc


@functools.cache  # an archive of another second has another digest
def fake_archive():
    with open(os.environ["PONS_FAKE_HARNESS"], "rb") as file:
        return package_of({"bin/agent": (file.read(), 0o755), "package.json": (b"{}", 0o644)})


def fake_recipe(mode="", version="1.0.0"):
    """A recipe of an operator's own."""
    return {
        "protocol": "acp", "licence": "as you like", "program": "node_modules/fake-agent/bin/agent",
        "packages": [{"name": "fake-agent", "version": version, "integrity": integrity_of(fake_archive())}],
        "tools": "mcp", "session": "theirs", "memory_mb": 256,
        "environment": {"FAKE_MODE": mode, "MODEL_URL": "{gateway}/v1", "MODEL_KEY": "{key}", "MODEL": "{model}"},
        "brain": {}, "sandbox": {}}


def install_fakes(case, pons, *names):
    """Installs recipes of the configuration with which this Pons was started."""
    registry = Registry(case)
    for version in ("1.0.0", "1.1.0"):
        registry.packages["fake-agent", version] = fake_archive()
    home = f"{case.directory}/npm-home"
    os.makedirs(home, exist_ok=True)
    for name in names:
        done = harness(case, pons, "install", name,
                       environment={"HOME": home, "npm_config_registry": registry.url, "no_proxy": "127.0.0.1"})
        case.assertEqual(done.returncode, 0, done.stderr)


def harness(case, pons, *words, environment=None, config=None):
    """`pons harness …` of the operator of this Pons."""
    return subprocess.run(
        [pons.binary, "harness", *words, "--config", config or pons.config_file, "--state-dir", pons.state_dir],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * INSTALL_SECONDS, cwd=case.directory,
        check=False, env={**os.environ, **(environment or {})})


def try_harness(case, pons, name, *words):
    """What `pons harness test` has to say: whether all is well, and what became of each promise."""
    done = harness(case, pons, "test", name, "--json", *words)
    case.assertIn(done.returncode, (0, 1), done.stderr)
    case.assertTrue(done.stdout, done.stderr)
    told = json.loads(done.stdout)
    case.assertEqual(done.returncode == 0, told["kept"])
    case.assertEqual(told["kept"], all(each["kept"] for each in told["promises"]))
    return told


def assert_kept(case, told):
    broken = [f"{each['place']}: {each['promise']}: {each['why']}" for each in told["promises"] if not each["kept"]]
    case.assertEqual(broken, [])
