package sqlite

// childRole names the environment variable that turns the test binary into another process on the same file.
const childRole = "WEIR_SQLITE_CHILD"

func runChild(string) int { return 0 }
