package engine

import "github.com/ackledger/ackledger/ledger"

// rare is what few items have. It is apart from them because what all have is most of a message's memory.
type rare struct {
	followers []*Item // other copies of its key
	drops     []*drop
	errors    []ledger.AttemptError // valid while the item is ours, or may be
	letter    *settlement           // its dead letter is to be published in the place for suspects
	early     *early                // it succeeded, and is settled when it heads its lane
	spent     int64                 // its bytes in the archive's budget, while it is settled as failed
	answered  chan struct{}         // of one that has that place: closed when it is settled
}

// early is a success that waits.
type early struct{ result []byte }

// extra returns what few items have, to change it.
func (t *task) extra() *rare {
	if t.rare == nil {
		t.rare = &rare{}
	}
	return t.rare
}

// rest returns what few items have, to read it.
func (t *task) rest() rare {
	if t.rare == nil {
		return rare{}
	}
	return *t.rare
}
