// Package adaptive decides how many handlers may run at once, from how long they take and how often they fail. It is pure: no lock,
// no clock, no chance and no I/O. Package flow tells it of each call, and asks it before each.
//
// # Which algorithm
//
// It is the gradient of Netflix's concurrency-limits (GradientLimit, 2018): as long as calls take less than a tolerance times what they
// take with few handlers, the limit grows by its square root; else it shrinks to tolerance × base / latency of itself, by half at most.
// What differs, and why:
//
//   - The base is neither the least latency ever seen (TCP Vegas, Brakmo and Peterson, 1995; VegasLimit), which one lucky call spoils for
//     ever, nor a long average (Gradient2Limit): behind a backlog that never ends the average becomes what the queue makes of it, and the
//     limit drifts up without end. It is measured: now and then the limit dips to half of itself for one window, as BBR does to learn the
//     round trip (ProbeRTT, Cardwell et al., 2016). What twice the handlers bring more is the gradient of the throughput (Little's law).
//     With the tolerance of 1.5, twice the handlers are kept as long as they bring a third more.
//   - The time of calls is their geometric mean: the few that take a hundred times as long as most say little of the load.
//   - Failures count as well: what a call costs is the time of one that goes well, divided by the fourth power of the part that does, of the
//     part that does with few handlers. So a tenth of failures is as bad as half of the time more, and failures that fewer handlers have as
//     well say nothing. Two standard deviations more may be chance.
//   - If more than half of the calls fail, the window ends at once: the limit goes back to where most went well, or is halved where they
//     just did, and does not grow for 1 s to 8 s. Where it is at its least, calls pause between tries, for 100 ms to 5 s.
//     After an hour of that failures are calls as others: the limit is what it would be without them, and calls do not pause.
//   - Once the limit has shrunk it grows by one for ten windows, before it grows by its root again (additive increase, multiplicative
//     decrease; Chiu and Jain, 1989). If failures have shrunk it, it stays for ten windows before that. So what was just too much is
//     neither overshot nor tried at once.
//   - A window whose handlers were not all in use says nothing of more of them (RFC 7661): the limit does not grow.
//
// # What a call is
//
// One call of the handler, also of a batch. Its latency is the handler's own time: what a message waits for before, a limiter, a rate, the
// head of its sequence, is not part of it. Calls that were cancelled, and messages that were put off, are told as no call.
package adaptive
