package kafka

import "strings"

// begin says where a partition is read from.
type begin uint8

const (
	atLogStart begin = iota // zero: nothing is skipped
	atCommit
	atStartOption
)

// notePrefix begins the metadata of our commits; the topic's id follows. It tells a commit for a topic that was deleted
// and created again from one for the topic of today.
const notePrefix = "ackledger:1:"

func noteOf(id topicID) string { return notePrefix + id.String() }

// whereToBegin decides. committed is the group's offset of the partition, negative if it has none, note the metadata
// that came with it. known says that the group has a commit of ours for any partition of a topic with this name: a
// partition without one was then added later, or the topic was created anew, and nobody has seen its records.
//
// A commit with foreign metadata counts: an operator has set the offset, or another consumer was here before.
func whereToBegin(committed int64, note string, id topicID, known bool) begin {
	switch {
	case committed < 0 && known:
		return atLogStart
	case committed < 0:
		return atStartOption
	case anotherTopic(note, id):
		return atLogStart
	}
	return atCommit
}

// anotherTopic says whether the note names another topic id. Names say nothing about it.
func anotherTopic(note string, id topicID) bool {
	named, ours := cutNote(note)
	return ours && named != "-" && id != (topicID{}) && named != id.String()
}

// cutNote returns the topic's id from the metadata of a commit of ours.
func cutNote(note string) (id string, ours bool) { return strings.CutPrefix(note, notePrefix) }
