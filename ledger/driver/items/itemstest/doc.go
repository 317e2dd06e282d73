// Package itemstest has what the tests of an engine of [items.Table] need: hooks for the conformance suite of ledgers, and a table in
// memory on which others are ahead ([NewTable]), which runs the suite in seconds.
//
//	table := itemstest.NewTable(0.1, 1) // somebody is ahead of one set in ten
//	store := items.New(table)
//	hooks := &itemstest.Hooks{Store: store, Table: table}
//
// Only tests import it.
package itemstest
