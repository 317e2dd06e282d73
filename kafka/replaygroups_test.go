package kafka

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/ackledger/ackledger/replay"
)

// A login that may not describe the cluster is not told of groups that it may not describe: one that reads the topic would
// get the copies. It needs the right, or has to say that it does not care.
func TestReplayTargetNeedsToSeeTheGroups(t *testing.T) {
	t.Parallel()
	may := func(resource kmsg.ACLResourceType, name string) kfake.ACL {
		return kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
	}
	const method = "PLAIN"
	logins := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser(method, "admin", "a"),
		kfake.User(method, "sees", "s", may(kmsg.ACLResourceTypeTopic, "*"), may(kmsg.ACLResourceTypeCluster, "kafka-cluster")),
		kfake.User(method, "blind", "b", may(kmsg.ACLResourceTypeTopic, "*"))}
	start := func(opts ...kfake.Opt) []string {
		cluster, err := kfake.NewCluster(append(opts, logins...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		return cluster.ListenAddrs()
	}
	now, old := start(), start(kfake.MaxVersions(kversion.V2_7_0()))
	for name, c := range map[string]struct {
		user, password string
		brokers        []string
		allow          bool
		refused        bool
	}{
		"may see all":                {"sees", "s", now, false, false},
		"an administrator":           {"admin", "a", now, false, false},
		"may not":                    {"blind", "b", now, false, true},
		"does not care":              {"blind", "b", now, true, false},
		"a cluster that cannot tell": {"blind", "b", old, false, false},
	} {
		client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.SASL(plain.Auth{User: c.user, Pass: c.password}.AsMechanism()))
		if err != nil {
			t.Fatal(err)
		}
		target, err := NewReplayTarget(client, &ReplayTargetOptions{Topics: []string{"orders"}, AllowGroups: c.allow})
		if err == nil {
			err = target.Begin(t.Context(), replay.Begin{Source: "cluster/dead"})
		}
		if errors.Is(err, kerr.ClusterAuthorizationFailed) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		client.Close()
	}
}

// A group that cannot be described may be one that reads the topic and has not committed yet: a replay does not begin.
func TestReplayTargetIsToldOfAllGroups(t *testing.T) {
	t.Parallel()
	const busy, sharing = "readers", "sharers"
	classic := func(err *kerr.Error) kmsg.Response {
		return &kmsg.DescribeGroupsResponse{Groups: []kmsg.DescribeGroupsResponseGroup{{Group: busy, ErrorCode: err.Code}}}
	}
	consumer := func(err *kerr.Error) kmsg.Response {
		return &kmsg.ConsumerGroupDescribeResponse{Groups: []kmsg.ConsumerGroupDescribeResponseGroup{{Group: busy, ErrorCode: err.Code}}}
	}
	share := func(err *kerr.Error) kmsg.Response {
		return &kmsg.ShareGroupDescribeResponse{Groups: []kmsg.ShareGroupDescribeResponseGroup{{GroupID: sharing, ErrorCode: err.Code}}}
	}
	shared := func(err *kerr.Error) kmsg.Response {
		return &kmsg.DescribeShareGroupOffsetsResponse{Groups: []kmsg.DescribeShareGroupOffsetsResponseGroup{{GroupID: sharing, ErrorCode: err.Code}}}
	}
	for name, c := range map[string]struct {
		answer  kmsg.Response
		refused error
	}{
		"a share group whose offsets are not known": {shared(kerr.UnknownServerError), kerr.UnknownServerError},
		"a share group that goes meanwhile":         {shared(kerr.GroupIDNotFound), nil},
		"a share group may not be seen":             {share(kerr.GroupAuthorizationFailed), kerr.GroupAuthorizationFailed},
		"a share group that is not described":       {share(kerr.UnknownServerError), kerr.UnknownServerError},
		"a share group that is gone":                {share(kerr.GroupIDNotFound), nil},
		"all are described":                         {nil, nil},
		"a coordinator that loads":                  {classic(kerr.CoordinatorNotAvailable), kerr.CoordinatorNotAvailable},
		"that of the new protocol":                  {consumer(kerr.UnknownServerError), kerr.UnknownServerError},
		"the new protocol may not be seen":          {consumer(kerr.GroupAuthorizationFailed), kerr.GroupAuthorizationFailed},
		"the cluster has no groups like that":       {consumer(kerr.UnsupportedVersion), nil},
		"one of its topics may not be seen":         {consumer(kerr.TopicAuthorizationFailed), kerr.TopicAuthorizationFailed},
	} {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "others"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(fake.Close)
		client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.RequestRetries(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		var at kadm.Offsets
		at.AddOffset("others", 0, 0, -1)
		if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), busy, at); err != nil {
			t.Fatal(err)
		}
		shares(t, client, sharing, "others")
		if c.answer != nil {
			fake.ControlKey(c.answer.Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				c.answer.SetVersion(req.GetVersion())
				return c.answer, nil, true
			})
		}
		target, err := NewReplayTarget(client, &ReplayTargetOptions{Topics: []string{"orders"}})
		if err == nil {
			err = target.Begin(t.Context(), replay.Begin{Source: "cluster/dead"})
		}
		if !errors.Is(err, c.refused) {
			t.Errorf("%s: %v, want %v", name, err, c.refused)
		}
	}
}

// Groups that have committed nothing yet, of each kind, and who commits without a name.
func TestReplayTargetFindsEachKindOfReader(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "others"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	adm := kadm.NewClient(client)
	want := func(what string, readers ...string) {
		t.Helper()
		if found, err := readersOf(t.Context(), adm); err != nil || !slices.Equal(found["orders"], readers) {
			t.Errorf("%s: found %q, %v, want %q", what, found["orders"], err, readers)
		}
	}
	answer := func(g kmsg.ConsumerGroupDescribeResponseGroup) {
		fake.ControlKey(int16(kmsg.ConsumerGroupDescribe), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
			resp.Groups = append(resp.Groups, g)
			return resp, nil, true
		})
	}
	answer(kmsg.ConsumerGroupDescribeResponseGroup{ErrorCode: kerr.InvalidGroupID.Code}) // as Kafka 4.3 does
	var at kadm.Offsets
	at.AddOffset("others", 0, 0, -1)
	if err := adm.CommitAllOffsets(t.Context(), "", at); err != nil {
		t.Fatal(err)
	}
	want("nobody reads the topic")
	shares(t, client, "sharers", "orders")
	want("a share group", "sharers")
	answer(kmsg.ConsumerGroupDescribeResponseGroup{Group: "joining", Members: []kmsg.ConsumerGroupDescribeResponseGroupMember{
		{SubscribedTopics: []string{"orders"}},
	}})
	want("a member that has no partition yet", "joining", "sharers")
}

// shares joins a share group.
func shares(t *testing.T, client *kgo.Client, group, topic string) {
	t.Helper()
	share := kmsg.NewPtrShareGroupHeartbeatRequest()
	share.GroupID, share.MemberID, share.SubscribedTopicNames = group, "AAAAAAAAAAAAAAAAAAAAAQ", []string{topic}
	if resp, err := share.RequestWith(t.Context(), client); err != nil || resp.ErrorCode != 0 {
		t.Fatalf("join a share group: %v, %+v", err, resp)
	}
}

// Brokers that do not say what they know are not taken for old ones, which are asked less.
func TestBrokersThatDoNotAnswerAreNoOldOnes(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if known, err := knows(ended, kadm.NewClient(client), kmsg.NewPtrMetadataRequest()); known || err == nil {
		t.Errorf("%v, %v", known, err)
	}
}
