package oracle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm/scenario"
)

// What the random worlds have found, as scripts.

// TestATableThatAnEventAddsDoesNotKeepARemovedChangefeed: the trigger held a write permission when its changefeed was
// removed, and wrote: the table that the event added was never dropped, so the changefeed and its name stayed for ever.
func TestATableThatAnEventAddsDoesNotKeepARemovedChangefeed(t *testing.T) {
	for _, written := range []string{"report n1 stopped d1\nsay n1 written shop ddl@50 d2 perm=1\n", "say n1 written shop ddl@50 d2 perm=1\nreport n1 stopped d1\n"} {
		result, err := scenario.Run(strings.NewReader(`register n1
create-changefeed shop start=10 table=public.a
batch
  add d1 n1
  add d2 n1
report n1 running d1 d2
say n1 waiting shop ddl@50 d2 add=public.b earlier=10
remove-changefeed shop
`+written+`report n1 stopped d2
check
----

`), "removed", scenario.Options{})
		require.NoError(t, err, result.Script)
		require.Contains(t, result.Script, "reports=REPORT_COUNTED")
		require.Contains(t, result.Script, "ended written")
		require.NotContains(t, result.Script, "public.b of shop")
		require.Contains(t, result.Script, "changefeed shop: gone")
	}
}
