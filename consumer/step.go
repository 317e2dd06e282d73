package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	// stepLimit is how long the recording of a step is tried, whatever becomes of the handler's context meanwhile.
	stepLimit = 30 * time.Second
	// stepPause is the first pause between two tries. It doubles up to stepPauses.
	stepPause  = 20 * time.Millisecond
	stepPauses = time.Second
)

// Step makes one outside call of a message, and records its result in the ledger before it returns it. On a later attempt of the
// message the result is given back, and fn is not called. So an attempt that ends early, for whatever reason, repeats no call whose
// result was recorded:
//
//	charge, err := consumer.Step(ctx, "charge", func(ctx context.Context, key string) (Charge, error) {
//		return payments.Charge(ctx, key, order.Amount)
//	})
//
// A process that dies between the call and its recording makes the call once more: pass key, which is ChildKey(ctx, name) and so the
// same then, on to the service as its idempotency key. Only the attempt that has the message records: who has lost it gets an error
// for which ledger.IsLost is true, and whoever took over makes the call by itself.
//
// Steps are known by their names, 1 to ledger.MaxStepName bytes of visible characters: code may be reordered, and charge@v2 is a
// step that nobody has made yet. A name twice in one attempt is an error, and so is more than ledger.MaxSteps steps of a message; both
// before anything is called. Steps of different names may run at once.
//
// The result is kept as encoding/json writes it, at most ledger.MaxStepResult bytes of it, for as long as the message's row. What is
// kept and does not fit T is an error. An operator who reopens the message, or replays it with fresh keys, has its steps forgotten; a
// redrive of a failed message keeps them.
//
// With Options.Cipher, or that of a runner, results are sealed before they are recorded, and MaxStepResult bounds the sealed form; names and
// texts of failures stay readable, as those of archives do. A cipher that does not answer is a ledger that does not.
//
// An error of fn is returned as it is, and not recorded, unless it is [Terminal]: then its text is, and later attempts get a Terminal
// error with that text and make no call. A result that cannot be kept (too long, or refused by encoding/json) is recorded as such a
// failure: the call was made, and no repetition can help.
//
// The recording goes on for up to 30 s when ctx has ended meanwhile, or the ledger does not answer. An attempt that ends in the error
// of a ledger that did not answer in that time counts as an outage, not as the handler's failure.
//
// Step works in the handlers of all workers, of a batch with the context of [For], and in the functions of idempotency.Runner. Inside
// of InTx it is refused (ledger.ErrStepInTx): call it before. Outside of a handler, and with the context of a whole batch, it answers
// ledger.ErrNoAttempt.
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context, key string) (T, error)) (T, error) {
	var none T
	s, known, err := beginStep(ctx, name)
	if err != nil {
		return none, fmt.Errorf("consumer: step %q: %w", name, err)
	}
	if known != nil {
		return recorded[T](ctx, known)
	}
	out, err := fn(ctx, ChildKey(ctx, name))
	if err != nil {
		return none, s.failed(ctx, err)
	}
	result, err := encode(out)
	if err == nil {
		if result, err = sealStep(ctx, result); err != nil {
			return none, fmt.Errorf("consumer: step %q: the call was made, and its result is not recorded: %w", name, err)
		}
	}
	if n := len(result); err == nil && n > ledger.MaxStepResult {
		err = &ledger.InvalidError{Field: "Step.Result", Bound: fmt.Sprintf("0 to %d bytes", ledger.MaxStepResult), Value: fmt.Sprintf("%d bytes", n)}
	}
	if err != nil {
		return none, s.failed(ctx, Terminal(fmt.Errorf("consumer: step %q: the call was made, and its result cannot be kept: %w", name, err)))
	}
	if err := s.record(ctx, ledger.Step{Name: name, Result: result}); err != nil {
		return none, fmt.Errorf("consumer: step %q: the call was made, and its result is not recorded: %w", name, err)
	}
	return out, nil
}

// encode is json.Marshal. A result's own method that panics is a result that is refused: the call was made.
func encode(result any) (text []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = nil, fmt.Errorf("json: encoding %T panicked: %v", result, p)
		}
	}()
	return json.Marshal(result)
}

// recorded is what an earlier attempt has recorded of a step.
func recorded[T any](ctx context.Context, s *ledger.Step) (out T, err error) {
	if s.Failed {
		return out, Terminal(fmt.Errorf("consumer: step %q failed for good on an earlier attempt: %s", s.Name, s.Result))
	}
	var none T
	result, err := openStep(ctx, s.Result)
	if err != nil {
		return none, fmt.Errorf("consumer: step %q: %w", s.Name, err)
	}
	if err := json.Unmarshal(result, &out); err != nil {
		return none, fmt.Errorf("consumer: step %q: its recorded result does not fit %T: %w", s.Name, none, err)
	}
	return out, nil
}

// stepOf is a step that has begun: of which message of which attempt.
type stepOf struct {
	attempt *ledger.Attempt
	at      int
	name    string
}

// beginStep begins a step of the message that ctx's handler was called with.
func beginStep(ctx context.Context, name string) (stepOf, *ledger.Step, error) {
	s := stepOf{name: name}
	if one, ok := ctx.Value(oneKey{}).(*oneOf); ok {
		s.attempt, s.at = one.attempt, one.at
	} else if deliveryFrom(ctx) != nil { // not that of a whole batch
		s.attempt, _ = ledger.AttemptFrom(ctx)
	}
	if s.attempt == nil {
		return s, nil, ledger.ErrNoAttempt
	}
	known, err := s.attempt.BeginStep(ctx, s.at, name)
	if err != nil && ctx.Err() == nil && !refused(err) {
		err = ledger.MarkUnavailable(err)
	}
	return s, known, err
}

// refused says whether a step was refused for its own sake or for where its attempt is, so that the ledger did answer.
func refused(err error) bool {
	if _, invalid := errors.AsType[*ledger.InvalidError](err); invalid || ledger.IsLost(err) || ledger.Unusable(err) {
		return true
	}
	return errors.Is(err, ledger.ErrSettled) || errors.Is(err, ledger.ErrStepInTx) || errors.Is(err, ledger.ErrNoSteps)
}

// failed records an error of the call if it is Terminal, and returns it. A call that was cut short by the end of its context has not
// failed for good, whatever it is wrapped in.
func (s *stepOf) failed(ctx context.Context, err error) error {
	if !IsTerminal(err) || cutShort(err) {
		return err
	}
	var body []byte
	if m := MessageFrom(ctx); m != nil {
		body = m.Body
	}
	if bad := s.record(ctx, ledger.Step{Name: s.name, Failed: true, Result: []byte(DeadLetterError(err.Error(), body))}); bad != nil {
		return fmt.Errorf("%w; consumer: step %q: that failure is not recorded: %w", err, s.name, bad)
	}
	return err
}

func cutShort(err error) bool {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded, ledger.ErrLost, ErrRevoked, ErrShutdown} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// record records a step, and repeats that while it is not answered.
func (s *stepOf) record(ctx context.Context, step ledger.Step) error {
	return persist(ctx, func(ctx context.Context) error { return s.attempt.RecordStep(ctx, s.at, step) })
}

// persist tries what a step needs until it is answered, whatever becomes of ctx meanwhile.
func persist(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	for pause := stepPause; ; pause = min(2*pause, stepPauses) {
		try, end := context.WithTimeout(ctx, ledger.CallTimeout)
		err := call(try)
		end()
		if err == nil || refused(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ledger.MarkUnavailable(err)
		}
	}
}

type stepCipherKey struct{}

// WithStepCipher returns a context for handlers, in which c seals what is recorded of steps, and what is published; nil: nothing does. It is for code that runs
// handlers: the engine, and tests.
func WithStepCipher(ctx context.Context, c ledger.Cipher) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, stepCipherKey{}, c)
}

// sealedStep begins a sealed result. No JSON begins so.
const sealedStep = 0

// sealStep is a step's result as it is recorded.
func sealStep(ctx context.Context, result []byte) ([]byte, error) {
	c, ok := ctx.Value(stepCipherKey{}).(ledger.Cipher)
	if !ok {
		return result, nil
	}
	var sealed []byte
	err := persist(ctx, func(ctx context.Context) (err error) {
		sealed, err = c.Seal(ctx, result)
		return err
	})
	return append([]byte{sealedStep}, sealed...), err
}

// openStep is a step's result as it was before it was sealed. One that was recorded without a cipher stays as it is.
func openStep(ctx context.Context, recorded []byte) ([]byte, error) {
	if len(recorded) == 0 || recorded[0] != sealedStep {
		return recorded, nil
	}
	c, ok := ctx.Value(stepCipherKey{}).(ledger.Cipher)
	if !ok {
		return nil, errors.New("its recorded result is sealed: set Options.Cipher")
	}
	ctx, cancel := context.WithTimeout(ctx, ledger.CallTimeout)
	defer cancel()
	plain, err := c.Open(ctx, recorded[1:])
	if err != nil {
		return nil, ledger.MarkUnavailable(fmt.Errorf("opening its recorded result: %w", err))
	}
	return plain, nil
}
