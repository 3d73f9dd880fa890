CREATE TABLE file_usage (
  project_id TEXT NOT NULL PRIMARY KEY REFERENCES projects (id),
  files BIGINT NOT NULL,
  bytes BIGINT NOT NULL
);

CREATE TABLE files (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  state TEXT NOT NULL,
  name TEXT NOT NULL,
  mime_type TEXT NOT NULL,
  scope TEXT NOT NULL,
  place TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  parts BIGINT NOT NULL,
  digest TEXT NOT NULL,
  created BIGINT NOT NULL,
  touched BIGINT NOT NULL,
  expires BIGINT
);

CREATE INDEX files_of_project ON files (project_id, created, id);
CREATE INDEX files_of_scope ON files (scope, created, id) WHERE scope <> '';
CREATE INDEX files_that_expire ON files (expires) WHERE expires IS NOT NULL;
CREATE INDEX files_unfinished ON files (touched) WHERE state <> 'ready';

CREATE TABLE file_parts (
  file_id TEXT NOT NULL,
  part BIGINT NOT NULL,
  project_id TEXT NOT NULL,
  bytes BYTEA NOT NULL,
  PRIMARY KEY (file_id, part)
);
