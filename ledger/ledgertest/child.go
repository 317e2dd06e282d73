package ledgertest

import (
	"context"
	"io"
	"os"
	"testing"
)

// Main is called from the TestMain of a store that has second processes. In a process that a test of this package
// started, it plays the scripted worker that the test asked for, on the store that open returns for the test's DSN,
// and exits; else it runs the tests. open needs to fill in Ledger, and InTx and Effect if the store has them.
func Main(m *testing.M, open func(ctx context.Context, dsn string) (Store, io.Closer, error)) {
	os.Exit(m.Run())
}
