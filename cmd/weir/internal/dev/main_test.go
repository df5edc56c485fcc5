package dev

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("modernc.org/sqlite.(*conn).interruptOnDone"))
}
