package kafka

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// goodShare are options that a share group's worker takes.
func goodShare() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1"), kgo.ShareGroup("g"), kgo.ConsumeTopics("b", "a")}
}

// What would break a promise is refused by its name.
func TestShareRefusesOptionsByName(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]kgo.Opt{
		"ConsumeRegex":         kgo.ConsumeRegex(),
		"ShareAckCallback":     kgo.ShareAckCallback(func(*kgo.Client, kgo.ShareAckResults) {}),
		"direct-partition":     kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: kgo.NewOffset()}}),
		"MaxConcurrentFetches": kgo.MaxConcurrentFetches(2),
		"ShareGroup":           kgo.ShareGroup(""),
		"ConsumeTopics":        kgo.ConsumeTopics(),
	} {
		_, err := NewShareWorker(append(goodShare(), opt), memory.New(), nothing, nil)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, c := range map[string]*ShareConfig{
		"ShareConfig.Name":      {Options: consumer.Options{Name: "other"}},
		"ShareConfig.FairShare": {Options: consumer.Options{FairShare: 1}},
		"Options.Concurrency":   {Options: consumer.Options{Concurrency: -1}},
	} {
		if _, err := NewShareWorker(goodShare(), memory.New(), nothing, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := NewShareWorker(goodShare(), nil, nothing, nil); err == nil {
		t.Error("a nil ledger was accepted")
	}
	if _, err := NewShareWorker(goodShare(), memory.New(), nil, nil); err == nil {
		t.Error("a nil handler was accepted")
	}
}

// What the group is set to is read when Run begins, and refused by its name where it would lose a record, or hand one out twice.
func TestShareRefusesTheGroupsSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terms    map[string]string
		attempts int
		want     []string
	}{
		"limit":     {map[string]string{termLimit: "9"}, 0, []string{termLimit, "at least 15", "is 9", "Options.Attempts of 10 and 5 crashes"}},
		"attempts":  {nil, 16, []string{termLimit, "at least 21", "is 20"}},
		"lock":      {map[string]string{termLock: "2000"}, 0, []string{termLock, "at least 3000", "is 2000"}},
		"isolation": {map[string]string{termIsolation: "read_uncommitted"}, 0, []string{termIsolation, "AllowUncommitted"}},
		"renewals":  {map[string]string{termRenews: "false"}, 0, []string{termRenews, "must be true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharedSite(t, 1)
			terms := maps.Clone(shareTerms)
			maps.Copy(terms, c.terms)
			s.alterGroup(terms)
			config := quickShare()
			config.Attempts = c.attempts
			s.mustRefuse(s.shareWorker(nothing, config), c.want...)
		})
	}
}

func (s *site) mustRefuse(w *ShareWorker, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute) // it runs on if it does not refuse
	defer cancel()
	err := w.Run(ctx)
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			s.t.Errorf("Run: %v, want %q in it", err, text)
		}
	}
}

// A cluster may have share groups turned off.
func TestShareRefusesAClusterWithoutShareGroups(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	feature := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	feature.Feature, feature.MaxVersionLevel, feature.UpgradeType = "share.version", 0, 3
	req.FeatureUpdates = append(req.FeatureUpdates, feature)
	resp, err := req.RequestWith(t.Context(), s.prod)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.mustRefuse(s.shareWorker(nothing, nil), "share.version must be at least 1, is 0")
}

// What may be so all the same, and what is altered while it runs, is a warning.
func TestShareWarnsOfSettings(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 1)
	s.alterGroup(map[string]string{termIsolation: "read_uncommitted", termReset: "latest"})
	c := quickShare()
	c.AllowUncommitted = true
	r := s.share(nothing, c)
	says := func(part string) bool {
		return slices.ContainsFunc(r.Health().Warnings, func(w string) bool { return strings.Contains(w, part) })
	}
	eventually(t, "it warns of both", func() bool { return says(termIsolation) && says(termReset) })
	s.alterGroup(map[string]string{termLimit: "5"})
	eventually(t, "it warns of the limit", func() bool { return says(termLimit) })
	s.alterGroup(map[string]string{termLimit: "20"})
	eventually(t, "all is well again", func() bool { return !says(termLimit) })
	r.end()
}

// The computer's clock is set while a worker runs: how long a lock lasts does not hang on when the worker began.
func TestPitfall239_TheClockIsSet(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.alterGroup(map[string]string{termReset: "earliest", termLock: "30000"})
	s.send(0, "v")
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ShareGroup(s.group), kgo.ConsumeTopics(s.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for len(records) == 0 && t.Context().Err() == nil {
		records = client.PollFetches(t.Context()).Records()
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		table := newLockTable()
		even := table.now
		table.now = func() time.Duration { return even() + by } // as if the clock, and not this time, had been set since the start
		if left := table.hold(records[0]).Until - table.now(); left < 20*time.Second || left > 30*time.Second {
			t.Errorf("set by %s, a lock of 30 s lasts %s", -by, left)
		}
	}
}
