package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Recoverer is a ledger that can be told that it was restored from a backup. PostgreSQL and SQLite are. It is for operators, after a
// restore and while no worker runs; `ackledger recover` calls it.
type Recoverer interface {
	// Recover begins a new epoch, in one transaction. The ledger gets the id of [InEpoch], so that commits of before are those of
	// another ledger to every worker. Owners that look alive leave, uncounted: what they held is free. The next tokens of pending messages,
	// of ranges and of logs are above all that was handed out in epochs before ([TokenFloor]). What has failed or succeeded keeps its
	// token, which dead letters name.
	//
	// An epoch that is not above the ledger's is an [*InvalidError], and an id that is not the ledger's any more [ErrChanged]: somebody
	// else was quicker. It needs the rights of the tables' owner. On PostgreSQL it reads all messages once.
	Recover(ctx context.Context, r Recovery) (Recovered, error)
}

// Recovery begins an epoch.
type Recovery struct {
	ID    string // the ledger's, as it was read before
	Epoch int    // above the ledger's, at most MaxEpoch
	By    By
}

// Recovered is what a Recovery changed.
type Recovered struct {
	ID       string // the ledger's from now on
	Owners   int64  // that looked alive, and have left
	Messages int64  // that are pending
	Ranges   int64  // that were open
}

// The epochs of a ledger: 0, and one for each time that it was restored. A token of epoch e is e<<TokenBits or more, and below that of
// the next one: tokens of epoch 0 are at most a clock's microseconds since 1970, which reach TokenBits in the year 2112.
const (
	TokenBits = 52
	MaxEpoch  = 1<<(63-TokenBits) - 1
)

// TokenFloor is below all tokens of an epoch.
func TokenFloor(epoch int) uint64 { return uint64(epoch) << TokenBits }

// Where a UUID (RFC 9562) has its version, and where an epoch stands in one of version 8, which is for others to define.
const (
	uuidLength  = 36
	uuidVersion = 14
	uuidEpoch   = 32
	textEpoch   = "-r"
)

// EpochOf reads the id of a ledger: root is the same in all its epochs.
func EpochOf(id string) (root string, epoch int) {
	if isUUID(id) {
		if id[uuidVersion] == '8' {
			n, _ := strconv.ParseUint(id[uuidEpoch:], 16, 16) // its digits were looked at
			epoch = int(n)
		}
		return id[:uuidVersion] + "4" + id[uuidVersion+1:uuidEpoch], epoch
	}
	if at := strings.LastIndex(id, textEpoch); at > 0 {
		if n, err := strconv.Atoi(id[at+len(textEpoch):]); err == nil && n > 0 && n <= MaxEpoch {
			return id[:at], n
		}
	}
	return id, 0
}

// InEpoch is the id that a ledger has in an epoch, 1 to MaxEpoch. Of a UUID of version 4 it is one of version 8 whose last 16 bits are
// the epoch; of another text, the text with "-r" and the epoch behind it.
func InEpoch(id string, epoch int) string {
	root, _ := EpochOf(id)
	if isUUID(id) {
		return fmt.Sprintf("%s8%s%04x", root[:uuidVersion], root[uuidVersion+1:], epoch)
	}
	return root + textEpoch + strconv.Itoa(epoch)
}

// isUUID says whether an id is a UUID of version 4 or 8, as PostgreSQL writes it.
func isUUID(id string) bool {
	if len(id) != uuidLength || id[uuidVersion] != '4' && id[uuidVersion] != '8' {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// Check refuses a recovery of a ledger with that id, with an [*InvalidError] or [ErrChanged]. Stores call it.
func (r *Recovery) Check(id string) error {
	if r.ID != id {
		return fmt.Errorf("%w: its id is %q, not %q", ErrChanged, id, r.ID)
	}
	if _, now := EpochOf(id); r.Epoch <= now || r.Epoch > MaxEpoch {
		return &InvalidError{Field: "Recovery.Epoch", Bound: fmt.Sprintf("%d to %d", now+1, MaxEpoch), Value: strconv.Itoa(r.Epoch)}
	}
	return r.By.Check()
}

// Record is the audit row of a recovery: it is about all messages, and none.
func (r *Recovery) Record() AuditRecord {
	return AuditRecord{By: r.By, Action: ActionRecover, Detail: fmt.Sprintf("epoch %d, id %s", r.Epoch, InEpoch(r.ID, r.Epoch))}
}
