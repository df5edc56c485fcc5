package cli

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"WEIR_SERVERS", "WEIR_DIR"} { // the tests are about flags
		_ = os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m)
}
