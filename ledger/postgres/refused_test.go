package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestRefusedIsKnown: what the database refuses for want of a privilege has changed nothing, and says so: a caller that took it
// for unknown would ask again for ever. Only where a part was written before is the rest unknown. The connection is kept.
func TestRefusedIsKnown(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	name := role.pool.Config().ConnConfig.User
	o, peer := ledger.Ungroup(join(t, role, time.Minute)), join(t, admin, time.Minute)
	refused := func(what string, err error) {
		t.Helper()
		if !ledger.Unusable(err) || ledger.Unknown(err) {
			t.Errorf("%s: %v, want it refused, and known to be", what, err)
		}
	}
	settle := func(claims ...ledger.Claim) error { _, err := o.Settle(t.Context(), successes(claims)); return err }
	claimOne(t, peer, entry("theirs"), ledger.Run)
	one, two, done := claimOne(t, o, entry("one"), ledger.Run), claimOne(t, o, entry("two"), ledger.Run), claimOne(t, o, entry("done"), ledger.Run)
	if err := settle(done); err != nil {
		t.Fatal(err)
	}
	before := admin.conns(t, name)
	admin.exec(t, "REVOKE UPDATE ON ackledger.message FROM "+name)
	_, err := o.Claim(t.Context(), []ledger.Entry{entry("theirs")})
	refused("a claim", err)
	refused("a settlement", settle(one))
	admin.exec(t, "GRANT UPDATE ON ackledger.message TO "+name)
	admin.exec(t, "REVOKE SELECT ON ackledger.archive FROM "+name)
	admin.exec(t, "GRANT SELECT (key) ON ackledger.archive TO "+name)
	refused("why nothing was settled", settle(done))
	if err := settle(done, two); !ledger.Unknown(err) {
		t.Errorf("one of two is settled, and what became of the other cannot be read: %v, want it unknown", err)
	}
	if admin.conns(t, name) != before {
		t.Error("a connection was given up for an error of one statement")
	}
	admin.exec(t, "GRANT SELECT ON ackledger.archive TO "+name)
	if err := settle(one, two); err != nil {
		t.Error(err)
	}
}

// TestClaimRefusedAtItsCommit: what a claim has answered counts only once it is committed. A message whose lock was waited for in
// vain at that last moment is Busy, whatever was read before.
func TestClaimRefusedAtItsCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, `CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE 'a lock' USING ERRCODE = '55P03'; END $$`)
	b.exec(t, `CREATE CONSTRAINT TRIGGER late AFTER INSERT ON ackledger.message DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.id = 'b') EXECUTE FUNCTION late()`)
	o := join(t, b, time.Minute)
	all := []ledger.Entry{entry("a"), entry("b")}
	for i := range all {
		all[i].Solo = true // goes to the claim table at once
	}
	claims, err := o.Claim(t.Context(), all)
	if err != nil || claims[0].Answer != ledger.Run || claims[1].Answer != ledger.Busy {
		t.Errorf("%+v, %v", claims, err)
	}
	if _, err := b.Get(t.Context(), all[1].Key); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
}

// conns stands for the connections that a role has: it is the same while they are.
func (b *bench) conns(t *testing.T, role string) int {
	t.Helper()
	return b.number(t, "SELECT count(*) + sum(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
}

// TestConnectionsAreKept: beats that declare a peer dead, and a claim in a log by an owner that is dead itself, leave their
// connections as they were: a new one for each would be most of what they cost.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	name := role.pool.Config().ConnConfig.User
	const lease = 50 * time.Millisecond
	o, quiet := join(t, role, lease), join(t, role, lease)
	claimsOf(t, o, records("s", 0, 0, 2), ledger.Run)
	before := admin.conns(t, name)
	poll(t, "the other is declared dead", func() bool {
		if _, err := o.Beat(t.Context()); ledger.IsLost(err) { // a machine that stalls
			o = join(t, role, lease)
		} else if err != nil {
			t.Fatal(err)
		}
		return admin.number(t, "SELECT count(*) FROM ackledger.owner WHERE fate = 3") > 0
	})
	declareDead(t, admin, quiet)
	if _, err := quiet.Claim(t.Context(), records("s", 1, 0, 2)); !ledger.IsLost(err) {
		t.Errorf("claim: %v", err)
	}
	if _, err := role.Get(t.Context(), entry("a").Key); !errors.Is(err, ledger.ErrNotFound) { // takes a connection
		t.Error(err)
	}
	if admin.conns(t, name) != before {
		t.Error("a connection was given up")
	}
}
