package storage

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

// TokenBits is where the epoch stands in a token. A ledger has epoch 0, and one for each time that it was restored. A token of epoch e is
// e<<TokenBits or more, and below that of the next one: tokens of epoch 0 are at most a clock's microseconds since 1970, which reach
// TokenBits in the year 2112. Above them there is room for [ledger.MaxEpoch] in 63 bits.
const TokenBits = 52

// TokenFloor is below all tokens of an epoch.
func TokenFloor(epoch int) uint64 { return uint64(epoch) << TokenBits }

// Where a UUID (RFC 9562) has its version, and where what was drawn for an epoch and the epoch stand in one of version 8, which is for
// others to define.
const (
	uuidLength  = 36
	uuidVersion = 14
	uuidDrawn   = 24
	uuidEpoch   = 32
	textEpoch   = "-r"
	textDrawn   = "-"
)

// EpochOf reads the id of a ledger: root is the same in all its epochs.
func EpochOf(id string) (root string, epoch int) {
	if isUUID(id) {
		if id[uuidVersion] == '8' {
			n, _ := strconv.ParseUint(id[uuidEpoch:], 16, 16) // its digits were looked at
			epoch = int(n)
		}
		return id[:uuidVersion] + "4" + id[uuidVersion+1:uuidDrawn], epoch
	}
	if at := strings.LastIndex(id, textEpoch); at > 0 {
		number, _, _ := strings.Cut(id[at+len(textEpoch):], textDrawn)
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n <= ledger.MaxEpoch {
			return id[:at], n
		}
	}
	return id, 0
}

// InEpoch is the id that a ledger has in an epoch, 1 to [ledger.MaxEpoch]. A recovery draws a number, since a ledger that is restored to before
// a recovery may have the same epoch again, and is another one then. Of a UUID of version 4 the id is one of version 8, whose last 48 bits are
// that number and the epoch; of another text, the text with "-r", the epoch, "-" and the number behind it.
func InEpoch(id string, epoch int, drawn uint32) string {
	root, _ := EpochOf(id)
	if isUUID(id) {
		return fmt.Sprintf("%s8%s%08x%04x", root[:uuidVersion], root[uuidVersion+1:], drawn, epoch)
	}
	return fmt.Sprintf("%s%s%d%s%08x", root, textEpoch, epoch, textDrawn, drawn)
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

// CheckRecovery refuses a recovery of a ledger with that id, with an [*ledger.InvalidError] or [ledger.ErrChanged].
func CheckRecovery(r *ledger.Recovery, id string) error {
	if r.ID != id {
		return fmt.Errorf("%w: its id is %q, not %q", ledger.ErrChanged, id, r.ID)
	}
	if _, now := EpochOf(id); r.Epoch <= now || r.Epoch > ledger.MaxEpoch {
		return &ledger.InvalidError{Field: "Recovery.Epoch", Bound: fmt.Sprintf("%d to %d", now+1, ledger.MaxEpoch), Value: strconv.Itoa(r.Epoch)}
	}
	return checks.By(r.By)
}

// RecoveryRecord is the audit row of a recovery, which has made the ledger's id another one: it is about all messages, and none.
func RecoveryRecord(r *ledger.Recovery, id string) ledger.AuditRecord {
	return ledger.AuditRecord{By: r.By, Action: ledger.ActionRecover, Detail: fmt.Sprintf("epoch %d, id %s", r.Epoch, id)}
}
