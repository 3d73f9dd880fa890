CREATE INDEX sandboxes_open ON sandboxes (id) WHERE ended IS NULL;
