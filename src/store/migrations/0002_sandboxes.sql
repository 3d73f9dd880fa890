CREATE TABLE sandboxes (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  template TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created BIGINT NOT NULL,
  ended BIGINT,
  end_reason TEXT
);

CREATE INDEX sandboxes_of_project ON sandboxes (project_id, created);
