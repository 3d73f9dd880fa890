"""What leaves is what everybody else would have read: hostile requests through the way out, and the same bytes at nginx and Node."""

import base64
import concurrent.futures
import json
import os
import sys
import tempfile
import time

from boundary.cases import BoundaryTest
from boundary.world import HERE, enter
from pons_fixture import LONG, read_text

sys.path.append(os.path.join(HERE, "../../differential"))
from hostile_requests import LAST, HostileRequests  # noqa: E402
from peers import Peers, Reading, judge  # noqa: E402

HOST = "reader.example.net"
SEED = int(os.environ.get("PONS_TEST_SEED") or (time.time_ns() if LONG else 1))
CASES, BATCH = (100_000, 2_000) if LONG else (2_000, 1_000)


def setUpModule():
    enter()


class Readings(BoundaryTest):
    def ask_through_us(self, cases):
        self.sandbox.write("/tmp/asked", json.dumps([base64.b64encode(case).decode() for case in cases]).encode())
        job = self.sandbox.run(f"python3 /tmp/ask_many.py {HOST} 80 /tmp/asked /tmp/answered", seconds=600)
        self.assertEqual(job.code, 0, job)
        return [base64.b64decode(text) for text in json.loads(self.sandbox.read("/tmp/answered"))]

    def compare(self, peers, cases, counts):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            theirs = pool.map(peers.read, cases)
            answers = self.ask_through_us(cases)
            for case, answer, readings in zip(cases, answers, theirs):
                ours = Reading.of(answer)
                counts["whole" if ours.arrived and ours.arrived[-1].target == LAST.decode() else "refused"] += 1
                counts["arrived"] += len(ours.arrived)
                if faults := judge(ours, readings, LAST.decode()):
                    counts["faults"] += 1
                    print(f"\n{case!r}\n  answered {answer[:600]!r}\n  arrived {ours}\n  " +
                          "\n  ".join(f"{name} {reading}" for name, reading in readings.items()) +
                          "".join(f"\n  -> {fault}" for fault in faults), file=sys.stderr)

    def test_what_arrives_is_what_nginx_and_node_read_in_the_same_bytes(self):
        self.sandbox.write("/tmp/ask_many.py", read_text(f"{HERE}/ask_many.py").encode())
        peers = Peers(tempfile.mkdtemp(prefix="peers-", dir=self.world.case.directory))
        self.addCleanup(peers.end)
        os.chmod(self.world.case.directory, 0o755)  # nginx has a user of its own
        hostile = HostileRequests(SEED, HOST)
        counts = {"whole": 0, "refused": 0, "arrived": 0, "faults": 0}
        for _ in range(CASES // BATCH):
            self.compare(peers, [hostile.next() for _ in range(BATCH)], counts)
        print(f"\nseed {SEED}: {CASES} byte sequences, {counts}")
        self.assertEqual(counts["faults"], 0)
        # A reader that refuses everything, or nothing, would promise nothing.
        self.assertGreater(min(counts["whole"], counts["refused"]), CASES // 10)


del BoundaryTest  # or it would run by itself
