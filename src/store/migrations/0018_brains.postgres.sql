
CREATE INDEX sessions_left ON sessions (lease_until, id)
  WHERE status <> 'idle' AND status <> 'waits_for_person';
