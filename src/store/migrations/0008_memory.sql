CREATE TABLE memory_stores (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  number BIGINT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  metadata TEXT NOT NULL,
  revision BIGINT NOT NULL,
  memories BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  archived BIGINT,
  deleted BIGINT
);

CREATE INDEX memory_stores_of_project ON memory_stores (project_id, created, id);
CREATE INDEX memory_stores_deleted ON memory_stores (id) WHERE deleted IS NOT NULL;

CREATE TABLE memories (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  store_id TEXT NOT NULL REFERENCES memory_stores (id),
  number BIGINT NOT NULL,
  path TEXT NOT NULL,
  version_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size BIGINT NOT NULL,
  provenance TEXT NOT NULL,
  pinned BIGINT NOT NULL,
  uses BIGINT NOT NULL,
  used BIGINT NOT NULL,
  weight BIGINT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  UNIQUE (store_id, path),
  UNIQUE (store_id, number)
);

CREATE INDEX memories_to_start_with ON memories (store_id, pinned, weight) WHERE provenance <> 'untrusted';

CREATE TABLE memory_versions (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL,
  store_id TEXT NOT NULL REFERENCES memory_stores (id),
  memory_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  operation TEXT NOT NULL,
  path TEXT,
  sha256 TEXT,
  size BIGINT,
  provenance TEXT NOT NULL,
  actor_kind TEXT NOT NULL,
  actor_id TEXT NOT NULL,
  created BIGINT NOT NULL,
  redacted BIGINT,
  redacted_actor_kind TEXT,
  redacted_actor_id TEXT,
  content TEXT,
  UNIQUE (store_id, number)
);

CREATE INDEX memory_versions_of_memory ON memory_versions (store_id, memory_id, number);
CREATE INDEX memory_versions_of_actor ON memory_versions (store_id, actor_id, number);
