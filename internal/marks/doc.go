// Package marks puts marks on archived deliveries: that the body was too large and is in the log alone ([Excerpt], [LeftOutBatch]), and that
// the message's key was empty ([EmptyKey]). A mark is a header of a type that no broker gives, so no message can pretend to it;
// [ledger.Archive] reads them. It is pure.
package marks
