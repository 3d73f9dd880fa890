"""The same bad calls before a database that takes less than a file does: texts, numbers and JSON of its own kind."""

import test_managed_matrix
from postgres_world import Postgres
from session_world import config

PASSWORD = "correct-horse-battery-staple-7341"


class ManagedMatrixOnPostgres(test_managed_matrix.ManagedMatrix):
    def start_pons(self):
        database = Postgres(self, PASSWORD)
        store = {"postgres": database.url(), "authority_file": database.authority_file, "password_env": "DATABASE_PASSWORD"}
        return self.start(config(test_managed_matrix.ANSWERS, store=store), environment={"DATABASE_PASSWORD": PASSWORD})
