CREATE TABLE nodes (
  name TEXT NOT NULL PRIMARY KEY,
  started BIGINT NOT NULL,
  alive_until BIGINT NOT NULL
);

ALTER TABLE sessions ADD COLUMN home TEXT NOT NULL DEFAULT '';
ALTER TABLE session_chores ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN node TEXT NOT NULL DEFAULT '';

CREATE TABLE session_inputs (
  id TEXT NOT NULL PRIMARY KEY,
  session_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  events TEXT NOT NULL,
  created BIGINT NOT NULL,
  answered BIGINT,
  seqs TEXT,
  error_code TEXT,
  error_message TEXT
);

CREATE INDEX session_inputs_waiting ON session_inputs (session_id, created, id) WHERE answered IS NULL;
CREATE INDEX session_inputs_answered ON session_inputs (answered) WHERE answered IS NOT NULL;
