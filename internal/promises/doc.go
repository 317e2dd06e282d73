// Package promises has the words of those promises (docs/design.md §1) that two checkers look at: the simulator of internal/sim, in
// the code that runs, and the model of internal/model, in all interleavings of small worlds. Both say which one is broken, a colon,
// and how. Each checker has promises of its own beside these.
package promises

// What must be true.
const (
	NothingLost   = "nothing is lost"
	AckedFinished = "what is acknowledged is finished"
	OffsetGrows   = "the committed offset only grows"
	OneOwner      = "two live owners never run a message at once"
	TokensGrow    = "fencing tokens only grow"
	EffectsOnce   = "the effects of a transaction and its success are one, once"
	FinishedStays = "what is finished is not run again"
	ParkedStays   = "what was cut short is parked"
	NotToBeRun    = "what is not to be run never begins"
	AttemptsEnd   = "attempts are counted honestly, and end"
	CrashesEnd    = "crashes are counted honestly, and end"
	InnocentStays = "an innocent message is never given up"
	ComesToItsEnd = "every world comes to its end"
)
