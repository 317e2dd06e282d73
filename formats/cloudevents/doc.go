// Package cloudevents reads CloudEvents (github.com/cloudevents/spec, versions 1.0 and 0.3) with the official SDK: [Handler] hands
// each message to a function as an event, [Events] is middleware that leaves the event's data as the body. It is a module of its
// own, so that the SDK comes only to those who use it.
//
//	handler := cloudevents.Handler(func(_ context.Context, e event.Event) error {
//		fmt.Println(e.Type(), e.Source(), string(e.Data()))
//		return nil
//	})
//
// # Where an event is looked for
//
// Binary mode: the attributes are headers with the prefix "ce_", as the Kafka binding has them, or "ce-"; the body is the data, and the
// header content-type says of which type. SQS has no binding in the specification; message attributes of these names are read alike.
// Structured mode: the header content-type begins with application/cloudevents, and the body is the event in JSON. A message with
// neither is read as if it were in structured mode, for SQS, to which most senders give the body alone. Batches are refused by name.
//
// # Identity
//
// A producer that sends an event again gives it the same source and id: that pair names it (CloudEvents 1.0, "id"). [Key] and
// [Fingerprint] make one message of all copies, in whatever mode they come:
//
//	consumer.Options{KeyFunc: cloudevents.Key, FingerprintFunc: cloudevents.Fingerprint}
package cloudevents
