CREATE TABLE IF NOT EXISTS weir_fence_lock (table_name TEXT NOT NULL PRIMARY KEY);
CREATE TABLE IF NOT EXISTS weir_fence (
	table_name   TEXT NOT NULL,
	start_key    BLOB NOT NULL,
	end_key      BLOB,
	epoch        INTEGER NOT NULL,
	claim        INTEGER NOT NULL,
	cluster      TEXT NOT NULL,
	changefeed   TEXT NOT NULL,
	run          INTEGER NOT NULL,
	resume_ts    TEXT NOT NULL,
	resume_stage INTEGER NOT NULL,
	session      TEXT NOT NULL,
	released     INTEGER NOT NULL,
	PRIMARY KEY (table_name, start_key)
);
