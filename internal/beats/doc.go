// Package beats holds what goes with the beats of an owner, the same in all stores: what its worker says and the pauses that it hears of
// ([Slate], [EncodeReport], [AddPause]), and when it may declare peers dead ([Pulse]).
package beats
