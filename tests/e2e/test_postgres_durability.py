"""A brain whose database dies, is away, or fails over: nothing told is lost, nothing is done twice, all sessions finish."""

import json
import os
import signal
import threading
import time

from durability.checker import check
from durability.lives import live, script
from pons_fixture import LONG
from postgres_world import DATABASE, USER, Postgres
from session_world import SessionTestCase

PASSWORD = "correct-horse-battery-staple-7341"
SESSIONS = 50 if LONG else 6
TURNS = 2
CALLS_PER_TURN = 50 if LONG else 25
AWAY_SECONDS = 60 if LONG else 8


class Durability(SessionTestCase):
    def setUp(self):
        super().setUp()
        self.postgres = Postgres(self, PASSWORD)

    def live_through(self, trouble, url=None):
        """Sessions at work while something happens; what the checker says afterwards."""
        store = {"postgres": url or self.postgres.url(), "authority_file": self.postgres.authority_file,
                 "password_env": "DATABASE_PASSWORD"}
        config = json.dumps({**json.loads(script(TURNS, CALLS_PER_TURN)), "store": store})
        self.use(self.start(config, environment={"DATABASE_PASSWORD": PASSWORD}))
        failed, over, met = [], threading.Event(), []

        def cause():
            try:
                time.sleep(1)
                trouble()
                met.append(not over.is_set())
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        causing = threading.Thread(target=cause)
        causing.start()
        try:
            names = [f"s{i}" for i in range(SESSIONS)]
            records = live(self.client, self.warden, names, TURNS, CALLS_PER_TURN, SESSIONS)
        finally:
            over.set()
            causing.join()
        self.assertEqual((failed, met), ([], [True]), "it was over before the sessions were")
        self.assertEqual([finding for record in records for finding in check(record)], [])

    def test_a_database_and_a_brain_that_are_killed_lose_nothing(self):
        def kill():
            self.postgres.stop(signal.SIGKILL)
            self.postgres.start()
            time.sleep(0.5)
            os.kill(self.pons.role("brain")["pid"], signal.SIGKILL)

        self.live_through(kill)

    def test_while_the_database_is_away_sessions_wait(self):
        def go_away():
            self.postgres.stop(signal.SIGINT)
            time.sleep(AWAY_SECONDS)
            self.postgres.start()

        self.live_through(go_away)

    def test_nothing_acknowledged_is_lost_when_a_standby_takes_over(self):
        standby = self.postgres.make_standby(self)

        def fail_over():
            self.postgres.stop(signal.SIGKILL)
            standby.promote()

        self.live_through(fail_over, f"postgres://{USER}@localhost:{self.postgres.port},localhost:{standby.port}/"
                                     f"{DATABASE}?sslmode=verify-full")
        self.assertGreater(int(standby.psql(DATABASE, "SELECT count(*) FROM session_events")), SESSIONS)
