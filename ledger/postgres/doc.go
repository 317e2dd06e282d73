// Package postgres keeps the ledger in PostgreSQL 14 to 18, for workers on any number of machines. It lets a handler commit its
// effects together with the message's success. docs/engines.md is about PostgreSQL's relatives.
//
//	if err := postgres.Migrate(ctx, cfg.ConnConfig, ""); err != nil { // once, before the deploy
//		return err
//	}
//	l, err := postgres.New(ctx, pool, nil) // one a process
//
//	charge := func(ctx context.Context) error { // in a handler
//		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
//			_, err := tx.Exec(ctx, "INSERT INTO payment VALUES (42)")
//			return err
//		})
//	}
//
// # How it works
//
// A batch of claims is one autocommit statement (sqlClaim), a batch of settlements another (sqlSettle, sqlFail). They lock the
// rows that are there in the order of their keys, and skip what another transaction holds. They decide as [ledger.Decide] and
// [ledger.DecideSettle] do, and write. A claim of a message that has succeeded reads its row and locks nothing.
//
// The database is authoritative for everything, time included. Each statement carries a deadline that the database checks by
// its own clock, so what arrives late changes nothing. A process that is frozen keeps no lock: a statement goes with its COMMIT
// in one round trip. The server ends a transaction of several round trips after three seconds of silence (InTx:
// Config.IdleLimit; Migrate: ten seconds).
//
// Each writing statement asks for durability (synchronous_commit), whatever the database, the role or a pooler set.
//
// One bad item fails none of its neighbours. A batch is split until the item that is refused, or whose key another transaction
// inserts, stands alone. That takes half a second at most, see Config.LockWait. Claims pass over rows that are held.
// Settlements of held rows are repeated outside of the batch.
//
// Plans do not depend on statistics: see sqlTune and sqlClaim.
//
// Records of logs that need no rows of their own ([ledger.Entry.Ranged]) are held in ranges: see internal/ranges for the
// rules. One statement opens a range (sqlRangeOpen), and mostly another closes it (sqlRangeOver). What these do not cover is a
// transaction of two round trips: it locks the logs, reads, and writes what a plan made of it.
//
// Whatever changes a log's ranges holds the lock of its row in range_log. Claims and settlements go beside each other (FOR NO
// KEY UPDATE, FOR KEY SHARE). A look at what is there excludes both (FOR UPDATE). InTx is the exception: it holds the range FOR
// KEY SHARE. A settlement does not wait for that lock, and a take-over does. When a process is frozen with a log locked, claims
// there are Busy until the database ends its transaction, after three seconds.
//
// A range leaves about 120 bytes behind, which are used again after the next vacuum. So autovacuum must be on.
//
// # Connections
//
// The ledger makes its own connections with the settings of the caller's pool: Config.MaxConns, one for beats, and one each for
// the sweep and Stats while they work. All exec modes of pgx work. Behind a pooler in transaction mode use
// [pgx.QueryExecModeExec] or [pgx.QueryExecModeSimpleProtocol]. Migrate needs a session: give it the server itself.
//
// # What has expired
//
// Maintain removes it, in one process at a time, in short transactions on a connection of its own. Workers call it by default.
// It leaves freeing the space to autovacuum, which must be on. A worker's role needs no right to delete: [Grant] gives it
// functions of the schema that remove what has expired and nothing else. Triggers refuse it any change of what is finished.
//
// # What is not promised
//
// A failover to an asynchronous replica may lose what was acknowledged. A synchronous replica has it before it is acknowledged.
// What a call finds settled may come from a commit whose wait was broken off, so the call's own commit waits as well. To that
// end the call writes a logical decoding message (pg_logical_emit_message, prefix ackledger, no content), only where
// synchronous_standby_names is set. Subscribers to the WAL may see the message. Status does the same, because by it a replay
// drops a dead letter whose message has succeeded. Other reads (Get, lists) do not wait. A wait that an operator cancels
// (pg_cancel_backend) is over for the ledger, too.
//
// The clock of the database must not be set back by more than a lease.
//
// # The files
//
// Each file uses what stands below it:
//
//	recover.go             the next epoch, after a restore
//	board.go               what workers have said, and the pauses that operators set
//	outbox.go              lanes of the outbox, what is next in them, and how much waits
//	park_operate.go        what operators see of parked messages, and change
//	operate.go             what operators change: renewals, reopenings, purges, and the audit
//	deadletters.go         the list of dead letters
//	archived.go            how many bytes a scope's archive has
//	list.go                the lists of scopes and messages, Find and Status
//	success.go             which messages have succeeded, read without a claim
//	get.go                 Get, and how rows of messages and of the archive are read
//	ranges_get.go          what Get finds of a message in a range
//	operate_hint.go        when an archived delivery was last sent again, from the audit
//	park_lane.go           what of a lane is parked
//	park.go                what is parked: what of it is due, and how much there is
//	stats.go               Stats, and what the pools count
//	deliveries.go          the counts of deliveries
//	identity.go            the ledger's id
//	maintain.go            Maintain and Sweep: whose turn it is to sweep
//	sweep.go               a pass over the pages of messages and archive, owners and the audit
//	sweep_ranges.go        a pass over the ranges and segments of logs
//	past.go                what is kept of rows that are gone: how it is told, read and swept
//	sweep_pass.go          what a pass knows, and its short transactions
//	intx.go                InTx and InSQLTx: the fence, COMMIT, and its outcome
//	intx_ranges.go         the fence of messages that lie in ranges
//	intx_run.go            one call of InTx, and what its errors mean
//	session.go             its transaction, of pgx or of database/sql
//	lazy.go                the transaction of pgx, which begins with its first statement
//	outbox_tx.go           what a transaction publishes
//	join.go                Join, which makes an owner
//	check.go               whether this program may work with what is there
//	held.go                settlements whose rows others hold, asked for again
//	settle.go              Settle
//	settle_park.go         settlements that park
//	settle_args.go         one call of Settle, as parameters of its statements
//	step.go                Steps, and what Get shows of them
//	claim.go               Claim: new messages first, then the claim table
//	claim_fresh.go         the claim of messages that have no row
//	ranges.go              how an owner opens, closes and updates ranges
//	ranges_write.go        the writes of an update of ranges
//	ranges_read.go         an update of ranges, and what it reads
//	claim_table.go         one call of Claim, and the claim table's answers to it
//	owner.go               an owner: beats, the sealing of dead peers, Leave
//	clock.go               the server's clock, as its answers tell it
//	pauses.go              how pauses are read
//	split.go               batches in parts, so that one bad item costs no other
//	call.go                how a call is sent: its deadline, connection and plan settings
//	ledger.go              the Ledger, and its pools
//	lock_waits.go          how long sessions have waited for locks
//	scopes.go              the numbers of scopes
//	roles.go               Grant, and what a role may do
//	migrate.go             Migrate
//	migrate_turn.go        one migration at a time
//	gate.go                what a connection leads to: how it is asked, and what is refused
//	version.go             which versions of schema and program go together
//	statements_tx.go       the SQL of InTx
//	statements_outbox.go   the SQL of the outbox
//	statements.go          the SQL of owners, scopes and claims, and the schema's name in all
//	statements_operate.go  the SQL of operators
//	statements_park.go     the SQL of parked messages
//	statements_ranges.go   the SQL of ranges
//	statements_settle.go   the SQL of settlements, and of Get
//	params.go              the types of parameters
//	codec.go               the stored forms of positions and logs
//	errors.go              what an error of the database means
//	config.go              Config, its defaults and bounds
//	engine.go              the engines, and what a server's answers say
package postgres
