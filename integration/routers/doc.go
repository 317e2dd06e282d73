// Package routers tests httpkey under chi, gin and echo, and shows the adapters that gin and echo need.
//
// It is a module of its own, so that the routers are in nobody's build but this test's.
package routers
