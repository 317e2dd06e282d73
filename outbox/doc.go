// Package outbox relays what was published inside of InTx (consumer.Publish) in a process of its own, without a consumer. Workers that
// consume relay with consumer.Options.Relay.
package outbox
