package acts

import "fmt"

// RenewedDelivery names the archive row of a mended body.
func RenewedDelivery(token uint64) []byte { return fmt.Appendf(nil, "renewed:%d", token) }

// ReopenedDelivery is what becomes of the name of an archived delivery whose message is reopened: the delivery itself is
// archived no more, so that it runs when it comes again. token is the row's new one.
func ReopenedDelivery(token uint64, delivery []byte) []byte {
	return append(fmt.Appendf(nil, "reopened:%d:", token), delivery...)
}
