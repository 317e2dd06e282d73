// Package postgres keeps the ledger in PostgreSQL (14 to 18; docs/engines.md says what of its relatives), for workers on any
// number of machines, and lets a handler commit its effects together with the message's success.
//
//	err := postgres.Migrate(ctx, poolConfig.ConnConfig, "") // once, before the deploy
//	l, err := postgres.New(ctx, pool, nil)                   // one a process
//	defer l.Close()
//
// and in a handler:
//
//	return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "INSERT INTO payments ...")
//		return err
//	})
//
// # How it works
//
// A batch of claims is one autocommit statement (sqlClaim), a batch of settles another (sqlSettle, sqlFail). They lock the
// rows that are there in the order of their keys, skip what another transaction holds, decide as [ledger.Decide] and
// [ledger.DecideSettle] do, and write. A claim of what has succeeded reads it and locks nothing. The database is
// authoritative for everything, time included: each statement carries a deadline that the database checks by its own clock,
// so what arrives late changes nothing. A process that is frozen keeps no lock: statements go with their COMMIT in one
// round trip, and the server ends what has several after three seconds of silence (InTx: Config.IdleLimit; Migrate: ten
// seconds).
//
// Durability is asked for inside each writing statement (synchronous_commit), whatever the database, the role or a
// pooler set. One bad item fails none of its neighbours: a batch is split until the item that is refused, or whose key
// another transaction inserts, stands alone (for half a second at most, see Config.LockWait); rows that are held are passed
// over by claims, and settled again outside of the batch.
//
// Plans do not depend on statistics: see sqlTune and sqlClaim.
//
// Records of logs that need no rows of their own ([ledger.Entry.Ranged]) are held in ranges: see internal/ranges for the
// rules. A range is opened by one statement (sqlRangeOpen), and mostly closed by another (sqlRangeOver). What these do
// not cover is a transaction of two round trips that locks the logs, reads, and writes what a plan made of it. All that
// changes a log's ranges holds the lock of its row in range_log, but for InTx: that holds the range FOR KEY SHARE, which a
// settlement does not wait for and a take-over does. Claims and settlements go beside each other (FOR NO KEY UPDATE, FOR KEY
// SHARE); who looks at what is there excludes both (FOR UPDATE). A process that is frozen with a log locked makes claims there
// Busy until the database ends its transaction, after three seconds. What a range leaves behind is used again after the next
// vacuum, about 120 bytes each: autovacuum must be on.
//
// # Connections
//
// The ledger's own connections (Config.MaxConns, one for beats, one each for the sweep and Stats while they work) are made
// with the settings of the caller's pool. All exec modes of pgx work; behind a pooler in transaction mode use [pgx.QueryExecModeExec] or
// [pgx.QueryExecModeSimpleProtocol]. Migrate needs a session: give it the server itself.
//
// # What has expired
//
// Maintain removes it, for one process at a time, in short transactions on a connection of its own; workers call it by
// default. It leaves freeing the space to autovacuum, which must be on. A worker's role needs no right to delete: [Grant]
// gives it functions of the schema that remove what has expired and nothing else, and triggers refuse it any change of what
// is finished.
//
// # What is not promised
//
// A failover to an asynchronous replica may lose what was acknowledged. A synchronous one has it before: what a call finds
// settled may be of a commit whose wait was broken off, so the call's own commit waits as well. To that end it writes a
// logical decoding message (pg_logical_emit_message, prefix ackledger, no content; only where synchronous_standby_names is
// set), which subscribers to the WAL may see. So does Status, by which a replay drops a dead letter whose message has
// succeeded; other reads do not wait (Get, lists). A wait that an operator cancels (pg_cancel_backend) is over for the
// ledger, too.
//
// The clock of the database must not be set back by more than a lease.
//
// # The files
//
// Each file uses what stands below it:
//
//	recover.go             the next epoch, after a restore
//	board.go               what workers have said, and the pauses that operators set
//	operate.go             what operators change: renewals, reopenings, purges, and the audit
//	deadletters.go         the list of dead letters
//	archived.go            how many bytes a scope's archive has
//	list.go                the lists of scopes and messages, Find and Status
//	success.go             which messages have succeeded, read without a claim
//	get.go                 Get, and how rows of messages and of the archive are read
//	ranges_get.go          what Get finds of a message in a range
//	operate_hint.go        when an archived delivery was last sent again, from the audit
//	stats.go               Stats, and what the pools count
//	deliveries.go          the counts of deliveries
//	identity.go            the ledger's id
//	maintain.go            Maintain and Sweep: whose turn it is to sweep
//	sweep.go               a pass over the pages of messages and archive, owners and the audit
//	sweep_ranges.go        a pass over the ranges and segments of logs
//	past.go                what is kept of rows that are gone: how it is told, read and swept
//	sweep_pass.go          what a pass knows, and its short transactions
//	intx.go                InTx and InSQLTx: the fence, COMMIT, and what became of it
//	intx_ranges.go         the fence of messages that lie in ranges
//	intx_run.go            one call of InTx, and what its errors mean
//	session.go             its transaction, of pgx or of database/sql
//	lazy.go                the transaction of pgx, which begins with its first statement
//	join.go                Join, which makes an owner
//	check.go               whether this program may work with what is there
//	held.go                settlements whose rows others hold, asked for again
//	settle.go              Settle
//	settle_args.go         one call of Settle, as parameters of its statements
//	step.go                Steps, and what Get shows of them
//	claim.go               Claim: new messages first, then the claim table
//	claim_fresh.go         the claim of messages that have no row
//	ranges.go              how an owner opens, closes and updates ranges
//	ranges_write.go        the writes of an update of ranges
//	ranges_read.go         an update of ranges, and what it reads
//	claim_table.go         one call of Claim, and the claim table's answers to it
//	owner.go               an owner: beats, the sealing of dead peers, Leave
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
//	statements.go          the SQL of owners, scopes and claims, and the schema's name in all
//	statements_operate.go  the SQL of operators
//	statements_ranges.go   the SQL of ranges
//	statements_settle.go   the SQL of settlements, and of Get
//	params.go              the types of parameters
//	codec.go               the stored forms of positions and logs
//	errors.go              what an error of the database means
//	config.go              Config, its defaults and bounds
//	engine.go              the engines, and what a server's answers say
package postgres
