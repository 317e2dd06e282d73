package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ShareConfig is what a [ShareWorker] is built of, beside the options of the Kafka client. The zero value of each field means its
// default. Options.Name must be empty or the share group. Options.Window is by default as that of a [Config]. Options.ParkAfter is by
// default 5 s: what is held keeps the broker from delivering more than so many records beyond it (group.share.partition.max.record.locks).
type ShareConfig struct {
	consumer.Options

	// AllowUncommitted accepts a group whose share.isolation.level is read_uncommitted, Kafka's default: records of transactions
	// that are aborted are handled then. For people whose producers use no transactions, and who may not alter the group.
	AllowUncommitted bool
}

// refusedShare are the options that would break a promise of a share group's worker, and why.
var refusedShare = []option{
	{kgo.ConsumeRegex, "ConsumeRegex", "a topic is part of each message's identity and is named: see ConsumeTopics"},
	{kgo.ShareAckCallback, "ShareAckCallback", "the worker needs it to know which locks hold"},
	{kgo.MaxConcurrentFetches, "MaxConcurrentFetches", "what is fetched ahead is locked, and delivered for nothing"},
}

// examineShare is examine for a share group.
func examineShare(opts []kgo.Opt) (client, error) {
	if i := slices.Index(opts, nil); i >= 0 {
		return client{}, fmt.Errorf("kafka: option %d of %d is nil", i+1, len(opts))
	}
	plain, err := probe(nil)
	if err != nil {
		return client{}, fmt.Errorf("kafka: the client's defaults: %w", err)
	}
	full, err := probe(opts)
	if err != nil {
		return client{}, err
	}
	for _, f := range refusedShare {
		if !reflect.DeepEqual(full.OptValue(f.opt), plain.OptValue(f.opt)) {
			return client{}, refused(f.name, f.why)
		}
	}
	c := client{opts: opts}
	c.group, _ = full.OptValue(kgo.ShareGroup).(string)
	c.seeds, _ = full.OptValue(kgo.SeedBrokers).([]string)
	if c.topics, err = topicsOf(full.OptValue(kgo.ConsumeTopics)); err != nil {
		return client{}, err
	}
	return c, c.check("ShareGroup")
}

// newShareSettings are those of a worker that keeps rows, and no order.
func newShareSettings(c *ShareConfig, cl client, l ledger.Ledger) (settings, error) {
	c = cmp.Or(c, &ShareConfig{})
	s := settings{
		Config: Config{Options: c.Options, Order: OrderNone, Audit: AuditRows}, share: true,
		givenKeep: c.Keep, archive: l.Limits().Archive, client: cl,
	}
	if s.Name != "" && s.Name != cl.group {
		return s, fmt.Errorf("kafka: ShareConfig.Name: must be empty or the share group %q, is %q", cl.group, s.Name)
	}
	if c.FairBy == nil && (c.FairShare != 0 || len(c.FairWeights) > 0) {
		return s, errors.New("kafka: ShareConfig.FairShare, FairWeights: must be set with FairBy, which says whose a record is")
	}
	s.Name, s.ParkAfter = cl.group, cmp.Or(s.ParkAfter, shareParkAfter)
	var err error
	if s.Options, err = s.WithDefaults(); err != nil {
		return s, fmt.Errorf("kafka: ShareConfig: %w", err)
	}
	return s, nil
}

// shareParkAfter is the default of Options.ParkAfter. What a partition's oldest record waits, the partition may wait.
const shareParkAfter = 5 * time.Second

// shareFetchWait is how long a broker waits for records. It is short: what is acknowledged meanwhile waits for the answer.
const shareFetchWait = 250 * time.Millisecond

// terms are what the brokers say of a share group.
type terms struct {
	lock      time.Duration // for which a record is locked
	limit     int32         // of a record's deliveries
	most      int           // records of a partition that may be locked
	isolation string
	reset     string
	renews    bool
}

// The group's settings, by their names in Kafka.
const (
	termLock      = "share.record.lock.duration.ms"
	termLimit     = "share.delivery.count.limit"
	termMost      = "share.partition.max.record.locks"
	termIsolation = "share.isolation.level"
	termReset     = "share.auto.offset.reset"
	termRenews    = "share.renew.acknowledge.enable"
)

// askTerms reads the group's settings, which a broker tells of any group's name (Kafka 4.2 and newer).
func askTerms(ctx context.Context, c *kgo.Client, group string) (terms, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, of)
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return terms{}, &retryError{fmt.Errorf("describe the share group's settings: %w", err)}
	}
	values := map[string]string{}
	for i := range resp.Resources {
		if err := kerr.ErrorForCode(resp.Resources[i].ErrorCode); err != nil {
			return terms{}, &retryError{fmt.Errorf("describe the settings of share group %q (it takes DescribeConfigs of the group): %w", group, err)}
		}
		for _, v := range resp.Resources[i].Configs {
			if v.Value != nil {
				values[v.Name] = *v.Value
			}
		}
	}
	return readTerms(group, values)
}

// readTerms reads settings. What a broker does not know of it has no default here: it is too old.
func readTerms(group string, values map[string]string) (terms, error) {
	var t terms
	number := func(name string) (int64, error) {
		n, err := strconv.ParseInt(values[name], 10, 32)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("kafka: share group %q: the brokers must say %s, a number from 1 on, and say %q: share groups need Kafka 4.2 or newer",
				group, name, values[name])
		}
		return n, nil
	}
	lock, err := number(termLock)
	if err != nil {
		return t, err
	}
	limit, err := number(termLimit)
	if err != nil {
		return t, err
	}
	t.lock, t.limit = time.Duration(lock)*time.Millisecond, int32(limit)
	if t.most, err = strconv.Atoi(values[termMost]); err != nil {
		t.most = 2000 // as Kafka has it
	}
	t.isolation, t.reset, t.renews = values[termIsolation], values[termReset], values[termRenews] != "false"
	return t, nil
}

// leastLock is the shortest lock in which a renewal that is not answered can be repeated: one is due when a third has passed, and an
// answer may wait for a fetch.
const leastLock = 3 * time.Second

// check refuses what could break a promise. The warnings are for Health.
func (t terms) check(s *settings, uncommitted bool) (warnings []string, err error) {
	if t.lock < leastLock {
		return nil, fmt.Errorf("kafka: share group %q: %s must be at least %d, is %d: the lock of a record that a handler has could not be "+
			"renewed in time", s.group, termLock, leastLock.Milliseconds(), t.lock.Milliseconds())
	}
	if least := int32(s.Attempts) + ledger.CrashLimit; t.limit < least {
		return nil, fmt.Errorf("kafka: share group %q: %s must be at least %d (Options.Attempts of %d and %d crashes), is %d: beyond it the broker "+
			"gives a record up, whatever the ledger says (group.share.max.delivery.count.limit bounds it)",
			s.group, termLimit, least, s.Attempts, ledger.CrashLimit, t.limit)
	}
	if !t.renews {
		return nil, fmt.Errorf("kafka: share group %q: %s must be true, is false: what a handler has for longer than %s would be delivered again",
			s.group, termRenews, t.lock)
	}
	if t.isolation != "read_committed" {
		if !uncommitted {
			return nil, fmt.Errorf("kafka: share group %q: %s must be read_committed, is %q: records of aborted transactions would be handled; "+
				"ShareConfig.AllowUncommitted accepts that", s.group, termIsolation, t.isolation)
		}
		warnings = append(warnings, fmt.Sprintf("share group %q: %s is %q: records of aborted transactions are handled", s.group, termIsolation, t.isolation))
	}
	if t.reset == "latest" {
		warnings = append(warnings, fmt.Sprintf("share group %q: %s is latest: records that were there before the group, or that come "+
			"between two lives of a partition, are not delivered", s.group, termReset))
	}
	return warnings, nil
}

// checkShareVersion refuses a cluster that has share groups turned off.
func checkShareVersion(ctx context.Context, c *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "ackledger", "1"
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return &retryError{fmt.Errorf("ask for the cluster's features: %w", err)}
	}
	if resp.FinalizedFeaturesEpoch < 0 {
		return &retryError{fmt.Errorf("ask for the cluster's features: broker does not know them yet: it has just begun")}
	}
	level := int16(0)
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "share.version" {
			level = f.MaxVersionLevel
		}
	}
	if level < 1 {
		return fmt.Errorf("kafka: share.version must be at least 1, is %d: the cluster has no share groups (Kafka 4.2 or newer; "+
			"kafka-features.sh upgrade --feature share.version=1)", level)
	}
	return nil
}
