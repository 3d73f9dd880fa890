CREATE TABLE model_keys (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  parent_id TEXT REFERENCES model_keys (id),
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  hash TEXT UNIQUE,
  limits TEXT NOT NULL,
  soft_percent BIGINT NOT NULL,
  models TEXT NOT NULL,
  created BIGINT NOT NULL,
  expires BIGINT,
  revoked BIGINT
);

CREATE UNIQUE INDEX model_keys_root ON model_keys (project_id) WHERE parent_id IS NULL;
CREATE INDEX model_keys_of_parent ON model_keys (parent_id);
CREATE INDEX model_keys_of_project ON model_keys (project_id, created);

CREATE TABLE model_calls (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  node_id TEXT NOT NULL,
  path TEXT NOT NULL,
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  time BIGINT NOT NULL,
  input BIGINT NOT NULL,
  cache_read BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  cache_write_hour BIGINT NOT NULL,
  output BIGINT NOT NULL,
  reasoning BIGINT NOT NULL,
  sandbox_seconds BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL,
  outcome TEXT NOT NULL
);

CREATE INDEX model_calls_by_time ON model_calls (time);

CREATE TABLE model_usage (
  node_id TEXT NOT NULL,
  model TEXT NOT NULL,
  day BIGINT NOT NULL,
  project_id TEXT NOT NULL,
  input BIGINT NOT NULL,
  cache_read BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  cache_write_hour BIGINT NOT NULL,
  output BIGINT NOT NULL,
  reasoning BIGINT NOT NULL,
  sandbox_seconds BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  cost_nano BIGINT NOT NULL,
  PRIMARY KEY (node_id, model, day)
);

CREATE INDEX model_usage_of_project ON model_usage (project_id, day);

CREATE TABLE model_journals (
  number BIGINT NOT NULL,
  part BIGINT NOT NULL,
  stored BIGINT NOT NULL,
  PRIMARY KEY (number, part)
);
