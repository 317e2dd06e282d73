package dynamodbtest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what happens to a request.
type Kind int

const (
	// Passed is a request to which nothing happens.
	Passed Kind = iota
	// Refused is answered with an error of the service, which has not carried it out.
	Refused
	// RequestLost is cut off before the server sees it.
	RequestLost
	// AnswerLost is carried out, and cut off before the client sees the answer.
	AnswerLost
	// Late is held back and delivered then, even if its client has gone.
	Late
	// Twice is carried out and answered, and later carried out again; the second answer is nobody's.
	Twice
)

// String is the kind's name.
func (k Kind) String() string {
	return [...]string{"Passed", "Refused", "RequestLost", "AnswerLost", "Late", "Twice"}[k]
}

// Call is a request that waits for its fault.
type Call struct {
	Operation string // "UpdateItem"
	N         int    // counts the operation's requests, from 0
	Body      []byte // the JSON that the client sent; it is not to be changed
	Parts     int    // statements of a BatchExecuteStatement, or keys of a BatchGetItem
}

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	Kind Kind
	// Code is the error of [Refused] and of Parts: a Code constant or any other of the service. Empty is [CodeThrottled].
	Code string
	// Wait is how long [Late] holds a request back, and when [Twice] delivers it again.
	Wait time.Duration
	// Parts of a batch are refused by themselves, in an answer that has the others as well: statements of a BatchExecuteStatement with an
	// error each, keys of a BatchGetItem as unprocessed. Counted from 0; keys by table, then as they were asked for.
	Parts []int
}

// Errors of the service that a client should wait on and try again.
const (
	// CodeProvisioned is for more than a table's or a key's capacity.
	CodeProvisioned = "ProvisionedThroughputExceededException"
	// CodeThrottled is for more than an on-demand table has grown to, and for requests about tables.
	CodeThrottled = "ThrottlingException"
	// CodeConflict is for an item in a transaction that is under way.
	CodeConflict = "TransactionConflictException"
)

// Shares say how many requests of a hundred meet which fault, as fractions of 1; together at most 1. They hit requests about items, not
// those about tables.
type Shares struct {
	Throttled   float64 // Refused, with CodeProvisioned or CodeThrottled
	Conflicts   float64 // of single and transactional writes: Refused with CodeConflict
	RequestLost float64
	AnswerLost  float64
	Late        float64
	Twice       float64

	// Parts is the share of a batch's parts that are refused by themselves, in requests that are carried out.
	Parts float64
	// LateBy is how long Late requests are held back at most, and half of it at least. TwiceBy is the same for the second time of Twice.
	LateBy, TwiceBy time.Duration
}

func (s *Shares) check() error {
	sum := 0.0
	for name, share := range map[string]float64{
		"Throttled": s.Throttled, "Conflicts": s.Conflicts, "RequestLost": s.RequestLost, "AnswerLost": s.AnswerLost, "Late": s.Late, "Twice": s.Twice,
	} {
		if share < 0 {
			return fmt.Errorf("dynamodbtest: Shares.%s must be at least 0, got %g", name, share)
		}
		sum += share
	}
	if sum > 1 {
		return fmt.Errorf("dynamodbtest: all Shares together must be at most 1, got %g", sum)
	}
	if s.Parts < 0 || s.Parts > 1 {
		return fmt.Errorf("dynamodbtest: Shares.Parts must be from 0 to 1, got %g", s.Parts)
	}
	return nil
}

var (
	writes = []string{"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
	items  = append([]string{"GetItem", "BatchGetItem", "BatchWriteItem", "TransactGetItems", "Query", "Scan", "ExecuteStatement",
		"BatchExecuteStatement", "ExecuteTransaction"}, writes...)
)

// choose counts a request and says what becomes of it.
func (t *Transport) choose(c *call) Fault {
	of := Call{Operation: c.operation, Body: c.body, Parts: countParts(c)}
	t.mu.Lock()
	of.N = t.usage.Calls[c.operation]
	t.usage.Calls[c.operation]++
	shares := t.shares
	t.mu.Unlock()
	var f Fault
	if t.options.Choose != nil {
		f = t.options.Choose(of)
	} else {
		f = shares.draw(t.options.Seed, of)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usage.Faults[f.Kind]++
	return f
}

// draw is the same for the same seed, operation and number.
func (s *Shares) draw(seed uint64, c Call) (f Fault) {
	if !slices.Contains(items, c.Operation) {
		return f
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", c.Operation, c.N)
	chance := rand.New(rand.NewPCG(seed, h.Sum64()))
	at := chance.Float64()
	within := func(share float64) bool { // the shares lie side by side
		hit := at >= 0 && at < share
		at -= share
		return hit
	}
	codes := []string{CodeProvisioned, CodeThrottled}
	if s.Conflicts > 0 && c.Operation == "BatchExecuteStatement" {
		codes = append(codes, CodeConflict)
	}
	f.Code = codes[chance.IntN(len(codes))]
	for part := range c.Parts {
		if chance.Float64() < s.Parts {
			f.Parts = append(f.Parts, part)
		}
	}
	upTo := func(most time.Duration) time.Duration {
		return most/2 + time.Duration(chance.Float64()*float64(most)/2)
	}
	switch {
	case within(s.Throttled):
		f.Kind, f.Code = Refused, codes[chance.IntN(2)]
	case within(s.Conflicts):
		if slices.Contains(writes, c.Operation) {
			f.Kind, f.Code = Refused, CodeConflict
		}
	case within(s.RequestLost):
		f.Kind = RequestLost
	case within(s.AnswerLost):
		f.Kind = AnswerLost
	case within(s.Late):
		f.Kind, f.Wait = Late, upTo(s.LateBy)
	case within(s.Twice):
		f.Kind, f.Wait = Twice, upTo(s.TwiceBy)
	}
	return f
}

// namespaces are in front of an error's name in the protocol.
var namespaces = map[string]string{CodeThrottled: "com.amazon.coral.availability#"}

var messages = map[string]string{
	CodeProvisioned: "The level of configured provisioned throughput for the table was exceeded. " +
		"Consider increasing your provisioning level with the UpdateTable API.",
	CodeThrottled: "Throughput exceeds the current capacity of your table or index. Please try again shortly.",
	CodeConflict:  "Transaction is ongoing for the item",
}

// short are the errors' names within a batch or a transaction.
var short = map[string]string{CodeProvisioned: "ProvisionedThroughputExceeded", CodeThrottled: "ThrottlingError", CodeConflict: "TransactionConflict"}

// refusal is the error of a request that is not carried out. A transaction that meets an item's limit or another transaction says for
// each of its actions what it met: the first one did.
func refusal(c *call, code string) *answer {
	if code == "" {
		code = CodeThrottled
	}
	if c.operation == "TransactWriteItems" && code != CodeThrottled && short[code] != "" {
		return canceled(c, code)
	}
	namespace := namespaces[code]
	if namespace == "" {
		namespace = "com.amazonaws.dynamodb.v20120810#"
	}
	return errorAnswer(map[string]any{"__type": namespace + code, "message": messageOf(code)})
}

func messageOf(code string) string {
	if m := messages[code]; m != "" {
		return m
	}
	return "Injected by the test."
}

func canceled(c *call, code string) *answer {
	var f fields
	_ = json.Unmarshal(c.body, &f) // a request without actions has no reasons
	reasons, names := make([]map[string]any, len(f.TransactItems)), make([]string, len(f.TransactItems))
	for i := range reasons {
		reasons[i], names[i] = map[string]any{"Code": "None"}, "None"
	}
	if len(reasons) > 0 {
		names[0] = short[code]
		reasons[0] = map[string]any{"Code": names[0], "Message": messageOf(code)}
	}
	return errorAnswer(map[string]any{
		"__type":              "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
		"Message":             fmt.Sprintf("Transaction cancelled, please refer cancellation reasons for specific reasons %v", names),
		"CancellationReasons": reasons,
	})
}
