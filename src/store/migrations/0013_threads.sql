CREATE INDEX sessions_of_parent ON sessions (parent_id, created, id) WHERE parent_id <> '';
