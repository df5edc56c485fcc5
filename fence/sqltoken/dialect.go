package sqltoken

// Dialect is what differs between databases. The statements of the guard are otherwise plain SQL.
type Dialect struct {
	// Name is the database's name, for messages.
	Name string
	// Begin starts a transaction whose locks last until its end.
	Begin string
	// Placeholder is the n-th parameter of a statement, from 1.
	Placeholder func(n int) string
	// ForUpdate follows a SELECT that must lock its rows alone: the lock row of a claim. Empty where Begin locks the
	// whole database.
	ForUpdate string
	// ForShare follows the SELECT of a writer's own fence row. It must conflict with ForUpdate and with an update of the
	// row. On PostgreSQL that is FOR SHARE (FOR KEY SHARE lets a stale commit in), on MySQL 8 FOR SHARE, on MariaDB LOCK
	// IN SHARE MODE. Empty where Begin locks the whole database.
	ForShare string
	// InsertIgnore inserts a lock row, whose table name is its only parameter, unless it is there.
	InsertIgnore string
	// Schema creates the guard's tables unless they are there.
	Schema []string
}

// The guard's tables.
const (
	// FenceTable holds the fence rows.
	FenceTable = "weir_fence"
	// LockTable holds one row per table; claims of a table exclude each other by it.
	LockTable = "weir_fence_lock"
)

// SQLite is the dialect of SQLite: a transaction that begins immediately is alone, in all processes, so no row needs a
// lock. A connection must have a busy timeout, else it does not wait for others.
func SQLite() Dialect {
	return Dialect{
		Name:         "sqlite",
		Begin:        "BEGIN IMMEDIATE",
		Placeholder:  func(int) string { return "?" },
		InsertIgnore: "INSERT INTO " + LockTable + " (table_name) VALUES (?) ON CONFLICT DO NOTHING",
		Schema: []string{
			"CREATE TABLE IF NOT EXISTS " + LockTable + " (table_name TEXT NOT NULL PRIMARY KEY)",
			// end_key is NULL where the range has no upper bound; resume_ts is text, since SQL integers are signed.
			"CREATE TABLE IF NOT EXISTS " + FenceTable + ` (
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
)`,
		},
	}
}
