// Package consumertest lets users test their handlers against what brokers and crashes do to them: deliver, redeliver,
// redrive, crash after the effect, another body under a known id. No server is needed; the real engine runs on a real
// ledger (in memory unless another is given), so that a test shows what production would do.
//
//	bench := consumertest.New(t, handler)
//	bench.Crash(order)          // the effect happens, then the process dies before it can settle
//	got := bench.Deliver(order) // the redelivery, on another worker
//
// Only tests import this package.
package consumertest
