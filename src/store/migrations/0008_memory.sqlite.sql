
CREATE VIRTUAL TABLE memory_search USING fts5 (path, content, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
INSERT INTO memory_search (memory_search, rank) VALUES ('rank', 'bm25(4.0, 1.0)');
