// Package sqlite is a ledger in one SQLite file: for one machine, with any number of processes, and no server.
//
//	l, err := sqlite.Open(ctx, path, nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer l.Close()
//
//	charge := func(ctx context.Context) error {
//		return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, "INSERT INTO charge VALUES ('order 7', 1999)")
//			return err
//		})
//	}
//
// # What holds it together
//
// Every claim, settle and InTx is one BEGIN IMMEDIATE transaction: SQLite has one writer at a time, so a statement
// always sees the newest rows, and rows cannot be locked alone (row 2 of the claim table cannot occur). The file is in
// WAL mode with synchronous=FULL: what was answered was flushed to the disk before. Claims and settles of a batch share
// one transaction and one flush, and so do calls that wait for the file at the same time, each of which fails by itself.
//
// Owners live in a second file (path + "-owners"), which the claims read and only joins, beats and leaves write. So an
// InTx that lasts for many leases stops no beat: nobody is declared dead because somebody else's transaction is long.
// The two files know each other by an id; one without the other is refused.
//
// # Waiting
//
// While an InTx holds the write lock, claims and settles wait. Shortly before the deadline of their context a claim
// answers Busy for all its entries, and a settle answers [ErrBusy], or an error like it, for each of its settlements; in
// neither case was anything written, and the worker asks again: it is no outage. Within a process the wait is
// first come, first served; between processes SQLite asks again and again. Config.TxLimit ends an InTx that lasts too
// long; only a process that is frozen (SIGSTOP) inside of one, or of a beat, holds everybody up until it wakes up or is
// killed, which is the price of one file: nothing is lost or run twice by it.
//
// # Ranges
//
// Records of a log (Kafka) are held in ranges of offsets, with rows for exceptions only, as in the other stores. An update
// of ranges is one transaction like any other. Workers from before that finish what they hold, and are not let in again.
//
// # Time
//
// The clock is the machine's, which all processes share; it is read inside the transaction. Times are stored in
// microseconds.
//
// # What has expired
//
// Maintain removes it, for one process at a time, in transactions of some milliseconds; workers call it by default. The
// file does not shrink: the space is used again.
//
// # The file is shared
//
// The application may keep its tables in the same file, and must if InTx is to commit them. It opens the file with a
// driver of its own choice for that (WAL stays set in the file), keeps its write transactions short, and leaves the
// tables that begin with `ackledger_` alone.
package sqlite
