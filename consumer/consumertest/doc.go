// Package consumertest lets users test their handlers against what brokers and crashes do to them: deliver, redeliver,
// redrive, crash after the effect, another body under a known id. No server is needed; the real engine runs on a real
// ledger (in memory unless another is given), so that a test shows what production would do.
//
//	service := payments{}
//	handler := consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
//		service.charge(consumer.ChildKey(ctx, "payment:charge"), 100)
//		return nil
//	})
//	bench := consumertest.New(t, handler)
//	m := consumer.Message{ID: "order-1", Body: []byte(`{"amount":100}`)}
//	bench.Crash(m)          // charged, then the process died
//	got := bench.Deliver(m) // the redelivery charges again, under the same key
//
// Only tests import this package.
package consumertest
