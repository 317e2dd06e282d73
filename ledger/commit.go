package ledger

// DecideCommit says what became of a transaction of InTx whose COMMIT was sent, and whose answer is lost, from what its
// rows show under their locks. row(i) is the row of tickets[i]; nil if it could not be read. Only the fence writes a
// success with the token of an attempt that is still under way, and it writes all rows of a batch in the one transaction.
// So one row tells of all of them, and rows that contradict each other are not explained but answered with AttemptUnknown,
// as is no row at all.
//
// AttemptOpen says that it rolled back, and that all rows read are this owner's still; AttemptLost, that one of them is
// not, and that no row shows a commit.
func DecideCommit(tickets []Ticket, row func(i int) *Row) AttemptState {
	var committed, ours, lost bool
	for i, t := range tickets {
		r := row(i)
		switch {
		case r == nil:
		case r.Token == t.Token() && r.State == Succeeded:
			committed = true
		case r.Token == t.Token() && r.State == Pending && r.Holder == Mine:
			ours = true
		default: // taken over after a rollback, or reopened after a commit
			lost = true
		}
	}
	switch {
	case committed && ours:
		return AttemptUnknown
	case committed:
		return AttemptSucceeded
	case lost:
		return AttemptLost
	case ours:
		return AttemptOpen
	}
	return AttemptUnknown
}
