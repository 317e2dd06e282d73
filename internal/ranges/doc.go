// Package ranges holds messages of a log in ranges of offsets instead of one row each, with the same answers.
//
// Kafka's offsets are dense, and mostly all that becomes of a record is its success. So the ledger keeps, for each log
// (scope, cluster, topic UUID, partition) and leader epoch:
//
//   - segments: offsets that are terminal, side by side, normally one a log;
//   - ranges: what an owner has claimed in one batch, with a token and the set of what has finished in it;
//   - rows for exceptions: a message that failed, waits for a retry, has a result, or was in a range whose owner died.
//     A row wins over whatever covers its offset, and goes some minutes after it has succeeded.
//
// [Owner] stands in front of a store's own owner, and takes care of entries with [ledger.Entry.Ranged]. What it reads and
// writes goes through [Store]: one transaction that locks a log, shows the [Facts] and writes the [Change] that a plan
// makes of them. The plans, [Look] for claims and [Save] for settlements, are pure and the same for all stores. What they
// leave to rows goes on under the claim table of [ledger.Decide] by the store's own statements, so that retries, crashes,
// suspects, Park and replays need no second set of rules:
//
//   - A range whose owner left or died is dissolved by whoever asks for one of its offsets: what is finished becomes
//     segments, the rest rows that still name that owner.
//   - A message leaves its range for a row in the very transaction that marks it as done there, and is settled as a row.
//   - A message that is given back unharmed (a drain, a rebalance) is as if never claimed. Its next claim has a higher
//     token, since tokens of a log's ranges only grow.
//   - Workers that want a row for each message bind a stretch of the log to rows, ahead of the offsets that they ask for.
//     What is bound stays so; everything else there is as before. So both kinds may share a group.
//
// A log's version grows with whatever puts something at new offsets. An owner that knows the version may claim above all
// that is there without looking ([Store.Open]).
package ranges
