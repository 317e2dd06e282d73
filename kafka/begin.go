package kafka

import (
	"slices"
	"strings"
)

// begin says where a partition is read from.
type begin uint8

const (
	atLogStart begin = iota // zero: nothing is skipped
	atCommit
	atStartOption
)

// The metadata of our commits. The cluster's id and the topic's tell a commit for a topic that was deleted and created again
// from one for the topic of today; the ledger's, that a worker of another ledger has committed. A commit that names its ledger
// has a prefix of its own: for a worker from before there were ledgers' ids it is one of a foreign consumer, and counts.
const (
	notePrefix       = "ackledger:2:" // then CLUSTER:TOPIC
	noteLedgerPrefix = "ackledger:3:" // then LEDGER:CLUSTER:TOPIC
)

// noteOf is the metadata of a commit by a worker whose ledger has no id.
func noteOf(cluster string, id topicID) string { return notePrefix + cluster + ":" + id.String() }

// noteIn is the metadata of a commit by a worker of the ledger with the given id; empty: it has none.
func noteIn(ledger, cluster string, id topicID) string {
	if ledger == "" {
		return noteOf(cluster, id)
	}
	return noteLedgerPrefix + ledger + ":" + cluster + ":" + id.String()
}

// readNote takes the ledger's id off the metadata of a commit of ours. Empty: none is named, or the commit is foreign.
func readNote(note string) (ledger, rest string) {
	if rest, old := strings.CutPrefix(note, notePrefix); old {
		return "", rest
	}
	if rest, named := strings.CutPrefix(note, noteLedgerPrefix); named {
		if ledger, rest, named = strings.Cut(rest, ":"); named {
			return ledger, rest
		}
	}
	return "", ""
}

// anotherLedger returns the ledger of the worker that has committed, if the note names one other than ours (empty: ours has no
// id) and those that were moved here; else empty. A note of another cluster was copied from there with the offset, and what is
// known of the records there is under other identities in any case.
func anotherLedger(note, cluster, ours string, moved []string) string {
	theirs, rest := readNote(note)
	if theirs == "" || theirs == ours || slices.Contains(moved, theirs) || !strings.HasPrefix(rest, cluster+":") {
		return ""
	}
	return theirs
}

// isSigned says whether the note names that ledger, or none if that is empty, as one of ours on this cluster would.
func isSigned(note, ledger, cluster string) bool {
	named, rest := readNote(note)
	return named == ledger && (ledger == "" || strings.HasPrefix(rest, cluster+":"))
}

// whereToBegin decides. committed is the group's offset of the partition, negative if it has none, note the metadata
// that came with it. known says that the group has a commit of ours for any partition of a topic with this name: a
// partition without one was then added later, or the topic was created anew, and nobody has seen its records.
//
// A commit with foreign metadata counts: an operator has set the offset, or another consumer was here before, or the commit
// was copied from another cluster with its metadata, as MirrorMaker 2 does (sync.group.offsets.enabled), whose topic's id says
// nothing about the one here.
func whereToBegin(committed int64, note, cluster string, id topicID, known bool) begin {
	switch {
	case committed < 0 && known:
		return atLogStart
	case committed < 0:
		return atStartOption
	case anotherTopic(note, cluster, id):
		return atLogStart
	}
	return atCommit
}

// anotherTopic says whether the note names another topic id of this cluster. Names say nothing about it.
func anotherTopic(note, cluster string, id topicID) bool {
	_, rest := readNote(note)
	named, ours := strings.CutPrefix(rest, cluster+":")
	return ours && named != "-" && id != (topicID{}) && named != id.String()
}

// isOurs says whether a commit is ours, of whatever cluster.
func isOurs(note string) bool { return strings.HasPrefix(note, "ackledger:") }
