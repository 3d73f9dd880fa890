-- Sessions whose tools are done outside, as work for whoever does them.
CREATE TABLE work_items (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  state TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created BIGINT NOT NULL,
  offered BIGINT NOT NULL,
  acknowledged BIGINT,
  started BIGINT,
  heartbeat BIGINT,
  ttl BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  stop_requested BIGINT,
  stopped BIGINT
);

-- A session is one worker's at a time.
CREATE UNIQUE INDEX work_items_of_session ON work_items (session_id) WHERE state <> 'stopped';
CREATE INDEX work_items_of_environment ON work_items (environment_id, created, id);
CREATE INDEX session_orders_of_environment ON session_orders (environment_id);

-- The SHA-256 of what a worker shows for the one session that it works for.
CREATE TABLE session_tokens (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  session_id TEXT NOT NULL,
  work_id TEXT NOT NULL,
  hash TEXT NOT NULL,
  expires BIGINT NOT NULL
);

CREATE INDEX session_tokens_of_work ON session_tokens (work_id);
