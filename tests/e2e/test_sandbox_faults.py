"""Warden, spawner and cells are killed under load: sandboxes that should live do, and nothing is left of the others."""

import os
import random
import signal
import threading
import time

from pons_fixture import LONG, PonsTestCase, wait_for
from sandbox_world import LOST, Warden, cell_of, groups, held, processes_of, settled

CYCLES = 1000 if LONG else 60
CONFIG = (
    "log:\n  level: error\nsupervisor:\n  restart_delay_ms: 1\n  restart_delay_max_ms: 20\n"
    "sandbox:\n  warm_min: 0\n  warm_max: 0\n"
)
COUNTING = "echo begun >> ~/runs; read word; cat ~/runs; echo $word"


class Load(threading.Thread):
    """Lives of sandboxes without end. A call whose answer is lost is made again, and what it says in the end is true."""

    TRIES = 60  # of one call; a sandbox whose cell was killed answers none of them

    def __init__(self, pons, name):
        super().__init__()
        self.warden = Warden(pons)
        self.name_prefix = name
        self.lives = 0
        self.wrong = []  # names of sandboxes whose files were not what they had to be
        self.over = threading.Event()

    def run(self):
        number = 0
        while not self.over.is_set():
            number += 1
            name = f"{self.name_prefix}-{number}"
            try:
                self.live(name)
            except LOST:
                time.sleep(0.002)

    def live(self, name):
        ask, run = self.warden.ask, self.warden.run
        self.again(lambda: self.warden.create(name))
        for number in range(3):
            self.again(lambda: run(name, f"echo {number} > ~/f; echo ok", id=f"write{number}"))
            self.again(lambda: ask("POST", f"/sandboxes/{name}/checkpoints", {"name": f"c{number}"}))
        self.again(lambda: run(name, "echo last >> ~/f; echo ok", id="last"))
        whole = self.again(lambda: run(name, "cat ~/f; echo ok"))
        self.again(lambda: ask("POST", f"/sandboxes/{name}/checkpoints/c1/rollback"))
        back = self.again(lambda: run(name, "cat ~/f; echo ok"))
        self.lives += 1
        if (whole[0], back[0]) != ("2\nlast\nok\n", "1\nok\n"):
            self.wrong.append((name, whole, back))
        self.again(lambda: self.warden.destroy(name))

    def again(self, work):
        for _ in range(self.TRIES):
            try:
                answer = work()
                # A stream that was cut says nothing about its end.
                if not (isinstance(answer, tuple) and "ok" not in answer[0]):
                    return answer
            except LOST:
                pass
            if self.over.is_set():
                break
            time.sleep(0.01)
        raise OSError("no answer")

    def stop(self):
        self.over.set()
        self.join()


class SandboxFaults(PonsTestCase):
    def begin(self, **options):
        pons = self.start(CONFIG, **options)
        return pons, Warden(pons)

    def kill_role(self, pons, name):
        before = pons.role(name)["pid"]
        if before == 0:
            return
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: pons.role(name)["pid"] not in (0, before) and pons.role(name)["state"] == "ready", name)

    def persist(self, work, what):
        """Until it succeeds: the first answers after a death may be lost."""

        def attempt():
            try:
                return work()
            except LOST:
                return None

        return wait_for(attempt, what)

    def assert_nothing_leaks(self, pons, before):
        wait_for(lambda: not groups(pons), f"all sandboxes are gone: {list(groups(pons))}")
        try:
            wait_for(lambda: held(pons) == before, "Pons holds what it held before", seconds=20)
        except AssertionError:
            self.assertEqual(held(pons), before)
        leaks = pons.command("doctor", "--leaks")
        self.assertEqual(leaks.returncode, 0, leaks.stdout + leaks.stderr)

    def assert_job_went_on(self, warden, name, job):
        self.persist(lambda: warden.send_input(name, job, "on\n") is not None, "input is taken")
        text, end = self.persist(lambda: warden.attach(name, job), "the job is followed")
        self.assertEqual(text, "begun\non\n")
        self.assertEqual((end["outcome"], end.get("code", 0)), ("exit", 0))
        self.assertEqual(warden.attach(name, job, output=6)[0], "on\n")
        again, _ = warden.run(name, COUNTING, id=job, input_open=True)
        self.assertEqual(again, "begun\non\n", "the same job asked for again is found, not run")
        self.assertEqual(warden.run(name, "cat ~/runs")[0], "begun\n")

    def test_job_outlives_the_warden_and_the_spawner_and_runs_once(self):
        pons, warden = self.begin()
        for victims in (["warden"], ["spawner"], ["warden", "spawner"]):
            name = "-".join(victims)
            warden.create(name)
            warden.start_job(name, "j", COUNTING)
            for victim in victims:
                self.kill_role(pons, victim)
            self.assert_job_went_on(warden, name, "j")
        self.assertEqual(pons.stop(), 0)

    def test_what_a_spawner_froze_for_a_moment_goes_on_when_it_is_killed(self):
        pons, warden = self.begin()
        warden.create("busy")
        warden.start_job("busy", "j", "i=0; while :; do i=$((i+1)); echo $i > ~/count; sleep 0.01; done")
        self.persist(lambda: int(warden.run("busy", "cat ~/count")[0]), "it counts")
        over = threading.Event()

        def checkpoints():
            number = 0
            while not over.is_set():
                number += 1
                try:
                    warden.ask("POST", "/sandboxes/busy/checkpoints", {"name": f"c{number}"})
                    warden.ask("POST", f"/sandboxes/busy/checkpoints/c{number}/commit")
                except LOST:
                    time.sleep(0.001)

        thread = threading.Thread(target=checkpoints)
        thread.start()
        for _ in range(10):
            self.kill_role(pons, "spawner")
        over.set()
        thread.join()
        # Busy with writing or not: what counts is that it runs, and is the same.
        self.assertTrue(self.persist(lambda: warden.run("busy", "echo alive")[0] == "alive\n", "it answers"))
        self.assertEqual(warden.names(), {"busy"})
        self.assertEqual(pons.stop(), 0)

    def test_checkpoints_work_after_the_spawner_was_killed(self):
        pons, warden = self.begin()
        warden.create("kept")
        warden.run("kept", "echo one > ~/f")
        warden.ask("POST", "/sandboxes/kept/checkpoints", {"name": "before"})
        warden.run("kept", "echo two > ~/f")
        self.kill_role(pons, "spawner")
        self.persist(lambda: warden.ask("POST", "/sandboxes/kept/checkpoints", {"name": "after"}), "a checkpoint")
        warden.run("kept", "echo three > ~/f")
        for name, text in (("after", "two\n"), ("before", "one\n")):
            warden.ask("POST", f"/sandboxes/kept/checkpoints/{name}/rollback")
            self.assertEqual(warden.run("kept", "cat ~/f")[0], text)
        self.assertEqual(warden.create("another")["state"], "running")
        self.assertEqual(pons.stop(), 0)

    def test_sandbox_whose_cell_was_killed_is_gone_with_all_it_had(self):
        pons, warden = self.begin()
        self.kill_a_cell(pons, warden)  # the first time allocates what stays
        wait_for(lambda: not groups(pons), "nothing is there")
        before = wait_for(lambda: settled(pons), "the spawner has its spare namespaces")
        for _ in range(5):
            self.kill_a_cell(pons, warden)
        self.assert_nothing_leaks(pons, before)
        self.assertEqual(pons.stop(), 0)

    def kill_a_cell(self, pons, warden):
        warden.create("victim")
        warden.start_job("victim", "sleeper", "sleep 1000 & sleep 1000")
        (group,) = groups(pons).values()
        self.assertGreater(len(processes_of(group)), 1)
        os.kill(cell_of(group), signal.SIGKILL)
        wait_for(lambda: not processes_of(group), "all processes of it are gone")
        with self.assertRaises(LOST):
            warden.run("victim", "true")
        wait_for(lambda: not groups(pons), "its group is gone")

    def test_random_deaths_under_load_leave_the_living_alone_and_leak_nothing(self):
        pons, warden = self.begin()
        for role in ("warden", "spawner"):
            self.kill_role(pons, role)
        self.persist(lambda: warden.create("first"), "a first sandbox")
        self.persist(lambda: warden.destroy("first") is None, "it is gone again")
        wait_for(lambda: not groups(pons), "nothing is there")
        before = wait_for(lambda: settled(pons), "the spawner has its spare namespaces")
        warden.create("witness")
        (witness_group,) = groups(pons)
        warden.start_job("witness", "j", COUNTING)
        loads = [Load(pons, f"load{i}") for i in range(2)]
        for load in loads:
            load.start()
            self.addCleanup(load.stop)
        seed = random.randrange(1 << 32)
        choose = random.Random(seed)
        for _ in range(CYCLES):
            victim = choose.choice(("warden", "spawner", "cell"))
            if victim == "cell":
                others = [path for name, path in groups(pons).items() if name != witness_group]
                cell = cell_of(choose.choice(others)) if others else None
                if cell is not None:
                    os.kill(cell, signal.SIGKILL)
            else:
                self.kill_role(pons, victim)
            time.sleep(choose.uniform(0, 0.2))
        for load in loads:
            load.stop()
        with self.subTest(seed=seed):
            self.assertGreater(sum(load.lives for load in loads), 0)
            self.assertEqual([wrong for load in loads for wrong in load.wrong], [])
            self.assert_job_went_on(warden, "witness", "j")
            for name in self.persist(warden.names, "the list"):
                self.persist(lambda name=name: warden.destroy(name) is None, "destroyed")
            self.assert_nothing_leaks(pons, before)
        self.assertEqual(pons.stop(), 0)

    def test_what_a_killed_supervisor_left_is_cleaned_at_the_next_start(self):
        pons, warden = self.begin()
        for name in ("one", "two"):
            warden.create(name)
            warden.start_job(name, "j", "sleep 1000")
        left = [pid for group in groups(pons).values() for pid in processes_of(group)]
        self.assertGreater(len(left), 3)
        os.kill(pons.pid, signal.SIGKILL)
        pons.process.wait()
        wait_for(lambda: not pons.processes(), "the roles end with their supervisor")
        pons, warden = self.begin()
        self.assertEqual(warden.names(), set())
        wait_for(lambda: not groups(pons), "no group is left")
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in left), "no process is left")
        self.assertEqual(os.listdir(f"{pons.state_dir}/spawner/cells"), [])
        self.assertEqual(warden.create("one")["state"], "running")
        self.assertEqual(pons.stop(), 0)

    def test_down_ends_all_sandboxes_and_leaves_nothing(self):
        pons, warden = self.begin()
        for number in range(5):
            warden.create(f"s{number}")
            warden.start_job(f"s{number}", "j", "sleep 1000")
        left = [pid for group in groups(pons).values() for pid in processes_of(group)]
        self.assertEqual(pons.command("down").returncode, 0)
        self.assertEqual(pons.wait_until_ended(), 0)
        self.assertEqual(groups(pons), {})
        self.assertEqual([pid for pid in left if os.path.exists(f"/proc/{pid}")], [])
        self.assertEqual(os.listdir(f"{pons.state_dir}/spawner/cells"), [])
