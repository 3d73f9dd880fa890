"""`pons template`: images become layers, builds leave nothing of the host in them and nothing behind them.

The warden is mostly a stand-in that keeps a list: what is tested is the operator's side.
"""

import hashlib
import http.server
import io
import json
import os
import signal
import socket
import socketserver
import subprocess
import tarfile
import threading
import unittest

import pons_fixture
import warden_client
from warden_client import end_orderly

STRANGER = 12345  # a user id that owns nothing else
LONG = os.environ.get("PONS_TEST_LONG") == "1"


class Warden(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path):
        self.templates = {}
        super().__init__(path, WardenHandler)


class WardenHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "operator"

    def log_message(self, *_):
        pass

    def answer(self, status, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)

    def do_GET(self):
        self.answer(200, {"templates": list(self.server.templates.values())})

    def do_PUT(self):
        info = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.templates[info["name"]] = info
        self.answer(204)

    def do_DELETE(self):
        gone = self.server.templates.pop(self.path.rsplit("/", 1)[1])
        kept = {layer for info in self.server.templates.values() for layer in info["layers"]}
        self.answer(200, {"unreferenced_layers": [layer for layer in gone["layers"] if layer not in kept]})


def tar_of(files, mode=0o644):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), mode
            archive.addfile(entry, io.BytesIO(text))
    return raw.getvalue()


def docker_archive(layers, user="app"):
    ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    names = [f"layer{number}.tar" for number in range(len(layers))]
    # One for each machine this may run on.
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = {"architecture": architecture, "os": "linux", "rootfs": {"diff_ids": ids}, "config": {"User": user}}
    manifest = [{"Config": "config.json", "RepoTags": ["demo:1"], "Layers": names}]
    return tar_of({"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode(),
                   **dict(zip(names, layers))})


class TemplateCase(pons_fixture.PonsTestCase):
    def setUp(self):
        super().setUp()
        self.state = os.path.join(self.directory, "state")
        os.makedirs(os.path.join(self.state, "run"))
        self.warden = Warden(os.path.join(self.state, "run", "warden.sock"))
        self.addCleanup(self.warden.server_close)
        thread = threading.Thread(target=self.warden.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(self.warden.shutdown)

    def template(self, *arguments, seconds=120, user=None):
        return subprocess.run([self.binary, "template", *arguments, "--state-dir", self.state],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                              cwd=self.directory, check=False, **self.identity(user))

    def layers(self):
        try:
            names = os.listdir(os.path.join(self.state, "spawner", "layers"))
        except FileNotFoundError:
            return []
        return sorted(name for name in names if name != ".lock")

    def write_bytes(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(data)
        return path


class Images(TemplateCase):
    def test_images_share_layers_and_lose_only_their_own(self):
        shared, own = tar_of({"etc/shared": b"shared"}), tar_of({"etc/own": b"own"})
        one = self.write_bytes("one.tar", docker_archive([shared]))
        two = self.write_bytes("two.tar", docker_archive([shared, own]))
        for name, path in (("one", one), ("two", two)):
            done = self.template("import", name, path)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.layers()), 2)
        self.assertEqual(self.warden.templates["two"]["user"], "app")
        self.assertEqual(self.warden.templates["two"]["layers"][1:], self.warden.templates["one"]["layers"])
        self.assertIn("two", self.template("ls").stdout)
        self.assertEqual(self.template("rm", "two").returncode, 0)
        self.assertEqual(self.layers(), self.warden.templates["one"]["layers"])

    def test_a_bad_image_leaves_nothing_and_is_not_registered(self):
        evil = self.write_bytes("evil.tar", docker_archive([tar_of({"../../escaped": b"x"})]))
        refused = self.template("import", "evil", evil)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("..", refused.stderr)
        self.assertEqual(self.layers(), [])
        self.assertEqual(self.warden.templates, {})
        self.assertEqual(self.template("import", "../x", evil).returncode, 1)

    def test_without_a_warden_nothing_is_made(self):
        path = self.write_bytes("one.tar", docker_archive([tar_of({"f": b"x"})]))
        os.unlink(os.path.join(self.state, "run", "warden.sock"))
        refused = self.template("import", "one", path)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("pons up", refused.stderr)
        self.assertEqual(self.layers(), [])

    def test_an_unprivileged_user_imports_too(self):
        path = self.write_bytes("one.tar", docker_archive([tar_of({"etc/file": b"x", "var/.wh.gone": b""})]))
        os.chmod(path, 0o644)
        for place in (self.state, f"{self.state}/run", f"{self.state}/run/warden.sock"):
            os.chown(place, STRANGER, STRANGER)
        done = self.template("import", "one", path, user=STRANGER)
        self.assertEqual(done.returncode, 0, done.stderr)
        (layer,) = self.layers()
        self.assertEqual(os.stat(f"{self.state}/spawner/layers/{layer}/fs/etc/file").st_uid, STRANGER)
        self.assertEqual(os.stat(f"{self.state}/spawner/layers/{layer}/fs/var/gone").st_rdev, 0)

    def test_gc_deletes_what_a_killed_build_left(self):
        os.makedirs(os.path.join(self.state, "spawner", "layers", ".tmp-killed", "fs", "etc"))
        done = self.template("gc", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["leftovers"], 1)
        self.assertEqual(self.layers(), [])


class OneProgram(pons_fixture.PonsTestCase):
    """An image that is one static program and nothing else, in a real sandbox."""

    def setUp(self):
        super().setUp()
        self.pons = self.start()
        self.addCleanup(end_orderly, self.pons)
        self.warden = warden_client.Warden(self.pons)
        with open(os.environ["PONS_ATTACKS"], "rb") as file:
            program = file.read()
        self.image = os.path.join(self.directory, "image.tar")
        with open(self.image, "wb") as file:
            file.write(docker_archive([tar_of({"program": program}, mode=0o755)], user=""))

    def template(self, *arguments):
        done = subprocess.run([self.binary, "template", *arguments, "--state-dir", self.pons.state_dir],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_once(self):
        """Whether the sandbox had waited ready."""
        sandbox = self.warden.create(template="one")
        warm = sandbox.info()["warm"]
        job = sandbox.run(argv=["/program", "--whoami"])
        self.assertEqual((job.outcome, job.code, job.text), ("exit", 0, "0 0\n"), job)
        names = {os.path.basename(entry["path"]) for entry in sandbox.list("/")}
        self.assertLessEqual({"dev", "proc", "program", "sys"}, names)
        sandbox.destroy()
        return warm

    def test_it_runs_and_runs_again_when_it_was_removed_and_imported_anew(self):
        for _ in range(2):
            self.template("import", "one", self.image)
            self.assertFalse(self.run_once(), "a sandbox of the template that was removed was still there")
            pons_fixture.wait_for(self.run_once, "sandboxes of a template in use wait ready")
            self.template("rm", "one")


if LONG:
    class Builds(TemplateCase):
        def test_a_debian_template_has_its_packages_and_nothing_of_the_host(self):
            done = self.template("build", "small", "--packages", "hostname", seconds=1500)
            self.assertEqual(done.returncode, 0, done.stderr)
            (layer,) = self.layers()
            tree = os.path.join(self.state, "spawner", "layers", layer, "fs")
            self.assertTrue(os.path.exists(os.path.join(tree, "usr/bin/hostname")) or
                            os.path.exists(os.path.join(tree, "bin/hostname")))
            with open(os.path.join(tree, "etc/passwd"), encoding="utf-8") as file:
                self.assertIn("user:x:1000:1000", file.read())
            self.assertEqual(os.listdir(os.path.join(tree, "etc/apt/auth.conf.d")), [])
            self.assertNotIn("99mmdebstrap", os.listdir(os.path.join(tree, "etc/apt/apt.conf.d")))

        def test_an_interrupted_build_leaves_nothing(self):
            # A mirror that takes connections and never answers.
            with socket.create_server(("127.0.0.1", 0)) as silent:
                process = subprocess.Popen(
                    [self.binary, "template", "build", "never", "--mirror",
                     f"http://127.0.0.1:{silent.getsockname()[1]}/debian", "--state-dir", self.state],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                silent.settimeout(60)
                connection, _ = silent.accept()
                with connection:
                    process.send_signal(signal.SIGINT)
                    _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
            self.assertIn("interrupted", errors)
            self.assertEqual(self.layers(), [])
            self.assertEqual(self.warden.templates, {})


if __name__ == "__main__":
    unittest.main()
