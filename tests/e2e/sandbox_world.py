"""Sandboxes of a running Pons over the warden's socket, and what the kernel holds for them."""

import glob
import http.client
import json
import os
import time

from pons_fixture import UnixConnection, process_state, read_link, read_text

class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status


class Warden:
    def __init__(self, pons):
        self.path = f"{pons.state_dir}/run/warden.sock"

    def ask(self, method, target, body=None):
        connection = UnixConnection(self.path)
        try:
            connection.request(method, target, body=json.dumps(body) if isinstance(body, dict) else body)
            response = connection.getresponse()
            answer = response.read()
            if response.status >= 400:
                raise Refused(response.status, answer)
            return answer
        finally:
            connection.close()

    def create(self, name, **more):
        return json.loads(self.ask("POST", "/sandboxes", {"id": name, "template": "host", **more}))

    def names(self):
        return {each["id"] for each in json.loads(self.ask("GET", "/sandboxes"))["sandboxes"]}

    def destroy(self, name):
        self.ask("DELETE", f"/sandboxes/{name}")

    def follow(self, method, target, body=None):
        """The output of a job and how it ended; None when the stream was cut."""
        text, end = "", None
        for line in self.ask(method, target, body).splitlines():
            event = json.loads(line) if line else {}
            if event.get("output", {}).get("stream") == "output":
                text += event["output"]["bytes"]
            end = event.get("ended", end)
        return text, end

    def run(self, name, line, **more):
        return self.follow("POST", f"/sandboxes/{name}/jobs", {"shell_line": line, **more})

    def attach(self, name, job, output=0):
        return self.follow("GET", f"/sandboxes/{name}/jobs/{job}?output={output}")

    def send_input(self, name, job, text):
        return self.ask("POST", f"/sandboxes/{name}/jobs/{job}/input", text)

    def start_job(self, name, job, line):
        """Starts a job and leaves its stream after the first line, which says that it runs."""
        connection = UnixConnection(self.path)
        try:
            body = json.dumps({"id": job, "shell_line": line, "input_open": True})
            connection.request("POST", f"/sandboxes/{name}/jobs", body=body)
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(response.status, response.read())
            response.readline()
        finally:
            connection.close()


LOST = (OSError, http.client.HTTPException, Refused, ValueError)


def groups(pons):
    """Names of the control groups of this Pons's sandboxes. A host may show one hierarchy at several places."""
    try:
        instance = read_text(f"{pons.state_dir}/spawner/instance").strip()
    except FileNotFoundError:
        return {}
    found = {}
    for path in glob.glob(f"/sys/fs/cgroup/**/pons-{instance}-*", recursive=True):
        if os.path.isdir(path):
            found.setdefault(os.path.basename(path), path)
    return found


def processes_of(group):
    try:
        return [int(pid) for pid in read_text(f"{group}/cgroup.procs").split()]
    except OSError:
        return []


def cell_of(group):
    """The first process of a sandbox is the one that is PID 1 there."""
    return next((pid for pid in processes_of(group) if process_state(pid).get("NSpid", "").split()[-1:] == ["1"]), None)


def has_record(path):
    """Files of record serve again: one in whose two places nothing stands is nobody's."""
    with open(path, "rb") as file:
        return any(os.pread(file.fileno(), 8, place).strip(b"\0") for place in (0, 1 << 20))


def held(pons):
    """What the processes of Pons hold; the same before and after when nothing leaks."""
    counts = {}
    for role, pid in {**pons.role_pids(), "supervisor": pons.pid}.items():
        if role in ("warden", "spawner", "supervisor"):
            targets = [read_link(path) for path in glob.glob(f"/proc/{pid}/fd/*")]
            # The warden keeps up to 64 files of record open that nobody uses. The spawner keeps a user namespace for each
            # of eight grounds that are ready and eight that rest.
            users = sum(target.startswith("user:[") for target in targets)
            counts[f"{role} user namespaces"] = max(0, users - (16 if role == "spawner" else 0))
            counts[f"{role} descriptors"] = sum(target != "/" and not target.startswith("user:[")
                                                and "/warden/sandboxes/" not in target for target in targets)
            # Mounts that are attached nowhere. The spawner keeps a /proc, and for each of its sixteen grounds at most a
            # clone of the trust layer and of the one template layer that the tests use.
            counts[f"{role} detached mounts"] = max(0, targets.count("/") - (33 if role == "spawner" else 0))
            # Only the spawner has a table of its own: in the host's, others mount and unmount.
            mounts = read_text(f"/proc/{pid}/mountinfo").splitlines()
            counts[f"{role} mounts"] = sum(role == "spawner" or pons.state_dir in line for line in mounts)
    counts["groups"] = len(groups(pons))
    counts["cell sockets"] = len(glob.glob(f"{pons.state_dir}/spawner/cells/*"))
    counts["records"] = sum(map(has_record, glob.glob(f"{pons.state_dir}/warden/sandboxes/*")))
    counts["kept"] = pons.role("spawner")["kept_descriptors"]
    return counts


def settled(pons):
    """held() once it stays the same: the spawner prepares namespaces in quiet moments."""
    before = held(pons)
    time.sleep(0.5)
    return before if held(pons) == before else None


def rss_bytes(pid):
    return int(process_state(pid)["VmRSS"].split()[0]) << 10
