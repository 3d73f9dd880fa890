-- What a key for sessions opened so far: agents, environments and the like have a scope of their own.
UPDATE api_keys SET scopes = scopes || ' agents'
  WHERE ' ' || scopes || ' ' LIKE '% sessions %' AND ' ' || scopes || ' ' NOT LIKE '% agents %';

-- How much of a thing a project may have at a time; NULL is as much as there is.
ALTER TABLE projects ADD COLUMN sandboxes_max BIGINT;
ALTER TABLE projects ADD COLUMN sessions_max BIGINT;
ALTER TABLE projects ADD COLUMN requests_per_second_max BIGINT;

CREATE INDEX sandboxes_open_of_project ON sandboxes (project_id) WHERE ended IS NULL;
CREATE INDEX sessions_open_of_project ON sessions (project_id) WHERE archived IS NULL AND parent_id = '';
