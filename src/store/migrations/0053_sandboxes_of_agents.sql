-- Which agent's session has taken it: the time of a sandbox is charged to that agent. Empty: none.
ALTER TABLE sandboxes ADD COLUMN agent TEXT NOT NULL DEFAULT '';
