package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/ledger"
)

// Engine names what speaks PostgreSQL's protocol at the other end of a connection, or stands in between.
type Engine string

// What is told apart. PostgreSQL alone has passed the ledger's suite, from version 14 on; docs/engines.md says what stands in
// the way of each other.
const (
	PostgreSQL       Engine = "postgresql"
	AlloyDB          Engine = "alloydb"
	AuroraDSQL       Engine = "dsql"
	AuroraPostgreSQL Engine = "aurora"
	Citus            Engine = "citus"
	CockroachDB      Engine = "cockroachdb"
	EDBAdvanced      Engine = "edb"       // EDB Postgres Advanced Server
	Greenplum        Engine = "greenplum" // and what is made of it, such as Cloudberry
	Materialize      Engine = "materialize"
	Neon             Engine = "neon"
	PGlite           Engine = "pglite"
	Redshift         Engine = "redshift"
	RisingWave       Engine = "risingwave"
	Spanner          Engine = "spanner" // its PostgreSQL dialect, by PGAdapter
	YugabyteDB       Engine = "yugabytedb"
	// OtherEngine is none of these, and says or shows that it is not PostgreSQL either.
	OtherEngine Engine = "other"
	// OtherStorage is PostgreSQL where a new table is not of its own table access method, heap.
	OtherStorage Engine = "other-storage"
	// TransactionPooler gives a server to others between two transactions of a connection. Migrate needs a session; New does not.
	TransactionPooler Engine = "transaction-pooler"
	// StatementPooler lets no transaction have two statements.
	StatementPooler Engine = "statement-pooler"
)

// EngineError says that no ledger is to be kept on what a connection leads to. Nothing was changed there. [ledger.Unusable] is
// true for it. Whoever has run the ledger's suite on that engine accepts it by name ([Config].Accept, [Migrate]).
type EngineError struct {
	Engine  Engine
	Version string // what the server says of itself
	Reason  string // what stands in the way
	Instead string // what to use
}

// Error implements error.
func (e *EngineError) Error() string {
	return fmt.Sprintf("%s (%q) has not passed the ledger's suite: %s: %s; to keep a ledger there all the same accept it by the name %s",
		verdictOf(e.Engine).name, e.Version, e.Reason, e.Instead, e.Engine)
}

// Server is what a connection leads to.
type Server struct {
	Engine  Engine
	Version string // what it says of itself: version()
	// Pooled says that something stands in between that gives the server's process another number: a pooler, most likely.
	Pooled bool
	// Refused says why no ledger is to be kept there. Nil: it has passed the ledger's suite.
	Refused *EngineError
}

// admitted is the error of a server that is refused and not accepted by name.
func (s *Server) admitted(accept []Engine) error {
	if s.Refused == nil || slices.Contains(accept, s.Refused.Engine) {
		return nil
	}
	return ledger.MarkUnusable(s.Refused)
}

// refuse says why no ledger is to be kept there.
func (s *Server) refuse(e Engine, reason string) {
	v := verdictOf(e)
	if reason == "" {
		reason = v.reason
	}
	s.Refused = &EngineError{Engine: e, Version: s.Version, Reason: reason, Instead: v.instead}
}

// verdict is what is known of an engine. Its sources stand in docs/engines.md.
type verdict struct {
	engine  Engine
	name    string // for people
	mark    string // in what it says of itself; empty: it does not tell
	reason  string
	instead string
}

const (
	anyPostgres = "use PostgreSQL"
	onePrimary  = "use PostgreSQL, or ledger/dynamodb where one primary is not enough"
	notRun      = "it is PostgreSQL's own code with another storage, nothing that is known stands in the way, and nobody has run the suite on it here"
	forAnalysis = "it is made for analysis, and nobody has run the suite on it here"
)

// verdicts are of all that is told apart, those with a mark in the order in which marks are looked for.
var verdicts = []verdict{
	{PostgreSQL, "PostgreSQL", "", "it is older than version 14", "use PostgreSQL 14 or later"},
	{CockroachDB, "CockroachDB", "CockroachDB",
		"it has no ctid and no rights on single columns, its session locks do nothing, and each node has a clock of its own", onePrimary},
	{YugabyteDB, "YugabyteDB", "-YB-",
		"it has no ctid and no deferrable constraint triggers, and each node has a clock of its own", onePrimary},
	{PGlite, "PGlite", "PGlite", "all its connections are one session: their transactions mix, and the suite found two effects of one message",
		"use PostgreSQL, or ledger/sqlite on one machine"},
	{Materialize, "Materialize", "Materialize", forAnalysis, anyPostgres},
	{RisingWave, "RisingWave", "RisingWave", forAnalysis, anyPostgres},
	{Redshift, "Amazon Redshift", "Redshift", forAnalysis, "use RDS for PostgreSQL"},
	{Greenplum, "Greenplum", "Greenplum", forAnalysis, anyPostgres},
	{Greenplum, "Cloudberry", "Cloudberry", forAnalysis, anyPostgres},
	{EDBAdvanced, "EDB Postgres Advanced Server", "EnterpriseDB Advanced Server",
		"it is PostgreSQL changed to behave as Oracle, and nobody has run the suite on it here", anyPostgres},
	{AuroraDSQL, "Aurora DSQL", "", "it has no triggers, no PL/pgSQL and no locks: who is late learns it at COMMIT (40001)",
		"use RDS for PostgreSQL, or ledger/dynamodb"},
	{Spanner, "Spanner", "", "its PostgreSQL dialect has no triggers, no functions of one's own and no partial indexes", "use Cloud SQL for PostgreSQL"},
	{AuroraPostgreSQL, "Aurora PostgreSQL", "", notRun, "use RDS for PostgreSQL, or run the suite there first (docs/engines.md)"},
	{AlloyDB, "AlloyDB", "", notRun, "use Cloud SQL for PostgreSQL, or run the suite there first (docs/engines.md)"},
	{Neon, "Neon", "", notRun, "use PostgreSQL, or run the suite there first (docs/engines.md)"},
	{Citus, "Citus", "", "it plans each statement, and what the ledger's do on tables that somebody distributes was never run here",
		"use a database without the extension, or run the suite there first (docs/engines.md)"},
	{OtherEngine, "an engine that is not PostgreSQL", "", "it does not call itself PostgreSQL", anyPostgres},
	{OtherStorage, "PostgreSQL with another storage", "", "new tables are not heaps there, and the sweep goes along a heap's pages (ctid)",
		"set default_table_access_method to heap for the ledger's roles"},
	{TransactionPooler, "a pooler in transaction mode", "",
		"a migration holds a session lock and settings of its session, which the pooler gives to others", "give Migrate the server itself"},
	{StatementPooler, "a pooler in statement mode", "", "it refuses transactions of several statements", "use transaction or session mode"},
}

// verdictOf is the first verdict of an engine; there is one of each.
func verdictOf(e Engine) verdict {
	i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.engine == e })
	if i < 0 {
		return verdict{engine: e, name: string(e)}
	}
	return verdicts[i]
}

// facts are what a server says and shows of itself.
type facts struct {
	version string // version()
	crdb    bool   // it named a crdb_version when the connection was made
	shows   Engine // what its catalogs and settings show; empty: nothing
	odd     string // how it failed to answer what PostgreSQL answers; empty: it did not
	method  string // default_table_access_method
	process uint32 // the server's process, as a statement sees it
	key     uint32 // the same, as the connection was told when it was made; 0: it was not
}

// oldest is the first version of PostgreSQL that the suite runs on.
const oldest = 14

// judge says what a server is, and whether a ledger may be kept there.
func judge(f facts) Server {
	s := Server{Engine: f.engine(), Version: f.version, Pooled: f.key != 0 && f.process != 0 && f.key != f.process}
	switch {
	case s.Engine == OtherEngine:
		s.refuse(OtherEngine, f.odd)
	case s.Engine != PostgreSQL:
		s.refuse(s.Engine, "")
	case f.major() < oldest:
		s.refuse(PostgreSQL, "")
	case f.odd != "":
		s.Engine = OtherEngine
		s.refuse(OtherEngine, f.odd)
	case f.method != "heap":
		s.Engine = OtherStorage
		s.refuse(OtherStorage, "")
	}
	return s
}

// engine goes by names first: all of these claim to be some version of PostgreSQL as well.
func (f *facts) engine() Engine {
	if f.crdb {
		return CockroachDB
	}
	for _, v := range verdicts {
		if v.mark != "" && strings.Contains(strings.ToLower(f.version), strings.ToLower(v.mark)) {
			return v.engine
		}
	}
	if f.shows != "" {
		return f.shows
	}
	if !strings.HasPrefix(f.version, "PostgreSQL ") {
		return OtherEngine
	}
	return PostgreSQL
}

var majorVersion = regexp.MustCompile(`^PostgreSQL (\d{1,4})`)

// major is PostgreSQL's version; 0: it does not say.
func (f *facts) major() int {
	m := majorVersion.FindStringSubmatch(f.version)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits alone
	return n
}

// checkAccept refuses names that are none.
func checkAccept(accept []Engine) error {
	for _, e := range accept {
		if verdictOf(e).instead == "" {
			var names []string
			for _, v := range verdicts {
				names = append(names, string(v.engine))
			}
			slices.Sort(names)
			return &ledger.InvalidError{Field: "Config.Accept", Bound: "one of " + strings.Join(slices.Compact(names), ", "),
				Value: strconv.Quote(string(e))}
		}
	}
	return nil
}
