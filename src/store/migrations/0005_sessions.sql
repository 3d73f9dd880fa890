CREATE TABLE sessions (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  agent TEXT NOT NULL,
  parent_id TEXT NOT NULL,
  title TEXT NOT NULL,
  status TEXT NOT NULL,
  ended TEXT NOT NULL,
  head BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  archived BIGINT,
  input_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL
);

CREATE INDEX sessions_of_project ON sessions (project_id, created, id);
CREATE INDEX sessions_at_work ON sessions (id) WHERE status <> 'idle';

CREATE TABLE session_events (
  session_id TEXT NOT NULL,
  seq BIGINT NOT NULL,
  project_id TEXT NOT NULL,
  at BIGINT NOT NULL,
  type TEXT NOT NULL,
  body TEXT NOT NULL,
  dedupe TEXT,
  PRIMARY KEY (session_id, seq)
);

CREATE UNIQUE INDEX session_events_once ON session_events (session_id, dedupe) WHERE dedupe IS NOT NULL;

CREATE TABLE session_blobs (
  project_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  part BIGINT NOT NULL,
  bytes BYTEA NOT NULL,
  PRIMARY KEY (project_id, digest, part)
);

CREATE TABLE session_chores (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  what TEXT NOT NULL,
  created BIGINT NOT NULL
);
