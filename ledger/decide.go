package ledger

import "time"

// Holder says who a pending row names, as the claiming statement sees it.
type Holder uint8

// The holders. The zero value is nobody: the row was released, or never held.
const (
	Nobody Holder = iota
	Mine          // this owner: our own claim, whose answer was lost
	Live          // another owner, live as far as this statement sees
	Left          // an owner that left on purpose
	Dead          // an owner that a peer declared dead
)

// Row is what one statement sees of a message. A store fills it in, or does the same in SQL.
type Row struct {
	// Unseen says that the statement cannot trust what it sees: the row is locked by another transaction, its owner's
	// row is not in the snapshot, or it is failed and the archive row of its last failed delivery is not in the
	// snapshot (the locked row is newer than the snapshot).
	Unseen      bool
	Fingerprint Fingerprint // zero: not known yet; a claim that writes puts the entry's there
	State       State
	Token       uint64
	Holder      Holder
	HeldFor     time.Duration // with Live: the rest of that owner's lease
	DueIn       time.Duration // until the row is due; zero or less: now
	Attempts    int
	Crashes     int
	Parked      bool // the whole message lies beside the row
	Archived    bool // the entry's own delivery is in the archive under this key, and not past its expiry
}

// Decision is what the claim table says about one entry.
type Decision struct {
	Answer Answer
	// Write says that the row becomes this owner's: pending, no due time, with the values below. Without it nothing is
	// written.
	Write    bool
	Token    uint64
	Attempts int
	Crashes  int
	// Renew says that the row begins anew: first claim, the list of errors, and the expiry, unless what it has is later.
	Renew     bool
	Wait      time.Duration
	Held      bool
	First     bool
	Suspect   bool
	Uncertain bool
	TookOver  bool
}

// Decide is the truth of the claim table: the first rule that matches decides. row is nil if there is none. The caller
// makes sure that its own owner is live in the same statement, else it answers [ErrLost] and writes nothing.
//
// Decide is pure: no clock, no chance, no I/O. Stores that decide in SQL are checked against it.
func Decide(row *Row, e Entry) Decision {
	if row == nil { // 1
		return Decision{Answer: Run, Write: true, Token: 1, Renew: true, First: true}
	}
	if row.Unseen { // 2
		return Decision{Answer: Busy}
	}
	if row.Archived { // 3
		return Decision{Answer: Done}
	}
	if !row.Fingerprint.IsZero() && !row.Fingerprint.Agrees(e.Fingerprint) { // 4
		return Decision{Answer: Mismatch}
	}
	if row.State == Succeeded { // 5
		return Decision{Answer: Done}
	}
	if row.State == Pending && row.Parked && !e.Parked { // 5a
		return Decision{Answer: InCare}
	}
	if row.State == Pending { // 6
		if row.Holder == Live {
			return Decision{Answer: Busy, Wait: max(row.HeldFor, 0), Held: true}
		}
		if row.DueIn > 0 {
			return Decision{Answer: Busy, Wait: row.DueIn}
		}
	}
	return decideTake(row, e)
}

// decideTake is the rest of the table: the row is pending and free to take, or failed.
func decideTake(row *Row, e Entry) Decision {
	crashes := row.Crashes
	if row.State == Pending && row.Holder == Dead {
		crashes++
	}
	abandoned := row.State == Pending && (row.Holder == Dead || row.Holder == Left)
	// A claim of ours whose answer was lost may have taken over what another owner had begun.
	uncertain := e.Park && (abandoned || row.State == Pending && row.Holder == Mine && row.Token > 1)
	if row.State == Pending && (crashes >= CrashLimit || uncertain) { // 7
		return Decision{
			Answer: Spent, Write: true, Token: row.Token + 1, Attempts: row.Attempts, Crashes: crashes,
			Uncertain: uncertain && crashes < CrashLimit, TookOver: abandoned,
		}
	}
	if crashes >= SuspectCrashes && !e.Solo { // 8
		return Decision{Answer: Busy, Suspect: true}
	}
	if row.State == Failed && (e.Parked || e.StampToken != row.Token && (e.StampToken != 0 || e.KeepFailed)) { // 9
		return Decision{Answer: Done}
	}
	d := Decision{ // 10
		Answer: Run, Write: true, Token: row.Token + 1, Attempts: row.Attempts, Crashes: crashes, TookOver: abandoned,
		First: row.State == Pending && row.Holder == Mine && row.Token == 1,
	}
	if row.State == Failed {
		d.Attempts, d.Crashes, d.Renew = 0, min(crashes, SuspectCrashes), true
	}
	return d
}

// Effect is what a settlement does to its row.
type Effect uint8

// The effects. The zero value is the safe one.
const (
	EffectLost  Effect = iota // nothing is written, and the caller is told ErrLost
	EffectHolds               // nothing is written: the settlement holds already
	EffectWrite               // the row is written
	EffectFile                // a mismatch: only the archive row is written, if it is not there
)

// DecideSettle is the truth of the settle rules: the guard (pending, this owner's, this token), and what 0 rows mean.
// row is nil if there is none; row.Holder says whose it is, row.Archived whether the delivery of one that fails is archived, and row.Parked
// whether the message is parked.
func DecideSettle(row *Row, s Settlement) Effect {
	if s.Ticket.IsMismatch() {
		if s.Kind == Fail {
			return EffectFile
		}
		return EffectLost
	}
	if row == nil || row.Token != s.Ticket.Token() {
		return EffectLost
	}
	switch {
	case row.State == Pending && row.Holder == Mine:
		return EffectWrite
	case s.Kind == RecordStep: // only a claim that goes on has steps
		return EffectLost
	case row.State == Succeeded,
		row.State == Failed && row.Archived,
		row.State == Pending && row.Holder == Nobody && (s.Kind == Release || s.Kind == Park && row.Parked):
		return EffectHolds
	}
	return EffectLost
}
