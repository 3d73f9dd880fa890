"""What the benchmarks share."""
import os
import shutil
import socket
import subprocess
import sys
import time


def root():
    return os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))


def require(*programs):
    for program in programs:
        if shutil.which(program) is None:
            sys.exit(f"bench: {program} is not installed; run this through ./dev bench")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process on the first core, ready when its port answers."""

    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen(["taskset", "-c", "0", *command])
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    sys.exit(f"bench: {command[0]} did not start")
                time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
