-- Which call of its parent wanted a session: several that one answer wants begin in the same millisecond.
ALTER TABLE sessions ADD COLUMN parent_call BIGINT NOT NULL DEFAULT 0;
