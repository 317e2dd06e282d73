package ledgertest

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// settleCases are the settle rules: what each kind writes, the guard, and what no matching row means.
var settleCases = []testCase{
	{"SettleSucceed", settleSucceed},
	{"SettleFail", settleFail},
	{"SettleFail_WholeDelivery", settleWhole},
	{"SettleFail_FirstArchiveStays", settleFirstArchive},
	{"SettleRelease_Uncounted", settleRelease},
	{"SettleRelease_Counted", settleCounted},
	{"SettleRelease_ErrorsBounded", settleErrorsBounded},
	{"SettleGuard_Token", settleOldToken},
	{"SettleGuard_Owner", settleOtherOwner},
	{"SettleGuard_Pending", settleNotPending},
	{"SettleGuard_NoRow", settleNoRow},
	{"SettleGuard_SettledByAnother", settleByAnother},
	{"SettleByDeclaredOwner_UntilTakenOver", func(e *env) { settleSealed(e, e.declare) }},
	{"SettleByLeftOwner_UntilTakenOver", func(e *env) { settleSealed(e, e.leave) }},
	{"SettleRepeated_Succeed", settleTwiceSucceed},
	{"SettleRepeated_Fail", settleTwiceFail},
	{"SettleRepeated_Release", settleTwiceRelease},
	{"SettleRepeated_InOneCall", settleTwiceInOneCall},
	{"SettleMismatch_FilesOnly", settleMismatch},
	{"SettleInvalid_Alone", settleInvalid},
	{"SettleBatch_Mixed", settleBatch},
}

func settleSucceed(e *env) {
	o, m := e.owner(), e.entry("a")
	s := succeed(e.want(o, m, ledger.Run))
	s.Result = []byte("ok")
	before := e.record(m)
	e.holds(o, s)
	r := e.record(m)
	if r.State != ledger.Succeeded || string(r.Result) != "ok" || r.Owner != "" || r.Token != 1 || r.Attempts != 0 ||
		!r.Expiry.Equal(before.Expiry) || !r.At.Equal(before.At) || len(r.Archived) != 0 {
		e.Fatalf("row: %s", summary(r))
	}
}

func settleFail(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	e.holds(o, fail(c, m))
	r := e.record(m)
	if r.State != ledger.Failed || r.Owner != "" || r.Token != 1 || r.Result != nil || !r.Expiry.Equal(before.Expiry) {
		e.Fatalf("row: %s", summary(r))
	}
	if len(r.Archived) != 1 {
		e.Fatalf("%d archived deliveries, want 1", len(r.Archived))
	}
	a := r.Archived[0]
	if a.Token != 1 || a.At.Before(r.At) {
		e.Fatalf("archived under token %d at %s", a.Token, a.At)
	}
	if got := a.Expiry.Sub(a.At); got < keep-time.Second || got > keep+time.Second {
		e.Fatalf("the archive is kept for %s, want %s", got, keep)
	}
}

func settleWhole(e *env) {
	bodies := [][]byte{nil, {}, []byte("\x00\xff\xfe not UTF-8"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}
	for i, body := range bodies {
		o, m := e.owner(), e.entry(number(i))
		s := fail(e.want(o, m, ledger.Run), m)
		s.Dead.Body, s.Dead.Kind, s.Dead.Sent, s.Dead.Attempts = body, ledger.KindExhausted, i%2 == 0, 10
		s.Dead.Source, s.Dead.Group = "arn:aws:sqs:eu-central-1:1:orders.fifo", "customer \"7\" ü"
		s.Dead.Headers = []ledger.Header{
			{Name: "b", Value: []byte("2"), Type: "String"}, {Name: "a", Value: nil}, {Name: "a", Value: []byte{}},
			{Name: "A b:c\x01", Value: []byte("\x00\xff")}, {Name: "b", Value: []byte("1")}, {},
		}
		s.Dead.Errors = []ledger.AttemptError{
			{Attempt: 1, Kind: ledger.KindPanic, Error: "boom \"quoted\"", At: time.Unix(1700000000, 1000).UTC()},
			{Attempt: 2, Kind: ledger.KindTimeout, Error: "slow"},
		}
		want := showArchive(s.Dead)
		e.holds(o, s)
		r := e.record(m)
		if got := showArchive(&r.Archived[0].Archive); got != want {
			e.Fatalf("archive of body %d\ngot  %.2000s\nwant %.2000s", i, got, want)
		}
	}
}

func settleFirstArchive(e *env) {
	o, m := e.owner(), e.entry("a")
	e.holds(o, fail(e.want(o, m, ledger.Run), m))
	before := e.record(m)
	again := m
	again.Delivery = []byte("a#2")
	s := fail(e.want(o, again, ledger.Run), m) // the delivery that is archived already
	s.Dead.Body = []byte("another body")
	e.holds(o, s)
	r := e.record(m)
	if r.State != ledger.Failed || r.Token != 2 || len(r.Archived) != 1 ||
		showArchive(&r.Archived[0].Archive) != showArchive(&before.Archived[0].Archive) {
		e.Fatalf("row: %s", summary(r))
	}
}

func settleRelease(e *env) {
	o, m := e.owner(), e.entry("a")
	s := release(e.want(o, m, ledger.Run))
	s.After = 10 * time.Minute
	s.Failure = ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "not counted, not kept"}
	before := e.record(m)
	e.holds(o, s)
	r := e.record(m)
	if r.State != ledger.Pending || r.Owner != "" || r.Attempts != 0 || r.Token != 1 || len(r.Errors) != 0 ||
		!r.Expiry.Equal(before.Expiry) {
		e.Fatalf("row: %s", summary(r))
	}
	if due := r.Due.Sub(r.At); due < 10*time.Minute || due > 10*time.Minute+patience {
		e.Fatalf("due %s after the claim, want 10m", due)
	}
}

func settleCounted(e *env) {
	o, m := e.owner(), e.entry("a")
	for i := range 3 {
		c := e.want(o, m, ledger.Run)
		if c.Attempt != i+1 || len(c.Errors) != i {
			e.Fatalf("attempt %d with %d errors, want %d", c.Attempt, len(c.Errors), i+1)
		}
		e.holds(o, failedAttempt(c, number(i)))
	}
	r := e.record(m)
	if r.Attempts != 3 || len(r.Errors) != 3 || r.Owner != "" || r.State != ledger.Pending {
		e.Fatalf("row: %s", summary(r))
	}
	for i, got := range r.Errors {
		if want := failedAttempt(ledger.Claim{Attempt: i + 1}, number(i)).Failure; showError(got) != showError(want) {
			e.Fatalf("error %d is %s, want %s", i, showError(got), showError(want))
		}
	}
}

func settleErrorsBounded(e *env) {
	o, m, limit := e.owner(), e.entry("a"), e.Ledger.Limits().Errors
	n := limit/1000 + 4
	for i := range n {
		e.holds(o, failedAttempt(e.want(o, m, ledger.Run), number(i)+strings.Repeat(" \x00\xff", 700)))
	}
	r := e.record(m)
	if r.Attempts != n || len(r.Errors) < 2 || len(r.Errors) >= n || len(storage.EncodeErrors(r.Errors)) > limit {
		e.Fatalf("%d attempts, %d errors in %d bytes, limit %d", r.Attempts, len(r.Errors), len(storage.EncodeErrors(r.Errors)), limit)
	}
	first, last := r.Errors[0], r.Errors[len(r.Errors)-1]
	if first.Attempt != 1 || last.Attempt != n || !strings.HasPrefix(last.Error, number(n-1)) {
		e.Fatalf("the first entry is of attempt %d, the last one of %d of %d", first.Attempt, last.Attempt, n)
	}
}

func settleOldToken(e *env) {
	o, m := e.owner(), e.entry("a")
	old := e.want(o, m, ledger.Run)
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	for _, s := range []ledger.Settlement{succeed(old), release(old), failedAttempt(old, "late"), fail(old, m)} {
		e.lost(o, s)
	}
	e.same(before)
	e.holds(o, succeed(c))
}

func settleOtherOwner(e *env) {
	a, b, m := e.owner(), e.owner(), e.entry("a")
	c := e.want(a, m, ledger.Run)
	before := e.record(m)
	for _, s := range []ledger.Settlement{succeed(c), release(c), fail(c, m)} {
		e.lost(b, s)
	}
	e.same(before)
	e.holds(a, succeed(c))
}

func settleNotPending(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, release(c))
	if e.Ranged {
		e.lost(o, succeed(c))
		e.lost(o, fail(c, m))
		e.wantUnknown(m)
		c = e.inRow(o, m)
		e.holds(o, release(c))
	}
	before := e.record(m)
	e.lost(o, succeed(c)) // nobody's now: a success after a release would skip the guard
	e.lost(o, fail(c, m))
	e.same(before)
	c = e.want(o, m, ledger.Run)
	e.holds(o, fail(c, m))
	before = e.record(m)
	e.lost(o, succeed(c))
	e.lost(o, release(c))
	other := m
	other.Delivery = []byte("a#2")
	e.lost(o, fail(c, other))
	e.same(before)
}

func settleNoRow(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	if err := e.Drop(e.ctx, m.Key); err != nil {
		e.Fatal(err)
	}
	for _, s := range []ledger.Settlement{succeed(c), release(c), fail(c, m)} {
		e.lost(o, s)
	}
	if c := e.want(o, m, ledger.Run); c.Token != 1 {
		e.Fatalf("run: %+v", c)
	}
	if r := e.record(m); len(r.Archived) != 0 {
		e.Fatalf("a settlement that was lost left an archive row: %s", summary(r))
	}
}

func settleByAnother(e *env) {
	a, b, m := e.owner(), e.owner(), e.entry("a")
	old := e.want(a, m, ledger.Run)
	e.declare(a)
	c := e.want(b, m, ledger.Run)
	e.lost(a, succeed(old))
	e.holds(b, succeed(c))
	before := e.record(m)
	for _, s := range []ledger.Settlement{succeed(old), release(old), fail(old, m)} {
		e.lost(a, s)
	}
	e.same(before)
}

func settleSealed(e *env, end func(ledger.Owner)) {
	o, m, n := e.owner(), e.entry("a"), e.entry("b")
	c, d := e.want(o, m, ledger.Run), e.want(o, n, ledger.Run)
	end(o)
	if e.Ranged { // only a live owner writes in its ranges: the message runs again, by whoever takes it over
		e.lost(o, succeed(c))
		if again := e.want(e.owner(), m, ledger.Run); !again.TookOver || again.Token <= c.Token {
			e.Fatalf("run: %+v", again)
		}
		return
	}
	e.holds(o, succeed(c)) // still ours: the guard looks at the row, not at the owner
	e.want(e.owner(), m, ledger.Done)
	e.want(e.owner(), n, ledger.Run)
	e.lost(o, succeed(d))
}

func settleTwiceSucceed(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	s := succeed(c)
	s.Result = []byte("first")
	e.holds(o, s)
	before := e.record(m)
	s.Result = []byte("second")
	e.holds(o, s)
	e.holds(o, release(c)) // the row is succeeded under this token: fine, and nothing changes
	e.holds(o, fail(c, m))
	e.same(before)
}

func settleTwiceFail(e *env) {
	o, m := e.owner(), e.entry("a")
	s := fail(e.want(o, m, ledger.Run), m)
	e.holds(o, s)
	before := e.record(m)
	e.holds(o, s)
	e.same(before)
}

func settleTwiceRelease(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, failedAttempt(c, "once"))
	before := e.record(m)
	e.holds(o, failedAttempt(c, "again"))
	e.same(before)
	e.want(e.owner(), m, ledger.Run)
	e.lost(o, failedAttempt(c, "late"))
}

func settleTwiceInOneCall(e *env) {
	o, m, n := e.owner(), e.entry("a"), e.entry("b")
	c, d := e.want(o, m, ledger.Run), e.want(o, n, ledger.Run)
	settlements := []ledger.Settlement{succeed(c), failedAttempt(d, "x"), succeed(c), failedAttempt(d, "x")}
	for i, err := range e.settleAll(o, settlements) {
		if err != nil {
			e.Fatalf("settlement %d: %v", i, err)
		}
	}
	if r := e.record(n); r.Attempts != 1 || len(r.Errors) != 1 {
		e.Fatalf("row: %s", summary(r))
	}
}

func settleMismatch(e *env) {
	o, m := e.owner(), e.entry("a")
	e.inRow(o, m)
	other := m
	other.Fingerprint, other.Delivery = ledger.BodyFingerprint([]byte("other")), []byte("other#1")
	c := e.want(o, other, ledger.Mismatch)
	before := e.record(m)
	e.lost(o, succeed(c))
	e.lost(o, release(c))
	e.same(before)
	s := fail(c, other)
	s.Dead.Kind = ledger.KindMismatch
	e.holds(o, s)
	r := e.record(m)
	if len(r.Archived) != 1 || r.Archived[0].Token != 0 || r.Archived[0].Fingerprint != other.Fingerprint ||
		string(r.Archived[0].Delivery) != "other#1" {
		e.Fatalf("row: %s", summary(r))
	}
	filed := r
	r.Archived = nil
	if summary(r) != summary(before) {
		e.Fatalf("a mismatch's Fail touched the row: %s", summary(filed))
	}
	e.holds(o, s)
	e.same(filed)
	e.want(o, other, ledger.Done)
}

func settleInvalid(e *env) {
	o := e.owner()
	claims := e.claimAll(o, e.entries(8))
	huge, noBody := fail(claims[0], e.entry(number(0))), fail(claims[1], e.entry(number(1)))
	huge.Dead.Body = make([]byte, e.Ledger.Limits().Archive+1)
	noBody.Dead = nil
	late, soon := release(claims[2]), release(claims[3])
	late.After, soon.After = math.MaxInt64, -1
	noKind := ledger.Settlement{Ticket: claims[4].Ticket}
	noID, noKeep := fail(claims[5], e.entry(number(5))), fail(claims[6], e.entry(number(6)))
	noID.Dead.Delivery, noKeep.Dead.Keep = nil, 0
	settlements := []ledger.Settlement{huge, succeed(ledger.Claim{}), noBody, late, soon, noKind, noID, noKeep, succeed(claims[7])}
	fields := []string{"Archive", "Settlement.Ticket", "Settlement.Dead", "Settlement.After", "Settlement.After",
		"Settlement.Kind", "Archive.Delivery", "Archive.Keep"}
	errs := e.settleAll(o, settlements)
	for i, field := range fields {
		e.invalid(errs[i], field)
	}
	if errs[8] != nil {
		e.Fatalf("the good one of the batch: %v", errs[8])
	}
	for i := range 7 {
		if r := e.record(e.entry(number(i))); r.State != ledger.Pending || r.Owner != o.ID() {
			e.Fatalf("row %d: %s", i, summary(r))
		}
		e.holds(o, succeed(claims[i]))
	}
}

func settleBatch(e *env) {
	o, b := e.owner(), e.owner()
	all := e.entries(900)
	claims := e.claimAll(o, all)
	settlements := make([]ledger.Settlement, len(all))
	for i, c := range claims {
		switch i % 4 {
		case 0:
			settlements[i] = succeed(c)
		case 1:
			settlements[i] = fail(c, all[i])
		case 2:
			settlements[i] = failedAttempt(c, "again")
		case 3:
			settlements[i] = ledger.Settlement{Ticket: ledger.NewTicket(c.Ticket.Sum(), 99), Kind: ledger.Succeed}
		}
	}
	for i, err := range e.settleAll(o, settlements) {
		if lost := i%4 == 3; lost != ledger.IsLost(err) || !lost && err != nil {
			e.Fatalf("settlement %d: %v", i, err)
		}
	}
	answers := []ledger.Answer{ledger.Done, ledger.Done, ledger.Run, ledger.Busy}
	for i, c := range e.claimAll(b, all) {
		if c.Answer != answers[i%4] {
			e.Fatalf("claim %d: %v, want %v", i, c.Answer, answers[i%4])
		}
	}
}
