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
	conns := func() int {
		return admin.number(t, "SELECT count(*) + sum(pid) FROM pg_stat_activity WHERE usename = '"+name+"'")
	}
	before := conns()
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
	if conns() != before {
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
