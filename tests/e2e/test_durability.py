"""Whatever dies, nothing that was told is lost, nothing is done twice, and every session comes to its end."""

import copy
import os
import random
import unittest

from durability.checker import Record, check
from durability.lives import live, script
from durability.storm import ROLES, Storm
from pons_fixture import LONG, WEAKENED_DIR
from session_world import SessionTestCase

SESSIONS = 1_000 if LONG else 50
AT_ONCE = 50
TURNS = 2
CALLS_PER_TURN = 50 if LONG else 20


class Durability(SessionTestCase):
    def storm_over(self, sessions, turns, calls_per_turn, binary=None, **storm_options):
        """What the checker says after sessions have lived through a storm, and how often it struck."""
        seed = int(os.environ.get("PONS_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"PONS_TEST_SEED={seed}", flush=True)
        self.use(self.start(script(turns, calls_per_turn), binary=binary))
        storm = Storm(self.pons, seed, **storm_options)
        storm.start()
        try:
            names = [f"s{i}" for i in range(sessions)]
            records = live(self.client, self.warden, names, turns, calls_per_turn, AT_ONCE)
        finally:
            storm.stop()
        print(f"{len(records)} sessions, {len(storm.strikes)} strikes", flush=True)
        for record in records:
            self.assert_gone(record.session)
        return [finding for record in records for finding in check(record)], storm.strikes

    def test_nothing_is_lost_and_nothing_is_done_twice(self):
        findings, strikes = self.storm_over(SESSIONS, TURNS, CALLS_PER_TURN)
        self.assertEqual(findings, [])
        self.assertEqual(set(strikes), {(role, way) for role in ROLES for way in ("kill", "freeze")},
                         "the storm was over before it had struck everyone")

    def test_a_brain_that_forgets_the_names_of_its_calls_is_found_out(self):
        weakened = self.copy_program(f"{WEAKENED_DIR}/pons_with_new_call_ids")
        findings, _ = self.storm_over(10, 1, 20, binary=weakened, roles=("brain",), ways=("kill",), pause=(0.3, 0.6))
        self.assertTrue([each for each in findings if "doubled:" in each], findings)


class Checker(unittest.TestCase):
    """It finds what it is there to find."""

    GOOD = Record(
        session="s",
        acknowledged={1: "go"},
        told=[{"seq": 1, "type": "user.message", "content": [{"text": "go"}]}],
        log=[{"seq": 1, "type": "user.message", "content": [{"text": "go"}]},
             {"seq": 2, "type": "tool.called"},
             {"seq": 3, "type": "tool.ended", "call": 2, "outcome": "done"},
             {"seq": 4, "type": "turn.ended", "reason": "end_turn"}],
        lines=["a", "b"], wanted=["a", "b"], ends=1)

    def found_after(self, change):
        record = copy.deepcopy(self.GOOD)
        change(record)
        return " ".join(check(record))

    def test_a_good_record_is_good(self):
        self.assertEqual(check(self.GOOD), [])

    def test_each_kind_of_damage_is_found(self):
        def end_twice(record):
            record.log.insert(3, {**record.log[2], "seq": 4})
            record.log[4]["seq"] = 5

        for word, change in {
            "was told": lambda record: record.told.append({"seq": 9, "type": "agent.message"}),
            "was acknowledged": lambda record: record.acknowledged.update({3: "go"}),
            "changed": lambda record: record.log[0]["content"].append({"text": "changed"}),
            "the log has": lambda record: record.log[3].update(seq=5),
            "the stream has": lambda record: record.told.insert(0, record.told[0]),
            "0 of 1 turns": lambda record: record.log.pop(),
            "ended with": lambda record: record.log[3].update(reason="model_failed"),
            "has no end": lambda record: record.log[2].update(type="timer.fired"),
            "ended twice": end_twice,
            "was interrupted": lambda record: record.log[2].update(outcome="interrupted"),
            "written 2 times": lambda record: record.lines.append("b"),
            "was not written": lambda record: record.lines.pop(),
            "strange": lambda record: record.lines.append("c"),
            "order": lambda record: record.lines.reverse(),
        }.items():
            with self.subTest(word):
                self.assertIn(word, self.found_after(change))
