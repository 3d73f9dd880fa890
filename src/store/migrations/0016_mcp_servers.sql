CREATE TABLE mcp_servers (
  project_id TEXT NOT NULL REFERENCES projects (id),
  url TEXT NOT NULL,
  accepted TEXT NOT NULL,
  offered TEXT NOT NULL,
  revision BIGINT NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  PRIMARY KEY (project_id, url)
);
