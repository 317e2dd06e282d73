package kafka

import "testing"

// The group may be given a topic that was created anew before the watcher has looked: with StartLatest its first records
// were passed over, since nothing but the log's end said where to begin.
func TestPitfall81_TheGroupSeesTheNewTopicFirst(t *testing.T) {
	t.Parallel()
	w := &Worker{born: map[string]topicID{}, reborn: map[string]bool{}, notes: map[place]string{}}
	metas := func(n byte) map[string]topicMeta {
		return map[string]topicMeta{"t": {id: topicID{n}}, "u": {id: topicID{9}}}
	}
	for range 2 {
		if _, reborn := w.remembered(metas(1)); reborn["t"] || reborn["u"] {
			t.Fatalf("the same ids: %v", reborn)
		}
	}
	if _, reborn := w.remembered(metas(2)); !reborn["t"] || reborn["u"] {
		t.Fatalf("another id of t alone: %v", reborn)
	}
	if where := whereToBegin(-1, "", "here", topicID{2}, true); where != atLogStart {
		t.Fatalf("it begins at %d, want the start of its log", where)
	}
}
