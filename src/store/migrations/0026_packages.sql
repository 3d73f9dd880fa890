-- Which packages an environment wants, and a session was made with: what templates are made of.
CREATE TABLE package_uses (
  user_id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  digest TEXT NOT NULL,
  recipe TEXT NOT NULL,
  created BIGINT NOT NULL
);

CREATE INDEX package_uses_of_digest ON package_uses (digest);
