ALTER TABLE sandboxes ADD COLUMN charged BIGINT;

UPDATE sandboxes SET charged = ended WHERE ended IS NOT NULL;

CREATE INDEX sandboxes_to_charge ON sandboxes (ended) WHERE ended IS NOT NULL AND charged IS NULL;
