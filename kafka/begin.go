package kafka

import "strings"

// begin says where a partition is read from.
type begin uint8

const (
	atLogStart begin = iota // zero: nothing is skipped
	atCommit
	atStartOption
)

// notePrefix begins the metadata of our commits; the cluster's id and the topic's follow. It tells a commit for a topic that
// was deleted and created again from one for the topic of today.
const notePrefix = "ackledger:2:"

func noteOf(cluster string, id topicID) string { return notePrefix + cluster + ":" + id.String() }

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
	named, ours := strings.CutPrefix(note, notePrefix+cluster+":")
	return ours && named != "-" && id != (topicID{}) && named != id.String()
}

// isOurs says whether a commit is ours, of whatever cluster.
func isOurs(note string) bool { return strings.HasPrefix(note, "ackledger:") }
