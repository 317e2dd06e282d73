package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
)

const (
	sizeGroup = "kafka, ledger size"
	partGroup = "kafka, partitions"
	longGroup = "ranges of a long life"
	kilobytes = "kB"            // what the ledger's tables and indexes have grown by
	lastTenth = "last of first" // the rate of the last tenth of a run, of that of the first
)

// costCases are rows about what ranges cost: disk, and time with more partitions and after more messages.
func costCases() []suite.Case {
	size := func(name, note string, h consumer.HandlerFunc) suite.Case {
		return suite.Case{Group: sizeGroup, Name: name, Note: note + "; PostgreSQL, all tables with their indexes, after VACUUM, less what they take empty",
			N: suite.Size{Full: 10_000_000, Quick: 80_000}, Main: suite.BytesEach, Once: true, Limit: 30 * time.Minute, Run: grownBy(h)}
	}
	parts := func(n int) suite.Case {
		return suite.Case{Group: partGroup, Name: fmt.Sprint("ours, ranges, ", n), Note: "PostgreSQL ledger, no-op handler, all settings default", N: manyRecords,
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				l, err := freshRows(ctx, r, 1)
				if err != nil {
					return nil, err
				}
				return consumeOf(ctx, r, n, l, kafka.Config{}, counted(noop))
			}}
	}
	return []suite.Case{
		size("all succeed", "no-op handler", noop),
		size("1 % fail for good", "every 100th record of 200 B is archived", every100th(func(*consumer.Message) error { return consumer.Terminal(errBench) })),
		size("1 % are retried once", "every 100th record fails at first, and its row has been folded since",
			every100th(func(m *consumer.Message) error {
				if m.Attempt == 1 {
					return errBench
				}
				return nil
			})),
		parts(1), parts(partitions), parts(200),
		{Group: longGroup, Name: "ours, claim and settle", Note: "PostgreSQL ledger without a broker: 8 logs, 1,250 records of each at a time", Once: true,
			N: suite.Size{Full: 100_000_000, Quick: 2_000_000, Smoke: 200_000}, Limit: 30 * time.Minute, Run: longLife},
	}
}

var errBench = errors.New("bench: on purpose")

// every100th returns f's error for one record of a hundred.
func every100th(f func(*consumer.Message) error) consumer.HandlerFunc {
	return func(_ context.Context, m *consumer.Message) error {
		if m.Offset%100 == 0 {
			return f(m)
		}
		return nil
	}
}

// grownBy measures what a topic's records leave in the ledger.
func grownBy(h consumer.HandlerFunc) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, err := freshRows(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		empty, err := l.db.size(ctx, l.schema)
		if err != nil {
			return nil, err
		}
		cfg := kafka.Config{Options: consumer.Options{Attempts: 3, BackoffBase: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond}}
		res, err := consumeCounted(ctx, r, l, cfg, func(count func(int)) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
				err := h(ctx, m)
				if err == nil || consumer.IsTerminal(err) {
					count(1)
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		if err := errors.Join(l.fold(ctx), l.db.vacuum(ctx, l.schema)); err != nil {
			return nil, err
		}
		full, err := l.db.size(ctx, l.schema)
		if err != nil {
			return nil, err
		}
		bytes := float64(max(full-empty, 1))
		res[suite.BytesEach], res[kilobytes] = bytes/float64(r.N), bytes/1000
		return res, nil
	}
}

// fold sweeps the rows that have done their part, as it happens ten minutes after they succeeded.
func (l *rows) fold(ctx context.Context) error {
	if _, err := l.db.admin.Exec(ctx, "UPDATE "+l.schema+".message SET expiry = now() - interval '1 second' WHERE state = 2 AND covered"); err != nil {
		return err
	}
	_, err := l.Sweep(ctx, ledger.MaintainConfig{})
	return err
}

// vacuum lets the tables of a schema use again what their rows have left.
func (d *database) vacuum(ctx context.Context, schema string) error {
	found, err := d.admin.Query(ctx, `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r'`, schema)
	if err != nil {
		return err
	}
	var tables []string
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			return err
		}
		tables = append(tables, name)
	}
	if err := found.Err(); err != nil {
		return err
	}
	for _, t := range tables {
		if _, err := d.admin.Exec(ctx, "VACUUM "+t); err != nil {
			return err
		}
	}
	return nil
}

// longLife claims and settles records of eight logs in their order, as a worker does.
func longLife(ctx context.Context, r *suite.Run) (suite.Result, error) {
	const each = 1250
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	o, err := l.Join(ctx, time.Hour)
	if err != nil {
		return nil, err
	}
	stretches, ok := ledger.Ungroup(o).(ledger.StretchOwner)
	if !ok {
		return nil, fmt.Errorf("a %T claims no stretches", o)
	}
	began, turns := time.Now(), max(r.N/(each*partitions), 10)
	var first, most time.Duration // for the first tenth of the turns, and for all but the last
	for turn := range turns {
		if err := settleTurn(ctx, stretches, int64(turn*each), each); err != nil {
			return nil, err
		}
		switch turn + 1 {
		case turns / 10:
			first = time.Since(began)
		case turns - turns/10:
			most = time.Since(began)
		}
	}
	took := time.Since(began)
	res := suite.Throughput(turns*each*partitions, took)
	res[lastTenth] = float64(first) / float64(took-most)
	return res, o.Leave(ctx)
}

// settleTurn claims and settles the next records of each log.
func settleTurn(ctx context.Context, o ledger.StretchOwner, from, each int64) error {
	var asks []ledger.Stretch
	for log := range partitions {
		asks = append(asks, ledger.Stretch{Last: from + each - 1, First: ledger.Entry{
			Key: ledger.Key{Scope: "long", ID: fmt.Appendf(nil, "topic-%d-%d", log, from),
				Pos: &ledger.Position{Log: fmt.Sprint("cluster/topic/", log), Offset: from, Prev: from - 1}},
			Delivery: fmt.Appendf(nil, "cluster/topic/%d/0/%d", log, from), Ranged: true, Window: time.Hour,
		}})
	}
	tokens, err := o.ClaimStretches(ctx, asks)
	if err != nil {
		return err
	}
	var done []ledger.StretchDone
	for i, token := range tokens {
		if token == 0 { // a log that it does not know yet
			if token, err = claimFirst(ctx, o, &asks[i]); err != nil {
				return err
			}
		}
		done = append(done, ledger.StretchDone{Ticket: ledger.NewTicket(asks[i].First.Key.Sum(), token), Last: asks[i].Last, Messages: each})
	}
	errs, err := o.SettleStretches(ctx, done)
	return errors.Join(append(errs, err)...)
}

// claimFirst claims the records of a stretch by themselves; all have one token.
func claimFirst(ctx context.Context, o ledger.Owner, s *ledger.Stretch) (uint64, error) {
	var entries []ledger.Entry
	for offset := s.First.Key.Pos.Offset; offset <= s.Last; offset++ {
		e, pos := s.First, *s.First.Key.Pos
		pos.Offset, pos.Prev = offset, offset-1
		e.Key.ID, e.Key.Pos = fmt.Appendf(nil, "topic-%s-%d", pos.Log[len(pos.Log)-1:], offset), &pos
		e.Delivery = fmt.Appendf(nil, "%s/0/%d", pos.Log, offset)
		entries = append(entries, e)
	}
	claims, err := o.Claim(ctx, entries)
	if err != nil {
		return 0, err
	}
	for _, c := range claims {
		if c.Answer != ledger.Run || c.Token != claims[0].Token {
			return 0, fmt.Errorf("claimed with %+v after %+v", c, claims[0])
		}
	}
	return claims[0].Token, nil
}
