"""Two brains and their database die, freeze and come back: nothing told is lost, nothing runs twice, all sessions finish."""

import os
import random
import signal
import threading
import time

from brains_world import BrainsTestCase
from durability.wandering import Scribe, check_shared, live_shared, moves_of, script
from pons_fixture import LONG, wait_for

SESSIONS = 100 if LONG else 8
TURNS = 2
CALLS_PER_TURN = 30 if LONG else 10
AWAY_SECONDS = 60 if LONG else 12
SILENCE_SECONDS = 11  # longer than others wait


class SharedStorm(threading.Thread):
    """Strikes one after the other until each kind has come, and on until it is told to stop."""

    def __init__(self, case, scribe, seed):
        super().__init__()
        self.case = case
        self.scribe = scribe
        self.random = random.Random(seed)
        self.kinds = [(i, way) for i in (0, 1) for way in ("kill", "freeze", "silence")] + [("database", "crash"),
                                                                                             ("database", "restart")]
        self.strikes = []
        self.over = threading.Event()
        self.error = None

    def has_struck_all(self):
        return set(self.strikes) == set(self.kinds)

    def run(self):
        try:
            plan = []
            while not self.over.wait(self.random.uniform(0.2, 1.0)):
                if not plan:
                    plan = self.random.sample(self.kinds, len(self.kinds))
                self.strike(*plan.pop())
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def strike(self, whom, way):
        if whom == "database":
            self.case.postgres.stop(signal.SIGKILL if way == "crash" else signal.SIGINT)
            self.case.postgres.start()
        else:
            self.strike_brain(whom, way)
        self.strikes.append((whom, way))

    def strike_brain(self, index, way):
        pons = self.case.nodes[index]
        pid = wait_for(lambda: pons.role("brain")["state"] == "ready" and pons.role("brain")["pid"], "the brain is ready")
        if way == "kill":
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(SILENCE_SECONDS if way == "silence" else self.random.uniform(0.05, 1.5))
            if way == "silence":
                self.scribe.collect(self.case.wardens[index])
        finally:
            self.case.thaw(pid)

    def stop(self):
        self.over.set()
        self.join()
        if self.error is not None:
            raise self.error


class Durability(BrainsTestCase):
    def check_all(self, records, scribe):
        findings = [finding for record in records for finding in check_shared(record, scribe.written[record.session])]
        self.assertEqual(findings, [])

    def test_nothing_is_lost_and_nothing_runs_twice_whoever_dies(self):
        seed = int(os.environ.get("PONS_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"PONS_TEST_SEED={seed}", flush=True)
        self.start_two(script(TURNS, CALLS_PER_TURN))
        scribe = Scribe(self.wardens)
        storm = SharedStorm(self, scribe, seed)
        storm.start()
        records = []
        try:
            while storm.is_alive() and (len(records) < SESSIONS or not storm.has_struck_all()):
                names = [f"s{len(records) + i}" for i in range(min(SESSIONS, 50))]
                records += live_shared(self.clients, scribe, names, TURNS, CALLS_PER_TURN)
        finally:
            storm.stop()
        moves = sum(moves_of(record) for record in records)
        print(f"{len(records)} sessions, {len(storm.strikes)} strikes, {moves} moves", flush=True)
        self.check_all(records, scribe)
        self.assertGreater(moves, 0, "no session was ever taken over")

    def live_through(self, trouble, sessions=8):
        """Sessions at work while something happens to the database."""
        self.start_two(script(TURNS, CALLS_PER_TURN))
        scribe = Scribe(self.wardens)
        failed = []

        def cause():
            try:
                time.sleep(1)
                trouble()
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        causing = threading.Thread(target=cause)
        causing.start()
        try:
            records = live_shared(self.clients, scribe, [f"s{i}" for i in range(sessions)], TURNS, CALLS_PER_TURN)
        finally:
            causing.join()
        self.assertEqual(failed, [])
        self.check_all(records, scribe)
        return records

    def test_while_the_database_is_away_sessions_wait_and_stay_where_they_are(self):
        def go_away():
            self.postgres.stop(signal.SIGINT)
            time.sleep(AWAY_SECONDS)
            self.postgres.start()

        records = self.live_through(go_away)
        outcomes = {event["outcome"] for record in records for event in record.log if event["type"] == "tool.ended"}
        self.assertEqual(outcomes, {"done"}, "nobody takes a living brain's sessions because the database was away")

    def test_nothing_acknowledged_is_lost_when_a_standby_takes_over(self):
        standby = self.postgres.make_standby(self)
        url = f"postgres://pons@localhost:{self.postgres.port},localhost:{standby.port}/work?sslmode=verify-full"
        with_standby = self.store(url)
        self.store = lambda: with_standby

        def fail_over():
            self.postgres.stop(signal.SIGKILL)
            standby.promote()

        self.live_through(fail_over)


if __name__ == "__main__":
    import unittest
    unittest.main()
