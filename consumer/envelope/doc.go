// Package envelope takes messages out of what AWS wraps them in, and unpacks compressed ones: middleware for handlers of
// single messages, and decoders for handlers of batches and for keys. It imports the standard library only.
//
//	type order struct {
//		ID string `json:"order"`
//	}
//	handler := consumer.Chain(consumer.JSON(func(ctx context.Context, o order) error {
//		fmt.Println("order", o.ID, "of", envelope.SNSFrom(ctx).TopicARN)
//		return nil
//	}), envelope.SNS)
//
// The handler gets a copy of the message with another body; consumer.MessageFrom still returns what the broker delivered, and
// [SNSFrom], [EventBridgeFrom] return what was around the body. What cannot be read fails for good ([consumer.Terminal]): the
// error names what and where, and never quotes a body.
//
// # Identity
//
// The ledger knows the message as the broker delivered it, whatever middleware makes of it: its id, and as its fingerprint the
// whole envelope. SQS delivers the same bytes again, so nothing needs to be set for that. But SNS and EventBridge may publish
// one event to a queue more than once, as messages with ids of their own. Who wants these to be one message sets
//
//	consumer.Options{KeyFunc: envelope.SNSKey, FingerprintFunc: envelope.SNSFingerprint}
//
// or [EventBridgeKey] and [EventBridgeFingerprint]. The fingerprint is needed too, since an envelope has fields (a signature, the
// name of a replay) that differ between two copies.
//
// # No signature is checked
//
// SNS signs notifications for HTTP endpoints, to which anybody can send. A queue takes messages from those alone that its policy
// allows to send; give it one that names the topic (aws:SourceArn), and a signature says nothing more
// (docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html).
package envelope
