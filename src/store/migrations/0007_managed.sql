CREATE TABLE agents (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  version BIGINT NOT NULL,
  document TEXT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  archived BIGINT
);

CREATE INDEX agents_of_project ON agents (project_id, created, id);

CREATE TABLE agent_versions (
  agent_id TEXT NOT NULL,
  version BIGINT NOT NULL,
  project_id TEXT NOT NULL,
  document TEXT NOT NULL,
  created BIGINT NOT NULL,
  PRIMARY KEY (agent_id, version)
);

CREATE TABLE environments (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  version BIGINT NOT NULL,
  document TEXT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  archived BIGINT
);

CREATE INDEX environments_of_project ON environments (project_id, created, id);

CREATE TABLE session_orders (
  session_id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  agent_id TEXT NOT NULL,
  agent_version BIGINT NOT NULL,
  environment_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL,
  version BIGINT NOT NULL,
  document TEXT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL
);

CREATE INDEX session_orders_of_project ON session_orders (project_id, created, session_id);
