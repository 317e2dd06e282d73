// Package canonical brings a JSON text into the one form that all texts of the same meaning have, so that a request and its
// repetition have one fingerprint, although a client library has changed white space or the order of members in between.
//
//	a, _ := canonical.JSON([]byte(`{"amount": 10.0, "to": "K\u00f6ln"}`))
//	b, _ := canonical.JSON([]byte(`{"to":"Köln","amount":1e1}`))
//	fmt.Println(string(a) == string(b), string(a))
//
// [JSON] is the JSON Canonicalization Scheme (RFC 8785), and refuses what that scheme would change in its meaning: two amounts that
// differ beyond the precision of a double must never be taken for one. [Fields] keeps only what is named, for texts that carry a time
// or a trace of their own. Both suit Options.FingerprintFunc of a worker and the fingerprint of a request.
//
// All functions are pure, and may be called concurrently.
//
// # Files
//
// Each file uses what stands below it:
//
//	fields.go  the members that count
//	json.go    the canonical form
//	number.go  whether a number survives it
package canonical
