CREATE TABLE deployments (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  name TEXT NOT NULL,
  description TEXT,
  agent TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  environment_id TEXT NOT NULL,
  initial_events TEXT NOT NULL,
  resources TEXT NOT NULL,
  vault_ids TEXT NOT NULL,
  budget TEXT,
  metadata TEXT NOT NULL,
  expression TEXT,
  timezone TEXT,
  missed TEXT NOT NULL,
  late_seconds BIGINT NOT NULL,
  next_at BIGINT,
  due_at BIGINT,
  last_run_at BIGINT,
  paused TEXT,
  revision BIGINT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  archived BIGINT
);

CREATE INDEX deployments_of_project ON deployments (project_id, created, id);
CREATE INDEX deployments_due ON deployments (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE deployment_runs (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL REFERENCES deployments (id),
  agent TEXT NOT NULL,
  scheduled_at BIGINT,
  state TEXT NOT NULL,
  session_id TEXT,
  error_type TEXT,
  error_message TEXT,
  created BIGINT NOT NULL,
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  UNIQUE (deployment_id, scheduled_at)
);

CREATE INDEX deployment_runs_of_project ON deployment_runs (project_id, created, id);
CREATE INDEX deployment_runs_of_deployment ON deployment_runs (deployment_id, created, id);
CREATE INDEX deployment_runs_starting ON deployment_runs (id) WHERE state = 'starting';

CREATE TABLE deployment_misses (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL REFERENCES deployments (id),
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  ticks BIGINT NOT NULL,
  created BIGINT NOT NULL
);

CREATE INDEX deployment_misses_of_deployment ON deployment_misses (deployment_id, created, id);
