CREATE TABLE projects (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created BIGINT NOT NULL
);

CREATE TABLE api_keys (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  scopes TEXT NOT NULL,
  created BIGINT NOT NULL,
  revoked BIGINT
);

CREATE INDEX api_keys_of_project ON api_keys (project_id);
