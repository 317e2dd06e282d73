package postgres

import (
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// versions are what a worker and a schema compare when the worker joins.
type versions struct {
	worker int // what this program is, to a schema that may be newer
	needs  int // the oldest schema that this program can work with
}

// parkVersion is the first schema that holds parked messages and their lanes.
const parkVersion = 19

var program = versions{worker: 19, needs: 6}

// check compares what the schema's meta table says with a program.
func (v versions) check(schema string, version, oldestWorker int) error {
	if version < v.needs {
		return ledger.MarkUnusable(fmt.Errorf("postgres: schema %q has version %d, this worker needs %d or later: %s",
			schema, version, v.needs, runMigrate))
	}
	if oldestWorker > v.worker {
		return ledger.MarkUnusable(fmt.Errorf(
			"postgres: schema %q (version %d) serves workers of version %d or later, this one is %d: deploy a newer one",
			schema, version, oldestWorker, v.worker))
	}
	return nil
}
