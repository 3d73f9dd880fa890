
ALTER TABLE memories ALTER COLUMN path TYPE TEXT COLLATE "C";
ALTER TABLE memories ADD COLUMN search TSVECTOR;
CREATE INDEX memories_by_words ON memories USING GIN (search);
